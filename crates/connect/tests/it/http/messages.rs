//! What becomes of messages: order, batches, what is refused; and options of URLs.

use std::io::Read as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use lookaside_connect::{check_sink, check_source};
use lookaside_stream::Messages;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

use super::server::{HttpServer, Reply, Request};
use super::{Writing, numbers, problem};

fn lines(posts: &[Request]) -> Vec<String> {
    posts.iter().flat_map(Request::lines).collect()
}

#[test]
fn events_arrive_in_their_order_in_batches() {
    let server = HttpServer::start(|_| Reply::new(200, ""));
    let url = format!("http://{}/in?batch_bytes=20000", server.address());
    let mut writing = Writing::open(&url);
    let events = numbers(0..3000);
    for block in events.chunks(500) {
        writing.write(block);
    }
    writing.flush();
    assert_eq!(writing.acknowledged(), 3000);
    let posts = server.posts();
    assert_eq!(lines(&posts), events);
    // A message counts about 150 bytes.
    assert!((20..60).contains(&posts.len()), "{}", posts.len());
    for post in &posts {
        assert_eq!(post.path, "/in");
        assert_eq!(post.header("content-type"), Some("application/x-ndjson"));
        assert!(post.body.len() <= 20_000);
    }
}

#[test]
fn a_batch_is_sent_after_its_time_or_when_the_run_waits() {
    let server = HttpServer::start(|_| Reply::new(204, ""));
    let mut writing = Writing::open(&format!("http://{}/?batch_ms=300", server.address()));
    let begun = Instant::now();
    writing.write(&numbers(0..3));
    writing.write(&numbers(3..5));
    writing.wait_acknowledged(5);
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(server.posts().len(), 1);

    let mut writing = Writing::open(&format!("http://{}/?batch_ms=600000", server.address()));
    writing.write(&numbers(0..3));
    writing.flush();
    assert_eq!(writing.acknowledged(), 3);
}

#[test]
fn options_determine_requests() {
    let server = HttpServer::start(|_| Reply::new(200, ""));
    let url = format!(
        "http://user:p%40ss@{}/a%20b/c?query.token=x%26y&header.X-Token=t&gzip=true\
         &header.Content-Type=text/plain",
        server.address()
    );
    let mut writing = Writing::open(&url);
    writing.write(&numbers(0..100));
    writing.flush();
    let post = &server.posts()[0];
    assert_eq!(post.path, "/a%20b/c?token=x%26y");
    assert_eq!(post.header("x-token"), Some("t"));
    assert_eq!(post.header("content-type"), Some("text/plain"));
    assert_eq!(post.header("authorization"), Some("Basic dXNlcjpwQHNz"));
    assert_eq!(post.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    GzDecoder::new(&*post.body)
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text.lines().collect::<Vec<_>>(), numbers(0..100));
}

#[test]
fn a_refused_message_is_found_and_the_others_arrive_once() {
    let server = HttpServer::start(|request| {
        let text = String::from_utf8_lossy(&request.body);
        match text.contains("bad") {
            true => Reply::new(400, "a bad\n event, with the token s3cret"),
            false => Reply::new(200, ""),
        }
    });
    let url = format!("http://{}/in?header.X-Token=s3cret", server.address());
    let mut writing = Writing::open(&url);
    let mut events = numbers(0..1000);
    events[333] = "{\"bad\":1}".to_owned();
    events[998] = "{\"bad\":2}".to_owned();
    writing.write(&events);
    writing.flush();
    // Until the run has processed the refused messages.
    assert_eq!(writing.acknowledged(), 0);
    let reason = "status 400: a bad event, with the token ***".to_owned();
    let expected = [333, 998].map(|n| (events[n].clone(), reason.clone()));
    assert_eq!(writing.refusals(), expected);
    assert_eq!(writing.acknowledged(), 1000);
    let posts = server.posts();
    // A search for each of the two.
    assert!(posts.len() < 50, "{}", posts.len());
    let mut taken = lines(&posts);
    let is_bad = |post: &Request| String::from_utf8_lossy(&post.body).contains("bad");
    let taken_posts: Vec<_> = posts.into_iter().filter(|post| !is_bad(post)).collect();
    taken.clear();
    taken.extend(lines(&taken_posts));
    events.retain(|event| !event.contains("bad"));
    assert_eq!(taken, events);
}

#[test]
fn what_cannot_be_a_line_is_refused() {
    let server = HttpServer::start(|_| Reply::new(200, ""));
    let mut writing = Writing::open(&format!("http://{}/", server.address()));
    let mut messages = Messages::new();
    let partition = Arc::clone(&writing.partition);
    messages.push(&partition, 0, None, Some(b"k"));
    messages.push(&partition, 1, Some(b"{\n}"), None);
    messages.push(&partition, 2, Some(b"{\"topic\":1}"), None);
    messages.set_topic("other");
    messages.push(&partition, 3, Some(b"{}"), None);
    writing.write_messages(&messages).unwrap();
    writing.flush();
    let refusals = writing.refusals();
    let reasons = ["null", "several lines", "@meta/topic"];
    assert_eq!(refusals.len(), reasons.len());
    for ((_, reason), expected) in refusals.iter().zip(reasons) {
        assert!(reason.contains(expected), "{reason}");
    }
    assert_eq!(writing.acknowledged(), 4);
    assert_eq!(lines(&server.posts()), ["{}"]);
}

#[test]
fn what_is_missing_is_said() {
    let server = HttpServer::start(|_| Reply::new(200, ""));
    let url = format!("http://{}/in", server.address());
    let found = check_sink(&url.parse().unwrap()).unwrap();
    assert_eq!(found, format!("{url} is available: a server answers"));
    let error = check_source(&url.parse().unwrap()).unwrap_err();
    assert!(error.to_string().contains("not a source"), "{error}");
    let error = problem("http://u:secret@127.0.0.1:1/in?query.q=secret");
    assert!(error.contains("no server answers"), "{error}");
    let silent = HttpServer::start_with(None, |_| Reply::silence());
    let error = problem(&format!("http://{}/in?timeout_ms=50", silent.address()));
    assert!(error.contains("no server answers: timeout"), "{error}");
}

#[test]
fn a_server_is_reached_by_tls() {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![made.cert.der().clone()],
            PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into()),
        )
        .unwrap();
    let server = HttpServer::start_with(Some(Arc::new(config)), |_| Reply::new(200, ""));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), made.cert.pem()).unwrap();
    let url = format!("https://{}/in", server.address());
    let mut writing = Writing::open(&format!("{url}?ca={}", file.path().display()));
    writing.write(&numbers(0..10));
    writing.flush();
    assert_eq!(lines(&server.posts()), numbers(0..10));
    // Without the option, the certificate is not trusted.
    let error = problem(&url);
    assert!(error.contains("certificate"), "{error}");
}
