//! The change feed of a provider: answers follow the rows, whatever their lifetime.

mod missed;
mod start;

use std::thread;
use std::time::{Duration, Instant};

use lookaside_client::postgres::Options;
use lookaside_client::postgres::blocking::Connection;
use lookaside_client::{Config, Environment};
use lookaside_embedded::{Binaries, Builder, Postgres};
use lookaside_knowledge::{
    AnsweredBy, Contract, ErrorKind, Extent, FeedResetReason, FeedState, FeedStatus, Freshness,
    Knowledge, Provenance, Statement, Value, params,
};
use lookaside_testing::wait_until;

use super::{open, project, skip};

/// How long anything may take on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// A lifetime that no test waits for.
const LONG: &str = "[cache]\nttl_ms = 3600000";

fn server() -> Option<Postgres> {
    server_with(&[])
}

fn server_with(settings: &[(&str, &str)]) -> Option<Postgres> {
    let found = server_of("18", settings);
    assert!(
        found.is_some() || std::env::var_os("CI").is_none(),
        "CI must have one"
    );
    found
}

/// A server of this version, unless it can neither be found nor downloaded.
fn server_of(version: &str, settings: &[(&str, &str)]) -> Option<Postgres> {
    let requirement = version.parse().unwrap();
    if let Err(error) = Binaries::find(requirement, &()) {
        skip(&format!("no PostgreSQL {version} to test with: {error}"));
        return None;
    }
    let builder = Postgres::builder().version(requirement).fresh_cluster();
    let builder = builder
        .setting("wal_level", "logical")
        .setting("max_prepared_transactions", "5");
    let set = |builder: Builder, (name, value): &(&str, &str)| builder.setting(*name, *value);
    let postgres = settings.iter().fold(builder, set).start().unwrap();
    postgres
        .execute(
            "create table goods (id int primary key, name text not null, price numeric); \
             create table other (id int primary key, name text); \
             insert into goods select id, 'n' || id, id from generate_series(1, 100) as id; \
             create publication lookaside for table goods",
        )
        .unwrap();
    Some(postgres)
}

fn connect(postgres: &Postgres) -> Connection {
    let config = Config::parse(&postgres.url(), &Environment::empty()).unwrap();
    let Config::Postgres(config) = config else {
        panic!("{config} is not PostgreSQL");
    };
    Connection::connect_with(&config, Options::default()).unwrap()
}

/// The only value of a query.
fn text(connection: &mut Connection, sql: &str) -> String {
    let answer = connection.query(sql, &[]).unwrap();
    answer.rows.first().unwrap()[0].to_text().to_string()
}

fn status(knowledge: &Knowledge) -> FeedStatus {
    let provider = knowledge.providers().into_iter().next().unwrap();
    provider.feed.expect("the configuration sets one")
}

/// How often all answers were invalidated for a reason.
fn resets(knowledge: &Knowledge, reason: FeedResetReason) -> u64 {
    let found = status(knowledge).resets().find(|(it, _)| *it == reason);
    found.expect("each reason is counted").1
}

/// Waits until changes invalidate the answers of so many statements.
#[track_caller]
fn wait_until_live(knowledge: &Knowledge, statement_count: u64) {
    wait_until("the feed is not live", || {
        let status = status(knowledge);
        status.state == FeedState::Live
            && status.statement_count >= statement_count
            && status.lag.is_some()
    });
}

fn name(knowledge: &Knowledge, sql: &str, id: impl Into<Value>) -> Option<String> {
    let row = knowledge
        .query_first(sql, &params! { "id" => id.into() })
        .unwrap();
    row.map(|row| row[0].to_text().to_string())
}

const BY_ID: &str = "select name from pg.goods where id = :id";

