//! Tables of a benchmark: rows from a seed, in a CSV file of a KnowDB folder.
//!
//! | module | question |
//! | --- | --- |
//! | [`probes`] | what does a lookup by a key or in ranges cost, by the columns that it selects? |
//! | [`load`] | what do loading, reloading and holding a table cost? |

pub(super) mod load;
pub(super) mod probes;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use lookaside_load::workload::{Random, ranges_csv};
use lookaside_value::Value;

use crate::Result;

/// The largest number of rows: numbers of rows are mixed within 32 bits, and SQLite's rows must fit
/// into memory.
const ROWS_MAX: i64 = 1 << 30;
/// Between the values of an answer in a hash.
const SEPARATOR: char = '|';

/// The kind of the keys of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KeyKind {
    /// The integers from 1, in ascending order.
    Dense,
    /// Integers below 2^32, in random order.
    Sparse,
    /// Texts of 12 characters, in random order.
    Text,
    /// Ranges of integers that do not overlap, in ascending order.
    Ranges,
}

impl KeyKind {
    fn name(self) -> String {
        let value = self.to_possible_value().expect("no kind is hidden");
        value.get_name().to_owned()
    }
}

/// A table `t` with a key, or the bounds of a range, and the columns `c1`, `c2`, …: integers below
/// 10,000 and texts of 3 to 7 letters in turn.
struct Table {
    kind: KeyKind,
    rows: u32,
    columns: usize,
    /// First and last integer of each row; empty for other keys.
    ranges: Vec<(u32, u32)>,
}

/// Which rows have other values than at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Changed {
    percent: u8,
}

impl Changed {
    const NONE: Self = Self { percent: 0 };

    fn contains(self, row: u32) -> bool {
        mix(row) % 100 < u32::from(self.percent)
    }
}

impl Table {
    /// The ranges of `file`, or made-up rows. The rows of a file replace `rows`.
    fn new(kind: KeyKind, rows: u32, columns: usize, file: Option<&Path>) -> Result<Self> {
        let ranges = match (kind, file) {
            (KeyKind::Ranges, Some(file)) => {
                let text = fs::read_to_string(file)
                    .map_err(|error| format!("{}: {error}", file.display()))?;
                parse_ranges(&text).map_err(|error| format!("{}: {error}", file.display()))?
            }
            (KeyKind::Ranges, None) => {
                parse_ranges(&ranges_csv(u64::from(rows), &mut Random::new(1)))?
            }
            _ => Vec::new(),
        };
        let rows = match kind {
            KeyKind::Ranges => u32::try_from(ranges.len())?,
            _ => rows,
        };
        Ok(Self {
            kind,
            rows,
            columns,
            ranges,
        })
    }

    /// The statement that selects the first `columns` columns.
    fn select(&self, columns: usize) -> String {
        let condition = match self.kind {
            KeyKind::Ranges => "first <= :key and last >= :key",
            _ => "id = :key",
        };
        let names: Vec<String> = (1..=columns).map(|column| format!("c{column}")).collect();
        format!("select {} from t where {condition}", names.join(", "))
    }

    /// A key of the row, or the first of its range.
    fn key(&self, row: u32) -> Value {
        match self.kind {
            KeyKind::Dense => Value::Int(i64::from(row) + 1),
            KeyKind::Sparse => Value::Int(i64::from(mix(row))),
            KeyKind::Text => Value::from(format!("key-{:08x}", mix(row))),
            KeyKind::Ranges => Value::Int(i64::from(self.ranges[row as usize].0)),
        }
    }

    /// A random key of the row.
    fn random_key(&self, row: u32, random: &mut Random) -> Value {
        match self.ranges.get(row as usize) {
            Some(&(first, last)) => {
                let offset = random.below(u64::from(last - first) + 1);
                Value::Int(i64::from(first) + offset as i64)
            }
            None => self.key(row),
        }
    }

