//! The api for event loops, on a bare epoll.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use lookaside_client::postgres::{Options, poll::Connection};
use lookaside_client::{ErrorKind, Reply, Request, Syncs};
use lookaside_value::{ParamBatch, Value};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::{config, database, databases, shown};

/// An epoll with connections on it, named by their place.
struct Loop {
    epoll: std::os::fd::OwnedFd,
    connections: Vec<Connection>,
}

impl Loop {
    fn new(urls: &[String]) -> Self {
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let connections = urls.iter().map(|url| {
            let config = config(url);
            Connection::connect(&config, &config.hosts[0], Options::default()).unwrap()
        });
        let connections: Vec<_> = connections.collect();
        for (place, connection) in (0..).zip(&connections) {
            let data = EventData::new_u64(place);
            epoll::add(&epoll, connection.as_fd(), data, EventFlags::IN).unwrap();
        }
        Self { epoll, connections }
    }

    /// A round: gives each connection its turn, takes the replies, and waits for what is next.
    fn round(&mut self, mut replied: impl FnMut(usize, Reply)) {
        let now = Instant::now();
        let mut is_busy = false;
        for (place, connection) in self.connections.iter_mut().enumerate() {
            let was_ready = connection.is_ready();
            connection.turn(now);
            // The server has nothing to add to a log-in, so nothing would be waited for.
            is_busy |= connection.is_ready() != was_ready;
            while let Some(reply) = connection.next_reply() {
                is_busy = true;
                replied(place, reply);
            }
            let mut flags = EventFlags::IN;
            flags.set(EventFlags::OUT, connection.wants_write());
            let data = EventData::new_u64(place as u64);
            epoll::modify(&self.epoll, connection.as_fd(), data, flags).unwrap();
        }
        if is_busy {
            return;
        }
        let deadlines = self.connections.iter().filter_map(Connection::deadline);
        let left = deadlines.min().map_or(Duration::from_secs(30), |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        let timeout = Timespec::try_from(left).unwrap();
        let mut events = Vec::with_capacity(8);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) => {}
            Err(error) => assert_eq!(io::Error::from(error).kind(), io::ErrorKind::Interrupted),
        }
    }
}

#[test]
fn ten_thousand_answers_come_over_two_connections() {
    for postgres in databases() {
        let mut poller = Loop::new(&[postgres.url(), postgres.url()]);
        let mut asked = HashMap::new();
        let mut answered = 0;
        for tag in 0..10_000_i64 {
            let place = usize::from(tag % 3 == 0);
            let params = [Value::Int(tag), Value::from("x".repeat(2_000))];
            let request = Request::new("select $1::int8, repeat($2, 3)", &params);
            let ticket = poller.connections[place].submit(request).unwrap();
            asked.insert((place, ticket), tag);
            if tag % 100 == 0 {
                poller.round(|place, reply| answered += take(&mut asked, place, reply));
            }
        }
        while answered < 10_000 {
            poller.round(|place, reply| answered += take(&mut asked, place, reply));
        }
        assert!(asked.is_empty());
        assert_eq!(poller.connections[0].query_count(), 0);
    }
}

fn take(
    asked: &mut HashMap<(usize, lookaside_client::Ticket), i64>,
    place: usize,
    reply: Reply,
) -> usize {
    let tag = asked.remove(&(place, reply.ticket)).unwrap();
    let rows = reply.into_answer().unwrap().rows;
    assert_eq!(rows.row(0)[0], Value::Int(tag));
    1
}

#[test]
fn what_is_flushed_is_answered_with_the_next_turn() {
    for postgres in databases() {
        let mut poller = Loop::new(&[postgres.url()]);
        while !poller.connections[0].is_ready() {
            poller.round(|_, reply| panic!("{reply:?} was not asked for"));
        }
        let connection = &mut poller.connections[0];
        let ticket = connection.submit(Request::new("select 7", &[])).unwrap();
        connection.flush(Instant::now());
        assert!(!connection.wants_write());
        // The answer to what prepares the statement may be here, and is not looked for.
        // sleep: time for an answer to arrive, of which the test shows that it is not read
        std::thread::sleep(Duration::from_millis(20));
        connection.flush(Instant::now());
        assert!(connection.next_reply().is_none());
        let mut replies = Vec::new();
        while replies.is_empty() {
            poller.round(|_, reply| replies.push(reply.ticket));
        }
        assert_eq!(replies, [ticket]);
    }
}

#[test]
fn flights_and_deadlines_work_on_a_loop_too() {
    for postgres in databases() {
        let mut poller = Loop::new(&[postgres.url()]);
        let started = Instant::now();
        let mut params = ParamBatch::new(1);
        for divisor in [1, 0, 2] {
            params.push([Value::Int(divisor)]);
        }
        let connection = &mut poller.connections[0];
        let flight = Request::many("select 12 / $1::int", params).syncs(Syncs::Shared);
        let flight = connection.submit(flight).unwrap();
        let sleep = Request::new("select pg_sleep(600)", &[]);
        let sleep = sleep.deadline(started + Duration::from_millis(50));
        let sleep = connection.submit(sleep).unwrap();
        let mut replies = HashMap::new();
        while replies.len() < 2 {
            poller.round(|_, reply| drop(replies.insert(reply.ticket, reply.answers)));
        }
        let answers: Vec<_> = replies[&flight].iter().map(shown).collect();
        assert_eq!(answers, ["12", "22012", "6"]);
        let error = replies[&sleep][0].as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deadline);
        let next = Request::new("select 7", &[]);
        let next = poller.connections[0].submit(next).unwrap();
        while !replies.contains_key(&next) {
            poller.round(|_, reply| drop(replies.insert(reply.ticket, reply.answers)));
        }
        assert!(started.elapsed() < Duration::from_secs(120));
    }
}

#[test]
fn a_server_that_goes_or_is_not_there_is_an_error_on_the_loop() {
    let Some(postgres) = database("18", true) else {
        return;
    };
    let url = postgres.tcp_url().unwrap();
    let mut poller = Loop::new(std::slice::from_ref(&url));
    let ask = |poller: &mut Loop| {
        let mut answer = None;
        match poller.connections[0].submit(Request::new("select 7", &[])) {
            Ok(_) => {
                while answer.is_none() {
                    poller.round(|_, reply| answer = Some(reply.into_answer()));
                }
                answer.unwrap()
            }
            Err(error) => Err(error),
        }
    };
    assert_eq!(shown(&ask(&mut poller)), "7");
    postgres.close().unwrap();
    assert!(ask(&mut poller).unwrap_err().is_connection_lost());
    assert!(poller.connections[0].end().is_some());
    let mut poller = Loop::new(&[url]);
    let error = ask(&mut poller).unwrap_err();
    assert!(error.is_connection_lost());
    assert!(error.is_retryable());
}
