//! What does one lookup through the facade cost, by the layer that answers it?

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::thread;

use clap::{Args, ValueEnum};
use lookaside_knowledge::{Knowledge, Policy, Session, Statement};
use lookaside_load::measure::{AnswerHash, Measured, Rounds, measure};
use lookaside_load::report;
use lookaside_load::workload::{KeyArguments, KeyLaw, Random};
use lookaside_value::Value;

use super::Result;
use super::project::{BenchProject, RangeArguments, int_params};

/// The number of keys drawn in advance, so that drawing them is not measured; then their order
/// repeats.
const KEY_COUNT: usize = 1 << 20;
/// Lookups of one thread between two clock readings.
const BLOCK: usize = 4096;
/// The same for several threads: long enough that the cost of starting them is negligible.
const BLOCK_OF_MANY: usize = 64 * BLOCK;

/// One lookup through the facade, by the layer that answers
#[derive(Debug, Args)]
pub(crate) struct LookupArguments {
    /// The case to run; by default, all of them in turn.
    #[arg(long, value_enum)]
    case: Option<Case>,
    #[command(flatten)]
    keys: KeyArguments,
    #[command(flatten)]
    ranges: RangeArguments,
    /// Threads that look up concurrently, each with its own session.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Only write the key-value table and the keys to this folder, for another engine to read.
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    #[command(flatten)]
    rounds: Rounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// The loop and the choice of a key alone.
    Harness,
    /// Hash plan: equality on an indexed integer.
    Hash,
    /// Interval plan: random addresses as integers.
    Interval,
    /// Interval plan: random addresses, converted by `ip4_int(:ip)`.
    IntervalIp,
    /// The shared cache in front of SQLite, sessions' own caches emptied by the width of the keys.
    L1,
    /// A session's own cache: 128 keys in turn.
    L0,
    /// SQLite without any cache.
    Sqlite,
}

/// The query of the hash plan, in a form that no native plan matches.
const SQLITE_SQL: &str = "select value from kv where id = :id and 1 = 1";

impl Case {
    fn sql(self) -> &'static str {
        match self {
            Self::Harness | Self::Hash => "select value from kv where id = :id",
            Self::Interval => "select asn, org from asn where first_ip <= :ip and last_ip >= :ip",
            Self::IntervalIp => {
                "select asn, org from asn where first_ip <= ip4_int(:ip) and last_ip >= ip4_int(:ip)"
            }
            Self::L1 | Self::L0 | Self::Sqlite => SQLITE_SQL,
        }
    }

    fn is_interval(self) -> bool {
        matches!(self, Self::Interval | Self::IntervalIp)
    }

    fn policy(self) -> Policy<'static> {
        if self == Self::Sqlite {
            Policy::Bypass
        } else {
            Policy::Global
        }
    }

    fn name(self) -> String {
        self.to_possible_value()
            .expect("no case is hidden")
            .get_name()
            .to_owned()
    }
}

pub(super) fn run(arguments: &LookupArguments) -> Result<()> {
    if let Some(folder) = &arguments.export {
        return export(arguments, folder.clone());
    }
    let cases = match arguments.case {
        Some(case) => vec![case],
        None => Case::value_variants().to_vec(),
    };
    let mut project = BenchProject::temporary()?;
    if cases.iter().any(|case| !case.is_interval()) {
        project.add_key_values(arguments.keys.rows)?;
    }
    if cases.iter().any(|case| case.is_interval()) {
        project.add_ranges(&arguments.ranges)?;
    }
    let knowledge = project.open()?;
    for case in cases {
        report::print(
            &measure_case(arguments, case, &knowledge)?,
            arguments.rounds.json,
        )?;
    }
    Ok(())
}

/// `knowdb.toml`, the table `kv` and `keys.txt`.
fn export(arguments: &LookupArguments, folder: PathBuf) -> Result<()> {
    let mut project = BenchProject::at(&folder)?;
    project.add_key_values(arguments.keys.rows)?;
    let keys = arguments.keys.draw(KEY_COUNT);
    let lines: String = keys.iter().map(|key| format!("{key}\n")).collect();
    Ok(fs::write(folder.join("keys.txt"), lines)?)
}