    /// Appends the first `columns` values of a row.
    fn push_values(
        &self,
        row: u32,
        columns: usize,
        changed: Changed,
        separator: char,
        text: &mut String,
    ) {
        let version = u64::from(changed.contains(row));
        let mut random = Random::new(u64::from(row) << 1 | version);
        for column in 0..columns {
            if column > 0 {
                text.push(separator);
            }
            if column % 2 == 0 {
                _ = write!(text, "{}", random.below(10_000));
            } else {
                for _ in 0..3 + random.below(5) {
                    text.push(char::from(b'a' + random.below(26) as u8));
                }
            }
        }
    }

    /// Writes the rows as CSV without a header. A file of this name is replaced when complete.
    fn write_csv(&self, file: &Path, changed: Changed) -> Result<()> {
        let new = file.with_extension("new");
        let mut output = BufWriter::with_capacity(1 << 20, File::create(&new)?);
        let mut line = String::new();
        for row in 0..self.rows {
            line.clear();
            if self.kind == KeyKind::Ranges {
                let (first, last) = self.ranges[row as usize];
                _ = write!(line, "{first},{last},");
            } else {
                _ = write!(line, "{},", self.key(row).to_text());
            }
            self.push_values(row, self.columns, changed, ',', &mut line);
            line.push('\n');
            output.write_all(line.as_bytes())?;
        }
        output.into_inner()?;
        Ok(fs::rename(new, file)?)
    }

    /// Writes all of the folder except the rows, and returns the path of these. `config` is
    /// appended to `knowdb.toml`.
    fn write_folder(&self, folder: &Path, config: &str) -> Result<PathBuf> {
        let key = match self.kind {
            KeyKind::Dense | KeyKind::Sparse => "id integer primary key",
            KeyKind::Text => "id text primary key",
            KeyKind::Ranges => "first integer, last integer",
        };
        let mut create = format!("create table {{table}} ({key}");
        for column in 1..=self.columns {
            let kind = if column % 2 == 1 { "integer" } else { "text" };
            _ = write!(create, ", c{column} {kind}");
        }
        create.push_str(");\n");
        let field_count = self.columns + if self.kind == KeyKind::Ranges { 2 } else { 1 };
        let fields: Vec<String> = (1..=field_count).map(|field| format!("?{field}")).collect();
        let insert = format!("insert into {{table}} values ({});\n", fields.join(", "));
        let positions: Vec<usize> = (0..field_count).collect();
        let knowdb = format!(
            "version = 2\n{config}\n[csv]\nhas_header = false\n[[tables]]\nname = \"t\"\n\
             columns.by_index = {positions:?}\n"
        );
        let table = folder.join("t");
        fs::create_dir_all(&table)?;
        fs::write(folder.join("knowdb.toml"), knowdb)?;
        fs::write(table.join("create.sql"), create)?;
        fs::write(table.join("insert.sql"), insert)?;
        Ok(table.join("data.csv"))
    }
}

/// The IPv4 ranges of lines that begin with first,last.
fn parse_ranges(text: &str) -> Result<Vec<(u32, u32)>> {
    let mut ranges = Vec::new();
    for line in text.lines() {
        let mut fields = line.split(',').map(str::parse::<Ipv4Addr>);
        match (fields.next(), fields.next()) {
            (Some(Ok(first)), Some(Ok(last))) if first <= last => {
                ranges.push((first.to_bits(), last.to_bits()));
            }
            _ => return Err(format!("not first,last of IPv4 addresses: {line}").into()),
        }
    }
    if ranges.is_empty() {
        return Err("no ranges".into());
    }
    Ok(ranges)
}

/// A bijection that makes successive numbers look random: MurmurHash3's finalizer of 32 bits.
fn mix(number: u32) -> u32 {
    let mut mixed = number;
    mixed = (mixed ^ (mixed >> 16)).wrapping_mul(0x85eb_ca6b);
    mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xc2b2_ae35);
    mixed ^ (mixed >> 16)
}
