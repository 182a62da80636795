//! The scenarios that are recorded with every server.

use lookaside_wire::postgres::{
    Bind, Event, Format, Formats, Oid, Parse, ProtocolVersion, Request,
};

use super::replication;
use super::session::Session;

/// A dialogue: the log-in and the requests.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) user: &'static str,
    pub(super) password: &'static str,
    pub(super) version: ProtocolVersion,
    pub(super) transport: Transport,
    pub(super) purpose: Purpose,
    pub(super) play: fn(&mut Session),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Plain,
    Tls,
}

/// What the session logs in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Sql,
    Replication,
}

const fn scenario(name: &'static str, play: fn(&mut Session)) -> Scenario {
    Scenario {
        name,
        user: "trusted",
        password: "",
        version: ProtocolVersion::V3_0,
        transport: Transport::Plain,
        purpose: Purpose::Sql,
        play,
    }
}

const fn login(name: &'static str, user: &'static str, password: &'static str) -> Scenario {
    Scenario {
        user,
        password,
        ..scenario(name, Session::settle)
    }
}

pub(super) const SCENARIOS: &[Scenario] = &[
    login("login_trust", "trusted", ""),
    login("login_password", "plain", "secret"),
    login("login_md5", "hashed", "secret"),
    login("login_scram", "salted", "secret"),
    login("login_scram_wrong", "salted", "guess"),
    Scenario {
        transport: Transport::Tls,
        ..login("login_scram_plus", "salted", "secret")
    },
    login("login_unknown", "nobody", ""),
    Scenario {
        version: ProtocolVersion::V3_2,
        ..scenario("version", cancel)
    },
    scenario("cancel", cancel),
    scenario("queries", queries),
    scenario("statements", statements),
    scenario("portals", portals),
    scenario("batches", batches),
    scenario("late_failures", late_failures),
    scenario("skipping", skipping),
    scenario("stale", stale),
    scenario("copy_in", copy_in),
    scenario("copy_in_fails", copy_in_fails),
    scenario("copy_in_and_sync", copy_in_and_sync),
    scenario("copy_in_and_trigger", copy_in_and_trigger),
    scenario("copy_in_and_more", copy_in_and_more),
    scenario("copy_out", copy_out),
    scenario("notifications", notifications),
    scenario("terminated", terminated),
    Scenario {
        purpose: Purpose::Replication,
        ..scenario("replication", replication::changes)
    },
    Scenario {
        purpose: Purpose::Replication,
        ..scenario("replication_fails", replication::failures)
    },
];

/// The SQL that sets up a server for recording.
pub(super) const SETUP: &str = "
    create role trusted login superuser;
    create role plain login password 'secret';
    set password_encryption = 'md5';
    create role hashed login password 'secret';
    set password_encryption = 'scram-sha-256';
    -- Fewer rounds of hashing, where the server knows how, for the tests that log in often.
    do $$ begin set scram_iterations = 2; exception when others then null; end $$;
    create role salted login password 'secret';
    create table item (id int primary key, name text);
    create table late (id int unique deferrable initially deferred);
    create table guarded (id int);
    create function refuse() returns trigger language plpgsql as
        $$ begin raise exception 'not today'; end $$;
    create trigger refuse before insert on guarded for each statement execute function refuse();
";

const SYNC: Request<'static> = Request::Sync;

const EXECUTE: Request<'static> = Request::Execute {
    portal: "",
    row_count_max: 0,
};

fn parse(sql: &str) -> Request<'_> {
    Request::Parse(Parse {
        statement: "",
        sql,
        parameter_types: &[],
    })
}

fn bind<'a>(statement: &'a str, parameters: &'a [Option<&'a [u8]>]) -> Request<'a> {
    let head = Bind {
        portal: "",
        statement,
        parameter_formats: Formats::TEXT,
        result_formats: Formats::TEXT,
    };
    Request::Bind(head, parameters)
}

