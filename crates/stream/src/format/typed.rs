//! Typed fields: values are converted after an event was decoded, whatever its format.

use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use lookaside_value::{Name, NameTable, Names, Record, TimeReader, Type, Value};

use super::lines::{ParseLine, Reason};

/// The size at which a reason cuts a value off.
const SHOWN_SIZE_MAX: usize = 60;

/// What a field of the input has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldType {
    /// The type of its value.
    pub kind: FieldKind,
    /// Whether an event without the field is rejected.
    pub is_required: bool,
}

/// A type of fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Text.
    Chars,
    /// An integer of 64 bits.
    Digit,
    /// A number.
    Float,
    /// `true` or `false`.
    Bool,
    /// An IP address.
    Ip,
    /// A time.
    Time {
        /// What reads it from text and numbers.
        reader: TimeReader,
        /// The zone of text without an offset; `None` is that of the run.
        zone: Option<TimeZone>,
    },
}

impl FieldKind {
    /// The names of the types, which are those of the language of models.
    pub const NAMES: [&'static str; 6] = ["chars", "digit", "float", "bool", "ip", "time"];

    /// The type with this name; a time is read by guess.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "chars" => Self::Chars,
            "digit" => Self::Digit,
            "float" => Self::Float,
            "bool" => Self::Bool,
            "ip" => Self::Ip,
            "time" => Self::Time {
                reader: TimeReader::default(),
                zone: None,
            },
            _ => return None,
        })
    }

    fn article_and_noun(&self) -> &'static str {
        match self {
            Self::Chars => "text",
            Self::Digit => "an integer of 64 bits",
            Self::Float => "a number",
            Self::Bool => "`true` or `false`",
            Self::Ip => "an IP address",
            Self::Time { .. } => "a time in the expected form",
        }
    }
}

/// The typed fields of a format.
#[derive(Clone, Debug)]
pub(crate) struct FieldTypes {
    types: Arc<[(String, FieldType)]>,
    zone: TimeZone,
}

impl FieldTypes {
    /// `None` without any type, so that events are not checked at all.
    pub(crate) fn new(types: Vec<(String, FieldType)>, zone: &TimeZone) -> Option<Self> {
        (!types.is_empty()).then(|| Self {
            types: types.into(),
            zone: zone.clone(),
        })
    }

    pub(crate) fn intern(&self, names: &mut NameTable) {
        for (name, _) in &*self.types {
            names.intern(name);
        }
    }

    /// For one worker, whose batches start from `names`.
    pub(crate) fn bind(&self, names: &NameTable) -> BoundTypes {
        let name = |text: &str| names.name(text).expect("the names of types are interned");
        BoundTypes {
            names: self.types.iter().map(|(text, _)| name(text)).collect(),
            types: self.clone(),
            today: None,
        }
    }
}

/// Types whose names are resolved.
pub(crate) struct BoundTypes {
    names: Vec<Name>,
    types: FieldTypes,
    /// The date in the local zone, read at most once per chunk.
    today: Option<Date>,
}

impl BoundTypes {
    pub(crate) fn begin(&mut self) {
        self.today = None;
    }

    /// Converts the fields of a record. Null and empty values are removed.
    pub(crate) fn apply(&mut self, record: &mut Record) -> Result<(), Reason> {
        let Self {
            names,
            types: FieldTypes { types, zone },
            today,
        } = self;
        for (name, (text, field_type)) in names.iter().zip(&**types) {
            let found = record.value_mut(*name);
            let Some(value) = found.filter(|value| !value.is_empty()) else {
                if field_type.is_required {
                    return Err(format!("the required field `{text}` is missing or empty").into());
                }
                record.take(*name);
                continue;
            };
            let converted = match &field_type.kind {
                FieldKind::Chars => value.convert(Type::Text).ok(),
                FieldKind::Digit => value.convert(Type::Int).ok(),
                FieldKind::Float => value.convert(Type::Float).ok(),
                FieldKind::Bool => value.convert(Type::Bool).ok(),
                FieldKind::Ip => value.convert(Type::Ip).ok(),
                FieldKind::Time { reader, zone: own } => {
                    let today = || *today.get_or_insert_with(|| jiff::Zoned::now().date());
                    let time = reader.read(value, own.as_ref().unwrap_or(zone), today);
                    time.map(Value::Time)
                }
            };
            match converted {
                Some(converted) => *value = converted,
                None => return Err(misfit(text, &field_type.kind, value)),
            }
        }
        Ok(())
    }
}

#[cold]
fn misfit(name: &str, kind: &FieldKind, value: &Value) -> Reason {
    let mut shown = String::new();
    value.write_raw(&mut shown);
    if shown.len() > SHOWN_SIZE_MAX {
        shown.truncate(shown.floor_char_boundary(SHOWN_SIZE_MAX));
        shown.push('…');
    }
    format!(
        "field `{name}` is not {}: `{shown}`",
        kind.article_and_noun()
    )
    .into()
}

/// Parses a line by another parser, and converts its fields.
pub(crate) struct TypedLine<P> {
    pub(crate) parser: P,
    pub(crate) types: BoundTypes,
}

impl<P: ParseLine> ParseLine for TypedLine<P> {
    fn begin(&mut self) {
        self.parser.begin();
        self.types.begin();
    }

    fn parse(&mut self, line: &str, names: &mut Names, record: &mut Record) -> Result<(), Reason> {
        self.parser.parse(line, names, record)?;
        self.types.apply(record)
    }
}

#[cfg(test)]
mod tests {
    use lookaside_value::Batch;

    use super::*;
    use crate::format::Chunk;
    use crate::{FormatOptions, InputFormat, Rejects};

