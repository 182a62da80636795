//! A server in memory: as much of one as it takes to be queried, and to be awkward.

use std::collections::{BTreeMap, BTreeSet};

/// What the server does is in the SQL: `select $1` answers with its parameter, everything else is
/// done without an answer. The parameter 0 is refused with 22012 (division by zero).
#[derive(Default)]
pub(crate) struct Server {
    input: Vec<u8>,
    output: Vec<u8>,
    is_logged_in: bool,
    /// Skips what comes, up to a Sync.
    is_skipping: bool,
    /// The portal: SQL and its parameter.
    bound: Option<(String, i32)>,
    /// The statements that are prepared, with their SQL.
    pub(crate) statements: BTreeMap<String, String>,
    /// `T` and `E` inside of a transaction.
    pub(crate) status: Option<u8>,
    /// All that was prepared, by SQL.
    pub(crate) parses: Vec<String>,
    /// The number of Binds of statements that the server does not have.
    pub(crate) unknown_count: usize,
    /// The scripts that came.
    pub(crate) scripts: Vec<String>,
    /// The parameters of what was executed.
    pub(crate) executions: Vec<i32>,
    /// How many Syncs came.
    pub(crate) sync_count: usize,
    /// Statements whose next Bind is refused, with the state and the routine.
    pub(crate) stale: BTreeMap<String, (&'static str, &'static str)>,
    /// Stops before it executes this parameter.
    pub(crate) stuck_at: Option<i32>,
    /// Its execution is cancelled.
    pub(crate) canceled: BTreeSet<i32>,
    /// The next Sync fails.
    pub(crate) sync_fails: bool,
    /// It sends no key for cancel requests, as some proxies.
    pub(crate) has_no_cancel_key: bool,
    /// The next Close fails.
    pub(crate) close_fails: bool,
    /// The type of all parameters instead of int4.
    pub(crate) parameter_type: Option<u32>,
    /// The type of the column of the next portal that is described, instead of int4.
    pub(crate) portal_type: Option<u32>,
}

impl Server {
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// How many Syncs are among what came and was not looked at.
    pub(crate) fn unanswered_sync_count(&self) -> usize {
        let mut rest = &self.input[..];
        let mut count = 0;
        while let [tag, a, b, c, d, ..] = *rest {
            let size = u32::from_be_bytes([a, b, c, d]) as usize + 1;
            count += usize::from(tag == b'S');
            rest = &rest[size.min(rest.len())..];
        }
        count
    }

    /// All that it has to say to what came so far.
    pub(crate) fn answer(&mut self) -> Vec<u8> {
        while let Some(size) = self.message_size() {
            let message = self.input[..size].to_vec();
            if self.is_logged_in {
                if !self.step(message[0], &message[5..]) {
                    break;
                }
            } else {
                self.is_logged_in = true;
                self.output.extend_from_slice(b"R\0\0\0\x08\0\0\0\0");
                self.say(b'S', b"search_path\0public\0");
                if !self.has_no_cancel_key {
                    self.output
                        .extend_from_slice(b"K\0\0\0\x0c\0\0\0\x01\0\0\0\x02");
                }
                self.ready();
            }
            self.input.drain(..size);
        }
        std::mem::take(&mut self.output)
    }

    fn message_size(&self) -> Option<usize> {
        // The first message has no type.
        let head = usize::from(self.is_logged_in);
        let length = self.input.get(head..head + 4)?;
        let size = head + u32::from_be_bytes(length.try_into().unwrap()) as usize;
        (self.input.len() >= size).then_some(size)
    }

    pub(crate) fn say(&mut self, tag: u8, body: &[u8]) {
        self.output.push(tag);
        let length = u32::try_from(body.len() + 4).unwrap();
        self.output.extend_from_slice(&length.to_be_bytes());
        self.output.extend_from_slice(body);
    }

    fn ready(&mut self) {
        let status = self.status.unwrap_or(b'I');
        self.say(b'Z', &[status]);
    }

    fn refuse(&mut self, state: &str, routine: &str) {
        self.is_skipping = true;
        if self.status.is_some() {
            self.status = Some(b'E');
        }
        let body = format!("SERROR\0VERROR\0C{state}\0Mno\0P7\0R{routine}\0\0");
        self.say(b'E', body.as_bytes());
    }

