//! Long runs over sockets, and their metrics.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Stdio};

use lookaside_testing::wait_until;

use crate::program::{Project, lookaside};
use crate::providers::{FEED_CONFIG, feed_database};

/// A run that listens on a port of the system's choice.
struct Listening {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Listening {
    fn start(project: &Project, flags: &[&str]) -> Self {
        let mut child = lookaside()
            .args(["enrich", ".", "tcp://127.0.0.1:0"])
            .args(["--log", "json", "--log-level", "info"])
            .args(flags)
            .current_dir(project.path())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stderr = BufReader::new(child.stderr.take().expect("it is a pipe"));
        Self { child, stderr }
    }

    /// The address in the next log entry with `message`.
    fn address(&mut self, message: &str) -> String {
        loop {
            let mut line = String::new();
            let size = self.stderr.read_line(&mut line).unwrap();
            assert_ne!(size, 0, "the program never said {message:?}");
            let entry: serde_json::Value = serde_json::from_str(&line).expect("log is JSON");
            let fields = &entry["fields"];
            if fields["message"] == message {
                return fields["address"].as_str().expect("a text").to_owned();
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended already; a failed test must not leave it running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const EVENT: &[u8] = b"{\"host\":\"web-1\",\"status\":200}\n";
const ENRICHED: &str = r#"{"host":"web-1","status":200,"class":"ok","owner":"shop","rack":7}"#;

#[test]
fn events_go_from_socket_to_socket() {
    let project = Project::new();
    let sink = TcpListener::bind("127.0.0.1:0").unwrap();
    let output = format!("tcp://{}", sink.local_addr().unwrap());
    let mut run = Listening::start(&project, &["-o", &output]);
    let address = run.address("listens");
    let mut lines = BufReader::new(sink.accept().unwrap().0).lines();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(EVENT).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), ENRICHED);
    }
}

/// The response to a request line.
fn get(address: &str, line: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("{line}\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_are_served_while_events_flow() {
    let project = Project::new();
    let sink = TcpListener::bind("127.0.0.1:0").unwrap();
    let output = format!("tcp://{}", sink.local_addr().unwrap());
    let mut run = Listening::start(&project, &["-o", &output, "--metrics", "0"]);
    let metrics = run.address("serves metrics");
    let address = run.address("listens");
    let mut lines = BufReader::new(sink.accept().unwrap().0).lines();
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(b"broken\n").unwrap();
    stream.write_all(EVENT).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), ENRICHED);
    // An event is output before it is counted; after one more, it is counted for certain.
    stream.write_all(EVENT).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), ENRICHED);

    // Connections without a request delay no other one.
    let idle: Vec<_> = (0..50)
        .map(|_| TcpStream::connect(&metrics).unwrap())
        .collect();
    assert!(get(&metrics, "GET /healthz HTTP/1.1").ends_with("\r\n\r\nalive\n"));
    assert!(get(&metrics, "GET /readyz HTTP/1.1").ends_with("\r\n\r\nready\n"));
    let answer = get(&metrics, "GET /metrics HTTP/1.1");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.ends_with(&format!("\r\nContent-Length: {}", body.len())),
        "{head}"
    );
    let number = |name: &str| -> f64 {
        let mut lines = body.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(found, _)| *found == name);
        found
            .unwrap_or_else(|| panic!("no {name} in\n{body}"))
            .1
            .parse()
            .unwrap()
    };
    assert!(number("lookaside_events_in_total") >= 2.0, "{body}");
    assert!(number("lookaside_events_out_total") >= 1.0, "{body}");
    assert_eq!(number("lookaside_rejects_total"), 1.0);
    assert_eq!(number("lookaside_lookup_failures_total"), 0.0);
    assert_eq!(number("lookaside_generation"), 1.0);
    assert_eq!(number("lookaside_reloads_total{outcome=\"success\"}"), 0.0);
    assert!(number("lookaside_native_hits_total") >= 2.0, "{body}");
    for name in [
        "bytes_in",
        "bytes_out",
        "lookups",
        "lookups_asked",
        "lookups_absent",
        "time_failures",
        "l0_hits",
    ] {
        number(&format!("lookaside_{name}_total"));
    }
    // Every name is described.
    let docs = include_str!("../../../../docs/CLI.md");
    for line in body.lines().filter(|line| line.starts_with("# TYPE ")) {
        let name = line.split(' ').nth(2).unwrap();
        assert!(
            body.contains(&format!("# HELP {name} ")),
            "no help for {name}"
        );
        assert!(
            docs.contains(&format!("`{name}")),
            "docs/CLI.md has no {name}"
        );
    }

    for (request, status) in [
        ("GET / HTTP/1.1", "HTTP/1.1 404 "),
        ("POST /metrics HTTP/1.1", "HTTP/1.1 405 "),
        ("hello", "HTTP/1.1 400 "),
    ] {
        assert!(get(&metrics, request).starts_with(status), "{request}");
    }
    drop(idle);
}

