//! The api for event loops.

use std::collections::HashMap;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use lookaside_client::mysql::{Options, poll::Connection};
use lookaside_client::{ErrorKind, Reply, Request};
use lookaside_value::Value;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Site, config, shown, sites};

fn connect(site: &Site) -> Connection {
    let config = config(&site.url());
    let options = Options {
        window: 32,
        ..Options::default()
    };
    Connection::connect(&config, &config.hosts[0], options).unwrap()
}

/// Gives the connection turns until there is a reply.
fn reply(connection: &mut Connection) -> Reply {
    loop {
        connection.turn(Instant::now());
        if let Some(reply) = connection.next_reply() {
            return reply;
        }
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, connection.wants_write());
        let deadline = connection.deadline();
        let left = deadline.map_or(Duration::from_secs(30), |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        let timeout = Timespec::try_from(left).unwrap();
        poll(
            &mut [PollFd::new(&connection.as_fd(), flags)],
            Some(&timeout),
        )
        .unwrap();
    }
}

#[test]
fn answers_come_to_their_questions() {
    for site in sites() {
        let mut connection = connect(&site);
        let mut asked = HashMap::new();
        for tag in 0..2000_i64 {
            let params = [Value::Int(tag), Value::from("x".repeat(2_000))];
            let request = Request::new("select ?, repeat(?, 3)", &params);
            asked.insert(connection.submit(request).unwrap(), tag);
        }
        while !asked.is_empty() {
            let reply = reply(&mut connection);
            let tag = asked.remove(&reply.ticket).unwrap();
            let answer = reply.into_answer().unwrap();
            assert_eq!(answer.rows.row(0)[0], Value::Int(tag));
            assert_eq!(answer.rows.row(0)[1].to_text().len(), 6000);
        }
    }
}

#[test]
fn a_deadline_is_kept() {
    for site in sites() {
        let mut connection = connect(&site);
        let begin = Instant::now();
        let request = Request::new(
            "select benchmark(2000000000, sha2(?, 512))",
            &[Value::Int(1)],
        );
        let request = request.deadline(begin + Duration::from_millis(200));
        connection.submit(request).unwrap();
        let late = reply(&mut connection).into_answer().unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Deadline);
        connection.submit(Request::new("select 7", &[])).unwrap();
        assert_eq!(shown(&reply(&mut connection).into_answer()), "7");
        assert!(begin.elapsed() < Duration::from_secs(120));
    }
}
