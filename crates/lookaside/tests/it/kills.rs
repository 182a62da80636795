//! Events from Kafka while processes, the broker, the link to it and the database of the lookups fail at
//! random times: nothing is lost, nothing is without its lookup, and where that is promised, nothing is
//! written twice.
//!
//! `./test` writes 10,000 events and injects 2 faults for each pair of source and sink. Longer runs
//! set `LOOKASIDE_KILL_EVENTS`, `LOOKASIDE_KILL_FAULTS` and `LOOKASIDE_KILL_SEED`.
#![allow(
    clippy::print_stderr,
    reason = "the seed and the counts of a run are its record"
)]

use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::fs;
use std::io::{self, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_testing::{KafkaBroker, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use crate::lookup_failures::Server;
use crate::program::{Project, lookaside};

/// The number of hosts in the database.
const HOST_COUNT: u64 = 1000;

/// Events with this number and above mark the end of each partition.
const MARKERS_FROM: u64 = 1_000_000_000;

/// So many markers are in each of the four partitions with certainty, as keys are hashed.
const MARKER_COUNT: u64 = 64;

/// How results are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivery {
    AtLeastOnce,
    ExactlyOnce,
    ExactlyOnceToPostgres,
}

/// The value of an environment variable.
fn variable<T: FromStr + Display>(name: &str, default: T) -> T {
    let text = std::env::var(format!("LOOKASIDE_KILL_{name}"));
    text.ok().map_or(default, |text| {
        (text.parse()).unwrap_or_else(|_| panic!("{name} is not a number"))
    })
}

/// Forwards connections to the broker until it is cut.
struct Link {
    address: String,
    is_cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Link {
    /// Where it listens, before the broker is started, which has to know.
    fn listen() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (listener, address)
    }

    fn start(listener: TcpListener, to: String) -> Self {
        let link = Self {
            address: listener.local_addr().unwrap().to_string(),
            is_cut: Arc::default(),
            open: Arc::default(),
        };
        let (is_cut, open) = (link.is_cut.clone(), link.open.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&to)) else {
                    continue;
                };
                let mut open = open.lock().unwrap();
                if is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                for (mut from, mut to) in [
                    (client.try_clone().unwrap(), server.try_clone().unwrap()),
                    (server.try_clone().unwrap(), client.try_clone().unwrap()),
                ] {
                    thread::spawn(move || {
                        // A connection that is cut ends both directions.
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                        let _ = from.shutdown(Shutdown::Both);
                    });
                }
                open.extend([client, server]);
            }
        });
        link
    }

    fn cut(&self) {
        let mut open = self.open.lock().unwrap();
        self.is_cut.store(true, Ordering::SeqCst);
        for stream in open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn heal(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

/// A process that is started again when it has ended, as by a supervisor.
struct Supervised {
    child: Child,
    arguments: Vec<String>,
    log: PathBuf,
    start_count: usize,
}

impl Supervised {
    fn start(project: &Project, name: &str, input: &str, output: &str) -> Self {
        let options = ["--model", "m", "--workers", "1", "--log-level", "info"];
        let urls = ["--input", input, "--output", output];
        let arguments = enrich(&[&options[..], &urls].concat());
        let log = project.file(&format!("{name}.log"));
        Self {
            child: spawn(project, &arguments, &log),
            arguments,
            log,
            start_count: 1,
        }
    }

    fn keep_alive(&mut self, project: &Project) {
        if self.child.try_wait().unwrap().is_some() {
            self.child = spawn(project, &self.arguments, &self.log);
            self.start_count += 1;
        }
    }

    fn signal(&self, signal: Signal) {
        // It may have ended.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The arguments of `enrich` in the folder of a project.
fn enrich(arguments: &[&str]) -> Vec<String> {
    let all = ["enrich", "."].iter().chain(arguments);
    all.map(ToString::to_string).collect()
}

/// The program, with its standard error appended to a file.
fn command(project: &Project, arguments: &[String], log: &Path) -> Command {
    let log = fs::File::options().create(true).append(true).open(log);
    let mut command = lookaside();
    command.args(arguments).current_dir(project.path());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(log.unwrap());
    command
}

fn spawn(project: &Project, arguments: &[String], log: &Path) -> Child {
    command(project, arguments, log).spawn().unwrap()
}

/// A process that writes events with numbers to a topic; it outlives all faults.
struct Producer(Child);

impl Producer {
    fn start(project: &Project, topic: &str) -> Self {
        let output = format!("{topic}?key=n");
        let arguments = [
            "-", "--format", "json", "--model", "copy", "--output", &output,
        ];
        let mut command = command(project, &enrich(&arguments), &project.file("producer.log"));
        Self(command.stdin(Stdio::piped()).spawn().unwrap())
    }

    /// Writes events over about as long as `time`.
    fn write(&mut self, numbers: Range<u64>, time: Duration) {
        const STEPS: u64 = 50;
        let input = self.0.stdin.as_mut().unwrap();
        let count = numbers.end - numbers.start;
        for step in 0..STEPS {
            let at = |step: u64| numbers.start + count * step / STEPS;
            let mut events = String::new();
            for n in at(step)..at(step + 1) {
                writeln!(events, "{{\"n\":{n}}}").unwrap();
            }
            input.write_all(events.as_bytes()).unwrap();
            // sleep: so that events are under way when something fails
            thread::sleep(time / STEPS as u32);
        }
    }

    /// Waits until everything is delivered.
    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success(), "the producer ends");
    }
}

fn produce(project: &Project, topic: &str, numbers: Range<u64>) {
    let mut producer = Producer::start(project, topic);
    producer.write(numbers, Duration::ZERO);
    producer.end();
}

/// What a run needs, and what can fail.
struct Setting {
    broker: KafkaBroker,
    link: Link,
    server: Server,
    project: Project,
    members: Vec<Supervised>,
    random: fastrand::Rng,
    faults: HashMap<&'static str, usize>,
}

impl Setting {
    /// Lets something fail for a while.
    fn fail(&mut self, is_first: bool) {
        let pause = Duration::from_millis(self.random.u64(0..1500));
        let member = self.random.usize(..self.members.len());
        let kind = match (is_first, self.random.u32(0..5)) {
            (true, _) | (_, 0) => "process killed",
            (_, 1) => "process stopped",
            (_, 2) => "broker killed",
            (_, 3) => "link cut",
            _ => "database killed",
        };
        *self.faults.entry(kind).or_default() += 1;
        match kind {
            "process killed" => {
                self.members[member].signal(Signal::KILL);
                pause_for(pause);
            }
            "process stopped" => {
                // Half of the times, the group takes it for dead meanwhile.
                let long = Duration::from_secs(if self.random.bool() { 8 } else { 0 });
                self.members[member].signal(Signal::STOP);
                pause_for(pause + long);
                self.members[member].signal(Signal::CONT);
            }
            "broker killed" => {
                self.broker.kill();
                pause_for(pause);
                self.broker.restart();
            }
            "link cut" => {
                self.link.cut();
                pause_for(pause);
                self.link.heal();
            }
            _ => {
                self.server.kill();
                pause_for(pause);
                self.server.start_again();
            }
        }
        for member in &mut self.members {
            member.keep_alive(&self.project);
        }
    }
}

fn pause_for(time: Duration) {
    // sleep: a fault lasts for a random time
    thread::sleep(time);
}

fn check(delivery: Delivery) {
    let events: u64 = variable("EVENTS", 10_000);
    let fault_count: usize = variable("FAULTS", 2);
    let seed: u64 = variable("SEED", fastrand::u64(..));
    eprintln!("LOOKASIDE_KILL_SEED={seed}");
    let (listener, link) = Link::listen();
    let advertised =
        format!("advertised.listeners=BROKER://{link},INTERNAL://127.0.0.1:{{internal}}");
    let properties = [
        &*advertised,
        "auto.create.topics.enable=true",
        "num.partitions=4",
    ];
    let (Some(broker), Some(server)) = (KafkaBroker::start(&properties), Server::start()) else {
        return;
    };
    let link = Link::start(listener, broker.address());
    let project = server.project("", "");
    project.write("models/copy.oml", "name : copy\n---\n* = take() ;\n");
    let model = "name : m\n---\nn = read(n) ; id : digit = calc(@n % 1000 + 1) ;\n\
                 name = select name from pg.hosts where id = read(id) ;\n";
    project.write("models/m.oml", model);
    server.execute("create table results (n bigint, id int, name text)");

    let address = link.address.clone();
    let topic = |name: &str| format!("kafka://{address}/{name}");
    let input = format!("{}?group=g&session.timeout.ms=6000", topic("in"));
    let (input, output) = match delivery {
        Delivery::AtLeastOnce => (format!("{input}&commit_interval_ms=100"), topic("out")),
        Delivery::ExactlyOnce => {
            let timeout = "delivery=exactly-once&transaction.timeout.ms=10000";
            (input, format!("{}?{timeout}", topic("out")))
        }
        Delivery::ExactlyOnceToPostgres => {
            (input, server.table("results", "delivery=exactly-once"))
        }
    };
    // The topics are created first.
    for name in ["in", "out"] {
        produce(&project, &topic(name), MARKERS_FROM - 1..MARKERS_FROM);
    }
    let members = ["first", "second"];
    let members = members.map(|name| Supervised::start(&project, name, &input, &output));
    let mut setting = Setting {
        broker,
        link,
        server,
        project,
        members: members.into(),
        random: fastrand::Rng::with_seed(seed),
        faults: HashMap::new(),
    };
    let begun = Instant::now();
    let slice = events / (fault_count as u64 + 1);
    let mut producer = Producer::start(&setting.project, &topic("in"));
    for number in 0..fault_count {
        let first = number as u64 * slice;
        thread::scope(|scope| {
            scope.spawn(|| producer.write(first..first + slice, Duration::from_secs(2)));
            pause_for(Duration::from_millis(setting.random.u64(100..1500)));
            setting.fail(number == 0);
        });
    }
    producer.write(fault_count as u64 * slice..events, Duration::ZERO);
    producer.end();
    let found = match delivery {
        Delivery::ExactlyOnceToPostgres => results_in_postgres(&mut setting, events),
        _ => results_in_kafka(&mut setting, events),
    };
    let repeated: usize = found.values().map(|(count, _)| count - 1).sum();
    let starts: usize = setting
        .members
        .iter()
        .map(|member| member.start_count)
        .sum();
    eprintln!(
        "{} of {events} events in {:.0?}, {repeated} repeated, {starts} starts of 2 processes, faults: {:?}",
        found.len(),
        begun.elapsed(),
        setting.faults
    );
    assert_eq!(found.len() as u64, events, "nothing is lost");
    for (n, (_, name)) in &found {
        assert_eq!(*name, format!("h{}", n % HOST_COUNT + 1), "event {n}");
    }
    if delivery != Delivery::AtLeastOnce {
        assert_eq!(repeated, 0, "nothing is written twice");
    }
}

/// How often each number was written to the topic of the output, and its name; the processes are
/// ended.
fn results_in_kafka(setting: &mut Setting, events: u64) -> HashMap<u64, (usize, String)> {
    let Setting {
        project, members, ..
    } = setting;
    let topic = format!("kafka://{}/out", setting.link.address);
    let input = format!("{topic}?group=reader&isolation.level=read_committed");
    let arguments = [
        "--model",
        "copy",
        "--input",
        &input,
        "--output",
        "found.json",
    ];
    let arguments = enrich(&arguments);
    let mut reader = spawn(project, &arguments, &project.file("reader.log"));
    let read = || {
        let mut found: HashMap<u64, (usize, String)> = HashMap::new();
        let text = fs::read_to_string(project.file("found.json")).unwrap_or_default();
        for line in text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
        {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            let name = event["name"].as_str().unwrap_or_default().to_owned();
            let n = event["n"].as_u64().unwrap();
            found.entry(n).or_insert((0, name)).0 += 1;
        }
        found
    };
    let real = |found: &HashMap<u64, _>| found.keys().filter(|n| **n < MARKERS_FROM - 1).count();
    wait_until("all events are in the output", || {
        members.iter_mut().for_each(|it| it.keep_alive(project));
        real(&read()) as u64 >= events
    });
    for member in &mut *members {
        member.signal(Signal::TERM);
        member.child.wait().unwrap();
    }
    // All that was written before is read when these are.
    let markers = MARKERS_FROM..MARKERS_FROM + MARKER_COUNT;
    produce(project, &topic, markers.clone());
    wait_until("the end of the output", || {
        let found = read();
        markers.clone().all(|marker| found.contains_key(&marker))
    });
    kill_process(Pid::from_child(&reader), Signal::TERM).unwrap();
    assert!(reader.wait().is_ok());
    let mut found = read();
    found.retain(|n, _| *n < MARKERS_FROM - 1);
    found
}

/// As [`results_in_kafka`], for the table.
fn results_in_postgres(setting: &mut Setting, events: u64) -> HashMap<u64, (usize, String)> {
    let Setting {
        project,
        members,
        server,
        ..
    } = setting;
    let sql = format!(
        "select count(distinct n) from results where n < {}",
        MARKERS_FROM - 1
    );
    wait_until("all events are in the table", || {
        members.iter_mut().for_each(|it| it.keep_alive(project));
        server.query(&sql)[0].parse::<u64>().unwrap() >= events
    });
    for member in &mut *members {
        member.signal(Signal::TERM);
        member.child.wait().unwrap();
    }
    let sql = format!(
        "select n || ' ' || count(*) || ' ' || coalesce(min(name), '') from results \
         where n < {} group by n",
        MARKERS_FROM - 1
    );
    let rows = server.query(&sql).into_iter();
    rows.map(|row| {
        let mut words = row.split(' ');
        let mut next = || words.next().unwrap();
        let (n, count) = (next().parse().unwrap(), next().parse().unwrap());
        (n, (count, next().to_owned()))
    })
    .collect()
}

#[test]
fn faults_lose_nothing_from_kafka_to_kafka() {
    check(Delivery::AtLeastOnce);
}

#[test]
fn faults_repeat_nothing_from_kafka_to_kafka_exactly_once() {
    check(Delivery::ExactlyOnce);
}

#[cfg(feature = "postgres")]
#[test]
fn faults_repeat_nothing_from_kafka_to_postgres_exactly_once() {
    check(Delivery::ExactlyOnceToPostgres);
}
