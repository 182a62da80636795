//! Parameters from JSON: one set, or thousands.
//!
//! A batch is read without an intermediate JSON tree: each string is converted directly to the
//! value of its type, and short ones need no allocation.

use std::borrow::Cow;
use std::fmt;

use lookaside_knowledge::{ParamBatch, Text, Value};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use lookaside_value::Decimal;
use memchr::{memchr2, memmem};

use super::{FAULT_COUNT_MAX, PARAM_COUNT_MAX, Param, ParamFault, Places, TWICE, wanted_of};
use crate::config::ParamType;

/// The number of sets of one request; a body of eight megabytes holds about this many.
pub(crate) const SET_COUNT_MAX: usize = 200_000;

/// Up to 2^53 - 1, a float represents exactly one integer. Beyond, several integers round to it.
const FLOAT_EXACT_MAX: f64 = 9_007_199_254_740_991.0;

/// The parser returns integers from 2^64 on, and below -2^63, as floats.
const INT_SIZE_END: f64 = 18_446_744_073_709_551_616.0;

/// Why a batch is refused.
#[derive(Debug, PartialEq)]
pub(crate) enum BatchFault {
    /// The text is malformed; the message names the place. The index of the set, from 0, is absent
    /// if the fault is outside of any set.
    Malformed(Option<usize>, String),
    /// A set is invalid; its index is counted from 0.
    Set(usize, Vec<ParamFault>),
    TooMany,
    /// The request was cancelled.
    Cancelled,
}

/// Reads a JSON array of parameter sets, or one set per line. A set is an object, or for a lookup
/// with one parameter also the value alone. Stops before the next set when `is_cancelled`.
pub(crate) fn read_batch(
    body: &[u8],
    is_lines: bool,
    params: &[Param],
    is_cancelled: &dyn Fn() -> bool,
) -> Result<ParamBatch, BatchFault> {
    let mut batch = Batch {
        params,
        is_cancelled,
        values: Vec::new(),
        set_count: 0,
        fault: None,
    };
    let read = match is_lines {
        true => read_lines(body, &mut batch),
        false => {
            let text = without_negative_zeros(body);
            let mut json = serde_json::Deserializer::from_slice(&text);
            let is_array = body.trim_ascii_start().first() == Some(&b'[');
            let read = Sets(&mut batch).deserialize(&mut json);
            match read {
                // The malformed set is the one after those that were read.
                Err(error) => Err((is_array.then_some(batch.set_count), error.to_string())),
                Ok(()) => json.end().map_err(|error| (None, error.to_string())),
            }
        }
    };
    if let Some(fault) = batch.fault {
        return Err(fault);
    }
    read.map_err(|(set, message)| BatchFault::Malformed(set, message))?;
    let mut sets = ParamBatch::new(params.len());
    let mut values = batch.values.into_iter();
    for _ in 0..batch.set_count {
        sets.push(values.by_ref().take(params.len()));
    }
    Ok(sets)
}

fn read_lines(body: &[u8], batch: &mut Batch<'_>) -> Result<(), (Option<usize>, String)> {
    for (index, line) in body.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let set = batch.set_count;
        let text = without_negative_zeros(line);
        let mut json = serde_json::Deserializer::from_slice(&text);
        let read = Set(batch).deserialize(&mut json);
        read.and_then(|()| json.end()).map_err(|error| {
            let message = without_line(&error.to_string());
            (Some(set), format!("line {}: {message}", index + 1))
        })?;
    }
    Ok(())
}

/// Rewrites the integer `-0` in a JSON text to `0`, as in events (FORMATS.md): the parser turns
/// both `-0` and `-0.0` into the same float. The positions of all other bytes stay the same.
pub(crate) fn without_negative_zeros(json: &[u8]) -> Cow<'_, [u8]> {
    let mut text = Cow::Borrowed(json);
    // Hardly any text contains `-0`. Strings may contain it, so they are skipped.
    if memmem::find(json, b"-0").is_none() {
        return text;
    }
    let mut at = 0;
    while let Some(step) = memchr2(b'"', b'-', &json[at..]) {
        at += step;
        if json[at] == b'"' {
            at = end_of_text(json, at + 1);
            continue;
        }
        let is_exponent = at > 0 && matches!(json[at - 1], b'e' | b'E');
        let goes_on = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E');
        let is_zero = json.get(at + 1) == Some(&b'0') && !json.get(at + 2).is_some_and(goes_on);
        if is_zero && !is_exponent {
            text.to_mut()[at] = b' ';
        }
        at += 1;
    }
    text
}

