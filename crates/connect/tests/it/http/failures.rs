//! Servers that refuse, hang, end and return.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_stream::{Messages, Partition, StopFlag};
use lookaside_testing::wait_until;

use super::server::{HttpServer, Reply};
use super::{Writing, numbers};
use crate::flush::flush;

/// A server that gives these replies to the first requests by POST, then 200; and the times of all.
fn scripted(replies: Vec<Reply>) -> (HttpServer, Arc<Mutex<Vec<Instant>>>) {
    let times = Arc::new(Mutex::new(Vec::new()));
    let server = HttpServer::start({
        let times = Arc::clone(&times);
        move |_| {
            let mut times = times.lock().unwrap();
            times.push(Instant::now());
            let reply = replies.get(times.len() - 1);
            reply.cloned().unwrap_or_else(|| Reply::new(200, ""))
        }
    });
    (server, times)
}

/// The times between the requests.
fn pauses(times: &Mutex<Vec<Instant>>) -> Vec<u128> {
    let times = times.lock().unwrap();
    let pairs = times.windows(2);
    pairs.map(|pair| (pair[1] - pair[0]).as_millis()).collect()
}

#[test]
fn a_server_that_is_busy_is_asked_again_later_and_later() {
    let busy = [503, 429, 500, 408].map(|status| Reply::new(status, "busy"));
    let (server, times) = scripted(busy.to_vec());
    let mut writing = Writing::open(&format!("http://{}/", server.address()));
    writing.write(&numbers(0..10));
    writing.flush();
    assert_eq!(writing.acknowledged(), 10);
    assert!(writing.refusals().is_empty());
    let pauses = pauses(&times);
    assert_eq!(pauses.len(), 4);
    for (pause, least) in pauses.iter().zip([100, 200, 400, 800]) {
        assert!(*pause >= least, "{pauses:?}");
    }
    let posts = server.posts();
    assert!(posts.iter().all(|post| post.body == posts[0].body));
}

#[test]
fn retry_after_is_respected() {
    let reply = Reply::new(503, "").with_header("retry-after", "2");
    let (server, times) = scripted(vec![reply]);
    let mut writing = Writing::open(&format!("http://{}/", server.address()));
    writing.write(&numbers(0..10));
    writing.flush();
    let pauses = pauses(&times);
    assert!(pauses[0] >= 2000, "{pauses:?}");
}

#[test]
fn what_no_complete_answer_confirms_is_sent_again() {
    for reply in [
        // Within the body, within the head, and none in time.
        Reply::new(200, "0123456789").cut_after(3),
        Reply::new(200, "")
            .with_header("content-length", "x\u{1}")
            .cut_after(0),
        Reply::silence(),
    ] {
        let (server, _) = scripted(vec![reply]);
        let mut writing = Writing::open(&format!("http://{}/?timeout_ms=1000", server.address()));
        writing.write(&numbers(0..10));
        writing.flush();
        assert_eq!(writing.acknowledged(), 10);
        let posts = server.posts();
        assert_eq!(posts.len(), 2);
        assert_eq!(posts[0].body, posts[1].body);
    }
}

#[test]
fn a_server_that_is_away_for_a_while_costs_no_event() {
    let mut server = HttpServer::start(|_| Reply::new(200, ""));
    let mut writing = Writing::open(&format!("http://{}/?batch_ms=10", server.address()));
    writing.write(&numbers(0..100));
    writing.wait_acknowledged(100);
    server.stop();
    for block in numbers(100..1000).chunks(100) {
        writing.write(block);
    }
    let begun = Instant::now();
    wait_until("several attempts fail", || {
        begun.elapsed() > Duration::from_millis(500)
    });
    assert_eq!(writing.acknowledged(), 100);
    server.restart();
    writing.flush();
    assert_eq!(writing.acknowledged(), 1000);
    let found: Vec<_> = server
        .posts()
        .iter()
        .flat_map(|post| post.lines())
        .collect();
    assert_eq!(found, numbers(0..1000));
}

