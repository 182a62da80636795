//! Encodes rows as JSON, JSON lines, CSV or MessagePack, directly into a buffer.

mod msgpack;

use std::fmt::Write as _;

use lookaside_knowledge::{Text, Value};
use lookaside_value::write_json_text;

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BodyFormat {
    Json,
    JsonLines,
    Csv,
    MessagePack,
}

impl BodyFormat {
    /// In the order of preference when a client accepts several equally.
    pub(crate) const ALL: [Self; 4] = [Self::Json, Self::JsonLines, Self::Csv, Self::MessagePack];

    /// The media type, as `Content-Type` has it.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8; header=present",
            other => other.media_type(),
        }
    }

    /// The media type without its parameters, as `Accept` has it.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::JsonLines => "application/x-ndjson",
            Self::Csv => "text/csv",
            Self::MessagePack => "application/vnd.msgpack",
        }
    }

    /// A letter that distinguishes the formats of one answer in validators.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Json => 'j',
            Self::JsonLines => 'l',
            Self::Csv => 'c',
            Self::MessagePack => 'm',
        }
    }
}

/// One answer of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item<'a> {
    /// The first row.
    Row(&'a [Value]),
    /// There is no row.
    Absent,
    /// The database failed: a status, a title and an optional detail.
    Failed(u16, &'a str, Option<&'a str>),
}

/// The member that marks a failed answer within a batch; no column has this name.
pub(crate) const ERROR_MEMBER: &str = "$error";

/// Writes answers with the same columns repeatedly, and reuses its buffers.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    columns: Vec<Text>,
    /// The JSON text before each value: `{"a":`, `,"b":`.
    json_names: Vec<String>,
    /// The names as MessagePack, one per column.
    packed_names: Vec<Vec<u8>>,
    csv_header: String,
    text: String,
}

impl Encoder {
    /// Sets the columns of the following rows.
    pub(crate) fn set_columns(&mut self, columns: &[Text]) {
        if self.columns == columns && !self.csv_header.is_empty() {
            return;
        }
        self.columns = columns.to_vec();
        self.json_names.clear();
        self.packed_names.clear();
        self.csv_header.clear();
        for (index, column) in columns.iter().enumerate() {
            let mut name = String::from(if index == 0 { "{" } else { "," });
            write_json_text(column, &mut name);
            name.push(':');
            self.json_names.push(name);
            let mut packed = Vec::new();
            msgpack::write_str(column, &mut packed);
            self.packed_names.push(packed);
            self.csv_header.push_str(if index == 0 { "" } else { "," });
            write_csv_text(column, &mut self.csv_header);
        }
        self.csv_header.push_str("\r\n");
    }

    /// Writes one row.
    pub(crate) fn row(&mut self, format: BodyFormat, row: &[Value], out: &mut Vec<u8>) {
        self.text.clear();
        match format {
            BodyFormat::Json => self.json_row(row),
            BodyFormat::JsonLines => {
                self.json_row(row);
                self.text.push('\n');
            }
            BodyFormat::Csv => {
                self.text.push_str(&self.csv_header);
                self.csv_row(row);
            }
            BodyFormat::MessagePack => return self.packed_row(row, out),
        }
        out.extend_from_slice(self.text.as_bytes());
    }

