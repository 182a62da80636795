//! One cell: a value and its type.

mod object;

use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::IpNet;
use uuid::Uuid;

pub use self::object::Object;
use crate::text::shared_size;
use crate::{Decimal, Text, Time};

// A value is copied for each field of each event, so it has three words, as has the text in it.
const _: () = assert!(size_of::<Value>() == 24);

/// One value of a record, a row or a parameter.
///
/// Clones are cheap: scalars and short text are copied, everything else is shared.
///
/// Equality means identity, for cache keys and tests: types are part of it (`Int(1)` is not
/// `Float(1.0)`) and floats compare by their bits (`NaN` equals itself, `0.0` is not `-0.0`). SQL's
/// comparison rules belong to the database that answers.
///
/// ```
/// use lookaside_value::{Type, Value};
///
/// let value = Value::from("42").convert(Type::Int)?;
/// assert_eq!(value, Value::Int(42));
/// # Ok::<(), lookaside_value::ConvertError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// SQL NULL, JSON null.
    #[default]
    Null,
    /// A field that later statements can see and no output shows.
    Ignore,
    /// True or false.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// A binary floating-point number.
    Float(f64),
    /// An exact decimal number of any length.
    Decimal(Decimal),
    /// Text.
    Text(Text),
    /// A word of a fixed vocabulary; compares equal only to symbols.
    Symbol(Arc<str>),
    /// Bytes that need not be text.
    Bytes(Arc<[u8]>),
    /// Date and time of day, with the offset it was written with; or an instant.
    Time(Time),
    /// An IPv4 or IPv6 address.
    Ip(IpAddr),
    /// An IPv4 or IPv6 network.
    Net(IpNet),
    /// A UUID.
    Uuid(Uuid),
    /// Named members, sorted by name.
    Object(Arc<Object>),
    /// A list of values.
    Array(Arc<[Value]>),
}

/// The type of a [`Value`], without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// [`Value::Null`]
    Null,
    /// [`Value::Ignore`]
    Ignore,
    /// [`Value::Bool`]
    Bool,
    /// [`Value::Int`]
    Int,
    /// [`Value::Float`]
    Float,
    /// [`Value::Decimal`]
    Decimal,
    /// [`Value::Text`]
    Text,
    /// [`Value::Symbol`]
    Symbol,
    /// [`Value::Bytes`]
    Bytes,
    /// [`Value::Time`]
    Time,
    /// [`Value::Ip`]
    Ip,
    /// [`Value::Net`]
    Net,
    /// [`Value::Uuid`]
    Uuid,
    /// [`Value::Object`]
    Object,
    /// [`Value::Array`]
    Array,
}

impl Type {
    /// The type's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Ignore => "ignore",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float",
            Self::Decimal => "decimal",
            Self::Text => "text",
            Self::Symbol => "symbol",
            Self::Bytes => "bytes",
            Self::Time => "time",
            Self::Ip => "ip",
            Self::Net => "net",
            Self::Uuid => "uuid",
            Self::Object => "object",
            Self::Array => "array",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Value {
    /// The value's type.
    pub fn type_of(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Ignore => Type::Ignore,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Float(_) => Type::Float,
            Self::Decimal(_) => Type::Decimal,
            Self::Text(_) => Type::Text,
            Self::Symbol(_) => Type::Symbol,
            Self::Bytes(_) => Type::Bytes,
            Self::Time(_) => Type::Time,
            Self::Ip(_) => Type::Ip,
            Self::Net(_) => Type::Net,
            Self::Uuid(_) => Type::Uuid,
            Self::Object(_) => Type::Object,
            Self::Array(_) => Type::Array,
        }
    }

