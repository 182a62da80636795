//! The native plan of a statement that reads a name of `[[first_of]]`: those of its tables in turn.

use lookaside_value::{RowSetBuilder, Text, Value};

use super::explain::Explanation;
use super::reason::Reason;
use super::tables::{TableCache, Tables};
use super::{ChosenPlan, LookupPlan, Native, Probe, ProbeAll, StoredRows, planner, shape};
use crate::bind::value_of;
use crate::first_of::Expansion;

/// Native plans of several tables, of which the first that finds a row answers.
///
/// A position has the number of the table above [`ROW_BITS`].
pub(super) struct FirstOf {
    members: Vec<Native>,
    /// The row that answers if no table has one.
    on_miss: Option<StoredRows>,
}

/// The bits of the position of a row in its table.
const ROW_BITS: u32 = 32;

impl LookupPlan {
    /// Plans an expanded statement. It has a native plan if the statement for each table has one.
    pub(crate) fn first_of(expansion: &Expansion, params: &[Text], tables: &Tables) -> Self {
        let planned = tables.with(|tables| FirstOf::new(expansion, params, tables));
        Self(match planned {
            Ok(planned) => ChosenPlan::FirstOf(Box::new(planned)),
            Err(reason) => ChosenPlan::NotNative(reason),
        })
    }
}

impl FirstOf {
    fn new(
        expansion: &Expansion,
        params: &[Text],
        tables: &mut TableCache,
    ) -> Result<Self, Reason> {
        let mut natives = Vec::new();
        for sql in &expansion.members {
            let shape = shape::shape_of(sql, params)?;
            natives.push(planner::plan(sql, params, shape, tables)?);
        }
        let on_miss = match (&expansion.on_miss, natives.first()) {
            (Some(sql), Some(first)) => {
                let mut rows = RowSetBuilder::new(first.rows.columns().iter().cloned());
                rows.push(default_row(sql, tables)?);
                Some(StoredRows::Set(rows.build()))
            }
            _ => None,
        };
        Ok(Self {
            members: natives,
            on_miss,
        })
    }

    #[inline]
    pub(super) fn row(&self, position: usize) -> (&StoredRows, usize) {
        let (member, row) = (position >> ROW_BITS, position & ((1 << ROW_BITS) - 1));
        match self.members.get(member) {
            Some(native) => (&native.rows, row),
            None => (self.on_miss.as_ref().expect("it is a default row"), row),
        }
    }

    pub(super) fn members(&self) -> &[Native] {
        &self.members
    }

    pub(super) fn first(&self, params: &[Value]) -> Probe {
        for (member, native) in self.members.iter().enumerate() {
            match native.first(params) {
                Probe::Absent => {}
                Probe::Row(row) => return Probe::Row(member << ROW_BITS | row),
                refused @ (Probe::Refused | Probe::Fallback) => return refused,
            }
        }
        match &self.on_miss {
            Some(_) => Probe::Row(self.members.len() << ROW_BITS),
            None => Probe::Absent,
        }
    }

    pub(super) fn all(&self, params: &[Value], out: &mut Vec<usize>) -> ProbeAll {
        let before = out.len();
        for (member, native) in self.members.iter().enumerate() {
            let all = native.all(params, out);
            if all != ProbeAll::Rows {
                return all;
            }
            if out.len() > before {
                let positions = out[before..].iter_mut();
                positions.for_each(|row| *row |= member << ROW_BITS);
                return ProbeAll::Rows;
            }
        }
        out.extend((self.on_miss.as_ref()).map(|_| self.members.len() << ROW_BITS));
        ProbeAll::Rows
    }

    /// That of the first table, with the sizes of all.
    pub(super) fn explain(&self) -> Explanation {
        let mut explanations = self.members.iter().map(Native::explain);
        let first = explanations.next().expect("there is at least one table");
        explanations.fold(first, |mut all, next| {
            all.row_count += next.row_count;
            all.key_count += next.key_count;
            all.index_size += next.index_size;
            all.is_first_known &= next.is_first_known;
            all.warnings.extend(next.warnings);
            all
        })
    }
}

/// The values of the default row. They do not depend on parameters, as the columns of native plans
/// do not.
fn default_row(sql: &str, tables: &TableCache) -> Result<Vec<Value>, Reason> {
    let mut statement = tables.connection.prepare(sql)?;
    let column_count = statement.column_count();
    let row = statement.query_row([], |row| {
        (0..column_count)
            .map(|column| row.get_ref(column).map(value_of))
            .collect()
    });
    Ok(row?)
}
