//! What do loading, reloading and holding a table cost?
//!
//! Each load is measured in a process that has done nothing else: the program runs itself with the
//! same arguments and `--process`.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use lookaside_knowledge::{Knowledge, Session};
use lookaside_load::measure::{Spread, cpu_time};
use lookaside_load::processes::Memory;
use serde::{Deserialize, Serialize};

use super::{Changed, KeyKind, ROWS_MAX, SEPARATOR, Table};
use crate::Result;

/// Loading a table in a new process: time, memory, and that of a reload
#[derive(Debug, Args)]
pub(crate) struct TableLoadArguments {
    /// Rows of the table.
    #[arg(long, default_value_t = 100_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=ROWS_MAX))]
    rows: u32,
    /// The kind of keys.
    #[arg(long, value_enum, default_value_t = KeyKind::Dense)]
    kind: KeyKind,
    /// Columns in addition to the key.
    #[arg(long, default_value_t = 2, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=100))]
    columns: u8,
    /// Where the CSV files are kept for other runs, and the folders that are loaded are created. By
    /// default, a temporary folder.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Processes that load the same folder one after the other in a round: the later ones find what
    /// the first one has left in it.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..))]
    starts: u8,
    /// Replace the file by one in which this percentage of the rows has other values, and reload.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    reload: Option<u8>,
    /// Watch the file, rather than ask for the reload: the time is that from its replacement to the first
    /// answer of the new rows.
    #[arg(long, requires = "reload")]
    watch: bool,
    /// Lines for `knowdb.toml`.
    #[arg(long, default_value = "", value_name = "TOML")]
    config: String,
    /// Rounds, each with a new folder.
    #[arg(long, default_value_t = 3, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Print one line of JSON for each process.
    #[arg(long)]
    json: bool,
    /// Load this folder in this process.
    #[arg(long, hide = true, value_name = "DIR")]
    process: Option<PathBuf>,
}

/// What a process has measured. Times are in seconds, sizes in bytes.
#[derive(Debug, Serialize, Deserialize)]
struct Loaded {
    engine: String,
    bench: String,
    case: String,
    rows: u32,
    /// The how many-th process that loaded the same folder, from 1.
    start: u8,
    csv_size: u64,
    /// From before the folder is opened until it is.
    open_s: f64,
    /// From before the folder is opened until the first answer.
    answer_s: f64,
    /// CPU time until the first answer, all threads.
    cpu_s: f64,
    /// The resident size before the folder is opened.
    resident_empty: u64,
    /// The resident size after the first answer.
    resident: u64,
    /// The part of it that does not belong to a file.
    anonymous: u64,
    /// The largest resident size until the first answer.
    resident_max: u64,
    /// The resident size without that of an empty process and the size of the file, for each row;
    /// negative if the table needs less memory than its file.
    bytes_per_row: f64,
    plan: String,
    reload: Option<Reloaded>,
}

/// A reload until the first answer after it.
#[derive(Debug, Serialize, Deserialize)]
struct Reloaded {
    percent: u8,
    /// Whether the file was watched; the time then begins when it was replaced.
    watch: bool,
    wall_s: f64,
    cpu_s: f64,
    resident_before: u64,
    /// The largest resident size meanwhile; absent where the kernel does not tell it.
    resident_max: Option<u64>,
    resident_after: u64,
}

/// How often the generation is read while a file is watched.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// How long a program has to watch its files after it has opened them.
const WATCH_DELAY: Duration = Duration::from_millis(500);

/// A reload that has not happened by then never will.
const RELOAD_TIME_MAX: Duration = Duration::from_secs(600);

