//! The data types of Lookaside: values, rows and records, and the trait [`Lookup`], through which a
//! language queries rows that are as fresh as a [`Contract`] requires.
//!
//! Nothing in this crate opens a socket, depends on a SQL dialect or blocks, and only [`parse_zone`]
//! reads files: those of the system's time zones.
//!
//! ```
//! use lookaside_value::{Batch, NameTable, Value};
//!
//! let mut table = NameTable::new();
//! let ip = table.intern("ip");
//! let mut batch = Batch::new(table.into());
//! batch.add().push(ip, Value::from("203.0.113.9"));
//! assert_eq!(batch.records()[0].value(ip), Some(&Value::from("203.0.113.9")));
//! ```
#![forbid(unsafe_code)]

mod contract;
mod convert;
mod de;
mod decimal;
mod delimiter;
mod from_value;
mod json;
mod json_reader;
mod lookup;
mod on_lookup_failure;
mod position;
mod record;
mod row;
mod row_error;
mod text;
mod time;
mod time_format;
mod value;

pub use contract::{Contract, ParseContractError};
pub use convert::{ConvertError, parse_bool, parse_float, parse_int, parse_ipv4};
pub use decimal::{Decimal, DecimalError};
pub use delimiter::LikelyDelimiter;
pub use from_value::FromValue;
pub use json::write_json_text;
pub use json_reader::{JsonIntegers, JsonValue};
pub use lookup::{
    Answers, BatchQuery, Extent, Lookup, LookupError, LookupErrorKind, ParamBatch, StatementId,
};
pub use on_lookup_failure::{OnLookupFailure, ParseOnLookupFailureError};
pub use position::Position;
pub use record::{Batch, Field, Name, NameTable, Names, Record};
pub use row::{Row, RowRef, RowSet, RowSetBuilder};
pub use row_error::{ColumnIndex, RowError};
pub use text::Text;
pub use time::{Time, TimeError};
pub use time_format::{TimeFormatError, TimeReader, TimeWriter, parse_zone};
pub use value::{Object, Type, Value};
