//! `delivery=exactly-once`: from Kafka, with the positions in the database.

use std::thread;
use std::time::Duration;

use lookaside_embedded::Postgres;
use lookaside_stream::Identity;
use lookaside_testing::{KafkaBroker, wait_until};

use super::failures::Server;
use super::{connect, count, database, query, url};
use crate::kafka::{consume, create_topic, produce};
use crate::running::{Running, start, unique};

/// Writes events with numbers to a topic.
fn send(broker: &KafkaBroker, topic: &str, first: usize, count: usize) {
    let messages: Vec<_> = (first..first + count)
        .map(|n| (format!("k{}", n % 50), format!("{{\"n\":{n}}}")))
        .collect();
    let messages = messages.iter();
    produce(
        broker,
        topic,
        messages.map(|(key, payload)| (&**key, Some(&**payload))),
    );
}

fn source(broker: &KafkaBroker, topic: &str, group: &str) -> String {
    let address = broker.address();
    format!("kafka://{address}/{topic}?group={group}&session.timeout.ms=6000&commit_interval_ms=20")
}

fn member(broker: &KafkaBroker, topic: &str, group: &str, db: &Postgres) -> Running {
    let sink = url(db, "table=t&delivery=exactly-once");
    start(&source(broker, topic, group), &sink, None, Identity)
}

fn create_table(db: &Postgres) {
    db.execute("create table t (n int, x xid8 default pg_current_xact_id())")
        .unwrap();
}

/// Waits until there are as many rows, and checks that each number is there once, and that the stored
/// positions are those of all messages.
fn check(db: &Postgres, rows: usize) {
    wait_until("all rows are committed", || count(db, "t") >= rows);
    let found = query(db, "select count(*), count(distinct n), max(n) from t");
    assert_eq!(found, [format!("{rows}|{rows}|{}", rows - 1)]);
    let stored = || query(db, "select sum(position)::int8 from lookaside_positions");
    assert_eq!(stored(), [rows.to_string()]);
}

#[test]
fn rebalances_repeat_nothing() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let db = database();
    create_table(&db);
    let (topic, group) = (create_topic(broker, 6, &[]), unique("group"));
    let mut members: Vec<Running> = Vec::new();
    for step in 0..6 {
        // The next change comes while events are under way.
        if step == 3 {
            members.remove(0).stop();
        }
        let before = count(&db, "t");
        send(broker, &topic, step * 2000, 2000);
        if step < 3 {
            members.push(member(broker, &topic, &group, &db));
        }
        wait_until("some rows are written", || count(&db, "t") > before);
    }
    check(&db, 12_000);
    members.into_iter().for_each(|member| _ = member.stop());
    check(&db, 12_000);
}

#[test]
fn runs_that_are_dropped_in_the_middle_repeat_nothing() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let db = database();
    create_table(&db);
    let (topic, group) = (create_topic(broker, 3, &[]), unique("group"));
    send(broker, &topic, 0, 20_000);
    for round in 0..4 {
        let running = member(broker, &topic, &group, &db);
        let before = count(&db, "t");
        wait_until("some rows are written", || {
            count(&db, "t") > before || before == 20_000
        });
        // Nothing that is under way is waited for.
        running.stop.raise();
        running.give_up.raise();
        drop(running.thread.join().unwrap());
        send(broker, &topic, 20_000 + round * 500, 500);
    }
    let running = member(broker, &topic, &group, &db);
    check(&db, 22_000);
    running.stop();
    check(&db, 22_000);
}

#[test]
fn a_server_that_is_killed_and_sessions_that_are_ended_repeat_nothing() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let mut server = Server::start();
    create_table(server.postgres());
    let (topic, group) = (create_topic(broker, 2, &[]), unique("group"));
    let running = member(broker, &topic, &group, server.postgres());
    for round in 0..4 {
        let before = count(server.postgres(), "t");
        send(broker, &topic, round * 5000, 5000);
        wait_until("some rows are written", || {
            count(server.postgres(), "t") > before
        });
        if round % 2 == 0 {
            server.kill();
            server.restart();
        } else {
            let mut connection = connect(server.postgres());
            let sql = "select pg_terminate_backend(pid) from pg_stat_activity \
                       where application_name = 'lookaside'";
            for _ in 0..20 {
                connection.query(sql, &[]).unwrap();
                // sleep: in the middle of another transaction
                thread::sleep(Duration::from_millis(7));
            }
        }
    }
    check(server.postgres(), 20_000);
    running.stop();
    check(server.postgres(), 20_000);
}

