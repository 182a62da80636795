//! Changes that a feed could miss: large transactions, commits that are not visible yet, definitions that
//! change again and again, and changes of another database.

use std::thread;
use std::time::{Duration, Instant};

use lookaside_client::postgres::blocking::Connection;
use lookaside_embedded::Postgres;
use lookaside_knowledge::{Contract, FeedState, Knowledge, Value};
use lookaside_testing::wait_until;

use super::{
    BY_ID, LONG, connect, name, open, project, server, server_of, server_with, status, text,
    wait_until_live,
};

const OTHER: &str = "select name from pg.other where id = :id";

#[test]
fn issue_15_no_change_of_a_large_transaction_is_lost() {
    const COUNT: i64 = 6000;
    let Some(postgres) = server() else { return };
    let insert =
        format!("insert into goods select i, 'old', 1 from generate_series(101, {COUNT}) i");
    postgres.execute(&insert).unwrap();
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    let statement = knowledge.prepare(BY_ID).unwrap();
    let mut session = knowledge.session();
    session.first(&statement, &[Value::Int(1)]).unwrap();
    wait_until_live(&knowledge, 1);
    let mut read_all = || -> Vec<String> {
        let mut read = |id| {
            let row = session.first(&statement, &[Value::Int(id)]).unwrap();
            row.unwrap()[0].to_text().to_string()
        };
        (1..=COUNT).map(&mut read).collect()
    };
    for round in 0..3 {
        read_all();
        let mut writer = connect(&postgres);
        let new = format!("v{round}");
        let update = format!("update goods set name = '{new}'");
        writer.query(&*update, &[]).unwrap();
        wait_until("applied", || {
            status(&knowledge).gate_wait_count == round + 1
        });
        let old = read_all().into_iter().filter(|name| *name != new).count();
        assert_eq!(old, 0, "of {COUNT} rows in round {round}");
    }
}

/// Waits until the feed is refused because of its `feed_uri`, and of this.
fn wait_until_refused(knowledge: &Knowledge, because: &str) {
    wait_until("it is refused", || {
        let status = status(knowledge);
        assert_ne!(status.state, FeedState::Live);
        let reason = status.reason.unwrap_or_default();
        reason.contains(because) && reason.contains("feed_uri")
    });
}

/// Ends the wait of a commit for the standby, also if a test fails.
struct HiddenCommit(Connection);

const WAITING: &str = "from pg_stat_activity where wait_event = 'SyncRep'";

impl Drop for HiddenCommit {
    fn drop(&mut self) {
        let sql = format!("select count(pg_cancel_backend(pid)) {WAITING}");
        text(&mut self.0, &sql);
    }
}

/// Calls `while_hidden` after a transaction was sent to the feed and before it is visible.
fn with_hidden_commit(postgres: &Postgres, sql: &'static str, while_hidden: impl FnOnce()) {
    let (mut writer, mut observer) = (connect(postgres), connect(postgres));
    let wait = "select set_config('synchronous_commit', 'on', false)";
    writer.query(wait, &[]).unwrap();
    thread::scope(|scope| {
        let writing = scope.spawn(move || writer.query(sql, &[]).unwrap());
        wait_until("the commit", || {
            text(&mut observer, &format!("select count(*) {WAITING}")) == "1"
        });
        let mut hidden = HiddenCommit(observer);
        let end = text(&mut hidden.0, "select pg_current_wal_flush_lsn()");
        wait_until("the stream", || {
            let sql = format!("select bool_and(flush_lsn >= '{end}') from pg_stat_replication");
            text(&mut hidden.0, &sql) == "true"
        });
        while_hidden();
        drop(hidden);
        writing.join().unwrap();
    });
}