#[test]
fn an_answer_follows_its_row_and_no_other() {
    let Some(postgres) = server() else { return };
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    assert_eq!(name(&knowledge, BY_ID, 1).as_deref(), Some("n1"));
    wait_until_live(&knowledge, 1);
    let ask = |id: i64| name(&knowledge, BY_ID, id);
    for id in 1..=50 {
        assert_eq!(ask(id), Some(format!("n{id}")));
    }
    assert_eq!(ask(1000), None);
    let queries = || knowledge.snapshot().counts.queries;
    let before = queries();
    for id in 1..=50 {
        ask(id);
    }
    assert_eq!(queries(), before, "answers are in the caches");
    for (sql, id, expected) in [
        ("update goods set name = 'new' where id = 7", 7, Some("new")),
        (
            "insert into goods values (1000, 'born')",
            1000,
            Some("born"),
        ),
        ("delete from goods where id = 8", 8, None),
        ("update goods set id = 2000 where id = 9", 9, None),
        ("update goods set id = 9 where id = 2000", 9, Some("n9")),
        (
            "begin; update goods set name = 'x' where id = 10; savepoint a; \
          update goods set name = 'y' where id = 10; rollback to a; commit",
            10,
            Some("x"),
        ),
    ] {
        postgres.execute(sql).unwrap();
        wait_until(sql, || ask(id).as_deref() == expected);
    }
    let before = queries();
    for id in 11..=50 {
        ask(id);
    }
    let asked = queries() - before;
    assert!(asked <= 2, "{asked} of 40 other answers were invalidated");
    postgres.execute("truncate goods").unwrap();
    wait_until("truncate", || ask(30).is_none());
}

#[test]
fn parameters_of_other_types_are_the_same_key() {
    let Some(postgres) = server() else { return };
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    name(&knowledge, BY_ID, 1);
    wait_until_live(&knowledge, 1);
    assert_eq!(name(&knowledge, BY_ID, "7").as_deref(), Some("n7"));
    assert_eq!(name(&knowledge, BY_ID, 7.0).as_deref(), Some("n7"));
    postgres
        .execute("update goods set name = 'new' where id = 7")
        .unwrap();
    wait_until("text", || {
        name(&knowledge, BY_ID, "7").as_deref() == Some("new")
    });
    wait_until("float", || {
        name(&knowledge, BY_ID, 7.0).as_deref() == Some("new")
    });
}

#[test]
fn a_statement_over_a_table_follows_each_row() {
    let Some(postgres) = server() else { return };
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    let sql = "select count(*) as n from pg.goods where price > :id";
    assert_eq!(name(&knowledge, sql, 50).as_deref(), Some("50"));
    wait_until_live(&knowledge, 1);
    assert_eq!(name(&knowledge, sql, 50).as_deref(), Some("50"));
    postgres
        .execute("delete from goods where id = 100")
        .unwrap();
    wait_until("delete", || {
        name(&knowledge, sql, 50).as_deref() == Some("49")
    });
}

fn answer(
    knowledge: &Knowledge,
    statement: &Statement,
    contract: Contract,
) -> (String, Provenance) {
    let mut session = knowledge.session();
    let id = [Value::Int(1)];
    let freshness = Freshness::from(contract);
    if let Some(served) = session
        .try_local(statement, &id, Extent::First, freshness)
        .unwrap()
    {
        let text = served.rows.iter().next().unwrap()[0].to_text().to_string();
        return (text, served.provenance);
    }
    let answered = knowledge.answer_async(statement, &id, Extent::First, freshness);
    let (rows, provenance) = crate::non_blocking::block_on(answered).unwrap();
    (rows.first().unwrap()[0].to_text().to_string(), provenance)
}

