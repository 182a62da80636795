//! A reader: one program's sessions over all layers of the product.

use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use lookaside_client::postgres::blocking::Connection;
use lookaside_knowledge::{
    AnsweredBy, Answers, BatchQuery, CacheOutcome, CallCache, Contract, Extent, Freshness,
    Knowledge, Layer as CacheLayer, Lookup, ParamBatch, Policy, Provenance, Session, Statement,
    StatementId, Telemetry, Text, Value,
};
use lookaside_verify::history::{Key, Layer, Source, Version};
use lookaside_verify::run::{Answer, Reader, Request};

use super::Cause;
use super::demand::{Cluster, demand, header};
use super::first_use::{FirstUse, FirstUses};
use super::http::{HttpAnswer, HttpClient};
use super::registers::{LOOKUPS, lookup_index};
use super::server::{self, WRITER_NAME};

/// How many keys a batch has: the one that is read, and others after it.
const BATCH_LEN: u32 = 4;

/// The sessions of a reader: those of the lookups of the run, and those of new statements.
const SESSION_COUNT: u16 = 6;
const FIRST_USE_SESSION_COUNT: usize = 8;

/// How many reads the cache of one call serves. Without caches it is one.
const CALL_READ_COUNT: u32 = 8;

thread_local! {
    /// Queries that this thread sent to the database, or did not find in the shared cache.
    static QUERY_COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Counts, for each thread, what no cache answered. An answer to a query that another thread had already
/// sent counts as one of the shared cache.
#[derive(Debug)]
pub(super) struct ThreadTelemetry;

impl Telemetry for ThreadTelemetry {
    fn on_cache(&self, layer: CacheLayer, outcome: CacheOutcome) {
        if (layer, outcome) == (CacheLayer::L1, CacheOutcome::Miss) {
            QUERY_COUNT.set(QUERY_COUNT.get() + 1);
        }
    }

    fn on_flight(&self, _: &str, _: usize, _: Duration) {
        QUERY_COUNT.set(QUERY_COUNT.get() + 1);
    }
}

/// The statements of the lookups, in their order.
#[derive(Clone, Debug)]
pub(super) struct Statements(Vec<Statement>);

impl Statements {
    pub(super) fn prepare(knowledge: &Knowledge) -> lookaside_knowledge::Result<Self> {
        let prepared = LOOKUPS.iter().map(|(_, sql)| knowledge.prepare(sql));
        Ok(Self(prepared.collect::<lookaside_knowledge::Result<_>>()?))
    }

    fn of(&self, key: Key) -> &Statement {
        &self.0[lookup_index(key)]
    }
}

/// What all readers of a run have in common.
#[derive(Clone)]
pub(super) struct ReaderOptions<'a> {
    pub(super) statements: Statements,
    /// How many keys there are.
    pub(super) key_count: u32,
    /// Whether answers are cached.
    pub(super) is_cached: bool,
    /// Where the product's HTTP service listens, if it is used.
    pub(super) http: Option<SocketAddr>,
    /// The database itself.
    pub(super) url: &'a str,
    pub(super) cluster: Cluster,
    /// Statements that are new; `None` without a change feed, for which these are no different.
    pub(super) first_uses: Option<&'a FirstUses<'a>>,
}

/// One reader.
pub(super) struct ProductReader<'a> {
    options: ReaderOptions<'a>,
    knowledge: Knowledge,
    session: Session,
    call: CallCache,
    call_read_count: u32,
    is_served: bool,
    /// The statements as the batch interface numbers them.
    batch_statements: Vec<StatementId>,
    params: ParamBatch,
    answers: Answers,
    http: Option<HttpClient>,
    database: Option<Connection>,
    random: fastrand::Rng,
    /// The new statement of the current read, if it has one.
    first_use: Option<Arc<FirstUse>>,
    first_use_sessions: [FirstUseSession; FIRST_USE_SESSION_COUNT],
}

/// A session of the run that reads one new statement, and later another one: each statement is cached
/// separately, and may show another version of a row.
#[derive(Clone, Copy, Debug, Default)]
struct FirstUseSession {
    number: u32,
    /// When the last read of the statement ended.
    read: Option<Instant>,
}

/// What was found, and where.
struct Found {
    version: Option<Version>,
    source: Source,
    /// The moment that the answer claims to be fresh as of, if it claims one.
    fresh_as_of: Option<Instant>,
}

