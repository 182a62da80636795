//! Change feeds of real servers.

mod changes;
mod losses;
mod requirements;
mod statuses;

use std::time::Duration;

use lookaside_client::postgres::feed::{
    FeedStart, LogicalReplicationMessage as Message, Lsn, OldTuple, Tuple, TupleField,
};
use lookaside_client::postgres::{ChangeFeed, FeedEvent, FeedOptions};
use lookaside_client::{Error, PostgresConfig};
use lookaside_embedded::{Binaries, Postgres};
use tokio::time::timeout;

use super::{config, connect, shown};

/// How long an event may take; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

const VERSIONS: [&str; 2] = ["18", "15"];

/// Databases on servers that decode their log, each with a table of goods that is published.
fn databases() -> impl Iterator<Item = Postgres> {
    VERSIONS
        .into_iter()
        .filter_map(|version| database(version, &[]))
}

/// A database on a server with these settings, which are its own if there are any.
fn database(version: &str, settings: &[(&str, &str)]) -> Option<Postgres> {
    if let Err(error) = Binaries::find(version.parse().unwrap(), &()) {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI must have one: {error}"
        );
        crate::skip(&format!("no PostgreSQL {version} to test with: {error}"));
        return None;
    }
    let builder = Postgres::builder().version(version.parse().unwrap());
    // A server of its own, since the slots of others would count.
    let builder = builder.fresh_cluster().tcp().logical_replication();
    let builder = settings.iter().fold(builder, |builder, (name, value)| {
        builder.setting(*name, *value)
    });
    let postgres = builder.start().unwrap();
    postgres
        .execute(
            "create table goods (id int primary key, name text); \
             create publication shop for table goods",
        )
        .unwrap();
    Some(postgres)
}

fn feed(postgres: &Postgres) -> ChangeFeed {
    feed_of(&config(&postgres.url()), FeedOptions::default())
}

fn feed_of(config: &PostgresConfig, options: FeedOptions) -> ChangeFeed {
    ChangeFeed::new(config, ["shop"], options).unwrap()
}

/// The next event, soon.
async fn next(feed: &mut ChangeFeed) -> FeedEvent<'_> {
    let next = timeout(PATIENCE, feed.next()).await;
    next.expect("something comes")
}

/// The beginning of the next stream; attempts must not fail.
async fn started(feed: &mut ChangeFeed) -> FeedStart {
    match next(feed).await {
        FeedEvent::Streaming(start) => start,
        event => panic!("{event:?}"),
    }
}

/// The error of the stream that is under way, or of the next attempt.
async fn lost(feed: &mut ChangeFeed) -> Error {
    loop {
        match next(feed).await {
            FeedEvent::Lost(error) => return error,
            FeedEvent::Keepalive { .. } | FeedEvent::Message(_) => {}
            event => panic!("{event:?}"),
        }
    }
}

/// The messages of the next transaction, as text, and the end of its Commit.
async fn transaction(feed: &mut ChangeFeed) -> (String, Lsn) {
    let mut said = String::new();
    let mut final_lsn = None;
    loop {
        let message = match next(feed).await {
            FeedEvent::Keepalive { .. } => continue,
            FeedEvent::Message(message) => message,
            event => panic!("{event:?}"),
        };
        match message {
            Message::Begin(begin) => final_lsn = Some(begin.final_lsn),
            Message::Commit(commit) => {
                assert_eq!(Some(commit.lsn), final_lsn);
                assert!(commit.end > commit.lsn);
                return (said.trim_start().to_owned(), commit.end);
            }
            message => {
                said.push(' ');
                said.push_str(&change(&message));
            }
        }
    }
}

/// A change with its values: `I 7,tea`.
fn change(message: &Message<'_>) -> String {
    match message {
        Message::Relation(relation) => format!("R {}", relation.name.to_str().unwrap()),
        Message::Insert(insert) => format!("I {}", values(insert.new)),
        Message::Update(update) => {
            let old = update.old.map(|old| format!("{}>", key(old)));
            format!("U {}{}", old.unwrap_or_default(), values(update.new))
        }
        Message::Delete(delete) => format!("D {}", key(delete.old)),
        Message::Truncate(truncate) => format!("T {}", truncate.relations().count()),
        message => format!("{message:?}"),
    }
}

fn key(old: OldTuple<'_>) -> String {
    values(old.tuple())
}

/// Values of `int4` and `text` in binary.
fn values(tuple: Tuple<'_>) -> String {
    let value = |field| match field {
        TupleField::Null => "-".to_owned(),
        TupleField::Binary(bytes) => match <[u8; 4]>::try_from(bytes) {
            Ok([0, rest @ ..]) => u32::from_be_bytes([0, rest[0], rest[1], rest[2]]).to_string(),
            _ => String::from_utf8(bytes.to_vec()).unwrap(),
        },
        field => format!("{field:?}"),
    };
    let values: Vec<_> = tuple.fields().map(value).collect();
    values.join(",")
}

/// What an error says, with its causes.
fn said(error: &Error) -> String {
    let mut said = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        said.push_str(": ");
        said.push_str(&error.to_string());
        source = error.source();
    }
    said
}

/// The names of the slots of a server.
fn slots(postgres: &Postgres) -> String {
    let sql = "select slot_name from pg_replication_slots order by 1";
    shown(&connect(postgres).query(sql, &[]))
}
