//! Bind and Execute of one statement, encoded once: between executions, only the values of the
//! parameters and their formats differ.
//!
//! ```text
//!   Parse   Bind: portal\0 statement\0 formats count │ values │ result's formats   Describe Execute
//!   └──────────────────── head ────────────────────┘ │        │ └──────────── tail ─────────────┘
//! ```

use super::bind::formats;
use super::{MESSAGE_SIZE_MAX, Parse, Request, count, text};
use crate::error::RequestError;
use crate::postgres::{Format, Formats};

/// The length field of a NULL.
const NULL: [u8; 4] = (-1_i32).to_be_bytes();

/// A template for executing a statement; its bytes are copied for each execution.
#[derive(Debug)]
pub struct Execution {
    head: Box<[u8]>,
    tail: Box<[u8]>,
    /// The position of Bind's length in the head.
    bind_offset: usize,
    /// The size of the part of the tail that belongs to Bind.
    bind_tail_size: usize,
    parameter_count: usize,
    is_prepared_anew: bool,
}

/// The options of an [`Execution`].
#[derive(Clone, Copy, Debug)]
pub struct ExecutionOptions<'a> {
    /// If set, prepares the statement and describes its portal in each execution.
    pub parse: Option<Parse<'a>>,
    /// The portal's name; the empty one is replaced by the next portal without a name.
    pub portal: &'a str,
    /// The name that the statement was parsed under.
    pub statement: &'a str,
    /// How many parameters it has.
    pub parameter_count: usize,
    /// The requested formats of the result columns.
    pub result_formats: Formats<'a>,
    /// The maximal number of rows; 0 means all, as does more than 2,147,483,647.
    pub row_count_max: u32,
}

impl Execution {
    /// Encodes the constant parts.
    ///
    /// # Errors
    ///
    /// When a name or the text contains a NUL, or there are too many formats.
    pub fn new(options: &ExecutionOptions<'_>) -> Result<Self, RequestError> {
        let mut head = Vec::new();
        if let Some(parse) = options.parse {
            parse.encode(&mut head)?;
        }
        head.push(b'B');
        let bind_offset = head.len();
        head.extend_from_slice(&[0; 4]);
        text(&mut head, options.portal)?;
        text(&mut head, options.statement)?;
        let parameter_count = options.parameter_count;
        count(&mut head, parameter_count)?;
        head.resize(head.len() + parameter_count * size_of::<u16>(), 0);
        count(&mut head, parameter_count)?;
        let mut tail = Vec::new();
        formats(&mut tail, options.result_formats)?;
        let bind_tail_size = tail.len();
        if options.parse.is_some() {
            Request::DescribePortal(options.portal).encode(&mut tail)?;
        }
        let execute = Request::Execute {
            portal: options.portal,
            row_count_max: options.row_count_max,
        };
        execute.encode(&mut tail)?;
        Ok(Self {
            head: head.into(),
            tail: tail.into(),
            bind_offset,
            bind_tail_size,
            parameter_count,
            is_prepared_anew: options.parse.is_some(),
        })
    }

    /// Whether there is a Parse before the Bind and a Describe after it.
    pub(crate) fn is_prepared_anew(&self) -> bool {
        self.is_prepared_anew
    }

    /// Writes all of it, or nothing. `write` appends the value of each parameter and returns its
    /// format, or `None` for NULL.
    #[inline]
    pub(crate) fn encode<E: From<RequestError>>(
        &self,
        output: &mut Vec<u8>,
        write: impl FnMut(usize, &mut Vec<u8>) -> Result<Option<Format>, E>,
    ) -> Result<(), E> {
        let start = output.len();
        let written = self.append(output, write);
        if written.is_err() {
            output.truncate(start);
        }
        written
    }

    fn append<E: From<RequestError>>(
        &self,
        output: &mut Vec<u8>,
        mut write: impl FnMut(usize, &mut Vec<u8>) -> Result<Option<Format>, E>,
    ) -> Result<(), E> {
        let bind = output.len() + self.bind_offset;
        output.extend_from_slice(&self.head);
        // The head ends with the formats and the count of the values.
        let formats = output.len() - (self.parameter_count + 1) * size_of::<u16>();
        for index in 0..self.parameter_count {
            let length = output.len();
            output.extend_from_slice(&NULL);
            if let Some(format) = write(index, output)? {
                let size = output.len().checked_sub(length + NULL.len());
                let size = size.expect("a value is appended, and nothing is taken away");
                let size = i32::try_from(size).map_err(|_| RequestError::TooLong)?;
                output[length..length + 4].copy_from_slice(&size.to_be_bytes());
                let format_offset = formats + index * size_of::<u16>();
                output[format_offset..format_offset + 2]
                    .copy_from_slice(&format.code().to_be_bytes());
            }
        }
        let bind_size = output.len() + self.bind_tail_size - bind;
        if bind_size > MESSAGE_SIZE_MAX {
            return Err(RequestError::TooLong.into());
        }
        output.extend_from_slice(&self.tail);
        let bind_size = u32::try_from(bind_size).expect("the limit is below 2^32");
        output[bind..bind + 4].copy_from_slice(&bind_size.to_be_bytes());
        Ok(())
    }
}