impl<'a> ProductReader<'a> {
    pub(super) fn new(
        knowledge: &Knowledge,
        options: ReaderOptions<'a>,
        random: fastrand::Rng,
    ) -> Result<Self, Cause> {
        let mut session = knowledge.session();
        let params = [Text::from("id")];
        let prepared = LOOKUPS
            .iter()
            .map(|(_, sql)| Lookup::prepare(&mut session, sql, &params));
        Ok(Self {
            batch_statements: prepared.collect::<Result<_, _>>()?,
            http: options.http.map(HttpClient::new),
            options,
            knowledge: knowledge.clone(),
            session,
            call: CallCache::new(),
            call_read_count: 0,
            is_served: false,
            params: ParamBatch::new(1),
            answers: Answers::new(),
            database: None,
            random,
            first_use: None,
            first_use_sessions: Default::default(),
        })
    }

    fn read_at(&mut self, request: &Request) -> Result<Found, Cause> {
        let freshness = demand(request);
        self.session.set_freshness(freshness);
        self.first_use = self.draw_first_use(request.layer);
        match request.layer {
            Layer::L0 if self.is_served_next() => self.read_served(request.key, freshness),
            Layer::L0 => self.read_session(request.key),
            Layer::L1 => self.read_shared(request.key, freshness),
            Layer::Call => self.read_call(request.key),
            Layer::Batch => self.read_batch(request.key, freshness),
            Layer::Body => self.read_http(request.key, freshness, HttpClient::get),
            Layer::Http => self.read_http(request.key, freshness, HttpClient::post),
            Layer::Database => self.read_database(request.key),
            layer => Err(format!("no reader reads through {layer}").into()),
        }
    }

    /// The new statement of the next read: of every second one through a layer that any statement can be
    /// read through.
    fn draw_first_use(&mut self, layer: Layer) -> Option<Arc<FirstUse>> {
        let first_uses = self.options.first_uses?;
        let is_readable = matches!(layer, Layer::L0 | Layer::L1 | Layer::Call | Layer::Batch);
        if !is_readable || self.random.bool() {
            return None;
        }
        let first_use = first_uses.draw(&mut self.random)?;
        let session = &mut self.first_use_sessions[session_index(&first_use)];
        if session.number != first_use.number {
            // Answers of the new statement are newer than all of the old one.
            let is_after = session.read.is_none_or(|read| read < first_use.since);
            if !is_after {
                return None;
            }
            session.number = first_use.number;
        }
        Some(first_use)
    }

    fn statement_of(&self, key: Key) -> Statement {
        let statement = match &self.first_use {
            Some(first_use) => first_use.statement_of(key),
            None => self.options.statements.of(key),
        };
        statement.clone()
    }

    /// Whether the session is read by the functions for services, as every second time.
    fn is_served_next(&mut self) -> bool {
        self.is_served = !self.is_served;
        self.is_served
    }

    /// Through the session's cache.
    fn read_session(&mut self, key: Key) -> Result<Found, Cause> {
        let (statement, params) = (self.statement_of(key), [param(key)]);
        let session = &mut self.session;
        found_by_thread(|| version(session.first(&statement, &params)?))
    }

