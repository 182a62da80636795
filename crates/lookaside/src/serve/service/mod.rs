//! The request handler: one value per I/O thread, and the state that the threads share.

mod batch;
mod coding;
mod complete;
mod console;
mod decoding;
mod document_thread;
mod enrich;
mod event_body;
mod freshness;
mod head;
mod info;
mod job;
mod lookup;
mod lookups_seen;
mod project;
mod provider_queries;
mod query;
mod share;
mod wait;
mod waiters;

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, Sender, unbounded};
use lookaside_http::negotiate::Encoding;
use lookaside_http::{
    Io, Method, Monitor, Peer, Readiness, Reply, Request, Route, Service, Tls, Waker,
};
use lookaside_knowledge::{Error, Knowledge, Session, Value};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::Semaphore;

use self::coding::{BodyCompressor, coding};
pub(super) use self::console::policy as console_policy;
pub(crate) use self::decoding::{Coding, content_coding, decode};
pub(super) use self::document_thread::DocumentThread;
use self::head::Head;
use self::info::{JSON, PROMETHEUS};
use self::provider_queries::ProviderQueries;
use self::share::SMALL_ANSWER_SIZE_MAX;
pub(in crate::serve) use self::share::held_size_max;
use self::wait::Completion;
use self::waiters::Waiters;
use super::access::{Caller, Want};
use super::access_log::{AccessLog, AccessLogEntry, LogWriter};
use super::answers::AnswerCache;
use super::catalog::Catalog;
use super::counters::{Counters, Layer, Path};
use super::counts::ModelCounts;
use super::encode::{BodyFormat, Encoder};
use super::endpoint::{Endpoint, allow};
use super::lookup::Lookup;
use super::problem::Problem;
use super::reloader::Reloader;
use super::tag::Tag;
use crate::config::ListenAddress;

/// The limit of bodies that are never large.
const SMALL_BODY_SIZE_MAX: usize = 64 << 10;

/// The state that I/O threads and other threads share.
pub(crate) struct Shared {
    pub(crate) knowledge: Knowledge,
    pub(crate) catalog: ArcSwap<Catalog>,
    /// The number of the newest catalog, so that a request only compares a number.
    pub(crate) catalog_number: AtomicU64,
    pub(crate) reloader: Reloader,
    pub(crate) prometheus: PrometheusHandle,
    /// Set when the server has started.
    pub(crate) monitor: OnceLock<Monitor>,
    /// Set if the server uses TLS.
    pub(crate) tls: OnceLock<Tls>,
    pub(crate) log: Option<AccessLog>,
    /// The runtime of the tasks that wait.
    pub(crate) runtime: tokio::runtime::Handle,
    /// One for each I/O thread.
    pub(crate) counters: Box<[Counters]>,
    /// The counts of lookups within models.
    pub(crate) model_counts: ModelCounts,
    /// Requests that wait for an answer from another thread or a provider.
    pub(crate) waiting: AtomicU64,
    /// Bytes of answers that are being built, or that are not yet written to a connection.
    pub(crate) held_size: AtomicU64,
    /// The limit of those, together with bytes that are written but not sent.
    pub(crate) held_size_max: u64,
    /// Limits the queries of own tables that run on other threads for single lookups.
    pub(crate) own_queries: Semaphore,
    pub(crate) document_thread: DocumentThread,
    /// The number of running event streams of all threads.
    pub(crate) streams: AtomicU64,
    pub(crate) stream_count_max: u64,
    pub(crate) is_draining: AtomicBool,
    /// One for each I/O thread, in the order of their start.
    pub(crate) wakers: Mutex<Vec<Waker>>,
    /// The project's name in the console.
    pub(crate) project: String,
    /// The Content-Security-Policy of the console.
    pub(crate) console_policy: String,
    pub(crate) started: Instant,
    /// Distinguishes the validators of this process from those of other processes.
    pub(crate) boot: u32,
    pub(crate) body_size_max: usize,
    pub(crate) answers_size_max: u64,
    /// The configured listeners.
    pub(crate) listen_addresses: Vec<ListenAddress>,
}

impl Shared {
    /// Publishes a catalog to requests.
    pub(crate) fn publish(&self, catalog: Arc<Catalog>) {
        let number = catalog.number;
        self.catalog.store(catalog);
        // Release pairs with the acquire in `Thread::renew`: a thread that sees the number also
        // sees the catalog.
        self.catalog_number.store(number, Ordering::Release);
        // A thread without requests would keep the old tables in memory.
        self.wake_threads();
    }

