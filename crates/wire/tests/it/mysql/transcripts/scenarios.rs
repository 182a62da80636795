//! The scenarios that are recorded with every server.

use lookaside_wire::mysql::{
    Capabilities, ColumnType, Cursor, ParameterType, Request, Startup, StatementId, TlsMode,
    Transport,
};

use super::session::{Session, Value};

/// A dialogue: the log-in and the requests.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) user: &'static str,
    pub(super) password: &'static str,
    pub(super) key: Key,
    pub(super) way: Way,
    pub(super) only: Option<Vendor>,
    pub(super) startup: fn(Startup<'_>) -> Startup<'_>,
    pub(super) play: fn(&mut Session),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vendor {
    MariaDb,
    MySql,
}

/// The source of the server's public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Refuse,
    Ask,
    Given,
}

/// The transport of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Tcp,
    Unix,
    Tls,
}

impl Scenario {
    pub(super) fn is_for(&self, vendor: Vendor) -> bool {
        self.only.is_none_or(|only| only == vendor)
    }

    pub(super) fn transport(&self) -> Transport {
        match self.way {
            Way::Tcp | Way::Tls => Transport::Plain,
            Way::Unix => Transport::Protected,
        }
    }
}

const fn scenario(name: &'static str, play: fn(&mut Session)) -> Scenario {
    Scenario {
        name,
        user: "amy",
        password: "",
        key: Key::Refuse,
        way: Way::Tcp,
        only: None,
        startup: |startup| startup.database("shop"),
        play,
    }
}

const fn login(name: &'static str, user: &'static str, password: &'static str) -> Scenario {
    Scenario {
        user,
        password,
        startup: |startup| startup,
        ..scenario(name, Session::settle)
    }
}

const fn only(vendor: Vendor, scenario: Scenario) -> Scenario {
    Scenario {
        only: Some(vendor),
        ..scenario
    }
}

pub(super) const SCENARIOS: &[Scenario] = &[
    login("login_empty", "amy", ""),
    only(Vendor::MariaDb, login("login_native", "native", "secret")),
    only(
        Vendor::MariaDb,
        login("login_native_wrong", "native", "guess"),
    ),
    login("login_unknown", "nobody", ""),
    Scenario {
        startup: |startup| startup.database("nothing"),
        ..login("login_database_unknown", "amy", "")
    },
    only(Vendor::MariaDb, login("login_ed25519", "signer", "secret")),
    only(
        Vendor::MariaDb,
        login("login_ed25519_wrong", "signer", "guess"),
    ),
    only(Vendor::MariaDb, login("login_either", "either", "secret")),
    only(
        Vendor::MySql,
        Scenario {
            way: Way::Unix,
            ..login("login_sha2_socket", "by_socket", "secret")
        },
    ),
    only(
        Vendor::MySql,
        login("login_sha2_fast", "by_socket", "secret"),
    ),
    only(
        Vendor::MySql,
        Scenario {
            key: Key::Ask,
            ..login("login_sha2_ask", "by_asking", "secret")
        },
    ),
    only(
        Vendor::MySql,
        Scenario {
            key: Key::Given,
            ..login("login_sha2_key", "by_key", "secret")
        },
    ),
    only(
        Vendor::MySql,
        login("login_sha2_refused", "refused", "secret"),
    ),
    Scenario {
        way: Way::Tls,
        startup: |startup| startup.tls(TlsMode::Require),
        ..login("login_tls", "by_tls", "secret")
    },
    scenario("queries", queries),
    Scenario {
        startup: |startup| startup.database("shop").multi_statements(),
        ..scenario("multi_statements", multi_statements)
    },
    Scenario {
        startup: |startup| {
            startup
                .database("shop")
                .without(Capabilities::DEPRECATE_EOF)
        },
        ..scenario("queries_eof", queries)
    },
    scenario("session", session_changes),
    scenario("types", types),
    scenario("statements", statements),
    Scenario {
        startup: |startup| {
            startup
                .database("shop")
                .without(Capabilities::DEPRECATE_EOF)
        },
        ..scenario("statements_eof", statements)
    },
    only(
        Vendor::MariaDb,
        Scenario {
            startup: |startup| {
                let without = Capabilities(!0xffff_ffff);
                startup.database("shop").without(without)
            },
            ..scenario("statements_plain", statements)
        },
    ),
    scenario("cursors", cursors),
    Scenario {
        startup: |startup| {
            startup
                .database("shop")
                .without(Capabilities::DEPRECATE_EOF)
        },
        ..scenario("cursors_eof", cursors)
    },
    scenario("calls", calls),
    scenario("pipeline", pipeline),
    scenario("infile", |session| {
        session.settle();
        session.query("load data local infile '/etc/hostname' into table item");
    }),
    scenario("killed", killed),
    only(Vendor::MariaDb, scenario("last", last)),
    only(Vendor::MariaDb, scenario("bulk", bulk)),
    only(
        Vendor::MySql,
        Scenario {
            startup: |startup| startup.database("shop").optional_metadata(),
            ..scenario("optional_metadata", optional_metadata)
        },
    ),
    only(
        Vendor::MySql,
        Scenario {
            startup: |startup| {
                let startup = startup.database("shop").optional_metadata();
                startup.without(Capabilities::DEPRECATE_EOF)
            },
            ..scenario("optional_metadata_eof", optional_metadata)
        },
    ),
];

