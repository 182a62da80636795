//! Bind: gives a prepared statement its parameters, which makes it a portal.
//!
//! ```text
//!   portal\0 statement\0 formats  count  length value length value …  formats of the result
//! ```
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>, `Bind`

use super::{count, message, text};
use crate::error::RequestError;
use crate::postgres::{Format, Formats};

/// Which statement becomes which portal, and how values are written.
#[derive(Clone, Copy, Debug)]
pub struct Bind<'a> {
    /// The portal's name; the empty one is replaced by the next portal without a name.
    pub portal: &'a str,
    /// The name that the statement was parsed under.
    pub statement: &'a str,
    /// How the parameters are written.
    pub parameter_formats: Formats<'a>,
    /// How the columns of the result shall come.
    pub result_formats: Formats<'a>,
}

/// Takes the values of a [`Bind`], from the first parameter to the last.
pub struct ParameterWriter<'a> {
    output: &'a mut Vec<u8>,
    count: usize,
    size_error: Option<RequestError>,
}

impl ParameterWriter<'_> {
    /// The next parameter is NULL.
    pub fn null(&mut self) {
        self.count += 1;
        self.output.extend_from_slice(&(-1_i32).to_be_bytes());
    }

    /// The next parameter has this value.
    pub fn value(&mut self, value: &[u8]) {
        self.value_with(|output| output.extend_from_slice(value));
    }

    /// The next parameter has the value that `write` appends.
    ///
    /// # Panics
    ///
    /// When `write` takes away what is there already.
    pub fn value_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.count += 1;
        let start = self.output.len() + 4;
        self.output.extend_from_slice(&[0; 4]);
        write(self.output);
        let size = self.output.len().checked_sub(start);
        let size = size.expect("a value is appended, and nothing is taken away");
        match i32::try_from(size) {
            Ok(length) => self.output[start - 4..start].copy_from_slice(&length.to_be_bytes()),
            Err(_) => self.size_error = Some(RequestError::TooLong),
        }
    }

    /// The next parameter, where `None` is NULL.
    pub fn parameter(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.value(value),
            None => self.null(),
        }
    }
}

pub(crate) fn bind(
    output: &mut Vec<u8>,
    bind: &Bind<'_>,
    write: impl FnOnce(&mut ParameterWriter<'_>),
) -> Result<(), RequestError> {
    message(output, b'B', |output| {
        text(output, bind.portal)?;
        text(output, bind.statement)?;
        formats(output, bind.parameter_formats)?;
        let count_offset = output.len();
        output.extend_from_slice(&[0; 2]);
        let mut writer = ParameterWriter {
            output,
            count: 0,
            size_error: None,
        };
        write(&mut writer);
        let (count, size_error) = (writer.count, writer.size_error);
        if let Some(error) = size_error {
            return Err(error);
        }
        let count = u16::try_from(count).map_err(|_| RequestError::TooMany)?;
        output[count_offset..count_offset + 2].copy_from_slice(&count.to_be_bytes());
        formats(output, bind.result_formats)
    })
}

fn formats(output: &mut Vec<u8>, formats: Formats<'_>) -> Result<(), RequestError> {
    let formats = match formats {
        // Text needs no code at all.
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
