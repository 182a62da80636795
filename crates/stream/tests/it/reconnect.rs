//! A TCP output whose peer closes, disappears, or never reads.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lookaside_stream::{
    End, Error, Flow, FormatOptions, Identity, InputFormat, OutputFormat, RunOptions, Sink, Source,
    StopFlag, Summary, TcpOptions,
};

use crate::{flow, lines, options};

/// What a peer does with its first connection; it reads each later one to its end.
type Script = Box<dyn Fn(&mut TcpStream, &mut Vec<u8>) -> io::Result<()> + Send>;

/// Sends `text` to a peer, one line per write; returns what each connection received.
fn run(
    text: &str,
    tcp: TcpOptions,
    script: Script,
) -> (Vec<Vec<u8>>, lookaside_stream::Result<Summary>) {
    run_flow(&flow("raw", "raw"), text, tcp, script)
}

fn run_flow(
    flow: &Flow,
    text: &str,
    tcp: TcpOptions,
    script: Script,
) -> (Vec<Vec<u8>>, lookaside_stream::Result<Summary>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let is_over = Arc::new(Mutex::new(false));
    let peer = thread::spawn({
        let is_over = is_over.clone();
        move || {
            let mut received: Vec<Vec<u8>> = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().unwrap();
                if *is_over.lock().unwrap() {
                    return received;
                }
                let mut bytes = Vec::new();
                // However the connection ends, the received data counts.
                let _ = match received.is_empty() {
                    true => script(&mut stream, &mut bytes),
                    false => stream.read_to_end(&mut bytes).map(drop),
                };
                received.push(bytes);
            }
        }
    });
    let sink = Sink::tcp(&address, tcp).unwrap();
    let source = Source::new().with_reader("input", io::Cursor::new(text.to_owned().into_bytes()));
    let run = flow.run(source, vec![Identity; 2], sink, options(8));
    *is_over.lock().unwrap() = true;
    drop(TcpStream::connect(&address).unwrap());
    (peer.join().unwrap(), run)
}

/// Reads `size` bytes and closes.
fn close_at(size: usize) -> Script {
    Box::new(move |stream, bytes| {
        bytes.resize(size, 0);
        stream.read_exact(bytes)
    })
}

#[test]
fn a_peer_that_closes_at_any_step_gets_every_line() {
    let text = lines(20);
    let mut ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    ends.insert(0, 0);
    // Between two lines, and within one.
    for size in ends
        .iter()
        .flat_map(|&end| [end, (end + 3).min(text.len())])
    {
        let (received, summary) = run(&text, TcpOptions::default(), close_at(size));
        let summary = summary.unwrap();
        assert_eq!((summary.end, summary.events_out), (End::Whole, 20));
        let reconnects = summary.reconnects;
        assert_eq!(received[0], &text.as_bytes()[..size]);
        assert_eq!(reconnects.count, received.len() as u64 - 1, "at {size}");
        // Less was sent than the replay buffer holds, so all of it was sent again and nothing is
        // missing.
        assert_eq!(reconnects.lost_bytes_max, 0, "at {size}");
        match received.get(1) {
            Some(again) => {
                assert_eq!(again, text.as_bytes(), "at {size}");
                assert!(reconnects.replayed_bytes <= text.len() as u64);
                assert!(reconnects.replayed_lines <= 20);
            }
            // A peer that has received everything may close at any time.
            None => assert_eq!(size, text.len()),
        }
    }
}

/// Column names are sent once per connection, whichever lines are sent again.
#[test]
fn each_connection_begins_with_the_column_names() {
    let text: String = (1..=20).map(|line| format!("number={line}\n")).collect();
    let rows: String = (1..=20).map(|line| format!("{line}\n")).collect();
    let csv = |options| {
        let input = InputFormat::new("kv", &FormatOptions::new()).unwrap();
        Flow::new(input, OutputFormat::new("csv", &options).unwrap())
    };
    let none = FormatOptions::new;
    for (name, options, header) in [
        // Known at the start, and with the first record.
        ("named", none().set("columns", "number"), "number\n"),
        ("found", none(), "number\n"),
        ("none", none().set("header", "false"), ""),
    ] {
        let whole = format!("{header}{rows}");
        for replay_bytes in [0, 10, 1 << 20] {
            // Within the header and at its end, between two lines and within one.
            let start = header.len();
            let sizes = BTreeSet::from([0, 3, start, start + 1, start + 2, 30, whole.len() - 1]);
            for size in sizes {
                let tcp = TcpOptions {
                    replay_bytes,
                    ..TcpOptions::default()
                };
                let place = format!("{name}, {replay_bytes} bytes again, closed at {size}");
                let flow = csv(options.clone());
                let (received, summary) = run_flow(&flow, &text, tcp, close_at(size));
                let reconnects = summary.unwrap().reconnects;
                assert_eq!(received[0], &whole.as_bytes()[..size], "{place}");
                for received in &received[1..] {
                    let received = str::from_utf8(received).unwrap();
                    let again = received.strip_prefix(header).expect(&place);
                    assert!(rows.ends_with(again), "{place}: {received:?}");
                    if replay_bytes > rows.len() {
                        assert_eq!(again, rows, "{place}");
                        assert_eq!(reconnects.lost_bytes_max, 0, "{place}");
                    }
                }
            }
        }
    }
}