#[test]
fn a_run_begins_at_the_stored_positions() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let db = database();
    create_table(&db);
    let (topic, group) = (create_topic(broker, 1, &[]), unique("group"));
    send(broker, &topic, 0, 1000);
    let running = member(broker, &topic, &group, &db);
    check(&db, 1000);
    running.stop();
    let source = query(&db, "select source from lookaside_positions");
    assert!(source[0].starts_with("kafka/"), "{source:?}");
    assert!(
        source[0].ends_with(&format!("/{group}/{topic}")),
        "{source:?}"
    );
    db.execute("update lookaside_positions set position = 400; delete from t where n >= 400")
        .unwrap();
    let running = member(broker, &topic, &group, &db);
    check(&db, 1000);
    assert_eq!(running.stop().events_out, 600);
}

#[test]
fn a_process_that_lost_its_partition_writes_nothing_and_reads_again() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let db = database();
    create_table(&db);
    let (topic, group) = (create_topic(broker, 1, &[]), unique("group"));
    let running = member(broker, &topic, &group, &db);
    send(broker, &topic, 0, 1000);
    check(&db, 1000);
    // As if another process had read on, up to 1500, without the knowledge of this one.
    let numbers = "insert into t (n) select n from generate_series(1000, 1499) n";
    db.execute(&format!(
        "begin; {numbers}; update lookaside_positions set position = 1500; commit"
    ))
    .unwrap();
    send(broker, &topic, 1000, 1000);
    check(&db, 2000);
    running.stop();
    check(&db, 2000);
}

#[test]
fn a_row_that_is_refused_becomes_a_dead_letter_and_the_rest_is_written_once() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let db = database();
    db.execute("create table t (n int primary key check (n <> 617))")
        .unwrap();
    let (topic, group) = (create_topic(broker, 1, &[]), unique("group"));
    let dead = create_topic(broker, 1, &[]);
    send(broker, &topic, 0, 1000);
    // It is refused because of another row of its transaction.
    let messages = [
        ("a", Some("{\"n\":1000}")),
        ("b", Some("{\"n\":1000}")),
        ("c", Some("{")),
    ];
    produce(broker, &topic, messages);
    let running = start(
        &source(broker, &topic, &group),
        &url(&db, "table=t&delivery=exactly-once"),
        Some(&format!("kafka://{}/{dead}", broker.address())),
        Identity,
    );
    wait_until("all rows are committed", || count(&db, "t") == 1000);
    wait_until("all positions are stored", || {
        query(&db, "select position from lookaside_positions") == ["1003"]
    });
    running.stop();
    let found = query(&db, "select count(*), max(n) from t");
    assert_eq!(found, ["1000|1000"]);
    let mut letters: Vec<_> = consume(broker, &dead)
        .into_iter()
        .map(|letter| {
            (
                letter.payload.unwrap(),
                letter.headers["lookaside-reason"].clone(),
            )
        })
        .collect();
    letters.sort();
    letters.dedup();
    let payloads: Vec<_> = letters.iter().map(|(payload, _)| &**payload).collect();
    assert_eq!(payloads, ["{", "{\"n\":1000}", "{\"n\":617}"]);
    assert!(letters[1].1.contains("duplicate key"), "{letters:?}");
    assert!(
        letters[2].1.contains("violates check constraint"),
        "{letters:?}"
    );
}

#[test]
fn sessions_have_a_limit_for_idle_transactions() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let db = database();
    create_table(&db);
    let (topic, group) = (create_topic(broker, 1, &[]), unique("group"));
    let sql = "select count(*) from pg_stat_activity where application_name = 'lookaside' and \
               query like '%idle_in_transaction_session_timeout%10s%'";
    let running = member(broker, &topic, &group, &db);
    wait_until("its session has begun", || query(&db, sql) == ["1"]);
    running.stop();
    // The user's own time stays.
    let own = "table=t&delivery=exactly-once&options=-c%20idle_in_transaction_session_timeout%3D7s";
    let running = start(
        &source(broker, &topic, &group),
        &url(&db, own),
        None,
        Identity,
    );
    send(broker, &topic, 0, 100);
    check(&db, 100);
    running.stop();
}

