//! Queries that never end by themselves: their limit, their clients and a signal end them.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lookaside_testing::wait_until;

use crate::program::{Project, lookaside};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A query in [`project`] that finds nothing and does not end.
const ENDLESS: &str = "select rack from anyone where name = :name";

/// A table `hosts`, and `anyone`: its rows, followed by endless others.
fn project(config: &str) -> Project {
    let tables = "version = 2\n[[tables]]\nname = 'hosts'\n";
    Project::with_endless_view(&format!("{tables}{config}"))
}

/// Waits until a process uses CPU time, which here only an endless query does for long.
fn wait_until_busy(child: &Child) {
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        // After the name, which may contain any character; user and system time are fields 14 and 15.
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before = ticks();
    // A tenth of a second is ten ticks.
    wait_until("a query runs", || ticks() >= before + 50);
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let status = Command::new("kill")
        .args([&format!("-{name}"), &pid])
        .status();
    assert!(status.expect("there is a kill").success());
}

#[test]
fn a_query_on_the_command_line_ends_at_its_limit_or_by_a_signal() {
    let project = project("[local]\nquery_timeout_ms = 50\n");
    let said = project.run(&["query", ".", ENDLESS, "--param", "name=nobody"]);
    said.ended(1)
        .err_has(&["50ms", "query_timeout_ms of [local]"]);
    let slow = self::project("[local]\nquery_timeout_ms = 0\n");
    let mut child = lookaside()
        .args(["query", ".", ENDLESS, "--param", "name=nobody"])
        .current_dir(slow.path())
        .spawn()
        .unwrap();
    wait_until_busy(&child);
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}

#[test]
fn a_wrong_limit_is_told_with_its_place() {
    let project = project("[local]\nquery_timeout_ms = 'long'\n");
    let said = project.run(&["check", "."]);
    said.ended(1)
        .err_has(&["knowdb.toml:5", "local.query_timeout_ms"]);
}

#[test]
fn a_run_with_an_endless_lookup_ends_after_a_signal() {
    let project = project(
        "[local]\nquery_timeout_ms = 0\n[enrich]\nformat = 'json'\ndrain_timeout_ms = 400\n",
    );
    let mut child = lookaside()
        .args(["enrich", ".", "-", "--workers", "2"])
        .current_dir(project.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdin.write_all(b"{\"host\":\"web-1\"}\n").unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "{\"host\":\"web-1\",\"rack\":7}\n");
    stdin.write_all(b"{\"host\":\"nobody\"}\n").unwrap();
    wait_until_busy(&child);
    signal(&child, "TERM");
    let (mut rest, mut err) = (String::new(), String::new());
    stdout.read_to_string(&mut rest).unwrap();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143), "{err}");
    assert_eq!(rest, "", "no event leaves without what it looked up");
    assert!(err.contains("1 event"), "{err}");
    drop(stdin);
}

