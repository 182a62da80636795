//! Why does a case of the `speed` suite take as long as it does? The suite's indexed updates and
//! its copy of a table run as they are, and in variants that omit one thing: an index, the WAL,
//! dead rows, the number of statements. Each runs on fresh tables, plain in each round, which is
//! timed, and once under `EXPLAIN (ANALYZE, BUFFERS, WAL)`, which counts.

mod plan;
mod variants;

use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use lookaside_client::postgres::blocking::Connection;
use lookaside_load::measure::Spread;
use serde::Serialize;
use serde_json::{Map, Value};

use self::plan::Counted;
use self::variants::{Variant, cases};
use super::Result;
use super::measure::Samples;
use super::report::{print, time_text};
use super::served::{ServedArguments, ServedDatabase, run_script};
use super::speed::{ROW_COUNT, in_transaction};
use crate::progress::spinner;

/// Explain the suite's indexed updates and table copy: plans, buffers, WAL, and variants
///
/// Each case runs as in `speed` and in variants that change one thing: fewer indexes, an unlogged
/// table, after vacuum, one statement instead of many. Time is that of plain runs; planning,
/// execution, buffers and WAL are sums over `EXPLAIN (ANALYZE, BUFFERS, WAL)` of every statement, in
/// a run of its own. The settings in force are listed.
#[derive(Debug, Args)]
pub(super) struct DiagnoseArguments {
    #[command(flatten)]
    served: ServedArguments,

    /// Rows of the tables; the suite has 25,000
    #[arg(long, default_value_t = ROW_COUNT, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=ROW_COUNT_MAX))]
    rows: u64,
}

/// A script of single updates has some 60 bytes a row and is sent as one message.
const ROW_COUNT_MAX: u64 = 1_000_000;

/// The settings that determine how long writes take, if the server has them.
const SETTINGS: &str = "select name, current_setting(name) from pg_settings where name in (
    'autovacuum', 'checkpoint_completion_target', 'checkpoint_timeout', 'data_checksums',
    'effective_cache_size', 'fsync', 'full_page_writes', 'jit', 'maintenance_work_mem', 'max_wal_size',
    'min_wal_size', 'random_page_cost', 'server_version', 'shared_buffers', 'synchronous_commit',
    'track_io_timing', 'wal_buffers', 'wal_compression', 'wal_level', 'work_mem') order by name";

/// The costs of a variant, and their explanation.
#[derive(Debug, Serialize)]
struct Finding<'a> {
    engine: &'a str,
    bench: &'static str,
    case: &'a str,
    variant: &'a str,
    rows: u64,
    rounds: usize,
    statements: usize,
    /// Of plain runs, all statements together.
    wall_ns: Spread,
    /// Of the explained run, all statements together.
    #[serde(flatten)]
    counted: Counted,
    /// The interpretation of the numbers.
    sentence: String,
    settings: &'a Map<String, Value>,
}

pub(super) fn run(arguments: &DiagnoseArguments) -> Result<()> {
    let served = ServedDatabase::start(&arguments.served)?;
    let spinner = spinner();
    let cases = cases(arguments.rows);
    let mut samples: Vec<Vec<Samples>> = Vec::new();
    let mut counted: Vec<Vec<Counted>> = Vec::new();
    for case in &cases {
        samples.push(vec![Samples::default(); case.variants.len()]);
        counted.push(vec![Counted::default(); case.variants.len()]);
    }
    let (mut engine, mut settings) = (String::new(), Map::new());
    for round in 0..=arguments.served.rounds {
        for (case_index, case) in cases.iter().enumerate() {
            for (index, variant) in case.variants.iter().enumerate() {
                spinner.set_message(format!(
                    "diagnose {}, {}, round {round}",
                    case.name, variant.name
                ));
                let mut connection = served.connect()?;
                if engine.is_empty() {
                    engine = served.engine(&connection);
                    settings = read_settings(&mut connection)?;
                }
                // The first round warms the server.
                let mut warm_up = Samples::default();
                let samples = match round {
                    0 => &mut warm_up,
                    _ => &mut samples[case_index][index],
                };
                time(&mut connection, variant, samples)?;
                ServedDatabase::disconnect(connection)?;
                if round == arguments.served.rounds {
                    let mut connection = served.connect()?;
                    counted[case_index][index] = count(&mut connection, variant)?;
                    ServedDatabase::disconnect(connection)?;
                }
            }
        }
    }
    spinner.finish_and_clear();
    if !arguments.served.json {
        print(&heading(&engine, &settings))?;
    }
    for ((case, samples), counted) in cases.iter().zip(&samples).zip(counted) {
        let base = (samples[0].wall(), counted[0].clone());
        let findings: Vec<_> = (case.variants.iter().zip(samples).zip(counted).enumerate())
            .map(|(index, ((variant, samples), counted))| Finding {
                engine: &engine,
                bench: "diagnose",
                case: case.name,
                variant: variant.name,
                rows: arguments.rows,
                rounds: samples.round_count(),
                statements: variant.statements.len(),
                wall_ns: samples.wall(),
                sentence: match index {
                    0 => plan::share_sentence(&counted, variant.statements.len(), arguments.rows),
                    _ => plan::difference_sentence(&base, &(samples.wall(), counted.clone())),
                },
                counted,
                settings: &settings,
            })
            .collect();
        if arguments.served.json {
            for finding in &findings {
                print(&serde_json::to_string(finding)?)?;
            }
        } else {
            print(&format!("\n{}\n{}", case.name, table(&findings)))?;
            for finding in &findings {
                print(&format!("- {}: {}", finding.variant, finding.sentence))?;
            }
        }
    }
    Ok(())
}

