//! The kind of a statement, as far as its first word tells.

use crate::driver::SessionEffect;

/// The kind of a statement, which determines how it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatementKind {
    /// It reads, unless a function in it writes.
    Read,
    /// It reads diagnostics of the previous statement, which a Prepare would discard.
    Diagnostics,
    /// It opens a transaction.
    Begin,
    /// It ends a transaction or a part of it, or sets the characteristics of the next one.
    End,
    /// It changes settings of the session or its database, and so perhaps what names mean.
    Set,
    /// It changes rows, or calls functions, which may begin no transaction.
    Write,
    /// Anything else.
    Other,
}

/// The lasting effect of a statement on its session.
pub(super) fn session_effect(sql: &str) -> SessionEffect {
    classify(sql).1
}

/// The kind of a statement, and its lasting effect.
pub(super) fn classify(sql: &str) -> (StatementKind, SessionEffect) {
    use SessionEffect::{None, Settings, Transaction};
    let (word, rest) = first_word(sql);
    let is = |words: &[&str]| words.iter().any(|other| word.eq_ignore_ascii_case(other));
    let follows = |words: &[&str]| {
        let next = first_word(rest).0;
        words.iter().any(|other| next.eq_ignore_ascii_case(other))
    };
    if is(&["show"]) && follows(&["warnings", "errors"]) {
        (StatementKind::Diagnostics, None)
    } else if is(&[
        "select", "values", "table", "show", "explain", "describe", "desc",
    ]) {
        (StatementKind::Read, None)
    } else if is(&[
        "insert", "update", "delete", "replace", "with", "load", "do",
    ]) {
        (StatementKind::Write, None)
    } else if is(&["set"]) && follows(&["transaction"]) {
        // Of the next transaction only.
        (StatementKind::End, Settings)
    } else if is(&["set"]) && follows(&["statement"]) {
        // Of MariaDB: settings for the rest of the statement, which may give rows.
        (StatementKind::Other, effect_after_for(first_word(rest).1))
    } else if is(&["set", "use"]) {
        (StatementKind::Set, Settings)
    } else if is(&["begin"]) && !follows(&["not"]) || is(&["start"]) && follows(&["transaction"]) {
        // `BEGIN NOT ATOMIC` is a block of MariaDB's, and a replica can be started as well.
        (StatementKind::Begin, Transaction)
    } else if is(&["commit", "rollback", "savepoint", "release"]) {
        (StatementKind::End, None)
    } else if is(&["xa"]) && follows(&["start", "begin", "end", "prepare"]) {
        (StatementKind::Other, Transaction)
    } else if is(&["lock", "unlock", "handler", "prepare", "deallocate"])
        || is(&["execute"]) && follows(&["immediate"])
        || is(&["backup"])
        || is(&["flush"]) && locks_tables(rest)
    {
        // `EXECUTE IMMEDIATE` may run anything.
        (StatementKind::Other, Settings)
    } else {
        (StatementKind::Other, None)
    }
}

impl StatementKind {
    pub(super) fn of(sql: &str) -> Self {
        classify(sql).0
    }

    /// Whether an error leaves the session status unchanged: it neither begins a transaction nor
    /// turns off autocommit.
    pub(super) fn keeps_status(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Diagnostics)
    }

    /// Whether it chooses a database.
    pub(super) fn chooses_database(sql: &str) -> bool {
        first_word(sql).0.eq_ignore_ascii_case("use")
    }

    /// Whether many parameter sets can be sent at once.
    pub(super) fn takes_bulk(sql: &str) -> bool {
        let (word, _) = first_word(sql);
        let mut words = ["insert", "replace", "update", "delete"].iter();
        let changes = words.any(|other| word.eq_ignore_ascii_case(other));
        // MariaDB does not announce rows in advance.
        changes && !contains(sql, "returning")
    }

    /// Whether to request a cursor. MariaDB refuses one for statements that change rows and return
    /// them.
    pub(super) fn takes_cursor(sql: &str) -> bool {
        Self::of(sql) == Self::Read || first_word(sql).0.eq_ignore_ascii_case("with")
    }

    /// Whether it is sent as text: it gives no rows and is not worth preparing, or cannot be
    /// prepared.
    pub(super) fn is_bare(self) -> bool {
        matches!(
            self,
            Self::Begin | Self::End | Self::Set | Self::Diagnostics
        )
    }
}

