//! The load generator against scripted servers, correct and faulty ones.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::iter;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{self, Said};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// Long enough that something is answered even if tests share the machine.
const SHORT: [&str; 2] = ["--duration", "0.3"];

/// A longer time for busy machines.
const LONGER: [&str; 3] = ["1", "8", "60"];

/// One connection of a server.
struct Client {
    reader: BufReader<Box<dyn Read + Send>>,
    writer: Box<dyn Write + Send>,
    /// The index of the connection.
    number: usize,
}

impl Client {
    /// Reads the next request with its body; `None` at the end.
    fn request(&mut self) -> Option<String> {
        let mut request = String::new();
        let mut body_size = 0;
        loop {
            let start = request.len();
            if self.reader.read_line(&mut request).ok()? == 0 {
                return None;
            }
            let line = &request[start..];
            if let Some(size) = line.strip_prefix("Content-Length: ") {
                body_size = size.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; body_size];
        self.reader.read_exact(&mut body).ok()?;
        request.push_str(&String::from_utf8(body).unwrap());
        Some(request)
    }

    /// A disconnected client is not a failure of the server.
    fn answer(&mut self, text: &str) {
        let _ = self.writer.write_all(text.as_bytes());
    }

    /// Answers each request alike.
    fn answer_all(&mut self, text: &str) {
        while self.request().is_some() {
            self.answer(text);
        }
    }
}

/// Serves each connection of a TCP port on a separate thread, as long as the test runs.
fn tcp(script: impl Fn(&mut Client) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let accept = move || {
        let stream = listener.accept().unwrap().0;
        let reader: Box<dyn Read + Send> = Box::new(TcpStream::try_clone(&stream).unwrap());
        (reader, Box::new(stream) as Box<dyn Write + Send>)
    };
    serve(accept, script);
    address
}

/// The same on a Unix socket in the folder.
fn unix(folder: &TempDir, script: impl Fn(&mut Client) + Send + Sync + 'static) -> String {
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let accept = move || {
        let stream = listener.accept().unwrap().0;
        let reader: Box<dyn Read + Send> = Box::new(UnixStream::try_clone(&stream).unwrap());
        (reader, Box::new(stream) as Box<dyn Write + Send>)
    };
    serve(accept, script);
    format!("unix:{}", path.display())
}

fn serve(
    accept: impl Fn() -> (Box<dyn Read + Send>, Box<dyn Write + Send>) + Send + 'static,
    script: impl Fn(&mut Client) + Send + Sync + 'static,
) {
    let script = Arc::new(script);
    thread::spawn(move || {
        for number in 0.. {
            let (reader, writer) = accept();
            let script = Arc::clone(&script);
            thread::spawn(move || {
                script(&mut Client {
                    reader: BufReader::new(reader),
                    writer,
                    number,
                });
            });
        }
    });
}

fn bench(target: &str, arguments: &[&str]) -> Said {
    let mut command = program::bench();
    command.args(["http", target, "--json"]);
    command.args(["--warm-up", "0"]);
    if !arguments.contains(&"--duration") {
        command.args(SHORT);
    }
    command.args(arguments).output().unwrap().into()
}

/// As [`bench`], with increasing times until something was answered.
fn bench_until_answered(target: &str, arguments: &[&str]) -> Said {
    let mut said = bench(target, arguments);
    for duration in LONGER {
        if arguments.contains(&"--duration") || !said.err.contains("answered nothing") {
            break;
        }
        said = bench(target, &[arguments, &["--duration", duration]].concat());
    }
    said
}

/// The line of a successful run.
#[track_caller]
fn measured(target: &str, arguments: &[&str]) -> Value {
    let said = bench_until_answered(target, arguments).ended(0);
    serde_json::from_str(&said.out).expect("it is JSON")
}

/// As [`measured`], with increasing times until enough has happened.
#[track_caller]
fn measured_until(target: &str, arguments: &[&str], is_enough: impl Fn(&Value) -> bool) -> Value {
    let mut line = measured(target, arguments);
    for duration in LONGER {
        if is_enough(&line) {
            break;
        }
        line = measured(target, &[arguments, &["--duration", duration]].concat());
    }
    assert!(is_enough(&line), "{line}");
    line
}

/// Whether more than `count` requests were answered.
fn more_than(count: u64) -> impl Fn(&Value) -> bool {
    move |line| line["ops"].as_u64() > Some(count)
}

/// A failed run, with its message and its line.
#[track_caller]
fn failed(target: &str, arguments: &[&str], fault: &str, texts: &[&str]) {
    let said = bench_until_answered(target, &[&["--connections", "2"], arguments].concat());
    let said = said.ended(1).err_has(texts);
    let line: Value = serde_json::from_str(&said.out).expect("it is JSON");
    assert!(
        line["failures"][fault]["count"].as_u64() > Some(0),
        "{line}"
    );
}

#[test]
fn answers_are_counted_and_timed() {
    let target = tcp(|client| client.answer_all(OK));
    let own = std::process::id().to_string();
    let arguments = ["--get", "/a", "--connections", "3", "--server-pid", &own];
    // The kernel counts processor time in hundredths of a second.
    let line = measured_until(&target, &arguments, |line| {
        let used = |figure: &str| line[figure].as_f64() > Some(0.0);
        more_than(10)(line) && used("client_cpu_us") && used("server_cpu_us")
    });
    let count = line["ops"].as_u64().unwrap();
    assert_eq!(line["statuses"]["200"], count, "{line}");
    assert_eq!(line["templates"][0]["name"], "GET /a", "{line}");
    assert_eq!(line["connections_opened"], 3, "{line}");
    // What came just before and after the run may lie on either side of it.
    let bytes = line["bytes_per_answer"].as_f64().unwrap();
    assert!((bytes - OK.len() as f64).abs() < 0.5, "{line}");
    for figure in ["ops_per_s", "p50_us", "p999_us"] {
        assert!(line[figure].as_f64() > Some(0.0), "{figure}: {line}");
    }
    assert!(line["max_us"].as_f64() >= line["p99_us"].as_f64(), "{line}");
}

#[test]
fn pipelines_go_over_a_socket_and_answers_come_in_chunks() {
    let folder = TempDir::new().unwrap();
    let target = unix(&folder, |client| {
        client.answer_all(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        );
    });
    let shape = [
        "--get",
        "/",
        "--connections",
        "2",
        "--depth",
        "16",
        "--threads",
        "2",
    ];
    let shape = [&shape[..], &["--expect-body", "ok"]].concat();
    measured_until(&target, &shape, more_than(32));
}

#[test]
fn connections_are_closed_and_take_the_next_template() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("put.raw");
    let put = "PUT /b/{RAND:7:07} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
    fs::write(&file, put).unwrap();
    let seen: Arc<Mutex<BTreeMap<usize, Vec<String>>>> = Arc::default();
    let target = tcp({
        let seen = Arc::clone(&seen);
        move |client| {
            while let Some(request) = client.request() {
                let line = request.lines().next().unwrap().to_owned();
                seen.lock()
                    .unwrap()
                    .entry(client.number)
                    .or_default()
                    .push(line);
                client.answer(OK);
            }
        }
    });
    let templates = ["--get", "/a", "--template", file.to_str().unwrap()];
    let shape = [
        "--connections",
        "1",
        "--requests-per-connection",
        "3",
        "--depth",
        "2",
    ];
    // Both templates were sent on whole connections.
    let is_enough = |line: &Value| line["connections_opened"].as_u64() > Some(3);
    measured_until(&target, &[&templates[..], &shape[..4]].concat(), is_enough);
    measured_until(&target, &[&templates[..], &shape].concat(), is_enough);

