//! The endpoints that need the database: from a request to a query, and from its rows to the reply.

use std::sync::Arc;

use lookaside_client::postgres::RawRows;
use lookaside_client::{Answer, Request as Query, Syncs};
use lookaside_http::{Deferred, Io, Reply, Request, Response, Ticket};
use lookaside_value::Value;

use super::cache::{Fill, Found};
use super::database::Silence;
use super::items::{self, Changed, Created};
use super::simple::{query_number, refuse};
use super::{Arena, fortunes};

/// All statements.
pub(super) const STATEMENTS: &[&str] = &[
    items::RANGE,
    items::ONE,
    items::LIST,
    items::CREATE,
    items::UPDATE,
    fortunes::SQL,
];

/// The most items that a list has.
const LIMIT_MAX: i64 = 50;

/// The largest page number; it prevents overflows.
const PAGE_MAX: i64 = 1 << 40;

/// The request that an answer belongs to, and how it is used.
pub(super) enum Purpose {
    Range(Ticket),
    One(Ticket, Fill<Deferred>),
    List {
        ticket: Ticket,
        page: i64,
        limit: i64,
    },
    Create(Ticket, i32),
    Update(Ticket, i32),
    Fortunes(Ticket),
}

impl Arena {
    /// Items within a range of prices.
    pub(super) fn range(&mut self, request: &Request<'_>, reply: Reply<'_>) {
        let int = |name, default| {
            let number = query_number(request, name, default)?;
            i32::try_from(number).ok().map(i64::from)
        };
        let limit = query_number(request, "limit", LIMIT_MAX);
        let (Some(min), Some(max), Some(limit)) = (int("min", 10), int("max", 50), limit) else {
            return refuse(reply, "min, max and limit have to be numbers");
        };
        let limit = limit.clamp(1, LIMIT_MAX);
        let params = [min, max, limit].map(Value::Int);
        self.ask(Query::new(items::RANGE, &params), reply, Purpose::Range);
    }

    pub(super) fn fortunes(&mut self, _request: &Request<'_>, reply: Reply<'_>) {
        self.ask(Query::new(fortunes::SQL, &[]), reply, Purpose::Fortunes);
    }

    /// A page of a category.
    pub(super) fn list(&mut self, request: &Request<'_>, reply: Reply<'_>) {
        let category = request.query_value("category");
        let category = category.as_deref().unwrap_or("electronics");
        let page = query_number(request, "page", 1);
        let limit = query_number(request, "limit", 10);
        let (Some(page), Some(limit)) = (page, limit) else {
            return refuse(reply, "page and limit have to be numbers");
        };
        if category.contains('\0') {
            return refuse(reply, "there is no such category");
        }
        let (page, limit) = (page.clamp(1, PAGE_MAX), limit.clamp(1, LIMIT_MAX));
        let offset = (page - 1) * limit;
        let params = [Value::from(category), Value::Int(limit), Value::Int(offset)];
        let query = Query::new(items::LIST, &params);
        self.ask(query, reply, |ticket| Purpose::List {
            ticket,
            page,
            limit,
        });
    }

    /// One item, from the cache if it was read within the last 200 ms. While it is being read,
    /// further requests of any thread wait for that read.
    pub(super) fn read(&mut self, request: &Request<'_>, reply: Reply<'_>) {
        let Some(id) = id_of(request) else {
            return reply.status(404).json(NOT_FOUND);
        };
        let cache = Arc::clone(&self.shared.cache);
        match cache.find(id, reply.now()) {
            Found::Hit(body) => reply.header("X-Cache", "HIT").json(&body),
            Found::Miss(fill) => {
                // Reads of one batch may share a Sync: they change nothing.
                let query = Query::new(items::ONE, &[Value::Int(id.into())]).syncs(Syncs::Shared);
                self.ask(query, reply, |ticket| Purpose::One(ticket, fill));
            }
            Found::UnderWay(queue) => queue.join(reply.defer_remote()),
        }
    }

    pub(super) fn create(&mut self, request: &Request<'_>, reply: Reply<'_>) {
        let item: Created = match serde_json::from_slice(request.body()) {
            Ok(item) => item,
            Err(error) => return refuse(reply, &error.to_string()),
        };
        if [&item.name, &item.category]
            .iter()
            .any(|text| text.contains('\0'))
        {
            return refuse(reply, "a text must not hold NUL");
        }
        let params = [
            Value::Int(item.id.into()),
            Value::from(item.name),
            Value::from(item.category),
            Value::Int(item.price.into()),
            Value::Int(item.quantity.into()),
        ];
        let query = Query::new(items::CREATE, &params);
        self.ask(query, reply, |ticket| Purpose::Create(ticket, item.id));
    }

    pub(super) fn update(&mut self, request: &Request<'_>, reply: Reply<'_>) {
        let Some(id) = id_of(request) else {
            return reply.status(404).json(NOT_FOUND);
        };
        let item: Changed = match serde_json::from_slice(request.body()) {
            Ok(item) => item,
            Err(error) => return refuse(reply, &error.to_string()),
        };
        let texts = [Some(&item.name), item.category.as_ref()];
        if texts.into_iter().flatten().any(|text| text.contains('\0')) {
            return refuse(reply, "a text must not hold NUL");
        }
        let params = [
            Value::Int(id.into()),
            Value::from(item.name),
            item.category.map_or(Value::Null, Value::from),
            Value::Int(item.price.into()),
            Value::Int(item.quantity.into()),
        ];
        let query = Query::new(items::UPDATE, &params);
        self.ask(query, reply, |ticket| Purpose::Update(ticket, id));
    }

