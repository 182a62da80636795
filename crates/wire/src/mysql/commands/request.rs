//! The requests that can be sent after the log-in, and the commands that consist of little more
//! than a byte.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html>

use super::command;
use crate::mysql::StatementId;

/// A request; the events of its answer have its id.
///
/// Statements with parameters are run by
/// [`Connection::queue_execute`](crate::mysql::Connection::queue_execute) and
/// [`queue_bulk`](crate::mysql::Connection::queue_bulk).
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// SQL without parameters, results as text.
    Query(&'a str),
    /// Prepares a statement.
    Prepare(&'a str),
    /// Fetches the next rows of the cursor that an Execute opened.
    Fetch {
        /// The statement that was executed.
        statement: StatementId,
        /// The maximal number of rows.
        row_count_max: u32,
    },
    /// Closes a statement's cursor.
    ResetStatement(StatementId),
    /// Deallocates a statement. There is no answer and no event, even if the statement does not
    /// exist.
    CloseStatement(StatementId),
    /// Checks that the server is alive.
    Ping,
    /// Drops all statements, variables and temporary tables, and rolls back.
    ResetConnection,
}

impl Request<'_> {
    /// Writes the body.
    pub(crate) fn encode(self, output: &mut Vec<u8>) {
        match self {
            Self::Query(sql) => text(output, command::QUERY, sql),
            Self::Prepare(sql) => text(output, command::STMT_PREPARE, sql),
            Self::Fetch {
                statement,
                row_count_max,
            } => {
                on_statement(output, command::STMT_FETCH, statement);
                output.extend_from_slice(&row_count_max.to_le_bytes());
            }
            Self::ResetStatement(statement) => {
                on_statement(output, command::STMT_RESET, statement);
            }
            Self::CloseStatement(statement) => {
                on_statement(output, command::STMT_CLOSE, statement);
            }
            Self::Ping => output.push(command::PING),
            Self::ResetConnection => output.push(command::RESET_CONNECTION),
        }
    }
}

fn text(output: &mut Vec<u8>, command: u8, sql: &str) {
    output.push(command);
    output.extend_from_slice(sql.as_bytes());
}

pub(super) fn on_statement(output: &mut Vec<u8>, command: u8, statement: StatementId) {
    output.push(command);
    output.extend_from_slice(&statement.as_u32().to_le_bytes());
}

pub(crate) fn quit(output: &mut Vec<u8>) {
    output.push(command::QUIT);
}
