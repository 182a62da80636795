//! Reads a field from left to right; an end that comes too early is an error, never a panic.

use crate::types::field_error::FieldError;

pub(super) struct Reader<'a> {
    field: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(field: &'a [u8]) -> Self {
        Self { field, at: 0 }
    }

    /// The offset of the next byte.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> usize {
        self.field.len() - self.at
    }

    pub(super) fn take(&mut self, size: usize) -> Result<&'a [u8], FieldError> {
        if size > self.left() {
            return Err(FieldError::at(self.field.len(), "ends early"));
        }
        let taken = &self.field[self.at..self.at + size];
        self.at += size;
        Ok(taken)
    }

    pub(super) fn array<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], FieldError> {
        let taken = self.take(SIZE)?;
        Ok(taken.try_into().expect("as many bytes as were taken"))
    }

    pub(super) fn u8(&mut self) -> Result<u8, FieldError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> Result<i16, FieldError> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, FieldError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, FieldError> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, FieldError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, FieldError> {
        self.array().map(i64::from_be_bytes)
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), FieldError> {
        if self.left() == 0 {
            Ok(())
        } else {
            Err(FieldError::at(self.at, "has bytes left over"))
        }
    }
}