    /// Writes all rows of an answer.
    pub(crate) fn rows<'r>(
        &mut self,
        format: BodyFormat,
        rows: impl ExactSizeIterator<Item = &'r [Value]>,
        out: &mut Vec<u8>,
    ) {
        self.text.clear();
        match format {
            BodyFormat::Json => {
                self.text.push('[');
                for (index, row) in rows.enumerate() {
                    self.text.push_str(if index == 0 { "" } else { "," });
                    self.json_row(row);
                }
                self.text.push(']');
            }
            BodyFormat::JsonLines => {
                for row in rows {
                    self.json_row(row);
                    self.text.push('\n');
                }
            }
            BodyFormat::Csv => {
                self.text.push_str(&self.csv_header);
                rows.for_each(|row| self.csv_row(row));
            }
            BodyFormat::MessagePack => {
                msgpack::write_array_size(rows.len(), out);
                rows.for_each(|row| self.packed_row(row, out));
            }
        }
        out.extend_from_slice(self.text.as_bytes());
    }

    /// Writes what precedes the answers of a batch of `count`.
    pub(crate) fn batch_begin(format: BodyFormat, count: usize, out: &mut Vec<u8>) {
        match format {
            BodyFormat::Json => out.push(b'['),
            BodyFormat::JsonLines => {}
            BodyFormat::MessagePack => msgpack::write_array_size(count, out),
            BodyFormat::Csv => unreachable!("batches are not available as CSV"),
        }
    }

    /// Writes the separator before the answer at `index` of a batch.
    pub(crate) fn batch_next(format: BodyFormat, index: usize, out: &mut Vec<u8>) {
        if format == BodyFormat::Json && index > 0 {
            out.push(b',');
        }
    }

    /// Writes the terminator of each answer of a batch.
    fn batch_after(format: BodyFormat, out: &mut Vec<u8>) {
        if format == BodyFormat::JsonLines {
            out.push(b'\n');
        }
    }

    /// Writes what follows the answers of a batch.
    pub(crate) fn batch_end(format: BodyFormat, out: &mut Vec<u8>) {
        if format == BodyFormat::Json {
            out.push(b']');
        }
    }

    /// Writes one answer of a batch, for a lookup that returns the first row.
    pub(crate) fn batch_item(&mut self, format: BodyFormat, item: Item<'_>, out: &mut Vec<u8>) {
        match (format, item) {
            (BodyFormat::MessagePack, Item::Row(row)) => self.packed_row(row, out),
            (BodyFormat::MessagePack, Item::Absent) => msgpack::write(&Value::Null, out),
            (BodyFormat::MessagePack, Item::Failed(status, sentence, detail)) => {
                msgpack::write_map_size(1, out);
                msgpack::write_str(ERROR_MEMBER, out);
                msgpack::write_map_size(2 + usize::from(detail.is_some()), out);
                msgpack::write_str("status", out);
                msgpack::write(&Value::Int(status.into()), out);
                msgpack::write_str("title", out);
                msgpack::write_str(sentence, out);
                if let Some(detail) = detail {
                    msgpack::write_str("detail", out);
                    msgpack::write_str(detail, out);
                }
            }
            (_, item) => {
                self.text.clear();
                match item {
                    Item::Row(row) => self.json_row(row),
                    Item::Absent => self.text.push_str("null"),
                    Item::Failed(status, sentence, detail) => {
                        write!(
                            self.text,
                            "{{\"{ERROR_MEMBER}\":{{\"status\":{status},\"title\":"
                        )
                        .expect("a string takes any text");
                        write_json_text(sentence, &mut self.text);
                        if let Some(detail) = detail {
                            self.text.push_str(",\"detail\":");
                            write_json_text(detail, &mut self.text);
                        }
                        self.text.push_str("}}");
                    }
                }
                out.extend_from_slice(self.text.as_bytes());
            }
        }
        Self::batch_after(format, out);
    }

    /// Writes one answer of a batch, for a lookup that returns all rows.
    pub(crate) fn batch_rows<'r>(
        &mut self,
        format: BodyFormat,
        rows: impl ExactSizeIterator<Item = &'r [Value]>,
        out: &mut Vec<u8>,
    ) {
        let inner = match format {
            BodyFormat::MessagePack => BodyFormat::MessagePack,
            // An answer is one line, so its rows are a JSON array.
            _ => BodyFormat::Json,
        };
        self.rows(inner, rows, out);
        Self::batch_after(format, out);
    }

    fn json_row(&mut self, row: &[Value]) {
        for (name, value) in self.json_names.iter().zip(row) {
            self.text.push_str(name);
            value.write_json(&mut self.text);
        }
        self.text.push_str(if row.is_empty() { "{}" } else { "}" });
    }

    fn csv_row(&mut self, row: &[Value]) {
        for (index, value) in row.iter().enumerate() {
            self.text.push_str(if index == 0 { "" } else { "," });
            match value {
                Value::Text(text) => write_csv_text(text, &mut self.text),
                Value::Symbol(text) => write_csv_text(text, &mut self.text),
                Value::Object(_) | Value::Array(_) => {
                    let mut json = String::new();
                    value.write_json(&mut json);
                    write_csv_text(&json, &mut self.text);
                }
                // Numbers, times and addresses contain no characters that CSV quotes.
                other => other.write_raw(&mut self.text),
            }
        }
        // A row with one empty cell would be an empty line, which readers skip.
        if let [value] = row
            && value.is_empty()
        {
            self.text.push_str("\"\"");
        }
        self.text.push_str("\r\n");
    }

    fn packed_row(&mut self, row: &[Value], out: &mut Vec<u8>) {
        msgpack::write_map_size(row.len(), out);
        for (name, value) in self.packed_names.iter().zip(row) {
            out.extend_from_slice(name);
            msgpack::write(value, out);
        }
    }
}