/// The position after the quote that ends a string.
fn end_of_text(json: &[u8], mut at: usize) -> usize {
    while let Some(step) = memchr2(b'"', b'\\', json.get(at..).unwrap_or_default()) {
        at += step;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

/// Removes the line number from a message: each line is parsed alone, so it is always 1.
fn without_line(message: &str) -> String {
    message.replace(" at line 1 column ", " at column ")
}

/// Parameters by name, for a statement that declares no types.
#[derive(Debug, Default)]
pub(crate) struct Named {
    pub(crate) values: Vec<(String, Value)>,
    /// The faults of the other parameters.
    pub(crate) faults: Vec<ParamFault>,
}

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NamedVisitor)
    }
}

struct NamedVisitor;

impl<'de> Visitor<'de> for NamedVisitor {
    type Value = Named;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the parameters by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let Named {
            mut values,
            mut faults,
        } = Named::default();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Scalar(ParamType::Any))?;
            let is_known = values.iter().any(|(known, _)| *known == name);
            match value {
                Some(value) if !is_known => values.push((name, value)),
                _ if faults.len() == FAULT_COUNT_MAX => {}
                Some(_) => faults.push(ParamFault::new(&name, TWICE)),
                None => faults.push(ParamFault::new(&name, ParamType::Any.wanted())),
            }
            if values.len() > PARAM_COUNT_MAX {
                let problem = format!("more than {PARAM_COUNT_MAX} parameters");
                return Err(serde::de::Error::custom(problem));
            }
        }
        Ok(Named { values, faults })
    }
}

struct Batch<'p> {
    params: &'p [Param],
    is_cancelled: &'p dyn Fn() -> bool,
    values: Vec<Value>,
    set_count: usize,
    fault: Option<BatchFault>,
}

impl Batch<'_> {
    /// Records a fault; the returned error only ends the parsing.
    fn fail<E: serde::de::Error>(&mut self, fault: BatchFault) -> E {
        self.fault = Some(fault);
        E::custom("a parameter set is invalid")
    }
}

/// The whole array.
struct Sets<'b, 'p>(&'b mut Batch<'p>);

impl<'de> DeserializeSeed<'de> for Sets<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Sets<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of parameter sets")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Set(self.0))?.is_some() {}
        Ok(())
    }
}

/// One parameter set.
struct Set<'b, 'p>(&'b mut Batch<'p>);

impl<'de> DeserializeSeed<'de> for Set<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.0.set_count == SET_COUNT_MAX {
            return Err(self.0.fail(BatchFault::TooMany));
        }
        if (self.0.is_cancelled)() {
            return Err(self.0.fail(BatchFault::Cancelled));
        }
        deserializer.deserialize_any(self)
    }
}

impl Set<'_, '_> {
    /// Handles a bare value, for a lookup with one parameter.
    fn alone<E: serde::de::Error>(self, value: Option<Value>) -> Result<(), E> {
        let batch = self.0;
        let [param] = batch.params else {
            return Err(E::custom(
                "a set must be an object with the parameters by name",
            ));
        };
        match value {
            Some(value) if param.takes(&value) => {
                batch.values.push(value);
                batch.set_count += 1;
                Ok(())
            }
            value => {
                let fault = ParamFault {
                    name: param.name.to_string(),
                    problem: wanted_of(param, value.as_ref()),
                };
                Err(batch.fail(BatchFault::Set(batch.set_count, vec![fault])))
            }
        }
    }

    fn kind(&self) -> ParamType {
        self.0
            .params
            .first()
            .map_or(ParamType::Any, |param| param.kind)
    }
}

impl<'de> Visitor<'de> for Set<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a parameter set, an object with the parameters by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let batch = self.0;
        let params = batch.params;
        let mut places = Places::new(params, &mut batch.values);
        let start = places.begin();
        while let Some(found) = members.next_key_seed(Name(&mut places))? {
            match found {
                Some(index) => {
                    let value = members.next_value_seed(Scalar(params[index].kind))?;
                    places.put(start, index, value);
                }
                None => {
                    members.next_value::<serde::de::IgnoredAny>()?;
                }
            }
        }
        match places.finish() {
            Ok(()) => {
                batch.set_count += 1;
                Ok(())
            }
            Err(faults) => Err(batch.fail(BatchFault::Set(batch.set_count, faults))),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        let value = self.kind().parse(text);
        self.alone(value)
    }

    fn visit_i64<E: serde::de::Error>(self, int: i64) -> Result<(), E> {
        let value = self.kind().of_int(int);
        self.alone(value)
    }

    fn visit_u64<E: serde::de::Error>(self, int: u64) -> Result<(), E> {
        let value = self.kind().of_u64(int);
        self.alone(value)
    }

    fn visit_f64<E: serde::de::Error>(self, float: f64) -> Result<(), E> {
        let value = self.kind().of_float(float);
        self.alone(value)
    }

    fn visit_bool<E: serde::de::Error>(self, bool: bool) -> Result<(), E> {
        let value = self.kind().of_bool(bool);
        self.alone(value)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.alone(Some(Value::Null))
    }
}

