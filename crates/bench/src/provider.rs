//! What does a query cost that is sent to the server every time?

use std::sync::Arc;

use clap::{Args, ValueEnum};
use lookaside_client::postgres::blocking::Connection;
use lookaside_client::postgres::{Client, Options};
use lookaside_client::{Answer, Config, Pool, PoolOptions, PostgresConfig, Request, Syncs};
use lookaside_knowledge::{Knowledge, Policy, Statement};
use lookaside_load::measure::{AnswerHash, Measured, Rounds, Spread, measure};
use lookaside_load::report;
use lookaside_load::workload::KeyArguments;
use lookaside_value::{Answers, BatchQuery, Lookup, ParamBatch, Text, Value};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::Result;
use super::target::{
    BenchTarget, Caches, FACADE_SQL, TABLE, TargetArguments, current_thread, int_params,
};

/// The number of keys drawn in advance, so that drawing them is not measured; then their order
/// repeats.
const KEY_COUNT: usize = 100_000;
/// The number of answers that are hashed.
const HASHED: usize = 1000;
/// The number of queries between two clock readings.
const BLOCK: usize = 2000;

/// Lookups that the server answers every time, by interface
#[derive(Debug, Args)]
pub(crate) struct ProviderArguments {
    /// The interface to use; by default, all of them in turn.
    #[arg(long, value_enum)]
    case: Option<Case>,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    keys: KeyArguments,
    /// The number of queries in flight on the connection of `window` and `flight`.
    #[arg(long, default_value_t = 32, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    window: u16,
    /// Concurrent tasks in `pool` and `facade-tasks`.
    #[arg(long, default_value_t = 64, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=4096))]
    tasks: u16,
    /// Threads that the tasks run on; 0 is the thread of the benchmark alone.
    #[arg(long, default_value_t = 0, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(0..=256))]
    workers: u16,
    /// Connections of the pool.
    #[arg(long, default_value_t = 8, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pool_size: u16,
    /// Keys of one batch in `facade-batch`.
    #[arg(long, default_value_t = 1000, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    batch: u16,
    #[command(flatten)]
    rounds: Rounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// The blocking driver: one connection, one query at a time.
    Blocking,
    /// The tokio driver: one connection, one query at a time.
    Async,
    /// The tokio driver: as many tasks as the window share one connection.
    Window,
    /// The tokio driver: the window's keys as one request, which shares Syncs.
    Flight,
    /// The pool: many tasks, each with one query at a time.
    Pool,
    /// The facade without caches: blocking, one query at a time.
    FacadeSync,
    /// The facade without caches: asynchronous, one query at a time.
    FacadeAsync,
    /// The facade without caches: many tasks, each with one query at a time.
    FacadeTasks,
    /// The facade: batches of keys none of which is in a cache.
    FacadeBatch,
}

pub(super) fn run(arguments: &ProviderArguments) -> Result<()> {
    let bench = Bench {
        target: BenchTarget::open(&arguments.target, arguments.keys.rows)?,
        keys: int_params(&arguments.keys.draw(KEY_COUNT)),
        arguments,
    };
    let cases = match arguments.case {
        Some(case) => vec![case],
        None => Case::value_variants().to_vec(),
    };
    for case in cases {
        let figures = match case {
            Case::Blocking => bench.blocking(),
            Case::Async => bench.window(1),
            Case::Window => bench.window(arguments.window.into()),
            Case::Flight => bench.flight(),
            Case::Pool => bench.pool(),
            Case::FacadeSync => bench.facade_sync(),
            Case::FacadeAsync => bench.facade_tasks(1),
            Case::FacadeTasks => bench.facade_tasks(arguments.tasks.into()),
            Case::FacadeBatch => bench.facade_batch(),
        };
        let Figures {
            hash,
            note,
            measured: (ops, cpu_ns_per_op, wall_ns_per_op),
        } = figures?;
        let case = case.to_possible_value().expect("no case is hidden");
        let measured = Measured {
            engine: concat!("lookaside ", env!("CARGO_PKG_VERSION")).into(),
            bench: "provider",
            case: case.get_name().to_owned(),
            ops,
            cpu_ns_per_op,
            wall_ns_per_op,
            hash: hash.text(),
            notes: vec![("server", bench.target.server.clone()), ("by", note)],
        };
        report::print(&measured, arguments.rounds.json)?;
    }
    Ok(())
}

/// The state that all cases share.
struct Bench<'a> {
    arguments: &'a ProviderArguments,
    target: BenchTarget,
    keys: Vec<Value>,
}

/// The result of a case.
struct Figures {
    /// Over the first answers.
    hash: AnswerHash,
    note: String,
    measured: (u64, Spread, Spread),
}