/// What the statement leaves behind that `SET STATEMENT … FOR` is for, given what follows the second
/// word. Where it is not found for certain, it may be anything.
fn effect_after_for(settings: &str) -> SessionEffect {
    let mut words = Words::new(settings);
    if !words.any(|word| word.eq_ignore_ascii_case("for")) {
        return SessionEffect::Settings;
    }
    let (word, rest) = first_word(words.rest);
    let is_nested =
        word.eq_ignore_ascii_case("set") && first_word(rest).0.eq_ignore_ascii_case("statement");
    // Servers take no such statement in another.
    if word.is_empty() || is_nested {
        return SessionEffect::Settings;
    }
    classify(words.rest).1
}

/// Whether a FLUSH keeps locks: `WITH READ LOCK`, `FOR EXPORT`.
fn locks_tables(rest: &str) -> bool {
    let mut words = Words::new(rest);
    let is_found =
        words.any(|word| word.eq_ignore_ascii_case("lock") || word.eq_ignore_ascii_case("export"));
    is_found || words.is_doubtful
}

/// The words of a statement that are in no text, quoted name, comment or parentheses.
struct Words<'a> {
    /// What follows the last word.
    rest: &'a str,
    depth: usize,
    /// A comment that servers execute was met, where the words end.
    is_doubtful: bool,
}

impl<'a> Words<'a> {
    fn new(sql: &'a str) -> Self {
        Self {
            rest: sql,
            depth: 0,
            is_doubtful: false,
        }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            let first = self.rest.chars().next()?;
            let after = &self.rest[first.len_utf8()..];
            self.rest = match first {
                '\'' | '"' | '`' => after_quote(after, first),
                '(' => {
                    self.depth += 1;
                    after
                }
                ')' => {
                    self.depth = self.depth.saturating_sub(1);
                    after
                }
                '#' | '-' | '/' => match comment(self.rest) {
                    Comment::None => after,
                    Comment::Over(rest) => rest,
                    Comment::Executed => {
                        self.is_doubtful = true;
                        self.rest = "";
                        return None;
                    }
                },
                _ if is_of_word(first) => {
                    let end = self.rest.find(|c: char| !is_of_word(c));
                    let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                    self.rest = rest;
                    if self.depth == 0 {
                        return Some(word);
                    }
                    continue;
                }
                _ => after,
            };
        }
    }
}

/// Whether a word goes on with it; `@` and `.` too, so that no part of a name is a word.
fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '@' | '.')
}

/// The rest after a string or a quoted name whose beginning was consumed. With
/// `NO_BACKSLASH_ESCAPES`, strings with a backslash end at another position.
fn after_quote(mut rest: &str, quote: char) -> &str {
    loop {
        let Some(at) = rest.find([quote, '\\']) else {
            return "";
        };
        let is_escape = rest[at..].starts_with('\\') && quote != '`';
        let is_end = rest[at..].starts_with(quote);
        rest = &rest[at + 1..];
        if is_end {
            // A doubled quote is a text that ends and another that begins, which is the same here.
            return rest;
        }
        if is_escape {
            let mut escaped = rest.chars();
            escaped.next();
            rest = escaped.as_str();
        }
    }
}

/// Whether this is anywhere in a statement, be it in a text.
fn contains(sql: &str, name: &str) -> bool {
    let mut parts = sql.as_bytes().windows(name.len());
    parts.any(|part| part.eq_ignore_ascii_case(name.as_bytes()))
}

/// The first word of a statement, after white space, comments and parentheses, and the rest. An
/// executable comment (`/*! … */`) cannot be skipped: the statement has no first word then.
fn first_word(sql: &str) -> (&str, &str) {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|c: char| is_space(c) || c == '(');
        match comment(rest) {
            Comment::Over(after) => rest = after,
            Comment::Executed => return ("", ""),
            Comment::None => {
                let end = rest.find(|c: char| !c.is_ascii_alphabetic());
                return rest.split_at(end.unwrap_or(rest.len()));
            }
        }
    }
}

/// What servers skip between words: a vertical tab as well.
fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

/// Whether a text begins with a comment.
enum Comment<'a> {
    None,
    /// It does; this follows.
    Over(&'a str),
    /// With one that servers execute.
    Executed,
}

