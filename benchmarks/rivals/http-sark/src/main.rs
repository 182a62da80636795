//! rival-http-sark: sark and cartel-pg over io_uring on PORT (8080), with the server of DATABASE_URL.
//!
//! Its best settings, as its authors run it: a thread a core, pinned; DATABASE_MAX_CONN (16)
//! connections dealt to the threads, each of which pipelines; rows encoded by hand. The system's
//! allocator: its runtime locks all memory, and so what mimalloc reserves for later.

mod cache;
mod database;

use std::env;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::{Context as _, Result};
use cartel_pg::{Client, Config, Port, port};
use dope::manifold::connector::source::health::Static;
use dope::manifold::env::Bundle;
use dope_net::tcp::Tcp;
use dope_net::wire::identity::Identity;
use http::StatusCode;
use o3::buffer::{Bytes, Retained};
use sark::http::Response;
use sark::{HttpServer, Throughput, app, driver, listener, tcp};
use serde::Deserialize;

use crate::cache::CACHE;
use crate::database::{Db, Fortune, Item};

type Env = Bundle<Tcp, Identity, Throughput>;

const CONNECTION_COUNT_MAX: usize = 1024;
/// Requests of a route at once. Its tasks stand on the stack of a thread, which has no room for more.
const TASK_COUNT_MAX: usize = 256;
const HTTP_LISTENER_ID: u8 = 0;
const DATE_UPDATER_ID: u8 = 1;
const PG_CONNECTOR_ID: u8 = 2;
/// Questions on a connection of the database at once.
const PIPELINED_MAX: usize = 64;

#[derive(Clone, Copy)]
struct State<'d> {
    database: Client<'d, Db>,
}

#[sark_gen::response(raw)]
#[header("content-type", "text/plain")]
struct Plain {
    status: StatusCode,
    body: Vec<u8>,
}

#[sark_gen::response(raw)]
#[header("content-type", "text/plain")]
struct Fixed {
    status: StatusCode,
    body: &'static [u8],
}

#[sark_gen::request]
struct Nothing {}

#[sark_gen::handler]
fn ok(_request: Nothing, _state: &State<'_>) -> Fixed {
    Fixed {
        status: StatusCode::OK,
        body: b"ok",
    }
}

#[sark_gen::request(ordered)]
struct Sum {
    #[query("a", default = "0")]
    a: usize,
    #[query("b", default = "0")]
    b: usize,
}

#[sark_gen::handler]
fn baseline(request: Sum, _state: &State<'_>) -> Plain {
    let body = (request.a + request.b).to_string().into_bytes();
    Plain {
        status: StatusCode::OK,
        body,
    }
}

#[sark_gen::request(ordered)]
struct SumOfBody {
    #[query("a", default = "0")]
    a: usize,
    #[query("b", default = "0")]
    b: usize,
    #[raw_body]
    payload: Bytes<Retained>,
}

#[sark_gen::handler]
fn baseline_body(request: SumOfBody, _state: &State<'_>) -> Plain {
    let text = std::str::from_utf8(request.payload.as_slice()).unwrap_or_default();
    let sum = request.a + request.b + text.trim().parse::<usize>().unwrap_or(0);
    Plain {
        status: StatusCode::OK,
        body: sum.to_string().into_bytes(),
    }
}

#[sark_gen::response(raw)]
#[header("content-type", "application/json")]
struct Json {
    status: StatusCode,
    body: Vec<u8>,
}

#[sark_gen::request(ordered)]
struct Range {
    #[query("min", default = "10")]
    min: usize,
    #[query("max", default = "50")]
    max: usize,
    #[query("limit", default = "50")]
    limit: usize,
}

#[sark_gen::handler]
async fn async_db(request: Range, state: &State<'_>) -> Json {
    let count = request.limit.clamp(1, 50) as i64;
    let found = Item::range(
        &state.database,
        request.min as i32,
        request.max as i32,
        count,
    );
    let items = match found.await {
        Ok(items) => items,
        Err(error) => return failed(&error),
    };
    let mut body = Vec::with_capacity(256 * (items.len() + 1));
    body.extend_from_slice(b"{\"items\":[");
    encode_all(&items, &mut body);
    body.extend_from_slice(format!("],\"count\":{}}}", items.len()).as_bytes());
    Json {
        status: StatusCode::OK,
        body,
    }
}

#[sark_gen::request(ordered)]
struct Id {
    #[path("id")]
    id: usize,
}

#[sark_gen::response(raw)]
#[header("content-type", "text/html; charset=utf-8")]
struct Html {
    status: StatusCode,
    body: Vec<u8>,
}