    /// Answers one message; says whether it got past it.
    fn step(&mut self, tag: u8, body: &[u8]) -> bool {
        if tag == b'S' {
            self.sync_count += 1;
            self.is_skipping = false;
            if std::mem::take(&mut self.sync_fails) {
                self.refuse("23503", "");
                self.is_skipping = false;
            }
            self.ready();
            return true;
        }
        if self.is_skipping {
            return true;
        }
        let mut texts = body.split(|&byte| byte == 0);
        let mut text = || String::from_utf8(texts.next().unwrap().to_vec()).unwrap();
        match tag {
            b'P' => {
                let (name, sql) = (text(), text());
                self.parses.push(sql.clone());
                if sql.contains("nonsense") {
                    self.refuse("42601", "");
                } else {
                    self.statements.insert(name, sql);
                    self.say(b'1', b"");
                }
            }
            b'D' if body[0] == b'P' => {
                let (sql, _) = self.bound.as_ref().expect("a portal");
                if sql.contains("select") {
                    let mut description = b"\0\x01n\0\0\0\0\0\0\0".to_vec();
                    description.extend(self.portal_type.take().unwrap_or(23).to_be_bytes());
                    description.extend(b"\0\x04\xff\xff\xff\xff\0\x01");
                    self.say(b'T', &description);
                } else {
                    self.say(b'n', b"");
                }
            }
            b'D' => {
                let Some(sql) = self.statements.get(&text()[1..]).cloned() else {
                    self.refuse("26000", "");
                    return true;
                };
                let type_oid = self.parameter_type.unwrap_or(23).to_be_bytes();
                let count = u16::from(sql.contains("$1"));
                let mut parameters = count.to_be_bytes().to_vec();
                parameters.extend_from_slice(&type_oid[..4 * usize::from(count)]);
                self.say(b't', &parameters);
                if sql.contains("select") {
                    self.say(
                        b'T',
                        b"\0\x01n\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0",
                    );
                } else {
                    self.say(b'n', b"");
                }
            }
            b'C' if std::mem::take(&mut self.close_fails) => self.refuse("XX000", ""),
            b'C' => {
                self.statements.remove(&text()[1..]);
                self.say(b'3', b"");
            }
            b'B' => {
                let (_, name) = (text(), text());
                let parameter = parameter(&body[name.len() + 2..]);
                if let Some((state, routine)) = self.stale.remove(&name) {
                    self.refuse(state, routine);
                } else if let Some(sql) = self.statements.get(&name) {
                    self.bound = Some((sql.clone(), parameter));
                    self.say(b'2', b"");
                } else {
                    self.unknown_count += 1;
                    self.refuse("26000", "");
                }
            }
            b'E' => return self.execute(),
            b'Q' => self.script(&text()),
            // The farewell, and what ends a COPY that was never asked for.
            b'X' | b'd' | b'c' | b'f' => {}
            tag => panic!("unexpected message {}", char::from(tag)),
        }
        true
    }

    /// Answers `row WORDS`, `copy WORD`, `remark WORD` and `stuck`, one behind the other, and
    /// refuses all else.
    fn script(&mut self, sql: &str) {
        self.scripts.push(sql.to_owned());
        for statement in sql.split("; ").filter(|statement| !statement.is_empty()) {
            let (verb, word) = statement.split_once(' ').unwrap_or((statement, ""));
            match verb {
                "row" => {
                    let column = b"\0\x01w\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0";
                    self.say(b'T', column);
                    for word in word.split(' ') {
                        let size = u32::try_from(word.len()).unwrap().to_be_bytes();
                        let row = [b"\0\x01", &size[..], word.as_bytes()].concat();
                        self.say(b'D', &row);
                    }
                    self.say(b'C', b"SELECT 1\0");
                }
                "copy" => {
                    self.say(b'H', b"\0\0\0");
                    self.say(b'd', word.as_bytes());
                    self.say(b'c', b"");
                    self.say(b'C', b"COPY 1\0");
                }
                "remark" => {
                    self.say(b'N', format!("SNOTICE\0M{word}\0\0").as_bytes());
                    self.say(b'C', b"DO\0");
                }
                "stuck" => return,
                _ => {
                    self.refuse("42601", "");
                    self.is_skipping = false;
                    break;
                }
            }
        }
        if sql.is_empty() {
            self.say(b'I', b"");
        }
        self.ready();
    }

    fn execute(&mut self) -> bool {
        let (sql, number) = self.bound.clone().expect("a portal");
        if self.canceled.remove(&number) {
            self.stuck_at = None;
            self.refuse("57014", "");
            return true;
        }
        if self.stuck_at == Some(number) {
            return false;
        }
        self.executions.push(number);
        match sql.as_str() {
            "begin" => self.status = Some(b'T'),
            "rollback" => self.status = None,
            _ if number == 0 && sql.contains("$1") => {
                self.refuse("22012", "");
                return true;
            }
            _ => {}
        }
        if sql.contains("select") {
            let mut row = b"\0\x01\0\0\0\x04".to_vec();
            row.extend_from_slice(&number.to_be_bytes());
            self.say(b'D', &row);
            self.say(b'C', b"SELECT 1\0");
        } else {
            self.say(b'C', b"DONE\0");
        }
        true
    }
}

/// The parameter of a Bind, which follows its names.
fn parameter(rest: &[u8]) -> i32 {
    let format_count = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
    let rest = &rest[2 + 2 * format_count..];
    match rest {
        [0, 1, 0, 0, 0, 4, a, b, c, d, ..] => i32::from_be_bytes([*a, *b, *c, *d]),
        _ => 0,
    }
}
