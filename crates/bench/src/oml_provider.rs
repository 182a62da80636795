//! What does a model cost with lookups of a database server?

use std::thread;

use clap::{Args, ValueEnum};
use lookaside_knowledge::{Knowledge, Session};
use lookaside_load::measure::{AnswerHash, Measured, Rounds, measure};
use lookaside_load::report;
use lookaside_load::workload::KeyArguments;
use lookaside_oml::{Evaluator, Model, Options, Program, RunReport};
use lookaside_value::{Batch, Name, NameTable, Value};

use super::Result;
use super::target::{BenchTarget, Caches, TABLE, TargetArguments};

const KEY_COUNT: usize = 1 << 20;
/// The minimum number of records of one thread between two clock readings.
const SHARE: usize = 1 << 16;

/// A model over batches of records, whose lookups are answered by a server or by a cache in front
/// of it
#[derive(Debug, Args)]
pub(crate) struct OmlProviderArguments {
    /// The model and the caches to use; by default, all of them in turn.
    #[arg(long, value_enum)]
    case: Option<Case>,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    keys: KeyArguments,
    /// Records in a batch.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Threads that run the model at once [default: as many as there are cores]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Connections of the pool.
    #[arg(long, default_value_t = 8, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pool_size: u16,
    #[command(flatten)]
    rounds: Rounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// `V = read(id) ;`
    Pure,
    /// A lookup without a cache: the server answers for every record.
    Provider,
    /// A lookup with all answers cached before the measurement.
    Cached,
}

impl Case {
    fn model(self) -> String {
        match self {
            Self::Pure => "name : bench\n---\nV = read(id) ;\n".into(),
            Self::Provider | Self::Cached => {
                format!("name : bench\n---\nV = select value from {TABLE} where id = read(id) ;\n")
            }
        }
    }
}

pub(super) fn run(arguments: &OmlProviderArguments) -> Result<()> {
    let target = BenchTarget::open(&arguments.target, arguments.keys.rows)?;
    let keys = arguments.keys.draw(KEY_COUNT);
    let thread_count = match arguments.threads {
        Some(count) => count.into(),
        None => thread::available_parallelism()?.get(),
    };
    let cases = match arguments.case {
        Some(case) => vec![case],
        None => Case::value_variants().to_vec(),
    };
    for case in cases {
        let caches = match case {
            Case::Provider => Caches::Off,
            Case::Pure | Case::Cached => Caches::On,
        };
        let knowledge = target.knowledge(arguments.pool_size, caches)?;
        let model = Model::parse("bench.oml", &case.model())?;
        let mut workers = Vec::with_capacity(thread_count);
        for index in 0..thread_count {
            let first = KEY_COUNT / thread_count * index;
            workers.push(Worker::new(&knowledge, &model, arguments.batch, first)?);
        }
        if case == Case::Cached {
            // Each worker queries every key once, since each session has its own cache.
            let every: Vec<i64> = (1..=arguments.keys.rows.cast_signed()).collect();
            for worker in &mut workers {
                worker.transform(&every, every.len(), None)?;
                worker.next = 0;
            }
        }
        let mut hash = AnswerHash::new();
        workers[0].transform(&keys, SHARE, Some(&mut hash))?;
        let (ops, cpu_ns_per_op, wall_ns_per_op) = measure(arguments.rounds, || {
            thread::scope(|scope| -> Result<u64> {
                let running: Vec<_> = (workers.iter_mut())
                    .map(|worker| {
                        let keys = &keys;
                        scope.spawn(move || {
                            let done = worker.transform(keys, SHARE, None);
                            done.map_err(|error| error.to_string())
                        })
                    })
                    .collect();
                let mut count = 0;
                for worker in running {
                    count += worker.join().expect("a model does not panic")?;
                }
                Ok(count)
            })
        })?;
        let name = case.to_possible_value().expect("no case is hidden");
        let counts = knowledge.snapshot().counts;
        let measured = Measured {
            engine: concat!("lookaside ", env!("CARGO_PKG_VERSION")).into(),
            bench: "oml-provider",
            case: name.get_name().to_owned(),
            ops,
            cpu_ns_per_op,
            wall_ns_per_op,
            hash: hash.text(),
            notes: vec![
                ("server", target.server.clone()),
                ("threads", thread_count.to_string()),
                ("records in a batch", arguments.batch.to_string()),
                ("database", format!("{} questions in all", counts.queries)),
            ],
        };
        report::print(&measured, arguments.rounds.json)?;
    }
    Ok(())
}

/// One thread's session, model and records.
struct Worker {
    session: Session,
    evaluator: Evaluator,
    batch: Batch,
    batch_len: usize,
    id: Name,
    target: Name,
    /// Its position among the keys.
    next: usize,
}

impl Worker {
    fn new(knowledge: &Knowledge, model: &Model, batch_len: u32, first: usize) -> Result<Self> {
        let mut session = knowledge.session();
        let mut names = NameTable::new();
        let id = names.intern("id");
        let program = Program::bind(model, &mut names, &mut session, &Options::default())?;
        Ok(Self {
            session,
            evaluator: program.evaluator(),
            target: names.name("V").ok_or("the model makes a field V")?,
            batch: Batch::new(names.into()),
            batch_len: batch_len as usize,
            id,
            next: first,
        })
    }

    /// Runs the model over records with the next `count` keys.
    fn transform(
        &mut self,
        keys: &[i64],
        count: usize,
        mut hash: Option<&mut AnswerHash>,
    ) -> Result<u64> {
        let mut left = count;
        while left > 0 {
            self.batch.clear();
            for _ in 0..self.batch_len.min(left) {
                let key = keys[self.next % keys.len()];
                self.batch.add().push(self.id, key);
                self.next += 1;
                left -= 1;
            }
            let mut report = RunReport::new();
            self.evaluator
                .run(&mut self.batch, &mut self.session, &mut report);
            if report.lookup_failed_count > 0 {
                return Err(format!("{} lookups failed", report.lookup_failed_count).into());
            }
            if let Some(hash) = &mut hash {
                for record in self.batch.records() {
                    let answer = record.value(self.target).unwrap_or(&Value::Null);
                    hash.add(answer.to_text().as_bytes());
                }
            }
        }
        Ok(count as u64)
    }
}
