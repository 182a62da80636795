//! Requests of the serial stage, mixed with others.

use lookaside_http::{
    Listen, Method, Options, Router, SerialPlace, SerialReply, SerialRequest, SerialStage, Server,
};
use lookaside_testing::wait_until;

use crate::client::Client;
use crate::service;

const NEXT: u32 = 0;
const ECHO: u32 = 1;
const FAIL: u32 = 2;

/// A stage that assigns gapless numbers without a lock.
#[derive(Default)]
struct Numbers {
    last: u64,
    batch_fails: bool,
}

impl SerialStage for Numbers {
    fn call(&mut self, request: &SerialRequest<'_>, reply: SerialReply<'_>) {
        match request.tag() {
            NEXT => {
                self.last += 1;
                reply
                    .header_number("X-Number", self.last)
                    .text(&self.last.to_string());
            }
            ECHO => {
                let tag = request.param("tag").unwrap();
                let header =
                    String::from_utf8(request.header("x-tag").unwrap_or(b"-").into()).unwrap();
                let query = request.query_value("q").unwrap_or_default();
                let body = request.body().escape_ascii();
                reply.text(&format!("{tag} {header} {query} {body}"));
            }
            FAIL => match request.param("how").unwrap() {
                "panic" => panic!("a test wants it"),
                "forgotten" => drop(reply),
                _ => {
                    self.batch_fails = true;
                    reply.text("not true");
                }
            },
            other => unreachable!("there is no route {other}"),
        }
    }

    fn batch_end(&mut self) {
        if std::mem::take(&mut self.batch_fails) {
            panic!("a test wants it");
        }
    }
}

fn start(threads: usize) -> Server {
    start_at(threads, SerialPlace::IoThreads)
}

fn start_at(threads: usize, place: SerialPlace) -> Server {
    let options = Options {
        threads,
        serial_place: Some(place),
        ..Options::default()
    };
    Server::builder(options)
        .listen(Listen::tcp(([127, 0, 0, 1], 0).into()))
        .serial(Numbers::default())
        .start(|io| {
            let mut router: Router<service::State> = service::router(io);
            router
                .serial(Method::Get, "/next", NEXT)
                .serial(Method::Post, "/serial/{tag}", ECHO)
                .serial(Method::Get, "/fail/{how}", FAIL);
            router
        })
        .unwrap()
}

#[test]
fn replies_keep_their_order_across_the_stage() {
    for place in [SerialPlace::IoThreads, SerialPlace::Thread] {
        check_order(start_at(3, place));
    }
}

fn check_order(server: Server) {
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let mut client = Client::connect(&server);
            std::thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                let mut last = 0;
                for round in 0..100 {
                    let mut expected = Vec::new();
                    let mut requests = String::new();
                    for number in 0..random.usize(1..150) {
                        let tag = format!("{seed}-{round}-{number}");
                        let (request, reply) = match random.u8(..4) {
                            0 => (format!("GET /echo/{tag}"), tag),
                            1 => ("GET /next".into(), "next".into()),
                            2 => (format!("GET /remote/{tag}"), tag),
                            _ => (
                                format!("POST /serial/{tag}?q=a%20b"),
                                format!("{tag} {seed} a b "),
                            ),
                        };
                        requests +=
                            &format!("{request} HTTP/1.1\r\nHost: h\r\nX-Tag: {seed}\r\n\r\n");
                        expected.push(reply);
                    }
                    client.send(requests);
                    for expected in expected {
                        let reply = client.receive();
                        match &*expected {
                            "next" => {
                                let number: u64 = reply.text().parse().unwrap();
                                assert!(number > last, "{number} came after {last}");
                                last = number;
                            }
                            expected => assert_eq!(reply.text(), expected),
                        }
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let ring = server.monitor().ring().expect("there is a stage");
    assert!(ring.pushed > 0);
    let numbers = Client::connect(&server).get("/next");
    assert_eq!(numbers.header("x-number"), Some(numbers.text()));
    wait_until("all are counted", || {
        let counters = server.counters();
        counters.requests == counters.replies_2xx
    });
    server.stop();
    server.join().unwrap();
}

#[test]
fn the_stage_sees_all_of_a_request() {
    let server = start(1);
    let mut client = Client::connect(&server);
    for body in [
        "Content-Length: 5\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ] {
        let request =
            format!("POST /serial/t?q=x HTTP/1.1\r\nHost: h\r\nA: b\r\nX-TAG:  v \r\n{body}");
        for at in 0..request.len() {
            client.send(&request[..at]);
            std::thread::yield_now();
            client.send(&request[at..]);
            assert_eq!(client.receive().text(), "t v x hello", "cut at {at}");
        }
    }
    client.send("POST /serial/t HTTP/1.0\r\n\r\n");
    let reply = client.receive();
    assert_eq!(
        (reply.text(), reply.header("connection")),
        ("t -  ", Some("close"))
    );
    assert!(client.is_closed());
}

#[test]
fn mistakes_of_the_stage_take_nobody_along() {
    for place in [SerialPlace::IoThreads, SerialPlace::Thread] {
        check_mistakes(start_at(1, place));
    }
}

fn check_mistakes(server: Server) {
    let mut other = Client::connect(&server);
    for how in ["panic", "forgotten"] {
        let mut client = Client::connect(&server);
        client.send(format!(
            "GET /next HTTP/1.1\r\nHost: h\r\n\r\nGET /fail/{how} HTTP/1.1\r\nHost: h\r\n\r\n\
             GET /next HTTP/1.1\r\nHost: h\r\n\r\n"
        ));
        assert_eq!(client.receive().status, 200);
        assert_eq!(client.receive().status, 500);
        assert!(client.is_closed());
        assert_eq!(other.get("/next").status, 200);
    }
    let mut client = Client::connect(&server);
    client.send("GET /fail/batch HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(client.is_closed(), "what did not happen is not confirmed");
    assert_eq!(
        other.get("/next").text(),
        "5",
        "nothing behind a mistake was done"
    );
    wait_until("they are counted", || server.counters().panics == 2);
}

#[test]
fn a_serial_route_without_a_stage_is_a_mistake() {
    let server = service::start(service::single());
    let mut client = Client::connect(&server);
    assert_eq!(client.get("/serial-without-stage").status, 500);
}

#[test]
fn clients_that_leave_meanwhile_do_no_harm() {
    let server = start(2);
    for _ in 0..200 {
        let mut client = Client::connect(&server);
        client.send("GET /next HTTP/1.1\r\nHost: h\r\n\r\n".repeat(20));
    }
    wait_until("they are gone", || server.counters().open() == 0);
    assert_eq!(Client::connect(&server).get("/next").status, 200);
}
