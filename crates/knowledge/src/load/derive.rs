//! A table's columns from its data: names from the header, types from all values.
//!
//! Every value is checked, not a sample: a `007` in the last row must not become 7 because the
//! first thousand values looked like numbers. So a type is only assigned if SQLite's conversion
//! preserves the written values; everything else stays text.

use std::net::IpAddr;
use std::path::PathBuf;

use super::create_table::create_table;
use super::records::NextRecord;
use super::rows::{Rows, Spot};
use crate::Result;
use crate::compiled::DerivedColumn;
use crate::config::TableConfig;
use crate::error::Error;
use crate::plan::{BOOL_TEXT, BoolWords};
use crate::sql_name::quote_name;

/// The number of digits that a REAL always stores exactly.
const REAL_DIGIT_COUNT_MAX: usize = 15;

/// The number of cells that differ in type from the majority above which the column is certainly
/// text, and no note is due.
const ODD_COUNT_MAX: u64 = 100;

/// The types that derived columns are declared with.
const DECLARATIONS: [&str; 4] = [INTEGER, REAL, BOOL_TEXT, TEXT];

const INTEGER: &str = "INTEGER";
const REAL: &str = "REAL";
const TEXT: &str = "TEXT";

/// The SQL comments of derived columns. A column of booleans or addresses stays text, so that the values
/// can be looked up by equality and shown as written.
const COMMENTS: [&str; 4] = ["", BOOLEANS, IP4_ADDRESSES, ADDRESSES];

const BOOLEANS: &str = " -- every value is a boolean: parameters true and false match them";
const IP4_ADDRESSES: &str =
    " -- every value is an IPv4 address: ip4_between(:ip, low, high) for ranges";
const ADDRESSES: &str =
    " -- every value is an address: ip_key(:ip) between ip_key(low) and ip_key(high) for ranges";

/// A column of a derived table.
pub(super) struct Column {
    name: String,
    kind: Kind,
    numbers: Cells,
    /// The whole numbers among them that a REAL may not store exactly.
    wide: Cells,
    dates: Cells,
    others: Cells,
    /// The kind of the first cell that is not a number.
    first_text: &'static str,
    addresses: Addresses,
    bools: Bools,
}

/// Whether all non-empty cells of a column are booleans in one notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bools {
    /// All cells are empty.
    None,
    All(BoolWords),
    /// There is a cell of another kind.
    Not,
}

/// Whether all non-empty cells of a column are addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addresses {
    /// All cells are empty.
    None,
    Ip4,
    /// IPv6, or both.
    Ip6,
    /// There is a cell of another kind.
    Not,
}

/// The cells of a column that are of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Cells {
    count: u64,
    /// Where the first of them is, if there is one.
    first: Spot,
}

impl Cells {
    fn see(&mut self, spot: Spot) {
        if self.count == 0 {
            self.first = spot;
        }
        self.count += 1;
    }

    fn merge(&mut self, later: Self) {
        if self.count == 0 {
            self.first = later.first;
        }
        self.count += later.count;
    }
}

/// The kind of all values of a column so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// All cells are empty.
    Empty,
    Integer,
    Real,
    Text,
}

/// Derives the mapped columns of a data file, which is read to its end.
pub(super) fn columns(rows: &mut Rows<'_>) -> Result<Vec<Column>> {
    let mut columns = new_columns(rows.names());
    loop {
        match rows.next()? {
            NextRecord::Record => {}
            // The load itself reports the record or fails at it.
            NextRecord::Bad { .. } => continue,
            NextRecord::End => return Ok(columns),
        }
        for (index, column) in columns.iter_mut().enumerate() {
            let field = rows.value(index).as_bytes().unwrap_or_default();
            column.see_if_undecided(field, rows.spot());
        }
    }
}

/// Checks that the columns have different names.
pub(super) fn check_names(table: &TableConfig, rows: &Rows<'_>) -> Result<()> {
    let names = rows.names();
    if names.is_empty() {
        return Err(Error::nothing_to_derive(table));
    }
    for (index, name) in names.iter().enumerate() {
        if names[..index]
            .iter()
            .any(|other| other.eq_ignore_ascii_case(name))
        {
            return Err(Error::ambiguous_header(&rows.files()[0], name));
        }
    }
    Ok(())
}

