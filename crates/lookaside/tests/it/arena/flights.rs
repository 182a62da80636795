//! Many requests for the same uncached item: one query is sent, and no response is outdated.

use std::path::Path;

use lookaside_client::postgres::{Options, blocking::Connection};
use lookaside_client::{Config, Environment};
use lookaside_embedded::Postgres;
use lookaside_testing::wait_until;
use lookaside_value::Value;

use super::{Arena, Client, ITEM_COUNT, seed, serve};

/// Reads of single items are counted, and wait as long as a session holds a lock. Their snapshot is
/// taken before they wait.
const GATE: &str = "
    create sequence asked;
    create function gate() returns boolean language plpgsql as $$
    begin
        if current_query() like 'select%where id = $1' then
            perform nextval('asked');
            perform pg_advisory_lock_shared(1);
            perform pg_advisory_unlock_shared(1);
        end if;
        return true;
    end $$;
    alter table items rename to stock;
    create view items as select * from stock where gate();
";

/// The sessions that wait for the lock in this database of the cluster.
const WAITING: &str = "select pid from pg_locks where locktype = 'advisory' and not granted \
     and database = (select oid from pg_database where datname = current_database())";

/// The sessions of the server that have prepared the last of its statements.
const PREPARED: &str = "select count(*) from pg_stat_activity where datname = current_database() \
     and state = 'idle' and query = 'select id, message from fortune'";

/// Two for each of two threads.
const SESSION_COUNT: i64 = 4;

/// The connection that can make reads wait.
struct Gate(Connection);

impl Gate {
    fn new() -> (Arena, Self) {
        let postgres = Postgres::builder().start().unwrap();
        let url = postgres.url();
        seed(&url, ITEM_COUNT).unwrap();
        postgres.execute(GATE).unwrap();
        let Config::Postgres(config) = Config::parse(&url, &Environment::of_process()).unwrap()
        else {
            panic!("{url} is PostgreSQL's");
        };
        let connection = Connection::connect_with(&config, Options::default()).unwrap();
        let arena = Arena {
            server: serve(&url, Path::new("/nonexistent")),
            postgres: Some(postgres),
        };
        let mut gate = Self(connection);
        // A read must not wait for another one because the second session is not connected yet.
        wait_until("all sessions are there", || {
            gate.number(PREPARED) == SESSION_COUNT
        });
        (arena, gate)
    }

    fn number(&mut self, sql: &str) -> i64 {
        let answer = self.0.query(sql, &[]).unwrap();
        match answer.rows.row(0) {
            [Value::Int(number)] => *number,
            other => panic!("{other:?}"),
        }
    }

    fn shut(&mut self) {
        self.0.query("select pg_advisory_lock(1)", &[]).unwrap();
    }

    fn open(&mut self) {
        self.0.query("select pg_advisory_unlock(1)", &[]).unwrap();
    }

    /// How many reads there were.
    fn asked(&mut self) -> i64 {
        self.number("select case when is_called then last_value else 0 end from asked")
    }

    fn until_waiting(&mut self, count: i64) {
        let sql = format!("select count(*) from ({WAITING}) as waiting");
        wait_until("reads wait", || self.number(&sql) == count);
    }
}

/// Sends a request for an item on a new connection, and returns when the server has read it.
fn ask(arena: &Arena, id: usize) -> Client {
    let before = arena.server.counters().requests;
    let mut client = arena.client();
    client.send(format!(
        "GET /crud/items/{id} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    ));
    wait_until("it is read", || {
        arena.server.counters().requests == before + 1
    });
    client
}

#[test]
fn one_query_for_many_who_ask_at_once() {
    let (arena, mut gate) = Gate::new();
    gate.shut();
    // The first client does not wait for the response.
    drop(ask(&arena, 7));
    gate.until_waiting(1);
    let mut clients: Vec<_> = (0..24).map(|_| ask(&arena, 7)).collect();
    assert_eq!(gate.asked(), 1);
    gate.open();
    for client in &mut clients {
        let item = client.receive();
        assert_eq!((item.status, &item.json()["id"]), (200, &7.into()));
        assert_eq!(item.header("x-cache"), Some("MISS"));
        assert_eq!(item.header("content-type"), Some("application/json"));
    }
    assert_eq!(gate.asked(), 1);

    // Each client gets its own item, and a missing item is missing for all.
    gate.shut();
    let ids = [1, 65, 999_999, 2, 129];
    let mut clients: Vec<_> = (0..30)
        .map(|index| ids[index % ids.len()])
        .map(|id| (id, ask(&arena, id)))
        .collect();
    gate.open();
    for (id, client) in &mut clients {
        let item = client.receive();
        match *id {
            999_999 => assert_eq!(item.status, 404),
            id => assert_eq!((item.status, &item.json()["id"]), (200, &id.into())),
        }
    }
    // The missing item does not reach the gate.
    assert_eq!(gate.asked(), 1 + ids.len() as i64 - 1);
}

/// The item changes while it is read. Later requests wait for another read, and the first read,
/// which returns the old item, is not cached.
#[test]
fn a_change_while_an_item_is_read() {
    let (arena, mut gate) = Gate::new();
    let old = arena.client().get("/crud/items/5").json();
    let change = r#"{"name":"changed","price":100000,"quantity":1}"#;
    assert_eq!(arena.client().put("/crud/items/5", change).status, 200);
    let change = change.replace("100000", "100001");
    gate.shut();
    let before = [ask(&arena, 5), ask(&arena, 5)];
    gate.until_waiting(1);
    let changed = arena.client().put("/crud/items/5", &change).json();
    assert_eq!(changed["price"], 100_001);
    let after = [ask(&arena, 5), ask(&arena, 5), ask(&arena, 5)];
    gate.until_waiting(2);
    assert_eq!(gate.asked(), 3, "with that of the beginning");
    gate.open();
    for mut client in before {
        let item = client.receive().json();
        assert_eq!((&item["price"], &item["id"]), (&100_000.into(), &old["id"]));
    }
    for mut client in after {
        assert_eq!(client.receive().json(), changed);
    }
    for _ in 0..10 {
        assert_eq!(arena.client().get("/crud/items/5").json(), changed);
    }
}

#[test]
fn a_read_that_fails_is_told_to_all_who_wait() {
    let (arena, mut gate) = Gate::new();
    gate.shut();
    let mut clients: Vec<_> = (0..8).map(|_| ask(&arena, 9)).collect();
    gate.until_waiting(1);
    let cancel = format!("select pg_cancel_backend(pid) from ({WAITING}) as waiting");
    gate.0.query(cancel, &[]).unwrap();
    for client in &mut clients {
        let answer = client.receive();
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    // The same when the session ends.
    let mut clients: Vec<_> = (0..8).map(|_| ask(&arena, 9)).collect();
    gate.until_waiting(1);
    let end = format!("select pg_terminate_backend(pid) from ({WAITING}) as waiting");
    gate.0.query(end, &[]).unwrap();
    for client in &mut clients {
        assert_eq!(client.receive().status, 503);
    }
    gate.open();
    wait_until("it is read again", || {
        let item = arena.client().get("/crud/items/9");
        item.status == 200 && item.json()["id"] == 9
    });
}
