//! `enrich` from and to topics of Kafka, with the program itself: kills, signals, `check`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use lookaside_testing::KafkaBroker;
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{Project, lookaside, run};

/// A broker that creates topics with four partitions when they are asked for.
pub(crate) fn broker() -> Option<KafkaBroker> {
    KafkaBroker::start(&["auto.create.topics.enable=true", "num.partitions=4"])
}

fn unique(prefix: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A project with a table of the names of 100 hosts, and a model that looks them up.
pub(crate) fn project(config: &str) -> Project {
    let mut hosts = "id,name\n".to_owned();
    for id in 0..100 {
        writeln!(hosts, "{id},host {id}").unwrap();
    }
    let config = format!(
        "version = 2\n[enrich]\nmodel = 'm'\n{config}\n\
         [[tables]]\nname = 'hosts'\ncolumns = {{ by_header = ['id', 'name'] }}\n"
    );
    let model = "name : m\n---\nn = read(n) ; id : digit = calc(@n % 100) ;\n\
                 host = select name from hosts where id = read(id) ;\n\
                 topic = @meta/topic ; @meta/key = fmt(\"{n}\", @n) ;\n";
    Project::with(&[
        ("knowdb.toml", &config),
        ("hosts/data.csv", &hosts),
        ("models/m.oml", model),
    ])
}

/// Writes events with numbers to a topic, unchanged.
pub(crate) fn produce(project: &Project, topic: &str, first: u32, count: u32) {
    let mut events = String::new();
    for n in first..first + count {
        writeln!(events, "{{\"n\":{n}}}").unwrap();
    }
    project.write("events.json", &events);
    project.write("models/copy.oml", "name : copy\n---\n* = take() ;\n");
    let arguments = [
        "enrich",
        ".",
        "events.json",
        "--format",
        "json",
        "--model",
        "copy",
    ];
    let topic = format!("{topic}?key=n");
    project
        .run(&[&arguments[..], &["--output", &topic]].concat())
        .ended(0);
}

/// The events of a topic: how often each number is there, with all fields of one.
fn consume(
    project: &Project,
    topic: &str,
    limit: usize,
) -> HashMap<u64, (usize, serde_json::Value)> {
    let group = unique("reader");
    let input = format!("{topic}?group={group}");
    let limit = limit.to_string();
    let _ = std::fs::remove_file(project.file("found.json"));
    project
        .run(&[
            "enrich",
            ".",
            "--input",
            &input,
            "--model",
            "copy",
            "--output",
            "found.json",
            "--limit",
            &limit,
        ])
        .ended(0);
    let mut found = HashMap::new();
    for line in project.read("found.json").lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let number = event["n"].as_u64().unwrap();
        found.entry(number).or_insert((0, event)).0 += 1;
    }
    found
}

pub(crate) fn start(project: &Project, input: &str, output: &str) -> Child {
    lookaside()
        .args(["enrich", ".", "--input", input, "--output", output])
        .current_dir(project.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Ends a process by a signal; returns what it wrote to standard error.
pub(crate) fn end(mut child: Child, signal: Signal) -> String {
    let pid = Pid::from_child(&child);
    kill_process(pid, signal).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut text).unwrap();
    child.wait().unwrap();
    text
}

#[test]
fn killed_processes_lose_no_event_and_the_rest_of_a_group_takes_over() {
    let Some(broker) = broker() else {
        return;
    };
    let project = project("");
    let topic = |name: &str| format!("kafka://{}/{name}", broker.address());
    let (clicks, rich) = (topic("clicks"), topic("clicks-rich"));
    produce(&project, &clicks, 0, 10_000);
    let input = format!("{clicks}?group=g&session.timeout.ms=6000&commit_interval_ms=100");
    let first = start(&project, &input, &rich);
    // It is killed in the middle of its work.
    consume(&project, &rich, 1000);
    end(first, Signal::KILL);
    let others = [
        start(&project, &input, &rich),
        start(&project, &input, &rich),
    ];
    produce(&project, &clicks, 10_000, 10_000);
    // As many as there are at least; each further one is in the place of one that is written twice.
    let mut found = consume(&project, &rich, 20_000);
    while found.len() < 20_000 {
        let count: usize = found.values().map(|(count, _)| count).sum();
        found = consume(&project, &rich, count + 20_000 - found.len());
    }
    for (number, (_, event)) in &found {
        assert_eq!(event["host"], format!("host {}", number % 100));
        assert_eq!(event["topic"], "clicks");
    }
    for child in others {
        let said = end(child, Signal::TERM);
        assert!(said.contains("events"), "{said}");
    }
}

#[test]
fn settings_name_topics_and_check_connects() {
    let Some(broker) = broker() else {
        return;
    };
    let address = broker.address();
    let config = format!(
        "input = 'kafka://{address}/in?group=g'\noutput = 'kafka://{address}/out'\n\
         reject = 'kafka://{address}/dead'"
    );
    let project = project(&config);
    let topic = |name: &str| format!("kafka://{address}/{name}");
    produce(&project, &topic("in"), 0, 3);
    // A check creates no topic.
    for _ in 0..2 {
        let said = project.run(&["check", "."]).ended(1);
        said.err_has(&["the topic `out` does not exist", "create it first"]);
    }
    produce(&project, &topic("out"), 100, 1);
    project.run(&["check", "."]).ended(0).out_has(&[
        "input: ",
        "topic in with 4 partitions",
        "reject: ",
    ]);
    project.write("bad.json", "no json\n");
    project.write("models/copy.oml", "name : copy\n---\n* = take() ;\n");
    project
        .run(&[
            "enrich",
            ".",
            "bad.json",
            "--format",
            "raw",
            "--model",
            "copy",
            "--output-format",
            "raw",
            "--output",
            &topic("in"),
        ])
        .ended(0);
    let said = project.run(&["enrich", "--limit", "4"]).ended(0);
    said.err_has(&["rejected", "in["]);
    assert_eq!(consume(&project, &topic("out"), 4).len(), 4);
    let group = unique("reader");
    let input = format!("{}?group={group}", topic("dead"));
    project
        .run(&[
            "enrich",
            ".",
            "--input",
            &input,
            "--format",
            "raw",
            "--model",
            "copy",
            "--output-format",
            "raw",
            "--output",
            "dead.txt",
            "--reject",
            "null",
            "--limit",
            "1",
        ])
        .ended(0);
    assert_eq!(project.read("dead.txt"), "no json\n");
}

#[test]
fn mistakes_are_named_without_secrets() {
    let Some(broker) = broker() else {
        return;
    };
    let project = project("");
    let address = broker.address();
    let same = [
        "enrich".to_owned(),
        "--input".to_owned(),
        format!("kafka://{address}/a?group=g"),
        "--output".to_owned(),
        format!("kafka://{address}/a"),
    ];
    project.run(&same).ended(2).err_has(&["also the input a"]);
    let secret = format!(
        "kafka://user:hidden@{address}/a?group=g&sasl.mechanism=PLAIN&security.protocol=sasl_plaintext"
    );
    for arguments in [
        vec!["enrich", "--input", &secret, "--follow"],
        vec!["enrich", ".", "--input", &secret, "other.json"],
        vec!["enrich", "--input", "kafka://user:hidden@/a?group=g"],
        vec!["enrich", "--input", "kafka://user:hidden@h/a"],
    ] {
        let said = project.run(&arguments).ended(2);
        assert!(!said.err.contains("hidden"), "{}", said.err);
    }
    run(["sources"])
        .ended(0)
        .out_has(&["kafka://localhost:9092/clicks"]);
}