/// Columns without values.
pub(super) fn new_columns(names: &[String]) -> Vec<Column> {
    names.iter().cloned().map(Column::new).collect()
}

impl Column {
    /// Adds a cell, unless it is known that the column is text without any form.
    #[inline]
    pub(super) fn see_if_undecided(&mut self, field: &[u8], spot: Spot) {
        if self.others.count < ODD_COUNT_MAX
            || self.addresses != Addresses::Not
            || self.bools != Bools::Not
        {
            self.see(field, spot);
        }
    }

    /// Adds the cells of later rows.
    pub(super) fn merge(&mut self, later: Self) {
        if self.dates.count + self.others.count == 0 {
            self.first_text = later.first_text;
        }
        self.kind = self.kind.max(later.kind);
        for (cells, later) in [
            (&mut self.numbers, later.numbers),
            (&mut self.wide, later.wide),
            (&mut self.dates, later.dates),
            (&mut self.others, later.others),
        ] {
            cells.merge(later);
        }
        self.addresses = self.addresses.merge(later.addresses);
        self.bools = self.bools.merge(later.bools);
    }

    fn new(name: String) -> Self {
        Self {
            name,
            kind: Kind::Empty,
            numbers: Cells::default(),
            wide: Cells::default(),
            dates: Cells::default(),
            others: Cells::default(),
            first_text: "",
            addresses: Addresses::None,
            bools: Bools::None,
        }
    }

    fn see(&mut self, field: &[u8], spot: Spot) {
        let kind = kind_of(field);
        self.kind = self.kind.max(kind);
        if kind != Kind::Empty {
            self.bools = self.bools.with(field);
        }
        match kind {
            Kind::Empty => return,
            Kind::Integer | Kind::Real => {
                if kind == Kind::Integer && is_wide(field) {
                    self.wide.see(spot);
                }
                return self.numbers.see(spot);
            }
            Kind::Text => {}
        }
        self.addresses = self.addresses.with(field);
        if self.dates.count + self.others.count == 0 {
            self.first_text = why_text(field);
        }
        match is_date(field) {
            true => self.dates.see(spot),
            false => self.others.see(spot),
        }
    }

    /// The kind of all its values.
    fn kind(&self) -> Kind {
        match self.kind {
            Kind::Real if self.wide.count > 0 => Kind::Text,
            kind => kind,
        }
    }

    /// The declared type.
    fn declaration(&self) -> &'static str {
        match (self.kind(), self.bools) {
            (Kind::Integer, _) => INTEGER,
            (Kind::Real, _) => REAL,
            (Kind::Text, Bools::All(_)) => BOOL_TEXT,
            (Kind::Empty | Kind::Text, _) => TEXT,
        }
    }

    /// The SQL comment in `create table`.
    fn comment(&self) -> &'static str {
        if let Bools::All(_) = self.bools {
            return BOOLEANS;
        }
        match (self.numbers.count, self.addresses) {
            (0, Addresses::Ip4) => IP4_ADDRESSES,
            (0, Addresses::Ip6) => ADDRESSES,
            _ => "",
        }
    }

    /// Why the column is text although most of its cells are numbers, or which of its cells is not
    /// a date although most are.
    fn note(&self, files: &[PathBuf]) -> Option<String> {
        let (numbers, dates, others) = (self.numbers, self.dates, self.others);
        let (text_count, dateless_count) =
            (dates.count + others.count, numbers.count + others.count);
        // The named line has a cell of the minority.
        let first = |a: Cells, b: Cells| {
            let cells = [a, b].into_iter().filter(|cells| cells.count > 0);
            let first = cells.map(|cells| cells.first).min();
            first.map(|first| first.shown(files))
        };
        let why = if self.kind == Kind::Real && self.wide.count > 0 {
            let line = self.wide.first.shown(files);
            format!("{line} has more digits than a number can represent in a column with decimals")
        } else if numbers.count > text_count && text_count < ODD_COUNT_MAX {
            format!("{} {}", first(dates, others)?, self.first_text)
        } else if dates.count > dateless_count && dateless_count < ODD_COUNT_MAX {
            let line = first(numbers, others)?;
            format!("most of its cells are dates, but {line} is not")
        } else {
            return None;
        };
        let name = &self.name;
        Some(format!(
            "column {name:?} is text: {why}; correct it, or write create.sql"
        ))
    }
}