    fn field_type(name: &str) -> FieldType {
        FieldType {
            kind: FieldKind::by_name(name).unwrap(),
            is_required: false,
        }
    }

    /// The fields of the records of `lines`, and the reasons of the rejected ones.
    fn decode(
        format: &str,
        options: &FormatOptions,
        types: &[(&str, FieldType)],
        lines: &str,
    ) -> (Vec<String>, Vec<String>) {
        let types = types
            .iter()
            .map(|(name, field_type)| ((*name).to_owned(), field_type.clone()));
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let format = InputFormat::new(format, options)
            .unwrap()
            .with_types(types.collect(), &zone);
        let mut names = NameTable::new();
        format.intern(&mut names);
        let names = Arc::new(names);
        let mut bytes = lines.as_bytes();
        let header = format.has_header().then(|| {
            let (header, rest) = lines.split_once('\n').unwrap();
            bytes = rest.as_bytes();
            format.header(header.as_bytes()).unwrap()
        });
        let chunk = Chunk {
            bytes,
            first_line: 1,
            header: header.as_ref(),
        };
        let mut batch = Batch::new(Arc::clone(&names));
        let mut rejects = Rejects::new();
        format
            .decoder(&names)
            .decode(&chunk, &mut batch, &mut rejects);
        let shown = batch.records().iter().map(|record| {
            let fields = record.iter().map(|field| {
                let name = batch.names().text(field.name);
                format!("{name}={:?}", field.value)
            });
            fields.collect::<Vec<_>>().join(" ")
        });
        let reasons = rejects.first().iter();
        let reasons = reasons.map(|reject| reject.reason.to_string()).collect();
        (shown.collect(), reasons)
    }

    #[test]
    fn every_format_has_typed_fields() {
        let types = [("n", field_type("digit")), ("t", field_type("time"))];
        let pattern = FormatOptions::new().set("pattern", "^(?<n>\\S+) (?<t>.*)$");
        let none = FormatOptions::new();
        let expected = ["n=Int(7) t=Time(2026-01-02 03:04:05+02:00)"];
        for (format, options, lines) in [
            (
                "json",
                &none,
                "{\"n\":\"7\",\"t\":\"2026-01-02 03:04:05\"}\n",
            ),
            ("json", &none, "{\"n\":7.0,\"t\":1767315845}\n"),
            ("csv", &none, "n,t\n7,2026-01-02 03:04:05\n"),
            ("kv", &none, "n=7 t=\"2026-01-02T03:04:05+02:00\"\n"),
            ("regex", &pattern, "7 02/Jan/2026:03:04:05\n"),
        ] {
            let found = decode(format, options, &types, lines);
            assert_eq!(
                found,
                (expected.map(String::from).into(), vec![]),
                "{lines}"
            );
        }
        let types = [("raw", field_type("ip"))];
        let (found, _) = decode("raw", &none, &types, "10.0.0.1\n");
        assert_eq!(found, ["raw=Ip(10.0.0.1)"]);
        let types = [
            ("length", field_type("chars")),
            ("time", field_type("time")),
        ];
        let line = "10.0.0.1 - - [02/Jan/2026:03:04:05 +0000] \"GET /\" 200 5\n";
        let (found, _) = decode("access", &none, &types, line);
        assert!(found[0].ends_with("length=Text(\"5\")"), "{found:?}");
        let options = FormatOptions::new().set("year", "2026");
        let (found, _) = decode("syslog", &options, &types, "<34>Jan  2 03:04:05 host x\n");
        assert!(found[0].contains("time=Time(2026-01-02 03:04:05+02:00)"));
    }

    #[test]
    fn what_does_not_fit_is_rejected() {
        let long = "é".repeat(50);
        for (kind, value, reason) in [
            (
                "digit",
                "\"4x\"",
                "field `a` is not an integer of 64 bits: `4x`",
            ),
            (
                "digit",
                "4.5",
                "field `a` is not an integer of 64 bits: `4.5`",
            ),
            ("float", "\"1e999\"", "field `a` is not a number: `1e999`"),
            ("bool", "1", "field `a` is not `true` or `false`: `1`"),
            (
                "ip",
                "\"10.0.0\"",
                "field `a` is not an IP address: `10.0.0`",
            ),
            (
                "time",
                "\"May\"",
                "field `a` is not a time in the expected form: `May`",
            ),
            (
                "time",
                "{\"x\":1}",
                "field `a` is not a time in the expected form: `{x=1}`",
            ),
            (
                "ip",
                &format!("\"{long}\""),
                &format!("field `a` is not an IP address: `{}…`", "é".repeat(30)),
            ),
        ] {
            let types = [("a", field_type(kind))];
            let line = format!("{{\"a\":{value}}}\n");
            let (found, reasons) = decode("json", &FormatOptions::new(), &types, &line);
            assert_eq!((found.len(), &reasons[..]), (0, &[reason.to_owned()][..]));
        }
    }

    #[test]
    fn missing_null_and_empty_fields_are_absent_unless_required() {
        let lines = "{\"b\":1}\n{\"a\":null,\"b\":1}\n{\"a\":\"\",\"b\":1}\n";
        let options = FormatOptions::new();
        let mut types = [("a", field_type("digit"))];
        let (found, reasons) = decode("json", &options, &types, lines);
        assert_eq!(found, ["b=Int(1)"; 3]);
        assert!(reasons.is_empty());
        types[0].1.is_required = true;
        let (found, reasons) = decode("json", &options, &types, lines);
        assert!(found.is_empty());
        assert_eq!(reasons, ["the required field `a` is missing or empty"; 3]);
        let (_, reasons) = decode("csv", &options, &types, "a,b\n,1\n");
        assert_eq!(reasons, ["the required field `a` is missing or empty"]);
    }
}
