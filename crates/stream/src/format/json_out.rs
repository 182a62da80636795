//! `json` out: one object a line.

use lookaside_value::{Batch, Name, NameTable, Names, Value, write_json_text};

use super::Encoder;
use crate::Rejects;

/// A guess at the size of a record's text, so that a batch grows its output once.
const RECORD_SIZE_GUESS: usize = 256;

/// Writes the fields in the order of the record. Ignored fields are left out; a name that occurs
/// twice is written twice.
pub(crate) struct JsonEncoder {
    prefixes: Prefixes,
}

impl JsonEncoder {
    pub(crate) fn new(names: &NameTable) -> Self {
        Self {
            prefixes: Prefixes::new(names.len()),
        }
    }
}

impl Encoder for JsonEncoder {
    fn encode(&mut self, batch: &Batch, out: &mut String, _: &mut Rejects) {
        self.prefixes.forget_own();
        out.reserve(batch.len() * RECORD_SIZE_GUESS);
        for record in batch.records() {
            let start = out.len();
            for field in record.iter() {
                if !matches!(field.value, Value::Ignore) {
                    out.push_str(self.prefixes.prefix(field.name, batch.names()));
                    field.value.write_json(out);
                }
            }
            if out.len() == start {
                out.push_str("{}\n");
                continue;
            }
            // Every prefix begins with a comma; the first one's place is the brace's.
            out.replace_range(start..=start, "{");
            out.push_str("}\n");
        }
    }
}

/// `,"name":` for each name, rendered when the name is first seen.
///
/// Names of the run's table stay rendered for good, those that a batch brought are forgotten with it.
struct Prefixes {
    text: String,
    /// Where the prefix of a name is in `text`, by the name's index; empty when not yet rendered.
    spans: Vec<(usize, usize)>,
    /// How many names every batch shares.
    shared_count: usize,
}

impl Prefixes {
    fn new(shared_count: usize) -> Self {
        Self {
            text: String::new(),
            spans: vec![(0, 0); shared_count],
            shared_count,
        }
    }

    fn forget_own(&mut self) {
        if self.spans.len() > self.shared_count {
            self.spans.truncate(self.shared_count);
            let kept = self.spans.iter().map(|&(_, end)| end).max().unwrap_or(0);
            self.text.truncate(kept);
        }
    }

    #[inline]
    fn prefix(&mut self, name: Name, names: &Names) -> &str {
        let span = self.spans.get(name.index()).copied().unwrap_or_default();
        let (start, end) = if span.1 > 0 {
            span
        } else {
            self.render(name, names)
        };
        &self.text[start..end]
    }

    #[cold]
    fn render(&mut self, name: Name, names: &Names) -> (usize, usize) {
        if name.index() >= self.spans.len() {
            self.spans.resize(names.len(), (0, 0));
        }
        let start = self.text.len();
        self.text.push(',');
        write_json_text(names.text(name), &mut self.text);
        self.text.push(':');
        self.spans[name.index()] = (start, self.text.len());
        self.spans[name.index()]
    }
}