    let seen = seen.lock().unwrap();
    let kinds: HashSet<&[String]> = seen
        .values()
        // The last connection of a run is cut short.
        .filter(|lines| lines.len() == 3)
        .map(Vec::as_slice)
        .collect();
    let get = ["GET /a HTTP/1.1"; 3].map(str::to_owned);
    let put = ["PUT /b/07 HTTP/1.1"; 3].map(str::to_owned);
    assert_eq!(kinds, HashSet::from([&get[..], &put[..]]));
    assert!(seen.values().all(|lines| lines.len() <= 3), "{seen:?}");
}

#[test]
fn requests_rotate_and_numbers_are_given_out_once() {
    let templates = [
        "--post",
        "/{SEQ:1}",
        "--body",
        "n={SEQ:95}",
        "--get",
        "/a",
        "--rotate",
    ];
    let shape = ["--connections", "4", "--threads", "2", "--depth", "3"];
    let arguments = [&templates[..], &shape].concat();
    // Each run counts from one, so each has its own server.
    let run = |duration: Option<&str>| {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let target = tcp({
            let seen = Arc::clone(&seen);
            move |client| {
                while let Some(request) = client.request() {
                    seen.lock().unwrap().push(request);
                    client.answer(OK);
                }
            }
        });
        let longer = duration.map_or(vec![], |duration| vec!["--duration", duration]);
        let said = bench(&target, &[&arguments[..], &longer].concat());
        let line = match said.err.contains("answered nothing") {
            true => Value::Null,
            false => serde_json::from_str(&said.ended(0).out).expect("it is JSON"),
        };
        (line, seen)
    };
    let (line, seen) = iter::once(None)
        .chain(LONGER.into_iter().map(Some))
        .map(run)
        .find(|(line, _)| more_than(20)(line))
        .expect("there is time for more than 20 requests");
    let answers: Vec<_> = (0..2)
        .map(|index| line["templates"][index]["answers"].as_u64())
        .collect();
    assert!(
        answers[0].unwrap().abs_diff(answers[1].unwrap()) <= 24,
        "{line}"
    );

    let seen = seen.lock().unwrap();
    let mut numbers = HashSet::new();
    for request in seen.iter().filter(|request| request.starts_with("POST")) {
        let number: u64 = request[6..].split(' ').next().unwrap().parse().unwrap();
        let body = format!("n={}", number + 94);
        assert!(request.ends_with(&format!("Content-Length: {}\r\n\r\n{body}", body.len())));
        assert!(numbers.insert(number), "{number} was sent twice");
    }
    assert!(numbers.len() >= 10, "{}", numbers.len());
}