fn comment(sql: &str) -> Comment<'_> {
    let line = sql.strip_prefix('#').or_else(|| {
        let after = sql.strip_prefix("--")?;
        let is_comment = after.is_empty() || after.starts_with(is_space);
        is_comment.then_some(after)
    });
    if let Some(line) = line {
        Comment::Over(line.split_once('\n').map_or("", |(_, rest)| rest))
    } else if sql.starts_with("/*!") || sql.starts_with("/*M!") {
        Comment::Executed
    } else if let Some(comment) = sql.strip_prefix("/*") {
        Comment::Over(comment.split_once("*/").map_or("", |(_, rest)| rest))
    } else {
        Comment::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_many_sets() {
        for (sql, expected) in [
            ("insert into t values (?)", true),
            ("/* */ DELETE from t where k = ?", true),
            ("insert into t values (?) Returning k", false),
            ("select ?", false),
            ("call p(?)", false),
        ] {
            assert_eq!(StatementKind::takes_bulk(sql), expected, "{sql}");
        }
    }

    #[test]
    fn what_a_session_keeps() {
        for (sql, expected) in [
            ("select 1", SessionEffect::None),
            ("/*! begin */", SessionEffect::None),
            ("call p()", SessionEffect::None),
            ("commit", SessionEffect::None),
            ("begin not atomic end", SessionEffect::None),
            (
                "set statement max_statement_time = 1 for select 1",
                SessionEffect::None,
            ),
            (
                "set statement a = 'x for use', b = (select 1 for update) for\n(select 1)",
                SessionEffect::None,
            ),
            (
                "set statement a = 'it''s \\' for' for call p()",
                SessionEffect::None,
            ),
            (
                "set statement max_statement_time = 1 for use other",
                SessionEffect::Settings,
            ),
            (
                "SET /* for */ STATEMENT a = 'for select' FOR/**/USE other",
                SessionEffect::Settings,
            ),
            (
                "set statement a = 1 for set @b = 2",
                SessionEffect::Settings,
            ),
            ("set statement a = 1 for begin", SessionEffect::Transaction),
            (
                "set statement a = 1 /*! for */ use other",
                SessionEffect::Settings,
            ),
            (
                "set statement a = 1 for /*! use other */",
                SessionEffect::Settings,
            ),
            (
                "set statement a = 1 for set statement b = 1 for select 1",
                SessionEffect::Settings,
            ),
            ("set statement a = @for for", SessionEffect::Settings),
            ("execute p", SessionEffect::None),
            ("execute immediate 'use other'", SessionEffect::Settings),
            ("Execute /**/ IMMEDIATE @a", SessionEffect::Settings),
            ("flush tables", SessionEffect::None),
            ("flush tables `lock`, locks", SessionEffect::None),
            ("flush tables with read lock", SessionEffect::Settings),
            (
                "flush tables t WITH READ /* */ LOCK",
                SessionEffect::Settings,
            ),
            ("flush local tables t for export", SessionEffect::Settings),
            (
                "flush tables /*! with read lock */",
                SessionEffect::Settings,
            ),
            ("backup stage start", SessionEffect::Settings),
            ("backup lock t", SessionEffect::Settings),
            ("backup unlock", SessionEffect::Settings),
            ("\x0buse other", SessionEffect::Settings),
            ("xa commit 'x'", SessionEffect::None),
            ("xa recover", SessionEffect::None),
            ("Begin", SessionEffect::Transaction),
            ("start transaction", SessionEffect::Transaction),
            ("xa start 'x'", SessionEffect::Transaction),
            ("XA prepare 'x'", SessionEffect::Transaction),
            ("set autocommit = 0", SessionEffect::Settings),
            ("set transaction read only", SessionEffect::Settings),
            ("use other", SessionEffect::Settings),
            ("lock tables t write", SessionEffect::Settings),
        ] {
            assert_eq!(session_effect(sql), expected, "{sql}");
        }
    }

    #[test]
    fn the_first_word_tells() {
        for (sql, expected) in [
            ("select 1", StatementKind::Read),
            (" \n((VALUES (1)))", StatementKind::Read),
            ("/* a */ # b\n-- c\n Table t", StatementKind::Read),
            ("/*! select */ 1", StatementKind::Other),
            ("/*M! select */ 1", StatementKind::Other),
            ("--1", StatementKind::Other),
            ("with a as (select 1) select * from a", StatementKind::Write),
            ("insert into t select 1", StatementKind::Write),
            ("do 0", StatementKind::Write),
            ("SHOW warnings limit 1", StatementKind::Diagnostics),
            ("show tables", StatementKind::Read),
            ("BEGIN", StatementKind::Begin),
            ("start transaction", StatementKind::Begin),
            ("begin work", StatementKind::Begin),
            ("begin not atomic end", StatementKind::Other),
            ("start replica", StatementKind::Other),
            ("rollback to a", StatementKind::End),
            ("use other", StatementKind::Set),
            ("Set @@sql_mode = ''", StatementKind::Set),
            ("set transaction read only", StatementKind::End),
            ("set session transaction read only", StatementKind::Set),
            (
                "set statement max_statement_time = 1 for select 1",
                StatementKind::Other,
            ),
            ("call p()", StatementKind::Other),
            ("/* without end", StatementKind::Other),
            ("", StatementKind::Other),
        ] {
            assert_eq!(StatementKind::of(sql), expected, "{sql}");
        }
    }
}
