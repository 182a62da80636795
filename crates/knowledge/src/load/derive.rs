//! A table's columns from its data: names from the header, types from all values.
//!
//! Every value is looked at, not a sample: a `007` in the last row must not become 7 because the
//! first thousand looked like numbers. So a type is only given where SQLite's conversion keeps what
//! was written; everything else stays text.

use super::records::{Next, Records};
use super::sql::quote_name;
use crate::Result;
use crate::config::TableConfig;
use crate::error::Error;

/// Digits that a REAL holds exactly, whatever they are.
const REAL_DIGIT_COUNT_MAX: usize = 15;

/// Cells that are no numbers after which a column is text beyond doubt, and no note is due.
const TEXT_COUNT_MAX: u32 = 100;

/// A column of a derived table.
pub(super) struct Column {
    name: String,
    kind: Kind,
    number_count: u64,
    text_count: u32,
    /// The line of the first cell that is no number, and what it is instead.
    first_text: Option<(u64, &'static str)>,
}

/// What all values of a column are so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Nothing was in it.
    Empty,
    Integer,
    Real,
    Text,
}

/// The mapped columns of a data file, which is read to its end.
pub(super) fn columns(table: &TableConfig, records: &mut Records<'_>) -> Result<Vec<Column>> {
    let mapping = records.mapping()?;
    if mapping.is_empty() {
        return Err(Error::nothing_to_derive(table));
    }
    let mut columns: Vec<Column> = Vec::with_capacity(mapping.len());
    for &index in &mapping {
        let given = records.header().and_then(|header| header.get(index));
        let name = match given.map(String::as_str) {
            None | Some("") => format!("column_{}", index + 1),
            Some(name) => name.to_owned(),
        };
        if columns
            .iter()
            .any(|column| column.name.eq_ignore_ascii_case(&name))
        {
            return Err(Error::ambiguous_header(table, &name));
        }
        columns.push(Column::new(name));
    }
    loop {
        match records.next()? {
            Next::Record => {}
            // The load itself reports the record or fails at it.
            Next::Bad { .. } => continue,
            Next::End => return Ok(columns),
        }
        for (column, &index) in columns.iter_mut().zip(&mapping) {
            if column.text_count < TEXT_COUNT_MAX {
                column.see(records.field(index), records.line());
            }
        }
    }
}

impl Column {
    fn new(name: String) -> Self {
        Self {
            name,
            kind: Kind::Empty,
            number_count: 0,
            text_count: 0,
            first_text: None,
        }
    }

    fn see(&mut self, field: &[u8], line: u64) {
        let kind = kind_of(field);
        self.kind = self.kind.max(kind);
        match kind {
            Kind::Empty => {}
            Kind::Integer | Kind::Real => self.number_count += 1,
            Kind::Text => {
                self.text_count += 1;
                self.first_text
                    .get_or_insert_with(|| (line, why_text(field)));
            }
        }
    }

    /// Why the column is text although most of its cells are numbers.
    fn note(&self) -> Option<String> {
        let (line, why) = self.first_text?;
        let is_odd =
            self.text_count < TEXT_COUNT_MAX && self.number_count > u64::from(self.text_count);
        is_odd.then(|| {
            format!(
                "column {:?} is text: line {line} {why}; correct it, or write \
                 create.sql",
                self.name
            )
        })
    }
}

/// What someone should know about the types that were found.
pub(super) fn notes(columns: &[Column]) -> Vec<String> {
    columns.iter().filter_map(Column::note).collect()
}

/// `create table` for derived columns.
pub(super) fn create(table: &str, columns: &[Column]) -> String {
    let columns: Vec<String> = columns
        .iter()
        .map(|column| {
            format!(
                "  {} {}",
                quote_name(&column.name),
                column.kind.declaration()
            )
        })
        .collect();
    format!(
        "create table {} (\n{}\n);\n",
        quote_name(table),
        columns.join(",\n")
    )
}

