//! Native plans: statements that an index of the engine answers instead of SQLite, with the same
//! rows.
//!
//! Planning a statement: [`shape`] parses its text, [`schema`] reads the table's schema,
//! [`first_row`] checks in which order SQLite visits rows; [`build`] makes an index and [`tables`]
//! shares it. At each probe, [`operand`] computes the value to look up, and [`key`] applies
//! SQLite's comparison rules to it.
//!
//! The rule for every decision: a native answer equals SQLite's answer. If that is not certain when
//! the plan is made, SQLite always answers the statement. A native plan answers all sets of
//! parameters, except those that SQLite refuses: their error is SQLite's.

mod batch;
mod bool_words;
mod bools;
mod build;
mod census;
mod column_types;
mod comparisons;
mod conversion;
mod duplicates;
mod explain;
mod first_of;
mod first_row;
mod invalid_keys;
mod key;
mod one_row;
mod operand;
mod planner;
mod reads;
mod reason;
mod refusal;
mod relations;
mod schema;
mod shape;
mod sqlite_dialect;
mod storage;
mod stored;
mod table_info;
mod table_rows;
mod tables;
mod warnings;

#[cfg(test)]
mod tests;

use lookaside_value::{Text, Value};

pub(crate) use self::bool_words::{BOOL_TEXT, BoolWords};
use self::build::{Class, Interval, Stored};
pub(crate) use self::build::{KEY_COLUMN_COUNT_MAX, changed_key_index, key_index, shared_index};
pub(crate) use self::comparisons::equal_columns;
pub(crate) use self::duplicates::DuplicateKeys;
pub use self::explain::{Explanation, PlanKind, ProviderPlan};
use self::first_of::FirstOf;
use self::invalid_keys::InvalidKeys;
use self::key::{Affinity, Converted, convert, convert_plain};
pub(crate) use self::one_row::{OneRowKey, one_row_key};
use self::operand::{Operand, Scratch};
pub use self::reads::{ReadKind, TableRead};
use self::reason::Reason;
use self::relations::Related;
pub(crate) use self::storage::Storage;
pub(crate) use self::stored::StoredRows;
pub use self::table_info::{ColumnInfo, TableInfo};
pub(crate) use self::tables::Tables;
pub(crate) use self::warnings::of_provider as provider_warnings;
pub use self::warnings::{StatementWarning, WarningKind};
use crate::bind::SqlValue;
use crate::config::ProviderKind;
use crate::functions::{self, Host, Path};
use crate::index::{Gap, IntervalIndex, Key, KeyIndex, ListOrder, PatternIndex, Rows};

/// The plan of one statement in one generation.
pub(crate) struct LookupPlan(ChosenPlan);

enum ChosenPlan {
    Native(Native),
    FirstOf(Box<FirstOf>),
    /// SQLite or another database answers.
    NotNative(Reason),
}

struct Native {
    probe: NativeProbe,
    rows: StoredRows,
    /// At most [`crate::index::ROW_COUNT_MAX`], as the index has numbers for all rows.
    row_count: u32,
    /// Whether the first row of a list is the statement's first row. If not, no key has several.
    is_first_known: bool,
    /// The order that `order by` requires.
    list_order: ListOrder,
    is_limited: bool,
    /// The name of the table, for [`Explanation`].
    table: Text,
    key_columns: Vec<Text>,
    invalid_keys: Option<InvalidKeys>,
}

enum NativeProbe {
    Hash {
        index: KeyIndex,
        parts: Vec<Compared>,
    },
    Interval {
        interval: Interval,
        /// What the lower bounds are compared with.
        key: Compared,
        /// What the upper bounds are compared with, if it is written otherwise. If it has another value, the
        /// rows are not those of one key, and SQLite answers.
        high: Option<Box<Compared>>,
    },
    Ip4Between {
        interval: Interval,
        ip: Operand,
    },
    Related {
        index: Related,
        operand: Operand,
    },
}

/// An operand and the affinity of the column that it is compared with.
#[derive(Clone, PartialEq)]
struct Compared {
    operand: Operand,
    affinity: Affinity,
}

