//! What does a lookup in PostgreSQL or MySQL cost through wp-knowledge 0.19, and a record that is
//! enriched by one?
//!
//! `rival-wp-provider MODE --url URL [options]` prints one line of JSON. Modes:
//!
//! - `lookup --policy bypass|global|local --face async|sync`: `--concurrency` (1) tasks or threads,
//!   each of which looks up one key after another. `bypass` asks the server each time, `global` goes
//!   through the cache of the process, `local` through one of the worker's own first. One by one is
//!   `bypass` with a concurrency of 1. Requests are built ahead.
//! - `oml --policy pure|bypass|local`: what wp-oml does with a record for the models `V = read(id)` and
//!   `V = select value from points where id = read(id)`, by wp-knowledge and wp-model-core alone:
//!   wp-oml itself is on no registry. The record is copied, its field found, the statement's
//!   parameter made of it, the lookup awaited and the answer put into a new record. Parsing of
//!   models, their evaluation and the check of the answer's type are left out, so wp-oml costs more.
//!
//! `--operations N` is the shape of the published figures: the provider is made anew and only the
//! key 1 is warm, N operations are dealt to the workers, each is timed, the shared cache has its
//! default size. Without it the run is warm and takes `--seconds` (5): every key has been looked up by
//! its worker, the caches hold all of them, and one operation of 64 is timed unless it asks the server.
//!
//! Keys are `--keys hotset|zipf` of `--rows` (10,000). `--pool` (8) connections; `--workers N` threads
//! for the callers' runtime, 0 for a current-thread one, by default one a core, or with
//! `--operations` as many as the original takes. The provider has a runtime of its own besides.
//! `--server-pid` is the server's, for its CPU time. TLS is off.

mod looker;
mod model;
mod table;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use rival_common::arguments::Arguments;
use rival_common::keys::Keys;
use rival_common::measure::Measure;
use rival_common::work::{self, Length, Look, Pace};
use tokio::runtime::{Builder, Runtime};
use wp_knowledge::facade::{init_mysql_provider, init_postgres_provider};
use wp_knowledge::runtime::runtime as knowledge;

use crate::looker::{Blocking, Looker, Policy, Requests};
use crate::model::Model;

const ENGINE: &str = "wp-knowledge 0.19.0";
/// The default of the original's `[cache]`.
const CACHE_CAPACITY: usize = 1024;
const CACHE_TTL: Duration = Duration::from_secs(30);
/// Longer than any run.
const CACHE_TTL_WARM: Duration = Duration::from_secs(3600);
/// A cached lookup costs little more than two looks at the clock.
const TIMED_EVERY_CACHED: usize = 64;

struct Question {
    url: String,
    /// `mysql` or `postgres`.
    kind: &'static str,
    pool: u32,
    keys: Keys,
    pace: Pace,
    concurrency: usize,
    policy: Policy,
    workers: usize,
}

fn main() -> Result<()> {
    let mut known = vec![
        "--url",
        "--policy",
        "--face",
        "--concurrency",
        "--operations",
        "--pool",
        "--workers",
    ];
    known.extend(Keys::OPTIONS);
    known.extend(Pace::OPTIONS);
    let arguments = Arguments::read(&known)?;
    let question = Question::read(&arguments)?;
    let face = arguments.word("--face", &["async", "sync"])?;

    question.install()?;
    table::ensure(question.keys.rows)?;
    let (measure, hash, what) = match arguments.mode.as_str() {
        "lookup" if face == "sync" => question.look_up_blocking()?,
        "lookup" => question.look_up()?,
        "oml" => question.transform()?,
        mode => bail!("mode {mode}: one of lookup, oml"),
    };
    let shape = match question.pace.length {
        Length::Operations(count) => format!("{count} operations"),
        Length::Seconds(_) => "warm".into(),
    };
    let Question {
        kind,
        concurrency,
        keys,
        ..
    } = &question;
    let case = format!(
        "{what}, {kind}, {} of {}, {shape}, concurrency {concurrency}",
        keys.law, keys.rows
    );
    let bench = match arguments.mode.as_str() {
        "oml" => "oml-provider",
        _ if question.policy == Policy::Bypass => "provider",
        _ => "cache",
    };
    measure.print(ENGINE, bench, &case, hash);
    Ok(())
}