#[test]
fn slow_statements_are_split_and_a_lasting_conflict_is_a_dead_letter() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let db = database();
    // A hundred rows take a second at least, and one always conflicts.
    db.execute(
        "create table t (n int);
         create function slow() returns trigger language plpgsql as $$ begin
             perform pg_sleep(0.01);
             if new.n = 71 then raise exception 'no' using errcode = '40001'; end if;
             return new;
         end $$;
         create trigger slow before insert on t for each row execute function slow()",
    )
    .unwrap();
    let (topic, group) = (create_topic(broker, 1, &[]), unique("group"));
    let dead = create_topic(broker, 1, &[]);
    send(broker, &topic, 0, 100);
    let options = "table=t&delivery=exactly-once&options=-c%20statement_timeout%3D400ms";
    let running = start(
        &source(broker, &topic, &group),
        &url(&db, options),
        Some(&format!("kafka://{}/{dead}", broker.address())),
        Identity,
    );
    wait_until("all positions are stored", || {
        query(&db, "select position from lookaside_positions") == ["100"]
    });
    running.stop();
    let found = query(&db, "select count(*), count(distinct n) from t");
    assert_eq!(found, ["99|99"]);
    let letters = consume(broker, &dead).into_iter();
    let mut letters: Vec<_> = letters.map(|letter| letter.payload.unwrap()).collect();
    letters.dedup();
    assert_eq!(letters, ["{\"n\":71}"]);
}

#[test]
fn no_row_becomes_visible_before_the_dead_letters_of_messages_before_it_are_delivered() {
    let (Some(broker), Some(mut other)) = (KafkaBroker::shared(), KafkaBroker::start(&[])) else {
        return;
    };
    let db = database();
    create_table(&db);
    let (topic, group) = (create_topic(broker, 1, &[]), unique("group"));
    let dead = create_topic(&other, 1, &[]);
    let running = start(
        &source(broker, &topic, &group),
        &url(&db, "table=t&delivery=exactly-once"),
        Some(&format!("kafka://{}/{dead}", other.address())),
        Identity,
    );
    send(broker, &topic, 0, 10);
    check(&db, 10);
    other.stop();
    produce(broker, &topic, [("bad", Some("{"))]);
    wait_until("it is read", || running.progress.figures().rejects == 1);
    // Another block, which has no dead letter of its own.
    send(broker, &topic, 10, 10);
    wait_until("they are read", || {
        running.progress.figures().events_out == 20
    });
    // sleep: several intervals between commits
    thread::sleep(Duration::from_millis(500));
    assert_eq!(count(&db, "t"), 10);
    other.resume();
    wait_until("the rest is committed", || count(&db, "t") == 20);
    running.stop();
    let stored = query(&db, "select position from lookaside_positions");
    assert_eq!(stored, ["21"]);
    assert_eq!(consume(&other, &dead).len(), 1);
}

#[test]
fn what_is_missing_is_named_with_the_way_out() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let db = database();
    db.execute(
        "create table t (n int); create role appender login; grant insert on t to appender;
         revoke create on schema public from public",
    )
    .unwrap();
    let (topic, group) = (create_topic(broker, 1, &[]), unique("group"));
    let source = source(broker, &topic, &group).parse().unwrap();
    let user = format!("postgres://{}@", db.user());
    let sink = url(&db, "table=t&delivery=exactly-once").replace(&user, "postgres://appender@");
    let sink = sink.parse().unwrap();
    let open = || {
        lookaside_connect::open_pair(&source, &sink)
            .map(|_| ())
            .unwrap_err()
    };
    let error = open();
    let reason =
        "the table \"public\".\"lookaside_positions\" cannot be created: permission denied";
    assert!(error.to_string().contains(reason), "{error}");
    let hint = error.hint().unwrap();
    let (_, create) = hint.split_once(": ").unwrap();
    db.execute(create).unwrap();
    let error = open();
    assert!(
        error.to_string().contains("may not read and write rows"),
        "{error}"
    );
    let (grant, _) = error.hint().unwrap().split_once(" to the user").unwrap();
    db.execute(&format!("{grant} to appender")).unwrap();
    lookaside_connect::open_pair(&source, &sink).unwrap();

    let error = lookaside_connect::open_sink(&sink).map(|_| ()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("needs a topic of Kafka or a followed file as input"),
        "{error}"
    );
}
