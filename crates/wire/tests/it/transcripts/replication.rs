//! The scenarios of logical replication. A walsender takes SQL too, so one session makes the changes
//! and then streams them.

use std::cell::Cell;

use lookaside_wire::postgres::replication::{
    IDENTIFY_SYSTEM, LogicalReplicationMessage, Lsn, SlotInUse, SlotLifetime, SlotName,
    SlotSnapshot, StandbyStatus, StreamMessage, StreamOptions, Timestamp, create_replication_slot,
    drop_replication_slot, start_replication,
};
use lookaside_wire::postgres::{Event, Format, Request};

use super::session::Session;

/// A name with everything that is to be quoted.
const PUBLICATION: &str = "All, \"of it\" 'here'";

const TABLES: &[&str] = &[
    "create type mood as enum ('low', 'high')",
    "create table feed (id int primary key, mood mood, name varchar(20), note text)",
    "alter table feed alter note set storage external",
    "create table feed_full (id int, price numeric)",
    "alter table feed_full replica identity full",
    "create table feed_index (id int not null unique, name text)",
    "alter table feed_index replica identity using index feed_index_id_key",
    "create table feed_unpublished (id int)",
    "create publication feed for table feed, feed_index",
    r#"create publication "All, ""of it"" 'here'" for table feed_full"#,
    "select pg_replication_origin_create('north')",
];

const CHANGES: &[&str] = &[
    "insert into feed values (1, 'low', 'one', repeat('x', 2100)), (2, 'high', null, '')",
    // The note is stored outside of the row, and not sent again.
    "update feed set name = 'uno' where id = 1",
    "update feed set id = 3 where id = 2",
    "update feed set id = 4 where id = 1",
    "delete from feed where id = 3",
    "insert into feed_unpublished values (1)",
    "insert into feed_full values (1, 1.5), (2, null)",
    "update feed_full set price = 2 where id = 1",
    "delete from feed_full where id = 2",
    "insert into feed_index values (1, 'one')",
    "update feed_index set id = 2",
    "delete from feed_index",
    "alter table feed add extra bool default true, drop name",
    "insert into feed values (5, null, 'five', false)",
    "begin; insert into feed values (6); rollback",
    "begin; insert into feed values (7); savepoint s; insert into feed values (8); \
     rollback to s; insert into feed values (9); commit",
    r"select pg_logical_emit_message(false, 'loose', 'not ours')",
    r"begin; select pg_logical_emit_message(true, 'bound', '\x00ff'::bytea); commit",
    r"begin; select pg_logical_emit_message(true, 'undone', ''); rollback",
    "begin; insert into feed values (10); prepare transaction 'two phases'",
    "insert into feed values (11)",
    "commit prepared 'two phases'",
    "select pg_replication_origin_session_setup('north')",
    "begin; select pg_replication_origin_xact_setup('1/2A', '2026-01-01'); \
     insert into feed values (12); commit",
    "select pg_replication_origin_session_reset()",
    "truncate feed, feed_full, feed_unpublished restart identity",
    "truncate feed_index cascade",
    "select pg_logical_emit_message(true, 'end', '')",
];

fn sql(session: &mut Session, queries: &[&str]) {
    for query in queries {
        session.queue(&[Request::Query(query)]);
        session.settle();
    }
}

fn slot() -> SlotName {
    SlotName::new("slot").unwrap()
}

/// Creates a temporary slot, which the session may drop by an error.
fn create_slot(session: &mut Session) {
    let create = create_replication_slot(&slot(), SlotLifetime::Temporary, SlotSnapshot::Nothing);
    sql(session, &[&create]);
}

fn start(session: &mut Session, options: &StreamOptions) {
    let publications = ["feed", PUBLICATION];
    let start = start_replication(&slot(), Lsn::INVALID, &publications, options);
    session.queue(&[Request::Query(&start)]);
}

/// Sends how far the changes were received, and continues until the server answers.
fn confirm(session: &mut Session, received: Lsn) {
    let status = StandbyStatus {
        written: received,
        flushed: received,
        applied: received,
        time: Timestamp(0),
        reply_requested: true,
    };
    session.connection.copy_data(&status.encode()).unwrap();
    session.until(|event| {
        matches!(
            stream_message(event),
            Some(StreamMessage::PrimaryKeepalive(_))
        )
    });
}

fn stream_message<'a>(event: &Event<'a>) -> Option<StreamMessage<'a>> {
    match event {
        Event::CopyData { data, .. } => Some(StreamMessage::decode(data).unwrap()),
        _ => None,
    }
}

fn change<'a>(event: &Event<'a>) -> Option<LogicalReplicationMessage<'a>> {
    match stream_message(event)? {
        StreamMessage::XLogData(piece) => {
            Some(LogicalReplicationMessage::decode(piece.payload).unwrap())
        }
        _ => None,
    }
}

/// Continues until the transaction of the last message is complete, and returns its end.
fn receive_changes(session: &mut Session) -> Lsn {
    let is_last = Cell::new(false);
    let received = Cell::new(Lsn::INVALID);
    session.until(|event| match change(event) {
        Some(LogicalReplicationMessage::Message(message)) => {
            is_last.set(message.prefix == c"end");
            false
        }
        Some(LogicalReplicationMessage::Commit(commit)) => {
            received.set(commit.end);
            is_last.get()
        }
        _ => false,
    });
    received.get()
}

pub(super) fn changes(session: &mut Session) {
    session.settle();
    sql(session, &[IDENTIFY_SYSTEM]);
    sql(session, TABLES);
    create_slot(session);
    sql(session, CHANGES);
    let options = StreamOptions {
        format: Format::Binary,
        messages: true,
    };
    start(session, &options);
    let received = receive_changes(session);
    confirm(session, received);
    session.connection.copy_done().unwrap();
    session.settle();
    sql(
        session,
        &["select slot_name, temporary, active, confirmed_flush_lsn from pg_replication_slots"],
    );
    // A second stream ends at once, although there is more.
    sql(
        session,
        &["insert into feed values (13, 'high', 'thirteen', true)"],
    );
    start(session, &options);
    session.settle();
    let drop = drop_replication_slot(&slot(), SlotInUse::Fail);
    sql(session, &[&drop, "select 7"]);
}

pub(super) fn failures(session: &mut Session) {
    session.settle();
    let options = StreamOptions {
        format: Format::Text,
        messages: true,
    };
    // There is no slot of this name.
    start(session, &options);
    session.settle();
    // An error drops temporary slots.
    create_slot(session);
    sql(session, &["select 1/0"]);
    start(session, &options);
    session.settle();
    // An error in the middle: the text does not exist in the encoding.
    create_slot(session);
    sql(
        session,
        &[
            "insert into feed values (20, null, 'fine'), (21, null, 'ж')",
            "set client_encoding to latin1",
        ],
    );
    start(session, &options);
    session.until(|event| matches!(event, Event::Failed { .. }));
    session.settle();
    sql(session, &["set client_encoding to utf8", "select 7"]);
    // A statement of the extended protocol is refused.
    session.queue(&[
        Request::DescribeStatement("s"),
        Request::Sync,
        Request::Query("select 8"),
    ]);
    session.settle();
}