#[test]
fn connections_that_the_server_closes_in_good_order_are_no_failure() {
    let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    for answer in [answer, "HTTP/1.0 200 OK\r\n\r\nok"] {
        let target = tcp(move |client| {
            client.request();
            client.answer(answer);
        });
        let arguments = ["--get", "/", "--connections", "2", "--expect-body", "ok"];
        let opened = |line: &Value| line["connections_opened"].as_u64();
        let line = measured_until(&target, &arguments, |line| opened(line) > Some(4));
        assert!(opened(&line) >= line["ops"].as_u64(), "{line}");
    }
}

#[test]
fn wrong_answers_fail_the_run() {
    let always = |text: &'static str| tcp(move |client| client.answer_all(text));
    let get = ["--get", "/a"];
    let target = always("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
    failed(
        &target,
        &get,
        "unexpected statuses",
        &["503 to GET /a", "--expect-status"],
    );
    let line = measured(&target, &["--get", "/a", "--expect-status", "2xx,503"]);
    assert_eq!(line["statuses"]["503"], line["ops"], "{line}");

    let target = always(OK);
    let expected = ["--get", "/a", "--expect-body", "no"];
    failed(&target, &expected, "unexpected bodies", &["to GET /a"]);

    let target = always("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokay");
    failed(
        &target,
        &get,
        "malformed answers",
        &["no request asked for"],
    );
    let target = always("HTTP/1.1 200 OK\nContent-Length: 2\n\nok");
    failed(
        &target,
        &get,
        "malformed answers",
        &["carriage return, to GET /a"],
    );

    let cut = |text: &'static str| {
        tcp(move |client| {
            client.request();
            client.answer(text);
        })
    };
    let target = cut("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok");
    failed(
        &target,
        &get,
        "lost connections",
        &["closed within the answer"],
    );
    let target = cut("HTTP/1.1 200 OK\r\nCont");
    failed(
        &target,
        &get,
        "lost connections",
        &["closed within the answer"],
    );
    // Whether it ends regularly or by a reset depends on the kernel.
    failed(&cut(""), &get, "lost connections", &["lost connections"]);
    let target = cut(OK);
    failed(
        &target,
        &["--get", "/a", "--depth", "4"],
        "lost connections",
        &["to GET /a"],
    );
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let target = tcp(|client| while client.request().is_some() {});
    let timeout = ["--get", "/", "--timeout", "0.05"];
    failed(&target, &timeout, "timeouts", &["no answer within 50ms"]);
}

#[test]
fn large_bodies_are_sent_to_slow_readers() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("body");
    fs::write(&file, "b".repeat(3 << 20)).unwrap();
    let target = unix(&folder, |client| {
        while let Some(request) = client.request() {
            assert!(request.len() > 3 << 20);
            client.answer(OK);
        }
    });
    let post = [
        "--post",
        "/",
        "--body-file",
        file.to_str().unwrap(),
        "--connections",
        "2",
    ];
    for more in [&[][..], &["--depth", "3"], &["--rotate"]] {
        measured_until(&target, &[&post[..], more].concat(), more_than(1));
    }
}

/// Answers at once, but for one pause some time after the first request, which all connections share.
fn stalling(stall: Duration) -> String {
    let begin: Mutex<Option<Instant>> = Mutex::default();
    let stalled = AtomicBool::new(false);
    tcp(move |client| {
        while client.request().is_some() {
            {
                let mut begin = begin.lock().unwrap();
                let begin = begin.get_or_insert_with(Instant::now);
                if begin.elapsed() > stall * 2 / 5 && !stalled.swap(true, Ordering::Relaxed) {
                    // sleep: the pause of the server that is measured
                    thread::sleep(stall);
                }
            }
            client.answer(OK);
        }
    })
}

