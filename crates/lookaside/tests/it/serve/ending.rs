//! How a server ends, whatever is still running.

use std::fs;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_testing::wait_until;

use super::{PATIENCE, Running, project, serve};
use crate::program::Project;

/// A query that never ends.
const ENDLESS: &str = "with recursive n(i) as (select 1 union all select i + 1 from n) \
                       select i from n where i < 0 and :key = :key";

/// Waits until a process ends by itself, and returns its output since.
fn ends(mut running: Running) -> (ExitStatus, String) {
    wait_until("it ends", || running.has_ended());
    running.wait()
}

/// The process ends in time even if threads are still busy that it cannot interrupt.
#[test]
fn issue_12_queries_that_never_end_do_not_outlive_drain_timeout_ms() {
    let project = project(&format!(
        "[lookups.endless]\nsql = '{ENDLESS}'\nparams.key = 'int'\n\
         [server]\ndrain_timeout_ms = 1000\n"
    ));
    let running = serve(&project, &[]);
    let mut clients: Vec<_> = (0..4).map(|_| running.client()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        client.send("GET", &format!("/v1/lookup/endless?key={index}"), &[], b"");
    }
    let mut other = running.client();
    // The request for the metrics is one of them.
    let waiting = "lookaside_http_waiting 5\n";
    wait_until("the queries begin", || {
        other.get("/metrics").is(200).text().contains(waiting)
    });
    running.signal("TERM");
    let (status, log) = ends(running);
    assert!(status.code().is_some(), "{status}: {log}");
    let told = "SIGTERM: answering the requests in progress";
    assert!(log.contains(told), "{log}");
}

/// A client that keeps its stream open does not delay the end either.
#[test]
fn streams_that_go_on_do_not_outlive_drain_timeout_ms() {
    let project = Project::new();
    let config = project.read("knowdb.toml");
    let server = "[server]\ndrain_timeout_ms = 500\n";
    project.write("knowdb.toml", &format!("{config}\n{server}"));
    let running = serve(&project, &[]);
    let target = format!(
        "/v1/enrich/{}",
        super::streams::model(&mut running.client())
    );
    let mut client = super::streams::begin(&running, &target);
    let (receiver, sender) = client.split();
    sender.raw(super::streams::chunk().as_bytes());
    assert_eq!(receiver.head("POST").status, 200);
    receiver.chunk();
    running.signal("TERM");
    let (status, log) = ends(running);
    // On a machine so busy that the thread does not run within the half second, the end is forced
    // and reported.
    let forced = [
        "did not end in time",
        "the server did not end within drain_timeout_ms",
    ];
    let is_forced = status.code() == Some(1) && forced.iter().any(|text| log.contains(text));
    assert!(status.success() || is_forced, "{status}: {log}");
}

/// Nor does a load outlive it: the signal arrives long before anything is served.
#[test]
fn issue_12_a_load_that_never_ends_does_not_outlive_drain_timeout_ms() {
    let insert = "insert into {table} with recursive n(i) as (select 1 union all select i + 1 from n) \
                  select ?1 from n where i < 0";
    let project = Project::with(&[
        (
            "knowdb.toml",
            "version = 2\n[[tables]]\nname = 't'\n[server]\ndrain_timeout_ms = 200\n",
        ),
        ("t/data.csv", "a\n1\n"),
        ("t/create.sql", "create table {table} (a text)"),
        ("t/insert.sql", insert),
    ]);
    let mut child = Running::command(&project, &["--listen", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // Signals are handled once this thread exists.
    wait_until("the thread for signals begins", || {
        thread_names(child.id()).contains(&"signals\n".to_owned())
    });
    let pid = child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() >= PATIENCE {
            child.kill().unwrap();
            panic!("it does not end");
        }
        // sleep: polls until a deadline; a program that does not end is killed
        thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(log.contains("drain_timeout_ms"), "{log}");
}

fn thread_names(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("comm")).ok())
        .collect()
}
