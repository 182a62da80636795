//! Change feeds of a server that is cut off, damaged, silent, or says what it must not.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lookaside_client::postgres::feed::{LogicalReplicationMessage as Message, Lsn};
use lookaside_client::postgres::{ChangeFeed, FeedEvent, FeedOptions};
use lookaside_client::{Error, ErrorKind};
use tokio::time::timeout;

use super::Site;
use crate::live::tokio::block_on;

/// How long anything may take; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long the server waits for a client that a damaged message keeps waiting.
const SERVER_PATIENCE: Duration = Duration::from_millis(100);

/// The place of the tests' transaction.
const COMMIT: u64 = 0x0100_0028;
const END: u64 = 0x0100_0058;

/// What the server sends, piece by piece: the first after the startup message, and each other one
/// after a message of the client.
type Script = Vec<Vec<u8>>;

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[tag], &length.to_be_bytes()[..], body].concat()
}

fn row(values: &[&str]) -> Vec<u8> {
    let mut body = u16::try_from(values.len()).unwrap().to_be_bytes().to_vec();
    for value in values {
        body.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
        body.extend(value.as_bytes());
    }
    message(b'D', &body)
}

/// The answer to a command: perhaps a row.
fn answer(values: &[&str]) -> Vec<u8> {
    let mut answer = message(b'T', b"\0\0");
    if !values.is_empty() {
        answer.extend(row(values));
    }
    answer.extend(message(b'C', b"SELECT\0"));
    answer.extend(message(b'Z', b"I"));
    answer
}

/// A message of pgoutput in XLogData in CopyData.
fn streamed(payload: &[u8]) -> Vec<u8> {
    message(b'd', &[&[b'w'][..], &[0; 24], payload].concat())
}

fn keepalive(end: u64, reply_requested: bool) -> Vec<u8> {
    let time = [0; 8];
    let reply = u8::from(reply_requested);
    message(
        b'd',
        &[&[b'k'][..], &end.to_be_bytes(), &time, &[reply]].concat(),
    )
}

fn begin() -> Vec<u8> {
    streamed(&[&b"B"[..], &COMMIT.to_be_bytes(), &[0; 8], b"\0\0\0\x07"].concat())
}

fn commit_at(lsn: u64) -> Vec<u8> {
    streamed(&[&b"C\0"[..], &lsn.to_be_bytes(), &END.to_be_bytes(), &[0; 8]].concat())
}

fn relation() -> Vec<u8> {
    streamed(b"R\0\0\0\x09public\0goods\0d\0\x01\x01id\0\0\0\0\x17\xff\xff\xff\xff")
}

fn insert() -> Vec<u8> {
    streamed(b"I\0\0\0\x09N\0\x01b\0\0\0\x04\0\0\0\x07")
}

/// A transaction, and a keepalive.
fn changes() -> Vec<u8> {
    [
        begin(),
        relation(),
        insert(),
        commit_at(COMMIT),
        keepalive(END + 8, false),
    ]
    .concat()
}

/// A server up to its stream, which begins with `stream`.
fn script(stream: &[u8]) -> Script {
    let log_in = [
        message(b'R', &[0; 4]),
        message(b'S', b"server_version\x0018.6\0"),
        message(b'S', b"in_hot_standby\0off\0"),
        message(b'Z', b"I"),
    ];
    vec![
        log_in.concat(),
        answer(&["7000000000000000007", "1", "0/1000000", "shop"]),
        answer(&["logical", "60000", "f"]),
        answer(&[]),
        answer(&["lookaside", "0/1000010", "", "pgoutput"]),
        [&message(b'W', b"\0\0\0")[..], stream].concat(),
    ]
}

/// What the whole script says.
const EXPECTED: [&str; 6] = [
    "streaming 7000000000000000007 1 0/1000010 18.6",
    "begin 0/1000028",
    "relation goods",
    "insert",
    "commit 0/1000058",
    "keepalive 0/1000060",
];