/// Notes for the user about the derived types.
pub(super) fn notes(columns: &[Column], files: &[PathBuf]) -> Vec<String> {
    columns.iter().filter_map(|it| it.note(files)).collect()
}

/// What the SQL says about columns.
pub(super) fn described(columns: &[Column]) -> Vec<DerivedColumn> {
    let position = |texts: &[&str], text: &str| {
        let found = texts.iter().position(|it| *it == text);
        found.expect("a text of the list") as u8
    };
    let columns = columns.iter().map(|column| DerivedColumn {
        declaration: position(&DECLARATIONS, column.declaration()),
        comment: position(&COMMENTS, column.comment()),
    });
    columns.collect()
}

/// Whether a column is one of [`described`].
pub(super) fn is_known(column: &DerivedColumn) -> bool {
    usize::from(column.declaration) < DECLARATIONS.len()
        && usize::from(column.comment) < COMMENTS.len()
}

/// `create table` for derived columns with these names.
pub(super) fn create(table: &str, names: &[String], columns: &[DerivedColumn]) -> String {
    let columns = names.iter().zip(columns);
    let columns: Vec<(&str, &str, &str)> = columns
        .map(|(name, column)| {
            let declaration = DECLARATIONS[usize::from(column.declaration)];
            (&**name, declaration, COMMENTS[usize::from(column.comment)])
        })
        .collect();
    create_table(table, &columns)
}

/// `insert` for derived columns with these names; an empty cell of a number column is NULL.
pub(super) fn insert(table: &str, names: &[String], columns: &[DerivedColumn]) -> String {
    let names: Vec<String> = names.iter().map(|name| quote_name(name)).collect();
    let values: Vec<String> = (1..)
        .zip(columns)
        .map(
            |(number, column)| match DECLARATIONS[usize::from(column.declaration)] {
                INTEGER | REAL => format!("nullif(?{number}, '')"),
                _ => format!("?{number}"),
            },
        )
        .collect();
    format!(
        "insert into {} ({})\nvalues ({});\n",
        quote_name(table),
        names.join(", "),
        values.join(", ")
    )
}

impl Addresses {
    fn with(self, field: &[u8]) -> Self {
        if self == Self::Not {
            return self;
        }
        let text = std::str::from_utf8(field).unwrap_or_default();
        match text.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) if self != Self::Ip6 => Self::Ip4,
            Ok(_) => Self::Ip6,
            Err(_) => Self::Not,
        }
    }

    fn merge(self, later: Self) -> Self {
        match (self, later) {
            (Self::Not, _) | (_, Self::Not) => Self::Not,
            (Self::None, known) | (known, Self::None) => known,
            (Self::Ip4, Self::Ip4) => Self::Ip4,
            _ => Self::Ip6,
        }
    }
}

impl Bools {
    fn with(self, field: &[u8]) -> Self {
        match (self, BoolWords::of(field)) {
            (Self::None, Some(words)) => Self::All(words),
            (Self::All(known), Some(words)) if known == words => self,
            _ => Self::Not,
        }
    }