#[test]
fn a_contract_is_kept_from_the_commit_on() {
    let Some(postgres) = server() else { return };
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    let statement = knowledge.prepare(BY_ID).unwrap();
    answer(&knowledge, &statement, Contract::ANY);
    wait_until_live(&knowledge, 1);
    let mut writer = connect(&postgres);
    let within = Contract::within(Duration::from_millis(100));
    let mut cached_count = 0;
    for round in 0..50 {
        let sql = format!("update goods set name = 'v{round}' where id = 1");
        writer.query(&*sql, &[]).unwrap();
        let committed = Instant::now();
        let expected = format!("v{round}");
        assert_eq!(answer(&knowledge, &statement, Contract::NOW).0, expected);
        let position = writer
            .query("select pg_current_wal_insert_lsn()::text", &[])
            .unwrap();
        let position = position.rows.first().unwrap()[0].to_text().parse().unwrap();
        assert_eq!(
            answer(&knowledge, &statement, Contract::after(position)).0,
            expected
        );
        // sleep: until the contract no longer permits the answer before
        thread::sleep(Duration::from_millis(110));
        assert!(committed.elapsed() > Duration::from_millis(100));
        for _ in 0..3 {
            let (text, provenance) = answer(&knowledge, &statement, within);
            assert_eq!(text, expected);
            cached_count += u32::from(provenance.by != AnsweredBy::Provider);
            if provenance.by != AnsweredBy::Provider {
                let at = provenance.fresh_as_of().unwrap();
                assert!(at.elapsed() < DEADLINE);
            }
        }
    }
    assert!(cached_count > 0, "a live feed lets caches answer");
}

/// A stale answer has the version of its key, so that other callers without a contract find it.
#[test]
fn issue_15_a_stale_answer_that_is_cached_satisfies_no_contract() {
    let Some(postgres) = server() else { return };
    let more = "feed = 'auto'\nquery_timeout_ms = 500\nstale_if_error_ms = 3600000";
    let folder = project(&postgres.url(), more, LONG);
    let knowledge = open(&folder);
    let statement = knowledge.prepare(BY_ID).unwrap();
    answer(&knowledge, &statement, Contract::ANY);
    wait_until_live(&knowledge, 1);
    answer(&knowledge, &statement, Contract::ANY);
    // The feed goes on while queries of the table wait.
    let mut writer = connect(&postgres);
    for sql in [
        "update goods set name = 'new' where id = 1",
        "begin",
        "lock table goods",
    ] {
        writer.query(sql, &[]).unwrap();
    }
    wait_until("no stale answer is used", || {
        answer(&knowledge, &statement, Contract::ANY).1.is_stale
    });
    let id = [Value::Int(1)];
    let mut session = knowledge.session();
    for contract in [
        Contract::within(Duration::from_secs(3600)),
        Contract::after("0/1".parse().unwrap()),
    ] {
        let (text, provenance) = answer(&knowledge, &statement, Contract::ANY);
        assert!(provenance.is_stale, "{text}: {provenance:?}");
        assert!(!provenance.version.is_tracked(), "{provenance:?}");
        wait_until_live(&knowledge, 1);
        let local = session.try_local(&statement, &id, Extent::First, contract.into());
        let local = local.unwrap().map(|it| it.provenance);
        assert!(local.is_none(), "{contract:?}: {local:?}");
        session.set_freshness(contract.into());
        let error = session.first(&statement, &id).unwrap_err();
        assert!(error.is_retryable(), "{contract:?}: {error}");
    }
    writer.query("rollback", &[]).unwrap();
    assert_eq!(
        session.first(&statement, &id).unwrap().unwrap()[0].to_text(),
        "new"
    );
}

#[test]
fn a_lost_feed_is_replaced_and_misses_nothing() {
    let Some(postgres) = server() else { return };
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    name(&knowledge, BY_ID, 1);
    for round in 0..3 {
        wait_until_live(&knowledge, 1);
        assert!(name(&knowledge, BY_ID, 1).is_some());
        let resets = status(&knowledge).reset_count;
        let (victim, sql) = match round {
            0 => (
                "walsender",
                "select pg_terminate_backend(active_pid) from pg_replication_slots",
            ),
            1 => (
                "slot",
                "select pg_terminate_backend(active_pid) from pg_replication_slots",
            ),
            _ => (
                "gate",
                "select pg_terminate_backend(pid) from pg_stat_activity \
                 where query like '%pg_current_snapshot%' and pid <> pg_backend_pid()",
            ),
        };
        postgres.execute(sql).unwrap();
        let sql = format!("update goods set name = '{victim}' where id = 1");
        postgres.execute(&sql).unwrap();
        wait_until(victim, || status(&knowledge).reset_count > resets);
        wait_until(victim, || {
            name(&knowledge, BY_ID, 1).as_deref() == Some(victim)
        });
    }
    let lost = resets(&knowledge, FeedResetReason::ConnectionLost);
    assert!(lost >= 3, "{:?}", status(&knowledge));
}