/// The SQL that sets up a server for recording.
pub(super) fn setup(vendor: Vendor) -> Vec<&'static str> {
    let mut setup = vec![
        "create database shop",
        "use shop",
        "create table item (id int primary key auto_increment, name varchar(20))",
        "insert into item values (1, 'one'), (2, null), (3, 'three')",
        "create procedure twice(in n int, out m int) \
         begin select n as once; select n, 'two' as text; set m = 2 * n; end",
    ];
    setup.extend(match vendor {
        Vendor::MariaDb => &[
            "create user amy",
            "create user native identified via mysql_native_password using password('secret')",
            "create user by_tls identified via mysql_native_password using password('secret')",
            "create user signer identified via ed25519 using password('secret')",
            "create user either identified via unix_socket or ed25519 using password('other') \
             or mysql_native_password using password('secret')",
        ][..],
        Vendor::MySql => &[
            "create user amy",
            "create user by_tls identified by 'secret'",
            "create user by_socket identified by 'secret'",
            "create user by_asking identified by 'secret'",
            "create user by_key identified by 'secret'",
            "create user refused identified by 'secret'",
        ][..],
    });
    setup.push("grant all on shop.* to amy");
    setup
}

fn queries(session: &mut Session) {
    session.settle();
    for sql in [
        "select 7 as n, null as nothing, 'x' as text, 1.50 as amount",
        "select * from item",
        "select * from item where false",
        "insert into item (name) values ('four'), ('five')",
        "update item set name = 'other' where id > 3",
        "delete from item where id > 3",
        "alter table item auto_increment = 4",
        "select * from nothing",
        "selekt",
        "",
        "select 1; select 2",
        "select 'a' + 1",
        "show warnings",
        "do 1",
    ] {
        session.query(sql);
    }
}

fn multi_statements(session: &mut Session) {
    session.settle();
    session.query("select 1 as a; do 1; select 2 as b, 3 as c from item; do 1");
    session.query("select 1; select * from nothing; select 2");
}

fn session_changes(session: &mut Session) {
    session.settle();
    for sql in [
        "set session_track_transaction_info = 'CHARACTERISTICS'",
        "set session_track_state_change = on",
        "set session_track_system_variables = '*'",
        "use shop",
        "set names utf8mb4",
        "set time_zone = '+01:00'",
        "begin",
        "insert into item values (9, 'nine')",
        "select count(*) from item",
        "rollback",
        "start transaction read only",
        "commit",
        "set autocommit = 0",
        "set sql_mode = 'NO_BACKSLASH_ESCAPES'",
    ] {
        session.query(sql);
    }
}