    /// The text of a text or symbol.
    #[inline]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Symbol(text) => Some(text),
            _ => None,
        }
    }

    /// The number of an integer.
    #[inline]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(*int),
            _ => None,
        }
    }

    /// Whether databases take it for NULL: null, or a field that no output shows.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null | Self::Ignore)
    }

    /// Whether the value is null, ignored, or a text, symbol, bytes, object or array without
    /// content; numbers, booleans, times and addresses are never empty.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Null | Self::Ignore => true,
            Self::Text(text) => text.is_empty(),
            Self::Symbol(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Object(object) => object.is_empty(),
            Self::Array(array) => array.is_empty(),
            _ => false,
        }
    }

    /// Bytes on the heap that this value keeps alive, including reference counters and tree nodes;
    /// shared parts count once for each value. An estimate for cache bounds, not an exact size.
    pub fn heap_size(&self) -> usize {
        match self {
            Self::Text(text) => text.heap_size(),
            Self::Symbol(text) => shared_size(text.len()),
            Self::Decimal(decimal) => shared_size(decimal.as_str().len()),
            Self::Bytes(bytes) => shared_size(bytes.len()),
            Self::Array(array) => {
                let values: usize = array.iter().map(Self::heap_size).sum();
                shared_size(size_of_val(&**array)) + values
            }
            Self::Object(object) => shared_size(size_of::<Object>()) + object.heap_size(),
            _ => 0,
        }
    }

    /// Appends the raw text of the value: `9`, `600` for 600.0, `2026-01-01 08:00:00` (an instant as
    /// `2026-01-01T08:00:00Z`), `{k=v, …}`, `[x, y]`; nothing for null and ignored values; bytes as `0x…`.
    pub fn write_raw(&self, out: &mut String) {
        match self {
            Self::Null | Self::Ignore => {}
            Self::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
            Self::Int(int) => out.push_str(itoa::Buffer::new().format(*int)),
            Self::Float(float) => write!(out, "{float}").expect("a string takes any text"),
            Self::Decimal(decimal) => out.push_str(decimal.as_str()),
            Self::Text(text) => out.push_str(text),
            Self::Symbol(text) => out.push_str(text),
            Self::Bytes(bytes) => write_hex(bytes, out),
            Self::Time(time) => time.write(out),
            Self::Ip(ip) => write_ip(*ip, out),
            Self::Net(net) => write!(out, "{net}").expect("a string takes any text"),
            Self::Uuid(uuid) => write!(out, "{uuid}").expect("a string takes any text"),
            Self::Object(object) => {
                out.push('{');
                for (index, (name, value)) in object.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { ", " });
                    out.push_str(name);
                    out.push('=');
                    value.write_raw(out);
                }
                out.push('}');
            }
            Self::Array(array) => {
                out.push('[');
                for (index, value) in array.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { ", " });
                    value.write_raw(out);
                }
                out.push(']');
            }
        }
    }

    /// The raw text of the value, see [`Self::write_raw`]; text is shared, not copied.
    pub fn to_text(&self) -> Text {
        match self {
            Self::Text(text) => text.clone(),
            Self::Symbol(text) => Text::from(&**text),
            Self::Null | Self::Ignore => Text::EMPTY,
            Self::Bool(bool) => Text::from_static(if *bool { "true" } else { "false" }),
            // At most 20 bytes, so they are stored inline without a heap allocation.
            Self::Int(int) => Text::from(itoa::Buffer::new().format(*int)),
            _ => {
                let mut out = String::new();
                self.write_raw(&mut out);
                Text::from(out)
            }
        }
    }
}

pub(crate) fn write_hex(bytes: &[u8], out: &mut String) {
    out.push_str("0x");
    for byte in bytes {
        write!(out, "{byte:02x}").expect("a string takes any text");
    }
}

/// IPv4 addresses are by far the most frequent, and `format!` takes ten times as long as this.
pub(crate) fn write_ip(ip: IpAddr, out: &mut String) {
    match ip {
        IpAddr::V4(ip) => write_ipv4(ip, out),
        IpAddr::V6(ip) => write!(out, "{ip}").expect("a string takes any text"),
    }
}

fn write_ipv4(ip: Ipv4Addr, out: &mut String) {
    let mut buffer = itoa::Buffer::new();
    for (index, octet) in ip.octets().into_iter().enumerate() {
        if index > 0 {
            out.push('.');
        }
        out.push_str(buffer.format(octet));
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write_raw(&mut out);
        f.write_str(&out)
    }
}

impl PartialEq for Value {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // Most keys are integers, and a call takes longer than the comparison.
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            _ => self.is_equal_to(other),
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        // As in `eq`.
        match self {
            Self::Int(int) => int.hash(state),
            _ => self.hash_content(state),
        }
    }
}

impl Value {
    #[inline(never)]
    fn is_equal_to(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) | (Self::Ignore, Self::Ignore) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Decimal(a), Self::Decimal(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Symbol(a), Self::Symbol(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Time(a), Self::Time(b)) => a == b,
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Net(a), Self::Net(b)) => a == b,
            (Self::Uuid(a), Self::Uuid(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => a == b,
            (Self::Array(a), Self::Array(b)) => a == b,
            _ => false,
        }
    }

    /// Hashes what follows the type.
    #[inline(never)]
    fn hash_content<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Null | Self::Ignore => {}
            Self::Bool(bool) => bool.hash(state),
            Self::Int(int) => int.hash(state),
            Self::Float(float) => float.to_bits().hash(state),
            Self::Decimal(decimal) => decimal.hash(state),
            Self::Text(text) => text.hash(state),
            Self::Symbol(text) => text.hash(state),
            Self::Bytes(bytes) => bytes.hash(state),
            Self::Time(time) => time.hash(state),
            Self::Ip(ip) => ip.hash(state),
            Self::Net(net) => net.hash(state),
            Self::Uuid(uuid) => uuid.hash(state),
            Self::Object(object) => object.hash(state),
            Self::Array(array) => array.hash(state),
        }
    }
}

