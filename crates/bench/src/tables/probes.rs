//! What does a lookup by a key or in ranges cost, by the columns that it selects?

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;

use clap::{Args, ValueEnum as _};
use lookaside_knowledge::{Knowledge, Session, Statement};
use lookaside_load::measure::{AnswerHash, Measured, Rounds, Spread, measure};
use lookaside_load::report;
use lookaside_load::workload::{KeyArguments, KeyLaw, Random};
use lookaside_value::{Answers, BatchQuery, Lookup, ParamBatch, StatementId, Text, Value};

use super::{Changed, KeyKind, ROWS_MAX, SEPARATOR, Table};
use crate::Result;

/// Keys that are drawn in advance; then their order repeats. The rows of so many keys exceed the
/// caches of a processor if the table does.
const KEY_COUNT: usize = 1 << 20;
/// Lookups between two clock readings.
const BLOCK: usize = 4096;
/// Every key is one of a row.
const NO_ROW: &str = "a key of the table was not found";

/// Lookups by keys and in ranges of integers: one by one and in batches, by the number of columns
#[derive(Debug, Args)]
pub(crate) struct TableProbesArguments {
    /// The kind of keys; by default, all of them in turn.
    #[arg(long, value_enum)]
    kind: Option<KeyKind>,
    /// Rows of the table.
    #[arg(long, default_value_t = 100_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=ROWS_MAX))]
    rows: u32,
    /// The distribution of the rows that are looked up.
    #[arg(long, value_enum, default_value_t = KeyLaw::Uniform)]
    keys: KeyLaw,
    /// Look up ranges in proportion to their sizes, as random integers do.
    #[arg(long)]
    by_size: bool,
    /// How many columns are selected, separated by commas; the table has the most of them.
    #[arg(long, default_value = "1,3,10", value_delimiter = ',', value_name = "COUNTS", value_parser = clap::value_parser!(u8).range(1..=100))]
    columns: Vec<u8>,
    /// Ranges of IPv4 addresses for `--kind ranges`, as first,last,… lines without a header. By
    /// default, made-up ranges.
    #[arg(long, value_name = "FILE")]
    ranges: Option<PathBuf>,
    /// Lookups of a batch.
    #[arg(long, default_value_t = 64, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=4096))]
    batch: u16,
    /// Lines for `knowdb.toml`.
    #[arg(long, default_value = "", value_name = "TOML")]
    config: String,
    /// Only write the folder with the table, and the keys as `keys.txt` in it, for another engine.
    #[arg(long, value_name = "DIR", requires = "kind")]
    export: Option<PathBuf>,
    #[command(flatten)]
    rounds: Rounds,
}

pub(crate) fn run(arguments: &TableProbesArguments) -> Result<()> {
    let kinds = match arguments.kind {
        Some(kind) => vec![kind],
        None => KeyKind::value_variants().to_vec(),
    };
    for kind in kinds {
        run_kind(arguments, kind)?;
    }
    Ok(())
}

fn run_kind(arguments: &TableProbesArguments, kind: KeyKind) -> Result<()> {
    let columns = arguments.columns.iter().copied().max().unwrap_or(1);
    let columns = usize::from(columns);
    let table = Table::new(kind, arguments.rows, columns, arguments.ranges.as_deref())?;
    let keys = keys(arguments, &table);
    if let Some(folder) = &arguments.export {
        let data = table.write_folder(folder, &arguments.config)?;
        table.write_csv(&data, Changed::NONE)?;
        let texts: Vec<_> = keys.iter().map(|key| key.to_text().to_string()).collect();
        return Ok(fs::write(folder.join("keys.txt"), texts.join("\n"))?);
    }
    let folder = tempfile::tempdir()?;
    let data = table.write_folder(folder.path(), &arguments.config)?;
    table.write_csv(&data, Changed::NONE)?;
    let knowledge = Knowledge::open(folder.path())?;
    // The rows are in memory.
    folder.close()?;
    report::print(&harness(arguments, &table, &keys)?, arguments.rounds.json)?;
    let batches = batches(arguments, &keys);
    let harness = batch_harness(arguments, &table, &batches)?;
    report::print(&harness, arguments.rounds.json)?;
    for &columns in &arguments.columns {
        let probes = Probes {
            arguments,
            table: &table,
            knowledge: &knowledge,
            keys: &keys,
            batches: &batches,
            columns: usize::from(columns),
        };
        report::print(&probes.single()?, arguments.rounds.json)?;
        report::print(&probes.batch()?, arguments.rounds.json)?;
    }
    Ok(())
}

