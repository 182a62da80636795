//! A server in memory, which forgets, refuses and breaks off as a test tells it.

use std::collections::BTreeMap;
use std::time::Instant;

use lookaside_client::mysql::{MysqlDriver, Options};
use lookaside_client::{Driver, Protocol, Reply};
use lookaside_testing::Brand;
use lookaside_wire::mysql::{Credentials, Startup, Transport};

/// `SERVER_STATUS_IN_TRANS` and `SERVER_STATUS_AUTOCOMMIT`.
const IN_TRANSACTION: u16 = 1;
const AUTOCOMMIT: u16 = 2;

/// What is prepared so that what was prepared last does nothing.
const NOTHING: &str = "do 0";

/// Echoes what it is asked: a statement has one parameter, an integer, and one row with it.
pub(crate) struct Script {
    input: Vec<u8>,
    output: Vec<u8>,
    statements: BTreeMap<u32, String>,
    last_id: u32,
    /// None after a Prepare that failed.
    last_prepared: Option<u32>,
    status: u16,
    is_logged_in: bool,
    /// It leaves definitions out if it is told to, and so says where it does not.
    is_optional: bool,
    /// It has rows for what gives none.
    pub(crate) is_odd: bool,
    /// It executes the last statement that it prepared, although it has refused one since.
    pub(crate) executes_unprepared: bool,
    pub(crate) prepare_count: usize,
    pub(crate) execute_count: usize,
    /// Which statements with which values.
    pub(crate) executed: Vec<(String, i64)>,
    pub(crate) statement_count_max: usize,
    /// Errors that the next executions meet.
    pub(crate) refusals: Vec<u16>,
}

impl Script {
    fn new(brand: Brand, is_optional: bool) -> Self {
        let mut script = Self {
            input: Vec::new(),
            output: Vec::new(),
            statements: BTreeMap::new(),
            last_id: 0,
            last_prepared: None,
            status: AUTOCOMMIT,
            is_logged_in: false,
            is_optional,
            is_odd: false,
            executes_unprepared: false,
            prepare_count: 0,
            execute_count: 0,
            executed: Vec::new(),
            statement_count_max: usize::MAX,
            refusals: Vec::new(),
        };
        let mut greeting = b"\x0a9.9.9\0\x07\0\0\0abcdefgh\0".to_vec();
        // CLIENT_PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, LONG_PASSWORD; PLUGIN_AUTH,
        // PS_MULTI_RESULTS, MULTI_RESULTS, DEPRECATE_EOF; perhaps OPTIONAL_RESULTSET_METADATA.
        // MariaDB has no LONG_PASSWORD, and capabilities of its own: MARIADB_BULK.
        let (long_password, more_capabilities) = match brand {
            Brand::MariaDb => (0, 4),
            Brand::MySql => (1, 0),
        };
        greeting.extend((0xa200_u16 | long_password).to_le_bytes());
        greeting.push(45);
        greeting.extend(AUTOCOMMIT.to_le_bytes());
        let more = 0x010e_u16 | u16::from(is_optional) << 9;
        greeting.extend(more.to_le_bytes());
        greeting.push(21);
        greeting.extend([0, 0, 0, 0, 0, 0, more_capabilities, 0, 0, 0]);
        greeting.extend(b"abcdefghijkl\0mysql_native_password\0");
        script.packet(0, &greeting);
        script
    }

    /// Drops all statements, as after a change of the server behind a proxy.
    pub(crate) fn forget(&mut self) {
        self.statements.clear();
    }

    /// Takes what was prepared before what does nothing for the last.
    pub(crate) fn forget_nothing(&mut self) {
        let mut rest = self.statements.iter().rev();
        let last = rest.find(|(_, sql)| *sql != NOTHING);
        self.last_prepared = last.map(|(id, _)| *id);
    }

    /// How many statements it holds.
    pub(crate) fn statement_count(&self) -> usize {
        self.statements.len()
    }

    fn packet(&mut self, sequence: u8, payload: &[u8]) {
        let size = u32::try_from(payload.len()).unwrap().to_le_bytes();
        self.output.extend([size[0], size[1], size[2], sequence]);
        self.output.extend(payload);
    }

    fn ok(&mut self, sequence: u8, first: u8) {
        let [low, high] = self.status.to_le_bytes();
        self.packet(sequence, &[first, 0, 0, low, high, 0, 0]);
    }

    fn error(&mut self, code: u16) {
        let mut payload = vec![0xff];
        payload.extend(code.to_le_bytes());
        payload.extend(b"#HY000refused");
        self.packet(1, &payload);
    }

    /// The definition of an integer.
    fn column(&mut self, sequence: u8, name: u8) {
        let mut payload = b"\x03def\0\0\0\x01".to_vec();
        payload.extend([name, 0, 0x0c, 63, 0, 20, 0, 0, 0, 8, 0, 0, 0, 0, 0]);
        self.packet(sequence, &payload);
    }

    fn take(&mut self, bytes: &[u8]) {
        self.input.extend(bytes);
        while let Some((&head, rest)) = self.input.split_first_chunk::<4>() {
            let size = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
            if rest.len() < size {
                return;
            }
            let payload = rest[..size].to_vec();
            self.input.drain(..4 + size);
            if self.is_logged_in {
                self.command(&payload);
            } else {
                self.is_logged_in = true;
                self.ok(head[3] + 1, 0);
            }
        }
    }

