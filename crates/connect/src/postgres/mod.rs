//! Tables of PostgreSQL as sinks.
//!
//! A result is a JSON object whose members are columns of the table. A batch of results is one
//! transaction: without a rule for conflicts, it is copied into the table by `COPY`; with one, into
//! a temporary table, from which `INSERT … ON CONFLICT` takes it.
//!
//! Columns that a result does not name get their defaults, or keep their values when a row is
//! updated. A `COPY` has one list of columns, so that results that name different columns are copied
//! one list after the other, in the same transaction.

mod client;
mod json;
mod options;
mod own_table;
mod rows;
mod sink;
mod table;
mod transaction;
mod writer;

use lookaside_stream::ResultMeta;

use self::sink::PostgresSink;
use crate::{ConnectUrl, Error, OpenedSink, Result};

pub(crate) use self::client::{Client, Failure};
pub(crate) use self::options::SinkOptions;
pub(crate) use self::own_table::create_missing;
pub(crate) use self::rows::Rows;
pub(crate) use self::table::Table;
pub(crate) use self::transaction::{Ended, RowTransactions};

pub(crate) fn open_sink(url: &ConnectUrl) -> Result<OpenedSink> {
    let options = SinkOptions::new(url)?;
    if options.is_exactly_once {
        return Err(Error::refused(
            &options.name,
            "delivery=exactly-once needs a topic of Kafka or a followed file as input",
            Some("read from a topic of Kafka or, with --follow, a file, or omit the option"),
        ));
    }
    let (client, table) = open_table(&options)?;
    Ok(OpenedSink {
        sink: Box::new(PostgresSink::open(client, table, &options)?),
        meta: ResultMeta::default(),
    })
}

pub(crate) fn check_sink(url: &ConnectUrl) -> Result<String> {
    let options = SinkOptions::new(url)?;
    let (_, table) = open_table(&options)?;
    Ok(format!(
        "{} is available: {}",
        options.name,
        table.describe()
    ))
}

/// Ends the transaction of a process that is stopped or cannot be reached, unless the user sets a time:
/// it has locked its positions, for which the process waits that has taken over its partitions.
const IDLE_TIMEOUT: &str = "select set_config('idle_in_transaction_session_timeout', '10s', false) \
                            where current_setting('idle_in_transaction_session_timeout') = '0'";

/// Connects, and reads what is known of the table.
pub(crate) fn open_table(options: &SinkOptions) -> Result<(Client, Table)> {
    let name = &options.name;
    let mut client = Client::new(name, &options.config);
    let connected = client.run(|_| Ok(()));
    connected.map_err(|failure| unavailable(name, failure))?;
    let table = Table::read(&mut client, options)?;
    let timeout = options.is_exactly_once.then(|| IDLE_TIMEOUT.to_owned());
    let session: Vec<_> = timeout.into_iter().chain(table.session()).collect();
    client.prepare_sessions((!session.is_empty()).then(|| session.join(";\n")));
    // The rights that only the temporary table needs are missed here, not at the first batch.
    let prepared = client.run(|_| Ok(()));
    prepared.map_err(|failure| unavailable(name, failure))?;
    Ok((client, table))
}

pub(crate) fn unavailable(name: &str, failure: Failure) -> Error {
    match failure {
        Failure::Away(reason) | Failure::Conflict(reason) | Failure::TooLong(reason) => {
            let hint = "start the server, or correct the host and the port of the URL";
            Error::unavailable(name, &format!("no server answers: {reason}"), hint)
        }
        Failure::Data(reason) | Failure::Refused(reason) => {
            let hint = "correct the user, the password and the database of the URL, and what the \
                        user may do";
            Error::unavailable(name, &format!("the server refuses: {reason}"), hint)
        }
    }
}