/// Random keys of random rows.
fn keys(arguments: &TableProbesArguments, table: &Table) -> Vec<Value> {
    let mut random = Random::new(7);
    let rows: Vec<u32> = if arguments.by_size && table.kind == KeyKind::Ranges {
        let mut total = 0;
        let mut ends = Vec::new();
        for &(first, last) in &table.ranges {
            total += u64::from(last - first) + 1;
            ends.push(total);
        }
        let mut draw = |_| {
            let at = random.below(total);
            ends.partition_point(|&end| end <= at) as u32
        };
        (0..KEY_COUNT).map(&mut draw).collect()
    } else {
        let law = KeyArguments {
            rows: u64::from(table.rows),
            keys: arguments.keys,
        };
        // Drawn from 1.
        let rows = law.draw(KEY_COUNT).into_iter();
        rows.map(|number| (number - 1) as u32).collect()
    };
    let key = |row| table.random_key(row, &mut random);
    rows.into_iter().map(key).collect()
}

/// The kind of keys, and how they are drawn.
fn keys_name(arguments: &TableProbesArguments, kind: KeyKind) -> String {
    let law = match (kind, arguments.keys) {
        (KeyKind::Ranges, _) if arguments.by_size => " by size",
        (_, KeyLaw::Uniform) => "",
        (_, KeyLaw::Zipf) => " zipf",
        (_, KeyLaw::Hotset) => " hotset",
    };
    kind.name() + law
}

/// The loop and the choice of a key alone.
fn harness(arguments: &TableProbesArguments, table: &Table, keys: &[Value]) -> Result<Measured> {
    let mut next = 0;
    let (ops, cpu, wall) = measure(arguments.rounds, || -> Result<u64> {
        for _ in 0..BLOCK {
            black_box(&keys[next]);
            next = (next + 1) % keys.len();
        }
        Ok(BLOCK as u64)
    })?;
    Ok(of_harness(arguments, table, "harness", (ops, cpu, wall)))
}

/// The reading of the keys of batches alone.
fn batch_harness(
    arguments: &TableProbesArguments,
    table: &Table,
    batches: &[ParamBatch],
) -> Result<Measured> {
    let mut next = 0;
    let measured = measure(arguments.rounds, || -> Result<u64> {
        let (mut count, mut sum) = (0, 0);
        while count < BLOCK {
            let batch = &batches[next];
            sum += batch.iter().map(read).sum::<u64>();
            count += batch.len();
            next = (next + 1) % batches.len();
        }
        black_box(sum);
        Ok(count as u64)
    })?;
    let name = format!("harness of batches of {}", arguments.batch);
    Ok(of_harness(arguments, table, &name, measured))
}

fn of_harness(
    arguments: &TableProbesArguments,
    table: &Table,
    name: &str,
    (ops, cpu, wall): (u64, Spread, Spread),
) -> Measured {
    Measured {
        engine: engine(),
        bench: "table-probes",
        case: format!("{}, {name}", keys_name(arguments, table.kind)),
        ops,
        cpu_ns_per_op: cpu,
        wall_ns_per_op: wall,
        hash: String::new(),
        notes: Vec::new(),
    }
}

/// Lookups of some columns of a table.
struct Probes<'a> {
    arguments: &'a TableProbesArguments,
    table: &'a Table,
    knowledge: &'a Knowledge,
    keys: &'a [Value],
    batches: &'a [ParamBatch],
    columns: usize,
}

