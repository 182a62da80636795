//! Signals: what was answered is delivered.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use lookaside_testing::wait_until;
use rustix::process::Signal;

use super::{NDJSON, Pipe, Run, lines, numbers, project};
use crate::program::Project;

/// Sends requests from several clients until they are refused or the connection is lost; returns the
/// numbers of the events that were answered as delivered.
fn load(run: &Run, until: impl FnOnce(&AtomicUsize)) -> Vec<usize> {
    const CLIENTS: usize = 8;
    let (next, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let address = run.address();
    let work = || {
        let mut delivered = Vec::new();
        loop {
            let Some(status) = ask(&address, &next, &mut delivered) else {
                return delivered;
            };
            match status {
                200 => answered.fetch_add(1, Ordering::Relaxed),
                503 => return delivered,
                status => panic!("status {status}"),
            };
        }
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(work)).collect();
        until(&answered);
        let clients = clients.into_iter();
        clients.flat_map(|it| it.join().unwrap()).collect()
    })
}

/// Sends a request of some events on a connection of its own; `None` if the server is not there any
/// more.
fn ask(address: &str, next: &AtomicUsize, delivered: &mut Vec<usize>) -> Option<u16> {
    use std::io::{Read as _, Write as _};
    let count = 50;
    let first = next.fetch_add(count, Ordering::Relaxed);
    let body = lines(first, count, 100);
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    let head = format!(
        "POST /events HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.get(9..12)?.parse().ok()?;
    if status == 200 {
        assert!(answer.ends_with(&format!("{{\"events\":{count}}}\n")));
        delivered.extend(first..first + count);
    }
    Some(status)
}

/// Asserts that each of the events is in the output.
fn assert_delivered(project: &Project, delivered: &[usize]) {
    let text = project.read("out.json");
    // A killed process may have written a part of its last line.
    let end = text.rfind('\n').map_or(0, |at| at + 1);
    let mut counts = HashMap::new();
    for n in numbers(&text[..end]) {
        *counts.entry(n).or_insert(0) += 1;
    }
    assert!(!delivered.is_empty());
    for n in delivered {
        assert!(counts.contains_key(n), "event {n} was answered and is lost");
    }
}

#[test]
fn a_signal_under_load_loses_nothing_that_was_answered() {
    let project = project("");
    let run = Run::start(&project, "", &["--output", "out.json"]);
    let delivered = load(&run, |answered| {
        wait_until("some requests are answered", || {
            answered.load(Ordering::Relaxed) > 100
        });
        run.signal(Signal::TERM);
    });
    let (code, log) = run.ended();
    assert_eq!(code, Some(143), "{log}");
    assert_delivered(&project, &delivered);
}

#[test]
fn a_killed_process_has_written_what_it_answered() {
    let project = project("");
    let run = Run::start(&project, "", &["--output", "out.json"]);
    let delivered = load(&run, |answered| {
        wait_until("some requests are answered", || {
            answered.load(Ordering::Relaxed) > 100
        });
        run.signal(Signal::KILL);
    });
    let _ = run.ended();
    assert_delivered(&project, &delivered);
}

#[test]
fn what_was_received_before_a_signal_is_processed_and_answered() {
    let project = project("");
    let pipe = Pipe::new(&project);
    // Not over before the end of this test.
    let options = "timeout_ms=600000";
    let run = Run::start(&project, options, &["--output", pipe.path()]);
    let count = 200;
    // More than the run reads at once: some of it is in the queue when the signal arrives.
    let mut waiting: Vec<_> = (0..20)
        .map(|n| {
            let body = lines(n * count, count, 1000);
            let mut client = run.client();
            client.send("POST", "/events", &[NDJSON], body.as_bytes());
            client
        })
        .collect();
    // A body that is not complete yet.
    let mut late = run.client();
    let body = lines(0, 1, 50);
    let head = format!(
        "POST /events HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    late.split().1.raw(head.as_bytes());
    late.split().1.raw(&body.as_bytes()[..10]);
    let mut idle = run.client();
    idle.ask("GET", "/events", &[], b"").is(405);
    run.wait_received();
    run.signal(Signal::TERM);
    let refused = wait_refused(&mut idle);
    assert_eq!(refused.header("Connection"), Some("close"));
    assert!(refused.header("Retry-After").is_some());
    assert!(refused.text().contains("the run is ending"));
    late.split().1.raw(&body.as_bytes()[10..]);
    late.receive("POST").is(503);
    let found = pipe.read(20 * count);
    for client in &mut waiting {
        client.receive("POST").is(200);
    }
    let (code, log) = run.ended();
    assert_eq!(code, Some(143), "{log}");
    let mut found = numbers(&found.join().unwrap().join("\n"));
    found.sort_unstable();
    assert_eq!(found, (0..20 * count).collect::<Vec<_>>());
}

/// Sends requests without events until one is refused: the signal has arrived then.
fn wait_refused(client: &mut crate::serve::client::Client) -> crate::serve::client::Answer {
    lookaside_testing::wait_for("the signal has arrived", || {
        let answer = client.ask("POST", "/events", &[], b"");
        (answer.status == 503).then_some(answer)
    })
}

#[test]
fn what_is_not_delivered_at_the_end_is_answered_with_503() {
    // The process ends three seconds after it has answered, whatever happens.
    let project = project("drain_timeout_ms = 8000\n");
    let pipe = Pipe::new(&project);
    let run = Run::start(&project, "", &["--output", pipe.path()]);
    let body = lines(0, 300, 1000);
    let mut client = run.client();
    client.send("POST", "/events", &[NDJSON], body.as_bytes());
    run.wait_received();
    run.signal(Signal::TERM);
    let answer = client.receive("POST").is(503);
    assert!(answer.text().contains("the run ended before"), "{answer:?}");
    assert_eq!(answer.header("Connection"), Some("close"));
    assert!(answer.header("Retry-After").is_some());
    // Without a reader, the process would wait in its write until it is aborted.
    let _found = pipe.read(300);
    let (code, log) = run.ended();
    assert_eq!(code, Some(143), "{log}");
}

/// A service that ends with 0 would not be started again.
#[test]
fn a_reader_that_is_gone_is_a_failure() {
    let project = project("");
    let mut run = Run::start_to(Stdio::piped(), &project, "", &[]);
    let mut client = run.client();
    drop(run.child.stdout.take());
    client.ask("POST", "/events", &[], b"{\"n\":1}").is(503);
    let (code, log) = run.ended();
    assert_eq!(code, Some(1), "{log}");
    assert!(
        log.contains("the reader of standard output is gone"),
        "{log}"
    );
}

/// Its events are not processed, so that the client has to send it again.
#[test]
fn a_body_that_is_incomplete_at_the_end_is_answered() {
    let project = project("");
    let run = Run::start(&project, "", &["--output", "out.json"]);
    let mut late = run.client();
    let head = "POST /events HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{\"n\"";
    late.split().1.raw(head.as_bytes());
    run.wait_received();
    run.signal(Signal::TERM);
    let answer = late.receive("POST").is(503);
    assert!(answer.text().contains("the run is ending"), "{answer:?}");
    assert_eq!(answer.header("Connection"), Some("close"));
    let (code, log) = run.ended();
    assert_eq!(code, Some(143), "{log}");
}