#[sark_gen::handler]
async fn fortunes(state: &State<'_>) -> Html {
    let Ok(mut rows) = Fortune::everything(&state.database, 0).await else {
        return Html {
            status: StatusCode::BAD_GATEWAY,
            body: Vec::new(),
        };
    };
    rows.push(Fortune {
        id: 0,
        message: "Additional fortune added at request time.".into(),
    });
    rows.sort_unstable_by(|a, b| a.message.cmp(&b.message));
    let mut page = Vec::with_capacity(32 << 10);
    page.extend_from_slice(
        b"<!DOCTYPE html><html><head><title>Fortunes</title></head><body><table>\
          <tr><th>id</th><th>message</th></tr>",
    );
    for fortune in &rows {
        page.extend_from_slice(b"<tr><td>");
        page.extend_from_slice(fortune.id.to_string().as_bytes());
        page.extend_from_slice(b"</td><td>");
        escape(&fortune.message, &mut page);
        page.extend_from_slice(b"</td></tr>");
    }
    page.extend_from_slice(b"</table></body></html>");
    Html {
        status: StatusCode::OK,
        body: page,
    }
}

#[sark_gen::handler]
async fn read(request: Id, state: &State<'_>) -> Response {
    let id = request.id as i32;
    let updates = match CACHE.find(id) {
        Ok(item) => return json(StatusCode::OK, "HIT", item),
        Err(updates) => updates,
    };
    match Item::by_id(&state.database, id).await {
        Ok(Some(item)) => {
            let mut body = Vec::with_capacity(256);
            encode(&item, &mut body);
            CACHE.keep(id, updates, body.clone());
            json(StatusCode::OK, "MISS", body)
        }
        Ok(None) => json(StatusCode::NOT_FOUND, "MISS", Vec::new()),
        Err(error) => unanswered(&error),
    }
}

fn json(status: StatusCode, cache: &'static str, body: Vec<u8>) -> Response {
    let mut response = Response::new(status);
    response.content_type("application/json");
    response.append_wire_header_static("x-cache", cache);
    response.set_body(body);
    response
}

fn unanswered(error: &cartel_pg::Error) -> Response {
    eprintln!("{error}");
    Response::new(StatusCode::BAD_GATEWAY)
}

#[sark_gen::request(ordered)]
struct Page {
    #[query("category", default = "electronics")]
    category: Bytes<Retained>,
    #[query("page", default = "1")]
    page: usize,
    #[query("limit", default = "10")]
    limit: usize,
}

#[sark_gen::handler]
async fn list(request: Page, state: &State<'_>) -> Json {
    let category = String::from_utf8_lossy(request.category.as_slice()).into_owned();
    let (page, count) = (request.page.max(1), request.limit.clamp(1, 50));
    let offset = ((page - 1) * count) as i64;
    let items = match Item::page(&state.database, category, count as i64, offset).await {
        Ok(items) => items,
        Err(error) => return failed(&error),
    };
    let mut body = Vec::with_capacity(256 * (items.len() + 1));
    body.extend_from_slice(b"{\"items\":[");
    encode_all(&items, &mut body);
    let end = format!(
        "],\"total\":{},\"page\":{page},\"limit\":{count}}}",
        items.len()
    );
    body.extend_from_slice(end.as_bytes());
    Json {
        status: StatusCode::OK,
        body,
    }
}

#[sark_gen::request(ordered)]
struct Create {
    #[raw_body]
    payload: Bytes<Retained>,
}

#[derive(Deserialize)]
struct Created {
    id: i32,
    name: String,
    category: String,
    price: i32,
    quantity: i32,
}

#[sark_gen::handler]
async fn create(request: Create, state: &State<'_>) -> Response {
    let Ok(item) = serde_json::from_slice::<Created>(request.payload.as_slice()) else {
        return Response::new(StatusCode::BAD_REQUEST);
    };
    let Created {
        id,
        name,
        category,
        price,
        quantity,
    } = item;
    let (new_name, new_category) = (name.clone(), category.clone());
    let tags = cartel_pg::Jsonb::from_string("[]".into());
    let created = Item::create(
        &state.database,
        id,
        name,
        category,
        price,
        quantity,
        true,
        tags,
        0,
        new_name,
        new_category,
    );
    if let Err(error) = created.await {
        return unanswered(&error);
    }
    CACHE.forget(id);
    let mut response = Response::new(StatusCode::CREATED);
    response.content_type("application/json");
    response.set_body(request.payload.as_slice().to_vec());
    response
}

#[sark_gen::request(ordered)]
struct Update {
    #[path("id")]
    id: usize,
    #[raw_body]
    payload: Bytes<Retained>,
}

#[derive(Deserialize)]
struct Updated {
    name: String,
    price: i32,
    quantity: i32,
}

#[sark_gen::handler]
async fn update(request: Update, state: &State<'_>) -> Response {
    let Ok(item) = serde_json::from_slice::<Updated>(request.payload.as_slice()) else {
        return Response::new(StatusCode::BAD_REQUEST);
    };
    let id = request.id as i32;
    let changed = Item::change(&state.database, id, item.name, item.price, item.quantity).await;
    CACHE.forget(id);
    match changed {
        Ok(Some(item)) => {
            let mut body = Vec::with_capacity(256);
            encode(&item, &mut body);
            let mut response = Response::new(StatusCode::OK);
            response.content_type("application/json");
            response.set_body(body);
            response
        }
        Ok(None) => Response::new(StatusCode::NOT_FOUND),
        Err(error) => unanswered(&error),
    }
}

