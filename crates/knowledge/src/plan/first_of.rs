//! The native plan of a statement that reads a name of `[[first_of]]`: those of its tables in turn.

use lookaside_value::{RowSet, RowSetBuilder, Text, Value};

use super::explain::Explanation;
use super::reason::Reason;
use super::tables::{TableCache, Tables};
use super::{ChosenPlan, LookupPlan, Native, Probe, ProbeAll, planner, shape};
use crate::bind::value_of;
use crate::first_of::Expansion;

/// Native plans of several tables, of which the first that finds a row answers.
pub(super) struct FirstOf {
    members: Vec<Member>,
    /// The position of the row that answers if no table has one, if there is such a row.
    on_miss: Option<usize>,
    /// The rows of all tables, one after the other: positions refer to one set.
    rows: RowSet,
}

struct Member {
    native: Native,
    /// The position of its first row among all rows.
    start: usize,
}

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
        let columns = natives
            .first()
            .map(|first| first.rows.shared_columns().clone());
        let mut rows = RowSetBuilder::with_columns(columns.unwrap_or_default());
        rows.reserve(natives.iter().map(|native| native.rows.len()).sum());
        let (mut members, mut start) = (Vec::new(), 0);
        for native in natives {
            for row in native.rows.iter() {
                rows.push(row.iter().cloned());
            }
            let row_count = native.rows.len();
            members.push(Member { native, start });
            start += row_count;
        }
        if let Some(sql) = &expansion.on_miss {
            rows.push(default_row(sql, tables)?);
        }
        Ok(Self {
            members,
            on_miss: expansion.on_miss.is_some().then_some(start),
            rows: rows.build(),
        })
    }

    pub(super) fn rows(&self) -> &RowSet {
        &self.rows
    }

    pub(super) fn first(&self, params: &[Value]) -> Probe {
        for Member { native, start } in &self.members {
            match native.first(params) {
                Probe::Absent => {}
                Probe::Row(row) => return Probe::Row(start + row),
                Probe::Fallback => return Probe::Fallback,
            }
        }
        self.on_miss.map_or(Probe::Absent, Probe::Row)
    }

    pub(super) fn all(&self, params: &[Value], out: &mut Vec<usize>) -> ProbeAll {
        let before = out.len();
        for Member { native, start } in &self.members {
            if native.all(params, out) == ProbeAll::Fallback {
                return ProbeAll::Fallback;
            }
            if out.len() > before {
                out[before..].iter_mut().for_each(|row| *row += start);
                return ProbeAll::Rows;
            }
        }
        out.extend(self.on_miss);
        ProbeAll::Rows
    }

    /// That of the first table, with the sizes of all.
    pub(super) fn explain(&self) -> Explanation {
        let mut explanations = self.members.iter().map(|member| member.native.explain());
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
