//! Fields and parameters as bytes, past the other client's own conversions.

use std::error::Error;

use bytes::BytesMut;
use lookaside_client::types::postgres::{Encoded, Format, PgType};
use lookaside_value::Value;
use tokio_postgres::types::{Format as TheirFormat, FromSql, IsNull, ToSql, Type, to_sql_checked};

pub(crate) struct RawResult(pub(crate) Option<Vec<u8>>);

impl<'a> FromSql<'a> for RawResult {
    fn from_sql(_: &Type, field: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(Some(field.to_vec())))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

#[derive(Debug)]
pub(crate) struct RawParam {
    encoded: Encoded,
    field: Vec<u8>,
}

impl RawParam {
    /// A value as a parameter of that declared type.
    pub(crate) fn of(value: &Value, oid: u32) -> Self {
        let mut field = Vec::new();
        let encoded = PgType::of(oid).encode(value, &mut field);
        let encoded = encoded.unwrap_or_else(|error| panic!("{error}: {value:?}"));
        Self { encoded, field }
    }
}

impl ToSql for RawParam {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.field);
        Ok(match self.encoded {
            Encoded::Null => IsNull::Yes,
            Encoded::Field(_) => IsNull::No,
        })
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> TheirFormat {
        match self.encoded {
            Encoded::Field(Format::Text) => TheirFormat::Text,
            _ => TheirFormat::Binary,
        }
    }

    to_sql_checked!();
}
