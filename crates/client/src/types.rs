//! Conversions between server types and values.
//!
//! `docs/TYPES.md` has the table.

mod field_error;
mod float;
mod json;
pub mod mysql;
mod param_error;
pub mod postgres;

use lookaside_value::{Text, Value};

/// A text value, or bytes if it is not UTF-8.
fn text_or_bytes(field: &[u8]) -> Value {
    match str::from_utf8(field) {
        Ok(text) => Value::Text(Text::from(text)),
        Err(_) => Value::Bytes(field.into()),
    }
}
