//! Errors of queries to other databases.

use std::error::Error as StdError;
use std::time::Duration;

use lookaside_client::types::{mysql, postgres};
use lookaside_client::{Error as ClientError, ErrorKind as ClientKind};
use lookaside_value::Text;

use super::{Remote, RemoteStatement, ResolveError};
use crate::error::{Error, ErrorKind};
use crate::provider::{LocalTables, Names, unknown_prefix};
use crate::statement::StatementInfo;
use crate::statement_errors::shown;

/// SQLSTATE classes of failures of the server and not of the statement: connection, transaction
/// rollback, resources, operator intervention, system error.
const PASSING_CLASSES: [&[u8; 2]; 5] = [b"08", b"40", b"53", b"57", b"58"];

impl Error {
    /// A statement that a provider did not answer. `statement` is `None` while it is being
    /// described.
    pub(crate) fn provider(
        remote: &Remote,
        info: &StatementInfo,
        statement: Option<&RemoteStatement>,
        error: &ClientError,
    ) -> Self {
        let kind = kind_of(error);
        let name = remote.name();
        let sql = shown(&info.sql);
        let reason = reason_of(error);
        let message = match kind {
            ErrorKind::Refused => {
                let param = statement.and_then(|statement| param_of(error, statement));
                let param =
                    param.map_or_else(String::new, |param| format!("parameter `{param}`: "));
                // The client only reports its number.
                let reason = match reason.strip_prefix("parameter `") {
                    Some(rest) => rest.split_once(": ").map_or(rest, |(_, reason)| reason),
                    None => &reason,
                };
                format!("statement `{sql}`: provider `{name}` refused it: {param}{reason}")
            }
            ErrorKind::LimitReached => {
                format!("statement `{sql}`: provider `{name}`: {reason}")
            }
            _ => {
                let place = &remote.place;
                let what = match error.is_log_in_refused() {
                    true => "cannot be queried",
                    false => "does not answer",
                };
                let hint = error.hint().map(|step| format!("; {step}"));
                let hint = hint.unwrap_or_default();
                format!("provider `{name}` ({place}) {what}: {reason}{hint}")
            }
        };
        // The reason contains the whole text of the client's error; a source chain would repeat it.
        let said = Self::new(kind, message);
        match kind {
            ErrorKind::Unavailable => said.of_provider(name),
            _ => said,
        }
    }

    /// A statement that a provider refused, perhaps because a qualifier is not the name of a
    /// provider, or because a table belongs to the folder. `names` and `tables` are the existing
    /// ones.
    pub(crate) fn provider_misled(
        remote: &Remote,
        info: &StatementInfo,
        error: &ClientError,
        names: &Names,
        tables: &LocalTables,
    ) -> Self {
        let said = Self::provider(remote, info, None, error);
        if !is_missing(error) {
            return said;
        }
        let hint = match unknown_prefix(&info.sql, names, remote.dialect) {
            Some(prefix) => Some(names.instead_of(prefix)),
            None => tables.instead_of(&info.sql, names, remote.dialect),
        };
        match hint {
            Some(hint) => said.with_hint(&hint),
            None => said,
        }
    }

    /// A statement that was not answered in time.
    pub(crate) fn provider_timeout(remote: &Remote, info: &StatementInfo) -> Self {
        let timeout = remote.config.query_timeout.unwrap_or_default();
        let message = format!(
            "statement `{}`: provider `{}` ({}) did not answer within {timeout:?} \
             (query_timeout_ms)",
            shown(&info.sql),
            remote.name(),
            remote.place
        );
        Self::new(ErrorKind::Unavailable, message).of_provider(remote.name())
    }

    /// A server to which no connection could be opened in time, for a reason that is not known yet.
    pub(crate) fn provider_unreached(remote: &Remote, timeout: Duration) -> Self {
        let (name, place) = (remote.name(), &remote.place);
        let message = format!(
            "provider `{name}` ({place}) does not answer: no connection within {timeout:?}"
        );
        Self::new(ErrorKind::Unavailable, message).of_provider(name)
    }

