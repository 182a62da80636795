//! Parameters of a lookup, from the text of a URL or from JSON.

mod json;
mod query;

use std::borrow::Cow;

use lookaside_knowledge::{Text, Value};

pub(crate) use self::json::{BatchFault, Named, SET_COUNT_MAX, read_batch, without_negative_zeros};
pub(crate) use self::query::read_query;
use crate::config::ParamType;

/// One parameter of a lookup.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Param {
    pub(crate) name: Text,
    pub(crate) kind: ParamType,
    /// Whether it may be NULL; a missing value is NULL, too.
    pub(crate) is_nullable: bool,
}

impl Param {
    /// Whether the parameter accepts a value; a value of another type has been refused before.
    fn takes(&self, value: &Value) -> bool {
        // Only JSON has null, and an undeclared parameter accepts any JSON scalar.
        *value != Value::Null || self.is_nullable || self.kind == ParamType::Any
    }
}

/// What is wrong with one parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParamFault {
    /// As the request wrote it, truncated.
    pub(crate) name: String,
    pub(crate) problem: Cow<'static, str>,
}

impl ParamFault {
    fn new(name: &str, problem: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.chars().take(NAME_SHOWN_MAX).collect(),
            problem: problem.into(),
        }
    }
}

/// The expectation for a parameter that got a value of another type, or null.
fn wanted_of(param: &Param, value: Option<&Value>) -> Cow<'static, str> {
    let wanted = param.kind.wanted();
    match value {
        Some(_) => format!("{wanted}, not null").into(),
        None => wanted.into(),
    }
}

const MISSING: &str = "is missing";
const UNKNOWN: &str = "is unknown";
const TWICE: &str = "is given twice";

/// The length at which an unknown name is truncated in an error.
const NAME_SHOWN_MAX: usize = 64;

/// The number of faults that one response lists; a request may contain thousands of unknown names.
const FAULT_COUNT_MAX: usize = 16;

/// Collects the values of one set in the order of the parameters.
pub(crate) struct Places<'p> {
    params: &'p [Param],
    values: &'p mut Vec<Value>,
    /// A bit for each parameter whose value has been read.
    seen: u64,
    faults: Vec<ParamFault>,
}

/// The number of parameters of one lookup, which is the number of bits of `Places::seen`.
pub(crate) const PARAM_COUNT_MAX: usize = 64;

impl<'p> Places<'p> {
    /// Creates a collector that appends a value for each parameter to `values`.
    pub(crate) fn new(params: &'p [Param], values: &'p mut Vec<Value>) -> Self {
        assert!(params.len() <= PARAM_COUNT_MAX, "the catalog refuses more");
        Self {
            params,
            values,
            seen: 0,
            faults: Vec::new(),
        }
    }

    fn fault(&mut self, name: &str, problem: impl Into<Cow<'static, str>>) {
        if self.faults.len() < FAULT_COUNT_MAX {
            self.faults.push(ParamFault::new(name, problem));
        }
    }

    /// Returns the position of a parameter that has no value yet; otherwise records a fault.
    fn place(&mut self, name: &str) -> Option<usize> {
        let found = self.params.iter().position(|param| param.name == name);
        let Some(index) = found else {
            self.fault(name, UNKNOWN);
            return None;
        };
        if self.seen & 1 << index != 0 {
            self.fault(name, TWICE);
            return None;
        }
        self.seen |= 1 << index;
        Some(index)
    }

    /// Stores a value. The first one appends room for all values of the set, so that they may come
    /// in any order.
    fn put(&mut self, start: usize, index: usize, value: Option<Value>) {
        let param = &self.params[index];
        match value {
            Some(value) if param.takes(&value) => self.values[start + index] = value,
            value => self.fault(&param.name, wanted_of(param, value.as_ref())),
        }
    }

    fn begin(&mut self) -> usize {
        let start = self.values.len();
        self.values.resize(start + self.params.len(), Value::Null);
        start
    }

    fn finish(mut self) -> Result<(), Vec<ParamFault>> {
        let params = self.params;
        if self.seen.count_ones() as usize != params.len() {
            for (index, param) in params.iter().enumerate() {
                // It has been NULL since its set was begun.
                if self.seen & 1 << index == 0 && !param.is_nullable {
                    self.fault(&param.name, MISSING);
                }
            }
        }
        match self.faults.is_empty() {
            true => Ok(()),
            false => Err(self.faults),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_read_their_own_texts_and_no_others() {
        for (kind, good, bad) in [
            (
                ParamType::Int,
                &["7", "-9223372036854775808", "007"][..],
                &["", "1.0", "x", " 1"][..],
            ),
            (
                ParamType::Float,
                &["1.5", "1e9", "-0", "1e-400"],
                &["", "NaN", "1,5", "1e400", "-1e400", "inf", "-Infinity"],
            ),
            (ParamType::Bool, &["true", "false"], &["1", "TRUE", ""]),
            (
                ParamType::Decimal,
                &["12.50", "-3"],
                &["", "1.2.3", "NaN", "Infinity", "-Infinity", "inf"],
            ),
            (
                ParamType::Uuid,
                &["67e55044-10b1-426f-9247-bb680e5fe0c8"],
                &["67e55044"],
            ),
            (
                ParamType::Ip,
                &["10.0.0.1", "::1"],
                &["10.0.0.256", "10.0.0.0/8"],
            ),
            (
                ParamType::Ipv4,
                &["10.0.0.1"],
                &["::1", "10.0.0", "010.0.0.1"],
            ),
            (ParamType::Ipv6, &["::1", "2001:db8::1"], &["10.0.0.1"]),
            (ParamType::Net, &["10.0.0.0/8", "::/0"], &["10.0.0.0/33"]),
            (ParamType::Time, &["2026-01-31T08:00:00Z"], &["yesterday"]),
            (ParamType::Text, &["", "é"], &[]),
        ] {
            assert_eq!(ParamType::from_name(kind.name()), Some(kind));
            for text in good {
                assert!(kind.parse(text).is_some(), "{text:?} as {}", kind.name());
            }
            for text in bad {
                assert!(kind.parse(text).is_none(), "{text:?} as {}", kind.name());
            }
        }
        assert_eq!(ParamType::from_name("any"), None);
    }
}
