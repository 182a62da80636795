//! Reading values as Rust types.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use uuid::Uuid;

use crate::{Decimal, Object, Text, Time, Value};

/// A Rust type that a value can be read as.
///
/// Integers are read as any integer that holds them, and 0 and 1 as booleans, which not every
/// database has. Decimals are read as integers if they are integral, and as the nearest float.
/// Values whose text is lossless (decimals, times, addresses, UUIDs) are read as `String` too.
/// `Option` takes NULL, and nothing else does.
pub trait FromValue<'v>: Sized {
    /// The value, if it fits.
    fn from_value(value: &'v Value) -> Option<Self>;

    /// A list of this type that is stored as one value: bytes are such a list.
    #[doc(hidden)]
    fn list_from_bytes(_: &'v [u8]) -> Option<Vec<Self>> {
        None
    }
}

impl<'v, T: FromValue<'v>> FromValue<'v> for Option<T> {
    fn from_value(value: &'v Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl<'v> FromValue<'v> for &'v Value {
    fn from_value(value: &'v Value) -> Option<Self> {
        Some(value)
    }
}

impl FromValue<'_> for Value {
    fn from_value(value: &Value) -> Option<Self> {
        Some(value.clone())
    }
}

impl FromValue<'_> for bool {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(bool) => Some(*bool),
            Value::Int(int @ 0..=1) => Some(*int == 1),
            _ => None,
        }
    }
}

macro_rules! from_int {
    ($($type:ty)*) => {$(
        impl FromValue<'_> for $type {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Int(int) => Self::try_from(*int).ok(),
                    Value::Decimal(decimal) => decimal.as_str().parse().ok(),
                    _ => None,
                }
            }
        }
    )*};
}

from_int! { i8 i16 i32 i64 i128 isize u16 u32 u64 u128 usize }

impl FromValue<'_> for u8 {
    fn from_value(value: &Value) -> Option<Self> {
        u16::from_value(value).and_then(|int| int.try_into().ok())
    }

    fn list_from_bytes(bytes: &[u8]) -> Option<Vec<Self>> {
        Some(bytes.to_vec())
    }
}

impl FromValue<'_> for f64 {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Float(float) => Some(*float),
            Value::Int(int) => {
                let float = *int as Self;
                // Beyond 2^53 not every integer is exact as a float.
                (float as i128 == i128::from(*int)).then_some(float)
            }
            Value::Decimal(decimal) => decimal.as_str().parse().ok(),
            _ => None,
        }
    }
}

impl FromValue<'_> for f32 {
    /// The nearest `f32`: PostgreSQL's `real`, for example, arrives as an `f64`.
    fn from_value(value: &Value) -> Option<Self> {
        f64::from_value(value).map(|float| float as Self)
    }
}

impl<'v> FromValue<'v> for &'v str {
    fn from_value(value: &'v Value) -> Option<Self> {
        value.as_str()
    }
}

impl FromValue<'_> for Text {
    fn from_value(value: &Value) -> Option<Self> {
        has_text(value).then(|| value.to_text())
    }
}

impl FromValue<'_> for String {
    fn from_value(value: &Value) -> Option<Self> {
        has_text(value).then(|| value.to_string())
    }
}

/// Whether the text of a value is lossless.
fn has_text(value: &Value) -> bool {
    match value {
        Value::Text(_)
        | Value::Symbol(_)
        | Value::Decimal(_)
        | Value::Time(_)
        | Value::Ip(_)
        | Value::Net(_)
        | Value::Uuid(_) => true,
        Value::Null
        | Value::Ignore
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Bytes(_)
        | Value::Object(_)
        | Value::Array(_) => false,
    }
}

impl<'v> FromValue<'v> for &'v [u8] {
    fn from_value(value: &'v Value) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl<'v> FromValue<'v> for &'v [Value] {
    fn from_value(value: &'v Value) -> Option<Self> {
        match value {
            Value::Array(values) => Some(values),
            _ => None,
        }
    }
}

macro_rules! from_variant {
    ($($variant:ident => $type:ty),* $(,)?) => {$(
        impl FromValue<'_> for $type {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::$variant(inner) => Some(inner.clone()),
                    _ => None,
                }
            }
        }
    )*};
}

from_variant! {
    Decimal => Decimal, Time => Time, Ip => IpAddr, Net => IpNet, Uuid => Uuid,
    Bytes => Arc<[u8]>, Object => Arc<Object>, Array => Arc<[Value]>,
}

/// The bytes themselves, or the elements of an array.
impl<'v, T: FromValue<'v>> FromValue<'v> for Vec<T> {
    fn from_value(value: &'v Value) -> Option<Self> {
        match value {
            Value::Array(values) => values.iter().map(T::from_value).collect(),
            Value::Bytes(bytes) => T::list_from_bytes(bytes),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<'v, T: FromValue<'v> + PartialEq + std::fmt::Debug>(
        value: &'v Value,
        expected: Option<T>,
    ) {
        assert_eq!(T::from_value(value), expected, "{value:?}");
    }

    #[test]
    fn values_are_read_where_they_fit() {
        let decimal = |text: &str| Value::Decimal(text.parse().unwrap());
        check(&Value::Int(255), Some(255_u8));
        check::<u8>(&Value::Int(256), None);
        check::<u32>(&Value::Int(-1), None);
        check(&decimal("18446744073709551615"), Some(u64::MAX));
        check::<i64>(&decimal("1.0"), None);
        check(&decimal("1.25"), Some(1.25));
        check(&decimal("-Infinity"), Some(f64::NEG_INFINITY));
        check(&Value::Int(1 << 53), Some(9_007_199_254_740_992.0));
        check::<f64>(&Value::Int((1 << 53) + 1), None);
        check::<f64>(&Value::Int(i64::MAX), None);
        check(&Value::Float(0.5), Some(0.5_f32));
        check(&Value::Bool(true), Some(true));
        check(&Value::Int(1), Some(true));
        check::<bool>(&Value::Int(2), None);
        check::<bool>(&Value::from("true"), None);
        check(&Value::from("a"), Some("a"));
        check(&decimal("1.50"), Some("1.50".to_owned()));
        check::<&str>(&decimal("1.50"), None);
        check::<String>(&Value::Int(1), None);
        check::<String>(&Value::Null, None);
        check(&Value::Null, Some(None::<i64>));
        check(&Value::Int(1), Some(Some(1_i64)));
        check::<Option<i64>>(&Value::from("1"), None);
        check(&Value::from(vec![1_u8, 2]), Some(vec![1_u8, 2]));
        check::<Vec<i64>>(&Value::from(vec![1_u8, 2]), None);
        let list = Value::from(vec![Value::Int(1), Value::Null]);
        check(&list, Some(vec![Some(1_i64), None]));
        check::<Vec<i64>>(&list, None);
        check(&Value::Uuid(Uuid::nil()), Some(Uuid::nil()));
    }
}
