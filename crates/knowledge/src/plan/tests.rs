//! Native plans against SQLite itself: the same rows, the same types, the same first row.

mod differential;
mod edges;
mod kinds;
mod relations;
mod warned;

use std::sync::atomic::{AtomicU32, Ordering};

use lookaside_value::{ParamBatch, Text, Value};
use rusqlite::Connection;

use super::{ChosenPlan, LookupPlan, Probe, ProbeAll, StoredRows, Tables};
use crate::bind::{SqlValue, value_of};
use crate::functions;
use crate::table::PackedTables;

/// The result of a statement: its rows, or its error.
type Answer = Result<Vec<Vec<Value>>, String>;

/// A database, and plans over it.
struct Fixture {
    connection: Connection,
    tables: Tables,
    uri: String,
}

/// Where the rows of a fixture are for its plans.
#[derive(Clone, Copy, Debug)]
enum Storage {
    Sqlite,
    /// Packed, and small enough that answers are values.
    PackedSmall,
    Packed,
}

impl Fixture {
    /// Creates a database by a script, which also decides where the rows are. Tests on several threads
    /// may use the same name.
    fn new(name: &str, script: &str) -> Self {
        let storages = [Storage::Sqlite, Storage::PackedSmall, Storage::Packed];
        let hash = script.bytes().fold(0_usize, |sum, byte| {
            sum.wrapping_mul(31) + usize::from(byte)
        });
        Self::stored(name, script, storages[hash % storages.len()])
    }

    fn stored(name: &str, script: &str, storage: Storage) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: no other data is published with the number.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let uri = format!("file:/plan-{process}-{name}-{number}?vfs=memdb");
        let open = || {
            let connection = Connection::open(&uri).unwrap();
            functions::register(&connection).unwrap();
            connection
        };
        let connection = open();
        connection
            .execute_batch(script)
            .unwrap_or_else(|error| panic!("{error}: {script}"));
        let mut packed = PackedTables::default();
        if !matches!(storage, Storage::Sqlite) {
            let unpacked = Tables::new(open(), PackedTables::default(), 64 << 20);
            unpacked.with(|tables| {
                for name in tables.table_names().unwrap() {
                    if let Ok(table) = tables.table(&name)
                        && let Ok(rows) = tables.packed(&table)
                    {
                        packed.insert(&name, rows, Vec::new());
                    }
                }
            });
        }
        if matches!(storage, Storage::Packed) {
            packed.keep_values_up_to(0);
        }
        let tables = Tables::new(open(), packed, 64 << 20);
        Self {
            connection,
            tables,
            uri,
        }
    }

    fn plan(&self, sql: &str, params: &[&str]) -> LookupPlan {
        let params: Vec<Text> = params.iter().map(|name| Text::from(*name)).collect();
        LookupPlan::new(sql, &params, &self.tables)
    }

    /// SQLite's answer, in its order, up to `row_count_max` rows.
    fn sqlite(&self, sql: &str, names: &[&str], values: &[Value], row_count_max: usize) -> Answer {
        answer(&self.connection, sql, names, values, row_count_max)
    }

    /// Compares a plan with SQLite for one set of parameters; returns whether the plan answered.
    /// A native plan must answer, unless SQLite refuses the parameters.
    fn compare(
        &self,
        plan: &LookupPlan,
        sql: &str,
        names: &[&str],
        values: &[Value],
    ) -> Result<bool, String> {
        check_block(plan, sql, values);
        let row = |position: usize| row_of(plan, position);
        let differs = |what: &str, native: &Answer, sqlite: &Answer| {
            Err(format!(
                "{what} differs\n  {sql}\n  {names:?} = {values:?}\n  native {native:?}\n  sqlite {sqlite:?}\n  {}\n  {}",
                plan.explain(),
                self.uri,
            ))
        };
        let sqlite = |count_max| self.sqlite(sql, names, values, count_max);
        let mut positions = Vec::new();
        let (first, all) = match (plan.first(values), plan.all(values, &mut positions)) {
            (Probe::Fallback, ProbeAll::Fallback) if plan.may_need_sqlite() => return Ok(false),
            (Probe::Refused, ProbeAll::Refused) => {
                // No error if SQLite finds before that no row can match.
                return match sqlite(usize::MAX) {
                    Ok(rows) if !rows.is_empty() => {
                        differs("answer", &Err("refused".into()), &Ok(rows))
                    }
                    _ => Ok(false),
                };
            }
            (Probe::Absent, ProbeAll::Rows) => (Ok(vec![]), positions),
            (Probe::Row(index), ProbeAll::Rows) => (Ok(vec![row(index)]), positions),
            answers => {
                let native = Err(format!("{answers:?}"));
                return differs("answer", &native, &sqlite(usize::MAX));
            }
        };
        let expected = sqlite(1);
        if first != expected {
            return differs("first row", &first, &expected);
        }
        let all = Ok(all.into_iter().map(row).collect());
        let expected = sqlite(usize::MAX);
        let is_ordered = sql.to_lowercase().contains("order by");
        if !is_same(&all, &expected, is_ordered) {
            return differs("row set", &all, &expected);
        }
        Ok(true)
    }
}

