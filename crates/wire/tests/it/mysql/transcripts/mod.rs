//! Dialogues with real servers: recorded once, replayed on every run.
//!
//! ```text
//! > a packet of the client    < a packet of the server        = the resulting event
//! ```
//!
//! To record them again, name server programs, separated by colons:
//!
//! ```text
//! LOOKASIDE_WIRE_RECORD_MYSQL=/usr/sbin/mariadbd cargo test -p lookaside-wire mysql::transcripts
//! ```

mod record;
mod scenarios;
mod session;
mod sweeps;

use std::fs;
use std::path::{Path, PathBuf};

use scenarios::{SCENARIOS, Scenario, Vendor};
use session::Session;

/// Commands: COM_QUIT, and those without a statement.
const QUIT: u8 = 0x01;
const WITHOUT_STATEMENT: [u8; 4] = [0x03, 0x16, 0x0e, 0x1f];

/// How the fuzz target splits streams, unless a mutation changes it.
const CUT: u8 = 0x7f;

/// The folder of the transcripts, with a subfolder per server version.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/mysql")
}

/// A recorded dialogue.
pub(crate) struct Transcript {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Transcript {
    /// All transcripts, of all servers.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for server in fs::read_dir(folder()).unwrap() {
            for file in fs::read_dir(server.unwrap().path()).unwrap() {
                let path = file.unwrap().path();
                let name = path.strip_prefix(folder()).unwrap().with_extension("");
                all.push(Self {
                    name: name.to_str().unwrap().to_owned(),
                    text: fs::read_to_string(&path).unwrap(),
                });
            }
        }
        all.sort_by(|left, right| left.name.cmp(&right.name));
        assert!(!all.is_empty(), "no transcripts in {}", folder().display());
        all
    }

    /// The bytes of the lines that begin with `mark`, one item per line.
    pub(crate) fn lines(&self, mark: &str) -> impl Iterator<Item = Vec<u8>> {
        let lines = self.text.lines();
        lines.filter_map(move |line| Some(unescaped(line.strip_prefix(mark)?)))
    }

    /// Everything that the server sent.
    fn stream(&self) -> Vec<u8> {
        let packets = self.lines("< ");
        packets
            .filter(|packet| packet != session::END)
            .flatten()
            .collect()
    }

    /// Input for the fuzz target: the requests, and the server's answers.
    pub(crate) fn fuzz_input(&self) -> Vec<u8> {
        let mut options = 0;
        for (bit, name) in [
            (1, "_eof"),
            (2, "optional"),
            (4, "ask"),
            (8, "socket"),
            (16, "_plain"),
        ] {
            if self.name.contains(name) {
                options |= bit;
            }
        }
        let requests = self.lines("> ").filter(|packet| packet[3] == 0);
        let requests = requests.filter(|packet| packet[4] != QUIT);
        let requests: Vec<u8> = requests
            .flat_map(|packet| match (packet[4], packet.get(5)) {
                (command, _) if WITHOUT_STATEMENT.contains(&command) => [command, 0],
                // The last statement has a reserved number.
                (command, Some(0xff)) => [command, 0],
                (command, statement) => [command, *statement.unwrap()],
            })
            .collect();
        let request_count = u8::try_from(requests.len() / 2).unwrap();
        let head = [options, CUT, request_count];
        [&head, &requests[..], &self.stream()].concat()
    }

    fn scenario(&self) -> &'static Scenario {
        let name = self.name.rsplit('/').next().unwrap();
        let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
        scenario.unwrap_or_else(|| panic!("no scenario for {}", self.name))
    }
}

/// Reverses `escape_ascii`.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next().unwrap() {
                b'x' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                same => same,
            },
            byte => byte,
        });
    }
    bytes
}

/// The same requests produce the same bytes, and the same bytes the same events.
#[test]
fn transcripts_of_real_servers() {
    if let Ok(programs) = std::env::var("LOOKASIDE_WIRE_RECORD_MYSQL") {
        for program in programs.split(':') {
            record::all(Path::new(program), &folder());
        }
    }
    let transcripts = Transcript::all();
    for (vendor, name) in [(Vendor::MariaDb, "mariadb-"), (Vendor::MySql, "mysql-")] {
        let count = SCENARIOS
            .iter()
            .filter(|scenario| scenario.is_for(vendor))
            .count();
        let of_vendor = transcripts
            .iter()
            .filter(|transcript| transcript.name.starts_with(name));
        assert_eq!(
            of_vendor.count() % count,
            0,
            "{name}: every server is asked everything"
        );
    }
    for transcript in transcripts {
        let mut session = Session::replay(&transcript, transcript.lines("< ").collect());
        (transcript.scenario().play)(&mut session);
        let found = session.finish();
        for (index, (found, recorded)) in found.lines().zip(transcript.text.lines()).enumerate() {
            let place = format!("{}, line {}", transcript.name, index + 1);
            assert_eq!(found, recorded, "{place}");
        }
        assert_eq!(found, transcript.text, "{}", transcript.name);
    }
}