    fn command(&mut self, payload: &[u8]) {
        let (&command, rest) = payload.split_first().unwrap();
        let id = || u32::from_le_bytes(rest[..4].try_into().unwrap());
        match command {
            // COM_QUIT
            1 => {}
            // COM_QUERY
            3 => {
                match rest {
                    b"begin" => self.status |= IN_TRANSACTION,
                    b"commit" => self.status &= !IN_TRANSACTION,
                    _ if self.is_odd => return self.result(b"\x017"),
                    _ => {}
                }
                self.ok(1, 0);
            }
            // COM_STMT_PREPARE
            0x16 => self.prepare(String::from_utf8(rest.to_vec()).unwrap()),
            // COM_STMT_EXECUTE
            0x17 => self.execute(id(), rest),
            // COM_STMT_CLOSE
            0x19 => drop(self.statements.remove(&id())),
            other => panic!("command {other}"),
        }
    }

    /// A result with one column.
    fn result(&mut self, row: &[u8]) {
        let header: &[u8] = if self.is_optional { &[1, 1] } else { &[1] };
        self.packet(1, header);
        self.column(2, b'x');
        self.packet(3, row);
        self.ok(4, 0xfe);
    }

    fn prepare(&mut self, sql: String) {
        let does_nothing = sql == NOTHING;
        self.prepare_count += usize::from(!does_nothing);
        if self.statements.len() >= self.statement_count_max {
            // As MariaDB has it, the last one stays the last one.
            return self.error(1461);
        }
        if sql.contains("nonsense") {
            if !self.executes_unprepared {
                self.last_prepared = None;
            }
            return self.error(1064);
        }
        self.last_id += 1;
        self.last_prepared = Some(self.last_id);
        self.statements.insert(self.last_id, sql);
        let mut payload = vec![0];
        payload.extend(self.last_id.to_le_bytes());
        if does_nothing {
            payload.extend([0; 7]);
            return self.packet(1, &payload);
        }
        payload.extend([1, 0, 1, 0, 0, 0, 0]);
        payload.extend(self.is_optional.then_some(1));
        self.packet(1, &payload);
        self.column(2, b'?');
        self.column(3, b'x');
    }

    fn execute(&mut self, id: u32, rest: &[u8]) {
        self.execute_count += 1;
        if let Some(code) = self.refusals.pop() {
            return self.error(code);
        }
        let id = match id {
            u32::MAX => self.last_prepared,
            id => Some(id),
        };
        let Some(sql) = id.and_then(|id| self.statements.get(&id)) else {
            return self.error(1243);
        };
        if sql == NOTHING {
            self.execute_count -= 1;
            return self.ok(1, 0);
        }
        if sql.contains("refused") {
            return self.error(1690);
        }
        // Id, cursor, count, bits of the NULLs, one for types that follow, a type, the value.
        assert_eq!(rest[9..13], [0, 1, 8, 0], "an integer");
        let value: [u8; 8] = rest[13..].try_into().unwrap();
        self.executed.push((sql.clone(), i64::from_le_bytes(value)));
        let mut row = vec![0, 0];
        row.extend(value);
        self.result(&row);
    }
}

/// A driver and its server, and the bytes between them.
pub(crate) struct Pair {
    pub(crate) driver: MysqlDriver,
    pub(crate) script: Script,
}

impl Pair {
    pub(crate) fn new(options: Options) -> Self {
        Self::of(Brand::MySql, options)
    }

    /// With a server that can execute what it prepared last.
    pub(crate) fn mariadb(options: Options) -> Self {
        Self::of(Brand::MariaDb, options)
    }

    fn of(brand: Brand, options: Options) -> Self {
        let is_optional = options.pinned_check_after.is_some();
        let startup = Startup::new("amy").transport(Transport::Protected);
        let driver = MysqlDriver::new(&startup, Credentials::new([7; 20]), options);
        let mut pair = Self {
            driver: driver.unwrap(),
            script: Script::new(brand, is_optional),
        };
        while !pair.driver.is_ready() {
            assert!(
                pair.exchange(usize::MAX, usize::MAX),
                "the log-in comes to an end"
            );
        }
        pair
    }

    /// Moves up to so many bytes in each direction; returns whether there were any.
    pub(crate) fn exchange(&mut self, there: usize, back: usize) -> bool {
        self.driver.advance(Instant::now());
        let output = self.driver.output();
        let size = output.len().min(there);
        let bytes = output[..size].to_vec();
        self.driver.written(size);
        self.script.take(&bytes);
        let back = self.script.output.len().min(back);
        if back > 0 {
            let space = self.driver.receive_space(back);
            let space_size = back.min(space.len());
            space[..space_size].copy_from_slice(&self.script.output[..space_size]);
            self.driver.received(space_size);
            self.script.output.drain(..back);
        }
        self.driver.advance(Instant::now());
        size + back > 0
    }

    /// The next reply.
    pub(crate) fn reply(&mut self) -> Reply {
        loop {
            if let Some(reply) = self.driver.next_reply() {
                return reply;
            }
            assert!(self.exchange(usize::MAX, usize::MAX), "an answer comes");
        }
    }
}
