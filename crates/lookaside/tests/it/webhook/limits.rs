//! The limit of what is under way.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use super::{NDJSON, Pipe, Run, chunked, gzip, lines, numbers, project};
use crate::serve::client::Answer;

/// The size of an event with its line end.
const SIZE: usize = 1000;

/// Asserts that a request is refused because of what is under way.
#[track_caller]
fn assert_at_limit(answer: Answer) {
    let answer = answer.is(503);
    assert_eq!(answer.header("Retry-After"), Some("1"));
    assert!(answer.text().contains("buffer_max"), "{}", answer.text());
}

#[test]
fn requests_beyond_the_limit_are_refused_at_once_and_room_returns() {
    let project = project("");
    let pipe = Pipe::new(&project);
    // Room for four requests with the 1,024 bytes that each counts beside its body, and for 480
    // bytes of another one.
    let options = "body_max=101000&buffer_max=405600&timeout_ms=600000";
    let run = Run::start(&project, options, &["--output", pipe.path()]);
    let count = 100;
    let body = lines(0, count, SIZE - 1);
    let mut waiting: Vec<_> = (0..4)
        .map(|_| {
            let mut client = run.client();
            client.send("POST", "/events", &[NDJSON], body.as_bytes());
            client
        })
        .collect();
    run.wait_received();
    let mut client = run.client();
    let small = lines(0, 1, SIZE - 1);
    let answer = client.ask("POST", "/events", &[NDJSON], small.as_bytes());
    assert_at_limit(answer);
    // Requests of which less is counted when the head is known, and more when they are decompressed.
    let coding = ("Content-Encoding", "gzip");
    let packed = gzip(small.as_bytes());
    assert!(packed.len() < 400);
    assert_at_limit(client.ask("POST", "/events", &[coding], &packed));
    // The head is enough: no byte of the body is sent.
    let mut stream = TcpStream::connect(run.address()).unwrap();
    let head = "POST /events HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("buffer_max"), "{answer}");
    // A chunked body is refused when it does not fit any more.
    let mut client = run.client();
    client.split().1.raw(&chunked("", body.as_bytes()));
    assert_at_limit(client.receive("POST"));
    // What was received is delivered, and then there is room.
    let found = pipe.read(5 * count);
    for client in &mut waiting {
        client.receive("POST").is(200);
    }
    let mut client = run.client();
    let answer = client.ask("POST", "/events", &[NDJSON], body.as_bytes());
    answer.is(200);
    let found = numbers(&found.join().unwrap().join("\n"));
    assert_eq!(found.len(), 5 * count);
}

#[test]
fn memory_is_bounded_while_a_sink_does_not_take_events() {
    let project = project("");
    let pipe = Pipe::new(&project);
    let options = "buffer_max=16777216&timeout_ms=600000";
    let flags = ["--output", pipe.path(), "--workers", "2"];
    let run = Run::start(&project, options, &flags);
    let address = run.address();
    let before = run.memory();
    // Half a gigabyte of the shortest lines, which need the most memory if each is kept separately.
    let body = "{}\n".repeat((8 << 20) / 3);
    let request = {
        let body = body.as_bytes();
        let mut request = format!(
            "POST /events HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        request
    };
    let request = &request;
    let streams: Vec<_> = thread::scope(|scope| {
        let senders: Vec<_> = (0..64)
            .map(|_| {
                let address = &address;
                scope.spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    // The rest of a refused body is not read.
                    let _ = stream.write_all(request);
                    stream
                })
            })
            .collect();
        senders
            .into_iter()
            .map(|sender| sender.join().unwrap())
            .collect()
    });
    let grown = run.memory().saturating_sub(before);
    assert!(grown < 160 << 20, "{} MiB more", grown >> 20);
    drop(streams);
}
