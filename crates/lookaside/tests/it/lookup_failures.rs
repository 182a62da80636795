//! `on_lookup_failure`: what happens to an event whose lookup fails.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use lookaside_embedded::Postgres;
use lookaside_testing::{WAIT_MAX, wait_until};
use tempfile::TempDir;

use crate::program::{Project, Said, lookaside};
use crate::providers::has_postgres;

/// A PostgreSQL that is stopped and started again in the same place, with a table of 1,000 hosts.
pub(crate) struct Server {
    folder: TempDir,
    postgres: Option<Postgres>,
}

impl Server {
    /// `None` if there is no PostgreSQL to test with.
    pub(crate) fn start() -> Option<Self> {
        let mut server = has_postgres().then(|| Self {
            folder: TempDir::new().unwrap(),
            postgres: None,
        })?;
        server.start_again();
        let hosts = "create table hosts (id int primary key, name text); \
             insert into hosts select i, 'h' || i from generate_series(1, 1000) as i";
        server.postgres.as_ref().unwrap().execute(hosts).unwrap();
        Some(server)
    }

    pub(crate) fn start_again(&mut self) {
        let builder = Postgres::builder().version("18".parse().unwrap());
        let folder: PathBuf = self.folder.path().join("pg");
        self.postgres = Some(builder.path(folder).start().unwrap());
    }

    pub(crate) fn stop(&mut self) {
        self.postgres.take().unwrap().close().unwrap();
    }

    /// Kills the server, as a crash would.
    #[cfg(feature = "kafka")]
    pub(crate) fn kill(&mut self) {
        lookaside_testing::kill_postgres(self.folder.path());
        drop(self.postgres.take());
    }

    #[cfg(feature = "kafka")]
    pub(crate) fn execute(&self, sql: &str) {
        self.postgres.as_ref().unwrap().execute(sql).unwrap();
    }

    /// The first column of a query.
    #[cfg(feature = "kafka")]
    pub(crate) fn query(&self, sql: &str) -> Vec<String> {
        use lookaside::client::postgres::blocking::Connection;

        let url = self.postgres.as_ref().unwrap().url();
        let mut connection = Connection::connect(&url).unwrap();
        let rows = connection.query(sql, &[]).unwrap().rows;
        rows.iter()
            .map(|row| row[0].to_text().to_string())
            .collect()
    }

    /// The URL of a table as a sink.
    #[cfg(feature = "kafka")]
    pub(crate) fn table(&self, table: &str, options: &str) -> String {
        let db = self.postgres.as_ref().unwrap();
        let folder = db.socket_folder().to_str().unwrap().replace('/', "%2F");
        format!(
            "postgres://{}@{folder}:{}/{}?table={table}&{options}",
            db.user(),
            db.port(),
            db.database()
        )
    }

    /// A project with a model `m`, which looks up the name of a host.
    pub(crate) fn project(&self, enrich: &str, header: &str) -> Project {
        let config = format!(
            "version = 2\n[enrich]\nmodel = 'm'\nformat = 'json'\n{enrich}\n\
             [[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\nacquire_timeout_ms = 60000\n\
             connection_uri = '{}'\n",
            self.postgres.as_ref().unwrap().url()
        );
        let model = format!(
            "name : m\n{header}\n---\nid = read(id) ;\n\
             name = select name from pg.hosts where id = read(id) ;\n"
        );
        Project::with(&[("knowdb.toml", &config), ("models/m.oml", &model)])
    }
}