#[test]
fn issue_15_a_statement_is_not_tracked_before_an_earlier_commit_is_visible() {
    // Only sessions that ask for it wait for the standby, which does not exist.
    let settings = [
        ("synchronous_standby_names", "nobody"),
        ("synchronous_commit", "local"),
    ];
    let Some(postgres) = server_with(&settings) else {
        return;
    };
    (postgres.execute(
        "insert into other values (1, 'old'); alter publication lookaside add table other",
    ))
    .unwrap();
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    name(&knowledge, BY_ID, 1);
    wait_until_live(&knowledge, 1);
    let change = "update other set name = 'new' where id = 1";
    with_hidden_commit(&postgres, change, || {
        // The first use of this statement. If it were tracked now, the answer would be valid for ever.
        let probes = status(&knowledge).probe_count;
        wait_until("probes", || {
            assert_eq!(name(&knowledge, OTHER, 1).as_deref(), Some("old"));
            status(&knowledge).probe_count > probes + 5
        });
        assert_eq!(status(&knowledge).statement_count, 1);
        // The server is asked less and less often, as the commit may take hours.
        let (begin, probes) = (Instant::now(), status(&knowledge).probe_count);
        // sleep: a second of a feed that waits
        thread::sleep(Duration::from_secs(1));
        let asked = status(&knowledge).probe_count - probes;
        let most = 16 + 8 * begin.elapsed().as_secs();
        assert!(asked <= most, "{asked} times in {:?}", begin.elapsed());
        wait_until("it says what it waits for", || {
            let status = status(&knowledge);
            let reason = status.reason.unwrap_or_default();
            status.state == FeedState::Live && reason.contains("writing: process ")
        });
    });
    wait_until_live(&knowledge, 2);
    assert_eq!(name(&knowledge, OTHER, 1).as_deref(), Some("new"));
    wait_until("nothing is waited for", || {
        status(&knowledge).reason.is_none()
    });
}

/// A migration consists of several commits, and each may fall into a classification.
#[test]
fn issue_15_a_migration_of_many_steps_loses_no_statement() {
    let Some(postgres) = server() else { return };
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    name(&knowledge, BY_ID, 1);
    wait_until_live(&knowledge, 1);
    for round in 0..3 {
        for step in 0..40 {
            let sql = format!("alter table goods add column c{round}_{step} int");
            postgres.execute(&sql).unwrap();
            name(&knowledge, BY_ID, 1);
        }
        wait_until_live(&knowledge, 1);
        follows(&postgres, &knowledge, BY_ID, &format!("new{round}"));
    }
}

/// A change of row 1 is seen, which only the feed can tell.
fn follows(postgres: &Postgres, knowledge: &Knowledge, sql: &str, new: &str) {
    let change = match sql {
        OTHER => "update other set name = $1 where id::text = '1'",
        _ => "update goods set name = $1 where id = 1",
    };
    name(knowledge, sql, 1);
    let mut writer = connect(postgres);
    writer.query(change, &[Value::from(new)]).unwrap();
    wait_until("the change", || {
        name(knowledge, sql, 1).as_deref() == Some(new)
    });
}

#[test]
fn issue_15_a_definition_may_change_what_a_statement_depends_on() {
    let Some(postgres) = server() else { return };
    (postgres.execute("insert into other values (1, 'old')")).unwrap();
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    name(&knowledge, BY_ID, 1);
    // Its table is not published.
    name(&knowledge, OTHER, 1);
    wait_until_live(&knowledge, 1);
    (postgres.execute("alter publication lookaside add table other")).unwrap();
    wait_until_live(&knowledge, 2);
    follows(&postgres, &knowledge, OTHER, "published");
    // It depends on all rows, then on the row with its key, then on a row with a key of another type.
    let sql = "select price as name from pg.goods where name = :id";
    name(&knowledge, sql, "n2");
    wait_until_live(&knowledge, 3);
    let changes = [
        "alter table goods replica identity full",
        "alter table goods alter column id type bigint",
        "alter table goods replica identity default",
        "drop table other; create table other (id text primary key, name text); \
         insert into other values ('1', 'again'); \
         alter publication lookaside add table other",
    ];
    for (round, change) in (7..).zip(changes) {
        let resets = status(&knowledge).reset_count;
        postgres.execute(change).unwrap();
        wait_until(change, || status(&knowledge).reset_count > resets);
        wait_until_live(&knowledge, 3);
        follows(&postgres, &knowledge, BY_ID, &format!("{change}!"));
        let before = name(&knowledge, sql, "n2");
        let update = format!("update goods set price = {round} where id = 2");
        postgres.execute(&update).unwrap();
        wait_until(change, || name(&knowledge, sql, "n2") != before);
    }
    follows(&postgres, &knowledge, OTHER, "replaced");
}

#[test]
fn issue_15_changes_of_another_database_are_refused() {
    let Some(postgres) = server() else { return };
    postgres.execute("create database elsewhere").unwrap();
    let url = postgres.url();
    let elsewhere = format!("{url}&dbname=elsewhere");
    let config = super::Config::parse(&elsewhere, &super::Environment::empty()).unwrap();
    let super::Config::Postgres(config) = config else {
        panic!("{config} is not PostgreSQL");
    };
    let mut connection = Connection::connect_with(&config, super::Options::default()).unwrap();
    connection
        .query("create publication lookaside", &[])
        .unwrap();
    let more = format!("feed = 'auto'\nfeed_uri = '{elsewhere}'");
    let folder = project(&url, &more, LONG);
    let knowledge = open(&folder);
    name(&knowledge, BY_ID, 1);
    wait_until_refused(&knowledge, "elsewhere");
    let statement = knowledge.prepare(BY_ID).unwrap();
    let mut session = knowledge.session();
    session.set_freshness(Contract::NOW.into());
    assert!(
        session
            .first(&statement, &[Value::Int(1)])
            .unwrap()
            .is_some()
    );
}

