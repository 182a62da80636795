//! What does a query cost that is usually cached, depending on concurrency?

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use lookaside_knowledge::{CallCache, Knowledge, Policy, Statement};
use lookaside_load::measure::{AnswerHash, Measured, Rounds, Spread, cpu_time, measure};
use lookaside_load::report;
use lookaside_load::workload::{KeyArguments, KeyLaw};
use lookaside_value::Value;
use tokio::runtime::Runtime;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::Result;
use super::target::{BenchTarget, Caches, FACADE_SQL, TargetArguments, int_params};

/// The number of keys drawn in advance for `warm`; then their order repeats.
const KEY_COUNT: usize = 1 << 20;
/// The number of queries of one task between two clock readings in `warm`.
const SHARE: usize = 4096;

/// Lookups of a provider through the caches, by many concurrent tasks
///
/// `cold` has the shape of the published results of the original: 10,000 rows, 128 keys in turn,
/// and caches that contain only one key at the start. `warm` is the situation of a running service:
/// every key is cached, and keys are requested by a Zipf distribution.
#[derive(Debug, Args)]
pub(crate) struct CacheArguments {
    /// The contents of the caches at the start; by default, both in turn.
    #[arg(long, value_enum)]
    shape: Option<Shape>,
    /// The caches to use; by default, all of them in turn.
    #[arg(long, value_enum)]
    policy: Option<CachePolicy>,
    #[command(flatten)]
    target: TargetArguments,
    /// The number of concurrent tasks; can be repeated.
    #[arg(long, value_name = "COUNT", default_values_t = [1, 4, 16, 64], value_parser = clap::value_parser!(u16).range(1..=4096))]
    concurrency: Vec<u16>,
    /// Rows of the table that `warm` queries.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(128..))]
    rows: u64,
    /// Queries in one round of `cold`.
    #[arg(long, default_value_t = 20_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    operations: u32,
    /// Connections of the pool.
    #[arg(long, default_value_t = 8, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pool_size: u16,
    #[command(flatten)]
    rounds: Rounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// A new engine in each round, with one key cached: `--operations` queries of 128 keys in turn.
    Cold,
    /// Every key is cached: queries by a Zipf distribution for the duration of a round.
    Warm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CachePolicy {
    /// None.
    Bypass,
    /// The session's cache and the shared cache, through the async functions.
    Global,
    /// A separate cache for each task.
    Local,
    /// Each task has its own session, so cached answers need no other thread. Only for `warm`.
    Session,
}

pub(super) fn run(arguments: &CacheArguments) -> Result<()> {
    let target = BenchTarget::open(&arguments.target, arguments.rows)?;
    for &shape in chosen(&arguments.shape) {
        for &kept in chosen(&arguments.policy) {
            // Without a cache there is no warm case, and a blocking session is not for tasks.
            let is_one = match shape {
                Shape::Cold => kept != CachePolicy::Session,
                Shape::Warm => kept != CachePolicy::Bypass,
            };
            if !is_one {
                continue;
            }
            for &concurrency in &arguments.concurrency {
                let bench = Bench {
                    arguments,
                    target: &target,
                    kept,
                    concurrency: concurrency.into(),
                };
                let figures = match shape {
                    Shape::Cold => bench.cold()?,
                    Shape::Warm => bench.warm()?,
                };
                report::print(&bench.measured(shape, figures), arguments.rounds.json)?;
            }
        }
    }
    Ok(())
}

fn chosen<T: ValueEnum>(choice: &Option<T>) -> &[T] {
    choice
        .as_ref()
        .map_or(T::value_variants(), std::slice::from_ref)
}

struct Bench<'a> {
    arguments: &'a CacheArguments,
    target: &'a BenchTarget,
    kept: CachePolicy,
    concurrency: usize,
}