/// Runs the statements as `speed` does, all in one message.
fn time(connection: &mut Connection, variant: &Variant, samples: &mut Samples) -> Result<()> {
    prepare(connection, variant)?;
    let script = in_transaction(variant.statements.concat());
    samples.time(1, || run_script(connection, &script))?;
    Ok(())
}

/// Runs each statement under `EXPLAIN`, and sums.
fn count(connection: &mut Connection, variant: &Variant) -> Result<Counted> {
    const UPDATES: &str = "select coalesce(sum(n_tup_upd), 0), coalesce(sum(n_tup_hot_upd), 0) \
                           from pg_stat_xact_user_tables where schemaname = current_schema()";
    prepare(connection, variant)?;
    run_script(connection, "begin")?;
    let mut counted = Counted::default();
    let before = numbers(connection, UPDATES)?;
    for statement in &variant.statements {
        // An index made after the copy is part of its time and has no plan.
        if statement.starts_with("create") {
            run_script(connection, statement)?;
            continue;
        }
        let sql = format!("explain (analyze, buffers, wal, format json) {statement}");
        let answers = run_script(connection, &sql)?;
        let text = answers[0].rows.row(0)[0].to_text().to_string();
        counted.add(serde_json::from_str(&text)?)?;
    }
    let after = numbers(connection, UPDATES)?;
    run_script(connection, "commit")?;
    (counted.updates, counted.hot_updates) = (after[0] - before[0], after[1] - before[1]);
    Ok(counted)
}

/// Creates the tables, one message per step, since `vacuum` runs outside of transactions.
fn prepare(connection: &mut Connection, variant: &Variant) -> Result<()> {
    for sql in &variant.setup {
        run_script(connection, sql)?;
    }
    Ok(())
}

fn numbers(connection: &mut Connection, sql: &str) -> Result<[u64; 2]> {
    let answers = run_script(connection, sql)?;
    let row = answers[0].rows.row(0);
    Ok([row[0].to_text().parse()?, row[1].to_text().parse()?])
}

fn read_settings(connection: &mut Connection) -> Result<Map<String, Value>> {
    let answers = run_script(connection, SETTINGS)?;
    let setting = |row: &[lookaside_value::Value]| {
        let value = row[1].to_text().to_string();
        (row[0].to_text().to_string(), Value::String(value))
    };
    Ok(answers[0].rows.iter().map(setting).collect())
}

fn heading(engine: &str, settings: &Map<String, Value>) -> String {
    let settings: Vec<_> = settings
        .iter()
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    let lines: Vec<_> = settings.chunks(5).map(|line| line.join("  ")).collect();
    format!("diagnose, {engine}\n{}", lines.join("\n"))
}

fn table(findings: &[Finding<'_>]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header([
            "variant",
            "time",
            "min",
            "max",
            "planning",
            "execution",
            "hit",
            "read",
            "dirtied",
            "written",
            "WAL records",
            "WAL bytes",
            "HOT",
            "last plan",
        ]);
    for finding in findings {
        let (wall, counted) = (finding.wall_ns, &finding.counted);
        table.add_row([
            finding.variant.to_owned(),
            time_text(wall.median),
            time_text(wall.min),
            time_text(wall.max),
            time_text(counted.planning_ms * 1e6),
            time_text(counted.execution_ms * 1e6),
            counted.buffers.hit.to_string(),
            counted.buffers.read.to_string(),
            counted.buffers.dirtied.to_string(),
            counted.buffers.written.to_string(),
            counted.wal.records.to_string(),
            counted.wal.bytes.to_string(),
            counted.hot_text(),
            plan::shape(&counted.plan),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(12) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