impl Bench<'_> {
    fn blocking(&self) -> Result<Figures> {
        let mut connection = Connection::connect_with(self.postgres()?, Options::default())?;
        let sql = driver_sql();
        let ask = |keys: &[Value]| -> Result<Vec<Text>> {
            let mut answers = Vec::with_capacity(keys.len());
            for key in keys {
                let answer = connection.query(Arc::clone(&sql), std::slice::from_ref(key))?;
                answers.push(text(&answer));
            }
            Ok(answers)
        };
        self.figures("one connection, waited for".into(), ask)
    }

    fn window(&self, task_count: usize) -> Result<Figures> {
        let runtime = self.runtime()?;
        let options = Options::default();
        let client = runtime.block_on(Client::connect_with(self.postgres()?, options))?;
        let ask = ByClient(client, driver_sql());
        let note = format!("one connection, {task_count} at a time");
        self.figures(note, |keys| tasks(&runtime, task_count, keys, &ask))
    }

    fn flight(&self) -> Result<Figures> {
        let runtime = self.runtime()?;
        let options = Options::default();
        let client = runtime.block_on(Client::connect_with(self.postgres()?, options))?;
        let (sql, window) = (driver_sql(), usize::from(self.arguments.window));
        let note = format!("one connection, flights of {window}");
        self.figures(note, |keys| {
            let mut answers = Vec::with_capacity(keys.len());
            for keys in keys.chunks(window) {
                let flight = client.query_many(Arc::clone(&sql), batch_of(keys), Syncs::Shared);
                for answer in runtime.block_on(flight)? {
                    answers.push(text(&answer?));
                }
            }
            Ok(answers)
        })
    }

    fn pool(&self) -> Result<Figures> {
        let runtime = self.runtime()?;
        let options = PoolOptions {
            connection_count_max: self.arguments.pool_size.into(),
            ..PoolOptions::default()
        };
        let pool = Pool::new(self.target.config.clone(), options);
        let sql = match self.target.is_postgres() {
            true => driver_sql(),
            false => format!("select value from {TABLE} where id = ?").into(),
        };
        let task_count = usize::from(self.arguments.tasks);
        let ask = ByPool(pool, sql);
        let note = format!(
            "{} connections, {task_count} tasks",
            self.arguments.pool_size
        );
        self.figures(note, |keys| tasks(&runtime, task_count, keys, &ask))
    }

    fn facade_sync(&self) -> Result<Figures> {
        let knowledge = self.knowledge()?;
        let statement = knowledge.prepare(FACADE_SQL)?;
        let mut session = knowledge.session();
        let note = "a session, waited for".into();
        self.figures(note, |keys| {
            let mut answers = Vec::with_capacity(keys.len());
            for key in keys {
                let key = std::slice::from_ref(key);
                let row = session.first_with(&statement, key, Policy::Bypass)?;
                answers.push(row.map_or_else(Text::default, |row| row[0].to_text()));
            }
            Ok(answers)
        })
    }

    fn facade_tasks(&self, task_count: usize) -> Result<Figures> {
        let knowledge = self.knowledge()?;
        let statement = knowledge.prepare(FACADE_SQL)?;
        let runtime = self.runtime()?;
        let ask = ByFacade(knowledge, statement);
        let note = format!(
            "{} connections, {task_count} tasks",
            self.arguments.pool_size
        );
        self.figures(note, |keys| tasks(&runtime, task_count, keys, &ask))
    }

    fn facade_batch(&self) -> Result<Figures> {
        let knowledge = self.knowledge()?;
        let mut session = knowledge.session();
        let statement = Lookup::prepare(&mut session, FACADE_SQL, &[Text::from("id")])?;
        let mut found = Answers::new();
        let batch = usize::from(self.arguments.batch);
        let note = format!("batches of {batch}, no key twice in one");
        self.figures_of(&self.distinct_keys(), note, |keys| {
            let mut answers = Vec::with_capacity(keys.len());
            for keys in keys.chunks(batch) {
                session.answer(BatchQuery::first(statement), &batch_of(keys), &mut found);
                for index in 0..found.len() {
                    let row = found.row(index).map_err(Clone::clone)?;
                    answers.push(row.map_or_else(Text::default, |row| row[0].to_text()));
                }
            }
            Ok(answers)
        })
    }

    /// The runtime of the tasks.
    fn runtime(&self) -> Result<Runtime> {
        match self.arguments.workers {
            0 => current_thread(),
            count => Ok(tokio::runtime::Builder::new_multi_thread()
                .worker_threads(count.into())
                .enable_all()
                .build()?),
        }
    }

    /// The facade without caches.
    fn knowledge(&self) -> Result<Knowledge> {
        self.target.knowledge(self.arguments.pool_size, Caches::Off)
    }

    fn postgres(&self) -> Result<&PostgresConfig> {
        match &self.target.config {
            Config::Postgres(config) => Ok(config),
            _ => Err("this case asks PostgreSQL; `--case pool` asks MySQL too".into()),
        }
    }

    /// Keys that repeat only after all others.
    fn distinct_keys(&self) -> Vec<Value> {
        // A prime that divides no likely number of rows.
        let key = |index: usize| index as u64 * 1_000_003 % self.arguments.keys.rows + 1;
        (0..KEY_COUNT)
            .map(|index| Value::Int(key(index).cast_signed()))
            .collect()
    }

    /// Queries block by block, with the keys in sequence, repeatedly.
    fn figures(
        &self,
        note: String,
        ask: impl FnMut(&[Value]) -> Result<Vec<Text>>,
    ) -> Result<Figures> {
        self.figures_of(&self.keys, note, ask)
    }

    fn figures_of(
        &self,
        keys: &[Value],
        note: String,
        mut ask: impl FnMut(&[Value]) -> Result<Vec<Text>>,
    ) -> Result<Figures> {
        let mut hash = AnswerHash::new();
        for answer in ask(&keys[..HASHED])? {
            hash.add(answer.as_bytes());
        }
        let mut blocks = keys.chunks_exact(BLOCK).cycle();
        let measured = measure(self.arguments.rounds, || {
            let keys = blocks.next().expect("a cycle has no end");
            ask(keys).map(|answers| answers.len() as u64)
        })?;
        Ok(Figures {
            hash,
            note,
            measured,
        })
    }
}