    /// Cancels all queries, and answers the requests that wait for one.
    pub(crate) fn cancel_queries(&self) {
        self.knowledge.cancel_queries();
        self.wake_threads();
    }

    fn wake_threads(&self) {
        let wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.iter().for_each(Waker::wake);
    }
}

/// The request handler of one I/O thread.
pub(crate) struct Thread {
    responder: Responder,
    session: Session,
    /// The parameters of the current request.
    values: Vec<Value>,
    /// One for each lookup.
    encoders: Vec<Encoder>,
    answers: AnswerCache,
    body: Vec<u8>,
    completions: Receiver<Completion>,
    waiters: Waiters,
    /// `None` if its descriptor could not be created: then such queries run on other threads.
    provider_queries: Option<ProviderQueries>,
}

/// What a validator depends on: the tables, the catalog, the format.
type TagOf = (u64, u64, BodyFormat);

/// The part of a thread that responds: it sends, counts and logs.
struct Responder {
    shared: Arc<Shared>,
    index: usize,
    catalog: Arc<Catalog>,
    /// A buffer for header values.
    text: RefCell<String>,
    /// The validator that was sent last, and what it depends on.
    tag: Cell<Option<(TagOf, Tag)>>,
    compressor: BodyCompressor,
    waker: Waker,
    sender: Sender<Completion>,
    log: Option<RefCell<LogWriter>>,
}

/// The context of a request while it is handled.
struct RequestContext {
    begun: Instant,
    path: Path,
    /// The name of its API key.
    key: Option<Arc<str>>,
    /// The origin of the page, if it may read the answer.
    origin: Option<Box<[u8]>>,
    /// The log fields of a request that is answered later.
    log_fields: Option<Box<LogFields>>,
    /// The coding that such a request prefers.
    coding: Encoding,
    /// The layer that had the answer, for the log.
    layer: Option<&'static str>,
}

/// The fields of a request in the access log.
struct LogFields {
    peer: String,
    method: String,
    path: String,
    agent: Option<String>,
}

impl Thread {
    pub(crate) fn new(shared: Arc<Shared>, io: &mut Io) -> Self {
        let catalog = shared.catalog.load_full();
        let (sender, completions) = unbounded();
        let thread_count = shared.counters.len() as u64;
        let waker = io.waker(0);
        let wakers = shared.wakers.lock();
        wakers
            .unwrap_or_else(PoisonError::into_inner)
            .push(waker.clone());
        let provider_queries = ProviderQueries::new(io, shared.counters.len(), waker.clone());
        let provider_queries = provider_queries
            .inspect_err(
                |error| tracing::warn!(%error, "queries of providers are sent by other threads"),
            )
            .ok();
        Self {
            session: shared.knowledge.session(),
            values: Vec::new(),
            encoders: encoders(&catalog),
            answers: AnswerCache::new(shared.answers_size_max / thread_count),
            body: Vec::new(),
            completions,
            waiters: Waiters::default(),
            provider_queries,
            responder: Responder {
                index: io.thread_index(),
                text: RefCell::default(),
                tag: Cell::new(None),
                compressor: BodyCompressor::default(),
                waker,
                sender,
                log: shared.log.as_ref().map(AccessLog::writer).map(RefCell::new),
                catalog,
                shared,
            },
        }
    }

    /// Switches to the newest catalog.
    #[inline]
    fn renew(&mut self) {
        let responder = &mut self.responder;
        // Acquire pairs with the release in `Shared::publish`.
        if responder.shared.catalog_number.load(Ordering::Acquire) != responder.catalog.number {
            responder.catalog = responder.shared.catalog.load_full();
            self.encoders = encoders(&responder.catalog);
            self.answers.clear();
        }
    }

