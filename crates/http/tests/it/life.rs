//! How connections and servers begin and end.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use lookaside_http::{Address, ErrorKind, Listen, Options, Router, Server};
use lookaside_testing::wait_until;

use crate::client::{Client, address};
use crate::service::{router, single, start};

fn descriptor_count() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn disconnects_at_every_point_leave_nothing() {
    let server = start(single());
    let requests = [
        "GET /stream/3000000 HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /file/0/1000000 HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /park/gone HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /remote/gone HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n12345678",
        "POST /shout HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
        "POST /body HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n1",
    ];
    for request in requests {
        for size in 0..=request.len() {
            let mut client = Client::connect(&server);
            client.send(&request[..size]);
            if size % 2 == 0 {
                let _ = client.stream().shutdown(std::net::Shutdown::Write);
            }
        }
    }
    let mut waker = Client::connect(&server);
    waker.get("/wake/gone");
    wait_until("all but one connection have ended", || {
        server.counters().open() == 1
    });
    assert_eq!(waker.get("/hello").text(), "hello");
    assert_eq!(server.counters().panics, 0);
}

#[test]
fn a_client_that_ends_its_side_gets_what_it_asked_for() {
    let server = start(single());
    let mut client = Client::connect(&server);
    client.send(
        "GET /park/a HTTP/1.1\r\nHost: h\r\n\r\nGET /echo/b HTTP/1.1\r\nHost: h\r\n\r\nGET /hel",
    );
    client.stream().shutdown(std::net::Shutdown::Write).unwrap();
    let mut waker = Client::connect(&server);
    wait_until("it is parked", || waker.get("/wake/a").text() == "1");
    assert_eq!(client.receive().text(), "a");
    assert_eq!(client.receive().text(), "b");
    assert!(client.is_closed());
}

