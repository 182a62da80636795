//! Reads the fields of one message, and tracks the offset for errors.

use std::ffi::CStr;

use crate::error::{ProtocolError, Reason};

/// The rest of a message's body.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    message: &'static str,
    body: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// A reader of the body of the message with this name.
    pub(crate) fn new(message: &'static str, body: &'a [u8]) -> Self {
        Self {
            message,
            body,
            offset: 0,
        }
    }

    /// A reader of the body of the message with this name, of which `offset` bytes were read.
    pub(crate) fn behind(message: &'static str, body: &'a [u8], offset: usize) -> Self {
        assert!(offset <= body.len(), "the offset is within the body");
        Self {
            message,
            body,
            offset,
        }
    }

    pub(crate) fn bytes(&mut self, size: usize) -> Result<&'a [u8], ProtocolError> {
        let rest = self.unread();
        let Some(bytes) = rest.get(..size) else {
            return Err(self.error(Reason::Truncated));
        };
        self.offset += size;
        Ok(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let (array, _) = self
            .unread()
            .split_first_chunk()
            .ok_or_else(|| self.error(Reason::Truncated))?;
        self.offset += N;
        Ok(*array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, ProtocolError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16_be(&mut self) -> Result<u16, ProtocolError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn i16_be(&mut self) -> Result<i16, ProtocolError> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32_be(&mut self) -> Result<u32, ProtocolError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn i32_be(&mut self) -> Result<i32, ProtocolError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64_be(&mut self) -> Result<u64, ProtocolError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn i64_be(&mut self) -> Result<i64, ProtocolError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    pub(crate) fn u16_le(&mut self) -> Result<u16, ProtocolError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32_le(&mut self) -> Result<u32, ProtocolError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64_le(&mut self) -> Result<u64, ProtocolError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A signed count of 16 bits that must not be negative.
    pub(crate) fn count_be(&mut self) -> Result<u16, ProtocolError> {
        let before = *self;
        let count = self.i16_be()?;
        u16::try_from(count).map_err(|_| before.error(Reason::NegativeCount(count.into())))
    }

    /// A signed length of 32 bits that must not be negative, and as many bytes.
    pub(crate) fn sized_bytes_be(&mut self) -> Result<&'a [u8], ProtocolError> {
        let before = *self;
        let length = self.i32_be()?;
        let size =
            usize::try_from(length).map_err(|_| before.error(Reason::NegativeLength(length)))?;
        self.bytes(size)
    }

    /// A text up to its NUL.
    pub(crate) fn c_str(&mut self) -> Result<&'a CStr, ProtocolError> {
        let text =
            CStr::from_bytes_until_nul(self.unread()).map_err(|_| self.error(Reason::NoNul))?;
        self.offset += text.count_bytes() + 1;
        Ok(text)
    }

    /// Reads the rest.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = self.unread();
        self.offset = self.body.len();
        rest
    }

    /// The rest, without consuming it.
    pub(crate) fn unread(&self) -> &'a [u8] {
        &self.body[self.offset..]
    }

    /// Checks that the message ends here.
    pub(crate) fn finish(&self) -> Result<(), ProtocolError> {
        if self.unread().is_empty() {
            Ok(())
        } else {
            Err(self.error(Reason::Trailing))
        }
    }

    /// An error at this offset.
    pub(crate) fn error(&self, reason: Reason) -> ProtocolError {
        ProtocolError::new(self.message, self.offset, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_their_order() {
        let mut reader = Reader::new("Test", b"\x01\x02\x03\xff\xff\xff\xfeabc\0xyz");
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.u16_be(), Ok(0x0203));
        assert_eq!(reader.i32_be(), Ok(-2));
        assert_eq!(reader.c_str(), Ok(c"abc"));
        assert_eq!(reader.bytes(1), Ok(&b"x"[..]));
        assert_eq!(reader.finish().unwrap_err().offset(), 12);
        assert_eq!(reader.rest(), b"yz");
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn what_is_missing_is_an_error_at_its_place() {
        let mut reader = Reader::new("Test", b"\xff\xffab");
        let error = reader.count_be().unwrap_err();
        assert_eq!(error.to_string(), "Test at byte 0: a count of -1");
        let error = reader.c_str().unwrap_err();
        assert_eq!(
            error.to_string(),
            "Test at byte 2: a text is not terminated"
        );
        let error = reader.u32_be().unwrap_err();
        assert_eq!(
            error.to_string(),
            "Test at byte 2: the message ends in the middle of a field"
        );
        assert!(reader.bytes(3).is_err());
    }
}
