//! A value of an array, and what becomes of it in SQL and in JSON.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Decimal256Type, DecimalType, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType,
    IntervalYearMonthType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, MapArray, StructArray};
use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time as ClockTime};
use lookaside_value::{Time, write_json_text};
use rusqlite::types::Value as SqlValue;

/// A value that has no form in a table.
pub(super) type BadValue = &'static str;

const BEYOND_CALENDAR: BadValue = "a date beyond the years -9999 to 9999";
const BEYOND_DAY: BadValue = "a time of day that is not within a day";
const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// A value.
pub(super) enum Cell<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    Unsigned(u64),
    Real(f64),
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
    /// A row of an array.
    Struct(&'a StructArray, usize),
    /// Items of an array, with their field.
    List(&'a Field, &'a ArrayRef, Range<usize>),
    /// Entries of a map.
    Map(&'a MapArray, Range<usize>),
}

impl<'a> Cell<'a> {
    /// The value of a row of an array.
    pub(super) fn of(field: &Field, array: &'a dyn Array, row: usize) -> Result<Self, BadValue> {
        if array.is_null(row) {
            return Ok(Self::Null);
        }
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Bool(array.as_boolean().value(row)),
            DataType::Int8 => Self::Integer(primitive::<Int8Type>(array, row).into()),
            DataType::Int16 => Self::Integer(primitive::<Int16Type>(array, row).into()),
            DataType::Int32 => Self::Integer(primitive::<Int32Type>(array, row).into()),
            DataType::Int64 => Self::Integer(primitive::<Int64Type>(array, row)),
            DataType::UInt8 => Self::Integer(primitive::<UInt8Type>(array, row).into()),
            DataType::UInt16 => Self::Integer(primitive::<UInt16Type>(array, row).into()),
            DataType::UInt32 => Self::Integer(primitive::<UInt32Type>(array, row).into()),
            DataType::UInt64 => Self::Unsigned(primitive::<UInt64Type>(array, row)),
            DataType::Float16 => Self::Real(primitive::<Float16Type>(array, row).to_f64()),
            DataType::Float32 => Self::Real(widened(primitive::<Float32Type>(array, row))),
            DataType::Float64 => Self::Real(primitive::<Float64Type>(array, row)),
            DataType::Utf8 => Self::text(array.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Self::text(array.as_string::<i64>().value(row)),
            DataType::Utf8View => Self::text(array.as_string_view().value(row)),
            DataType::Binary => Self::Bytes(array.as_binary::<i32>().value(row)),
            DataType::LargeBinary => Self::Bytes(array.as_binary::<i64>().value(row)),
            DataType::BinaryView => Self::Bytes(array.as_binary_view().value(row)),
            DataType::FixedSizeBinary(_) => {
                let bytes = array.as_fixed_size_binary().value(row);
                match <&[u8; 16]>::try_from(bytes) {
                    Ok(bytes) if is_uuid(field) => Self::owned(uuid_text(*bytes)),
                    _ => Self::Bytes(bytes),
                }
            }
            DataType::Decimal32(precision, scale) => {
                decimal::<Decimal32Type>(array, row, *precision, *scale)
            }
            DataType::Decimal64(precision, scale) => {
                decimal::<Decimal64Type>(array, row, *precision, *scale)
            }
            DataType::Decimal128(precision, scale) => {
                decimal::<Decimal128Type>(array, row, *precision, *scale)
            }
            DataType::Decimal256(precision, scale) => {
                decimal::<Decimal256Type>(array, row, *precision, *scale)
            }
            DataType::Date32 => {
                let days = i64::from(primitive::<Date32Type>(array, row));
                Self::owned(date(days)?.to_string())
            }
            DataType::Date64 => {
                let millis = primitive::<Date64Type>(array, row);
                let time = civil(TimeUnit::Millisecond, millis)?;
                // It is defined as a whole number of days, but some writers keep the time of day.
                match time.time() == ClockTime::midnight() {
                    true => Self::owned(time.date().to_string()),
                    false => Self::owned(Time::from_civil(time).to_string()),
                }
            }
            DataType::Time32(unit) | DataType::Time64(unit) => {
                let value = clock_count(array, *unit, row);
                let clock = ClockTime::midnight().checked_add(duration(*unit, value));
                Self::owned(clock.map_err(|_| BEYOND_DAY)?.to_string())
            }
            // With a zone it is an instant. In a table it has the form in which times are bound to the
            // parameters of a query, which is that of UTC.
            DataType::Timestamp(unit, _) => {
                let civil = civil(*unit, timestamp_count(array, *unit, row))?;
                Self::owned(Time::from_civil(civil).to_string())
            }
            DataType::Duration(unit) => {
                Self::owned(duration(*unit, duration_count(array, *unit, row)).to_string())
            }
            DataType::Interval(unit) => Self::owned(interval(array, *unit, row)),
            DataType::Struct(_) => Self::Struct(array.as_struct(), row),
            DataType::List(field) => {
                let list = array.as_list::<i32>();
                let offsets = list.value_offsets();
                let range = offsets[row] as usize..offsets[row + 1] as usize;
                Self::List(field, list.values(), range)
            }
            DataType::LargeList(field) => {
                let list = array.as_list::<i64>();
                let offsets = list.value_offsets();
                let range = offsets[row] as usize..offsets[row + 1] as usize;
                Self::List(field, list.values(), range)
            }
            DataType::ListView(field) => {
                let list = array.as_list_view::<i32>();
                let begin = list.value_offset(row) as usize;
                Self::List(
                    field,
                    list.values(),
                    begin..begin + list.value_size(row) as usize,
                )
            }
            DataType::LargeListView(field) => {
                let list = array.as_list_view::<i64>();
                let begin = list.value_offset(row) as usize;
                Self::List(
                    field,
                    list.values(),
                    begin..begin + list.value_size(row) as usize,
                )
            }
            DataType::FixedSizeList(field, size) => {
                let begin = row * *size as usize;
                let items = array.as_fixed_size_list().values();
                Self::List(field, items, begin..begin + *size as usize)
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let offsets = map.value_offsets();
                Self::Map(map, offsets[row] as usize..offsets[row + 1] as usize)
            }
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                match Self::of(field, dictionary.keys(), row)? {
                    Self::Integer(key) => Self::of(field, dictionary.values(), key as usize)?,
                    Self::Unsigned(key) => Self::of(field, dictionary.values(), key as usize)?,
                    _ => Self::Null,
                }
            }
            DataType::RunEndEncoded(ends, values) => {
                let (array, row) = match ends.data_type() {
                    DataType::Int16 => {
                        let runs = array.as_run::<Int16Type>();
                        (runs.values(), runs.get_physical_index(row))
                    }
                    DataType::Int32 => {
                        let runs = array.as_run::<Int32Type>();
                        (runs.values(), runs.get_physical_index(row))
                    }
                    _ => {
                        let runs = array.as_run::<Int64Type>();
                        (runs.values(), runs.get_physical_index(row))
                    }
                };
                Self::of(values, array, row)?
            }
            DataType::Union(fields, _) => {
                let union = array.as_union();
                let kind = union.type_id(row);
                match fields.iter().find(|(known, _)| *known == kind) {
                    Some((_, field)) => {
                        Self::of(field, union.child(kind), union.value_offset(row))?
                    }
                    None => Self::Null,
                }
            }
        })
    }

    /// The value at a path below a value: names of fields of a struct, keys of a map, positions in a
    /// list.
    pub(super) fn at(self, path: &[String]) -> Result<Self, BadValue> {
        let [part, rest @ ..] = path else {
            return Ok(self);
        };
        let value = match self {
            Self::Struct(array, row) => match array.fields().find(part) {
                Some((index, field)) => Cell::of(field, array.column(index), row)?,
                None => Self::Null,
            },
            Self::List(field, items, range) => {
                let index = part.parse().ok();
                match index.and_then(|index: usize| range.clone().nth(index)) {
                    Some(index) => Cell::of(field, items, index)?,
                    None => Self::Null,
                }
            }
            Self::Map(map, mut range) => {
                let (key_field, field) = map.entries_fields();
                let is_part = |index: &usize| match Cell::of(key_field, map.keys(), *index) {
                    Ok(key) => key.key_text() == *part,
                    Err(_) => false,
                };
                match range.find(is_part) {
                    Some(index) => Cell::of(field, map.values(), index)?,
                    None => Self::Null,
                }
            }
            _ => Self::Null,
        };
        value.at(rest)
    }

    fn text(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    fn owned(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }

    /// The value in SQL: booleans as 1 and 0, integers beyond 64 bits with sign as their digits, nested
    /// values as JSON. NaN becomes NULL.
    pub(super) fn into_sql(self) -> Result<SqlValue, BadValue> {
        Ok(match self {
            Self::Null => SqlValue::Null,
            Self::Bool(bool) => SqlValue::Integer(bool.into()),
            Self::Integer(int) => SqlValue::Integer(int),
            Self::Unsigned(int) => match i64::try_from(int) {
                Ok(int) => SqlValue::Integer(int),
                Err(_) => SqlValue::Text(int.to_string()),
            },
            Self::Real(real) if real.is_nan() => SqlValue::Null,
            Self::Real(real) => SqlValue::Real(real),
            Self::Text(text) => SqlValue::Text(text.into_owned()),
            Self::Bytes(bytes) => SqlValue::Blob(bytes.to_vec()),
            Self::Struct(..) | Self::List(..) | Self::Map(..) => {
                let mut json = String::new();
                self.write_json(&mut json)?;
                SqlValue::Text(json)
            }
        })
    }

    fn write_json(self, out: &mut String) -> Result<(), BadValue> {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(bool) => out.push_str(if bool { "true" } else { "false" }),
            Self::Integer(int) => out.push_str(itoa::Buffer::new().format(int)),
            Self::Unsigned(int) => out.push_str(itoa::Buffer::new().format(int)),
            Self::Real(real) if real.is_finite() => {
                out.push_str(ryu::Buffer::new().format_finite(real));
            }
            Self::Real(_) => out.push_str("null"),
            Self::Text(text) => write_json_text(&text, out),
            Self::Bytes(_) => write_json_text(&self.key_text(), out),
            Self::Struct(array, row) => {
                out.push('{');
                for (index, field) in array.fields().iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_json_text(field.name(), out);
                    out.push(':');
                    Cell::of(field, array.column(index), row)?.write_json(out)?;
                }
                out.push('}');
            }
            Self::List(field, items, range) => {
                out.push('[');
                for (number, index) in range.enumerate() {
                    if number > 0 {
                        out.push(',');
                    }
                    Cell::of(field, items, index)?.write_json(out)?;
                }
                out.push(']');
            }
            Self::Map(map, range) => {
                let (key_field, field) = map.entries_fields();
                out.push('{');
                for (number, index) in range.enumerate() {
                    if number > 0 {
                        out.push(',');
                    }
                    let key = Cell::of(key_field, map.keys(), index)?;
                    write_json_text(&key.key_text(), out);
                    out.push(':');
                    Cell::of(field, map.values(), index)?.write_json(out)?;
                }
                out.push('}');
            }
        }
        Ok(())
    }

    /// The value as the key of a member of an object.
    fn key_text(self) -> Cow<'a, str> {
        match self {
            Self::Text(text) => text,
            Self::Bytes(bytes) => {
                let mut text = String::with_capacity(2 + 2 * bytes.len());
                text.push_str("0x");
                for byte in bytes {
                    write!(text, "{byte:02x}").expect("writing to a string does not fail");
                }
                Cow::Owned(text)
            }
            other => {
                let mut json = String::new();
                // A part that has no form is left out of the key.
                let _ = other.write_json(&mut json);
                Cow::Owned(json)
            }
        }
    }
}