    fn ask(&mut self, query: Query, reply: Reply<'_>, purpose: impl FnOnce(Ticket) -> Purpose) {
        let now = reply.now();
        self.database
            .ask(query.raw_rows(), purpose(reply.defer()), now);
    }

    /// Sends the queries of the batch, and answers the requests whose rows arrived.
    pub(super) fn batch_end(&mut self, io: &mut Io) {
        self.database.turn(io);
        while let Some((purpose, answer)) = self.database.next_answer() {
            match answer {
                Ok(answer) => self.answer(io, purpose, &answer),
                Err(silence) => self.fall_back(io, purpose, silence),
            }
        }
    }

    fn answer(&mut self, io: &mut Io, purpose: Purpose, answer: &Answer) {
        let rows = answer.raw.as_deref().expect(RAW);
        match purpose {
            Purpose::Range(ticket) => send(io, ticket, |reply| {
                reply.send_with(JSON, |out| items::write_range(rows, out));
            }),
            Purpose::List {
                ticket,
                page,
                limit,
            } => send(io, ticket, |reply| {
                reply.send_with(JSON, |out| items::write_page(rows, page, limit, out));
            }),
            Purpose::One(ticket, fill) => {
                let Some(row) = rows.iter().next() else {
                    answer_all(fill.end(), || {
                        Response::new(404).content_type(JSON).body(NOT_FOUND)
                    });
                    return send(io, ticket, |reply| reply.status(404).json(NOT_FOUND));
                };
                let mut body = Vec::with_capacity(256);
                items::write_item(row, &mut body);
                // Other requests may wait for it, even if the first client has disconnected.
                answer_all(fill.keep(&body, io.now()), || {
                    let response = Response::new(200).content_type(JSON);
                    response.header("X-Cache", "MISS").body(&*body)
                });
                send(io, ticket, |reply| {
                    reply.header("X-Cache", "MISS").json(&body)
                });
            }
            Purpose::Create(ticket, id) => self.changed(io, ticket, id, 201, rows),
            Purpose::Update(ticket, id) => self.changed(io, ticket, id, 200, rows),
            Purpose::Fortunes(ticket) => send(io, ticket, |reply| {
                reply.send_with("text/html; charset=utf-8", |out| fortunes::write(rows, out));
            }),
        }
    }

    /// Handles a changed item. No client may see the old one once this is answered.
    fn changed(&mut self, io: &mut Io, ticket: Ticket, id: i32, status: u16, rows: &RawRows) {
        self.shared.cache.invalidate(id, io.now());
        let row = rows.iter().next();
        send(io, ticket, |reply| match row {
            Some(row) => reply
                .status(status)
                .send_with(JSON, |out| items::write_item(row, out)),
            None => reply.status(404).json(NOT_FOUND),
        });
    }

    /// Handles a query without an answer.
    fn fall_back(&mut self, io: &mut Io, purpose: Purpose, silence: Silence) {
        match purpose {
            // The arena expects an empty list while the database is unavailable.
            Purpose::Range(ticket) if silence == Silence::Away => send(io, ticket, |reply| {
                reply.json(items::NO_ITEMS);
            }),
            Purpose::Create(ticket, id) | Purpose::Update(ticket, id) => {
                // The change may have been executed nevertheless.
                self.shared.cache.invalidate(id, io.now());
                send(io, ticket, unavailable);
            }
            Purpose::One(ticket, fill) => {
                answer_all(fill.end(), || {
                    let response = Response::new(503).content_type(JSON);
                    response.header("Retry-After", "1").body(UNAVAILABLE)
                });
                send(io, ticket, unavailable);
            }
            Purpose::Range(ticket) | Purpose::List { ticket, .. } | Purpose::Fortunes(ticket) => {
                send(io, ticket, unavailable)
            }
        }
    }
}

/// Why rows are raw.
const RAW: &str = "they are asked for with each query";

const JSON: &str = "application/json";

const NOT_FOUND: &[u8] = b"{\"error\":\"there is no such item\"}";

const UNAVAILABLE: &[u8] = b"{\"error\":\"the database does not answer\"}";

fn unavailable(reply: Reply<'_>) {
    let reply = reply.status(503).header("Retry-After", "1");
    reply.json(UNAVAILABLE);
}

/// Answers the requests that waited for the read of another one.
fn answer_all(waiting: Vec<Deferred>, answer: impl Fn() -> Response) {
    for deferred in waiting {
        deferred.respond(answer());
    }
}

fn id_of(request: &Request<'_>) -> Option<i32> {
    request.param("id")?.parse().ok()
}

/// Answers a request if its client is still connected.
fn send(io: &mut Io, ticket: Ticket, answer: impl FnOnce(Reply<'_>)) {
    if let Some(reply) = io.reply(ticket) {
        answer(reply);
    }
}
