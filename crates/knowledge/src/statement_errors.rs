//! Errors of statements and parameters.

use std::time::Duration;

use lookaside_value::{LookupError, LookupErrorKind, Text};

use crate::error::{Error, ErrorKind};
use crate::provider::Names;
use crate::scan::Dialect;
use crate::sqlite_error;

/// The most characters of a statement that a message shows.
const SQL_SHOWN_MAX: usize = 80;

impl Error {
    pub(crate) fn empty_statement() -> Self {
        Self::new(
            ErrorKind::Refused,
            "the statement is empty; write a `select`",
        )
    }

    /// A statement that is not a query; the message tells how data is changed in its database.
    pub(crate) fn not_a_query(sql: &str, dialect: Dialect) -> Self {
        let instead = match dialect {
            Dialect::Sqlite => "to change a table, change its data file and reload",
            _ => "data of a provider is changed on its server",
        };
        let message = format!(
            "statement `{}`: only queries are answered (select, with, values); {instead}",
            shown(sql)
        );
        Self::new(ErrorKind::Refused, message)
    }

    /// A query that locks the rows that it finds.
    pub(crate) fn locking_query(sql: &str) -> Self {
        let message = format!(
            "statement `{}`: a lookup cannot lock rows, because it has no transaction; omit `for \
             update` and the like",
            shown(sql)
        );
        Self::new(ErrorKind::Refused, message)
    }