/// Whether the bytes of a field are UUIDs.
fn is_uuid(field: &Field) -> bool {
    field.extension_type_name() == Some("arrow.uuid")
}

/// A UUID in its usual form.
fn uuid_text(bytes: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    parts.join("-")
}

#[inline]
fn primitive<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> T::Native {
    array.as_primitive::<T>().value(row)
}

fn decimal<'a, T: DecimalType>(
    array: &dyn Array,
    row: usize,
    precision: u8,
    scale: i8,
) -> Cell<'a> {
    Cell::owned(T::format_decimal(
        primitive::<T>(array, row),
        precision,
        scale,
    ))
}

/// The double that is written with the digits of the float: 0.1, where a cast gives
/// 0.10000000149011612. So it is found by the value that was written.
fn widened(float: f32) -> f64 {
    match float.is_finite() {
        true => {
            let mut digits = ryu::Buffer::new();
            let parsed = digits.format_finite(float).parse();
            parsed.unwrap_or_else(|_| f64::from(float))
        }
        false => f64::from(float),
    }
}

fn clock_count(array: &dyn Array, unit: TimeUnit, row: usize) -> i64 {
    match unit {
        TimeUnit::Second => primitive::<Time32SecondType>(array, row).into(),
        TimeUnit::Millisecond => primitive::<Time32MillisecondType>(array, row).into(),
        TimeUnit::Microsecond => primitive::<Time64MicrosecondType>(array, row),
        TimeUnit::Nanosecond => primitive::<Time64NanosecondType>(array, row),
    }
}

