//! `json` output: one object per line.

use lookaside_value::{Batch, NameTable, Names, Record, write_json_text};

use super::Encoder;
use super::prefix::Prefixes;
/// The estimated size of a record's text, so that the output of a batch is allocated once.
const RECORD_SIZE_GUESS: usize = 256;

/// Writes the fields in the order of the record. Ignored fields are left out; a name that occurs
/// twice is written twice.
pub(crate) struct JsonEncoder {
    prefixes: Prefixes,
}

impl JsonEncoder {
    pub(crate) fn new(names: &NameTable) -> Self {
        Self {
            prefixes: Prefixes::new(names.len(), |name, out| {
                out.push(',');
                write_json_text(name, out);
                out.push(':');
            }),
        }
    }
}

impl Encoder for JsonEncoder {
    fn begin(&mut self, batch: &Batch, _: Option<&Record>, out: &mut String) {
        self.prefixes.forget_own();
        out.reserve(batch.len() * RECORD_SIZE_GUESS);
    }

    #[inline]
    fn encode_record(
        &mut self,
        record: &Record,
        names: &Names,
        out: &mut String,
    ) -> Result<(), String> {
        let start = out.len();
        for field in record.visible() {
            out.push_str(self.prefixes.prefix(field.name, names));
            field.value.write_json(out);
        }
        if out.len() == start {
            out.push_str("{}\n");
            return Ok(());
        }
        // Every prefix begins with a comma; the first comma is replaced by the brace.
        out.replace_range(start..=start, "{");
        out.push_str("}\n");
        Ok(())
    }
}

/// Appends one record outside of a batch's text, without its line end.
pub(crate) fn write_record(record: &Record, names: &Names, out: &mut String) {
    out.push('{');
    for (index, field) in record.visible().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_json_text(names.text(field.name), out);
        out.push(':');
        field.value.write_json(out);
    }
    out.push('}');
}
