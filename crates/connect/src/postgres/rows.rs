//! Results as rows that are written together.

use std::cmp::Ordering;
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;

use lookaside_client::Request;
use lookaside_client::blocking::Queryable;
#[cfg(feature = "kafka")]
use lookaside_stream::Partition;
use lookaside_stream::{Message, Receipt, RefusedMessage};

use super::json::{push_field, read_object};
use super::options::Extra;
use super::table::{Member, Table};

/// Rows in the order of the results, with what the results were.
#[derive(Default)]
pub(crate) struct Rows {
    /// The payloads and keys of the results.
    bytes: Vec<u8>,
    /// The fields in the text format of `COPY`.
    text: Vec<u8>,
    fields: Vec<Field>,
    rows: Vec<Row>,
}

struct Field {
    column: u16,
    text: Range<usize>,
}

struct Row {
    payload: Range<usize>,
    key: Option<Range<usize>>,
    /// Sorted by column.
    fields: Range<usize>,
    receipt: Arc<Receipt>,
    segment: usize,
    /// The position of the message that it results from.
    #[cfg(feature = "kafka")]
    position: Option<u64>,
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.text.len()
    }

    /// Appends a result.
    ///
    /// # Errors
    /// The reason why it is not a row of the table, as one lower-case phrase.
    pub(crate) fn push(
        &mut self,
        table: &Table,
        message: &Message<'_>,
        receipt: &Arc<Receipt>,
    ) -> Result<(), String> {
        let (text_size, field_count) = (self.text.len(), self.fields.len());
        let pushed = self.push_fields(table, message);
        if pushed.is_err() {
            self.text.truncate(text_size);
            self.fields.truncate(field_count);
            return pushed;
        }
        let payload = self.push_bytes(message.payload().unwrap_or_default());
        let key = message.key().map(|key| self.push_bytes(key));
        self.rows.push(Row {
            payload,
            key,
            fields: field_count..self.fields.len(),
            receipt: Arc::clone(receipt),
            segment: message.segment(),
            #[cfg(feature = "kafka")]
            position: message.position(),
        });
        Ok(())
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    fn push_fields(&mut self, table: &Table, message: &Message<'_>) -> Result<(), String> {
        if message.topic().is_some() {
            return Err("the model sets @meta/topic, and the URL names the only table".to_owned());
        }
        let Some(payload) = message.payload() else {
            return Err("a null payload is not a row".to_owned());
        };
        let first = self.fields.len();
        let mut problem = None;
        let mut unknown = Vec::new();
        read_object(payload, |name, value| match table.member(name) {
            Member::Column(column, kind) => {
                let start = self.text.len();
                if let Err(reason) = push_field(&mut self.text, kind, value) {
                    problem.get_or_insert(format!("column {name}: {reason}"));
                }
                self.fields.push(Field {
                    column,
                    text: start..self.text.len(),
                });
            }
            Member::Unknown if table.extra == Extra::Ignore => {}
            Member::Unknown => unknown.push(format!("`{name}`")),
            Member::Generated => {
                problem.get_or_insert(format!("the server generates the column `{name}`"));
            }
        })?;
        if !unknown.is_empty() {
            let (table, unknown) = (table.name(), unknown.join(", "));
            return Err(format!(
                "{table} has no column {unknown}; see the option `extra`"
            ));
        }
        if let Some(problem) = problem {
            return Err(problem);
        }
        let fields = &mut self.fields[first..];
        fields.sort_by_key(|field| field.column);
        self.keep_last_of_each_column(first);
        let fields = &self.fields[first..];
        if fields.is_empty() {
            return Err(format!("the result has no column of {}", table.name()));
        }
        for required in table.required() {
            let field = fields.iter().find(|field| field.column == *required);
            let text = field.map(|field| &self.text[field.text.clone()]);
            if text.is_none_or(|text| text == b"\\N") {
                let column = table.column_name(*required);
                return Err(format!("the key column `{column}` is missing or null"));
            }
        }
        Ok(())
    }

    /// As in `jsonb`, the last of several members of one name counts.
    fn keep_last_of_each_column(&mut self, first: usize) {
        let mut kept = first;
        for index in first..self.fields.len() {
            let next = self.fields.get(index + 1);
            if next.is_none_or(|next| next.column != self.fields[index].column) {
                self.fields.swap(kept, index);
                kept += 1;
            }
        }
        self.fields.truncate(kept);
    }

    /// Appends the rows of another value.
    pub(crate) fn append(&mut self, other: Self) {
        let (bytes, text, fields) = (self.bytes.len(), self.text.len(), self.fields.len());
        let moved = |range: Range<usize>, by: usize| range.start + by..range.end + by;
        self.bytes.extend_from_slice(&other.bytes);
        self.text.extend_from_slice(&other.text);
        self.fields
            .extend(other.fields.into_iter().map(|field| Field {
                text: moved(field.text, text),
                ..field
            }));
        self.rows.extend(other.rows.into_iter().map(|row| Row {
            payload: moved(row.payload, bytes),
            key: row.key.map(|key| moved(key, bytes)),
            fields: moved(row.fields, fields),
            ..row
        }));
    }

    /// Reports rows as delivered.
    pub(crate) fn deliver(&self, range: Range<usize>) {
        for row in &self.rows[range] {
            row.receipt.deliver(row.segment, 1);
        }
    }

    /// The result of a row, as one that the server does not accept.
    pub(crate) fn refused(&self, index: usize, reason: String) -> RefusedMessage {
        let row = &self.rows[index];
        RefusedMessage {
            payload: Some(self.bytes[row.payload.clone()].to_vec()),
            key: row.key.clone().map(|key| self.bytes[key].to_vec()),
            reason,
            receipt: Arc::clone(&row.receipt),
            segment: row.segment,
        }
    }

    /// Removes a row.
    pub(crate) fn remove(&mut self, index: usize) {
        self.rows.remove(index);
    }

    /// The message that a row results from, and the result.
    #[cfg(feature = "kafka")]
    pub(crate) fn origin(&self, index: usize) -> (&Arc<Partition>, Option<u64>, &[u8]) {
        let row = &self.rows[index];
        let partition = row.receipt.partition(row.segment);
        (partition, row.position, &self.bytes[row.payload.clone()])
    }

    /// Writes rows, which become visible when `db` commits.
    pub(crate) fn write(
        &self,
        range: Range<usize>,
        table: &Table,
        db: &mut impl Queryable,
    ) -> lookaside_client::Result<()> {
        match table.is_staged() {
            true => self.write_staged(range, table, db),
            false => self.write_copied(&self.by_columns(range), table, db),
        }
    }

    /// How many statements write these rows.
    pub(crate) fn statement_count(&self, range: Range<usize>, table: &Table) -> usize {
        match table.is_staged() {
            true => 2,
            false => self.by_columns(range).len(),
        }
    }

    /// The rows that name the same columns, in groups. A `COPY` has one list of columns.
    fn by_columns(&self, range: Range<usize>) -> Vec<Vec<usize>> {
        let mut indexes: Vec<_> = range.collect();
        indexes.sort_by(|a, b| self.compare_columns(*a, *b));
        let is_same = |a: &usize, b: &usize| self.compare_columns(*a, *b).is_eq();
        indexes.chunk_by(is_same).map(<[usize]>::to_vec).collect()
    }

    fn write_copied(
        &self,
        groups: &[Vec<usize>],
        table: &Table,
        db: &mut impl Queryable,
    ) -> lookaside_client::Result<()> {
        for indexes in groups {
            let columns = self.columns(indexes[0]);
            let mut data = Vec::new();
            for index in indexes {
                self.push_line(&mut data, *index, &columns);
            }
            copy(db, table.copy(&columns), data)?;
        }
        Ok(())
    }

    /// All rows are copied at once, with null for the columns that they do not name. Then each run
    /// of rows that name the same columns is one `INSERT`, so that rows of one key take effect in
    /// their order, and columns that are not named are not updated.
    fn write_staged(
        &self,
        range: Range<usize>,
        table: &Table,
        db: &mut impl Queryable,
    ) -> lookaside_client::Result<()> {
        let mut columns: Vec<u16> = range.clone().flat_map(|it| self.columns(it)).collect();
        columns.sort_unstable();
        columns.dedup();
        let mut data = Vec::new();
        for index in range.clone() {
            let _ = write!(data, "{index}\t");
            self.push_line(&mut data, index, &columns);
        }
        copy(db, table.copy_staged(&columns), data)?;
        let mut inserts = Vec::new();
        let mut first = range.start;
        for end in range.start + 1..=range.end {
            if end == range.end || self.compare_columns(first, end).is_ne() {
                inserts.push(table.insert(&self.columns(first), first, end));
                first = end;
            }
        }
        db.batch_execute(inserts.join("; "))
    }

    /// Appends a line of `COPY` with these columns.
    fn push_line(&self, data: &mut Vec<u8>, index: usize, columns: &[u16]) {
        let mut fields = self.fields(index).iter().peekable();
        for (number, column) in columns.iter().enumerate() {
            if number > 0 {
                data.push(b'\t');
            }
            match fields.next_if(|field| field.column == *column) {
                Some(field) => data.extend_from_slice(&self.text[field.text.clone()]),
                None => data.extend_from_slice(b"\\N"),
            }
        }
        data.push(b'\n');
    }

    fn fields(&self, index: usize) -> &[Field] {
        &self.fields[self.rows[index].fields.clone()]
    }

    fn columns(&self, index: usize) -> Vec<u16> {
        self.fields(index)
            .iter()
            .map(|field| field.column)
            .collect()
    }

    fn compare_columns(&self, a: usize, b: usize) -> Ordering {
        let columns = |index| self.fields(index).iter().map(|field| field.column);
        columns(a).cmp(columns(b))
    }
}

fn copy(db: &mut impl Queryable, sql: String, data: Vec<u8>) -> lookaside_client::Result<()> {
    let answers = db.request(Request::copy_in(sql, data))?;
    answers.into_iter().try_for_each(|answer| answer.map(drop))
}