/// Compares the answers of a block, in which sets of several types are next to each other, with those of
/// each set alone.
fn check_block(plan: &LookupPlan, sql: &str, values: &[Value]) {
    let mut params = ParamBatch::new(values.len());
    for other in [
        Value::Int(3),
        Value::Null,
        Value::from("3"),
        Value::Float(0.5),
    ] {
        params.push(values.iter().cloned());
        params.push(values.iter().map(|_| other.clone()));
    }
    let alone: Vec<Probe> = params.iter().skip(1).map(|set| plan.first(set)).collect();
    let mut rows = vec![None; alone.len()];
    match plan.first_of_each(&params, 1..params.len(), &mut rows) {
        Some(stored) => {
            assert!(std::ptr::eq(stored, plan.row(0).0), "{sql}");
            let probe = |row: &Option<u32>| row.map_or(Probe::Absent, |it| Probe::Row(it as usize));
            let probes: Vec<Probe> = rows.iter().map(probe).collect();
            assert_eq!(probes, alone, "{sql}, {params:?}");
        }
        None => {
            let is_answered = |probe: &Probe| matches!(probe, Probe::Row(_) | Probe::Absent);
            let is_of_one_table = matches!(plan.0, ChosenPlan::Native(_));
            assert!(
                !is_of_one_table || !alone.iter().all(is_answered),
                "{sql}, {params:?}"
            );
        }
    }
}

/// The values of a row that a plan has found.
fn row_of(plan: &LookupPlan, position: usize) -> Vec<Value> {
    let (rows, row) = plan.row(position);
    let mut values = Vec::new();
    match rows {
        StoredRows::Set(rows) => values.extend_from_slice(rows.row(row)),
        StoredRows::Packed(rows) => rows.push_values(row, &mut values),
    }
    values
}

/// Compares as lists if ordered, otherwise as multisets; values by identity, so that types count.
fn is_same(native: &Answer, sqlite: &Answer, is_ordered: bool) -> bool {
    let (Ok(native), Ok(sqlite)) = (native, sqlite) else {
        return false;
    };
    if is_ordered {
        return native == sqlite;
    }
    let mut rest: Vec<&Vec<Value>> = sqlite.iter().collect();
    native.len() == sqlite.len()
        && native.iter().all(|row| {
            let found = rest.iter().position(|other| *other == row);
            found.map(|index| rest.swap_remove(index)).is_some()
        })
}

fn answer(
    connection: &Connection,
    sql: &str,
    names: &[&str],
    values: &[Value],
    row_count_max: usize,
) -> Answer {
    let run = || -> rusqlite::Result<Vec<Vec<Value>>> {
        let mut statement = connection.prepare_cached(sql)?;
        for (name, value) in names.iter().zip(values) {
            let mut scratch = String::new();
            if let Some(index) = statement.parameter_index(&format!(":{name}"))? {
                statement.raw_bind_parameter(index, SqlValue::of(value, &mut scratch))?;
            }
        }
        let width = statement.column_count();
        let mut rows = statement.raw_query();
        let mut answer = Vec::new();
        while answer.len() < row_count_max
            && let Some(row) = rows.next()?
        {
            let values = (0..width).map(|index| row.get_ref(index).map(value_of));
            answer.push(values.collect::<Result<_, _>>()?);
        }
        Ok(answer)
    };
    run().map_err(|error| error.to_string())
}