fn shown(event: &FeedEvent<'_>) -> String {
    match event {
        FeedEvent::Streaming(start) => format!(
            "streaming {} {} {} {}",
            start.system_id.0, start.timeline.0, start.consistent_point, start.server_version
        ),
        FeedEvent::Message(Message::Begin(begin)) => format!("begin {}", begin.final_lsn),
        FeedEvent::Message(Message::Commit(commit)) => format!("commit {}", commit.end),
        FeedEvent::Message(Message::Relation(relation)) => {
            format!("relation {}", relation.name.to_string_lossy())
        }
        FeedEvent::Message(Message::Insert(_)) => "insert".to_owned(),
        FeedEvent::Keepalive { end } => format!("keepalive {end}"),
        event => format!("{event:?}"),
    }
}

/// Waits for a message of the client; whether there was one.
fn heard(socket: &mut TcpStream) -> bool {
    matches!(socket.read(&mut [0; 4096]), Ok(1..))
}

/// Plays a script to the first connection, in writes of at most `write_size` bytes. Others are
/// closed at once.
fn play(script: Script, write_size: usize) -> Site {
    let script = Mutex::new(Some(script));
    Site::serve(move |mut socket| {
        let Some(script) = script.lock().unwrap().take() else {
            return;
        };
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(SERVER_PATIENCE)).unwrap();
        for piece in script {
            if !heard(&mut socket) {
                break;
            }
            for part in piece.chunks(write_size) {
                if socket.write_all(part).is_err() {
                    return;
                }
            }
        }
        let _ = socket.shutdown(Shutdown::Write);
        // What is unread would make the end a reset.
        while heard(&mut socket) {}
    })
}

fn feed(site: &Site, options: FeedOptions) -> ChangeFeed {
    ChangeFeed::new(&site.config(""), ["shop"], options).unwrap()
}

async fn next(feed: &mut ChangeFeed) -> FeedEvent<'_> {
    let next = timeout(PATIENCE, feed.next()).await;
    next.expect("something comes")
}

/// All events up to the loss.
async fn events(feed: &mut ChangeFeed) -> (Vec<String>, Error) {
    let mut events = Vec::new();
    loop {
        match next(feed).await {
            FeedEvent::Lost(error) => return (events, error),
            event => events.push(shown(&event)),
        }
    }
}

async fn run(script: Script, write_size: usize) -> (Vec<String>, Error) {
    let site = play(script, write_size);
    events(&mut feed(&site, FeedOptions::default())).await
}

#[test]
fn a_stream_is_received_in_any_pieces() {
    for write_size in [1, 2, 3, 7, usize::MAX] {
        block_on(async {
            let (events, error) = run(script(&changes()), write_size).await;
            assert_eq!(events, EXPECTED, "{error:?}");
            assert!(error.is_connection_lost(), "{error:?}");
        });
    }
}

/// The end comes in the middle of each message.
#[test]
fn a_stream_that_is_cut_is_lost() {
    let whole = script(&changes());
    let size: usize = whole.iter().map(Vec::len).sum();
    block_on(async {
        for cut in 0..size {
            let mut left = cut;
            let cut_script: Script = whole
                .iter()
                .map_while(|piece| {
                    let part = &piece[..piece.len().min(left)];
                    left -= part.len();
                    (!part.is_empty()).then(|| part.to_vec())
                })
                .collect();
            let (events, error) = run(cut_script, usize::MAX).await;
            assert!(events.len() < EXPECTED.len(), "cut at {cut}");
            assert_eq!(events, EXPECTED[..events.len()], "cut at {cut}");
            assert_eq!(
                error.kind(),
                ErrorKind::Connection,
                "cut at {cut}: {error:?}"
            );
        }
    });
}

