//! The kind of a statement, as far as its first word tells.

use crate::driver::SessionEffect;

/// The kind of a statement, which determines how it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatementKind {
    /// It reads, unless a function in it writes.
    Read,
    /// It changes rows: all of them or none.
    Write,
    /// It opens a transaction.
    Begin,
    /// It ends a transaction, and shall keep what was done.
    Commit,
    /// It changes settings of the session, and so perhaps what names mean.
    Set,
    /// It ends a transaction, or sets, releases or rolls back to a savepoint.
    Control,
    /// It is a COPY, which has its own message flow.
    Copy,
    /// Anything else; some of it cannot be undone.
    Other,
}

impl StatementKind {
    pub(super) fn of(sql: &str) -> Self {
        let word = first_word(sql);
        let is = |words: &[&str]| words.iter().any(|other| word.eq_ignore_ascii_case(other));
        if is(&["set", "reset", "discard", "deallocate"]) || calls_set_config(sql) {
            Self::Set
        } else if is(&["select", "values", "table", "show"]) {
            Self::Read
        } else if is(&["insert", "update", "delete", "merge", "with"]) {
            Self::Write
        } else if is(&["begin", "start"]) {
            Self::Begin
        } else if is(&["commit", "end"]) {
            Self::Commit
        } else if is(&["rollback", "abort", "savepoint", "release"]) {
            Self::Control
        } else if is(&["copy"]) {
            Self::Copy
        } else {
            Self::Other
        }
    }

    /// Whether it only controls a transaction: begin, end, or savepoints.
    pub(super) fn is_control(self) -> bool {
        matches!(self, Self::Begin | Self::Commit | Self::Control)
    }

    /// Whether an error undoes the statement completely.
    pub(super) fn is_atomic(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// The lasting effect of a statement on its session, as far as its first word tells.
pub(super) fn session_effect(sql: &str) -> SessionEffect {
    const SETTINGS: &[&str] = &[
        "set",
        "reset",
        "discard",
        "listen",
        "unlisten",
        "prepare",
        "deallocate",
        "declare",
        "load",
    ];
    let word = first_word(sql);
    if StatementKind::of(sql) == StatementKind::Begin {
        SessionEffect::Transaction
    } else if SETTINGS
        .iter()
        .any(|other| word.eq_ignore_ascii_case(other))
    {
        SessionEffect::Settings
    } else {
        SessionEffect::None
    }
}

/// Whether the server's scanner skips it: since PostgreSQL 16 a vertical tab as well. Before a word
/// nothing else is allowed than parentheses, and empty statements, which are left out.
fn is_skipped(c: char) -> bool {
    c.is_ascii_whitespace() || matches!(c, '\x0b' | '(' | ';')
}

/// The word that a statement begins with, after space, comments, parentheses and empty statements.
fn first_word(sql: &str) -> &str {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(is_skipped);
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = after_comment(comment);
        } else {
            let end = rest.find(|c: char| !c.is_ascii_alphabetic());
            return &rest[..end.unwrap_or(rest.len())];
        }
    }
}

/// What follows a comment whose beginning was taken. Such comments nest.
fn after_comment(mut rest: &str) -> &str {
    let mut depth = 1;
    while depth > 0 {
        let Some(at) = rest.find(['*', '/']) else {
            return "";
        };
        rest = &rest[at..];
        let size = match rest.as_bytes() {
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            _ => 1,
        };
        rest = &rest[size..];
    }
    rest
}

/// Whether the function that does what SET does is named anywhere. A false alarm only costs
/// statements that have to be prepared again.
fn calls_set_config(sql: &str) -> bool {
    let name = b"set_config";
    let mut windows = sql.as_bytes().windows(name.len());
    windows.any(|window| window.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_session_keeps() {
        for (sql, expected) in [
            ("select 1", SessionEffect::None),
            ("select set_config('a.b', 'c', false)", SessionEffect::None),
            ("commit", SessionEffect::None),
            ("begin", SessionEffect::Transaction),
            ("Start transaction", SessionEffect::Transaction),
            ("; begin", SessionEffect::Transaction),
            (" ;/* a */;-- b\n;begin", SessionEffect::Transaction),
            ("\x0bbegin", SessionEffect::Transaction),
            ("; set role a", SessionEffect::Settings),
            (";set search_path=other", SessionEffect::Settings),
            ("; listen a", SessionEffect::Settings),
            (";", SessionEffect::None),
            ("; select 1", SessionEffect::None),
            ("SET role none", SessionEffect::Settings),
            ("/* a */ reset all", SessionEffect::Settings),
            ("listen a", SessionEffect::Settings),
            ("prepare transaction 'a'", SessionEffect::Settings),
        ] {
            assert_eq!(session_effect(sql), expected, "{sql}");
        }
    }

    #[test]
    fn the_first_word_tells() {
        for (sql, expected) in [
            ("select 1", StatementKind::Read),
            (" \n((VALUES (1)))", StatementKind::Read),
            ("/* a /* b */ c */ -- d\n Table t", StatementKind::Read),
            (
                "with a as (delete from t returning *) table a",
                StatementKind::Write,
            ),
            ("insert into t select 1", StatementKind::Write),
            ("selection", StatementKind::Other),
            ("BEGIN", StatementKind::Begin),
            ("start transaction", StatementKind::Begin),
            ("COMMIT and chain", StatementKind::Commit),
            ("end", StatementKind::Commit),
            ("rollback", StatementKind::Control),
            ("release savepoint a", StatementKind::Control),
            ("set search_path to a", StatementKind::Set),
            (";;set search_path to a", StatementKind::Set),
            ("; commit", StatementKind::Commit),
            ("select Set_Config('a.b', 'c', false)", StatementKind::Set),
            ("discard all", StatementKind::Set),
            ("/**/copy t from stdin", StatementKind::Copy),
            ("call p()", StatementKind::Other),
            ("/* without end", StatementKind::Other),
            ("-- without end", StatementKind::Other),
            ("", StatementKind::Other),
        ] {
            assert_eq!(StatementKind::of(sql), expected, "{sql}");
        }
    }
}