/// The answer of a plan for the first row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// The row at this position, see [`LookupPlan::row`].
    Row(usize),
    /// There is no row.
    Absent,
    /// SQLite refuses the parameters, and reports why.
    Refused,
    /// SQLite answers, see [`LookupPlan::may_need_sqlite`].
    Fallback,
}

/// The answer of a plan for all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeAll {
    /// The rows are at the appended positions, perhaps none.
    Rows,
    /// SQLite refuses the parameters, and reports why.
    Refused,
    /// SQLite answers, see [`LookupPlan::may_need_sqlite`].
    Fallback,
}

/// The rows that an index finds.
#[derive(Clone, Copy)]
enum Found<'a> {
    Rows(Rows<'a>),
    /// Those of a key between two adjacent keys of the index: a number between two integers, or a
    /// byte string of another size.
    Gap(&'a IntervalIndex, Gap),
    /// SQLite refuses the parameters.
    Refused,
    /// They are not the rows of one key.
    Other,
}

impl LookupPlan {
    /// Plans a statement whose `:name` parameters come in the order of `params`.
    ///
    /// Reads the table and builds the index, or shares what another plan built. SQL that has no
    /// native plan, or is invalid, gets a plan that always falls back to SQLite.
    pub(crate) fn new(sql: &str, params: &[Text], tables: &Tables) -> Self {
        let native = shape::shape_of(sql, params)
            .and_then(|shape| tables.with(|tables| planner::plan(sql, params, shape, tables)));
        Self(native.map_or_else(ChosenPlan::NotNative, ChosenPlan::Native))
    }

    /// The plan of a statement that another database answers.
    pub(crate) fn provider(name: &str, kind: ProviderKind) -> Self {
        Self(ChosenPlan::NotNative(Reason::provider(name, kind)))
    }

    /// Whether an index of the engine answers, rather than SQLite or another database.
    pub(crate) fn is_native(&self) -> bool {
        !matches!(self.0, ChosenPlan::NotNative(_))
    }

    /// Whether SQLite may have to answer: if the plan is not native, and for two different values that the
    /// bounds of an interval are compared with.
    pub(crate) fn may_need_sqlite(&self) -> bool {
        match &self.0 {
            ChosenPlan::Native(native) => native.may_need_sqlite(),
            ChosenPlan::FirstOf(tables) => tables.members().iter().any(Native::may_need_sqlite),
            ChosenPlan::NotNative(_) => true,
        }
    }

    /// The first row for parameters in the order of `params`.
    #[inline]
    pub(crate) fn first(&self, params: &[Value]) -> Probe {
        match &self.0 {
            ChosenPlan::Native(native) => native.first(params),
            ChosenPlan::FirstOf(tables) => tables.first(params),
            ChosenPlan::NotNative(_) => Probe::Fallback,
        }
    }

    /// Appends the positions of all rows for parameters in the order of `params`.
    pub(crate) fn all(&self, params: &[Value], out: &mut Vec<usize>) -> ProbeAll {
        match &self.0 {
            ChosenPlan::Native(native) => native.all(params, out),
            ChosenPlan::FirstOf(tables) => tables.all(params, out),
            ChosenPlan::NotNative(_) => ProbeAll::Fallback,
        }
    }

    /// The rows of a position in the statement's projection, and the row in them. All positions of one
    /// answer have the same rows.
    ///
    /// # Panics
    /// When the position is not one of this plan.
    #[inline]
    pub(crate) fn row(&self, position: usize) -> (&StoredRows, usize) {
        match &self.0 {
            ChosenPlan::Native(native) => (&native.rows, position),
            ChosenPlan::FirstOf(tables) => tables.row(position),
            ChosenPlan::NotNative(_) => unreachable!("a plan that finds rows is native"),
        }
    }

    /// The rows of the positions of one answer, which become the numbers of rows in it.
    ///
    /// # Panics
    /// When the plan is not native.
    #[inline]
    pub(crate) fn rows(&self, positions: &mut [usize]) -> &StoredRows {
        let (rows, _) = self.row(positions.first().copied().unwrap_or(0));
        for position in positions {
            *position = self.row(*position).1;
        }
        rows
    }
}

impl Native {
    fn may_need_sqlite(&self) -> bool {
        matches!(self.probe, NativeProbe::Interval { high: Some(_), .. })
    }

    #[inline]
    fn first(&self, params: &[Value]) -> Probe {
        if let Some((index, text)) = self.patterns() {
            return first_pattern(index, text, params);
        }
        match self.find(params) {
            Found::Rows(Rows::None) => Probe::Absent,
            Found::Rows(Rows::One(row)) => Probe::Row(row as usize),
            Found::Rows(Rows::Many(rows)) => Probe::Row(rows[0] as usize),
            Found::Gap(index, gap) => first_of_gap(index, gap, self.list_order),
            Found::Refused => Probe::Refused,
            Found::Other => Probe::Fallback,
        }
    }

    fn all(&self, params: &[Value], out: &mut Vec<usize>) -> ProbeAll {
        if self.is_limited {
            match self.first(params) {
                Probe::Row(row) => out.push(row),
                Probe::Absent => {}
                Probe::Refused => return ProbeAll::Refused,
                Probe::Fallback => return ProbeAll::Fallback,
            }
            return ProbeAll::Rows;
        }
        if let Some((index, text)) = self.patterns() {
            return all_patterns(index, text, params, out);
        }
        let position = |row: &u32| *row as usize;
        match self.find(params) {
            Found::Rows(Rows::None) => {}
            Found::Rows(Rows::One(row)) => out.push(row as usize),
            Found::Rows(Rows::Many(rows)) => out.extend(rows.iter().map(position)),
            Found::Gap(index, gap) => {
                out.extend(index.rows_of_gap(gap, self.list_order).iter().map(position));
            }
            Found::Refused => return ProbeAll::Refused,
            Found::Other => return ProbeAll::Fallback,
        }
        ProbeAll::Rows
    }

    #[inline]
    fn find(&self, params: &[Value]) -> Found<'_> {
        match &self.probe {
            NativeProbe::Hash { index, parts } => find_equal(index, parts, params),
            NativeProbe::Interval {
                interval,
                key,
                high: None,
            } => find_within(interval, self.list_order, key, params),
            NativeProbe::Interval {
                interval,
                key,
                high: Some(high),
            } => find_both_within(interval, self.list_order, [key, high], params),
            NativeProbe::Ip4Between { interval, ip } => {
                find_ip4_between(interval, self.list_order, ip, params)
            }
            NativeProbe::Related { index, operand } => {
                let rows = find_related(index, self.list_order, operand, params);
                rows.map_or(Found::Refused, Found::Rows)
            }
        }
    }

    /// The index and the operand, if the rows are patterns: several may match, in no list that is
    /// stored.
    #[inline]
    fn patterns(&self) -> Option<(&PatternIndex, &Operand)> {
        match &self.probe {
            NativeProbe::Related {
                index: Related::Patterns(index),
                operand,
            } => Some((index, operand)),
            _ => None,
        }
    }
}