/// Whether a line shows a stall of that time.
type Shows = fn(&Value, f64) -> bool;

/// At a fixed rate a third of the requests become due during the stall, and wait for half of it on
/// average.
fn is_charged_to_all(line: &Value, stall_us: f64) -> bool {
    line["ops"].as_f64() > Some(0.9e-3 * stall_us)
        && line["p90_us"].as_f64() > Some(0.2 * stall_us)
        && line["p99_us"].as_f64() > Some(0.6 * stall_us)
        && line["late_max"].as_f64() > Some(0.2e-3 * stall_us)
}

/// A client that waits for answers sends less meanwhile, and so sees the stall only four times.
fn is_charged_to_few(line: &Value, stall_us: f64) -> bool {
    line["max_us"].as_f64() > Some(0.8 * stall_us)
        && line["ops"].as_u64() > Some(1000)
        && line["p99_us"].as_f64() < Some(0.2 * stall_us)
}

#[test]
fn a_stall_is_charged_to_every_request_that_fell_due_in_it() {
    let shape = ["--get", "/", "--connections", "4"];
    let shown: [(&[&str], Shows); 2] = [
        (&["--rate", "400"], is_charged_to_all),
        (&[], is_charged_to_few),
    ];
    for (rate, shows) in shown {
        // The delays of a busy machine are small compared to a stall that is long enough.
        let mut stall = Duration::from_millis(500);
        loop {
            let duration = (3 * stall).as_secs_f64().to_string();
            let arguments = [&shape[..], rate, &["--duration", &duration]].concat();
            let line = measured(&stalling(stall), &arguments);
            if shows(&line, stall.as_secs_f64() * 1e6) {
                break;
            }
            assert!(stall < Duration::from_secs(16), "{line}");
            stall *= 2;
        }
    }
}

#[test]
fn answers_that_never_come_count_at_a_fixed_rate() {
    let target = tcp(|client| {
        // Only the first request of each connection is answered.
        client.request();
        client.answer(OK);
        while client.request().is_some() {}
    });
    let arguments = ["--get", "/", "--connections", "2", "--rate", "100"];
    measured_until(&target, &arguments, |line| {
        line["unanswered"].as_u64() > Some(20) && line["p90_us"].as_f64() > Some(1e6)
    });
}

#[test]
fn mistakes_name_the_way_out() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let nobody = port.to_string();
    let get = ["--get", "/"];
    let said = bench(&nobody, &get).ended(1);
    said.err_has(&[
        "cannot connect",
        &format!("is the server running at {nobody}?"),
    ]);
    bench("unix:/none", &get)
        .ended(1)
        .err_has(&["there is no socket /none"]);
    bench(&nobody, &[]).ended(2).err_has(&["--get PATH"]);
    bench(&nobody, &["--post", "/"])
        .ended(2)
        .err_has(&["--body"]);
    bench(&nobody, &["--get", "a"])
        .ended(2)
        .err_has(&["begins with /"]);
    bench(&nobody, &["--get", "/", "--template", "none"])
        .ended(2)
        .err_has(&["cannot read none"]);
    let process = ["--get", "/", "--server-pid", "4194305"];
    bench(&nobody, &process)
        .ended(2)
        .err_has(&["no such process"]);
}

#[test]
fn a_run_that_is_interrupted_tells_what_it_has() {
    let (answered, answers) = std::sync::mpsc::sync_channel(1);
    let target = tcp(move |client| {
        client.request();
        client.answer(OK);
        while client.request().is_some() {
            // So the previous answer has been counted.
            let _ = answered.try_send(());
            client.answer(OK);
        }
    });
    let mut command = program::bench();
    command.args(["http", &target, "--get", "/", "--json"]);
    command.args(["--duration", "600", "--warm-up", "0"]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    answers.recv_timeout(Duration::from_secs(120)).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let said = Said::from(child.wait_with_output().unwrap()).ended(130);
    let line: Value = serde_json::from_str(&said.out).unwrap();
    assert!(line["ops"].as_u64() > Some(0), "{line}");
    assert!(line["seconds"].as_f64() < Some(500.0), "{line}");
}

#[test]
fn a_person_gets_a_table() {
    let target = tcp(|client| client.answer_all(OK));
    let mut command = program::bench();
    command.args(["http", &target, "--get", "/a", "--get", "/b"]);
    let output = command.args(SHORT).output().unwrap();
    let said = Said::from(output).ended(0);
    said.out_has(&[
        "64 connections",
        "answers",
        "p99",
        "us CPU an answer",
        "x GET /b",
    ]);
}
