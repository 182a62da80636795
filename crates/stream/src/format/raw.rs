//! `raw`: as input, a line is one field; as output, that field, or all values separated by blanks.

use lookaside_value::{Batch, Name, Names, Record};

use super::Encoder;
use super::lines::{ParseLine, Reason};
/// The name of the field that contains a whole line.
pub(crate) const RAW: &str = "raw";

pub(crate) struct RawLine {
    pub(crate) raw: Name,
}

impl ParseLine for RawLine {
    fn parse(&mut self, line: &str, _: &mut Names, record: &mut Record) -> Result<(), Reason> {
        record.push(self.raw, line);
        Ok(())
    }
}

/// Writes the field `raw` if a record has it, otherwise the raw text of all values, separated by
/// blanks.
pub(crate) struct RawEncoder {
    pub(crate) raw: Name,
}

impl Encoder for RawEncoder {
    fn begin(&mut self, _: &Batch, _: Option<&Record>, _: &mut String) {}

    #[inline]
    fn encode_record(
        &mut self,
        record: &Record,
        _: &Names,
        out: &mut String,
    ) -> Result<(), String> {
        match record.value(self.raw) {
            Some(value) => value.write_raw(out),
            None => {
                let start = out.len();
                for field in record.visible() {
                    if out.len() > start {
                        out.push(' ');
                    }
                    field.value.write_raw(out);
                }
            }
        }
        out.push('\n');
        Ok(())
    }
}
