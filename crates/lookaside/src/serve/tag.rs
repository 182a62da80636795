//! Validators, as in `ETag` and `If-None-Match`.

use std::fmt::{self, Write as _};

use sha2::{Digest as _, Sha256};

use super::encode::BodyFormat;

/// Quotes, a boot, two numbers of up to twenty digits, a letter, and separators.
const SIZE_MAX: usize = 56;

/// A strong validator, with its quotes; on the stack, since every answer has one.
#[derive(Clone, Copy)]
pub(crate) struct Tag {
    bytes: [u8; SIZE_MAX],
    size: u8,
}

impl Tag {
    /// The validator of all answers of a catalog from one generation of the tables, within this
    /// process.
    pub(crate) fn of_tables(boot: u32, generation: u64, catalog: u64, format: BodyFormat) -> Self {
        let letter = format.letter();
        Self::written(format_args!(
            "\"{boot:08x}-{generation}.{catalog}{letter}\""
        ))
    }

    /// The validator of a body, the same on every server.
    pub(crate) fn of_body(body: &[u8], format: BodyFormat) -> Self {
        let hash = Sha256::digest(body);
        let head: [u8; 8] = *hash.first_chunk().expect("a hash has 32 bytes");
        let letter = format.letter();
        Self::written(format_args!(
            "\"{:016x}{letter}\"",
            u64::from_be_bytes(head)
        ))
    }

    /// Copies a validator from its text.
    pub(crate) fn copied(text: &str) -> Self {
        Self::written(format_args!("{text}"))
    }

    fn written(text: fmt::Arguments<'_>) -> Self {
        let mut tag = Self {
            bytes: [0; SIZE_MAX],
            size: 0,
        };
        tag.write_fmt(text).expect("the longest of them fits");
        tag
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.size.into()]).expect("it was written as text")
    }
}

impl fmt::Write for Tag {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = usize::from(self.size);
        let room = self
            .bytes
            .get_mut(start..start + text.len())
            .ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        // At most `SIZE_MAX`, which fits.
        self.size += text.len() as u8;
        Ok(())
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_differ_by_what_they_are_of() {
        let longest = Tag::of_tables(u32::MAX, u64::MAX, u64::MAX, BodyFormat::Json);
        assert_eq!(longest.as_str().len(), 2 + 8 + 1 + 20 + 1 + 20 + 1);
        let tag = |generation, format| Tag::of_tables(1, generation, 2, format).as_str().to_owned();
        assert_eq!(tag(3, BodyFormat::Csv), "\"00000001-3.2c\"");
        assert_ne!(tag(3, BodyFormat::Csv), tag(4, BodyFormat::Csv));
        let body = |text: &str, format| Tag::of_body(text.as_bytes(), format).as_str().to_owned();
        assert_eq!(body("a", BodyFormat::Json), body("a", BodyFormat::Json));
        assert_ne!(body("a", BodyFormat::Json), body("b", BodyFormat::Json));
        assert_ne!(body("a", BodyFormat::Json), body("a", BodyFormat::Csv));
    }
}