#[test]
fn thousands_of_short_connections_leak_no_descriptor() {
    let server = start(Options {
        threads: 2,
        ..Options::default()
    });
    let before = descriptor_count();
    for round in 0..5_000 {
        let mut client = Client::connect(&server);
        match round % 4 {
            0 => assert_eq!(client.get("/hello").status, 200),
            1 => client.send("GET /hel"),
            2 => {
                client.send("GET /echo/a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
                assert_eq!(client.receive().text(), "a");
            }
            _ => {}
        }
    }
    wait_until("all connections have ended", || {
        let counters = server.counters();
        counters.accepted >= 5_000 && counters.open() == 0
    });
    // Other tests run in the same process, and use descriptors, too.
    wait_until("their descriptors are closed", || {
        descriptor_count() < before + 500
    });
}

#[test]
fn idle_connections_hold_no_buffers() {
    let server = start(single());
    let count = 400;
    let mut clients: Vec<Client> = (0..count).map(|_| Client::connect(&server)).collect();
    for client in &mut clients {
        assert_eq!(client.get("/with/60000").body.len(), 60_000);
    }
    for client in &mut clients {
        assert_eq!(client.get("/hello").text(), "hello");
    }
}

#[test]
fn stopping_lets_requests_end_and_refuses_new_ones() {
    let server = start(single());
    let place = address(&server);
    let mut idle = Client::connect(&server);
    assert_eq!(idle.get("/hello").status, 200);
    let mut parked = Client::connect(&server);
    parked.send(
        "GET /remote/a HTTP/1.1\r\nHost: h\r\n\r\nGET /stream/5000000 HTTP/1.1\r\nHost: h\r\n\r\n",
    );
    let mut half = Client::connect(&server);
    half.send("POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab");
    wait_until("all are here", || server.counters().requests >= 4);
    server.stop();
    assert!(idle.is_closed());
    assert_eq!(parked.receive().text(), "a");
    assert_eq!(parked.receive().body.len(), 5_000_000);
    assert!(parked.is_closed());
    half.send("cd");
    let reply = half.receive();
    assert_eq!(
        (reply.text(), reply.header("connection")),
        ("abcd", Some("close"))
    );
    drop((half, parked));
    server.join().unwrap();
    assert!(std::net::TcpStream::connect(place).is_err());
}

#[test]
fn stopping_does_not_wait_for_ever() {
    let server = start(Options {
        drain_timeout: Duration::from_millis(200),
        ..single()
    });
    let mut client = Client::connect(&server);
    client.send("GET /park/a HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_until("it is parked", || server.counters().requests == 1);
    // Waits for the server's threads.
    drop(server);
    assert!(client.is_closed());
}

#[test]
fn unix_sockets_serve_and_their_files_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.sock");
    let begin = || {
        let options = Options {
            threads: 2,
            ..Options::default()
        };
        Server::start(options, vec![Listen::unix(&path).mode(0o600)], router)
    };
    // The socket file of a killed server.
    drop(UnixListener::bind(&path).unwrap());
    let server = begin().unwrap();
    assert_eq!(server.addresses(), [Address::Unix(path.clone())]);
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let mut streams: Vec<UnixStream> = (0..10)
        .map(|_| UnixStream::connect(&path).unwrap())
        .collect();
    for stream in &mut streams {
        stream
            .write_all(b"GET /echo/x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            .unwrap();
    }
    for mut stream in streams {
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(
            reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("\r\n\r\nx"),
            "{reply}"
        );
    }
    let error = begin().err().expect("the socket is in use");
    assert!(error.to_string().contains("another server"), "{error}");
    drop(server);
    assert!(!path.exists());
    fs::write(&path, "precious").unwrap();
    assert!(begin().is_err(), "a file that is not a socket stays");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_port_belongs_to_one_server() {
    let server = start(single());
    let again = Server::start(single(), vec![Listen::tcp(address(&server))], router);
    let error = again.err().expect("the port is in use").to_string();
    assert!(error.contains("another server"), "{error}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for options in [
        Options {
            head_size_max: 0,
            ..Options::default()
        },
        Options {
            header_count_max: 257,
            ..Options::default()
        },
        Options {
            target_size_max: 1 << 16,
            ..Options::default()
        },
        Options {
            server_name: Some("a\r\nb".into()),
            ..Options::default()
        },
    ] {
        let error = Server::start(options, Vec::new(), router).err().unwrap();
        assert!(error.to_string().contains("the option"), "{error}");
    }
}

#[test]
fn more_connections_than_allowed_wait_for_others_to_end() {
    let server = start(Options {
        connection_count_max: 2,
        ..single()
    });
    let mut first = Client::connect(&server);
    assert_eq!(first.get("/hello").status, 200);
    let mut second = Client::connect(&server);
    assert_eq!(second.get("/hello").status, 200);
    let mut third = Client::connect(&server);
    third.send("GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(server.counters().open(), 2);
    drop(first);
    assert_eq!(third.receive().status, 200);
}

/// Where the services of these tests panic.
#[derive(Clone, Copy, Debug)]
enum Fault {
    BatchEnd,
    Timer,
    Woken,
}

/// A panic that belongs to no request may leave requests unanswered: the server ends with an error,
/// so that a supervisor restarts it.
#[test]
fn issue_12_a_panic_that_belongs_to_no_request_ends_the_server() {
    for fault in [Fault::BatchEnd, Fault::Timer, Fault::Woken] {
        let options = Options {
            threads: 3,
            drain_timeout: Duration::from_millis(100),
            ..Options::default()
        };
        let (sender, failures) = channel();
        let sender = std::sync::Mutex::new(sender);
        let server = Server::builder(options)
            .listen(Listen::tcp(([127, 0, 0, 1], 0).into()))
            .on_failure(move || sender.lock().unwrap().send(()).unwrap())
            .start(move |_io| faulty(fault))
            .unwrap();
        let mut client = Client::connect(&server);
        client.send("GET /fault HTTP/1.1\r\nHost: h\r\n\r\n");
        failures.recv_timeout(Duration::from_secs(60)).unwrap();
        // A reply may have been sent before.
        while client.try_receive_some() {}
        // The other threads end without being asked to.
        let error = server.join().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Defect, "{error}");
        assert!(failures.try_recv().is_err(), "it fails once");
    }
}

fn faulty(fault: Fault) -> Router<bool> {
    let mut router = Router::new(false);
    router
        .get("/fault", move |is_broken, _, mut reply| {
            match fault {
                Fault::BatchEnd => *is_broken = true,
                Fault::Timer => drop(reply.defer_until(Instant::now())),
                Fault::Woken => {
                    reply.io().waker(0).wake();
                    reply.defer();
                }
            };
        })
        .on_batch_end(|is_broken, _| assert!(!*is_broken, "a test wants it"))
        .on_timer(|_, _, _| panic!("a test wants it"))
        .on_woken(|_, _, _| panic!("a test wants it"));
    router
}

/// A panic of a hook can be contained to one request.
#[test]
fn a_hook_can_contain_the_panics_of_a_request() {
    let listen = Listen::tcp(([127, 0, 0, 1], 0).into());
    let server = Server::start(single(), vec![listen], |_io| {
        let mut router = Router::new(None);
        router
            .get("/later", |parked, _, mut reply| {
                reply.io().waker(0).wake();
                *parked = Some(reply.defer());
            })
            .get("/hello", |_, _, reply| reply.text("hello"))
            .on_woken(|parked, io, _| {
                let ticket = parked.take().unwrap();
                io.contain(ticket, |_| panic!("a test wants it"));
            });
        router
    });
    let server = server.unwrap();
    for count in 1..=3 {
        let mut client = Client::connect(&server);
        assert_eq!(client.get("/hello").text(), "hello");
        assert_eq!(client.get("/later").status, 500);
        assert!(client.is_closed());
        wait_until("it is counted", || server.counters().panics == count);
    }
    server.stop();
    server.join().unwrap();
}

/// A server can be stopped in time, whatever its service does.
#[test]
fn issue_12_joining_a_server_has_a_bound() {
    let (sender, receiver) = channel::<()>();
    let (is_there, arrival) = channel();
    let channels = std::sync::Arc::new(std::sync::Mutex::new((is_there, receiver)));
    let listen = Listen::tcp(([127, 0, 0, 1], 0).into());
    let options = Options {
        drain_timeout: Duration::from_millis(10),
        ..single()
    };
    let server = Server::start(options, vec![listen], move |_io| {
        let channels = channels.clone();
        let mut router = Router::new(());
        router.get("/busy", move |(), _, reply| {
            let channels = channels.lock().unwrap();
            channels.0.send(()).unwrap();
            // Until the test lets go.
            let _ = channels.1.recv();
            reply.empty();
        });
        router
    });
    let server = server.unwrap();
    let mut client = Client::connect(&server);
    client.send("GET /busy HTTP/1.1\r\nHost: h\r\n\r\n");
    arrival.recv().unwrap();
    server.stop();
    let error = server.join_within(Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    drop(sender);
    // The thread ends when it can.
    assert_eq!(client.receive().status, 200);
    assert!(client.is_closed());
    // A server that ends in time is joined as usual.
    let server = start(single());
    server.stop();
    server.join_within(Duration::from_secs(60)).unwrap();
}