struct Figures {
    ops: u64,
    cpu: Spread,
    wall: Spread,
    hash: AnswerHash,
    notes: Vec<(&'static str, String)>,
}

impl Bench<'_> {
    fn measured(&self, shape: Shape, figures: Figures) -> Measured {
        let name = |value: clap::builder::PossibleValue| value.get_name().to_owned();
        let shape = name(shape.to_possible_value().expect("no shape is hidden"));
        let kept = name(self.kept.to_possible_value().expect("no policy is hidden"));
        let mut notes = vec![("server", self.target.server.clone())];
        notes.extend(figures.notes);
        Measured {
            engine: concat!("lookaside ", env!("CARGO_PKG_VERSION")).into(),
            bench: "cache",
            case: format!("{shape} {kept}, {} at once", self.concurrency),
            ops: figures.ops,
            cpu_ns_per_op: figures.cpu,
            wall_ns_per_op: figures.wall,
            hash: figures.hash.text(),
            notes,
        }
    }

    /// The threads that the tasks run on.
    fn runtime(&self) -> Result<Runtime> {
        Ok(tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.concurrency.clamp(2, 16))
            .enable_all()
            .build()?)
    }

    fn knowledge(&self) -> Result<Knowledge> {
        self.target.knowledge(self.arguments.pool_size, Caches::On)
    }

    fn cold(&self) -> Result<Figures> {
        let keys = KeyArguments {
            rows: self.arguments.rows,
            keys: KeyLaw::Hotset,
        };
        let keys: Arc<[Value]> = int_params(&keys.draw(self.arguments.operations as usize)).into();
        let runtime = self.runtime()?;
        let mut hash = AnswerHash::new();
        let (mut cpu, mut wall, mut latencies) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=self.arguments.rounds.rounds.max(1) {
            let knowledge = self.knowledge()?;
            let statement = knowledge.prepare(FACADE_SQL)?;
            knowledge.query_first(&statement, &[Value::Int(1)])?;
            let done = runtime.block_on(self.run_round(&knowledge, &statement, &keys))?;
            if round == 0 {
                hash = done.hash;
                continue;
            }
            let count = keys.len() as f64;
            cpu.push(done.cpu.as_nanos() as f64 / count);
            wall.push(done.wall.as_nanos() as f64 / count);
            latencies.extend(done.latencies);
        }
        latencies.sort_unstable();
        let percentile = |percent: usize| {
            let latency = latencies[(latencies.len() - 1) * percent / 100];
            format!("{:.2} us", latency.as_nanos() as f64 / 1e3)
        };
        Ok(Figures {
            ops: latencies.len() as u64,
            cpu: Spread::new(cpu),
            wall: Spread::new(wall),
            hash,
            notes: vec![("p50", percentile(50)), ("p95", percentile(95))],
        })
    }

    /// Distributes the keys to the tasks, which start together; each query is timed.
    async fn run_round(
        &self,
        knowledge: &Knowledge,
        statement: &Statement,
        keys: &Arc<[Value]>,
    ) -> Result<ColdRound> {
        let barrier = Arc::new(Barrier::new(self.concurrency + 1));
        let mut running = JoinSet::new();
        for first in 0..self.concurrency {
            let mut client = CacheClient::new(knowledge, statement, self.kept, keys.len());
            let (keys, barrier, step) = (Arc::clone(keys), Arc::clone(&barrier), self.concurrency);
            running.spawn(async move {
                let share = keys.iter().skip(first).step_by(step);
                let mut answers = Vec::with_capacity(share.len());
                barrier.wait().await;
                for (index, key) in share.enumerate() {
                    let started = Instant::now();
                    let answer = client.ask(key).await?;
                    answers.push((first + index * step, answer, started.elapsed()));
                }
                Result::Ok(answers)
            });
        }
        let (started, cpu_before) = (Instant::now(), cpu_time());
        barrier.wait().await;
        let mut answers = Vec::with_capacity(keys.len());
        while let Some(share) = running.join_next().await {
            answers.extend(share??);
        }
        let (wall, cpu) = (started.elapsed(), cpu_time() - cpu_before);
        answers.sort_unstable_by_key(|(index, ..)| *index);
        let mut hash = AnswerHash::new();
        for (_, answer, _) in &answers {
            hash.add(answer.to_text().as_bytes());
        }
        Ok(ColdRound {
            hash,
            wall,
            cpu,
            latencies: answers.into_iter().map(|(.., latency)| latency).collect(),
        })
    }

    fn warm(&self) -> Result<Figures> {
        let keys = KeyArguments {
            rows: self.arguments.rows,
            keys: KeyLaw::Zipf,
        };
        let keys: Arc<[Value]> = int_params(&keys.draw(KEY_COUNT)).into();
        let knowledge = self.knowledge()?;
        let statement = knowledge.prepare(FACADE_SQL)?;
        let runtime = self.runtime()?;
        let mut clients: Vec<CacheClient> = (0..self.concurrency)
            .map(|_| {
                CacheClient::new(
                    &knowledge,
                    &statement,
                    self.kept,
                    self.arguments.rows as usize,
                )
            })
            .collect();
        let mut hash = AnswerHash::new();
        for (index, client) in clients.iter_mut().enumerate() {
            // Queries every key once; the first query fills the cache for the others.
            let answers = runtime.block_on(async {
                let mut answers = Vec::new();
                for id in 1..=self.arguments.rows.cast_signed() {
                    answers.push(client.ask(&Value::Int(id)).await?);
                }
                Result::Ok(answers)
            })?;
            if index == 0 {
                answers
                    .iter()
                    .for_each(|answer| hash.add(answer.to_text().as_bytes()));
            }
        }
        let mut next = 0;
        let (ops, cpu, wall) = measure(self.arguments.rounds, || -> Result<u64> {
            next += 1;
            clients = runtime.block_on(query_all(std::mem::take(&mut clients), &keys, next))?;
            Ok((SHARE * self.concurrency) as u64)
        })?;
        let snapshot = knowledge.snapshot();
        Ok(Figures {
            ops,
            cpu,
            wall,
            hash,
            notes: vec![(
                "database",
                format!("{} questions in all", snapshot.counts.queries),
            )],
        })
    }
}