/// Writes a field by RFC 4180: quoted if it holds a comma, a quote or a line break.
fn write_csv_text(text: &str, out: &mut String) {
    if !text.contains([',', '"', '\n', '\r']) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for (index, part) in text.split('"').enumerate() {
        out.push_str(if index == 0 { "" } else { "\"\"" });
        out.push_str(part);
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(names: &[&str]) -> Vec<Text> {
        names.iter().map(|name| Text::from(*name)).collect()
    }

    fn rows() -> [Vec<Value>; 2] {
        [
            vec![Value::Int(15169), Value::from("A, \"B\"\n")],
            vec![Value::Null, Value::from("é")],
        ]
    }

    fn text(write: impl FnOnce(&mut Encoder, &mut Vec<u8>)) -> String {
        let mut encoder = Encoder::default();
        encoder.set_columns(&columns(&["asn", "or\"g"]));
        let mut out = b"> ".to_vec();
        write(&mut encoder, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn answers_in_text() {
        let rows = rows();
        let all = || rows.iter().map(Vec::as_slice);
        let a = r#"{"asn":15169,"or\"g":"A, \"B\"\n"}"#;
        let b = r#"{"asn":null,"or\"g":"é"}"#;
        for (format, one, many) in [
            (BodyFormat::Json, a.to_owned(), format!("[{a},{b}]")),
            (
                BodyFormat::JsonLines,
                format!("{a}\n"),
                format!("{a}\n{b}\n"),
            ),
            (
                BodyFormat::Csv,
                "asn,\"or\"\"g\"\r\n15169,\"A, \"\"B\"\"\n\"\r\n".to_owned(),
                "asn,\"or\"\"g\"\r\n15169,\"A, \"\"B\"\"\n\"\r\n,é\r\n".to_owned(),
            ),
        ] {
            let written = text(|encoder, out| encoder.row(format, &rows[0], out));
            assert_eq!(written, format!("> {one}"), "{format:?}");
            let written = text(|encoder, out| encoder.rows(format, all(), out));
            assert_eq!(written, format!("> {many}"), "{format:?}");
        }
        let none = text(|encoder, out| encoder.rows(BodyFormat::Json, [].into_iter(), out));
        assert_eq!(none, "> []");
    }

    #[test]
    fn answers_in_messagepack() {
        let mut encoder = Encoder::default();
        encoder.set_columns(&columns(&["a", "b"]));
        let mut out = Vec::new();
        let row = [Value::Int(7), Value::Null];
        encoder.row(BodyFormat::MessagePack, &row, &mut out);
        assert_eq!(out, b"\x82\xa1a\x07\xa1b\xc0");
        out.clear();
        encoder.rows(BodyFormat::MessagePack, [&row[..]].into_iter(), &mut out);
        assert_eq!(out, b"\x91\x82\xa1a\x07\xa1b\xc0");
    }

    #[test]
    fn batches_keep_a_place_for_each_set() {
        let rows = rows();
        let items = [
            Item::Row(&rows[1]),
            Item::Absent,
            Item::Failed(503, "it is \"away\"", None),
            Item::Failed(503, "slow", Some("5 \"s\"")),
        ];
        let batch = |format| {
            text(|encoder, out| {
                Encoder::batch_begin(format, items.len(), out);
                for (index, item) in items.into_iter().enumerate() {
                    Encoder::batch_next(format, index, out);
                    encoder.batch_item(format, item, out);
                }
                Encoder::batch_end(format, out);
            })
        };
        let row = r#"{"asn":null,"or\"g":"é"}"#;
        let failed = r#"{"$error":{"status":503,"title":"it is \"away\""}}"#;
        let slow = r#"{"$error":{"status":503,"title":"slow","detail":"5 \"s\""}}"#;
        assert_eq!(
            batch(BodyFormat::Json),
            format!("> [{row},null,{failed},{slow}]")
        );
        assert_eq!(
            batch(BodyFormat::JsonLines),
            format!("> {row}\nnull\n{failed}\n{slow}\n")
        );
        let lines = text(|encoder, out| {
            let all = || rows.iter().map(Vec::as_slice);
            encoder.batch_rows(BodyFormat::JsonLines, all().skip(1).take(1), out);
            encoder.batch_rows(BodyFormat::JsonLines, [].into_iter(), out);
        });
        assert_eq!(lines, format!("> [{row}]\n[]\n"));
    }

    #[test]
    fn columns_change_with_the_tables() {
        let mut encoder = Encoder::default();
        for names in [&["a"][..], &["b"], &[]] {
            encoder.set_columns(&columns(names));
            let row = vec![Value::Int(1); names.len()];
            let mut out = Vec::new();
            encoder.row(BodyFormat::Json, &row, &mut out);
            let expected = match names {
                [name] => format!("{{\"{name}\":1}}"),
                _ => "{}".to_owned(),
            };
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn an_empty_cell_alone_is_no_empty_line() {
        let mut encoder = Encoder::default();
        encoder.set_columns(&columns(&["a"]));
        let mut out = Vec::new();
        encoder.row(BodyFormat::Csv, &[Value::Null], &mut out);
        assert_eq!(out, b"a\r\n\"\"\r\n");
    }
}
