//! What a server's types become here, and what our values become there.
//!
//! `docs/TYPES.md` has the table.

mod field_error;
mod float;
mod json;
pub mod mysql;
mod param_error;
pub mod postgres;

use lookaside_value::{Text, Value};

/// Text, unless it is none.
fn text_or_bytes(field: &[u8]) -> Value {
    match str::from_utf8(field) {
        Ok(text) => Value::Text(Text::from(text)),
        Err(_) => Value::Bytes(field.into()),
    }
}