    fn merge(self, later: Self) -> Self {
        match (self, later) {
            (Self::None, known) | (known, Self::None) => known,
            (Self::All(words), Self::All(others)) if words == others => self,
            _ => Self::Not,
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

/// Whether a REAL may not store a whole number exactly; all up to 2^53 are exact.
fn is_wide(field: &[u8]) -> bool {
    let text = std::str::from_utf8(field).unwrap_or_default();
    text.len() > REAL_DIGIT_COUNT_MAX
        && text
            .parse()
            .is_ok_and(|number: i64| number.unsigned_abs() > 1 << f64::MANTISSA_DIGITS)
}

/// Whether a cell is a date such as 2026-01-31, or begins with one before a time.
fn is_date(field: &[u8]) -> bool {
    let Some((day, rest)) = field.split_at_checked(10) else {
        return false;
    };
    let is_day = day.iter().enumerate().all(|(index, byte)| match index {
        4 | 7 => *byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    is_day && matches!(rest.first(), None | Some(b'T' | b't' | b' '))
}

/// The kind of a cell of [`Kind::Text`], without its content.
fn why_text(field: &[u8]) -> &'static str {
    let Ok(field) = std::str::from_utf8(field) else {
        return "is not UTF-8";
    };
    let digits = field.strip_prefix(['-', '+']).unwrap_or(field);
    let begins = digits.bytes().next();
    // `inf` and `nan` parse as well, and are words here.
    let is_number =
        field.parse::<f64>().is_ok() && begins.is_some_and(|b| b.is_ascii_digit() || b == b'.');
    let is_decimal = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && digits.matches('.').count() <= 1
        && digits.bytes().any(|b| b.is_ascii_digit());
    if field.trim() != field {
        "has white space around its value"
    } else if is_decimal && digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.")
    {
        "has a leading zero"
    } else if is_decimal && digits.len() > REAL_DIGIT_COUNT_MAX {
        "has more digits than a number can represent"
    } else if is_number {
        "is a number in a form that conversion would lose"
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
                column.see(cell.as_bytes(), Spot::new(0, line));
            }
            column.note(&[PathBuf::new()])
        };
        for (cell, expected) in [
            ("n/a", "line 3 is not a number"),
            ("007", "line 3 has a leading zero"),
            (
                "+1",
                "line 3 is a number in a form that conversion would lose",
            ),
            (
                ".5",
                "line 3 is a number in a form that conversion would lose",
            ),
            ("1 ", "line 3 has white space"),
            ("9223372036854775808", "line 3 has more digits"),
            (".", "line 3 is not a number"),
            (
                "1e400",
                "line 3 is a number in a form that conversion would lose",
            ),
            ("inf", "line 3 is not a number"),
        ] {
            let note = note(&["1", cell, "2.5", ""]).unwrap();
            let start = "column \"price\" is text: ";
            assert!(note.starts_with(&format!("{start}{expected}")), "{note}");
        }
        assert!(note(&["n/a", "1", "2"]).unwrap().contains("line 2 is not"));
        let (day, time) = ("2026-01-31", "2026-02-01T08:00:00Z");
        let dates = "column \"price\" is text: most of its cells are dates, but line";
        for (cells, line) in [
            (&[day, "20260201", time][..], 3),
            (&[day, time, "", "31.01.2026"], 5),
            (&["soon", day, "7", day, day, "2026-02-01 08:00"], 2),
            (&[day, day, "2026-1-31"], 4),
        ] {
            let note = note(cells).unwrap();
            assert!(
                note.starts_with(&format!("{dates} {line} is not;")),
                "{note}"
            );
        }
        let note_of_numbers = note(&["1", "2", day]).unwrap();
        assert!(
            note_of_numbers.contains("line 4 is not a number"),
            "{note_of_numbers}"
        );
        for quiet in [
            &["1", "2", ""][..],
            &["a", "b", "1"],
            &["1", "a"],
            &[day, day],
            &[day, "1"],
            &[day, "a", "1"],
            &[""],
            &[],
        ] {
            assert_eq!(note(quiet), None, "{quiet:?}");
        }
    }

    #[test]
    fn issue_12_whole_numbers_that_a_real_does_not_hold_are_text_beside_decimals() {
        let why = "line 2 has more digits than a number can represent";
        for (cells, expected, note) in [
            (&["9007199254740993", "1.5"][..], Kind::Text, Some(why)),
            (&["-9007199254740993", "", "1.5"], Kind::Text, Some(why)),
            (&["9223372036854775807", "1"], Kind::Integer, None),
            (&["9007199254740992", "1.5"], Kind::Real, None),
            (&["-9007199254740992", "1.5"], Kind::Real, None),
            (&["1234567890123456", "1.5"], Kind::Real, None),
        ] {
            let mut column = Column::new("n".to_owned());
            for (line, cell) in (2..).zip(cells) {
                column.see(cell.as_bytes(), Spot::new(0, line));
            }
            assert_eq!(column.kind(), expected, "{cells:?}");
            let found = column.note(&[PathBuf::new()]);
            let is_same = match (note, &found) {
                (Some(note), Some(found)) => found.contains(note),
                (None, None) => true,
                _ => false,
            };
            assert!(is_same, "{cells:?}: {found:?}");
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
