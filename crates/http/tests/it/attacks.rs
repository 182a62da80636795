//! Attempts of clients to exhaust the server, or to get replies of other clients.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use lookaside_http::{
    Deferred, Listen, Method, Options, Response, Router, SerialPlace, SerialReply, SerialRequest,
    Server,
};
use lookaside_testing::wait_until;

use crate::awkward::{begin, get, start};
use crate::client::{Client, TIMEOUT};
use crate::service::{hasty, single};

#[test]
fn an_absolute_target_without_a_path_reaches_the_serial_stage() {
    let listen = Listen::tcp(([127, 0, 0, 1], 0).into());
    let server = Server::builder(single())
        .listen(listen)
        .serial(|request: &SerialRequest<'_>, reply: SerialReply<'_>| {
            reply.text(&format!("{} {:?}", request.path(), request.query()));
        })
        .start(|_io| {
            let mut router = Router::new(());
            router.serial(Method::Get, "/", 1);
            router
        })
        .unwrap();
    let mut client = Client::connect(&server);
    assert_eq!(client.get("http://h").text(), "/ None");
    assert_eq!(client.get("https://h?a=b").text(), "/ Some(\"a=b\")");
    assert_eq!(client.get("/?a=b").text(), "/ Some(\"a=b\")");
}

#[test]
fn the_time_in_which_a_client_waits_for_us_is_not_idle() {
    let server = start(hasty());
    let mut client = Client::connect(&server);
    client.send(get("/park"));
    // One that comes later is idle for too long, so the other one would be as well.
    let mut idle = Client::connect(&server);
    assert_eq!(idle.get("/hello").text(), "hello");
    assert!(idle.is_closed());
    let mut other = Client::connect(&server);
    let released = Instant::now();
    assert_eq!(other.get("/release").text(), "released");
    assert_eq!(client.receive().text(), "parked");
    // The idle time begins after the reply.
    assert!(client.is_closed());
    // The server reads its clock once per iteration of its loop, which may have begun before.
    let idle_time = released.elapsed();
    assert!(idle_time >= hasty().idle_timeout * 9 / 10, "{idle_time:?}");
}

#[test]
fn an_answer_to_a_server_that_has_ended_fails() {
    let (server, remote) = begin(Options {
        drain_timeout: Duration::from_millis(50),
        ..single()
    });
    let mut client = Client::connect(&server);
    client.send([get("/remote"), get("/remote")].concat());
    let first = remote.recv().unwrap();
    let second = remote.recv().unwrap();
    server.stop();
    server.join().unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        first.respond(Response::new(200));
        let mut writer = second.stream(Response::new(200));
        sender.send(writer.write_all(&vec![b'x'; 1 << 20])).unwrap();
    });
    let written = receiver.recv_timeout(TIMEOUT);
    let error = written.expect("it does not wait").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_client_that_still_sends_its_body_gets_the_reply() {
    let server = start(single());
    for version in ["1.0", "1.1"] {
        let mut client = Client::connect(&server);
        client.send(format!(
            "POST /unwanted HTTP/{version}\r\nHost: h\r\nConnection: close\r\n\
             Content-Length: 60000\r\n\r\n"
        ));
        assert_eq!(client.receive().status, 403);
        for _ in 0..60 {
            client.send([b'x'; 1000]);
            std::thread::yield_now();
        }
        let end = client.stream().read(&mut [0; 10]);
        assert_eq!(end.expect("it ends in order"), 0, "{version}");
    }
}

#[test]
fn replies_that_were_under_way_go_out_while_the_server_ends() {
    let (server, remote) = begin(single());
    let mut idle = Client::connect(&server);
    assert_eq!(idle.get("/hello").status, 200);
    let mut client = Client::connect(&server);
    client.send([get("/remote"), get("/remote"), get("/remote")].concat());
    let deferred: Vec<Deferred> = (0..3).map(|_| remote.recv().unwrap()).collect();
    server.stop();
    assert!(idle.is_closed());
    for (number, deferred) in deferred.into_iter().enumerate() {
        deferred.respond(Response::new(200).body(number.to_string()));
    }
    for number in 0..3 {
        let reply = client.receive();
        assert_eq!(reply.text(), number.to_string());
        let is_last = number == 2;
        assert_eq!(reply.header("connection"), is_last.then_some("close"));
    }
    assert!(client.is_closed());
    server.join().unwrap();
}

#[test]
fn replies_that_wait_behind_others_are_counted_as_output() {
    let server = start(single());
    let mut client = Client::connect(&server);
    let count = 50;
    client.send(get("/park") + &get("/large").repeat(count));
    let mut other = Client::connect(&server);
    wait_until("it is parked", || server.counters().requests >= 3);
    for _ in 0..100 {
        assert_eq!(other.get("/hello").text(), "hello");
    }
    let called = server.counters().requests - 100;
    assert!(called < 10, "{called} replies of 100 KB wait in memory");
    assert_eq!(other.get("/release").text(), "released");
    assert_eq!(client.receive().text(), "parked");
    for _ in 0..count {
        assert_eq!(client.receive().body.len(), 100_000);
    }
    assert_eq!(client.get("/hello").text(), "hello");
}