fn failed(error: &cartel_pg::Error) -> Json {
    eprintln!("{error}");
    Json {
        status: StatusCode::BAD_GATEWAY,
        body: Vec::new(),
    }
}

fn encode_all(items: &[Item], body: &mut Vec<u8>) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        encode(item, body);
    }
}

/// The seeded texts are plain ASCII.
fn encode(item: &Item, body: &mut Vec<u8>) {
    use std::io::Write as _;
    let Item {
        id,
        name,
        category,
        price,
        quantity,
        active,
        ..
    } = item;
    let (score, count) = (item.rating_score, item.rating_count);
    write!(
        body,
        "{{\"id\":{id},\"name\":\"{name}\",\"category\":\"{category}\",\"price\":{price},\
         \"quantity\":{quantity},\"active\":{active},\"tags\":"
    )
    .expect("a vector takes any bytes");
    body.extend_from_slice(item.tags.as_bytes());
    write!(
        body,
        ",\"rating\":{{\"score\":{score},\"count\":{count}}}}}"
    )
    .expect("a vector takes any bytes");
}

fn escape(mut text: &str, page: &mut Vec<u8>) {
    while let Some(at) = text.find(['&', '<', '>', '"', '\'']) {
        page.extend_from_slice(&text.as_bytes()[..at]);
        page.extend_from_slice(match text.as_bytes()[at] {
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'"' => b"&quot;",
            _ => b"&#39;",
        });
        text = &text[at + 1..];
    }
    page.extend_from_slice(text.as_bytes());
}

sark_gen::define_route! {
    Arena: State<'_> => {
        GET "/ok" => ok,
        GET "/pipeline" => ok,
        GET "/baseline11" => baseline,
        POST "/baseline11" => baseline_body,
        GET "/async-db" => async(capacity = TASK_COUNT_MAX) async_db,
        GET "/fortunes" => async(capacity = TASK_COUNT_MAX) fortunes,
        GET "/crud/items" => async(capacity = TASK_COUNT_MAX) list,
        GET "/crud/items/:id" => async(capacity = TASK_COUNT_MAX) read,
        POST "/crud/items" => async(capacity = TASK_COUNT_MAX) create,
        PUT "/crud/items/:id" => async(capacity = TASK_COUNT_MAX) update,
    }
}

fn main() -> Result<()> {
    let bind = SocketAddr::from((
        Ipv4Addr::UNSPECIFIED,
        env::var("PORT").unwrap_or("8080".into()).parse()?,
    ));
    // Without a server it tries again and again, and answers what needs none.
    let url = env::var("DATABASE_URL").unwrap_or("postgres://bench@127.0.0.1:1/benchmark".into());
    let url = url::Url::parse(&url)?;
    let database = (
        url.host_str().context("a host")?,
        url.port().unwrap_or(5432),
    )
        .to_socket_addrs()?
        .next()
        .context("the database has no address")?;
    let config = Config::new(
        url.username(),
        url.password().unwrap_or_default(),
        url.path().trim_start_matches('/'),
    );
    let cores: Vec<u16> = (0..std::thread::available_parallelism()?.get() as u16).collect();
    let connection_count: usize = env::var("DATABASE_MAX_CONN")
        .unwrap_or("16".into())
        .parse()?;
    let share = (connection_count / cores.len()).max(1);
    let port_config = port::Config::new(port::Capacities {
        connections: share,
        request_entries: share * PIPELINED_MAX,
        request_bytes: 4 << 10,
        response_entries: 65_536,
        response_bytes: 64 << 20,
        inflight: share * PIPELINED_MAX,
        waiters: CONNECTION_COUNT_MAX,
        notifications: 1024,
    })
    .map_err(io::Error::other)?;
    let server = HttpServer::<HTTP_LISTENER_ID, DATE_UPDATER_ID, Throughput>::new(
        listener::config::Config::<Tcp> {
            bind,
            max_connections: CONNECTION_COUNT_MAX,
            backlog: 4096,
            stream: tcp::stream::Config {
                no_delay: Some(true),
                ..Default::default()
            },
            transport: tcp::listener::Config {
                reuse_port: true,
                ..Default::default()
            },
            egress: Default::default(),
        },
        Duration::from_secs(10),
    );
    server.run_with_storage(
        cores,
        |_| driver::Config::for_tcp_profile::<Throughput>(CONNECTION_COUNT_MAX),
        move |_, _| Port::<Db>::factory(config.clone(), port_config),
        move |server, session| {
            let domain = dope::hash::domain::BACKOFF ^ u64::from(PG_CONNECTOR_ID);
            let backoff = session.seed().derive(domain).state();
            let retry = Duration::from_millis(500);
            let (client, connector) = cartel_pg::attach::<PG_CONNECTOR_ID, Env, Db>(
                session,
                Static::<Tcp>::new(vec![database], retry, backoff),
            )?;
            let state = State { database: client };
            let timer = sark::Timer::new();
            let app = Arena::new(
                &state,
                &timer,
                app::Config {
                    task_capacity: CONNECTION_COUNT_MAX,
                },
            );
            server.serve_with_resource(session, app, connector, None)
        },
    )?;
    Ok(())
}
