//! Messages of the client: one file per family of messages, each written directly into the output.

mod bind;
mod cancel;
mod copy;
mod execution;
mod parse;
mod request;
mod startup;

use crate::error::RequestError;

pub use bind::Bind;
use bind::bind;
pub(crate) use copy::{copy_data, copy_done, copy_fail};
pub use execution::{Execution, ExecutionOptions};
pub use parse::Parse;
pub use request::Request;
pub(crate) use request::{flush, password, sasl_initial_response, sasl_response, sync, terminate};
pub use startup::Startup;

/// The maximal size of a message that a server accepts, `PQ_LARGE_MESSAGE_LIMIT` in its source.
const MESSAGE_SIZE_MAX: usize = 0x3fff_fffe;

/// Writes a message with this `tag`; if its body cannot be written, `output` is unchanged.
fn message(
    output: &mut Vec<u8>,
    tag: u8,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), RequestError>,
) -> Result<(), RequestError> {
    let start = output.len();
    output.push(tag);
    let written = sized(output, body);
    if written.is_err() {
        output.truncate(start);
    }
    written
}

/// Writes a body, prefixed with its length, which includes itself.
fn sized(
    output: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), RequestError>,
) -> Result<(), RequestError> {
    let start = output.len();
    output.extend_from_slice(&[0; 4]);
    body(output)?;
    let size = output.len() - start;
    if size > MESSAGE_SIZE_MAX {
        return Err(RequestError::TooLong);
    }
    let length = u32::try_from(size).expect("the limit is below 2^32");
    output[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Writes a text and its NUL.
#[inline]
fn text(output: &mut Vec<u8>, text: &str) -> Result<(), RequestError> {
    if has_nul(text.as_bytes()) {
        return Err(RequestError::Nul);
    }
    output.extend_from_slice(text.as_bytes());
    output.push(0);
    Ok(())
}

/// Whether a byte is 0. Statement names are checked with each query and are rarely longer than
/// sixteen bytes, so eight bytes are checked at a time; the last eight may overlap the previous
/// ones.
fn has_nul(bytes: &[u8]) -> bool {
    let has_nul_in = |word: &[u8; 8]| {
        let word = u64::from_ne_bytes(*word);
        // The subtraction sets the top bit of a byte that did not have it only if the byte is 0, or
        // follows such a byte.
        word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080 != 0
    };
    match bytes.last_chunk() {
        Some(last) => bytes.as_chunks().0.iter().any(has_nul_in) || has_nul_in(last),
        None => bytes.contains(&0),
    }
}

/// Writes a count.
fn count(output: &mut Vec<u8>, count: usize) -> Result<(), RequestError> {
    let count = u16::try_from(count).map_err(|_| RequestError::TooMany)?;
    output.extend_from_slice(&count.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_is_found_wherever_it_is() {
        for size in 0..40 {
            for byte in [1, 0x80, 0xff] {
                let mut bytes = vec![byte; size];
                assert!(!has_nul(&bytes), "{size} of {byte}");
                for index in 0..size {
                    bytes[index] = 0;
                    assert!(has_nul(&bytes), "{index} of {size} of {byte}");
                    bytes[index] = byte;
                }
            }
        }
    }
}