/// A run of `enrich` on standard input; it is killed if a test fails.
struct Run {
    child: Child,
    /// `None` once it has ended.
    input: Option<ChildStdin>,
    events: mpsc::Receiver<String>,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Run {
    fn start(project: &Project, flags: &[&str]) -> Self {
        let mut child = lookaside()
            .args(["enrich", ".", "-", "--workers", "2"])
            .args(flags)
            .current_dir(project.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let (sender, events) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
        thread::spawn(move || {
            // A test that has failed receives no more.
            (stdout.lines()).try_for_each(|line| sender.send(line.unwrap()))
        });
        let log = Arc::<Mutex<String>>::default();
        let mut stderr = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let reader = thread::spawn({
            let log = log.clone();
            move || {
                let mut line = String::new();
                while stderr.read_line(&mut line).unwrap() > 0 {
                    log.lock().unwrap().push_str(&line);
                    line.clear();
                }
            }
        });
        Self {
            input: child.stdin.take(),
            events,
            child,
            log,
            reader: Some(reader),
        }
    }

    fn send(&mut self, lines: &str) {
        let input = self.input.as_mut().expect("it has not ended");
        input.write_all(lines.as_bytes()).unwrap();
    }

    fn next(&mut self) -> String {
        let event = self.events.recv_timeout(WAIT_MAX);
        event.expect("the run goes on")
    }

    /// Sends a host and gets its name.
    fn ask(&mut self, id: i32) {
        self.send(&event(id));
        assert_eq!(self.next(), enriched(id));
    }

    fn has_logged(&self, text: &str) -> bool {
        self.log.lock().unwrap().contains(text)
    }

    fn wait_for_log(&self, text: &str) {
        wait_until(text, || self.has_logged(text));
    }

    fn terminate(&self) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(status.expect("there is a kill").success());
    }

    /// Ends the input and waits for the end of the run; without the events that were read.
    fn end(mut self) -> Said {
        drop(self.input.take());
        wait_until("the run ends", || self.child.try_wait().unwrap().is_some());
        let reader = self.reader.take().expect("it ends once");
        reader.join().unwrap();
        let err = self.log.lock().unwrap().clone();
        assert!(!err.contains("panicked at"), "{err}");
        let code = self.child.wait().unwrap().code();
        Said {
            code: code.expect("it ends by itself"),
            out: self.events.iter().map(|line| line + "\n").collect(),
            err,
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // It may have ended already; a failed test must not leave it running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn event(id: i32) -> String {
    format!("{{\"id\":{id}}}\n")
}

fn enriched(id: i32) -> String {
    format!("{{\"id\":{id},\"name\":\"h{id}\"}}")
}

/// The entries of the log at the beginning of an outage and at its end.
pub(crate) const BEGINS: &str = "lookups wait until the database is available";
const ENDS: &str = "the database is available, lookups go on";

#[test]
fn a_server_that_is_stopped_for_a_while_costs_no_event_its_lookup() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let project = server.project("on_lookup_failure = 'wait'", "");
    let flags = ["--strict", "--metrics", "0", "--log", "json"];
    let mut run = Run::start(&project, &[&flags[..], &["--log-level", "info"]].concat());
    run.wait_for_log("serves metrics");
    let metrics = {
        let log = run.log.lock().unwrap();
        let line = log.lines().find(|line| line.contains("serves metrics"));
        let entry: serde_json::Value = serde_json::from_str(line.unwrap()).unwrap();
        entry["fields"]["address"].as_str().unwrap().to_owned()
    };
    run.ask(1);
    let ready = get(&metrics, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 200 "), "{ready}");
    server.stop();
    let events: String = (2..=500).map(event).collect();
    run.send(&events);
    run.wait_for_log(BEGINS);
    wait_until("a worker waits", || {
        let answer = get(&metrics, "/metrics");
        let waiting = answer.lines().filter_map(|line| line.split_once(' '));
        let mut waiting = waiting.filter(|(name, _)| *name == "lookaside_lookup_waiting_workers");
        waiting.any(|(_, count)| count != "0") && answer.contains("lookaside_lookup_waits_total 1")
    });
    let ready = get(&metrics, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
    assert!(ready.contains("until a database is available\n"), "{ready}");
    assert!(get(&metrics, "/healthz").starts_with("HTTP/1.1 200 "));
    // A further event does not begin another outage.
    run.send(&event(501));
    server.start_again();
    for id in 2..=501 {
        assert_eq!(run.next(), enriched(id));
    }
    run.wait_for_log(ENDS);
    let said = run.end().ended(0).err_has(&[
        "501 events in ",
        "  waited for unavailable databases: 1 time, ",
        "  rejects: 0\n  failed lookups: 0\n",
    ]);
    assert_eq!(said.err.matches(BEGINS).count(), 1, "{}", said.err);
    assert_eq!(said.err.matches(ENDS).count(), 1, "{}", said.err);
    let line = said.err.lines().find(|line| line.contains(BEGINS)).unwrap();
    let entry: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(entry["level"], "WARN");
    let reason = entry["fields"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("provider `pg` ("), "{reason}");
}

/// The response of the run's metrics server.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes(),
        )
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_signal_ends_the_wait_without_incomplete_events() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let project = server.project("drain_timeout_ms = 4000\nreject = 'bad.log'", "");
    let mut run = Run::start(&project, &["--on-lookup-failure", "wait"]);
    run.ask(1);
    server.stop();
    run.send(&(2..=500).map(event).collect::<String>());
    run.wait_for_log(BEGINS);
    run.terminate();
    // If it did not end in time, it is aborted: with the same code, but without a summary.
    let said = run.end().ended(143).err_has(&[
        "; stopped before the end of the input\n",
        "lookups that waited are cancelled",
        "  waited for unavailable databases: 1 time, ",
        "  rejects: 0\n  failed lookups: 0\n",
    ]);
    assert_eq!(said.out, "");
    assert_eq!(project.read("bad.log"), "");
}

#[test]
fn rejected_events_leave_their_lines() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let enrich = "on_lookup_failure = 'wait'\nreject = 'bad.log'";
    // The flag counts before the file.
    let project = server.project(enrich, "");
    let mut run = Run::start(&project, &["--on-lookup-failure", "reject"]);
    run.ask(1);
    server.stop();
    // The lookup of an event without its parameter is not executed, so it does not fail.
    let lines = "{ \"id\": 2 }\nbroken\n{\"id\":null}\n{\"id\":3}\r\n";
    run.send(lines);
    let said = run.end().ended(0).err_has(&[
        "5 events in ",
        "  rejects: 3\n",
        "    standard input:2: ./models/m.oml:5:1: provider `pg` (",
        "  failed lookups: 0\n",
    ]);
    assert_eq!(said.out, "{\"id\":null}\n");
    assert!(!said.err.contains(BEGINS), "{}", said.err);
    // Those of a block that cannot be parsed come first.
    let bad = project.read("bad.log");
    let rejected = ["broken", "{ \"id\": 2 }", "{\"id\":3}"];
    assert_eq!(bad.lines().collect::<Vec<_>>(), rejected);

    server.start_again();
    let mut run = Run::start(&project, &["--on-lookup-failure", "reject", "--strict"]);
    run.ask(1);
    server.stop();
    run.send(&event(2));
    run.end()
        .ended(1)
        .err_has(&["error: `standard input`, line 2: ./models/m.oml:5:1: "]);
}

#[test]
fn emitted_events_lack_what_was_not_found() {
    let Some(mut server) = Server::start() else {
        return;
    };
    for (enrich, header, flags) in [
        ("", "", &[][..]),
        // The header counts before the flag.
        (
            "on_lookup_failure = 'wait'",
            "on_lookup_failure : emit",
            &["--on-lookup-failure", "reject"],
        ),
    ] {
        let project = server.project(enrich, header);
        let mut run = Run::start(&project, flags);
        run.ask(1);
        server.stop();
        run.send(&[event(2), event(3)].concat());
        let said = run.end().ended(0).err_has(&[
            "3 events in ",
            "  rejects: 0\n  failed lookups: 2\n    standard input:2: ./models/m.oml:5:1: provider `pg` (",
        ]);
        assert_eq!(said.out, "{\"id\":2}\n{\"id\":3}\n");
        server.start_again();
    }
}

#[test]
fn an_event_whose_lookup_is_refused_does_not_block_a_run_that_waits() {
    let Some(server) = Server::start() else {
        return;
    };
    let project = server.project("reject = 'bad.log'", "on_lookup_failure : wait");
    let mut run = Run::start(&project, &[]);
    run.send(&[&event(1), "{\"id\":\"x\"}\n", &event(2)].concat());
    assert_eq!(run.next(), enriched(1));
    assert_eq!(run.next(), enriched(2));
    let said = run.end().ended(0).err_has(&[
        "  rejects: 1\n    standard input:2: ./models/m.oml:5:1: statement `select name from pg.hosts where id = ",
        "provider `pg` refused it",
        "  failed lookups: 0\n",
    ]);
    assert!(!said.err.contains(BEGINS), "{}", said.err);
    assert_eq!(project.read("bad.log"), "{\"id\":\"x\"}\n");
}

/// A project without a server, whose lookup exceeds its time limit for every host but `web-1`.
fn slow(enrich: &str) -> Project {
    Project::with_endless_view(&format!(
        "version = 2\n[local]\nquery_timeout_ms = 50\n[[tables]]\nname = 'hosts'\n\
         [enrich]\nformat = 'json'\nmodel = 'events'\n{enrich}\n"
    ))
}

#[test]
fn a_lookup_that_exceeds_a_limit_does_not_block_a_run_that_waits() {
    let project = slow("on_lookup_failure = 'wait'");
    let mut run = Run::start(&project, &[]);
    run.send("{\"host\":\"x\"}\n{\"host\":\"web-1\"}\n");
    let said = run.end().ended(0).err_has(&["query_timeout_ms of [local]"]);
    assert_eq!(said.out, "{\"host\":\"web-1\",\"rack\":7}\n");
}

#[test]
fn a_comment_concerns_one_lookup() {
    let project = slow("on_lookup_failure = 'emit'");
    let select = "select rack from anyone where name = read(host)";
    let model = format!(
        "name : events\n---\nhost : chars = take(host) ;\na = {select} ;\n\
         b = {select} /* on_lookup_failure: reject */ and rack is not null ;\n"
    );
    project.write("models/events.oml", &model);
    let said = project.run(&["check", "."]).ended(0);
    let policies = said.out.matches("    on_lookup_failure: reject\n").count();
    assert_eq!(policies, 1, "{}", said.out);
    let mut run = Run::start(&project, &["--reject", "bad.log"]);
    run.send("{\"host\":\"x\"}\n{\"host\":\"web-1\"}\n");
    let said = run.end().ended(0).err_has(&[
        "  rejects: 1\n    standard input:1: ./models/events.oml:5:1: ",
        "  failed lookups: 1\n    standard input:1: ./models/events.oml:4:1: ",
    ]);
    assert_eq!(said.out, "{\"host\":\"web-1\",\"a\":7,\"b\":7}\n");
    assert_eq!(
        fs::read_to_string(project.file("bad.log")).unwrap(),
        "{\"host\":\"x\"}\n"
    );
}

#[test]
fn an_unknown_policy_is_refused_with_its_place() {
    let project = slow("on_lookup_failure = 'drop'");
    project.run(&["enrich", ".", "-"]).ended(1).err_has(&[
        "./knowdb.toml:9: enrich.on_lookup_failure is \"drop\", but must be \"wait\", \"reject\" or \
         \"emit\"",
    ]);
    let project = slow("");
    project
        .run(&["enrich", ".", "-", "--on-lookup-failure", "drop"])
        .ended(2)
        .err_has(&[
            "invalid value 'drop' for '--on-lookup-failure <POLICY>'",
            "[possible values: wait, reject, emit]",
        ]);
}
