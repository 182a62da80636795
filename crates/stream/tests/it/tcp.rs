//! A TCP listener or a UDP socket as source.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::thread;

use lookaside_stream::{End, Flow, FormatOptions, InputFormat, OutputFormat, Source};

use crate::endless::Live;
use crate::flow;

fn listen() -> (Live, SocketAddr) {
    listen_with(LINES, flow("raw", "raw"))
}

const LINES: &str = "tcp://127.0.0.1:0?framing=lines";
/// The default of `RunOptions::block_size`.
const BLOCK_SIZE: usize = 128 << 10;

const COUNTED: &str = "tcp://127.0.0.1:0?framing=octet-counting";

fn listen_with(url: &str, flow: Flow) -> (Live, SocketAddr) {
    let source = Source::open([url]).unwrap();
    let address = source.local_addr().unwrap();
    (Live::start_with(source, flow), address)
}

#[test]
fn a_connection_answers_at_once_and_its_last_line_needs_no_end() {
    let (mut live, address) = listen();
    let mut stream = TcpStream::connect(address).unwrap();
    writeln!(stream, "one").unwrap();
    live.expect(&["one"]);
    let mut other = TcpStream::connect(address).unwrap();
    write!(stream, "half a ").unwrap();
    writeln!(other, "from the other").unwrap();
    live.expect(&["from the other"]);
    write!(stream, "line").unwrap();
    drop(stream);
    live.expect(&["half a line"]);
    writeln!(other, "goes on").unwrap();
    live.expect(&["goes on"]);
    let (rest, summary) = live.stop();
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!((summary.end, summary.events_out), (End::Stopped, 4));
}

/// Each connection is as a file.
#[test]
fn a_byte_order_mark_at_the_start_of_a_connection_is_skipped() {
    let (mut live, address) = listen();
    for name in ["one", "two"] {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "\u{feff}{name}\nmore\n").unwrap();
        live.expect(&[name, "more"]);
    }
    assert!(live.stop().0.is_empty());
}

/// Somewhat more than fits into a block, after which the connection is silent.
#[test]
fn counted_events_that_fill_blocks_are_all_processed() {
    let (mut live, address) = listen_with(COUNTED, flow("raw", "raw"));
    let mut stream = TcpStream::connect(address).unwrap();
    for round in 0..30 {
        let size = BLOCK_SIZE + 1000 * round;
        let event = format!("round {round} {}", "x".repeat(80));
        let count = size / event.len();
        let sent = format!("{} {event}", event.len()).repeat(count);
        stream.write_all(sent.as_bytes()).unwrap();
        for _ in 0..count {
            assert_eq!(live.line(), event);
        }
    }
    write!(stream, "6 <1>a\nb").unwrap();
    live.expect(&["<1>a b"]);
    assert!(live.stop().0.is_empty());
}

/// After what is not a counted event, it is not known where the next one begins.
#[test]
fn a_connection_that_breaks_octet_counting_is_closed() {
    let (mut live, address) = listen_with(COUNTED, flow("raw", "raw"));
    for (sent, events) in [
        ("1 a1 b", &["a", "b"][..]),
        ("a line\n1 b\n", &["a line", "1 b"]),
        ("1 ax1 b", &["a"]),
        ("999999999 1 a", &[]),
        ("1 a9 cut", &["a"]),
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        live.expect(events);
        // The peer closes it, whatever was sent.
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "{sent}");
    }
    let (rest, summary) = live.stop();
    assert!(rest.is_empty(), "{rest:?}");
    let reasons: Vec<_> = (summary.rejects.first().iter())
        .map(|reject| &*reject.reason)
        .collect();
    assert_eq!(reasons.len(), 3);
    assert!(reasons[1].contains("beyond the limit"), "{reasons:?}");
}

#[test]
fn each_datagram_is_an_event() {
    let source = Source::open(["udp://127.0.0.1:0"]).unwrap();
    let address = source.local_addr().unwrap();
    let mut live = Live::start_with(source, flow("raw", "raw"));
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in 0..100 {
        let datagram = format!("<13>event {number}\nof two lines\n");
        sender.send_to(datagram.as_bytes(), address).unwrap();
        live.expect(&[&*format!("<13>event {number} of two lines")]);
    }
    let (rest, summary) = live.stop();
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!((summary.end, summary.events_out), (End::Stopped, 100));
    assert_eq!(summary.datagrams_lost, 0);
}