    /// Through the session's cache, as services ask.
    fn read_served(&mut self, key: Key, freshness: Freshness) -> Result<Found, Cause> {
        let statement = self.statement_of(key);
        let extent = Extent::First;
        if let Some(served) =
            (self.session).try_local(&statement, &[param(key)], extent, freshness)?
        {
            return Ok(Found {
                version: version(served.rows.iter().next())?,
                source: source(&served.provenance),
                fresh_as_of: served.provenance.fresh_as_of(),
            });
        }
        self.params.reset(1);
        self.params.push([param(key)]);
        let mut found = None;
        let visit = |rows: lookaside_knowledge::Result<lookaside_knowledge::Rows<'_>>| {
            found = Some(
                rows.map_err(Cause::from)
                    .and_then(|rows| version(rows.iter().next())),
            );
            ControlFlow::Continue(())
        };
        (self.session).answer_each(&statement, &self.params, extent, freshness, visit)?;
        Ok(Found {
            version: found.ok_or("a batch of one has no answer")??,
            source: Source::Database,
            fresh_as_of: None,
        })
    }

    /// Through the shared cache alone, as asynchronous callers ask.
    fn read_shared(&mut self, key: Key, freshness: Freshness) -> Result<Found, Cause> {
        let (statement, params) = (self.statement_of(key), [param(key)]);
        let asking = (self.knowledge).answer_async(&statement, &params, Extent::First, freshness);
        let (rows, provenance) = block_on(asking)?;
        Ok(Found {
            version: version(rows.iter().next())?,
            source: source(&provenance),
            fresh_as_of: provenance.fresh_as_of(),
        })
    }

    /// Through the cache of a call, which ends after some reads.
    fn read_call(&mut self, key: Key) -> Result<Found, Cause> {
        self.call_read_count = (self.call_read_count + 1) % CALL_READ_COUNT;
        if self.call_read_count == 0 || !self.options.is_cached {
            self.call.clear();
        }
        let (statement, params) = (self.statement_of(key), [param(key)]);
        let (session, call) = (&mut self.session, &mut self.call);
        let policy = Policy::CallScope(call);
        found_by_thread(|| version(session.first_with(&statement, &params, policy)?))
    }

    /// As one key of a batch, every second time with the contract of a model, as `enrich` does.
    fn read_batch(&mut self, key: Key, freshness: Freshness) -> Result<Found, Cause> {
        let contract = match self.random.bool() {
            true => {
                self.session.set_freshness(Freshness::default());
                freshness.contract
            }
            false => Contract::ANY,
        };
        self.params.reset(1);
        // Of the same statement: keys that differ by a multiple of 8.
        for index in 0..BATCH_LEN {
            let other = Key((key.0 + 8 * index) % self.options.key_count);
            let is_same = lookup_index(other) == lookup_index(key);
            self.params.push([param(if is_same { other } else { key })]);
        }
        let statement = match &self.first_use {
            Some(first_use) => first_use.statement_of(key).id(),
            None => self.batch_statements[lookup_index(key)],
        };
        let (session, params, answers) = (&mut self.session, &self.params, &mut self.answers);
        found_by_thread(|| {
            let query = BatchQuery {
                contract,
                ..BatchQuery::first(statement)
            };
            Lookup::answer(session, query, params, answers);
            version(answers.row(0).map_err(Clone::clone)?)
        })
    }

    fn read_http(
        &mut self,
        key: Key,
        freshness: Freshness,
        ask: impl FnOnce(&mut HttpClient, Key, &str) -> Result<HttpAnswer, Cause>,
    ) -> Result<Found, Cause> {
        let http = self.http.as_mut().ok_or("there is no HTTP service")?;
        let header = header(freshness, self.options.cluster);
        let begin = Instant::now();
        let answer = ask(http, key, &header)?;
        Ok(Found {
            version: answer.version,
            source: answer.source,
            // The service computed it after the begin.
            fresh_as_of: answer.age.and_then(|age| begin.checked_sub(age)),
        })
    }

    /// Past the product: the base case, which checks the harness.
    fn read_database(&mut self, key: Key) -> Result<Found, Cause> {
        let mut connection = match self.database.take() {
            Some(connection) => connection,
            None => server::connect(self.options.url, WRITER_NAME)?,
        };
        let sql = "select version from lookaside_verify.registers where id = $1";
        let answer = connection.query(sql, &[param(key)])?;
        self.database = Some(connection);
        Ok(Found {
            version: version(answer.rows.iter().next())?,
            source: Source::Database,
            fresh_as_of: None,
        })
    }
}

impl Reader for ProductReader<'_> {
    fn read(&mut self, request: &Request) -> Result<Answer, Cause> {
        let found = self.read_at(request);
        if let Some(first_use) = &self.first_use {
            let session = &mut self.first_use_sessions[session_index(first_use)];
            session.read = Some(Instant::now());
        }
        let found = found?;
        Ok(Answer {
            version: found.version,
            fresh_as_of: found.fresh_as_of,
            source: found.source,
        })
    }

    /// A session and its batches share a cache; over HTTP, the threads of the service have their own.
    fn session(&self, layer: Layer) -> u16 {
        if let Some(first_use) = &self.first_use {
            return SESSION_COUNT + session_index(first_use) as u16;
        }
        match layer {
            Layer::L0 | Layer::Batch => 0,
            Layer::L1 => 1,
            Layer::Call => 2,
            Layer::Body => 3,
            Layer::Http => 4,
            _ => 5,
        }
    }
}

fn session_index(first_use: &FirstUse) -> usize {
    first_use.number as usize % FIRST_USE_SESSION_COUNT
}

fn param(key: Key) -> Value {
    Value::Int(key.0.into())
}

/// The version in a row; `None` without a row.
fn version(row: Option<&[Value]>) -> Result<Option<Version>, Cause> {
    match row {
        None => Ok(None),
        Some([Value::Int(version)]) => Ok(Some(Version(u32::try_from(*version)?))),
        Some(other) => Err(format!("the answer is not a version: {other:?}").into()),
    }
}

fn source(provenance: &Provenance) -> Source {
    match provenance.by {
        AnsweredBy::Provider => Source::Database,
        _ => Source::Memory,
    }
}

/// A read on this thread, from the database if the thread has sent a query.
fn found_by_thread(read: impl FnOnce() -> Result<Option<Version>, Cause>) -> Result<Found, Cause> {
    let before = QUERY_COUNT.get();
    let version = read()?;
    Ok(Found {
        version,
        source: match QUERY_COUNT.get() == before {
            true => Source::Memory,
            false => Source::Database,
        },
        fresh_as_of: None,
    })
}

/// Wakes a thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future that needs no runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
