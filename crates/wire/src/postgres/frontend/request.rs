//! The requests that can be sent after the log-in, and the messages that consist of little more
//! than a tag.
//!
//! <https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-EXT-QUERY>

use super::{Bind, Parse, bind, message, text};
use crate::error::RequestError;

/// A request; the events of its answer have its id.
///
/// All but `Query` and `Sync` belong to the extended query protocol, and their results are only
/// final after the following `Sync`.
#[derive(Clone, Copy)]
pub enum Request<'a> {
    /// Any number of SQL statements without parameters, results as text; ends like a Sync.
    Query(&'a str),
    /// Prepares a statement.
    Parse(Parse<'a>),
    /// Requests a statement's parameters and columns.
    DescribeStatement(&'a str),
    /// Requests a portal's columns.
    DescribePortal(&'a str),
    /// Creates a portal from a statement and the values of its parameters, where `None` is NULL.
    /// With an [`Execution`](crate::postgres::Execution), the values are written in place.
    Bind(Bind<'a>, &'a [Option<&'a [u8]>]),
    /// Runs a portal, or continues it after
    /// [`Event::PortalSuspended`](crate::postgres::Event::PortalSuspended).
    Execute {
        /// The portal's name.
        portal: &'a str,
        /// The maximal number of rows; 0 means all, as does more than 2,147,483,647.
        row_count_max: u32,
    },
    /// Closes a statement and its portals; it is not an error if the statement does not exist.
    CloseStatement(&'a str),
    /// Closes a portal; it is not an error if the portal does not exist.
    ClosePortal(&'a str),
    /// Ends a batch, and with it its implicit transaction; answered by
    /// [`Event::Ready`](crate::postgres::Event::Ready).
    Sync,
}

impl Request<'_> {
    pub(crate) fn encode(self, output: &mut Vec<u8>) -> Result<(), RequestError> {
        match self {
            Self::Query(sql) => message(output, b'Q', |output| text(output, sql)),
            Self::Parse(parse) => parse.encode(output),
            Self::DescribeStatement(name) => named(output, b'D', b'S', name),
            Self::DescribePortal(name) => named(output, b'D', b'P', name),
            Self::Bind(head, parameters) => bind(output, &head, parameters),
            // All rows of the unnamed portal, as in nearly every execution.
            Self::Execute {
                portal: "",
                row_count_max: 0,
            } => {
                output.extend_from_slice(b"E\0\0\0\x09\0\0\0\0\0");
                Ok(())
            }
            Self::Execute {
                portal,
                row_count_max,
            } => message(output, b'E', |output| {
                text(output, portal)?;
                // The server treats a number that is not positive as no limit.
                let row_count_max = i32::try_from(row_count_max).unwrap_or(0);
                output.extend_from_slice(&row_count_max.to_be_bytes());
                Ok(())
            }),
            Self::CloseStatement(name) => named(output, b'C', b'S', name),
            Self::ClosePortal(name) => named(output, b'C', b'P', name),
            Self::Sync => {
                sync(output);
                Ok(())
            }
        }
    }
}

/// A message about the statement or portal of this name.
fn named(output: &mut Vec<u8>, tag: u8, what: u8, name: &str) -> Result<(), RequestError> {
    message(output, tag, |output| {
        output.push(what);
        text(output, name)
    })
}

pub(crate) fn sync(output: &mut Vec<u8>) {
    output.extend_from_slice(b"S\0\0\0\x04");
}

pub(crate) fn flush(output: &mut Vec<u8>) {
    output.extend_from_slice(b"H\0\0\0\x04");
}

pub(crate) fn terminate(output: &mut Vec<u8>) {
    output.extend_from_slice(b"X\0\0\0\x04");
}

/// PasswordMessage: a password or its hash.
pub(crate) fn password(output: &mut Vec<u8>, password: &[u8]) -> Result<(), RequestError> {
    if password.contains(&0) {
        return Err(RequestError::Nul);
    }
    message(output, b'p', |output| {
        output.extend_from_slice(password);
        output.push(0);
        Ok(())
    })
}

/// SASLInitialResponse: the chosen mechanism, and the client's first message.
pub(crate) fn sasl_initial_response(
    output: &mut Vec<u8>,
    mechanism: &str,
    first: &[u8],
) -> Result<(), RequestError> {
    message(output, b'p', |output| {
        text(output, mechanism)?;
        let length = i32::try_from(first.len()).map_err(|_| RequestError::TooLong)?;
        output.extend_from_slice(&length.to_be_bytes());
        output.extend_from_slice(first);
        Ok(())
    })
}

/// SASLResponse: the client's next message.
pub(crate) fn sasl_response(output: &mut Vec<u8>, response: &[u8]) -> Result<(), RequestError> {
    message(output, b'p', |output| {
        output.extend_from_slice(response);
        Ok(())
    })
}