/// Like a load balancer without a server: connections are accepted and reset at once.
#[test]
fn a_peer_that_resets_every_connection_ends_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A connection that is closed with unread bytes is reset.
            let _ = stream.peek(&mut [0]);
        }
    });
    let tcp = TcpOptions {
        reconnect_timeout: Duration::from_millis(300),
        ..TcpOptions::default()
    };
    let sink = Sink::tcp(&address, tcp).unwrap();
    let source = Source::new().with_reader("input", io::Cursor::new(b"line\n"));
    let run = flow("raw", "raw").run(source, vec![Identity; 2], sink, options(8));
    let error = run.unwrap_err().to_string();
    assert!(error.contains("output"), "{error}");
}

#[test]
fn what_the_buffer_does_not_hold_is_counted_as_lost() {
    let text = lines(200);
    let size = text.len();
    for replay_bytes in [0, 5, 100, 1000, size, 2 * size] {
        // Everything stays in its receive buffer, and none of it is read.
        let script: Script = Box::new(move |stream, _| {
            let mut room = vec![0; size + 1];
            while stream.peek(&mut room)? < size {
                thread::yield_now();
            }
            Ok(())
        });
        let tcp = TcpOptions {
            replay_bytes,
            ..TcpOptions::default()
        };
        let (received, summary) = run(&text, tcp, script);
        let reconnects = summary.unwrap().reconnects;
        let [first, again] = &received[..] else {
            panic!("{} connections", received.len());
        };
        assert!(first.is_empty());
        assert!(text.as_bytes().ends_with(again) && again.len() <= replay_bytes);
        assert!(
            again.is_empty()
                || text.as_bytes()[..size - again.len()].ends_with(b"\n")
                || again.len() == size
        );
        let line_count = again.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(reconnects.count, 1);
        assert_eq!(reconnects.replayed_lines, line_count as u64);
        assert_eq!(reconnects.replayed_bytes, again.len() as u64);
        assert_eq!(reconnects.lost_bytes_max, (size - again.len()) as u64);
    }
}

#[test]
fn a_peer_that_stays_away_fails_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let tcp = TcpOptions {
        reconnect_timeout: Duration::ZERO,
        ..TcpOptions::default()
    };
    let sink = Sink::tcp(&address, tcp).unwrap();
    // Connected by the kernel, and reset when the listener is dropped.
    drop(listener);
    let source = Source::new().with_reader("input", io::Cursor::new(lines(3).into_bytes()));
    let error = flow("raw", "raw")
        .run(source, vec![Identity; 2], sink, RunOptions::default())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("writing output `tcp://{address}` failed")
    );
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("could not be opened again"), "{cause}");
}

#[test]
fn a_stop_ends_the_wait_for_a_peer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let tcp = TcpOptions {
        reconnect_timeout: Duration::MAX,
        ..TcpOptions::default()
    };
    let sink = Sink::tcp(&address, tcp).unwrap();
    drop(listener);
    let stop = StopFlag::new().unwrap();
    let options = RunOptions {
        stop: Some(stop.clone()),
        ..RunOptions::default()
    };
    let (reader, mut writer) = io::pipe().unwrap();
    let source = Source::new().with_reader("input", reader);
    let run = thread::spawn(move || -> Result<Summary, Error> {
        flow("raw", "raw").run(source, vec![Identity; 2], sink, options)
    });
    writer.write_all(b"a\n").unwrap();
    drop(writer);
    stop.raise();
    let error = run.join().unwrap().unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("could not be opened again"), "{cause}");
}
