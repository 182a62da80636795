//! Records: ordered named values, whose names are interned per batch.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::{Text, Value};

/// An interned field name: comparing two names of one batch is comparing two numbers.
///
/// Its text is in the [`Names`] of the batch, or in the [`NameTable`] that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(u32);

impl Name {
    /// Marks a field that was taken out; no table returns it.
    const TAKEN: Self = Self(u32::MAX);

    fn from_index(index: usize) -> Self {
        let index = u32::try_from(index).expect("fewer names than memory could hold");
        assert_ne!(index, Self::TAKEN.0, "one name is reserved");
        Self(index)
    }

    /// The name's position in its table.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The names that exist before the first record: those of the format and of the model.
///
/// Built once, then shared by all batches of a run, so a name resolved against it is valid in each.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    texts: Vec<Text>,
    names: HashMap<Text, Name, RandomState>,
}

impl NameTable {
    /// A table without names.
    pub fn new() -> Self {
        Self::default()
    }

    /// The name of a text, interned if it is new.
    pub fn intern(&mut self, text: &str) -> Name {
        if let Some(name) = self.name(text) {
            return name;
        }
        let name = Name::from_index(self.texts.len());
        self.texts.push(Text::from(text));
        self.names.insert(Text::from(text), name);
        name
    }

    /// The name of a text, if it has one.
    pub fn name(&self, text: &str) -> Option<Name> {
        self.names.get(text).copied()
    }

    /// The text of a name of this table.
    pub fn text(&self, name: Name) -> &Text {
        &self.texts[name.index()]
    }

    /// The names with their texts, in the order in which they were interned.
    pub fn iter(&self) -> impl Iterator<Item = (Name, &Text)> {
        let texts = self.texts.iter().enumerate();
        texts.map(|(index, text)| (Name::from_index(index), text))
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

/// The names of one batch: the shared table of the run, and the names that only this batch has.
///
/// Data can contain any number of names (for example JSON keys). They live as long as their batch,
/// so no stream can fill the memory with names.
#[derive(Clone, Debug)]
pub struct Names {
    shared: Arc<NameTable>,
    own: NameTable,
}

impl Names {
    /// The names of a batch that starts from a shared table.
    pub fn new(shared: Arc<NameTable>) -> Self {
        Self {
            shared,
            own: NameTable::new(),
        }
    }

    /// The name of a text, interned if it is new.
    pub fn intern(&mut self, text: &str) -> Name {
        match self.shared.name(text) {
            Some(name) => name,
            None => Name::from_index(self.shared.len() + self.own.intern(text).index()),
        }
    }

    /// The name of a text, if it has one.
    pub fn name(&self, text: &str) -> Option<Name> {
        self.shared.name(text).or_else(|| {
            let own = self.own.name(text)?;
            Some(Name::from_index(self.shared.len() + own.index()))
        })
    }

    /// The text of a name of this batch.
    #[inline]
    pub fn text(&self, name: Name) -> &Text {
        match name.index().checked_sub(self.shared.len()) {
            None => self.shared.text(name),
            Some(own) => &self.own.texts[own],
        }
    }

    /// How many names there are; every name's index is below it.
    pub fn len(&self) -> usize {
        self.shared.len() + self.own.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn clear(&mut self) {
        if !self.own.is_empty() {
            self.own = NameTable::new();
        }
    }
}

/// One named value of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The field's name.
    pub name: Name,
    /// The field's value.
    pub value: Value,
}

/// An ordered list of named values; a name may occur twice, and then the first is found.
#[derive(Clone, Debug, Default)]
pub struct Record {
    fields: Vec<Field>,
    /// The line that the record came from, counted from 1; 0 when it came from no line.
    pub line: u64,
}

impl Record {
    /// A record without fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a field.
    #[inline]
    pub fn push(&mut self, name: Name, value: impl Into<Value>) {
        let value = value.into();
        // `push` builds the field on the stack and copies it: the copy waits for the parts to be
        // stored, which takes longer than everything else here. `extend` writes the parts in place.
        self.fields.extend(std::iter::once(Field { name, value }));
    }

    /// The value of the first field of that name.
    #[inline]
    pub fn value(&self, name: Name) -> Option<&Value> {
        self.fields
            .iter()
            .find(|field| field.name == name)
            .map(|field| &field.value)
    }

    /// The value of the first field of that name, to change in place.
    #[inline]
    pub fn value_mut(&mut self, name: Name) -> Option<&mut Value> {
        self.fields
            .iter_mut()
            .find(|field| field.name == name)
            .map(|field| &mut field.value)
    }

    /// Removes the first field of that name and returns its value; the others stay where they are.
    #[inline]
    pub fn take(&mut self, name: Name) -> Option<Value> {
        let field = self.fields.iter_mut().find(|field| field.name == name)?;
        Some(Self::vacate(field))
    }

    /// Moves every field for which `moves` returns true to the end of `target`, in order.
    pub fn move_fields(&mut self, target: &mut Self, mut moves: impl FnMut(&Field) -> bool) {
        for field in &mut self.fields {
            if field.name != Name::TAKEN && moves(field) {
                let name = field.name;
                target.fields.push(Field {
                    name,
                    value: Self::vacate(field),
                });
            }
        }
    }

    fn vacate(field: &mut Field) -> Value {
        field.name = Name::TAKEN;
        std::mem::take(&mut field.value)
    }

    /// The fields in their order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| field.name != Name::TAKEN)
    }

    /// The fields that outputs show, in their order: all but those whose value is [`Value::Ignore`].
    #[inline]
    pub fn visible(&self) -> impl Iterator<Item = &Field> {
        self.iter()
            .filter(|field| !matches!(field.value, Value::Ignore))
    }

    /// The fields in their order, to change in place.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Field> {
        self.fields
            .iter_mut()
            .filter(|field| field.name != Name::TAKEN)
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Removes all fields and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.fields.clear();
        self.line = 0;
    }
}