/// Parse, Bind and Execute of an unnamed statement.
fn run(session: &mut Session, sql: &str) {
    session.queue(&[parse(sql), bind("", &[]), EXECUTE]);
}

fn is_copy_in(event: &Event<'_>) -> bool {
    matches!(event, Event::CopyIn { .. })
}

fn is_failed(event: &Event<'_>) -> bool {
    matches!(event, Event::Failed { .. })
}

fn cancel(session: &mut Session) {
    session.settle();
    // A notice shows when it is running.
    let sql = "do $$ begin raise notice 'here'; perform pg_sleep(60); end $$";
    session.queue(&[Request::Query(sql)]);
    session.until(|event| matches!(event, Event::Notice(_)));
    session.cancel();
    session.settle();
}

fn queries(session: &mut Session) {
    session.settle();
    for sql in [
        "select 7 as n, null as nothing, 'x' as text; select generate_series(1, 3); begin",
        "",
        "; ;",
        "select 1; select 1/0; select 2",
        "select 3",
        "rollback",
        "do $$ begin raise notice 'careful' using hint = 'or not'; end $$",
        "set timezone to 'Europe/Zurich'",
        "selec 7",
        "select from pg_class limit 2",
        "insert into item values (1, 'one'), (2, 'two') returning id",
        "insert into item values (1, 'again')",
    ] {
        session.queue(&[Request::Query(sql)]);
    }
    session.settle();
}

fn statements(session: &mut Session) {
    session.settle();
    let statement = Parse {
        statement: "s1",
        sql: "select $1 + 1 as n, $2 || '!' as text",
        parameter_types: &[Oid(23)],
    };
    session.queue(&[
        Request::Parse(statement),
        Request::DescribeStatement("s1"),
        SYNC,
    ]);
    session.settle();
    let binary = Bind {
        portal: "",
        statement: "s1",
        parameter_formats: Formats::Each(&[Format::Binary, Format::Text]),
        result_formats: Formats::BINARY,
    };
    session.queue(&[
        Request::Bind(binary, &[Some(b"\0\0\0\x06"), Some(b"seven")]),
        Request::DescribePortal(""),
        EXECUTE,
        bind("s1", &[None, None]),
        EXECUTE,
        SYNC,
    ]);
    session.queue(&[
        parse("create table other (id int)"),
        Request::DescribeStatement(""),
        bind("", &[]),
        Request::DescribePortal(""),
        EXECUTE,
        parse(""),
        bind("", &[]),
        EXECUTE,
        Request::CloseStatement("s1"),
        Request::CloseStatement("never"),
        SYNC,
    ]);
    session.settle();
}

fn portals(session: &mut Session) {
    session.settle();
    let named = Bind {
        portal: "p",
        statement: "",
        parameter_formats: Formats::TEXT,
        result_formats: Formats::TEXT,
    };
    let some = Request::Execute {
        portal: "p",
        row_count_max: 2,
    };
    session.queue(&[
        parse("select generate_series(1, 5)"),
        Request::Bind(named, &[]),
        some,
    ]);
    session.connection.flush().unwrap();
    session.until(|event| matches!(event, Event::PortalSuspended { .. }));
    session.queue(&[some, some, SYNC]);
    session.settle();
    // The portal ended with the transaction.
    session.queue(&[some, SYNC]);
    session.queue(&[Request::ClosePortal("p"), SYNC]);
    session.settle();
}