pub(crate) fn run(arguments: &TableLoadArguments) -> Result<()> {
    let columns = usize::from(arguments.columns);
    let table = Table::new(arguments.kind, arguments.rows, columns, None)?;
    if let Some(folder) = &arguments.process {
        let loaded = load(arguments, &table, folder)?;
        writeln!(io::stdout(), "{}", serde_json::to_string(&loaded)?)?;
        return Ok(());
    }
    let temporary = tempfile::tempdir()?;
    let folder = match &arguments.folder {
        Some(folder) => {
            fs::create_dir_all(folder)?;
            folder.as_path()
        }
        None => temporary.path(),
    };
    let kind = arguments.kind.name();
    let file = folder.join(format!("{kind}-{}-{columns}.csv", table.rows));
    if !file.exists() {
        table.write_csv(&file, Changed::NONE)?;
    }
    let mut starts: Vec<Vec<Loaded>> = (0..arguments.starts).map(|_| Vec::new()).collect();
    for _ in 0..arguments.rounds {
        let project = tempfile::tempdir_in(folder)?;
        let data = table.write_folder(project.path(), &arguments.config)?;
        fs::hard_link(&file, &data)?;
        for (index, rounds) in starts.iter_mut().enumerate() {
            // The file is in the page cache.
            io::copy(&mut File::open(&data)?, &mut io::sink())?;
            let mut loaded = load_in_process(project.path())?;
            loaded.start = index as u8 + 1;
            if arguments.json {
                writeln!(io::stdout(), "{}", serde_json::to_string(&loaded)?)?;
            }
            rounds.push(loaded);
            // What a reload replaced.
            fs::remove_file(&data)?;
            fs::hard_link(&file, &data)?;
        }
    }
    if !arguments.json {
        for rounds in &starts {
            io::stdout().write_all(summary(rounds).as_bytes())?;
        }
    }
    Ok(())
}

