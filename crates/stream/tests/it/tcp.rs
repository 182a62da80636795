//! A TCP listener as source.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::thread;

use lookaside_stream::{End, Flow, FormatOptions, InputFormat, OutputFormat, Source};

use crate::endless::Live;
use crate::flow;

fn listen() -> (Live, SocketAddr) {
    listen_with(flow("raw", "raw"))
}

fn listen_with(flow: Flow) -> (Live, SocketAddr) {
    let source = Source::open(["tcp://127.0.0.1:0"]).unwrap();
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

#[test]
fn a_silent_listener_hears_a_stop() {
    let (live, _) = listen();
    assert_eq!(live.stop().1.end, End::Stopped);
}

#[test]
fn lines_of_many_connections_keep_their_order_and_do_not_mix() {
    const CONNECTIONS: usize = 8;
    const LINES: usize = 2_000;
    let (live, address) = listen();
    let senders: Vec<_> = (0..CONNECTIONS)
        .map(|connection| {
            thread::spawn(move || {
                let seed = fastrand::u64(..);
                eprintln!("connection {connection}: seed {seed}");
                let mut random = fastrand::Rng::with_seed(seed);
                let mut stream = TcpStream::connect(address).unwrap();
                let text: String = (0..LINES)
                    .map(|line| format!("{connection} {line} {}\n", "x".repeat(line % 50)))
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
    let (mut live, address) = listen_with(Flow::new(
        InputFormat::new("raw", &limit).unwrap(),
        OutputFormat::new("raw", &FormatOptions::new()).unwrap(),
    ));
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