/// Deserializes the name of a parameter into its position, without copying the name.
struct Name<'a, 'p>(&'a mut Places<'p>);

impl<'de> DeserializeSeed<'de> for Name<'_, '_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_, '_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a parameter")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.place(name))
    }
}

/// Deserializes one value; `None` if it has another type.
struct Scalar(ParamType);

impl<'de> DeserializeSeed<'de> for Scalar {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scalar {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, true, false or null")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(self.0.parse(text))
    }

    fn visit_i64<E>(self, int: i64) -> Result<Self::Value, E> {
        Ok(self.0.of_int(int))
    }

    fn visit_u64<E>(self, int: u64) -> Result<Self::Value, E> {
        Ok(self.0.of_u64(int))
    }

    fn visit_f64<E>(self, float: f64) -> Result<Self::Value, E> {
        Ok(self.0.of_float(float))
    }

    fn visit_bool<E>(self, bool: bool) -> Result<Self::Value, E> {
        Ok(self.0.of_bool(bool))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Some(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<serde::de::IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        type Ignored = serde::de::IgnoredAny;
        while members.next_entry::<Ignored, Ignored>()?.is_some() {}
        Ok(None)
    }
}

impl ParamType {
    fn of_int(self, int: i64) -> Option<Value> {
        match self {
            Self::Int | Self::Any => Some(Value::Int(int)),
            Self::Float => Value::Int(int)
                .convert(lookaside_knowledge::Type::Float)
                .ok(),
            Self::Decimal => self.parse(&Text::from(int.to_string())),
            _ => None,
        }
    }

    /// Beyond the signed 64-bit range a number is kept exactly or refused.
    fn of_u64(self, int: u64) -> Option<Value> {
        match (i64::try_from(int), self) {
            (Ok(int), _) => self.of_int(int),
            (Err(_), Self::Decimal | Self::Any) => {
                Some(Value::Decimal(Decimal::from(u128::from(int))))
            }
            (Err(_), _) => None,
        }
    }

    /// JSON has only one number type, and some programs write 7 as 7.0, which is accepted as an
    /// integer.
    fn of_float(self, float: f64) -> Option<Value> {
        match self {
            Self::Float => Some(Value::Float(float)),
            // The parser silently turns integers beyond 64 bits into floats.
            Self::Any if float >= INT_SIZE_END || float <= i64::MIN as f64 => None,
            Self::Any => Some(Value::Float(float)),
            Self::Int if float.fract() == 0.0 && float.abs() <= FLOAT_EXACT_MAX => {
                Some(Value::Int(float as i64))
            }
            _ => None,
        }
    }