fn timestamp_count(array: &dyn Array, unit: TimeUnit, row: usize) -> i64 {
    match unit {
        TimeUnit::Second => primitive::<TimestampSecondType>(array, row),
        TimeUnit::Millisecond => primitive::<TimestampMillisecondType>(array, row),
        TimeUnit::Microsecond => primitive::<TimestampMicrosecondType>(array, row),
        TimeUnit::Nanosecond => primitive::<TimestampNanosecondType>(array, row),
    }
}

fn duration_count(array: &dyn Array, unit: TimeUnit, row: usize) -> i64 {
    match unit {
        TimeUnit::Second => primitive::<DurationSecondType>(array, row),
        TimeUnit::Millisecond => primitive::<DurationMillisecondType>(array, row),
        TimeUnit::Microsecond => primitive::<DurationMicrosecondType>(array, row),
        TimeUnit::Nanosecond => primitive::<DurationNanosecondType>(array, row),
    }
}

/// A number of units as a duration.
fn duration(unit: TimeUnit, count: i64) -> SignedDuration {
    match unit {
        TimeUnit::Second => SignedDuration::from_secs(count),
        TimeUnit::Millisecond => SignedDuration::from_millis(count),
        TimeUnit::Microsecond => SignedDuration::from_micros(count),
        TimeUnit::Nanosecond => SignedDuration::from_nanos(count),
    }
}

