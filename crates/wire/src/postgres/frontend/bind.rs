//! Bind: creates a portal from a prepared statement and its parameters.
//!
//! ```text
//!   portal\0 statement\0 formats  count  length value length value …  formats of the result
//! ```
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>, `Bind`

use super::{count, message, text};
use crate::error::RequestError;
use crate::postgres::{Format, Formats};

/// The statement and portal of a Bind, and the formats of values.
#[derive(Clone, Copy, Debug)]
pub struct Bind<'a> {
    /// The portal's name; the empty one is replaced by the next portal without a name.
    pub portal: &'a str,
    /// The name that the statement was parsed under.
    pub statement: &'a str,
    /// The formats of the parameters.
    pub parameter_formats: Formats<'a>,
    /// The requested formats of the result columns.
    pub result_formats: Formats<'a>,
}

pub(super) fn bind(
    output: &mut Vec<u8>,
    bind: &Bind<'_>,
    parameters: &[Option<&[u8]>],
) -> Result<(), RequestError> {
    message(output, b'B', |output| {
        text(output, bind.portal)?;
        text(output, bind.statement)?;
        formats(output, bind.parameter_formats)?;
        count(output, parameters.len())?;
        for parameter in parameters {
            let length = match parameter {
                Some(value) => i32::try_from(value.len()).map_err(|_| RequestError::TooLong)?,
                None => -1,
            };
            output.extend_from_slice(&length.to_be_bytes());
            output.extend_from_slice(parameter.unwrap_or_default());
        }
        formats(output, bind.result_formats)
    })
}

pub(super) fn formats(output: &mut Vec<u8>, formats: Formats<'_>) -> Result<(), RequestError> {
    let formats = match formats {
        // Text is the default and needs no code.
        Formats::All(Format::Text) => &[],
        Formats::All(Format::Binary) => &[Format::Binary][..],
        Formats::Each(formats) => formats,
    };
    count(output, formats.len())?;
    for format in formats {
        output.extend_from_slice(&format.code().to_be_bytes());
    }
    Ok(())
}