#[test]
fn a_run_that_gives_up_does_not_wait() {
    let away = {
        let mut server = HttpServer::start(|_| Reply::new(200, ""));
        let writing = Writing::open(&format!("http://{}/", server.address()));
        server.stop();
        (server, writing)
    };
    let hanging = HttpServer::start(|_| Reply::silence());
    let writing = Writing::open(&format!("http://{}/", hanging.address()));
    for (_server, mut writing) in [away, (hanging, writing)] {
        let give_up = StopFlag::new().unwrap();
        writing.sink.attach(&give_up);
        writing.write(&numbers(0..10));
        give_up.raise();
        let begun = Instant::now();
        assert_eq!(
            flush(&mut *writing.sink).unwrap_err().kind(),
            ErrorKind::Interrupted
        );
        drop(writing.sink);
        // Much less than the time that an answer may take.
        assert!(begun.elapsed() < Duration::from_secs(15));
        assert_eq!(writing.partition.acknowledged(), None);
    }
}

#[test]
fn a_sink_that_is_dropped_while_its_server_is_away_ends() {
    let mut server = HttpServer::start(|_| Reply::new(503, "").with_header("retry-after", "600"));
    let mut writing = Writing::open(&format!("http://{}/?batch_ms=0", server.address()));
    writing.write(&numbers(0..10));
    wait_until("it was sent", || !server.posts().is_empty());
    drop(writing.sink);
    server.stop();
    assert_eq!(writing.partition.acknowledged(), None);
}

#[test]
fn memory_is_limited_while_a_server_does_not_answer() {
    const SIZE: usize = 50_000;
    let server = HttpServer::start(|_| Reply::silence());
    let url = format!("http://{}/?buffer_max=1048576&batch_ms=0", server.address());
    let mut writing = Writing::open(&url);
    let give_up = StopFlag::new().unwrap();
    writing.sink.attach(&give_up);
    let count = Arc::new(AtomicUsize::new(0));
    let (ended, end) = mpsc::channel();
    let thread = thread::spawn({
        let count = Arc::clone(&count);
        move || {
            let partition = Partition::new("t", 0);
            for position in 0.. {
                let mut messages = Messages::new();
                messages.push(&partition, position, Some(&[b'1'; SIZE]), None);
                if let Err(error) = writing.write_messages(&messages) {
                    ended.send(error.kind()).unwrap();
                    return;
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    wait_until("the buffer is full", || {
        (count.load(Ordering::Relaxed) + 1) * SIZE > (1 << 20) - 10_000
    });
    // It waits, and has not ended.
    assert!(end.recv_timeout(Duration::from_millis(300)).is_err());
    give_up.raise();
    thread.join().unwrap();
    assert_eq!(end.recv().unwrap(), ErrorKind::Interrupted);
    assert!(count.load(Ordering::Relaxed) * SIZE <= 1 << 20);
}

#[test]
fn what_no_message_escapes_ends_the_run() {
    for (reply, expected) in [
        (
            Reply::new(401, "who?"),
            "status 401: who?; correct the user",
        ),
        (Reply::new(403, ""), "status 403; permit the user"),
        (
            Reply::new(404, ""),
            "status 404; correct the host and the path",
        ),
        (
            Reply::new(308, "").with_header("location", "https://u:s3cret@new.example/in?t=s3cret"),
            "redirects are not followed: write the URL that it leads to, https://new.example/in",
        ),
    ] {
        let server = HttpServer::start(move |_| reply.clone());
        let url = format!("http://u:s3cret@{}/in", server.address());
        let mut writing = Writing::open(&url);
        writing.write(&numbers(0..10));
        let failure = writing.failure();
        assert!(failure.contains(expected), "{failure}");
        assert!(!failure.contains("s3cret"), "{failure}");
        assert_eq!(server.posts().len(), 1);
        assert_eq!(writing.partition.acknowledged(), None);
    }
}