fn types(session: &mut Session) {
    session.settle();
    session.query(
        "create temporary table every (
            a tinyint, b smallint unsigned, c mediumint, d int, e bigint unsigned, f float,
            g double, h decimal(30, 10), i date, j time(6), k datetime(6), l timestamp null,
            m year, n char(3), o varchar(10) character set latin1, p binary(3), q varbinary(3),
            r text, s blob, t enum('x', 'y'), u set('x', 'y'), v bit(12), w json, x point)",
    );
    session.query(
        "insert into every values
            (-1, 65535, -8388608, -2147483648, 18446744073709551615, 1.5, -2.25,
             -12345678901234567890.0123456789, '2026-11-22', '-838:59:58.999999',
             '2026-11-22 04:05:06.000007', '2026-11-22 04:05:06', 2026, 'abc', 'é', 'abc', 'abc',
             'text', x'00ff', 'y', 'x,y', b'101010101010', '{\"a\": [1]}', point(1, 2)),
            (0, 0, 0, 0, 0, 0, 0, 0, '1000-01-01', '00:00:00', '1000-01-01', null,
             1901, '', '', '', '', '', '', 'x', '', b'0', 'null', point(0, 0)),
            (null, null, null, null, null, null, null, null, null, null, null, null,
             null, null, null, null, null, null, null, null, null, null, null, null)",
    );
    session.query("select * from every");
    let statement = session.prepare("select * from every");
    session.execute(statement, &[]);
    session.settle();
}

fn statements(session: &mut Session) {
    session.settle();
    let select = session.prepare("select * from item where id >= ? order by id");
    for id in [2, 1, 9] {
        session.execute(select, &[Value::Int(id)]);
    }
    session.settle();
    let echo = session.prepare("select ?, ?, ?, ?");
    let values = [
        Value::Int(-7),
        Value::Double(1.5),
        Value::Text("text"),
        Value::Null,
    ];
    session.execute(echo, &values);
    session.execute(echo, &values);
    session.settle();
    // The columns of the statement change.
    for sql in [
        "create table shape (a int, b int)",
        "insert into shape values (1, 2)",
    ] {
        session.query(sql);
    }
    let shape = session.prepare("select * from shape");
    for sql in [
        "do 1",
        "alter table shape modify a bigint",
        "alter table shape modify a varchar(9)",
        "alter table shape modify a int after b",
        "alter table shape add c int",
        "drop table shape",
    ] {
        session.query(sql);
        session.execute(shape, &[]);
        session.execute(shape, &[]);
        session.settle();
    }
    let insert = session.prepare("insert into item values (?, ?)");
    let row = [Value::Int(7), Value::Text("seven")];
    session.execute(insert, &row);
    session.execute(insert, &row);
    session.query("delete from item where id = 7");
    session.queue(&[
        Request::Prepare("select * from nothing"),
        Request::CloseStatement(insert),
    ]);
    session.settle();
    session.execute(insert, &row);
    session.settle();
    // Too few parameters.
    session.execute(select, &[]);
    session.settle();
    session.queue(&[Request::ResetConnection]);
    session.settle();
    session.execute(select, &[Value::Int(2)]);
    session.settle();
}

fn cursors(session: &mut Session) {
    session.settle();
    let statement = session.prepare("select * from item order by id");
    let fetch = |row_count_max| Request::Fetch {
        statement,
        row_count_max,
    };
    session.execute_with(statement, Cursor::ReadOnly, &[]);
    session.settle();
    session.queue(&[fetch(2)]);
    session.settle();
    session.queue(&[fetch(2), fetch(2)]);
    session.settle();
    // In one flight, and abandoned.
    session.execute_with(statement, Cursor::ReadOnly, &[]);
    session.queue(&[
        fetch(1),
        Request::ResetStatement(statement),
        fetch(1),
        Request::Ping,
    ]);
    session.settle();
    // No cursor is opened for this one.
    let insert = session.prepare("do 1");
    session.execute_with(insert, Cursor::ReadOnly, &[]);
    session.settle();
}

fn calls(session: &mut Session) {
    session.settle();
    session.query("call twice(7, @m)");
    let call = session.prepare("call twice(?, ?)");
    session.execute(call, &[Value::Int(7), Value::Null]);
    session.execute(call, &[Value::Int(8), Value::Null]);
    session.settle();
}