/// With any byte of it changed, a stream ends with an error, and without a panic.
#[test]
fn a_stream_that_is_damaged_ends() {
    let whole = script(&changes());
    let places: Vec<_> = (0..whole.len())
        .flat_map(|piece| (0..whole[piece].len()).map(move |index| (piece, index)))
        .collect();
    let next_place = AtomicUsize::new(0);
    // Several at a time, since a length that is damaged makes both sides wait.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                block_on(async {
                    // Each place is taken once.
                    while let Some(&(piece, index)) =
                        places.get(next_place.fetch_add(1, Ordering::Relaxed))
                    {
                        for flip in [0x01, 0x80] {
                            let mut damaged = whole.clone();
                            damaged[piece][index] ^= flip;
                            let (events, _) = run(damaged, usize::MAX).await;
                            assert!(events.len() <= EXPECTED.len(), "{piece} {index}");
                        }
                    }
                });
            });
        }
    });
}

#[test]
fn what_must_not_come_ends_the_stream() {
    let notice = |state: &str| {
        let body = format!("SWARNING\0VWARNING\0C{state}\0Mskipped\0\0");
        message(b'N', body.as_bytes())
    };
    let whole = changes();
    for (what, stream, expected) in [
        ("an insert outside", insert(), ErrorKind::Protocol),
        ("a commit outside", commit_at(COMMIT), ErrorKind::Protocol),
        (
            "a begin within",
            [begin(), begin()].concat(),
            ErrorKind::Protocol,
        ),
        (
            "another commit",
            [begin(), commit_at(COMMIT + 1)].concat(),
            ErrorKind::Protocol,
        ),
        ("an unknown message", streamed(b"?"), ErrorKind::Protocol),
        ("an empty message", streamed(b""), ErrorKind::Protocol),
        ("an unknown copy", message(b'd', b"?"), ErrorKind::Protocol),
        ("an empty copy", message(b'd', b""), ErrorKind::Protocol),
        ("a row", row(&["x"]), ErrorKind::Protocol),
        ("a dropped publication", notice("55000"), ErrorKind::Refused),
        (
            "an error",
            message(b'E', b"SERROR\0VERROR\0C42704\0Mno\0\0"),
            ErrorKind::Refused,
        ),
        (
            "a fatal error",
            message(b'E', b"SFATAL\0VFATAL\0C57P01\0Mend\0\0"),
            ErrorKind::Connection,
        ),
        ("an end", message(b'c', b""), ErrorKind::Connection),
        (
            "an end at once",
            [message(b'C', b"START_REPLICATION\0"), message(b'Z', b"I")].concat(),
            ErrorKind::Connection,
        ),
        ("too much", message(b'd', &[b'w'; 5_000]), ErrorKind::Limit),
        (
            "another notice, and an end",
            [notice("01000"), message(b'c', b"")].concat(),
            ErrorKind::Connection,
        ),
    ] {
        for before in [&[][..], &whole] {
            block_on(async {
                let script = script(&[before, &stream].concat());
                let site = play(script, usize::MAX);
                let options = FeedOptions {
                    message_size_max: 4_096,
                    ..FeedOptions::default()
                };
                let (events, error) = events(&mut feed(&site, options)).await;
                assert_eq!(error.kind(), expected, "{what}: {error:?}");
                // Up to there, everything is received.
                let is_begun =
                    usize::from(events.last().is_some_and(|last| last.starts_with("begin")));
                let count = events.len() - is_begun;
                assert_eq!(count, if before.is_empty() { 1 } else { 6 }, "{what}");
            });
        }
    }
}

/// The server's own session takes only SQL: the proxy before it dropped the parameter.
#[test]
fn a_session_that_is_not_for_replication_is_recognised() {
    let mut script = script(&[]);
    script[1] = [
        message(b'E', b"SERROR\0VERROR\0C42601\0Msyntax error\0\0"),
        message(b'Z', b"I"),
    ]
    .concat();
    let (events, error) = block_on(run(script, usize::MAX));
    assert_eq!(events, [""; 0]);
    assert!(error.to_string().contains("pooler"), "{error:?}");
}