    /// A statement that begins with an unknown word, perhaps a misspelling of another.
    pub(crate) fn unknown_beginning(sql: &str, word: &str, meant: Option<&str>) -> Self {
        let hint = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "a query begins with select, with or values".to_owned(),
        };
        let message = format!(
            "statement `{}`: near \"{}\": syntax error; {hint}",
            shown(sql),
            shown(word)
        );
        Self::new(ErrorKind::Refused, message)
    }

    pub(crate) fn several_statements(sql: &str, at: usize) -> Self {
        let line = sql[..at].matches('\n').count() + 1;
        let message = format!(
            "statement `{}`: text follows the semicolon (line {line}); give one statement at a time",
            shown(sql)
        );
        Self::new(ErrorKind::Refused, message)
    }

    pub(crate) fn parameter_form(sql: &str, parameter: &str) -> Self {
        let message = format!(
            "statement `{}`: parameter `{parameter}` has no name; write parameters as `:name`",
            shown(sql)
        );
        Self::new(ErrorKind::Refused, message)
    }

    pub(crate) fn parameter_unknown(sql: &str, name: &str, params: &[Text]) -> Self {
        let message = format!(
            "statement `{}`: no parameter is named `{name}`; {}",
            shown(sql),
            known(params)
        );
        Self::new(ErrorKind::Refused, message).of_unknown_param(name)
    }

    pub(crate) fn parameter_unused(sql: &str, name: &str) -> Self {
        let message = format!(
            "statement `{}`: parameter `{name}` does not occur in it",
            shown(sql)
        );
        Self::new(ErrorKind::Refused, message)
    }

    pub(crate) fn parameter_twice(sql: &str, name: &str) -> Self {
        let message = format!(
            "statement `{}`: parameter `{name}` is given twice; give it once",
            shown(sql)
        );
        Self::new(ErrorKind::Refused, message)
    }

    pub(crate) fn parameter_missing(sql: &str, missing: &[&Text]) -> Self {
        let names: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
        let message = format!(
            "statement `{}`: no value is given for parameter {}",
            shown(sql),
            names.join(", ")
        );
        Self::new(ErrorKind::Refused, message).of_missing_params(missing)
    }

    pub(crate) fn value_count(sql: &str, params: &[Text], given: usize) -> Self {
        let message = format!(
            "statement `{}`: {given} values for {} parameters; {}",
            shown(sql),
            params.len(),
            known(params)
        );
        Self::new(ErrorKind::Refused, message)
    }

    pub(crate) fn too_many_statements(count_max: usize) -> Self {
        let message = format!(
            "the maximum of {count_max} prepared statements is reached; pass the values that \
             differ between them as parameters"
        );
        Self::new(ErrorKind::LimitReached, message)
    }

    pub(crate) fn foreign_statement(sql: &str) -> Self {
        let message = format!(
            "statement `{}` was prepared by another engine; prepare it here",
            shown(sql)
        );
        Self::new(ErrorKind::Refused, message)
    }

    pub(crate) fn statement_unknown(index: usize) -> Self {
        let message = format!("no statement {index} is prepared; prepare it with this engine");
        Self::new(ErrorKind::Refused, message)
    }

    /// A statement that reads from a provider that does not exist.
    pub(crate) fn provider_unknown(sql: &str, prefix: &str, names: &Names) -> Self {
        let message = format!("statement `{}`: {}", shown(sql), names.instead_of(prefix));
        Self::new(ErrorKind::Refused, message)
    }

    /// There is no provider with this name.
    pub(crate) fn no_provider(name: &str, names: &Names) -> Self {
        Self::new(ErrorKind::Refused, names.instead_of(name))
    }

    /// Answers of a provider cannot be invalidated, because its change feed is not live.
    pub(crate) fn no_feed(provider: &str, state: &str) -> Self {
        let message = format!(
            "the cached answers of provider {provider} cannot be invalidated, because its change feed is \
             not live ({state}); they are used until ttl_ms has passed"
        );
        Self::new(ErrorKind::Unavailable, message)
    }

    /// A table without the name of its provider.
    pub(crate) fn no_table(name: &str) -> Self {
        let message =
            format!("`{name}` does not name a table of a provider; write `provider.table`");
        Self::new(ErrorKind::Refused, message)
    }

    /// A statement that reads tables of two databases; `first` and `second` are a table and the
    /// name of its provider.
    pub(crate) fn mixed(sql: &str, first: (&str, &str), second: (&str, &str)) -> Self {
        let message = format!(
            "statement `{}`: `{}` is in `{}` and `{}` in `{}`, but a statement can read only one \
             database; write two statements, or qualify all tables with one provider",
            shown(sql),
            first.0,
            first.1,
            second.0,
            second.1
        );
        Self::new(ErrorKind::Refused, message)
    }

    /// A statement that reads a table of `[[first_of]]` and anything else.
    pub(crate) fn first_of_not_plain(sql: &str, name: &str) -> Self {
        let message = format!(
            "statement `{}`: `{name}` is defined by [[first_of]], so a statement that reads it must be a \
             single select from it, without joins, with, union or subqueries; read its tables instead",
            shown(sql)
        );
        Self::new(ErrorKind::Refused, message)
    }

    /// A statement that SQLite would answer, without a copy of its table.
    pub(crate) fn no_sqlite_copy(sql: &str, table: &str, reason: &str) -> Self {
        let message = format!(
            "statement `{}`: it has no native plan ({reason}), and SQLite has no copy of {table:?}, as \
             sqlite_copy is \"never\" in [local]; write a statement with a native plan, or set \"lazy\"",
            shown(sql)
        );
        Self::new(ErrorKind::Refused, message)
    }

    /// A statement that aggregates the rows of a table of `[[first_of]]`.
    pub(crate) fn first_of_aggregated(sql: &str, name: &str) -> Self {
        let message = format!(
            "statement `{}`: `{name}` is defined by [[first_of]], so a statement that reads it cannot use \
             aggregate or window functions: an aggregate returns a row even for a table without rows; \
             aggregate the rows of one table instead",
            shown(sql)
        );
        Self::new(ErrorKind::Refused, message)
    }

    /// A statement whose expansions for the tables of `[[first_of]]` differ.
    pub(crate) fn first_of_differs(sql: &str, name: &str, difference: &str) -> Self {
        let message = format!(
            "statement `{}`: the tables of `{name}` have {difference}; select columns that all of them \
             have",
            shown(sql)
        );
        Self::new(ErrorKind::Refused, message)
    }

    /// A statement that exceeded its time limit.
    pub(crate) fn query_timeout(sql: &str, limit: Duration) -> Self {
        let message = format!(
            "statement `{}`: SQLite did not answer within {limit:?} (query_timeout_ms of \
             [local]); increase it, or run `lookaside explain` to see how the statement is answered",
            shown(sql)
        );
        Self::new(ErrorKind::LimitReached, message).of_query_timeout(limit)
    }

    /// A statement whose query was cancelled.
    pub(crate) fn query_cancelled(sql: &str) -> Self {
        let message = format!(
            "statement `{}`: cancelled before it was answered",
            shown(sql)
        );
        Self::new(ErrorKind::Cancelled, message)
    }

    /// A statement that SQLite refused or that failed while it ran.
    pub(crate) fn statement(sql: &str, source: rusqlite::Error) -> Self {
        Self::statement_with_hint(sql, source, None)
    }

    /// As [`Self::statement`], with a hint.
    pub(crate) fn statement_with_hint(
        sql: &str,
        source: rusqlite::Error,
        hint: Option<String>,
    ) -> Self {
        use rusqlite::ErrorCode;
        if let Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly) =
            source.sqlite_error_code()
        {
            return Self::not_a_query(sql, Dialect::Sqlite);
        }
        // SQLite's own message is complete: rusqlite adds the whole statement and a code.
        let (reason, place) = match &source {
            rusqlite::Error::SqlInputError {
                msg, sql, offset, ..
            } => (msg.as_str(), place_in(sql, *offset)),
            rusqlite::Error::SqliteFailure(_, Some(msg)) => (msg.as_str(), None),
            _ => {
                let doing = format!("statement `{}`: {source}", shown(sql));
                return Self::new(Self::sqlite_kind(&source), doing);
            }
        };
        let mut message = format!("statement `{}`: {reason}", shown(sql));
        if let Some(place) = place {
            message.push_str(&format!(" ({place})"));
        }
        if let Some(hint) = hint {
            message.push_str(&format!("; {hint}"));
        }
        Self::new(Self::sqlite_kind(&source), message)
    }
}

