//! Dialogues with real servers: recorded once, replayed on every run.
//!
//! ```text
//! > a message of the client    < a message of the server        = the resulting event
//! ```
//!
//! To record them again, name folders of server programs, separated by colons:
//!
//! ```text
//! LOOKASIDE_WIRE_RECORD=/usr/lib/postgresql/15/bin cargo test -p lookaside-wire transcripts
//! ```

mod record;
mod replication;
mod scenarios;
mod session;
mod sweeps;

use std::fs;
use std::path::{Path, PathBuf};

use scenarios::{SCENARIOS, Scenario};
use session::Session;

/// The folder of the transcripts, with a subfolder per server version.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/postgres")
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
    pub(crate) fn stream(&self) -> Vec<u8> {
        let messages = self.lines("< ");
        messages
            .filter(|message| message != session::END)
            .flatten()
            .collect()
    }

    /// The data of the server within CopyData, if it is a stream of replication.
    pub(crate) fn streamed(&self) -> impl Iterator<Item = Vec<u8>> {
        let is_replication = self
            .name
            .rsplit('/')
            .next()
            .unwrap()
            .starts_with("replication");
        let messages = self.lines("< ").filter(move |_| is_replication);
        messages.filter_map(|message| Some(message.strip_prefix(b"d")?[4..].to_vec()))
    }

    /// Input for the fuzz target: the requests, and the server's answers.
    pub(crate) fn fuzz_input(&self, cut: u8) -> Vec<u8> {
        let mut requests: Vec<u8> = self
            .lines("> ")
            .skip(1)
            .filter_map(|message| match message[0] {
                b'p' | b'd' | b'c' | b'f' | b'H' | b'X' => None,
                b'D' if message[5] == b'P' => Some(b'd'),
                tag => Some(tag),
            })
            .collect();
        requests.truncate(255);
        let count = u8::try_from(requests.len()).unwrap();
        [&[count], &requests[..], &[cut], &self.stream()].concat()
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
    if let Ok(folders) = std::env::var("LOOKASIDE_WIRE_RECORD") {
        for programs in folders.split(':') {
            record::all(Path::new(programs), &folder());
        }
    }
    let transcripts = Transcript::all();
    assert_eq!(
        transcripts.len() % SCENARIOS.len(),
        0,
        "every server is asked everything"
    );
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