impl PartialEq for Record {
    /// Compares the fields only; the line that a record came from does not count.
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

/// Records that are processed together, with their names.
///
/// A cleared batch keeps its memory and its records' memory, so a worker that reuses batches
/// allocates only for values.
#[derive(Clone, Debug)]
pub struct Batch {
    names: Names,
    records: Vec<Record>,
    /// Cleared records whose memory is reused.
    spare: Vec<Record>,
}

impl Batch {
    /// A batch without records whose names start from a shared table.
    pub fn new(names: Arc<NameTable>) -> Self {
        Self {
            names: Names::new(names),
            records: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// The names of the batch.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The names of the batch, to add to.
    pub fn names_mut(&mut self) -> &mut Names {
        &mut self.names
    }

    /// Returns an empty record, reusing the memory of a cleared one if there is any. It is not in
    /// the batch yet, so names can be added to the batch while it is filled.
    #[inline]
    pub fn new_record(&mut self) -> Record {
        self.spare.pop().unwrap_or_default()
    }

    /// Appends an empty record, to be filled in place.
    #[inline]
    pub fn add(&mut self) -> &mut Record {
        let record = self.new_record();
        self.records.push(record);
        self.records.last_mut().expect("one was just appended")
    }

    /// Returns a record's memory without adding the record to the batch.
    #[inline]
    pub fn recycle(&mut self, mut record: Record) {
        record.clear();
        self.spare.push(record);
    }

    /// Appends a record.
    #[inline]
    pub fn push(&mut self, record: Record) {
        self.records.push(record);
    }

    /// The records in their order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The records in their order, to change in place.
    pub fn records_mut(&mut self) -> &mut [Record] {
        &mut self.records
    }

    /// The names and the records, to change side by side.
    pub fn split_mut(&mut self) -> (&mut Names, &mut [Record]) {
        (&mut self.names, &mut self.records)
    }

    /// Appends to `results` one empty record for each record of the batch, with its line.
    pub fn new_results(&mut self, results: &mut Vec<Record>) {
        let count = self.records.len();
        results.extend(self.spare.drain(self.spare.len().saturating_sub(count)..));
        results.resize_with(count, Record::new);
        for (result, record) in results.iter_mut().zip(&self.records) {
            result.line = record.line;
        }
    }

    /// Moves all records to the end of `target`; they are not recycled.
    pub fn move_records(&mut self, target: &mut Vec<Record>) {
        target.append(&mut self.records);
    }

    /// Replaces the records by all `results`; the memory of the old records is reused.
    pub fn take_results(&mut self, results: &mut Vec<Record>) {
        self.clear_records();
        self.records.append(results);
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Removes the records for which `keeps` returns false; their memory is reused.
    pub fn retain(&mut self, mut keeps: impl FnMut(&Record) -> bool) {
        let removed = self.records.extract_if(.., |record| !keeps(record));
        self.spare.extend(removed.map(|mut record| {
            record.clear();
            record
        }));
    }

    /// Removes all records and the batch's own names, and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.clear_records();
        self.names.clear();
    }

    /// Clears the records in place and moves all at once: moving a record right after it was
    /// cleared would wait for the stores.
    fn clear_records(&mut self) {
        self.records.iter_mut().for_each(Record::clear);
        self.spare.append(&mut self.records);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_follow_the_shared_ones() {
        let mut table = NameTable::new();
        let ip = table.intern("ip");
        assert_eq!(table.intern("ip"), ip);
        let mut batch = Batch::new(table.into());
        let user = batch.names_mut().intern("user");
        assert_eq!(batch.names_mut().intern("ip"), ip);
        assert_eq!(batch.names().name("user"), Some(user));
        assert_eq!(batch.names().text(user), "user");
        assert_eq!(batch.names().text(ip), "ip");
        assert_eq!(batch.names().name("gone"), None);
        batch.clear();
        assert_eq!(batch.names().name("user"), None);
        assert_eq!(batch.names().name("ip"), Some(ip));
    }

    #[test]
    fn results_take_the_place_of_the_records_they_were_made_for() {
        let mut table = NameTable::new();
        let name = table.intern("a");
        let mut batch = Batch::new(table.into());
        let mut results = Vec::new();
        // With fewer spare records than are needed, and with more.
        for count in [3_u64, 5, 2] {
            for line in 1..=count {
                let record = batch.add();
                assert!(record.is_empty());
                record.line = line;
                record.push(name, line as i64);
            }
            batch.new_results(&mut results);
            assert_eq!(results.len(), batch.len());
            for (result, line) in results.iter_mut().zip(1..) {
                assert!(result.is_empty());
                assert_eq!(result.line, line);
                result.push(name, -(line as i64));
            }
            batch.take_results(&mut results);
            assert!(results.is_empty());
            for (record, line) in batch.records().iter().zip(1..) {
                assert_eq!(record.line, line);
                assert_eq!(record.value(name), Some(&Value::Int(-(line as i64))));
            }
            batch.clear();
            assert!(batch.is_empty());
        }
        assert_eq!(
            batch.spare.len(),
            10,
            "five of each kind, and none was lost"
        );
    }

    #[test]
    fn removed_records_are_reused() {
        let mut table = NameTable::new();
        let name = table.intern("a");
        let mut batch = Batch::new(table.into());
        for line in 1..=5 {
            let record = batch.add();
            record.line = line;
            record.push(name, line as i64);
        }
        batch.retain(|record| record.line % 2 == 1);
        let lines: Vec<_> = batch.records().iter().map(|record| record.line).collect();
        assert_eq!(lines, [1, 3, 5]);
        assert_eq!(batch.spare.len(), 2);
        assert!(batch.new_record().is_empty());
    }

    #[test]
    fn taking_keeps_the_order_and_the_first_of_a_name_is_found() {
        let mut table = NameTable::new();
        let [a, b] = ["a", "b"].map(|text| table.intern(text));
        let mut record = Record::new();
        record.push(a, 1_i64);
        record.push(b, 2_i64);
        record.push(a, 3_i64);
        assert_eq!(record.value(a), Some(&Value::Int(1)));
        assert_eq!(record.take(a), Some(Value::Int(1)));
        assert_eq!(record.take(a), Some(Value::Int(3)));
        assert_eq!(record.take(a), None);
        assert_eq!((record.len(), record.is_empty()), (1, false));
        let mut target = Record::new();
        record.move_fields(&mut target, |field| field.name == b);
        assert!(record.is_empty());
        assert_eq!(target.value(b), Some(&Value::Int(2)));
    }
}