#[test]
fn a_changed_definition_is_noticed() {
    let Some(postgres) = server() else { return };
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    let sql = "select price from pg.goods where id = :id";
    assert_eq!(name(&knowledge, sql, 7).as_deref(), Some("7"));
    wait_until_live(&knowledge, 1);
    name(&knowledge, sql, 7);
    // No row event tells this.
    postgres
        .execute("alter table goods alter column price type numeric using price * 10")
        .unwrap();
    wait_until("rewritten", || {
        name(&knowledge, sql, 7).as_deref() == Some("70")
    });
    wait_until_live(&knowledge, 1);
    let changed = resets(&knowledge, FeedResetReason::DefinitionChanged);
    assert!(changed >= 1, "{:?}", status(&knowledge));
    // Its changes are not sent any more: the statement is not tracked.
    postgres
        .execute("alter publication lookaside drop table goods")
        .unwrap();
    wait_until("unpublished", || status(&knowledge).statement_count == 0);
    postgres
        .execute("update goods set price = 1 where id = 7")
        .unwrap();
    let statement = knowledge.prepare(sql).unwrap();
    let id = [Value::Int(7)];
    let now = Freshness::from(Contract::NOW);
    let answered = knowledge.answer_async(&statement, &id, Extent::First, now);
    let (rows, _) = crate::non_blocking::block_on(answered).unwrap();
    assert_eq!(rows.first().unwrap()[0].to_text(), "1");
}

#[test]
fn a_server_without_what_the_feed_needs_is_named() {
    let Some(postgres) = server() else { return };
    for (more, change, expected) in [
        (
            "feed = 'auto'\nfeed_publication = 'missing'",
            "select 1",
            "missing",
        ),
        ("feed = 'auto'\npooler = true", "select 1", "pooler"),
    ] {
        postgres.execute(change).unwrap();
        let folder = project(&postgres.url(), more, LONG);
        let knowledge = open(&folder);
        assert_eq!(name(&knowledge, BY_ID, 1).as_deref(), Some("n1"));
        wait_until(expected, || {
            let status = status(&knowledge);
            let reason = status.reason.unwrap_or_default();
            status.state == FeedState::Down && reason.contains(expected)
        });
        // One that is refused by the configuration never connects.
        let refused = resets(&knowledge, FeedResetReason::Refused);
        assert_eq!(refused > 0, expected == "missing");
        assert_eq!(name(&knowledge, BY_ID, 1).as_deref(), Some("n1"));
    }
}

#[test]
fn the_figures_follow_the_changes() {
    let Some(postgres) = server() else { return };
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    let idle = status(&knowledge);
    assert_eq!((idle.state, idle.probe_count), (FeedState::Idle, 0));
    assert_eq!((idle.lag, idle.slot_wal_size), (None, None));
    name(&knowledge, BY_ID, 1);
    wait_until_live(&knowledge, 1);
    let before = status(&knowledge);
    assert!(before.probe_count > 0);
    assert!(before.slot_wal_size.is_some(), "it is asked for at first");
    assert_eq!(before.gate_wait_count, 0);
    postgres
        .execute("update goods set price = 0 where id <= 3; insert into other values (1, 'x')")
        .unwrap();
    wait_until("a transaction", || status(&knowledge).gate_wait_count == 1);
    let after = status(&knowledge);
    assert_eq!((after.row_count, after.transaction_count), (3, 1));
    assert_eq!((after.queue_len, after.reset_count), (0, 0));
    // An idle server is asked, too.
    let count = after.probe_count;
    wait_until("idle", || status(&knowledge).probe_count > count);
}