fn pipeline(session: &mut Session) {
    session.settle();
    let statement = session.prepare("select * from item where id = ?");
    for id in 1..4 {
        session.execute(statement, &[Value::Int(id)]);
        session.queue(&[Request::Query("select * from nothing"), Request::Ping]);
    }
    session.queue(&[Request::CloseStatement(statement)]);
    session.execute(statement, &[Value::Int(1)]);
    session.queue(&[
        Request::ResetConnection,
        Request::Query("select 1"),
        Request::Ping,
    ]);
    session.settle();
}

fn killed(session: &mut Session) {
    session.settle();
    session.queue(&[
        Request::Query("kill connection_id()"),
        Request::Query("select 1"),
    ]);
    session.settle();
}

fn last(session: &mut Session) {
    session.settle();
    session.queue(&[Request::Prepare("select * from item where id = ?")]);
    session.execute(StatementId::LAST, &[Value::Int(1)]);
    session.execute(StatementId::LAST, &[Value::Int(2)]);
    session.settle();
    session.queue(&[Request::Prepare("select * from nothing where id = ?")]);
    session.execute(StatementId::LAST, &[Value::Int(1)]);
    session.settle();
    session.queue(&[
        Request::Prepare("select 1 as one"),
        Request::CloseStatement(StatementId::LAST),
    ]);
    session.execute(StatementId::LAST, &[]);
    session.settle();
}

fn bulk(session: &mut Session) {
    session.settle();
    session.query("create temporary table bulk (id int unique, name varchar(9) default 'none')");
    let statement = session.prepare("insert into bulk values (?, ?)");
    let types = [
        ParameterType::new(ColumnType::LONG),
        ParameterType::new(ColumnType::VAR_STRING),
    ];
    // The second run has a key twice.
    for first in [1, 3] {
        let queued = session.connection.queue_bulk(statement, &types, |writer| {
            for id in first..first + 4_i32 {
                writer.number((id / 5 * 2 + id % 5).to_le_bytes());
                match id % 3 {
                    0 => writer.null(),
                    1 => writer.default(),
                    _ => writer.bytes(b"text"),
                }
            }
        });
        queued.unwrap();
    }
    session.settle();
    session.query("select * from bulk");
    let returning = session.prepare("insert into bulk (id) values (?) returning id, name");
    for first in [10, 20] {
        let queued = session
            .connection
            .queue_bulk(returning, &types[..1], |writer| {
                writer.number(i32::to_le_bytes(first));
                writer.number(i32::to_le_bytes(first + 1));
            });
        queued.unwrap();
    }
    session.settle();
}

fn optional_metadata(session: &mut Session) {
    session.settle();
    for sql in [
        "create table optional (a int, b int)",
        "insert into optional values (1, 2)",
    ] {
        session.query(sql);
    }
    let statement = session.prepare("select * from optional");
    session.execute(statement, &[]);
    session.settle();
    session.query("set resultset_metadata = none");
    session.execute(statement, &[]);
    session.execute_with(statement, Cursor::ReadOnly, &[]);
    session.queue(&[Request::Fetch {
        statement,
        row_count_max: 9,
    }]);
    session.query("select 1 as unknown");
    // A wider number is detected by the remaining bytes.
    session.query("alter table optional modify a bigint");
    session.execute(statement, &[]);
    session.execute(statement, &[]);
    session.query("set resultset_metadata = full");
    session.execute(statement, &[]);
    session.query("set resultset_metadata = none");
    // Exchanged columns are not detected.
    session.query("alter table optional modify a bigint after b");
    session.execute(statement, &[]);
    session.settle();
    // Another number of columns is detected.
    session.query("alter table optional add c int");
    session.execute(statement, &[]);
    session.settle();
    let unknown = session.prepare("select ? from optional");
    session.execute(unknown, &[Value::Int(1)]);
    session.execute_with(unknown, Cursor::ReadOnly, &[Value::Int(1)]);
    session.settle();
    session.query("drop table optional");
}