/// The position of an offset in a statement that a message does not show unchanged.
fn place_in(sql: &str, offset: std::ffi::c_int) -> Option<String> {
    match shown(sql) == sql {
        true => None,
        false => sqlite_error::location(sql, offset),
    }
}

impl Error {
    pub(crate) fn reload_thread(source: std::io::Error) -> Self {
        let message = "the thread that reloads tables cannot be started";
        Self::with_source(ErrorKind::Environment, message, source)
    }

    pub(crate) fn watch(source: notify::Error) -> Self {
        let message = "changes of files cannot be watched; open without watching";
        Self::with_source(ErrorKind::Environment, message, source)
    }
}

impl From<Error> for LookupError {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Environment | ErrorKind::Cancelled => {
                LookupErrorKind::Unavailable
            }
            ErrorKind::LimitReached => LookupErrorKind::LimitReached,
            _ => LookupErrorKind::Refused,
        };
        Self::new(kind, error.to_string()).with_source(error)
    }
}

fn known(params: &[Text]) -> String {
    if params.is_empty() {
        return "it has none".into();
    }
    let names: Vec<String> = params.iter().map(|name| format!("`{name}`")).collect();
    format!("it has {}", names.join(", "))
}

/// A statement on one line and short enough for a message.
pub(crate) fn shown(sql: &str) -> String {
    let mut words = sql.split_whitespace();
    let mut line = String::from(words.next().unwrap_or_default());
    for word in words {
        if line.len() > SQL_SHOWN_MAX {
            break;
        }
        line.push(' ');
        line.push_str(word);
    }
    match line.char_indices().nth(SQL_SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_statements_are_cut_and_lie_on_one_line() {
        assert_eq!(shown("select\n  1"), "select 1");
        let long = shown(&format!("select '{}'", "é".repeat(500)));
        assert_eq!(long.chars().count(), SQL_SHOWN_MAX + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn places_are_told_where_the_statement_is_not_shown_whole() {
        assert_eq!(place_in("select a", 7), None);
        let sql = "select é,\n  b from t";
        let place = |text| place_in(sql, sql.find(text).unwrap() as i32);
        assert_eq!(place("b from").as_deref(), Some("line 2, column 3"));
        assert_eq!(place(",").as_deref(), Some("line 1, column 9"));
        assert_eq!(place_in(sql, -1), None);
        assert_eq!(place_in(sql, 1000), None);
    }

    #[test]
    fn kinds_carry_over_to_lookups() {
        for (kind, expected) in [
            (ErrorKind::Refused, LookupErrorKind::Refused),
            (ErrorKind::Data, LookupErrorKind::Refused),
            (ErrorKind::Unavailable, LookupErrorKind::Unavailable),
            (ErrorKind::LimitReached, LookupErrorKind::LimitReached),
        ] {
            let error = LookupError::from(Error::new(kind, "x"));
            assert_eq!(error.kind(), expected);
            assert_eq!(error.to_string(), "x");
        }
    }
}