    fn of_bool(self, bool: bool) -> Option<Value> {
        matches!(self, Self::Bool | Self::Any).then_some(Value::Bool(bool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_batch(body: &[u8], is_lines: bool, params: &[Param]) -> Result<ParamBatch, BatchFault> {
        super::read_batch(body, is_lines, params, &|| false)
    }

    #[test]
    fn issue_12_reading_ends_when_the_client_is_gone() {
        let one = params(&[("id", ParamType::Int)]);
        for (body, is_lines) in [("[1,2,3,4,5]", false), ("1\n2\n3\n4\n5\n", true)] {
            let looked = std::cell::Cell::new(0);
            let is_cancelled = || looked.replace(looked.get() + 1) == 3;
            let read = super::read_batch(body.as_bytes(), is_lines, &one, &is_cancelled);
            assert_eq!(read.err(), Some(BatchFault::Cancelled), "{body}");
            assert_eq!(looked.get(), 4, "{body}");
        }
    }

    fn params(list: &[(&str, ParamType)]) -> Vec<Param> {
        let list = list.iter();
        list.map(|(name, kind)| Param {
            name: Text::from(*name),
            kind: *kind,
            is_nullable: false,
        })
        .collect()
    }

    fn texts(batch: &ParamBatch) -> Vec<String> {
        let sets = batch.iter();
        sets.map(|set| {
            let values: Vec<String> = set.iter().map(ToString::to_string).collect();
            values.join(",")
        })
        .collect()
    }

    #[test]
    fn sets_come_as_objects_and_values_alone() {
        let two = params(&[("id", ParamType::Int), ("name", ParamType::Text)]);
        let json = br#"[{"id":1,"name":"a"}, {"name":"b\n","id":2}]"#;
        let batch = read_batch(json, false, &two).unwrap();
        assert_eq!(texts(&batch), ["1,a", "2,b\n"]);
        let lines = b"{\"id\":1,\"name\":\"a\"}\n\n{\"id\":2,\"name\":\"b\"}\r\n";
        let batch = read_batch(lines, true, &two).unwrap();
        assert_eq!(texts(&batch), ["1,a", "2,b"]);
        let one = params(&[("ip", ParamType::Ipv4)]);
        let json = br#"["10.0.0.1", {"ip":"10.0.0.2"}]"#;
        assert_eq!(
            texts(&read_batch(json, false, &one).unwrap()),
            ["10.0.0.1", "10.0.0.2"]
        );
        assert_eq!(read_batch(b"[]", false, &one).unwrap().len(), 0);
        assert_eq!(read_batch(b"", true, &one).unwrap().len(), 0);
        let any = params(&[("x", ParamType::Any)]);
        let batch = read_batch(br#"["a", 1, 1.5, true, null]"#, false, &any).unwrap();
        let types: Vec<&str> = batch.iter().map(|set| set[0].type_of().name()).collect();
        assert_eq!(types, ["text", "int", "float", "bool", "null"]);
    }

    #[test]
    fn issue_12_negative_zero_is_the_integer_0() {
        for (json, expected) in [
            ("[-0]", "[ 0]"),
            ("{\"a\":-0,\"b\":-0}", "{\"a\": 0,\"b\": 0}"),
            (
                "[-0.0,-0e1,-0E1,1e-0,-1,-00]",
                "[-0.0,-0e1,-0E1,1e-0,-1,-00]",
            ),
            ("[\"-0\",\"\\\"-0\",-0]", "[\"-0\",\"\\\"-0\", 0]"),
            ("\"-0", "\"-0"),
            ("\"-0\\", "\"-0\\"),
            ("-0", " 0"),
            ("-", "-"),
        ] {
            let seen = without_negative_zeros(json.as_bytes());
            assert_eq!(seen, expected.as_bytes(), "{json}");
        }
        let any = params(&[("x", ParamType::Any)]);
        let wanted = [Value::Int(0), Value::Float(-0.0), Value::Int(0)];
        for (body, is_lines) in [
            ("[-0, -0.0, {\"x\":-0}]", false),
            ("-0\n-0.0\n{\"x\":-0}", true),
        ] {
            let batch = read_batch(body.as_bytes(), is_lines, &any).unwrap();
            let values: Vec<Value> = batch.iter().map(|set| set[0].clone()).collect();
            assert_eq!(values, wanted, "{body}");
        }
    }

    #[test]
    fn issue_13_null_is_for_parameters_that_may_be_null() {
        let mut one = params(&[("id", ParamType::Int)]);
        for body in ["[null]", "[{\"id\":null}]"] {
            let fault = ParamFault {
                name: "id".to_owned(),
                problem: "must be a whole number within 64 bits, not null".into(),
            };
            assert_eq!(
                read_batch(body.as_bytes(), false, &one).unwrap_err(),
                BatchFault::Set(0, vec![fault]),
                "{body}"
            );
        }
        one[0].is_nullable = true;
        let json = br#"[null, {"id":null}, {}, 7]"#;
        let batch = read_batch(json, false, &one).unwrap();
        assert_eq!(texts(&batch), ["", "", "", "7"]);
        assert!(batch.iter().take(3).all(|set| set[0] == Value::Null));
        assert!(read_batch(br#"["x"]"#, false, &one).is_err());
    }

    #[test]
    fn a_whole_number_is_one_however_it_is_written() {
        let one = params(&[("id", ParamType::Int)]);
        let json = b"[7.0, -0.0, 1e3, {\"id\":9007199254740991.0}]";
        let batch = read_batch(json, false, &one).unwrap();
        assert_eq!(texts(&batch), ["7", "0", "1000", "9007199254740991"]);
        for (json, problem) in [
            ("7.5", "must be a whole number within 64 bits"),
            ("1e300", "must be a whole number within 64 bits"),
            (
                "9007199254740992.0",
                "must be a whole number within 64 bits",
            ),
            ("\"7.0\"", "must be a whole number within 64 bits"),
        ] {
            let fault = ParamFault {
                name: "id".to_owned(),
                problem: problem.into(),
            };
            assert_eq!(
                read_batch(format!("[{json}]").as_bytes(), false, &one).unwrap_err(),
                BatchFault::Set(0, vec![fault]),
                "{json}"
            );
        }
    }

    #[test]
    fn issue_12_numbers_beyond_64_bits_are_exact_or_refused() {
        let one = |kind| params(&[("n", kind)]);
        let read = |json: &str, kind| read_batch(format!("[{json}]").as_bytes(), false, &one(kind));
        for kind in [ParamType::Any, ParamType::Decimal] {
            for json in ["18446744073709551615", r#"{"n":18446744073709551615}"#] {
                let batch = read(json, kind).unwrap();
                assert_eq!(texts(&batch), ["18446744073709551615"]);
            }
        }
        for (json, kind) in [
            ("18446744073709551615", ParamType::Int),
            ("18446744073709551616", ParamType::Any),
            ("-9223372036854775809", ParamType::Int),
            ("-9223372036854775809", ParamType::Any),
            ("-99999999999999999999", ParamType::Any),
            ("99999999999999999999", ParamType::Decimal),
        ] {
            assert!(read(json, kind).is_err(), "{json} as {}", kind.name());
        }
        assert_eq!(
            texts(&read("1e20", ParamType::Float).unwrap()),
            ["100000000000000000000"]
        );
        assert_eq!(
            texts(&read("1.5e9", ParamType::Any).unwrap()),
            ["1500000000"]
        );
    }

    #[test]
    fn a_lookup_without_parameters_takes_empty_objects() {
        let batch = read_batch(b"[{},{}]", false, &[]).unwrap();
        assert_eq!((batch.len(), batch.width()), (2, 0));
    }

    #[test]
    fn faults_name_the_set_and_the_parameter() {
        let two = params(&[("id", ParamType::Int), ("name", ParamType::Text)]);
        let fault = |json: &str| match read_batch(json.as_bytes(), false, &two) {
            Err(BatchFault::Set(index, faults)) => {
                let faults = faults.iter();
                let faults: Vec<String> = faults
                    .map(|fault| format!("{} {}", fault.name, fault.problem))
                    .collect();
                format!("{index}: {}", faults.join("; "))
            }
            Err(BatchFault::Malformed(Some(set), message)) => format!("{set}: {message}"),
            Err(BatchFault::Malformed(None, message)) => message,
            other => panic!("{other:?}"),
        };
        for (json, expected) in [
            (r#"[{"id":1}]"#, "0: name is missing"),
            (
                r#"[{"id":1,"name":"a"},{"id":"x","name":7,"y":[1,{"a":2}]}]"#,
                "1: id must be a whole number within 64 bits; name must be text; y is unknown",
            ),
            (r#"[{"id":1,"id":2,"name":""}]"#, "0: id is given twice"),
            (
                r#"[{"id":18446744073709551615,"name":[]}]"#,
                "0: id must be a whole number within 64 bits; name must be text",
            ),
            (
                r#"[1]"#,
                "0: a set must be an object with the parameters by name at line 1 column 2",
            ),
            (
                r#"[{"id":1,"name":"a"},[]]"#,
                "1: invalid type: sequence, expected a parameter set, an object with the parameters \
                 by name at line 1 column 23",
            ),
            (
                r#"[{"id":1,"name":"a"},{"id":}]"#,
                "1: expected value at line 1 column 28",
            ),
            (
                "{}",
                "invalid type: map, expected an array of parameter sets at line 1 column 0",
            ),
            ("[{}", "0: id is missing; name is missing"),
            ("[] x", "trailing characters at line 1 column 4"),
        ] {
            assert_eq!(fault(json), expected, "{json}");
        }
        for (end, expected) in [
            ("{", "line 3: EOF while parsing an object at column 1"),
            (
                "{\"id\":1,\"name\":\"\"} x",
                "line 3: trailing characters at column 20",
            ),
        ] {
            let lines = format!("{{\"id\":1,\"name\":\"a\"}}\n\n{end}");
            assert_eq!(
                read_batch(lines.as_bytes(), true, &two).unwrap_err(),
                BatchFault::Malformed(Some(1), expected.to_owned())
            );
        }
    }

    #[test]
    fn a_batch_is_bounded() {
        let one = params(&[("x", ParamType::Int)]);
        let mut json = "1\n".repeat(SET_COUNT_MAX);
        assert_eq!(
            read_batch(json.as_bytes(), true, &one).unwrap().len(),
            SET_COUNT_MAX
        );
        json.push('1');
        assert_eq!(
            read_batch(json.as_bytes(), true, &one).unwrap_err(),
            BatchFault::TooMany
        );
    }
}