#[test]
fn unknown_options_of_a_listener_say_what_to_write() {
    for option in ["framing=octets", "framing", "", "keepalive=1"] {
        let error = Source::open([format!("tcp://127.0.0.1:0?{option}")]).unwrap_err();
        let expected =
            format!("option `{option}`; write `framing=lines` or `framing=octet-counting`");
        assert!(error.to_string().ends_with(&expected), "{error}");
    }
}

#[test]
fn a_silent_listener_hears_a_stop() {
    let (live, _) = listen();
    assert_eq!(live.stop().1.end, End::Stopped);
}

#[test]
fn lines_of_many_connections_keep_their_order_and_do_not_mix() {
    events_of_many_connections("tcp://127.0.0.1:0", |line| format!("{line}\n"));
}

#[test]
fn counted_events_of_many_connections_keep_their_order_and_do_not_mix() {
    events_of_many_connections(COUNTED, |line| format!("{} {line}", line.len()));
}

fn events_of_many_connections(url: &str, encode: fn(String) -> String) {
    const CONNECTIONS: usize = 8;
    const LINES: usize = 2_000;
    let (live, address) = listen_with(url, flow("raw", "raw"));
    let senders: Vec<_> = (0..CONNECTIONS)
        .map(|connection| {
            thread::spawn(move || {
                let seed = fastrand::u64(..);
                eprintln!("connection {connection}: seed {seed}");
                let mut random = fastrand::Rng::with_seed(seed);
                let mut stream = TcpStream::connect(address).unwrap();
                let text: String = (0..LINES)
                    .map(|line| format!("{connection} {line} {}", "x".repeat(line % 50)))
                    .map(encode)
                    .collect();
                let mut rest = text.as_bytes();
                while !rest.is_empty() {
                    let size = random.usize(1..=rest.len().min(700));
                    stream.write_all(&rest[..size]).unwrap();
                    rest = &rest[size..];
                }
            })
        })
        .collect();
    for sender in senders {
        sender.join().unwrap();
    }

    let mut next = [0; CONNECTIONS];
    let mut live = live;
    for _ in 0..CONNECTIONS * LINES {
        let line = live.line();
        let parts: Vec<_> = line.split(' ').collect();
        let [connection, number, padding] = parts[..] else {
            panic!("mixed: {line}");
        };
        let connection: usize = connection.parse().unwrap();
        assert_eq!(number, next[connection].to_string());
        assert_eq!(padding.len(), next[connection] % 50);
        next[connection] += 1;
    }
    let (rest, _) = live.stop();
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!(next, [LINES; CONNECTIONS]);
}

#[test]
fn connections_together_hold_a_bounded_amount() {
    let limit = FormatOptions::new().set("line_size_max", "1000");
    let flow = Flow::new(
        InputFormat::new("raw", &limit).unwrap(),
        OutputFormat::new("raw", &FormatOptions::new()).unwrap(),
    );
    let (mut live, address) = listen_with(LINES, flow);
    // The line of the probe is processed after everything received before.
    let mut probe = TcpStream::connect(address).unwrap();
    writeln!(probe, "probe").unwrap();
    live.expect(&["probe"]);
    // Each holds nearly a whole record, four fit.
    let mut streams = Vec::new();
    for _ in 0..6 {
        let mut stream = TcpStream::connect(address).unwrap();
        writeln!(stream, "begun").unwrap();
        live.expect(&["begun"]);
        write!(stream, "{}", "x".repeat(900)).unwrap();
        writeln!(probe, "probe").unwrap();
        live.expect(&["probe"]);
        streams.push(stream);
    }
    for stream in &mut streams {
        write!(stream, "x\nnext\n").unwrap();
    }
    let lines: Vec<_> = (0..10).map(|_| live.line()).collect();
    let long = "x".repeat(901);
    assert_eq!(lines.iter().filter(|line| **line == long).count(), 4);
    assert_eq!(lines.iter().filter(|line| *line == "next").count(), 6);
    let (rest, summary) = live.stop();
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!(summary.rejects.count(), 2);
    let reason = &summary.rejects.first()[0].reason;
    assert_eq!(
        reason,
        "a long line, while other connections hold long lines too"
    );
}