macro_rules! value_from {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl From<$from> for Value {
            #[inline]
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

value_from! {
    bool => Bool, i64 => Int, i32 => Int, u32 => Int, u16 => Int, u8 => Int, f64 => Float,
    Decimal => Decimal, Text => Text, &str => Text, String => Text, Time => Time, IpAddr => Ip,
    Ipv4Addr => Ip, IpNet => Net, Uuid => Uuid, Vec<Value> => Array, Vec<u8> => Bytes,
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(Arc::new(object))
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use foldhash::fast::FixedState;

    use super::*;

    fn one_of_each_type() -> Vec<(Value, &'static str)> {
        let object: Object = [
            ("b".into(), Value::Null),
            (
                "a".into(),
                Value::from(vec![Value::Int(1), Value::from("x")]),
            ),
        ]
        .into_iter()
        .collect();
        vec![
            (Value::Null, ""),
            (Value::Ignore, ""),
            (Value::Bool(true), "true"),
            (Value::Bool(false), "false"),
            (Value::Int(i64::MIN), "-9223372036854775808"),
            (Value::Float(600.0), "600"),
            (Value::Float(-0.5), "-0.5"),
            (Value::Float(1e21), "1000000000000000000000"),
            (Value::Float(f64::NAN), "NaN"),
            (Value::Decimal("12.50".parse().unwrap()), "12.50"),
            (Value::from("a \"b\""), "a \"b\""),
            (Value::Symbol("GET".into()), "GET"),
            (Value::from(vec![0_u8, 255]), "0x00ff"),
            (
                Value::Time("2026-01-01T08:00:00.250+09:00".parse().unwrap()),
                "2026-01-01 08:00:00.25",
            ),
            (Value::Ip("192.0.2.10".parse().unwrap()), "192.0.2.10"),
            (Value::Ip("2001:db8::1".parse().unwrap()), "2001:db8::1"),
            (Value::Net("10.0.0.0/8".parse().unwrap()), "10.0.0.0/8"),
            (
                Value::Uuid(Uuid::nil()),
                "00000000-0000-0000-0000-000000000000",
            ),
            (Value::from(object), "{a=[1, x], b=}"),
            (Value::from(Vec::<Value>::new()), "[]"),
        ]
    }

    #[test]
    fn raw_text() {
        for (value, expected) in one_of_each_type() {
            let mut appended = String::from(">");
            value.write_raw(&mut appended);
            assert_eq!(appended, format!(">{expected}"), "{value:?}");
            assert_eq!(value.to_text(), expected, "{value:?}");
            assert_eq!(value.to_string(), expected, "{value:?}");
        }
    }

    #[test]
    fn equality_is_identity_and_hashes_agree_with_it() {
        let hash = |value: &Value| FixedState::default().hash_one(value);
        let values = one_of_each_type();
        for (index, (one, _)) in values.iter().enumerate() {
            for (other_index, (other, _)) in values.iter().enumerate() {
                assert_eq!(one == other, index == other_index, "{one:?} {other:?}");
            }
            assert_eq!(hash(one), hash(&one.clone()), "{one:?}");
        }
        assert_ne!(Value::Int(1), Value::Float(1.0));
        assert_ne!(Value::Float(0.0), Value::Float(-0.0));
        assert_ne!(Value::from("GET"), Value::Symbol("GET".into()));
        let time = |text: &str| Value::Time(text.parse().unwrap());
        assert_ne!(time("2026-01-01 08:00:00"), time("2026-01-01 08:00:00Z"));
    }

    #[test]
    fn empty_is_what_has_no_content() {
        let empty = [
            Value::Null,
            Value::Ignore,
            Value::from(""),
            Value::Symbol("".into()),
            Value::from(Vec::<u8>::new()),
            Value::from(Object::new()),
            Value::from(Vec::<Value>::new()),
        ];
        assert!(empty.iter().all(Value::is_empty));
        let filled = [
            Value::Bool(false),
            Value::Int(0),
            Value::Float(0.0),
            Value::from(" "),
            Value::from(vec![Value::Null]),
        ];
        assert!(!filled.iter().any(Value::is_empty));
    }

    #[test]
    fn short_values_are_not_on_the_heap() {
        for (value, on_heap) in [
            (Value::Int(1), false),
            (Value::from("x".repeat(23)), false),
            (Value::from("x".repeat(24)), true),
            (Value::from(vec![Value::Null]), true),
            (Value::from(vec![1_u8]), true),
        ] {
            assert_eq!(value.heap_size() > 0, on_heap, "{value:?}");
        }
    }

    #[test]
    fn of_two_members_the_later_stays() {
        let object: Object = [("a".into(), Value::Int(1)), ("a".into(), Value::Int(2))]
            .into_iter()
            .collect();
        assert_eq!(
            (object.len(), object.member("a")),
            (1, Some(&Value::Int(2)))
        );
    }
}