    fn dispatch(&mut self, request: &Request<'_>, reply: Reply<'_>) {
        let responder = &self.responder;
        let endpoint = Endpoint::from_id(request.route().id);
        let caller = caller(request);
        let access = &responder.catalog.access;
        let mut context = RequestContext {
            begun: Instant::now(),
            path: endpoint.path(request.method()),
            key: None,
            origin: access.allowed_origin(caller.origin).map(Into::into),
            log_fields: None,
            coding: Encoding::Identity,
            layer: None,
        };
        if request.method() == Method::Options {
            return responder.preflight(&context, request, reply, endpoint);
        }
        if !endpoint.methods().contains(&request.method()) {
            let problem = match endpoint {
                Endpoint::Unknown => Problem::new(404, "no such endpoint").detail(
                    "GET /v1/lookups lists the lookups and models; /openapi.json describes \
                             all endpoints",
                ),
                _ => Problem::new(405, "method not allowed")
                    .allow(endpoint.methods())
                    .detail(format!("allowed methods: {}", allow(endpoint.methods()))),
            };
            return responder.refuse(context, Some(request), reply, &problem);
        }
        if !endpoint.is_open() {
            let want = match endpoint {
                Endpoint::Query
                | Endpoint::Explain
                | Endpoint::Project
                | Endpoint::Table
                | Endpoint::Reload => Want::Admin,
                _ => Want::Read,
            };
            match access.admit(&caller, want, responder.shared.started.elapsed()) {
                Ok(key) => context.key = key,
                Err(problem) => return responder.refuse(context, Some(request), reply, &problem),
            }
        }
        let name = endpoint.name(request.path());
        match endpoint {
            Endpoint::Lookup if request.method() == Method::Post => {
                self.batch(context, name, request, reply);
            }
            Endpoint::Lookup => self.lookup(context, name, request, reply),
            Endpoint::Enrich => self.enrich(context, name, request, reply),
            Endpoint::Query => self.query(context, request, reply),
            Endpoint::Explain => self.explain(context, request, reply),
            Endpoint::Project => self.document_of(context, request, reply, JSON, project::project),
            Endpoint::Table => self.table(context, name, request, reply),
            Endpoint::Reload => self.reload(context, request, reply),
            Endpoint::Console => responder.console(context, request, reply),
            Endpoint::Status => self.document_of(context, request, reply, JSON, console::status),
            Endpoint::Lookups => {
                responder.document(context, &responder.catalog.overview, request, reply)
            }
            Endpoint::OpenApi => {
                responder.document(context, &responder.catalog.openapi, request, reply)
            }
            Endpoint::Metrics => {
                self.document_of(context, request, reply, PROMETHEUS, info::metrics)
            }
            Endpoint::Health => responder.health(context, request, reply),
            Endpoint::Ready => responder.ready_state(context, request, reply),
            Endpoint::Unknown => unreachable!("it has no methods"),
        }
    }
}

impl Responder {
    /// Answers a CORS preflight request.
    fn preflight(
        &self,
        context: &RequestContext,
        request: &Request<'_>,
        reply: Reply<'_>,
        endpoint: Endpoint,
    ) {
        let allow = allow(endpoint.methods());
        let mut reply = reply.status(204).header("Allow", &allow);
        if let Some(origin) = &context.origin {
            reply = reply
                .header("Access-Control-Allow-Origin", origin)
                .header("Access-Control-Allow-Methods", &allow)
                .header(
                    "Access-Control-Allow-Headers",
                    "Authorization, X-API-Key, Cache-Control, Content-Encoding, Content-Type, \
                     If-None-Match, Lookaside-Max-Staleness, Lookaside-Min-Position",
                )
                .header("Access-Control-Max-Age", "600");
        }
        if self.catalog.access.has_cors() {
            reply = reply.header("Vary", "Origin");
        }
        reply.empty();
        self.count(context, Some(request), 204, 0);
    }

    /// Answers with a problem.
    fn refuse(
        &self,
        context: RequestContext,
        request: Option<&Request<'_>>,
        reply: Reply<'_>,
        problem: &Problem,
    ) {
        let mut body = Vec::new();
        problem.write(self.catalog.error_detail, &mut body);
        self.send(context, request, reply, &Head::problem(problem), &body);
    }

    /// Sends an answer whose body is already encoded.
    fn send_encoded(
        &self,
        mut context: RequestContext,
        request: Option<&Request<'_>>,
        reply: Reply<'_>,
        head: &Head<'_>,
        body: &[u8],
    ) {
        if body.len() > SMALL_ANSWER_SIZE_MAX
            && let Err(problem) = self.shared.check_room(body.len())
        {
            return self.refuse(context, request, reply, &problem);
        }
        context.layer = head.layer.map(Layer::name);
        let varies_by_origin = self.catalog.access.has_cors();
        let mut text = self.text.borrow_mut();
        let reply = head.write(reply, &context, varies_by_origin, &mut text);
        match head.status {
            304 => reply.empty(),
            _ => reply.send(head.content_type, body),
        }
        self.count(&context, request, head.status, body.len());
    }

    /// Counts and logs an answer.
    fn count(
        &self,
        context: &RequestContext,
        request: Option<&Request<'_>>,
        status: u16,
        size: usize,
    ) {
        let elapsed = context.begun.elapsed();
        self.counters().answered(context.path, status, elapsed);
        let Some(log) = &self.log else {
            return;
        };
        let log_fields = match (&context.log_fields, request) {
            (Some(log_fields), _) => log_fields,
            (None, Some(request)) => &Box::new(LogFields::of(request)),
            (None, None) => return,
        };
        log_line(&mut log.borrow_mut(), context, log_fields, status, size);
    }