fn batches(session: &mut Session) {
    session.settle();
    // One Sync for all: the first is rolled back, the third skipped.
    for sql in [
        "insert into item values (11, 'a')",
        "insert into item values (11, 'b')",
        "insert into item values (13, 'c')",
    ] {
        run(session, sql);
    }
    session.queue(&[SYNC]);
    run(session, "select count(*) from item where id > 10");
    session.queue(&[SYNC]);
    session.settle();
    // One Sync each: only the second fails.
    for sql in [
        "insert into item values (11, 'a')",
        "insert into item values (11, 'b')",
        "insert into item values (13, 'c')",
    ] {
        run(session, sql);
        session.queue(&[SYNC]);
    }
    run(session, "select count(*) from item where id > 10");
    session.queue(&[SYNC, Request::Query("delete from item where id > 10")]);
    session.settle();
    // In a transaction, all requests fail until it is rolled back.
    run(session, "begin");
    run(session, "select 1/0");
    session.queue(&[SYNC]);
    run(session, "select 1");
    session.queue(&[SYNC]);
    run(session, "rollback");
    session.queue(&[SYNC]);
    session.settle();
}

/// A deferred constraint fails the Sync, or the query, and not the insert.
fn late_failures(session: &mut Session) {
    session.settle();
    run(session, "insert into late values (1), (1)");
    session.queue(&[SYNC]);
    run(session, "select count(*) from late");
    session.queue(&[SYNC]);
    session.queue(&[Request::Query("insert into late values (2), (2)")]);
    session.settle();
}

fn skipping(session: &mut Session) {
    session.settle();
    session.queue(&[parse("selec 7")]);
    session.connection.flush().unwrap();
    session.until(is_failed);
    // All of it is skipped, the simple query too.
    session.queue(&[bind("", &[]), EXECUTE, Request::Query("select 1")]);
    session.settle();
    session.queue(&[EXECUTE, SYNC, Request::Query("select 2")]);
    session.settle();
}

fn stale(session: &mut Session) {
    session.settle();
    let named = Request::Parse(Parse {
        statement: "s",
        sql: "select * from shape",
        parameter_types: &[],
    });
    session.queue(&[Request::Query("create table shape (id int)"), named, SYNC]);
    session.queue(&[bind("s", &[]), EXECUTE, SYNC]);
    session.queue(&[Request::Query("alter table shape alter id type text")]);
    session.queue(&[bind("s", &[]), EXECUTE, SYNC]);
    session.queue(&[Request::Query("discard all")]);
    session.queue(&[bind("s", &[]), EXECUTE, SYNC]);
    session.queue(&[Request::Query("drop table shape")]);
    session.settle();
}

fn copy_in(session: &mut Session) {
    session.settle();
    session.queue(&[Request::Query("copy item from stdin")]);
    session.until(is_copy_in);
    session.connection.copy_data(b"21\ttwenty-").unwrap();
    session.connection.copy_data(b"one\n22\t\\N\n").unwrap();
    session.connection.copy_done().unwrap();
    session.queue(&[Request::Query("delete from item where id > 20")]);
    session.settle();
    run(session, "copy item from stdin (format csv)");
    session.connection.flush().unwrap();
    session.until(is_copy_in);
    session
        .connection
        .copy_data(b"23,\"twenty\nthree\"\n")
        .unwrap();
    session.connection.copy_done().unwrap();
    session.queue(&[SYNC, Request::Query("delete from item where id > 20")]);
    session.settle();
    session.queue(&[Request::Query(
        "copy late from stdin; copy guarded from stdin (format binary)",
    )]);
    session.until(is_copy_in);
    session.connection.copy_done().unwrap();
    session.until(is_copy_in);
    session.connection.copy_fail("enough").unwrap();
    session.settle();
}

