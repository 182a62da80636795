//! Parameters from the query of a URL, in the encoding of HTML forms.

use std::borrow::Cow;

use lookaside_knowledge::Value;

use super::{Param, ParamFault, Places};
use crate::config::ParamType;

const BROKEN: &str = "is not percent-encoded UTF-8";

const PLUS: &str = "; a + in a URL is a space, and %2B is a +";

/// Appends the values of a query to `values`, in the order of `params`.
///
/// Parts are separated by `&`; a part without `=` is a name with an empty value; `+` is a space. On
/// faults, the appended values are meaningless.
pub(crate) fn read_query(
    query: &str,
    params: &[Param],
    values: &mut Vec<Value>,
) -> Result<(), Vec<ParamFault>> {
    let mut places = Places::new(params, values);
    let start = places.begin();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, text) = part.split_once('=').unwrap_or((part, ""));
        let Some(name) = decode(name) else {
            places.fault(name, BROKEN);
            continue;
        };
        let Some(index) = places.place(&name) else {
            continue;
        };
        match decode(text) {
            Some(value) => {
                let kind = params[index].kind;
                match kind.parse(&value) {
                    None if means_plus(text, kind) => {
                        places.fault(&name, format!("{}{PLUS}", kind.wanted()));
                    }
                    value => places.put(start, index, value),
                }
            }
            None => places.fault(&name, BROKEN),
        }
    }
    places.finish()
}

/// Whether a text that is invalid for a type would be valid if its `+` did not mean a space.
fn means_plus(text: &str, kind: ParamType) -> bool {
    let decoded = text.contains('+').then(|| text.replace('+', "%2B"));
    let decoded = decoded.as_deref().and_then(decode);
    decoded.is_some_and(|text| kind.parse(&text).is_some())
}

/// Decodes a percent-encoded text; `None` if the encoding or the UTF-8 is invalid.
pub(crate) fn decode(text: &str) -> Option<Cow<'_, str>> {
    let bytes = text.as_bytes();
    let Some(first) = bytes.iter().position(|byte| matches!(byte, b'%' | b'+')) else {
        return Some(Cow::Borrowed(text));
    };
    let mut decoded = bytes[..first].to_vec();
    let mut rest = &bytes[first..];
    while let [byte, behind @ ..] = rest {
        rest = behind;
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let [high, low, behind @ ..] = behind else {
                    return None;
                };
                rest = behind;
                let digit = |digit: &u8| char::from(*digit).to_digit(16);
                // Two digits of four bits each.
                (digit(high)? << 4 | digit(low)?) as u8
            }
            byte => *byte,
        });
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use lookaside_knowledge::Text;

    use super::*;

    fn params() -> [Param; 2] {
        params_of(ParamType::Ipv4)
    }

    fn params_of(kind: ParamType) -> [Param; 2] {
        [("ip", kind), ("name", ParamType::Any)].map(|(name, kind)| Param {
            name: Text::from(name),
            kind,
            is_nullable: false,
        })
    }

    fn read(query: &str) -> Result<Vec<String>, String> {
        read_as(query, &params())
    }

    fn read_as(query: &str, params: &[Param]) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        match read_query(query, params, &mut values) {
            Ok(()) => Ok(values.iter().map(ToString::to_string).collect()),
            Err(faults) => {
                let faults = faults.iter();
                let texts: Vec<String> = faults
                    .map(|fault| format!("{} {}", fault.name, fault.problem))
                    .collect();
                Err(texts.join("; "))
            }
        }
    }

    #[test]
    fn queries_are_read_as_forms_write_them() {
        for (query, name) in [
            ("ip=10.0.0.1&name=a", "a"),
            ("name=a+b&ip=10.0.0.1", "a b"),
            ("name=a%2Bb%20%c3%A9&ip=10%2E0.0.1", "a+b é"),
            ("&ip=10.0.0.1&&name&", ""),
            ("n%61me=a=b&ip=10.0.0.1", "a=b"),
        ] {
            let expected = vec!["10.0.0.1".to_owned(), name.to_owned()];
            assert_eq!(read(query), Ok(expected), "{query}");
        }
    }

    #[test]
    fn all_faults_are_named() {
        for (query, expected) in [
            ("", "ip is missing; name is missing"),
            ("ip=10.0.0.1", "name is missing"),
            (
                "ip=x&name=a",
                "ip must be an IPv4 address such as 192.0.2.1",
            ),
            ("ip=10.0.0.1&name=a&x=1", "x is unknown"),
            ("ip=10.0.0.1&name=a&name=a", "name is given twice"),
            ("ip=10.0.0.1&name=%", "name is not percent-encoded UTF-8"),
            ("ip=10.0.0.1&name=%4", "name is not percent-encoded UTF-8"),
            ("ip=10.0.0.1&name=%zz", "name is not percent-encoded UTF-8"),
            ("ip=10.0.0.1&name=%ff", "name is not percent-encoded UTF-8"),
            (
                "%ff=1&ip=10.0.0.1&name=",
                "%ff is not percent-encoded UTF-8",
            ),
        ] {
            assert_eq!(read(query), Err(expected.to_owned()), "{query}");
        }
        let many: String = (0..1000).map(|number| format!("&x{number}=1")).collect();
        let faults = read(&many).unwrap_err();
        assert_eq!(faults.split("; ").count(), super::super::FAULT_COUNT_MAX);
    }

    #[test]
    fn issue_13_what_may_be_null_may_be_left_out() {
        let mut params = params();
        params[0].is_nullable = true;
        let mut values = Vec::new();
        read_query("name=a", &params, &mut values).unwrap();
        assert_eq!(values, [Value::Null, Value::from("a")]);
        // An empty value is neither NULL nor an address.
        assert!(read_as("name=a&ip=", &params).is_err());
    }

    #[test]
    fn a_plus_that_should_be_one_is_told() {
        for (kind, value, is_told) in [
            (ParamType::Time, "2026-01-31T08:00:00+01:00", true),
            (ParamType::Time, "2026-01-31T08%3A00:00+01:00", true),
            (ParamType::Float, "1e+9", true),
            (ParamType::Time, "tomorrow+01:00", false),
            (ParamType::Ipv4, "10.0.0.1+", false),
            (ParamType::Time, "yesterday", false),
        ] {
            let query = format!("name=a&ip={value}");
            let expected = match is_told {
                true => format!(
                    "ip {}; a + in a URL is a space, and %2B is a +",
                    kind.wanted()
                ),
                false => format!("ip {}", kind.wanted()),
            };
            assert_eq!(read_as(&query, &params_of(kind)), Err(expected), "{query}");
        }
        let escaped = "name=a&ip=2026-01-31T08:00:00%2B01:00";
        read_as(escaped, &params_of(ParamType::Time)).unwrap();
    }
}