/// The statuses that a server gets: the confirmed position, and whether a reply is requested.
#[derive(Clone, Default)]
struct Statuses {
    all: Arc<Mutex<Vec<(u64, bool)>>>,
    /// What the server answers to a request.
    answer: Vec<u8>,
    answered_count: Arc<AtomicUsize>,
}

impl Statuses {
    /// Takes the messages of the client from the front of `input`.
    fn take(&self, input: &mut Vec<u8>, socket: &mut TcpStream) {
        while let [tag, a, b, c, d, ..] = input[..] {
            let size = u32::from_be_bytes([a, b, c, d]) as usize + 1;
            if input.len() < size {
                return;
            }
            let message: Vec<u8> = input.drain(..size).collect();
            if tag == b'd' && message[5] == b'r' {
                let positions: Vec<_> =
                    (0..3).map(|index| &message[6 + 8 * index..][..8]).collect();
                assert!(positions.iter().all(|position| *position == positions[0]));
                let position = u64::from_be_bytes(positions[0].try_into().unwrap());
                let is_asked = message[size - 1] == 1;
                self.all.lock().unwrap().push((position, is_asked));
                if is_asked && !self.answer.is_empty() && socket.write_all(&self.answer).is_ok() {
                    self.answered_count.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    }

    fn all(&self) -> Vec<(u64, bool)> {
        self.all.lock().unwrap().clone()
    }
}

/// Plays a script to each connection, and then only listens.
fn play_and_listen(script: Script, statuses: &Statuses) -> Site {
    let statuses = statuses.clone();
    Site::serve(move |mut socket| {
        for piece in &script {
            if !heard(&mut socket) || socket.write_all(piece).is_err() {
                return;
            }
        }
        let mut input = Vec::new();
        let mut space = [0; 4096];
        while let Ok(size @ 1..) = socket.read(&mut space) {
            input.extend(&space[..size]);
            statuses.take(&mut input, &mut socket);
        }
    })
}

#[test]
fn a_request_is_answered_with_what_was_confirmed() {
    let stream = [
        changes(),
        keepalive(END + 8, true),
        keepalive(END + 8, true),
        keepalive(END + 16, true),
    ];
    let statuses = Statuses::default();
    let site = play_and_listen(script(&stream.concat()), &statuses);
    let options = FeedOptions {
        status_interval: Duration::from_secs(100_000),
        ..FeedOptions::default()
    };
    block_on(async {
        let mut feed = feed(&site, options);
        for expected in EXPECTED {
            assert_eq!(shown(&next(&mut feed).await), expected);
        }
        assert_eq!(shown(&next(&mut feed).await), "keepalive 0/1000060");
        feed.confirm(Lsn(END));
        assert_eq!(shown(&next(&mut feed).await), "keepalive 0/1000060");
        // Not beyond what was received.
        feed.confirm(Lsn(u64::MAX));
        assert_eq!(shown(&next(&mut feed).await), "keepalive 0/1000068");
        feed.request_keepalive();
        let expected = [
            (0x0100_0010, false),
            (END, false),
            (END + 8, false),
            (END + 8, true),
        ];
        lookaside_testing::wait_until_async("the statuses come", async || {
            statuses.all().len() >= expected.len()
        })
        .await;
        assert_eq!(statuses.all(), expected);
    });
}

/// A server that ends quiet sessions soon hears from the feed sooner than the options say.
#[test]
fn statuses_come_within_the_timeout_of_the_server() {
    let statuses = Statuses::default();
    let mut script = script(&changes());
    script[2] = answer(&["logical", "300", "f"]);
    let site = play_and_listen(script, &statuses);
    let options = FeedOptions {
        status_interval: Duration::from_secs(100_000),
        ..FeedOptions::default()
    };
    block_on(async {
        let mut feed = feed(&site, options);
        for expected in EXPECTED {
            assert_eq!(shown(&next(&mut feed).await), expected);
        }
        lookaside_testing::wait_until_async("statuses come by themselves", async || {
            // The feed works while it is polled.
            let more = timeout(Duration::from_millis(10), feed.next()).await;
            assert!(more.is_err(), "{more:?}");
            statuses.all().len() >= 3
        })
        .await;
    });
}

/// First it is asked for a reply.
#[test]
fn a_server_that_falls_silent_is_given_up() {
    let statuses = Statuses::default();
    let site = play_and_listen(script(&changes()), &statuses);
    let options = FeedOptions {
        status_interval: Duration::from_millis(10),
        reply_timeout: Duration::from_millis(50),
        ..FeedOptions::default()
    };
    block_on(async {
        let mut feed = feed(&site, options);
        for _ in 0..2 {
            let (events, error) = events(&mut feed).await;
            assert_eq!(events, EXPECTED);
            assert_eq!(error.kind(), ErrorKind::Connection, "{error:?}");
            assert!(
                error.to_string().contains("has not answered a status"),
                "{error:?}"
            );
            assert!(statuses.all().iter().any(|&(_, is_asked)| is_asked));
        }
    });
}

/// The owner of a feed may be busy for longer than the server may be silent.
#[test]
fn an_answer_that_waits_to_be_read_is_one() {
    let statuses = Statuses {
        answer: keepalive(END + 16, false),
        ..Statuses::default()
    };
    let site = play_and_listen(script(&changes()), &statuses);
    let reply_timeout = Duration::from_millis(10);
    let options = FeedOptions {
        reply_timeout,
        status_interval: Duration::from_secs(100_000),
        ..FeedOptions::default()
    };
    block_on(async {
        let mut feed = feed(&site, options);
        for expected in EXPECTED {
            assert_eq!(shown(&next(&mut feed).await), expected);
        }
        feed.request_keepalive();
        lookaside_testing::wait_until_async("the answer is sent", async || {
            statuses.answered_count.load(Ordering::SeqCst) == 1
        })
        .await;
        // sleep: the time limit passes
        tokio::time::sleep(2 * reply_timeout).await;
        assert_eq!(shown(&next(&mut feed).await), "keepalive 0/1000068");
        // And the request is done with.
        let more = timeout(3 * reply_timeout, feed.next()).await;
        assert!(more.is_err(), "{more:?}");
    });
}

/// Thousands of changes are received in memory that is reused.
#[test]
fn messages_are_not_allocated() {
    const COUNT: usize = 20_000;
    let stream = [
        begin(),
        relation(),
        insert().repeat(COUNT),
        commit_at(COMMIT),
    ]
    .concat();
    let site = play(script(&stream), usize::MAX);
    // Allocations are counted by thread.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    let mut feed = feed(&site, FeedOptions::default());
    runtime.block_on(async {
        for expected in &EXPECTED[..4] {
            assert_eq!(shown(&next(&mut feed).await), *expected);
        }
    });
    let allocated = allocation_counter::measure(|| {
        runtime.block_on(async {
            for _ in 1..COUNT {
                let event = feed.next().await;
                assert!(matches!(event, FeedEvent::Message(Message::Insert(_))));
            }
        });
    });
    assert!(allocated.count_total < 100, "{allocated:?}");
}

/// Commands have a limit too.
#[test]
fn a_server_that_does_not_answer_a_command_is_given_up() {
    for count in 1..6 {
        let mut script = script(&[]);
        script.truncate(count);
        let site = play_and_listen(script, &Statuses::default());
        let options = FeedOptions {
            command_timeout: Duration::from_millis(50),
            slot_timeout: Duration::from_millis(50),
            ..FeedOptions::default()
        };
        let (events, error) = block_on(events(&mut feed(&site, options)));
        assert_eq!(events, [""; 0]);
        let mut said = format!("{error:?}");
        said.retain(|char| char != '\\');
        assert!(said.contains("did not answer"), "{count}: {said}");
    }
}