#[test]
fn issue_15_an_answer_from_before_the_feed_is_not_used_after_it() {
    let Some(postgres) = server() else { return };
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    let statement = knowledge.prepare(BY_ID).unwrap();
    let mut session = knowledge.session();
    let mut read = || {
        let row = session.first(&statement, &[Value::Int(1)]).unwrap();
        row.unwrap()[0].to_text().to_string()
    };
    // It is in the session's own cache before the feed is live.
    assert_eq!(read(), "n1");
    wait_until_live(&knowledge, 1);
    follows(&postgres, &knowledge, BY_ID, "new");
    postgres.execute("drop publication lookaside").unwrap();
    wait_until("it is followed", || status(&knowledge).statement_count == 0);
    assert_eq!(read(), "new");
    let queries = || knowledge.snapshot().counts.queries;
    let before = queries();
    read();
    assert_eq!(queries(), before, "answers are cached again");
}

/// What a transaction has changed before its table is published is not in the stream.
#[test]
fn issue_15_a_table_that_is_published_beside_a_writer_is_followed_after_it() {
    let Some(postgres) = server() else { return };
    publish_beside_a_writer(&postgres, FeedState::Live);
}

/// Streams of older minor releases do not have the later changes of such a table either.
#[test]
fn issue_15_a_stream_of_an_older_release_begins_again_when_its_publication_is_changed() {
    let Some(postgres) = server_of("17.4", &[]) else {
        return;
    };
    publish_beside_a_writer(&postgres, FeedState::Starting);
}

/// Publishes a table beside a transaction that writes to it, during which the feed is in `state`.
fn publish_beside_a_writer(postgres: &Postgres, state: FeedState) {
    postgres
        .execute("insert into other values (1, 'old')")
        .unwrap();
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    name(&knowledge, BY_ID, 1);
    wait_until_live(&knowledge, 1);
    let mut writer = connect(postgres);
    for sql in ["begin", "update other set name = 'new' where id = 1"] {
        writer.query(sql, &[]).unwrap();
    }
    (postgres.execute("alter publication lookaside add table other")).unwrap();
    wait_until("it says what it waits for", || {
        assert_eq!(name(&knowledge, OTHER, 1).as_deref(), Some("old"));
        let status = status(&knowledge);
        let reason = status.reason.unwrap_or_default();
        status.state == state && reason.contains("writing: process ")
    });
    assert!(status(&knowledge).statement_count < 2);
    // Also after the table was published.
    let again = "update other set name = 'newer' where id = 1";
    writer.query(again, &[]).unwrap();
    writer.query("commit", &[]).unwrap();
    wait_until_live(&knowledge, 2);
    assert_eq!(name(&knowledge, OTHER, 1).as_deref(), Some("newer"));
    follows(postgres, &knowledge, OTHER, "newest");
}

/// Clusters that are copies of one another have the same system identifier and timeline.
#[test]
fn issue_15_changes_of_a_copy_of_the_cluster_are_refused() {
    let version = || "18".parse().unwrap();
    if server().is_none() {
        return;
    }
    // Servers with other settings are other clusters.
    let start = |work_mem| {
        let builder = Postgres::builder().version(version());
        let builder = builder.setting("wal_level", "logical");
        let postgres = builder.setting("work_mem", work_mem).start().unwrap();
        let sql = "create table goods (id int primary key, name text); \
                   insert into goods values (1, 'n1'); create publication lookaside for table goods";
        postgres.execute(sql).unwrap();
        postgres
    };
    let (answers, changes) = (start("4MB"), start("5MB"));
    let mut connections = [connect(&answers), connect(&changes)];
    let identifier = "select system_identifier from pg_control_system()";
    let [one, other] = connections.each_mut().map(|it| text(it, identifier));
    assert_eq!(one, other, "they are copies");
    let more = format!("feed = 'auto'\nfeed_uri = '{}'", changes.url());
    let folder = project(&answers.url(), &more, LONG);
    let knowledge = open(&folder);
    name(&knowledge, BY_ID, 1);
    wait_until_refused(&knowledge, "another server");
}