#[test]
fn a_body_without_a_length_that_is_cut_does_not_look_whole() {
    let server = start(single());
    let client = {
        let mut client = Client::connect(&server);
        client.send("GET /cut HTTP/1.0\r\n\r\n");
        client
    };
    let mut bytes = Vec::new();
    let error = client.stream().read_to_end(&mut bytes).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

/// Waiting connections of any kind cause no iterations of the loop.
#[test]
fn nothing_that_waits_keeps_the_processor_busy() {
    let (server, remote) = begin(Options {
        drain_timeout: Duration::ZERO,
        ..single()
    });
    let mut clients = Vec::new();
    let mut check = |what: &str, bytes: &[u8], ends: bool| {
        let client = Client::connect(&server);
        client.stream().set_nonblocking(true).unwrap();
        let mut sent = 0;
        let begun = Instant::now();
        // As much as is accepted: unread bytes stay in the sockets.
        while sent < bytes.len() && begun.elapsed() < Duration::from_millis(300) {
            match (&mut client.stream()).write(&bytes[sent..]) {
                Ok(size) => sent += size,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // sleep: the time in which the server may take more is bounded by the loop
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
        if ends {
            client.stream().shutdown(Shutdown::Write).unwrap();
        }
        // The accepted bytes are processed after a while, which is long on a busy machine.
        wait_until(what, || {
            let before = server.counters().batches;
            // sleep: the time over which the batches are counted
            std::thread::sleep(Duration::from_millis(200));
            server.counters().batches - before < 20
        });
        clients.push(client);
    };
    check("a parked request", get("/park").as_bytes(), false);
    check("a half-closed one", get("/park").as_bytes(), true);
    check("a head that is not whole", b"GET /hel", false);
    let many = get("/park").repeat(100_000);
    check("more than is read", many.as_bytes(), false);
    check(
        "more than is read, half-closed",
        &many.as_bytes()[..65_536],
        true,
    );
    let large = get("/large").repeat(10_000);
    check("replies that nobody reads", large.as_bytes(), false);
    check(
        "replies that nobody reads, half-closed",
        large.as_bytes(),
        true,
    );
    check(
        "a stream that nobody reads",
        get("/endless").as_bytes(),
        true,
    );
    check("a file that nobody reads", get("/file").as_bytes(), true);
    check(
        "a request that is refused",
        b"GET / HTTP/3.0\r\n\r\n",
        false,
    );
    let body = b"POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 50000000\r\n\r\n".to_vec();
    let body = [body, vec![b'x'; 20_000_000]].concat();
    check("a body that nobody reads", &body, false);
    check("a body that nobody reads, half-closed", &body, true);
    drop(remote);
}

#[test]
fn a_body_that_its_handler_no_longer_reads_is_not_received_for_ever() {
    let (server, remote) = begin(single());
    for head in [
        "Content-Length: 1000000000000",
        "Transfer-Encoding: chunked",
    ] {
        let mut client = Client::connect(&server);
        let request =
            format!("POST /half-read HTTP/1.1\r\nHost: h\r\n{head}\r\n\r\ne8d4a51000\r\n");
        client.send(request);
        remote.recv().unwrap().respond(Response::new(200));
        assert_eq!(client.receive().status, 200);
        let piece = [b'x'; 100_000];
        let begun = Instant::now();
        // Bytes that the server discards while it lingers do not count as received.
        while client.try_send(piece) {
            assert!(begun.elapsed() < TIMEOUT, "{head}");
        }
    }
    // A short body is read to keep the connection.
    let mut client = Client::connect(&server);
    client.send("POST /half-read HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n");
    remote.recv().unwrap().respond(Response::new(200));
    assert_eq!(client.receive().status, 200);
    client.send([b'x'; 60_000]);
    assert_eq!(client.get("/hello").text(), "hello");
}

#[test]
fn an_io_thread_that_works_for_the_others_does_its_own_work_too() {
    let options = Options {
        threads: 2,
        serial_place: Some(SerialPlace::IoThreads),
        // More than the stage can process at once, but few enough to end the test.
        pipeline_count_max: 8,
        drain_timeout: Duration::ZERO,
        ..Options::default()
    };
    let server = Server::builder(options)
        .listen(Listen::tcp(([127, 0, 0, 1], 0).into()))
        .serial(|_: &SerialRequest<'_>, reply: SerialReply<'_>| {
            // Computes instead of sleeping, which would yield the processor to others.
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(100) {
                std::hint::spin_loop();
            }
            reply.empty();
        })
        .start(|_io| {
            let mut router = Router::new(());
            router
                .serial(Method::Get, "/serial", 1)
                .get("/hello", |(), _, reply| reply.text("hello"));
            router
        })
        .unwrap();
    // Clients of both threads that always have requests at the stage.
    let mut streams = Vec::new();
    let mut threads = Vec::new();
    for _ in 0..16 {
        let client = Client::connect(&server);
        let mut writer = client.stream().try_clone().unwrap();
        let mut reader = client.stream().try_clone().unwrap();
        streams.push(client);
        threads.push(std::thread::spawn(move || {
            let requests = get("/serial").repeat(20);
            while writer.write_all(requests.as_bytes()).is_ok() {}
        }));
        threads.push(std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while reader.read(&mut bytes).is_ok_and(|size| size > 0) {}
        }));
    }
    wait_until("the stage is at work", || server.counters().requests > 200);
    for _ in 0..4 {
        assert_eq!(Client::connect(&server).get("/hello").text(), "hello");
    }
    for client in streams {
        client.stream().shutdown(Shutdown::Both).unwrap();
    }
    for thread in threads {
        thread.join().unwrap();
    }
}
