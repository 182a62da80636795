//! Errors of copying the folder's tables into the embedded PostgreSQL.

use std::error::Error as StdError;

use lookaside_client::Error as ClientError;

use crate::config::{CREATE_FILE, TableConfig};
use crate::error::{Error, ErrorKind};

impl Error {
    /// The connection or one of the engine's own statements failed.
    pub(crate) fn copying(error: &ClientError) -> Self {
        let message = format!(
            "copying the tables into the embedded PostgreSQL: {}",
            last(error)
        );
        Self::new(ErrorKind::Environment, message)
    }

    /// The server refused a part of a table, named by `what`.
    pub(crate) fn copying_table(table: &TableConfig, what: &str, error: &ClientError) -> Self {
        let context = error.server().and_then(|server| server.context());
        let column = context.map_or_else(String::new, |context| format!(" ({context})"));
        let message = format!(
            "table {:?}: the embedded PostgreSQL refuses {what}: {}{column}; write {} with types \
             that fit the data",
            table.name,
            last(error),
            table.folder.join(CREATE_FILE).display()
        );
        Self::new(ErrorKind::Data, message)
    }

    pub(crate) fn extension(name: &str, error: &ClientError) -> Self {
        let message = format!(
            "the embedded PostgreSQL has no extension {name:?}: {}",
            last(error)
        );
        Self::new(ErrorKind::Config, message)
    }

    /// A table in PostgreSQL lacks a column of the data.
    pub(crate) fn no_such_column(table: &str, column: &str, known: &[String]) -> Self {
        let message = format!(
            "table {table:?}: {} does not create the column {column:?} of create.sql; the columns are: {}",
            CREATE_FILE,
            known.join(", ")
        );
        Self::new(ErrorKind::Config, message)
    }
}

/// The message of the server or the operating system.
fn last(error: &ClientError) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = cause.to_string();
        source = cause.source();
    }
    words
}
