//! Numbers and lengths of one to nine bytes.
//!
//! ```text
//!   00…fa  the number itself         fb  NULL, in rows of text
//!   fc     2 bytes follow            fd  3 bytes follow          fe  8 bytes follow
//! ```
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_dt_integers.html>

use crate::error::{ProtocolError, Reason};
use crate::read::Reader;

impl<'a> Reader<'a> {
    /// A number of one to nine bytes.
    #[inline]
    pub(crate) fn lenenc(&mut self) -> Result<u64, ProtocolError> {
        let before = *self;
        Ok(match self.u8()? {
            small @ 0..=0xfa => small.into(),
            0xfc => self.u16_le()?.into(),
            0xfd => {
                let [low, middle, high] = self.array()?;
                u32::from_le_bytes([low, middle, high, 0]).into()
            }
            0xfe => self.u64_le()?,
            byte @ (0xfb | 0xff) => {
                return Err(before.error(Reason::UnknownValue {
                    what: "length",
                    value: byte.into(),
                }));
            }
        })
    }

    /// Bytes, prefixed with their length.
    #[inline]
    pub(crate) fn lenenc_bytes(&mut self) -> Result<&'a [u8], ProtocolError> {
        let before = *self;
        let size = self.lenenc()?;
        let size = usize::try_from(size).map_err(|_| before.error(Reason::Truncated))?;
        self.bytes(size)
    }
}

/// Appends a number of one to nine bytes.
pub(crate) fn write_lenenc(output: &mut Vec<u8>, number: u64) {
    let (bytes, size) = prefix(number);
    output.extend_from_slice(&bytes[..size]);
}

/// Appends bytes, prefixed with their length.
pub(crate) fn write_lenenc_bytes(output: &mut Vec<u8>, bytes: &[u8]) {
    write_lenenc(output, bytes.len() as u64);
    output.extend_from_slice(bytes);
}

/// Appends what `write` appends, prefixed with its length.
///
/// # Panics
///
/// When `write` removes existing bytes.
pub(crate) fn write_lenenc_with(output: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    // Most values need one byte for the length; the others are moved.
    let start = output.len();
    output.push(0);
    write(output);
    let size = output.len().checked_sub(start + 1);
    let size = size.expect("a value is appended, and nothing is taken away");
    let (bytes, prefix_size) = prefix(size as u64);
    output[start] = bytes[0];
    if prefix_size > 1 {
        output.resize(output.len() + prefix_size - 1, 0);
        output.copy_within(start + 1..start + 1 + size, start + prefix_size);
        output[start..start + prefix_size].copy_from_slice(&bytes[..prefix_size]);
    }
}

fn prefix(number: u64) -> ([u8; 9], usize) {
    let mut bytes = [0; 9];
    bytes[1..].copy_from_slice(&number.to_le_bytes());
    let (first, size) = match number {
        0..=0xfa => return ([number as u8, 0, 0, 0, 0, 0, 0, 0, 0], 1),
        0xfb..=0xffff => (0xfc, 3),
        0x1_0000..=0xff_ffff => (0xfd, 4),
        _ => (0xfe, 9),
    };
    bytes[0] = first;
    (bytes, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_as_they_were() {
        for number in [
            0,
            0xfa,
            0xfb,
            0xff,
            0xffff,
            0x1_0000,
            0xff_ffff,
            0x100_0000,
            u64::MAX,
        ] {
            let mut bytes = Vec::new();
            write_lenenc(&mut bytes, number);
            let mut reader = Reader::new("Test", &bytes);
            assert_eq!(reader.lenenc(), Ok(number));
            assert_eq!(reader.finish(), Ok(()));
        }
    }

    #[test]
    fn values_come_back_as_they_were() {
        for size in [0, 1, 0xfa, 0xfb, 0xffff, 0x1_0000, 0x100_0000] {
            let value: Vec<u8> = (0..size).map(|index: u32| index as u8).collect();
            let mut given = b"before".to_vec();
            write_lenenc_bytes(&mut given, &value);
            let mut written = b"before".to_vec();
            write_lenenc_with(&mut written, |output| output.extend_from_slice(&value));
            assert!(given == written, "{size} bytes");
            let mut reader = Reader::new("Test", &given[6..]);
            assert!(reader.lenenc_bytes() == Ok(&value));
            assert_eq!(reader.finish(), Ok(()));
        }
    }

    #[test]
    fn a_length_beyond_the_message_is_an_error() {
        for bytes in [
            &b"\x05abcd"[..],
            b"\xfc\xff",
            b"\xfd\xff\xff",
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xfb",
            b"\xff",
            b"",
        ] {
            assert!(Reader::new("Test", bytes).lenenc_bytes().is_err());
        }
    }
}