impl NativeProbe {
    /// Whether several rows may have one key.
    fn has_several(&self) -> bool {
        match self {
            Self::Hash { index, .. } => index.has_several(),
            Self::Interval { interval, .. } | Self::Ip4Between { interval, .. } => {
                interval.index.has_several()
            }
            Self::Related { index, .. } => index.has_several(),
        }
    }

    /// Whether [`ListOrder::LowDescending`] leaves the order of any two of them open.
    fn has_ties(&self) -> bool {
        match self {
            // Only ranges have this order.
            Self::Hash { .. } => false,
            Self::Interval { interval, .. } | Self::Ip4Between { interval, .. } => {
                interval.index.has_ties()
            }
            Self::Related { index, .. } => index.has_ties(),
        }
    }
}

fn first_pattern(index: &PatternIndex, text: &Operand, params: &[Value]) -> Probe {
    let mut first = None;
    let is_known = with_text(text, params, |text| {
        index.rows(text, |row| {
            first = Some(first.map_or(row, |first: u32| first.min(row)));
        });
    });
    match (is_known, first) {
        (None, _) => Probe::Refused,
        (Some(()), None) => Probe::Absent,
        (Some(()), Some(row)) => Probe::Row(row as usize),
    }
}

fn all_patterns(
    index: &PatternIndex,
    text: &Operand,
    params: &[Value],
    out: &mut Vec<usize>,
) -> ProbeAll {
    let start = out.len();
    let is_known = with_text(text, params, |text| {
        index.rows(text, |row| out.push(row as usize));
    });
    out[start..].sort_unstable();
    match is_known {
        Some(()) => ProbeAll::Rows,
        None => ProbeAll::Refused,
    }
}