#[test]
fn the_summary_tells_what_the_change_feed_did() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let project = Project::with(&[
        ("knowdb.toml", FEED_CONFIG),
        (
            "models/racks.oml",
            "name : racks\nrule : /json/*\n---\nrack = select rack from pg.host where name = read(host) ;\n",
        ),
    ]);
    let mut child = lookaside()
        .args(["enrich", ".", "-", "--format", "json", "--metrics", "0"])
        .args(["--log", "json", "--log-level", "info"])
        .current_dir(project.path())
        .env("DATABASE_URL", postgres.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut run = Listening {
        stderr: BufReader::new(child.stderr.take().unwrap()),
        child,
    };
    let mut lines = BufReader::new(run.child.stdout.take().unwrap()).lines();
    let metrics = run.address("serves metrics");
    let mut ask = || {
        input.write_all(b"{\"host\":\"a\"}\n").unwrap();
        lines.next().unwrap().unwrap()
    };
    assert_eq!(ask(), r#"{"rack":1}"#);
    let has = |line: &str| {
        let answer = get(&metrics, "GET /metrics HTTP/1.1");
        answer.lines().any(|found| found == line)
    };
    wait_until("the statement", || {
        has("lookaside_feed_statements{provider=\"pg\"} 1")
    });
    assert_eq!(ask(), r#"{"rack":1}"#);
    postgres.execute("update host set rack = 9").unwrap();
    wait_until("the change", || ask() == r#"{"rack":9}"#);
    wait_until("the count", || {
        has("lookaside_feed_gate_wait_seconds_count{provider=\"pg\"} 1")
    });
    drop(input);
    let mut said = String::new();
    run.stderr.read_to_string(&mut said).unwrap();
    let feed = said.lines().find(|line| line.contains("change feed of pg"));
    let feed = feed.unwrap_or_else(|| panic!("no feed in\n{said}"));
    let told = "  change feed of pg: live, 1 statement, 1 transaction, lag ";
    assert!(feed.starts_with(told), "{feed}");
    assert!(run.child.wait().unwrap().success());
}

#[test]
fn models_outputs_and_unmatched_events_are_counted() {
    let config = "version = 2\n[enrich]\nformat = 'json'\nrule_key = 'k'\nunmatched = 'none'\n\
                  [[enrich.output]]\nname = 'ones'\ntarget = 'null'\nwhen = 'read(n) = digit(1)'\n";
    let model = |name: &str| {
        format!("name : {name}\nrule : /{name}\n---\ndrop when read(n) gt(5) ;\nn = read(n) ;\n")
    };
    let project = Project::with(&[
        ("knowdb.toml", config),
        ("models/a.oml", &model("a")),
        ("models/b.oml", &model("b")),
    ]);
    let mut run = Listening::start(&project, &["--metrics", "0"]);
    let metrics = run.address("serves metrics");
    let mut stream = TcpStream::connect(run.address("listens")).unwrap();
    let events = "{\"k\":\"/a\",\"n\":1}\n{\"k\":\"/b\",\"n\":1}\n{\"k\":\"/a\",\"n\":2}\n\
                  {\"k\":\"/a\",\"n\":9}\n{\"k\":\"/c\",\"n\":1}\n";
    stream.write_all(events.as_bytes()).unwrap();
    let expected = [
        "lookaside_model_events_total{model=\"a\"} 3",
        "lookaside_model_events_total{model=\"b\"} 1",
        "lookaside_model_dropped_total{model=\"a\"} 1",
        "lookaside_model_dropped_total{model=\"b\"} 0",
        "lookaside_output_events_total{output=\"default\"} 0",
        "lookaside_output_events_total{output=\"ones\"} 2",
        "lookaside_unmatched_events_total{without=\"model\"} 1",
        "lookaside_unmatched_events_total{without=\"output\"} 1",
        "lookaside_events_dropped_total 3",
    ];
    let mut last = String::new();
    wait_until("all events are counted", || {
        last = get(&metrics, "GET /metrics HTTP/1.1");
        let is_shown = |line: &&str| last.lines().any(|it| it == *line);
        expected.iter().all(is_shown)
    });
}
