//! What does loading a table cost, its index included, and what memory does it hold afterwards?

use clap::Args;
use lookaside_load::measure::{AnswerHash, Measured, Rounds, measure};
use lookaside_load::processes::Memory;
use lookaside_load::report;
use lookaside_value::Value;

use super::Result;
use super::project::{BenchProject, RangeArguments};

/// Load a table of address ranges, with two function calls per row and the index
#[derive(Debug, Args)]
pub(crate) struct LoadArguments {
    #[command(flatten)]
    ranges: RangeArguments,
    #[command(flatten)]
    rounds: Rounds,
}

const SQL: &str =
    "select asn, org from asn where first_ip <= ip4_int(:ip) and last_ip >= ip4_int(:ip)";

pub(super) fn run(arguments: &LoadArguments) -> Result<()> {
    let mut project = BenchProject::temporary()?;
    project.add_ranges(&arguments.ranges)?;

    // The first load, in a process that has done nothing else, shows the memory of the table.
    let before = resident_size()?;
    let knowledge = project.open()?;
    let statement = knowledge.prepare(SQL)?;
    let resident = resident_size()?.saturating_sub(before);
    let no_params: &[Value] = &[];
    let row_count = knowledge.query_first("select count(*) from asn", no_params)?;
    let row_count = row_count.ok_or("count(*) has a row")?[0].to_text();
    let found = knowledge.query_first(&statement, &[Value::from("8.8.8.8")][..])?;
    let mut hash = AnswerHash::new();
    hash.add(row_count.as_bytes());
    found
        .iter()
        .flat_map(|row| row.iter())
        .for_each(|value| hash.add(value.to_text().as_bytes()));
    drop(knowledge);

    let (ops, cpu, wall) = measure(arguments.rounds, || -> Result<u64> {
        let knowledge = project.open()?;
        knowledge.prepare(SQL)?;
        Ok(1)
    })?;
    let measured = Measured {
        engine: concat!("lookaside ", env!("CARGO_PKG_VERSION")).into(),
        bench: "load",
        case: "ranges".into(),
        ops,
        cpu_ns_per_op: cpu,
        wall_ns_per_op: wall,
        hash: hash.text(),
        notes: vec![
            ("rows", row_count.to_string()),
            ("resident bytes after the first load", resident.to_string()),
        ],
    };
    Ok(report::print(&measured, arguments.rounds.json)?)
}

/// The resident size of this process in bytes.
fn resident_size() -> Result<u64> {
    let memory = Memory::now().ok_or("the size of this process is unknown without /proc")?;
    Ok(memory.resident)
}