/// A server with lookups that never end.
struct Server {
    child: Child,
    address: String,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Server {
    fn start(project: &Project) -> Self {
        let mut child = lookaside()
            .args(["serve", ".", "--threads", "1", "--listen", "127.0.0.1:0"])
            .env_remove("XDG_RUNTIME_DIR")
            .current_dir(project.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut greeting = String::new();
        while !greeting.contains("try:  ") {
            let size = stderr.read_line(&mut greeting).unwrap();
            assert_ne!(size, 0, "the server did not start:\n{greeting}");
        }
        let address = greeting
            .lines()
            .find_map(|line| line.trim().strip_prefix("http://"));
        Self {
            address: address.unwrap().to_owned(),
            child,
            stderr,
        }
    }

    /// Sends a request, which begins with `lines`; the caller reads the answer.
    fn send(&self, lines: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (host, size) = (&self.address, body.len());
        let head = format!("{lines}\r\nHost: {host}\r\nContent-Length: {size}\r\n\r\n");
        stream.write_all((head + body).as_bytes()).unwrap();
        stream
    }

    fn ask(&self, request: &str, body: &str) -> String {
        let mut answer = String::new();
        let request = format!("{request} HTTP/1.1\r\nConnection: close");
        let mut stream = self.send(&request, body);
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// How many queries failed so far, according to the metrics.
    fn failures(&self) -> u64 {
        self.metric("lookaside_query_failures_total")
    }

    fn metric(&self, name: &str) -> u64 {
        let metrics = self.ask("GET /metrics", "");
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        metrics.lines().find_map(value).unwrap_or(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; a failed test must not leave it running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SERVED: &str = "[lookups.anyone]\nsql = 'select rack from anyone where name = :name'\n";

#[test]
fn a_served_query_ends_at_its_limit() {
    let limit = "[local]\nquery_timeout_ms = 50\n";
    let project = project(&format!("{limit}[server]\nerror_detail = true\n{SERVED}"));
    let server = Server::start(&project);
    for (request, body, expected) in [
        (
            "GET /v1/lookup/anyone?name=nobody",
            "",
            "query_timeout_ms of [local]",
        ),
        (
            "GET /v1/lookup/anyone?name=nobody",
            "",
            "query_timeout_ms of [local]",
        ),
        (
            "POST /v1/lookup/anyone",
            "[\"nobody\"]",
            "a limit was reached",
        ),
    ] {
        let answer = server.ask(request, body);
        assert!(answer.contains(expected), "{answer}");
        let answer = server.ask("GET /v1/lookup/anyone?name=web-1", "");
        assert!(answer.ends_with("{\"rack\":7}"), "{answer}");
    }
    assert_eq!(server.failures(), 3, "no failure is kept as an answer");
}

#[test]
fn a_query_does_not_outlive_its_client() {
    let config = "[local]\nquery_timeout_ms = 0\n[server]\nquery_rows_max = 10\n";
    let project = project(&format!("{config}{SERVED}"));
    let server = Server::start(&project);
    let endless = "{\"sql\":\"select rack from anyone where name = 'nobody'\"}";
    let requests = [
        ("GET /v1/lookup/anyone?name=nobody", ""),
        ("POST /v1/lookup/anyone", "[\"nobody\"]"),
        ("POST /v1/query", endless),
        ("POST /v1/enrich/events", "{\"host\":\"nobody\"}\n"),
    ];
    let connections = ["close", "keep-alive"];
    let requests = requests
        .iter()
        .flat_map(|it| connections.map(|connection| (it, connection)));
    for (number, (&(request, body), connection)) in (1..).zip(requests) {
        let stream = server.send(
            &format!("{request} HTTP/1.1\r\nConnection: {connection}"),
            body,
        );
        wait_until_busy(&server.child);
        drop(stream);
        let what = format!("{request} is cancelled");
        wait_until(&what, || server.failures() >= number);
    }
}

#[test]
fn issue_12_a_batch_does_not_outlive_its_client() {
    let project = project(&format!("[local]\nquery_timeout_ms = 0\n{SERVED}"));
    let server = Server::start(&project);
    let sets: Vec<_> = (0..2000).map(|i| format!("\"nobody-{i}\"")).collect();
    let body = format!("[{}]", sets.join(","));
    let stream = server.send("POST /v1/lookup/anyone HTTP/1.1", &body);
    wait_until_busy(&server.child);
    drop(stream);
    // The request for the metrics waits, too.
    wait_until("the batch is cancelled", || {
        server.metric("lookaside_http_waiting") <= 1
    });
    assert_eq!(
        server.failures(),
        1,
        "no set begins after the cancelled one"
    );
}

/// More requests than there are threads for them, so that some have not begun when they are
/// cancelled. Few of them query SQLite, since most wait for an equal query: that leaves CPU time to
/// the server on a busy machine.
#[test]
fn issue_12_a_server_answers_all_that_it_cancels() {
    let config = "[local]\nquery_timeout_ms = 0\n[server]\ndrain_timeout_ms = 8000\n";
    let project = project(&format!("{config}{SERVED}"));
    let mut server = Server::start(&project);
    let gets = (0..80).map(|i| {
        let request = format!("GET /v1/lookup/anyone?name=nobody-{}", i % 4);
        (request, String::new())
    });
    let batches = (0..40).map(|i| {
        let body = format!("[\"nobody-{}\",\"web-1\"]", i % 4);
        ("POST /v1/lookup/anyone".to_owned(), body)
    });
    let streams: Vec<_> = gets
        .chain(batches)
        .map(|(request, body)| {
            server.send(&format!("{request} HTTP/1.1\r\nConnection: close"), &body)
        })
        .collect();
    wait_until_busy(&server.child);
    signal(&server.child, "TERM");
    for (index, mut stream) in streams.into_iter().enumerate() {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503"), "{index}: {answer}");
        assert!(answer.contains("cancelled"), "{index}: {answer}");
    }
    let mut log = String::new();
    server.stderr.read_to_string(&mut log).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0), "{log}");
}

#[test]
fn a_server_ends_in_time_and_answers_what_it_cancels() {
    let config = "[local]\nquery_timeout_ms = 0\n[server]\ndrain_timeout_ms = 4000\n";
    let project = project(&format!("{config}{SERVED}"));
    let mut server = Server::start(&project);
    let request = "GET /v1/lookup/anyone?name=nobody HTTP/1.1\r\nConnection: close";
    let mut stream = server.send(request, "");
    wait_until_busy(&server.child);
    signal(&server.child, "TERM");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("cancelled"), "{answer}");
    let mut log = String::new();
    server.stderr.read_to_string(&mut log).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0), "{log}");
}