/// The result of a round of `cold`.
struct ColdRound {
    hash: AnswerHash,
    wall: Duration,
    cpu: Duration,
    latencies: Vec<Duration>,
}

/// Each task queries its own share, concurrently.
async fn query_all(
    clients: Vec<CacheClient>,
    keys: &Arc<[Value]>,
    turn: usize,
) -> Result<Vec<CacheClient>> {
    let mut running = JoinSet::new();
    let count = clients.len();
    for (index, mut client) in clients.into_iter().enumerate() {
        let (keys, first) = (Arc::clone(keys), (turn * count + index) * SHARE);
        running.spawn(async move {
            for offset in 0..SHARE {
                let key = &keys[(first + offset) % KEY_COUNT];
                std::hint::black_box(client.ask(key).await?);
            }
            Result::Ok(client)
        });
    }
    let mut clients = Vec::with_capacity(count);
    while let Some(client) = running.join_next().await {
        clients.push(client??);
    }
    Ok(clients)
}

/// How one task queries.
enum CacheClient {
    Shared(Knowledge, Statement, CachePolicy, CallCache),
    Own(Box<lookaside_knowledge::Session>, Statement),
}

impl CacheClient {
    fn new(
        knowledge: &Knowledge,
        statement: &Statement,
        kept: CachePolicy,
        capacity: usize,
    ) -> Self {
        match kept {
            CachePolicy::Session => Self::Own(Box::new(knowledge.session()), statement.clone()),
            CachePolicy::Bypass | CachePolicy::Global | CachePolicy::Local => Self::Shared(
                knowledge.clone(),
                statement.clone(),
                kept,
                CallCache::with_capacity(capacity),
            ),
        }
    }

    async fn ask(&mut self, key: &Value) -> Result<Value> {
        let key = std::slice::from_ref(key);
        let found = match self {
            Self::Shared(knowledge, statement, kept, cache) => {
                let policy = match kept {
                    CachePolicy::Bypass => Policy::Bypass,
                    CachePolicy::Local => Policy::CallScope(cache),
                    CachePolicy::Global | CachePolicy::Session => Policy::Global,
                };
                let row = knowledge.query_first_async_with(&*statement, key, policy);
                row.await?.map(|row| row[0].clone())
            }
            Self::Own(session, statement) => {
                session.first(statement, key)?.map(|row| row[0].clone())
            }
        };
        found.ok_or_else(|| "a row of the table is missing".into())
    }
}
