//! A TCP listener as source.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::thread;

use lookaside_stream::{End, Source};

use crate::endless::Live;

fn listen() -> (Live, SocketAddr) {
    let source = Source::open(["tcp://127.0.0.1:0"]).unwrap();
    let address = source.local_addr().unwrap();
    (Live::start(source), address)
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