fn driver_sql() -> Arc<str> {
    format!("select value from {TABLE} where id = $1").into()
}

fn text(answer: &Answer) -> Text {
    match answer.rows.is_empty() {
        true => Text::default(),
        false => answer.rows.row(0)[0].to_text(),
    }
}

fn batch_of(keys: &[Value]) -> ParamBatch {
    let mut batch = ParamBatch::new(1);
    keys.iter().for_each(|key| batch.push([key.clone()]));
    batch
}

/// A way to query that many tasks can share.
trait KeyQuery: Clone + Send + 'static {
    fn ask(&self, key: Value) -> impl Future<Output = Result<Text>> + Send;
}

#[derive(Clone)]
struct ByClient(Client, Arc<str>);

impl KeyQuery for ByClient {
    async fn ask(&self, key: Value) -> Result<Text> {
        // It is read-only, so concurrent tasks may share a Sync.
        let request = Request::new(Arc::clone(&self.1), &[key]).syncs(Syncs::Shared);
        let mut answers = self.0.request(request).await?;
        Ok(text(&answers.pop().ok_or("a query has an answer")??))
    }
}

#[derive(Clone)]
struct ByPool(Pool, Arc<str>);

impl KeyQuery for ByPool {
    async fn ask(&self, key: Value) -> Result<Text> {
        Ok(text(&self.0.query(Arc::clone(&self.1), &[key]).await?))
    }
}

#[derive(Clone)]
struct ByFacade(Knowledge, Statement);

impl KeyQuery for ByFacade {
    async fn ask(&self, key: Value) -> Result<Text> {
        let key = [key];
        let asking = self.0.query_first_async_with(&self.1, &key, Policy::Bypass);
        let row = asking.await?;
        Ok(row.map_or_else(Text::default, |row| row[0].to_text()))
    }
}

/// Queries all keys by `task_count` tasks, each of which waits for its answer before the next
/// query.
fn tasks(
    runtime: &Runtime,
    task_count: usize,
    keys: &[Value],
    ask: &impl KeyQuery,
) -> Result<Vec<Text>> {
    runtime.block_on(async {
        let keys: Arc<[Value]> = keys.into();
        let mut running = JoinSet::new();
        for first in 0..task_count {
            let (ask, keys) = (ask.clone(), Arc::clone(&keys));
            running.spawn(async move {
                let share = keys.iter().enumerate().skip(first).step_by(task_count);
                let mut answers = Vec::with_capacity(share.len());
                for (index, key) in share {
                    answers.push((index, ask.ask(key.clone()).await?));
                }
                Result::Ok(answers)
            });
        }
        let mut answers = vec![Text::default(); keys.len()];
        while let Some(share) = running.join_next().await {
            for (index, answer) in share?? {
                answers[index] = answer;
            }
        }
        Ok(answers)
    })
}