    /// Stores the log fields and the coding of a request that is answered later.
    fn keep_log_fields(&self, context: &mut RequestContext, request: &Request<'_>) {
        context.coding = coding(request);
        if self.log.is_some() {
            context.log_fields = Some(Box::new(LogFields::of(request)));
        }
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters[self.index]
    }

    /// Logs a database error in full, and converts it to a problem for the client.
    fn failed(&self, lookup: &Lookup, error: &Error) -> Problem {
        lookup.tell_failure(error);
        Problem::of_error(error)
    }

    /// The problem of a lookup whose provider has never responded. That was logged when it was
    /// found.
    fn not_ready(&self, lookup: &Lookup) -> Problem {
        lookup.counts.add_failed(self.index, 1);
        Problem::not_ready(lookup.away.as_ref())
    }
}

impl Service for Thread {
    fn route(&mut self, head: &Request<'_>) -> Route {
        let endpoint = Endpoint::of(head.path());
        let mut route = match endpoint {
            Endpoint::Enrich if head.method() == Method::Post => Route::streamed().live(),
            Endpoint::Lookup => Route::buffered().limit(self.responder.shared.body_size_max),
            _ => Route::buffered().limit(SMALL_BODY_SIZE_MAX),
        };
        route.id = endpoint.id();
        route
    }

    fn call(&mut self, request: &Request<'_>, reply: Reply<'_>) {
        self.renew();
        self.dispatch(request, reply);
    }

    fn batch_end(&mut self, io: &mut Io) {
        self.turn_provider_queries(io);
        self.waiters.set_timer(io);
        if let Some(log) = &self.responder.log {
            log.borrow_mut().flush();
        }
    }

    fn ready(&mut self, _: &mut Io, _: u64, _: Readiness) {
        if let Some(queries) = &mut self.provider_queries {
            queries.ready();
        }
    }

    fn timer(&mut self, io: &mut Io, token: u64) {
        match (token, &mut self.provider_queries) {
            (provider_queries::TIMER, Some(queries)) => queries.timer(),
            _ => self.waiters.look(io),
        }
    }

    fn woken(&mut self, io: &mut Io, _: u64) {
        self.renew();
        // Releases tables that were replaced, and the connections of replaced providers.
        self.session.generation();
        if let Some(queries) = &mut self.provider_queries {
            queries.woken();
        }
        while let Ok(completion) = self.completions.try_recv() {
            // A panic fails only its own request.
            let ticket = completion.ticket();
            io.contain(ticket, |io| self.complete(io, completion));
        }
        if self.responder.shared.knowledge.is_cancelled() {
            self.waiters.cancel_all();
            self.cancel_provider_queries(io);
        }
    }
}

impl LogFields {
    fn of(request: &Request<'_>) -> Self {
        Self {
            peer: match request.peer() {
                Peer::Tcp(address) => address.to_string(),
                _ => "unix".to_owned(),
            },
            method: request.method_name().to_owned(),
            path: request.path().to_owned(),
            agent: request.header_str("User-Agent").map(str::to_owned),
        }
    }
}

/// Logs a request that was answered.
fn log_line(
    log: &mut LogWriter,
    context: &RequestContext,
    log_fields: &LogFields,
    status: u16,
    size: usize,
) {
    log.log(&AccessLogEntry {
        peer: &log_fields.peer,
        key: context.key.as_deref(),
        method: &log_fields.method,
        path: &log_fields.path,
        status,
        size,
        elapsed: context.begun.elapsed(),
        cache: context.layer,
        agent: log_fields.agent.as_deref(),
    });
}

fn encoders(catalog: &Catalog) -> Vec<Encoder> {
    catalog.lookups.iter().map(|_| Encoder::default()).collect()
}

/// The client's identification, found in one pass over the headers.
fn caller<'a>(request: &Request<'a>) -> Caller<'a> {
    let mut caller = Caller {
        host: request.host(),
        is_tls: request.is_tls(),
        is_unix: matches!(request.peer(), Peer::Unix),
        ..Caller::default()
    };
    for (name, value) in request.headers() {
        match name.len() {
            6 if name.eq_ignore_ascii_case("origin") => caller.origin = Some(value),
            9 if name.eq_ignore_ascii_case("x-api-key") => caller.api_key = Some(value),
            13 if name.eq_ignore_ascii_case("authorization") => caller.authorization = Some(value),
            _ => {}
        }
    }
    caller
}
