//! What a statement does, as far as its first word tells.

/// What the driver has to know about a statement before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// It reads, unless a function in it writes.
    Read,
    /// It opens a transaction.
    Begin,
    /// It ends a transaction or a part of it, or says how the next one is to be.
    End,
    /// It changes settings of the session or its database, and so perhaps what names mean.
    Set,
    /// Anything else.
    Other,
}

impl Verb {
    pub(super) fn of(sql: &str) -> Self {
        let (word, rest) = first_word(sql);
        let follows = |word: &str| first_word(rest).0.eq_ignore_ascii_case(word);
        let is = |words: &[&str]| words.iter().any(|other| word.eq_ignore_ascii_case(other));
        if is(&[
            "select", "values", "table", "show", "explain", "describe", "desc",
        ]) {
            Self::Read
        } else if is(&["set"]) && follows("transaction") {
            // Of the next transaction only.
            Self::End
        } else if is(&["set"]) && follows("statement") {
            // Of MariaDB: settings for the rest of the statement, which may give rows.
            Self::Other
        } else if is(&["set", "use"]) {
            Self::Set
        } else if is(&["begin"]) && !follows("not") || is(&["start"]) && follows("transaction") {
            // `BEGIN NOT ATOMIC` is a block of MariaDB's, and a replica can be started as well.
            Self::Begin
        } else if is(&["commit", "rollback", "savepoint", "release"]) {
            Self::End
        } else {
            Self::Other
        }
    }

    /// Whether a `SET` may turn off that each statement commits itself, which is to begin a
    /// transaction.
    pub(super) fn sets_autocommit(sql: &str) -> bool {
        contains(sql, "autocommit")
    }

    /// Whether many parameter sets can be sent at once.
    pub(super) fn takes_bulk(sql: &str) -> bool {
        let (word, _) = first_word(sql);
        let mut words = ["insert", "replace", "update", "delete"].iter();
        let changes = words.any(|other| word.eq_ignore_ascii_case(other));
        // MariaDB does not say before that there will be rows.
        changes && !contains(sql, "returning")
    }

    /// Whether a cursor is asked for. What changes rows and returns them MariaDB refuses with one.
    pub(super) fn takes_cursor(sql: &str) -> bool {
        Self::of(sql) == Self::Read || first_word(sql).0.eq_ignore_ascii_case("with")
    }

    /// Whether it gives no rows and is not worth preparing; some of it cannot be prepared.
    pub(super) fn is_bare(self) -> bool {
        matches!(self, Self::Begin | Self::End | Self::Set)
    }
}

/// Whether this is anywhere in a statement, be it in a text.
fn contains(sql: &str, name: &str) -> bool {
    let mut parts = sql.as_bytes().windows(name.len());
    parts.any(|part| part.eq_ignore_ascii_case(name.as_bytes()))
}

/// The word that a statement begins with, behind space, comments and parentheses, and what follows
/// it. A comment that servers execute (`/*! … */`) is none that could be skipped, so there is no word.
fn first_word(sql: &str) -> (&str, &str) {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '(');
        let line = rest.strip_prefix('#').or_else(|| {
            let behind = rest.strip_prefix("--")?;
            let is_comment =
                behind.is_empty() || behind.starts_with(|c: char| c.is_ascii_whitespace());
            is_comment.then_some(behind)
        });
        if let Some(comment) = line {
            rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
        } else if rest.starts_with("/*!") || rest.starts_with("/*M!") {
            return ("", "");
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
        } else {
            let end = rest.find(|c: char| !c.is_ascii_alphabetic());
            return rest.split_at(end.unwrap_or(rest.len()));
        }
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
            assert_eq!(Verb::takes_bulk(sql), expected, "{sql}");
        }
    }

    #[test]
    fn what_begins_a_transaction_by_a_setting() {
        for (sql, expected) in [
            ("set autocommit = 0", true),
            ("SET NAMES utf8mb4, @@session.AutoCommit=off", true),
            ("set names utf8mb4", false),
            ("set", false),
        ] {
            assert_eq!(Verb::sets_autocommit(sql), expected, "{sql}");
        }
    }

    #[test]
    fn the_first_word_tells() {
        for (sql, expected) in [
            ("select 1", Verb::Read),
            (" \n((VALUES (1)))", Verb::Read),
            ("/* a */ # b\n-- c\n Table t", Verb::Read),
            ("/*! select */ 1", Verb::Other),
            ("/*M! select */ 1", Verb::Other),
            ("--1", Verb::Other),
            ("with a as (select 1) select * from a", Verb::Other),
            ("insert into t select 1", Verb::Other),
            ("BEGIN", Verb::Begin),
            ("start transaction", Verb::Begin),
            ("begin work", Verb::Begin),
            ("begin not atomic end", Verb::Other),
            ("start replica", Verb::Other),
            ("rollback to a", Verb::End),
            ("use other", Verb::Set),
            ("Set @@sql_mode = ''", Verb::Set),
            ("set transaction read only", Verb::End),
            ("set session transaction read only", Verb::Set),
            (
                "set statement max_statement_time = 1 for select 1",
                Verb::Other,
            ),
            ("call p()", Verb::Other),
            ("/* without end", Verb::Other),
            ("", Verb::Other),
        ] {
            assert_eq!(Verb::of(sql), expected, "{sql}");
        }
    }
}