/// `insert` for derived columns; an empty cell of a number column is NULL.
pub(super) fn insert(table: &str, columns: &[Column]) -> String {
    let names: Vec<String> = columns
        .iter()
        .map(|column| quote_name(&column.name))
        .collect();
    let values: Vec<String> = (1..)
        .zip(columns)
        .map(|(number, column)| match column.kind {
            Kind::Integer | Kind::Real => format!("nullif(?{number}, '')"),
            Kind::Empty | Kind::Text => format!("?{number}"),
        })
        .collect();
    format!(
        "insert into {} ({})\nvalues ({});\n",
        quote_name(table),
        names.join(", "),
        values.join(", ")
    )
}

impl Kind {
    fn declaration(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Empty | Self::Text => "TEXT",
        }
    }
}

fn kind_of(field: &[u8]) -> Kind {
    let Ok(field) = std::str::from_utf8(field) else {
        return Kind::Text;
    };
    if field.is_empty() {
        return Kind::Empty;
    }
    let digits = field.strip_prefix('-').unwrap_or(field);
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || (whole.len() > 1 && whole.starts_with('0')) || field == "-0" {
        return Kind::Text;
    }
    match fraction {
        None if field.parse::<i64>().is_ok() => Kind::Integer,
        Some(fraction)
            if all_digits(fraction) && whole.len() + fraction.len() <= REAL_DIGIT_COUNT_MAX =>
        {
            Kind::Real
        }
        _ => Kind::Text,
    }
}

/// What a cell of [`Kind::Text`] is, without showing it.
fn why_text(field: &[u8]) -> &'static str {
    let Ok(field) = std::str::from_utf8(field) else {
        return "is not UTF-8";
    };
    let digits = field.strip_prefix(['-', '+']).unwrap_or(field);
    let is_decimal = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && digits.matches('.').count() <= 1
        && digits.bytes().any(|b| b.is_ascii_digit());
    if field.trim() != field {
        "has white space around its value"
    } else if is_decimal && digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.")
    {
        "has a leading zero"
    } else if is_decimal && digits.len() > REAL_DIGIT_COUNT_MAX {
        "has more digits than a number keeps"
    } else if is_decimal {
        "is a number in another form, which would be lost"
    } else {
        "is not a number"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_is_text_by_few_cells_says_so() {
        let note = |cells: &[&str]| {
            let mut column = Column::new("price".to_owned());
            for (line, cell) in (2..).zip(cells) {
                column.see(cell.as_bytes(), line);
            }
            column.note()
        };
        for (cell, expected) in [
            ("n/a", "line 3 is not a number"),
            ("007", "line 3 has a leading zero"),
            ("+1", "line 3 is a number in another form"),
            (".5", "line 3 is a number in another form"),
            ("1 ", "line 3 has white space"),
            ("9223372036854775808", "line 3 has more digits"),
            (".", "line 3 is not a number"),
        ] {
            let note = note(&["1", cell, "2.5", ""]).unwrap();
            let start = "column \"price\" is text: ";
            assert!(note.starts_with(&format!("{start}{expected}")), "{note}");
        }
        assert!(note(&["n/a", "1", "2"]).unwrap().contains("line 2 is not"));
        for quiet in [
            &["1", "2", ""][..],
            &["a", "b", "1"],
            &["1", "a"],
            &[""],
            &[],
        ] {
            assert_eq!(note(quiet), None, "{quiet:?}");
        }
    }

    #[test]
    fn kinds_keep_what_was_written() {
        for (field, expected) in [
            ("", Kind::Empty),
            ("0", Kind::Integer),
            ("-7", Kind::Integer),
            ("9223372036854775807", Kind::Integer),
            ("9223372036854775808", Kind::Text),
            ("007", Kind::Text),
            ("-0", Kind::Text),
            ("+1", Kind::Text),
            ("1 ", Kind::Text),
            ("0.5", Kind::Real),
            ("-12.25", Kind::Real),
            ("00.5", Kind::Text),
            (".5", Kind::Text),
            ("5.", Kind::Text),
            ("1.2.3", Kind::Text),
            ("1e5", Kind::Text),
            ("1.0000000000000001", Kind::Text),
            ("nan", Kind::Text),
            ("٣", Kind::Text),
        ] {
            assert_eq!(kind_of(field.as_bytes()), expected, "{field:?}");
        }
    }
}