    /// A server that did not describe a statement in time.
    pub(crate) fn provider_silent(remote: &Remote) -> Self {
        let (name, place) = (remote.name(), &remote.place);
        let message = format!("provider `{name}` ({place}) has not answered yet");
        Self::new(ErrorKind::Unavailable, message).of_provider(name)
    }

    /// There is no function that returns the URL of the embedded database.
    pub(crate) fn no_resolver(name: &str) -> Self {
        let message = format!(
            "provider `{name}` is embedded, and this program starts no PostgreSQL; give the builder \
             one (`Builder::embedded`), or use the program `lookaside`"
        );
        Self::new(ErrorKind::Config, message)
    }

    pub(crate) fn unresolved(name: &str, source: ResolveError) -> Self {
        let message = format!("provider `{name}`: the embedded PostgreSQL cannot be started");
        Self::boxed(ErrorKind::Environment, message, source)
    }

    pub(crate) fn provider_thread(source: std::io::Error) -> Self {
        let message = "the thread of the providers' connections cannot be started";
        Self::with_source(ErrorKind::Environment, message, source)
    }

    /// The table of a `select *` has changed.
    pub(crate) fn columns_changed(
        remote: &Remote,
        info: &StatementInfo,
        described: &[Text],
        found: &[Text],
    ) -> Self {
        let message = format!(
            "statement `{}`: provider `{}` returned other columns ({}) than it described ({}); \
             name the columns in the statement, or restart the program",
            shown(&info.sql),
            remote.name(),
            found.join(", "),
            described.join(", ")
        );
        Self::new(ErrorKind::Refused, message)
    }
}

fn kind_of(error: &ClientError) -> ErrorKind {
    match error.kind() {
        ClientKind::Misuse => ErrorKind::Refused,
        ClientKind::Limit if error.is_retryable() => ErrorKind::Unavailable,
        ClientKind::Limit => ErrorKind::LimitReached,
        ClientKind::Refused if !is_passing(error) => ErrorKind::Refused,
        _ => ErrorKind::Unavailable,
    }
}

/// Whether the same query may be answered later: the log-in failed, or the server had a problem.
fn is_passing(error: &ClientError) -> bool {
    let class = error.sqlstate().map(|state| state.class());
    error.is_log_in_refused() || class.is_some_and(|class| PASSING_CLASSES.contains(&&class))
}

/// Whether a table, or its schema or database, is missing.
fn is_missing(error: &ClientError) -> bool {
    let state = error.sqlstate();
    let state = state.as_ref().map(|state| state.as_bytes());
    // For PostgreSQL a table or a schema, for MySQL a table or a database.
    let is_database = error.mysql().is_some_and(|error| error.code() == 1049);
    is_database || matches!(state, Some(b"42P01" | b"3F000" | b"42S02"))
}

/// The text of an error and its causes, without generic levels such as "refused", or a timeout that
/// its cause explains.
fn reason_of(error: &ClientError) -> String {
    let mut words = vec![error.to_string()];
    let mut source = error.source();
    while let Some(cause) = source {
        words.push(cause.to_string());
        source = cause.source();
    }
    let is_refusal = matches!(error.kind(), ClientKind::Refused | ClientKind::Misuse);
    let is_hull = is_refusal || words[0].contains("`PoolOptions::");
    if is_hull && words.len() > 1 {
        words.remove(0);
    }
    // The message must not mention options of the client.
    for word in &mut words {
        if let Some(end) = word.find("; see `") {
            word.truncate(end);
        }
    }
    words.join(": ")
}

/// The parameter that an error is about.
fn param_of<'a>(error: &ClientError, statement: &'a RemoteStatement) -> Option<&'a Text> {
    let cause = error.source();
    let named = cause.and_then(|cause| {
        let postgres = cause.downcast_ref::<postgres::ParamError>();
        let mysql = cause.downcast_ref::<mysql::ParamError>();
        postgres
            .map(postgres::ParamError::name)
            .or(mysql.map(mysql::ParamError::name))
    });
    if let Some(name) = named {
        return statement.param(name.get(1..)?.parse().ok()?);
    }
    // PostgreSQL reports it in the context: `unnamed portal parameter $1 = '…'`.
    let context = error.server()?.context()?;
    let (_, rest) = context.split_once("parameter $")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    statement.param(digits.parse().ok()?)
}