impl Probes<'_> {
    fn single(&self) -> Result<Measured> {
        let statement = self.knowledge.prepare(&self.table.select(self.columns))?;
        let mut session = self.knowledge.session();
        let mut hash = AnswerHash::new();
        for key in self.keys {
            let row = session.first(&statement, std::slice::from_ref(key))?;
            hash.add(text(row.ok_or(NO_ROW)?).as_bytes());
        }
        let mut next = 0;
        let measured = measure(self.arguments.rounds, || {
            self.look_up(&mut session, &statement, &mut next)
        })?;
        self.measured("single", measured, hash)
    }

    fn look_up(
        &self,
        session: &mut Session,
        statement: &Statement,
        next: &mut usize,
    ) -> Result<u64> {
        let mut sum = 0;
        for _ in 0..BLOCK {
            let row = session.first(statement, std::slice::from_ref(&self.keys[*next]))?;
            sum += read(row.ok_or(NO_ROW)?);
            *next = (*next + 1) % self.keys.len();
        }
        black_box(sum);
        Ok(BLOCK as u64)
    }

    fn batch(&self) -> Result<Measured> {
        let size = usize::from(self.arguments.batch);
        let mut session = self.knowledge.session();
        let sql = self.table.select(self.columns);
        let statement = Lookup::prepare(&mut session, &sql, &[Text::from("key")])?;
        let mut answers = Answers::new();
        let mut hash = AnswerHash::new();
        for batch in self.batches {
            session.answer(BatchQuery::first(statement), batch, &mut answers);
            for index in 0..answers.len() {
                let row = answers.row(index).map_err(Clone::clone)?;
                hash.add(text(row.ok_or(NO_ROW)?).as_bytes());
            }
        }
        let mut next = 0;
        let measured = measure(self.arguments.rounds, || {
            let batches = self.batches;
            answer(&mut session, statement, batches, &mut answers, &mut next)
        })?;
        self.measured(&format!("batch of {size}"), measured, hash)
    }

    fn measured(
        &self,
        way: &str,
        (ops, cpu, wall): (u64, Spread, Spread),
        hash: AnswerHash,
    ) -> Result<Measured> {
        let explanation = self.knowledge.explain(&self.table.select(self.columns))?;
        let size = explanation.index_size as f64 / 1_048_576.0;
        let keys = keys_name(self.arguments, self.table.kind);
        Ok(Measured {
            engine: engine(),
            bench: "table-probes",
            case: format!("{keys}, columns {}, {way}", self.columns),
            ops,
            cpu_ns_per_op: cpu,
            wall_ns_per_op: wall,
            hash: hash.text(),
            notes: vec![
                ("rows", self.table.rows.to_string()),
                ("plan", explanation.kind.name().to_owned()),
                ("index MiB", format!("{size:.1}")),
            ],
        })
    }
}

/// Answers the next batches, with at least [`BLOCK`] lookups in all.
fn answer(
    session: &mut Session,
    statement: StatementId,
    batches: &[ParamBatch],
    answers: &mut Answers,
    next: &mut usize,
) -> Result<u64> {
    let (mut count, mut sum) = (0, 0);
    while count < BLOCK {
        session.answer(BatchQuery::first(statement), &batches[*next], answers);
        for index in 0..answers.len() {
            let row = answers.row(index).map_err(Clone::clone)?;
            sum += read(row.ok_or(NO_ROW)?);
        }
        count += answers.len();
        *next = (*next + 1) % batches.len();
    }
    black_box(sum);
    Ok(count as u64)
}

/// The keys in batches.
fn batches(arguments: &TableProbesArguments, keys: &[Value]) -> Vec<ParamBatch> {
    let batches = keys.chunks(usize::from(arguments.batch));
    batches.map(param_batch).collect()
}

fn param_batch(keys: &[Value]) -> ParamBatch {
    let mut batch = ParamBatch::new(1);
    for key in keys {
        batch.push([key.clone()]);
    }
    batch
}

fn engine() -> String {
    format!("lookaside {}", env!("CARGO_PKG_VERSION"))
}

/// Reads each value of a row, so that none is left in a form that costs nothing until it is read.
fn read(row: &[Value]) -> u64 {
    let read = |value: &Value| match value {
        Value::Int(number) => *number as u64,
        other => {
            let last = other.as_str().and_then(|text| text.as_bytes().last());
            last.map_or(0, |&byte| u64::from(byte))
        }
    };
    row.iter().map(read).sum()
}

fn text(row: &[Value]) -> String {
    let mut text = String::new();
    for (column, value) in row.iter().enumerate() {
        if column > 0 {
            text.push(SEPARATOR);
        }
        text.push_str(&value.to_text());
    }
    text
}