/// The wall clock at a number of units since 1970.
fn civil(unit: TimeUnit, count: i64) -> Result<DateTime, BadValue> {
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let time = epoch.checked_add(duration(unit, count));
    time.map_err(|_| BEYOND_CALENDAR)
}

/// The date at a number of days since 1970.
fn date(days: i64) -> Result<Date, BadValue> {
    let civil = civil(TimeUnit::Second, days * 86_400)?;
    Ok(civil.date())
}

/// A duration of months, days and parts of a day, which do not add up: `P14M-2DT3.5S` in ISO 8601.
fn interval(array: &dyn Array, unit: IntervalUnit, row: usize) -> String {
    let (months, days, nanos) = match unit {
        IntervalUnit::YearMonth => (primitive::<IntervalYearMonthType>(array, row), 0, 0),
        IntervalUnit::DayTime => {
            let value = primitive::<IntervalDayTimeType>(array, row);
            (0, value.days, i64::from(value.milliseconds) * 1_000_000)
        }
        IntervalUnit::MonthDayNano => {
            let value = primitive::<IntervalMonthDayNanoType>(array, row);
            (value.months, value.days, value.nanoseconds)
        }
    };
    let mut text = String::from("P");
    for (count, letter) in [(months, 'M'), (days, 'D')] {
        if count != 0 {
            text.push_str(&format!("{count}{letter}"));
        }
    }
    if nanos != 0 || text.len() == 1 {
        let sign = if nanos < 0 { "-" } else { "" };
        let nanos = i128::from(nanos).abs();
        let (seconds, rest) = (nanos / NANOS_PER_SECOND, nanos % NANOS_PER_SECOND);
        let number = format!("{seconds}.{rest:09}");
        let number = number.trim_end_matches('0').trim_end_matches('.');
        text.push_str(&format!("T{sign}{number}S"));
    }
    text
}

/// Whether a path leads to a value of a field; otherwise the part at which it does not, and the parts
/// that are there.
pub(super) fn check_path<'a>(
    field: &FieldRef,
    path: &'a [String],
) -> Result<(), (&'a str, Vec<String>)> {
    let [part, rest @ ..] = path else {
        return Ok(());
    };
    let below = match field.data_type() {
        DataType::Struct(fields) => match fields.find(part) {
            Some((_, field)) => field,
            None => {
                let names = fields.iter().map(|field| field.name().clone());
                return Err((part, names.collect()));
            }
        },
        DataType::List(items)
        | DataType::LargeList(items)
        | DataType::ListView(items)
        | DataType::LargeListView(items)
        | DataType::FixedSizeList(items, _)
            if part.parse::<usize>().is_ok() =>
        {
            items
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => &fields[1],
            _ => return Err((part, Vec::new())),
        },
        // What is nested below it is known for each value only.
        DataType::Union(..) | DataType::Dictionary(..) | DataType::RunEndEncoded(..) => {
            return Ok(());
        }
        _ => return Err((part, Vec::new())),
    };
    check_path(below, rest)
}