fn params(arguments: &LookupArguments, case: Case) -> Vec<Value> {
    let mut random = Random::new(7);
    let hotset = KeyArguments {
        keys: KeyLaw::Hotset,
        ..arguments.keys
    };
    match case {
        Case::Interval => (0..KEY_COUNT)
            .map(|_| u32::from(random.address()).into())
            .collect(),
        Case::IntervalIp => (0..KEY_COUNT).map(|_| random.address().into()).collect(),
        Case::L0 => int_params(&hotset.draw(KEY_COUNT)),
        _ => int_params(&arguments.keys.draw(KEY_COUNT)),
    }
}

fn measure_case(
    arguments: &LookupArguments,
    case: Case,
    knowledge: &Knowledge,
) -> Result<Measured> {
    let statement = knowledge.prepare(case.sql())?;
    let params = params(arguments, case);
    let mut workers: Vec<LookupWorker> = (0..arguments.threads)
        .map(|thread| LookupWorker {
            session: knowledge.session(),
            next: KEY_COUNT / usize::from(arguments.threads) * usize::from(thread),
        })
        .collect();
    let mut hash = AnswerHash::new();
    for worker in &mut workers {
        hash = answer_hash(&mut worker.session, &statement, &params, case)?;
    }

    let before = knowledge.snapshot().counts;
    let (ops, cpu, wall) = measure(arguments.rounds, || -> Result<u64> {
        if let [worker] = &mut workers[..] {
            worker.run_lookups(&statement, &params, case, BLOCK)?;
            return Ok(BLOCK as u64);
        }
        let share = BLOCK_OF_MANY / workers.len();
        thread::scope(|scope| {
            let threads: Vec<_> = (workers.iter_mut())
                .map(|worker| scope.spawn(|| worker.run_lookups(&statement, &params, case, share)))
                .collect();
            (threads.into_iter())
                .try_for_each(|thread| thread.join().expect("a lookup does not panic"))
        })?;
        Ok((share * workers.len()) as u64)
    })?;
    drop(workers);
    let counts = knowledge.snapshot().counts;
    let plan = knowledge.explain(case.sql())?.kind;
    Ok(Measured {
        engine: concat!("lookaside ", env!("CARGO_PKG_VERSION")).into(),
        bench: "lookup",
        case: match arguments.threads {
            1 => case.name(),
            count => format!("{}, {count} threads", case.name()),
        },
        ops,
        cpu_ns_per_op: cpu,
        wall_ns_per_op: wall,
        hash: hash.text(),
        notes: vec![
            ("plan", plan.to_string()),
            (
                "answered by",
                format!(
                    "native {}, L0 {}, L1 {}, database {}",
                    counts.native_hits + counts.native_absent
                        - before.native_hits
                        - before.native_absent,
                    counts.l0_hits - before.l0_hits,
                    counts.l1_hits - before.l1_hits,
                    counts.queries - before.queries,
                ),
            ),
        ],
    })
}

/// One thread's session and its position among the keys.
struct LookupWorker {
    session: Session,
    next: usize,
}

impl LookupWorker {
    fn run_lookups(
        &mut self,
        statement: &Statement,
        params: &[Value],
        case: Case,
        count: usize,
    ) -> lookaside_knowledge::Result<()> {
        for _ in 0..count {
            let param = std::slice::from_ref(&params[self.next]);
            self.next = (self.next + 1) % KEY_COUNT;
            if case == Case::Harness {
                black_box(param);
            } else {
                black_box(self.session.first_with(statement, param, case.policy())?);
            }
        }
        Ok(())
    }
}

/// One pass over all keys, which also fills the caches.
fn answer_hash(
    session: &mut Session,
    statement: &Statement,
    params: &[Value],
    case: Case,
) -> Result<AnswerHash> {
    let mut hash = AnswerHash::new();
    for param in params {
        let row = session.first_with(statement, std::slice::from_ref(param), case.policy())?;
        match row {
            Some([value]) => hash.add(value.to_text().as_bytes()),
            Some(values) => values
                .iter()
                .for_each(|value| hash.add(value.to_text().as_bytes())),
            None => hash.add(b""),
        }
    }
    Ok(hash)
}