/// A commit is in the log, but not visible, as long as a synchronous standby does not confirm it.
#[test]
fn the_wait_for_the_gate_is_measured() {
    // Only sessions that ask for it wait for the standby, which does not exist.
    let settings = [
        ("synchronous_standby_names", "nobody"),
        ("synchronous_commit", "local"),
    ];
    let Some(postgres) = server_with(&settings) else {
        return;
    };
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    name(&knowledge, BY_ID, 1);
    wait_until_live(&knowledge, 1);
    let (mut writer, mut observer) = (connect(&postgres), connect(&postgres));
    let sql = "select set_config('synchronous_commit', 'on', false)";
    writer.query(sql, &[]).unwrap();
    let waited = thread::scope(|scope| {
        let writing = scope.spawn(move || {
            let sql = "update goods set name = 'late' where id = 1";
            writer.query(sql, &[]).unwrap();
        });
        wait_until("the queue", || status(&knowledge).queue_len == 1);
        let received = Instant::now();
        let held = status(&knowledge);
        assert_eq!((held.gate_wait_count, held.transaction_count), (0, 1));
        assert_eq!(name(&knowledge, BY_ID, 1).as_deref(), Some("n1"));
        let waited = received.elapsed();
        // It has committed, and is told not to wait. It may not have begun to.
        wait_until("the commit", || {
            let sql = "select count(pg_cancel_backend(pid)) from pg_stat_activity \
                       where wait_event = 'SyncRep'";
            let found = observer.query(sql, &[]).unwrap();
            found.rows.first().unwrap()[0].to_text() == "1"
        });
        writing.join().unwrap();
        waited
    });
    wait_until("applied", || status(&knowledge).gate_wait_count == 1);
    let applied = status(&knowledge);
    assert_eq!(applied.queue_len, 0);
    assert_eq!(applied.gate_wait_max, applied.gate_wait_total);
    assert!(applied.gate_wait_max >= waited, "{applied:?}");
    assert_eq!(name(&knowledge, BY_ID, 1).as_deref(), Some("late"));
}

#[test]
fn an_answer_that_is_outdated_on_arrival_is_counted() {
    let Some(postgres) = server() else { return };
    postgres
        .execute("insert into other values (7, 'x'); alter publication lookaside add table other")
        .unwrap();
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    let sql = "select g.name from pg.goods g, pg.other o where g.id = :id and o.id = 7";
    name(&knowledge, sql, 1);
    wait_until_live(&knowledge, 1);
    name(&knowledge, sql, 1);
    assert_eq!(status(&knowledge).refused_fill_count, 0);
    let (mut locker, mut observer) = (connect(&postgres), connect(&postgres));
    locker.query("begin", &[]).unwrap();
    locker.query("lock table other", &[]).unwrap();
    thread::scope(|scope| {
        let asking = scope.spawn(|| name(&knowledge, sql, 2));
        wait_until("the query", || {
            let sql =
                "select count(*) from pg_locks where not granted and relation = 'other'::regclass";
            let found = observer.query(sql, &[]).unwrap();
            found.rows.first().unwrap()[0].to_text() == "1"
        });
        let change = "update goods set name = 'new' where id = 2";
        observer.query(change, &[]).unwrap();
        wait_until("applied", || status(&knowledge).gate_wait_count == 1);
        locker.query("commit", &[]).unwrap();
        assert_eq!(asking.join().unwrap().as_deref(), Some("new"));
    });
    assert_eq!(status(&knowledge).refused_fill_count, 1);
    let queries = knowledge.snapshot().counts.queries;
    assert_eq!(name(&knowledge, sql, 2).as_deref(), Some("new"));
    assert_eq!(knowledge.snapshot().counts.queries, queries + 1);
}