impl Question {
    fn read(arguments: &Arguments) -> Result<Self> {
        let url = arguments.required("--url")?;
        let mark = if url.contains('?') { '&' } else { '?' };
        let (kind, no_tls) = match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("mysql") => ("mysql", "ssl-mode=disabled"),
            Some("postgres" | "postgresql") => ("postgres", "sslmode=disable"),
            _ => bail!("--url {url} is neither postgres:// nor mysql://"),
        };
        let policy = match arguments.word("--policy", &["bypass", "global", "local", "pure"])? {
            "global" => Policy::Global,
            "local" => Policy::Local,
            "pure" => Policy::Pure,
            _ => Policy::Bypass,
        };
        let mut pace = Pace::read(arguments)?;
        let concurrency = arguments.count("--concurrency", 1)?;
        let mut workers = std::thread::available_parallelism()?.get();
        if let Some(operations) = arguments.number("--operations")? {
            pace.length = Length::Operations(operations);
            workers = concurrency.clamp(2, 16);
        } else if policy != Policy::Bypass {
            pace.timed_every = TIMED_EVERY_CACHED;
        }
        Ok(Self {
            url: format!("{url}{mark}{no_tls}"),
            kind,
            pool: arguments.count("--pool", 8)? as u32,
            keys: Keys::read(arguments)?,
            pace,
            concurrency,
            policy,
            workers: arguments.number("--workers")?.unwrap_or(workers),
        })
    }

    /// Makes the provider anew, which empties all caches.
    fn install(&self) -> Result<()> {
        match self.kind {
            "mysql" => init_mysql_provider(&self.url, Some(self.pool)),
            _ => init_postgres_provider(&self.url, Some(self.pool)),
        }
        .map_err(|error| anyhow::anyhow!("{error}"))
        .context("the provider does not start")?;
        let (capacity, ttl) = match self.pace.length {
            Length::Operations(_) => (CACHE_CAPACITY, CACHE_TTL),
            Length::Seconds(_) => (self.keys.rows as usize + 1, CACHE_TTL_WARM),
        };
        knowledge().configure_result_cache(true, capacity, ttl);
        Ok(())
    }

    /// So many keys a worker can meet.
    fn local_capacity(&self) -> usize {
        match self.pace.length {
            Length::Operations(count) => count.div_ceil(self.concurrency),
            Length::Seconds(_) => {
                let dealt = self.keys.drawn.len().div_ceil(self.concurrency);
                dealt.min(self.keys.rows as usize)
            }
        }
    }

    fn look_up(&self) -> Result<(Measure, u64, String)> {
        let requests = Requests::new(self.keys.rows)?;
        let looker = || Looker::new(&requests, self.policy, self.local_capacity());
        let (measure, hash) = self.run(looker)?;
        Ok((measure, hash, format!("{} async", self.policy.name())))
    }

    fn transform(&self) -> Result<(Measure, u64, String)> {
        let model = || Model::new(self.policy, self.keys.rows, self.local_capacity());
        let (measure, hash) = self.run(model)?;
        Ok((measure, hash, format!("{} record", self.policy.name())))
    }

    fn run<L: Look>(&self, looker: impl Fn() -> Result<L>) -> Result<(Measure, u64)> {
        let keys = &self.keys.drawn;
        let runtime = self.runtime()?;
        let hash = runtime.block_on(async { work::check(&mut looker()?, keys).await })?;
        if let Length::Operations(_) = self.pace.length {
            self.install()?;
            runtime.block_on(async { work::check(&mut looker()?, &[1]).await })?;
        }
        let mut lookers = (0..self.concurrency)
            .map(|_| looker())
            .collect::<Result<Vec<_>>>()?;
        let measure = runtime.block_on(async {
            if let Some(warm_up) = self.warm_up() {
                work::run(&mut lookers, keys, warm_up).await?;
            }
            work::run(&mut lookers, keys, self.pace).await
        })?;
        Ok((measure, hash))
    }

    fn look_up_blocking(&self) -> Result<(Measure, u64, String)> {
        let keys = &self.keys.drawn;
        let requests = Requests::new(self.keys.rows)?;
        let looker = || {
            let looker = Looker::new(&requests, self.policy, self.local_capacity())?;
            anyhow::Ok(Blocking(looker))
        };
        let hash = work::check_blocking(&mut looker()?, keys)?;
        if let Length::Operations(_) = self.pace.length {
            self.install()?;
            work::check_blocking(&mut looker()?, &[1])?;
        }
        let mut lookers = (0..self.concurrency)
            .map(|_| looker())
            .collect::<Result<Vec<_>>>()?;
        if let Some(warm_up) = self.warm_up() {
            work::run_blocking(&mut lookers, keys, warm_up)?;
        }
        let measure = work::run_blocking(&mut lookers, keys, self.pace)?;
        Ok((measure, hash, format!("{} sync", self.policy.name())))
    }

    /// Nothing where the shape is a cold one; where caches are to be warm, each worker's every key.
    fn warm_up(&self) -> Option<Pace> {
        let Length::Seconds(_) = self.pace.length else {
            return None;
        };
        if self.policy == Policy::Bypass {
            return Some(self.pace.warm_up());
        }
        Some(Pace {
            length: Length::Operations(self.keys.drawn.len()),
            ..self.pace
        })
    }

    fn runtime(&self) -> Result<Runtime> {
        let mut builder = if self.workers == 0 {
            Builder::new_current_thread()
        } else {
            Builder::new_multi_thread()
        };
        if self.workers > 0 {
            builder.worker_threads(self.workers);
        }
        Ok(builder.enable_all().build()?)
    }
}
