//! Tracks the names of a record, for inputs that may repeat a name.

use lookaside_value::{Name, Record, Value};

/// Makes the last of several fields with the same name win, in time that does not grow with the
/// record.
///
/// For each name, the number of the record that used the name last.
#[derive(Default)]
pub(crate) struct Seen {
    marks: Vec<u32>,
    record: u32,
}

impl Seen {
    /// Begins a record, which is empty.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.record = self.record.wrapping_add(1);
        if self.record == 0 {
            // On overflow, once in four billion records: old marks would match again.
            self.marks.clear();
            self.record = 1;
        }
    }

    /// Appends a field, or replaces the value of the field with this name.
    #[inline]
    pub(crate) fn push(&mut self, record: &mut Record, name: Name, value: Value) {
        if name.index() >= self.marks.len() {
            self.marks.resize(name.index() + 1, 0);
        }
        if self.marks[name.index()] != self.record {
            self.marks[name.index()] = self.record;
            record.push(name, value);
        } else if let Some(old) = record.value_mut(name) {
            *old = value;
        }
    }
}
