//! What happens while a stream of changes begins.

use lookaside_client::postgres::blocking::Connection;
use lookaside_knowledge::{FeedResetReason, FeedState};
use lookaside_testing::wait_until;

use super::{
    BY_ID, LONG, connect, name, open, project, resets, server, status, text, wait_until_live,
};

/// A connection in a transaction that has an identifier.
struct Writer {
    connection: Connection,
    pid: String,
}

impl Writer {
    fn begin(mut connection: Connection, sql: &str) -> Self {
        let begin = format!("begin; select pg_current_xact_id(); {sql}");
        connection.batch_execute(begin).unwrap();
        let pid = text(&mut connection, "select pg_backend_pid()::text");
        Self { connection, pid }
    }

    /// Waits until the creation of the slot waits for it.
    fn wait_until_awaited(&self, connection: &mut Connection) {
        let sql = format!(
            "select count(*)::text from pg_stat_activity where backend_type = 'walsender' \
             and {} = any(pg_blocking_pids(pid))",
            self.pid
        );
        wait_until("the slot waits for it", || text(connection, &sql) != "0");
    }

    fn commit(mut self) {
        self.connection.batch_execute("commit").unwrap();
    }
}

/// PostgreSQL does not notice a change of its catalog that is committed while it creates a slot, beside a
/// transaction that is older, and decodes all later changes by the catalog of before.
#[test]
fn issue_15_a_table_that_is_published_while_a_slot_is_created_is_followed() {
    let Some(postgres) = server() else { return };
    let mut observer = connect(&postgres);
    let first = Writer::begin(connect(&postgres), "");
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    assert_eq!(name(&knowledge, BY_ID, 1).as_deref(), Some("n1"));
    first.wait_until_awaited(&mut observer);
    postgres
        .execute("alter publication lookaside drop table goods")
        .unwrap();
    // Older than what publishes the table again.
    let second = Writer::begin(connect(&postgres), "");
    postgres
        .execute("alter publication lookaside add table goods")
        .unwrap();
    first.commit();
    second.wait_until_awaited(&mut observer);
    // The first change that is decoded fixes the catalog for those that follow.
    let third = Writer::begin(
        connect(&postgres),
        "update goods set name = 'third' where id = 3",
    );
    second.commit();
    let streaming = "select count(*)::text from pg_stat_replication where state = 'streaming'";
    wait_until("the stream has begun, or begins again", || {
        text(&mut observer, streaming) != "0"
            || resets(&knowledge, FeedResetReason::DefinitionChanged) > 0
    });
    third.commit();
    wait_until_live(&knowledge, 1);
    for round in 0..3 {
        let before = name(&knowledge, BY_ID, 1).unwrap();
        let now = format!("round {round}");
        assert_ne!(before, now);
        let update = format!("update goods set name = '{now}' where id = 1");
        postgres.execute(&update).unwrap();
        wait_until("the change arrives", || {
            name(&knowledge, BY_ID, 1).as_deref() == Some(&*now)
        });
    }
    assert_eq!(status(&knowledge).state, FeedState::Live);
}

/// A slot that is being created holds back the log already.
#[test]
fn a_slot_that_waits_for_a_writer_is_given_up_at_its_limit_and_the_writer_is_named() {
    let Some(postgres) = server() else { return };
    let mut writer = connect(&postgres);
    let pid = text(&mut writer, "select pg_backend_pid()::text");
    writer
        .batch_execute("begin; insert into other values (900, 'open')")
        .unwrap();
    let more = "feed = 'auto'\nfeed_wal_max = 16777216";
    let folder = project(&postgres.url(), more, LONG);
    let knowledge = open(&folder);
    assert_eq!(name(&knowledge, BY_ID, 1).as_deref(), Some("n1"));
    wait_until("it says what it waits for", || {
        let status = status(&knowledge);
        let reason = status.reason.unwrap_or_default();
        status.state == FeedState::Starting && reason.contains(&format!("process {pid} in the"))
    });
    assert!(status(&knowledge).slot_wal_size.is_some());
    let fill =
        "create table filler as select repeat('x', 1000) as text from generate_series(1, 30000)";
    postgres.execute(fill).unwrap();
    wait_until("it is given up", || {
        resets(&knowledge, FeedResetReason::WalLimit) > 0
    });
    writer.batch_execute("commit").unwrap();
    wait_until_live(&knowledge, 1);
    assert_eq!(status(&knowledge).reason, None);
}

/// A transaction that goes on cannot have changed a table whose definition was changed meanwhile.
#[test]
fn a_definition_that_changes_beside_a_writer_delays_no_statement() {
    let Some(postgres) = server() else { return };
    let folder = project(&postgres.url(), "feed = 'auto'", LONG);
    let knowledge = open(&folder);
    name(&knowledge, BY_ID, 1);
    wait_until_live(&knowledge, 1);
    let insert = "insert into other values (900, 'open')";
    let writer = Writer::begin(connect(&postgres), insert);
    postgres.execute("alter table goods add more int").unwrap();
    wait_until("the statement is classified again", || {
        name(&knowledge, BY_ID, 1);
        resets(&knowledge, FeedResetReason::DefinitionChanged) > 0
            && status(&knowledge).statement_count == 1
    });
    writer.commit();
}
