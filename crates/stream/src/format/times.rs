//! The output option `times`: whether times are written with their offset.

use lookaside_value::{Batch, Names, Object, Record, Value};

use super::Encoder;
use super::options::OptionReader;
use crate::Result;

/// How times are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    /// `2026-03-01 10:15:02`, the wall-clock time; an instant as `2026-03-01T09:15:02Z`.
    Civil,
    /// `2026-03-01T10:15:02+01:00`; a time of unknown offset is written as wall-clock time.
    Rfc3339,
}

impl Times {
    pub(crate) fn of(options: OptionReader<'_>) -> Result<Self> {
        match options.text("times") {
            None | Some("civil") => Ok(Self::Civil),
            Some("rfc3339") => Ok(Self::Rfc3339),
            Some(other) => Err(options.bad("times", other, "`civil` or `rfc3339`")),
        }
    }
}

/// Converts times to text in a copy of each record, which another encoder then writes. The copy is
/// the cost of a rarely used option, which the formats themselves need not support.
pub(crate) struct Rfc3339Encoder(pub(crate) Box<dyn Encoder>);

impl Encoder for Rfc3339Encoder {
    fn begin(&mut self, batch: &Batch, first: Option<&Record>, out: &mut String) {
        self.0.begin(batch, first, out);
    }

    fn encode_record(
        &mut self,
        record: &Record,
        names: &Names,
        out: &mut String,
    ) -> Result<(), String> {
        let mut record = record.clone();
        for field in record.iter_mut() {
            spell_times(&mut field.value);
        }
        self.0.encode_record(&record, names, out)
    }
}

/// Replaces times by their text. The recursion is as deep as the nesting of values, which their
/// producers limit.
fn spell_times(value: &mut Value) {
    match value {
        Value::Time(time) => {
            let mut text = String::new();
            time.write_rfc3339(&mut text);
            *value = Value::from(text);
        }
        Value::Object(object) => {
            let mut spelt = Object::new();
            for (name, member) in object.iter() {
                let mut member = member.clone();
                spell_times(&mut member);
                spelt.insert(name.clone(), member);
            }
            *value = Value::from(spelt);
        }
        Value::Array(array) => {
            let mut spelt = array.to_vec();
            spelt.iter_mut().for_each(spell_times);
            *value = Value::from(spelt);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use lookaside_value::Time;

    use super::*;

    #[test]
    fn times_show_their_offset_where_they_have_one() {
        let civil: Time = "2026-03-01 10:15:02.5".parse().unwrap();
        let time = Value::Time(civil.with_offset_minutes(60).unwrap());
        let mut object = Object::new();
        let instant = Value::Time(Time::from_utc(civil.civil()));
        object.insert(
            "a".into(),
            Value::from(vec![time, Value::Time(civil), instant]),
        );
        let mut value = Value::from(object);
        spell_times(&mut value);
        let mut json = String::new();
        value.write_json(&mut json);
        let expected = r#"{"a":["2026-03-01T10:15:02.5+01:00","2026-03-01 10:15:02.5","2026-03-01T10:15:02.5Z"]}"#;
        assert_eq!(json, expected);
    }
}