/// Calls `work` with the text of an operand, if it is one: the functions return NULL for other
/// values. `None` if SQLite would refuse the operand.
#[inline]
fn with_text<T: Default>(
    operand: &Operand,
    params: &[Value],
    work: impl FnOnce(&str) -> T,
) -> Option<T> {
    match operand.plain_value(params) {
        Some(SqlValue::Text(text)) => Some(work(text)),
        Some(_) => Some(T::default()),
        None => {
            let mut scratch = Scratch::new();
            match operand.value(params, &mut scratch)? {
                SqlValue::Text(text) => Some(work(text)),
                _ => Some(T::default()),
            }
        }
    }
}

fn find_related<'a>(
    index: &'a Related,
    order: ListOrder,
    operand: &Operand,
    params: &[Value],
) -> Option<Rows<'a>> {
    let rows = match index {
        Related::Networks(index) => {
            let key = match operand.param(params) {
                Some(Value::Ip(ip)) => Some(functions::address_key_of_ip(*ip)),
                _ => with_text(operand, params, functions::address_key)?,
            };
            key.map(|key| index.rows_of_address(key.to_be_bytes(), order))
        }
        Related::Hosts {
            index,
            has_wildcards,
        } => with_text(operand, params, |text| {
            let name = Host::parse(text)?;
            let mut keys = name.keys();
            match has_wildcards {
                true => keys.find_map(|key| index.rows(key, order)),
                false => keys
                    .filter(|key| !key.starts_with('.'))
                    .find_map(|key| index.rows(key, order)),
            }
        })?,
        Related::Paths {
            index,
            slash_count_max,
        } => with_text(operand, params, |text| {
            let mut keys = Path::parse(text).prefixes(*slash_count_max);
            keys.find_map(|key| index.rows(key, order))
        })?,
        Related::Patterns(_) => None,
    };
    Some(rows.unwrap_or(Rows::None))
}

#[cold]
fn first_of_gap(index: &IntervalIndex, gap: Gap, order: ListOrder) -> Probe {
    let rows = index.rows_of_gap(gap, order);
    rows.first()
        .map_or(Probe::Absent, |row| Probe::Row(*row as usize))
}

#[inline]
fn find_ip4_between<'a>(
    interval: &'a Interval,
    order: ListOrder,
    ip: &Operand,
    params: &[Value],
) -> Found<'a> {
    let rows = |ip| {
        let ip = functions::ip4_between_ip_of(ip);
        Found::Rows(interval.index.rows_of_int(ip, order))
    };
    if let Some(SqlValue::Text(ip)) = ip.plain_value(params) {
        return rows(ip);
    }
    match ip.value(params, &mut Scratch::new()) {
        Some(SqlValue::Text(ip)) => rows(ip),
        // The function refuses anything else, if there is a row to call it for.
        Some(_) if interval.low == Stored::None => Found::Rows(Rows::None),
        _ => Found::Refused,
    }
}

#[inline]
fn find_equal<'a>(index: &'a KeyIndex, parts: &[Compared], params: &[Value]) -> Found<'a> {
    match parts {
        [part] => match part.plain_key(params) {
            Some(Converted::Key(key)) => Found::Rows(index.rows(&[key])),
            Some(Converted::Null) => Found::Rows(Rows::None),
            Some(Converted::Refused) => Found::Refused,
            None => find_equal_parts(index, parts, params),
        },
        parts => find_equal_parts(index, parts, params),
    }
}