fn copy_in_fails(session: &mut Session) {
    session.settle();
    session.queue(&[Request::Query("copy item from stdin")]);
    session.until(is_copy_in);
    session.connection.copy_fail("changed my mind").unwrap();
    session.settle();
    // The server aborts the COPY during the writes, and ignores data in transit.
    session.queue(&[Request::Query("copy item from stdin")]);
    session.until(is_copy_in);
    session.connection.copy_data(b"x\ty\n").unwrap();
    session.until(is_failed);
    session.settle();
    // The same after the end of the data.
    session.queue(&[Request::Query("copy item from stdin")]);
    session.until(is_copy_in);
    session.connection.copy_data(b"x\ty\n").unwrap();
    session.connection.copy_data(b"24\tz\n").unwrap();
    session.connection.copy_done().unwrap();
    session.queue(&[Request::Query("select count(*) from item where id > 20")]);
    session.settle();
    // And as a prepared statement: then the server skips to the Sync.
    run(session, "copy item from stdin");
    session.connection.flush().unwrap();
    session.until(is_copy_in);
    session.connection.copy_data(b"x\ty\n").unwrap();
    session.connection.copy_done().unwrap();
    session.queue(&[parse("select 1"), SYNC, Request::Query("select 2")]);
    session.settle();
}

/// The Sync after a COPY is ignored, and sent again.
fn copy_in_and_sync(session: &mut Session) {
    session.settle();
    for data in [&b"25\ttwenty-five\n"[..], b"x\ty\n"] {
        run(session, "copy item from stdin");
        session.queue(&[SYNC]);
        session.until(is_copy_in);
        session.connection.copy_data(data).unwrap();
        session.connection.copy_done().unwrap();
        session.queue(&[Request::Query("delete from item where id > 20")]);
        session.settle();
    }
    run(session, "copy item from stdin");
    session.queue(&[SYNC]);
    session.until(is_copy_in);
    session.connection.copy_data(b"x\ty\n").unwrap();
    session.until(is_failed);
    session.settle();
    run(session, "copy item from stdin");
    session.queue(&[SYNC, SYNC]);
    session.until(is_copy_in);
    session.connection.copy_fail("no").unwrap();
    session.settle();
    session.queue(&[Request::Query("select 1")]);
    session.settle();
}

/// A trigger fails before the server has read the Sync, which then has two answers.
fn copy_in_and_trigger(session: &mut Session) {
    session.settle();
    run(session, "copy guarded from stdin");
    session.queue(&[SYNC]);
    session.settle();
    session.queue(&[Request::Query("select 1")]);
    session.settle();
    session.queue(&[Request::Query("copy guarded from stdin"), SYNC]);
    session.settle();
    session.queue(&[SYNC, SYNC]);
    run(session, "select 2");
    session.queue(&[SYNC]);
    session.settle();
}

/// Any other request after a COPY ends the connection.
fn copy_in_and_more(session: &mut Session) {
    session.settle();
    session.queue(&[
        Request::Query("copy item from stdin"),
        parse("select 1"),
        SYNC,
    ]);
    session.settle();
}

fn copy_out(session: &mut Session) {
    session.settle();
    session.queue(&[
        Request::Query("copy (select generate_series(1, 3), 'a\tb') to stdout; select 1"),
        Request::Query("copy (select 1 where false) to stdout (format binary)"),
        Request::Query("copy (select 1 / (3 - n) from generate_series(1, 5) n) to stdout"),
    ]);
    run(
        session,
        "copy (select 1 / (2 - n) from generate_series(1, 5) n) to stdout",
    );
    session.queue(&[parse("select 1"), SYNC]);
    run(session, "copy (select 7) to stdout (format csv, header)");
    session.queue(&[SYNC]);
    session.settle();
}

fn notifications(session: &mut Session) {
    session.settle();
    session.queue(&[
        Request::Query("listen jobs"),
        Request::Query("listen \"päckli\""),
    ]);
    session.queue(&[Request::Query("notify jobs; notify jobs, 'two'")]);
    session.settle();
    run(session, "notify \"päckli\", 'grüezi'");
    session.queue(&[SYNC]);
    run(session, "select 1");
    session.queue(&[SYNC]);
    session.settle();
}

fn terminated(session: &mut Session) {
    session.settle();
    run(session, "select pg_terminate_backend(pg_backend_pid())");
    session.queue(&[SYNC]);
    run(session, "select 1");
    session.queue(&[SYNC]);
    session.settle();
    // Nothing is received after the end.
    session.settle();
}
