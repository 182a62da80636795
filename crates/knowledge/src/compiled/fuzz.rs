//! The body of the fuzz target over the sections of compiled forms.

use std::sync::Arc;

use rusqlite::types::ValueRef;

use crate::index::{HashIndex, Key, ROW_COUNT_MAX};
use crate::le_bytes::LeReader;
use crate::table::{KeyColumns, PackedRows, PackedTable, Segment, SegmentBuilder};

/// The rows of the table that indexes are read for.
const ROW_COUNT: i64 = 20;

/// Reads `data` as a section: a byte of settings, then a segment or a hash index, and uses what is read.
///
/// # Panics
/// When a section that was not refused leads to a panic, or an index to a row that the table does not have.
#[doc(hidden)]
pub fn compiled_fuzz(data: &[u8]) {
    let [settings, section @ ..] = data else {
        return;
    };
    let mut reader = LeReader::new(section);
    if settings & 1 == 0 {
        let column_count = usize::from(settings >> 1) % 8;
        if let Ok(segment) = Segment::deserialize(&mut reader, column_count) {
            read_rows(&segment_table(segment), column_count);
        }
        return;
    }
    let mut builder = SegmentBuilder::new(2);
    for row in 0..ROW_COUNT {
        let text = row.to_string();
        let values = [ValueRef::Integer(row * 3), ValueRef::Text(text.as_bytes())];
        builder.push(values.into_iter()).expect("the row is small");
    }
    let table = segment_table(builder.build());
    let columns: &[Option<usize>] = match settings >> 1 & 3 {
        0 => &[Some(0)],
        1 => &[Some(1)],
        2 => &[Some(1), Some(0)],
        _ => &[None],
    };
    let keys = KeyColumns::new(table, columns);
    if let Ok(index) = HashIndex::deserialize(&mut reader, Arc::new(keys)) {
        search(&index, columns.len());
    }
}

fn segment_table(segment: Segment) -> Arc<PackedTable> {
    let table = PackedTable::new([Arc::new(segment)], None, ROW_COUNT_MAX);
    Arc::new(table.expect("a segment has fewer rows"))
}

fn read_rows(table: &Arc<PackedTable>, column_count: usize) {
    let columns: Vec<Option<usize>> = (0..column_count).map(Some).collect();
    let rows = PackedRows::new(Arc::clone(table), &columns, []);
    let mut values = Vec::new();
    for row in 0..table.row_count() {
        values.clear();
        rows.push_values(row, &mut values);
    }
    let each = table.each(&columns, |values| {
        assert_eq!(values.len(), column_count, "a value a column");
        Ok::<_, ()>(())
    });
    each.expect("the visitor does not fail");
}

fn search(index: &HashIndex, part_count: usize) {
    let texts: Vec<String> = (0..ROW_COUNT).map(|row| row.to_string()).collect();
    for (number, text) in (-1..).zip(&texts) {
        for key in [Key::Int(number * 3), Key::Text(text.as_bytes())] {
            for row in index.rows(&vec![key; part_count]).to_vec() {
                assert!(i64::from(row) < ROW_COUNT, "row {row}");
            }
        }
    }
    if index.has_int_keys() {
        let mut rows = [None; 3];
        index.first_of_ints(&[0, 3, i64::MAX], &mut rows);
        assert!(rows.iter().flatten().all(|row| i64::from(*row) < ROW_COUNT));
    }
}