#[inline(never)]
fn find_equal_parts<'a>(index: &'a KeyIndex, parts: &[Compared], params: &[Value]) -> Found<'a> {
    let mut scratches = [const { [const { Scratch::new() }; 2] }; KEY_COLUMN_COUNT_MAX];
    let mut keys = [Key::Int(0); KEY_COLUMN_COUNT_MAX];
    let mut has_null = false;
    for ((part, key), scratch) in parts.iter().zip(&mut keys).zip(&mut scratches) {
        match part.key(params, scratch) {
            Converted::Key(part) => *key = part,
            Converted::Null => has_null = true,
            // Also if another part is NULL.
            Converted::Refused => return Found::Refused,
        }
    }
    Found::Rows(match has_null {
        true => Rows::None,
        false => index.rows(&keys[..parts.len()]),
    })
}

#[inline]
fn find_within<'a>(
    interval: &'a Interval,
    order: ListOrder,
    key: &Compared,
    params: &[Value],
) -> Found<'a> {
    match key.plain_key(params) {
        Some(key) => find_key_within(interval, order, key),
        None => find_converted_within(interval, order, key, params),
    }
}

/// As [`find_within`], with scratch buffers, which would enlarge the stack frame of every probe.
#[inline(never)]
fn find_converted_within<'a>(
    interval: &'a Interval,
    order: ListOrder,
    key: &Compared,
    params: &[Value],
) -> Found<'a> {
    let mut scratch = [const { Scratch::new() }; 2];
    find_key_within(interval, order, key.key(params, &mut scratch))
}

/// As [`find_within`], for bounds that are compared with two operands.
fn find_both_within<'a>(
    interval: &'a Interval,
    order: ListOrder,
    [low, high]: [&Compared; 2],
    params: &[Value],
) -> Found<'a> {
    let key = match (low.plain_key(params), high.plain_key(params)) {
        (Some(low), Some(high)) if low == high => low,
        (Some(_), Some(_)) => return Found::Other,
        _ => {
            let mut scratches = [const { [const { Scratch::new() }; 2] }; 2];
            let [low_scratch, high_scratch] = &mut scratches;
            let (low, high) = (low.key(params, low_scratch), high.key(params, high_scratch));
            return match low == high {
                true => find_key_within(interval, order, low),
                false => Found::Other,
            };
        }
    };
    find_key_within(interval, order, key)
}

#[inline]
fn find_key_within<'a>(interval: &'a Interval, order: ListOrder, key: Converted<'_>) -> Found<'a> {
    let index = &*interval.index;
    match (key, interval.class) {
        (Converted::Refused, _) => Found::Refused,
        (Converted::Key(Key::Int(key)), Class::Int) => Found::Rows(index.rows_of_int(key, order)),
        (Converted::Key(Key::Text(key)), Class::Text)
        | (Converted::Key(Key::Blob(key)), Class::Blob) => match index.rows_of_bytes(key, order) {
            Some(rows) => Found::Rows(rows),
            None => Found::Gap(index, index.gap_of_bytes(key)),
        },
        (Converted::Key(Key::Real(bits)), Class::Int) => {
            Found::Gap(index, index.gap_of_real(f64::from_bits(bits)))
        }
        // NULL compares with nothing. A value of a lower storage class is below all lower bounds,
        // one of a higher class above all upper bounds.
        (Converted::Null | Converted::Key(_), _) => Found::Rows(Rows::None),
    }
}

impl Compared {
    /// The key to look up, if it needs no scratch buffer: creating and dropping one takes a third
    /// of a probe.
    #[inline]
    fn plain_key<'a>(&'a self, params: &'a [Value]) -> Option<Converted<'a>> {
        convert_plain(self.operand.plain_value(params)?, self.affinity)
    }

    /// The key to look up.
    fn key<'a>(&'a self, params: &'a [Value], scratch: &'a mut [Scratch; 2]) -> Converted<'a> {
        let [value_scratch, key_scratch] = scratch;
        match self.operand.value(params, value_scratch) {
            Some(value) => convert(value, self.affinity, key_scratch),
            None => Converted::Refused,
        }
    }
}