fn load_in_process(folder: &Path) -> Result<Loaded> {
    let output = Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .arg("--process")
        .arg(folder)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!(
            "the process that loads the table ended with {}",
            output.status
        )
        .into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn load(arguments: &TableLoadArguments, table: &Table, folder: &Path) -> Result<Loaded> {
    let csv_size = fs::metadata(folder.join("t/data.csv"))?.len();
    let empty = memory()?;
    let (started, cpu_before) = (Instant::now(), cpu_time());
    let knowledge = Knowledge::builder(folder).watch(arguments.watch).open()?;
    let open = started.elapsed();
    let mut session = knowledge.session();
    check_answer(&mut session, table, Changed::NONE)?;
    let (answer, cpu) = (started.elapsed(), cpu_time() - cpu_before);
    let memory = memory()?;

    let reload = match arguments.reload {
        Some(percent) => {
            let changed = Changed { percent };
            let watch = arguments.watch;
            Some(reload(
                &knowledge,
                &mut session,
                table,
                folder,
                changed,
                watch,
            )?)
        }
        None => None,
    };
    let explanation = knowledge.explain(&table.select(table.columns))?;
    let held = memory.resident as f64 - empty.resident as f64 - csv_size as f64;
    Ok(Loaded {
        engine: format!("lookaside {}", env!("CARGO_PKG_VERSION")),
        bench: "table-load".into(),
        case: format!("{}, columns {}", table.kind.name(), table.columns),
        rows: table.rows,
        start: 1,
        csv_size,
        open_s: open.as_secs_f64(),
        answer_s: answer.as_secs_f64(),
        cpu_s: cpu.as_secs_f64(),
        resident_empty: empty.resident,
        resident: memory.resident,
        anonymous: memory.anonymous,
        resident_max: memory.resident_max,
        bytes_per_row: held / f64::from(table.rows),
        plan: explanation.kind.name().into(),
        reload,
    })
}

fn reload(
    knowledge: &Knowledge,
    session: &mut Session,
    table: &Table,
    folder: &Path,
    changed: Changed,
    watch: bool,
) -> Result<Reloaded> {
    let (new, data) = (folder.join("new.csv"), folder.join("t/data.csv"));
    table.write_csv(&new, changed)?;
    if watch {
        thread::sleep(WATCH_DELAY);
    }
    let generation = knowledge.generation();
    let is_reset = Memory::reset_peak().is_ok();
    let before = memory()?;
    let (started, cpu_before) = (Instant::now(), cpu_time());
    fs::rename(new, data)?;
    match watch {
        true => wait_for_reload(knowledge, generation)?,
        false => drop(knowledge.reload()?),
    }
    check_answer(session, table, changed)?;
    let (wall, cpu) = (started.elapsed(), cpu_time() - cpu_before);
    let after = memory()?;
    Ok(Reloaded {
        percent: changed.percent,
        watch,
        wall_s: wall.as_secs_f64(),
        cpu_s: cpu.as_secs_f64(),
        resident_before: before.resident,
        resident_max: is_reset.then_some(after.resident_max),
        resident_after: after.resident,
    })
}

/// Waits until the tables are those of another generation.
fn wait_for_reload(knowledge: &Knowledge, generation: u64) -> Result<()> {
    let started = Instant::now();
    while knowledge.generation() == generation {
        if started.elapsed() > RELOAD_TIME_MAX {
            return Err("the tables were not reloaded after the file was replaced".into());
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Looks up a row that is among the changed ones, if there are any.
fn check_answer(session: &mut Session, table: &Table, changed: Changed) -> Result<()> {
    let row = match changed {
        Changed::NONE => None,
        _ => (0..table.rows).find(|&row| changed.contains(row)),
    };
    let row = row.unwrap_or(table.rows / 2);
    let statement = session.prepare(&table.select(table.columns))?;
    let found = session.first(&statement, &[table.key(row)])?;
    let found: Vec<String> = found
        .unwrap_or_default()
        .iter()
        .map(|value| value.to_text().to_string())
        .collect();
    let mut expected = String::new();
    table.push_values(row, table.columns, changed, SEPARATOR, &mut expected);
    if found.join(&SEPARATOR.to_string()) != expected {
        let key = table.key(row).to_text().to_string();
        return Err(format!("key {key}: found {found:?}, expected {expected}").into());
    }
    Ok(())
}

fn memory() -> Result<Memory> {
    Ok(Memory::now().ok_or("the memory of this process is unknown without Linux's /proc")?)
}

/// The median, and the smallest and the largest round, of each figure.
fn summary(rounds: &[Loaded]) -> String {
    let first = &rounds[0];
    let mut text = format!(
        "table-load {}, {} rows, start {}, plan {}\n",
        first.case, first.rows, first.start, first.plan
    );
    let mut line = |name: &str, unit: &str, figures: Vec<f64>| {
        let Spread { min, median, max } = Spread::new(figures);
        text.push_str(&format!(
            "  {name:<28} {median:.2} {unit} ({min:.2} – {max:.2})\n"
        ));
    };
    let of = |figure: fn(&Loaded) -> f64| rounds.iter().map(figure).collect();
    line("open", "s", of(|it| it.open_s));
    line("first answer", "s", of(|it| it.answer_s));
    line("CPU", "s", of(|it| it.cpu_s));
    line("file", "MiB", of(|it| mib(it.csv_size)));
    line("resident", "MiB", of(|it| mib(it.resident)));
    line("of that anonymous", "MiB", of(|it| mib(it.anonymous)));
    line("largest resident", "MiB", of(|it| mib(it.resident_max)));
    line("bytes a row, without file", "", of(|it| it.bytes_per_row));
    let reloads: Vec<&Reloaded> = rounds.iter().filter_map(|it| it.reload.as_ref()).collect();
    let Some(first) = reloads.first() else {
        return text;
    };
    let percent = first.percent;
    let of = |figure: fn(&Reloaded) -> f64| reloads.iter().map(|it| figure(it)).collect();
    line(
        &format!("reload, {percent} % changed"),
        "ms",
        of(|it| it.wall_s * 1000.0),
    );
    line("reload, CPU", "s", of(|it| it.cpu_s));
    line("resident before", "MiB", of(|it| mib(it.resident_before)));
    line("resident after", "MiB", of(|it| mib(it.resident_after)));
    let peaks = reloads
        .iter()
        .filter_map(|it| Some((it.resident_max?, it.resident_before)));
    let peaks: Vec<f64> = peaks
        .map(|(max, before)| max as f64 / before as f64)
        .collect();
    if !peaks.is_empty() {
        line("largest over before", "", peaks);
    }
    text
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}