/// While no transaction begins or ends, the feed does not compare the catalog. Settings change without a
/// transaction.
#[test]
fn a_search_path_that_is_set_while_nothing_is_written_is_noticed() {
    let Some(postgres) = server() else { return };
    let sql = "create schema later; create table later.goods (id int primary key, name text); \
               insert into later.goods values (1, 'later'); \
               alter publication lookaside add table later.goods";
    postgres.execute(sql).unwrap();
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    assert_eq!(name(&knowledge, BY_ID, 1).as_deref(), Some("n1"));
    wait_until_live(&knowledge, 1);
    assert_eq!(name(&knowledge, BY_ID, 1).as_deref(), Some("n1"));
    let asked = |count: u64| {
        let until = status(&knowledge).probe_count + count;
        wait_until("the server is asked", || {
            status(&knowledge).probe_count >= until
        });
    };
    // Both show the same, so the next ones do not compare.
    asked(4);
    let before = status(&knowledge);
    let path = "alter system set search_path = later, public";
    postgres.execute(path).unwrap();
    postgres.execute("select pg_reload_conf()").unwrap();
    wait_until("it is noticed", || {
        name(&knowledge, BY_ID, 1).as_deref() == Some("later")
    });
    let after = status(&knowledge);
    assert!(after.reset_count > before.reset_count, "all is invalidated");
    // Not by chance, since a transaction of the server itself has ended some 20 seconds later.
    assert!(after.probe_count < before.probe_count + 40, "{after:?}");
    wait_until_live(&knowledge, 1);
    asked(4);
    // A definition that changes after that is a transaction.
    let sql = "begin; alter table later.goods rename to former; \
               create table later.goods (id int primary key, name text); \
               insert into later.goods values (1, 'newest'); commit";
    postgres.execute(sql).unwrap();
    wait_until("it is noticed", || {
        name(&knowledge, BY_ID, 1).as_deref() == Some("newest")
    });
}

/// The server does not plan a prepared statement anew when a table comes first in the search path.
#[test]
fn issue_15_a_table_that_precedes_another_in_the_search_path_is_read() {
    let Some(postgres) = server() else { return };
    let role = text(&mut connect(&postgres), "select current_user::text");
    postgres.execute(&format!("create schema {role}")).unwrap();
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    assert_eq!(name(&knowledge, BY_ID, 1).as_deref(), Some("n1"));
    wait_until_live(&knowledge, 1);
    assert_eq!(name(&knowledge, BY_ID, 1).as_deref(), Some("n1"));
    let sql = format!(
        "begin; create table {role}.goods (like public.goods including all); \
         alter publication lookaside add table {role}.goods; commit"
    );
    postgres.execute(&sql).unwrap();
    wait_until("it is read", || name(&knowledge, BY_ID, 1).is_none());
    wait_until_live(&knowledge, 1);
    let insert = format!("insert into {role}.goods values (1, 'preceding')");
    postgres.execute(&insert).unwrap();
    wait_until("it is followed", || {
        name(&knowledge, BY_ID, 1).as_deref() == Some("preceding")
    });
}

/// A prepared statement keeps the label that a literal had when it was prepared.
#[test]
fn issue_15_a_label_that_is_renamed_is_read_anew() {
    let Some(postgres) = server() else { return };
    let schema = "create type state as enum ('ok', 'bad'); \
        create table rated (id int primary key, name text, state state); \
        insert into rated values (1, 'one', 'ok'); \
        alter publication lookaside add table rated";
    postgres.execute(schema).unwrap();
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    let mut session = knowledge.session();
    session.set_freshness(Contract::NOW.into());
    // One that is followed, and one whose answers have their age only.
    let statements = ["name", "name || left(random()::text, 0)"].map(|column| {
        let sql = format!("select {column} as name from pg.rated where id = :id and state = 'ok'");
        knowledge.prepare(&sql).unwrap()
    });
    let mut has_row = |statement| {
        let row = session.first(statement, &[Value::Int(1)]).unwrap();
        row.is_some()
    };
    assert!(statements.iter().all(&mut has_row));
    wait_until_live(&knowledge, 1);
    assert!(statements.iter().all(&mut has_row));
    let rename = "alter type state rename value 'ok' to 'good'; \
        alter type state rename value 'bad' to 'ok'";
    postgres.execute(rename).unwrap();
    wait_until("no row is ok", || {
        statements.iter().all(|statement| !has_row(statement))
    });
}