#[test]
fn a_slot_that_holds_back_too_much_is_given_up() {
    let Some(postgres) = server() else { return };
    let more = "feed = 'auto'\nfeed_wal_max = 16777216";
    let folder = project(&postgres.url(), more, LONG);
    let knowledge = open(&folder);
    name(&knowledge, BY_ID, 1);
    wait_until_live(&knowledge, 1);
    let first = status(&knowledge).slot.unwrap();
    let slots = |sql: &str| {
        let sql = format!("select slot_name::text from pg_replication_slots {sql}");
        let found = connect(&postgres).query(&*sql, &[]).unwrap().rows;
        found.first().map(|row| row[0].to_text().to_string())
    };
    assert_eq!(slots("").as_ref(), Some(&first));
    // The log is needed from the begin of the oldest transaction on.
    let mut writer = connect(&postgres);
    writer.query("begin", &[]).unwrap();
    let insert = "insert into other values (1, 'x')";
    writer.query(insert, &[]).unwrap();
    postgres
        .execute("select pg_logical_emit_message(false, 'x', repeat('x', 20000000))")
        .unwrap();
    wait_until("the limit", || {
        resets(&knowledge, FeedResetReason::WalLimit) == 1
    });
    wait_until("the slot", || slots("").as_ref() != Some(&first));
    let reason = status(&knowledge).reason.unwrap();
    assert!(reason.contains("feed_wal_max = 16777216"), "{reason}");
    writer.query("commit", &[]).unwrap();
    wait_until_live(&knowledge, 1);
    let after = status(&knowledge);
    assert_eq!(after.reason, None);
    assert_ne!(after.slot, Some(first));
    assert!(after.slot_wal_size.unwrap() < 16 << 20, "{after:?}");
    postgres
        .execute("update goods set name = 'new' where id = 1")
        .unwrap();
    wait_until("a change", || {
        name(&knowledge, BY_ID, 1).as_deref() == Some("new")
    });
}

#[test]
fn a_writer_in_this_process_invalidates_its_rows_at_once() {
    let Some(postgres) = server() else { return };
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    let early = knowledge.touch("pg.goods", &params! { "id" => 1 });
    assert_eq!(early.unwrap_err().kind(), ErrorKind::Unavailable);
    let all = "select count(*) as n from pg.goods where price > :id";
    name(&knowledge, BY_ID, 1);
    name(&knowledge, all, 50);
    wait_until_live(&knowledge, 2);
    let ask = || {
        for id in 1..=20 {
            assert_eq!(name(&knowledge, BY_ID, id), Some(format!("n{id}")));
        }
        assert_eq!(name(&knowledge, all, 50).as_deref(), Some("50"));
    };
    // Nothing is changed in the database, so the feed invalidates nothing.
    let asked_after = |table: &str, row: &[(&str, Value)]| {
        ask();
        let queries = || knowledge.snapshot().counts.queries;
        let before = queries();
        ask();
        assert_eq!(queries(), before, "answers are in the caches");
        knowledge.touch(table, row).unwrap();
        ask();
        queries() - before
    };
    // The row, the count, and rows that share a counter with one of them.
    for table in ["pg.goods", "pg.public.goods", "pg.\"goods\"", "pg.GOODS"] {
        for id in [Value::Int(7), Value::from("7")] {
            let row = [("id", id), ("name", Value::from("x"))];
            let asked = asked_after(table, &row);
            assert!((2..=4).contains(&asked), "{table}: {asked}");
        }
    }
    assert!(asked_after("pg.other", &params! { "id" => 7 }) <= 1);
    // The key is not known.
    assert_eq!(asked_after("pg.goods", &params! { "name" => "n7" }), 21);
    for (table, expected) in [
        ("goods", "`goods` does not name a table of a provider"),
        ("nowhere.goods", "nowhere"),
    ] {
        let refused = knowledge.touch(table, &[]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused);
        assert!(refused.to_string().contains(expected), "{refused}");
    }
    // An answer that was queried before the write is not used after it.
    for round in 0..50 {
        let sql = format!("update goods set name = 'v{round}' where id = 7");
        postgres.execute(&sql).unwrap();
        knowledge.touch("pg.goods", &params! { "id" => 7 }).unwrap();
        assert_eq!(name(&knowledge, BY_ID, 7), Some(format!("v{round}")));
    }
}
