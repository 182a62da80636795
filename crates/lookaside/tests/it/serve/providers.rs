//! Lookups of a provider that is available, becomes unavailable, starts later, or never responds.

use std::fs;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lookaside_embedded::Postgres;
use lookaside_testing::{wait_for, wait_until};
use rustix::net::{self, AddressFamily, SocketType};

use super::running::socket;
use super::{Answer, Client, PATIENCE, Running, project, serve};
use crate::program::Project;
use crate::providers::has_postgres;

/// The layer that had an answer.
fn from(answer: &Answer) -> &str {
    answer.header("X-Cache").unwrap_or_default()
}

/// Repeats a request until the answer is as expected, since the lifetime of answers depends on the
/// clock.
pub(super) fn until(
    client: &mut Client,
    target: &str,
    known: Option<&str>,
    is_wanted: impl Fn(&Answer) -> bool,
) -> Answer {
    let begun = Instant::now();
    loop {
        let headers: Vec<_> = known
            .map(|tag| ("If-None-Match", tag))
            .into_iter()
            .collect();
        let answer = client.get_with(target, &headers);
        if is_wanted(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "the last one: {answer:?}");
        // sleep: polls until a deadline; a failure shows the last answer
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_provider_answers_and_its_old_answer_stands_in() {
    if !has_postgres() {
        return;
    }
    let postgres = Postgres::builder()
        .version("18".parse().unwrap())
        .fresh_cluster()
        .sql("create table host (name text primary key, rack int); insert into host values ('a', 1), ('b', 2)")
        .start()
        .unwrap();
    let project = Project::with(&[(
        "knowdb.toml",
        "version = 2\n[cache]\nttl_ms = 60000\n[[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\n\
         connection_uri = '${DATABASE_URL}'\nstale_if_error_ms = 600000\nquery_timeout_ms = 300000\n\
         acquire_timeout_ms = 300000\n[server]\nquery_rows_max = 5\n\
         [lookups.host]\nsql = 'select name, rack from pg.host where name = :name'\nprovider = 'pg'\n\
         params.name = 'text'\nttl_ms = 300\n\
         [lookups.rack]\nsql = 'select name from pg.host where rack = :rack'\nmany = true\n",
    )]);
    let mut command = Running::command(&project, &["--listen", "127.0.0.1:0"]);
    command.env("DATABASE_URL", postgres.url());
    let running = Running::of(command);
    let mut client = running.client();
    let target = "/v1/lookup/host?name=a";
    let asked = client.get(target).is(200);
    assert_eq!(asked.text(), r#"{"name":"a","rack":1}"#);
    assert!(from(&asked).starts_with("provider; age="), "{asked:?}");
    let kept = until(&mut client, target, None, |answer| {
        from(answer).starts_with("body; age=")
    });
    assert_eq!(kept.header("Age"), Some("0"));
    let tag = kept.header("ETag").unwrap().to_owned();
    client.get_with(target, &[("If-None-Match", &tag)]).is(304);
    client.get("/v1/lookup/host?name=x").is(404);
    let answer = client
        .post("/v1/lookup/host", r#"["b", "x", "a", "b"]"#)
        .is(200);
    assert_eq!(
        answer.text(),
        r#"[{"name":"b","rack":2},null,{"name":"a","rack":1},{"name":"b","rack":2}]"#
    );
    let answer = client.post("/v1/lookup/rack", "[2, 9]").is(200);
    assert_eq!(answer.text(), r#"[[{"name":"b"}],[]]"#);
    // SQLite would have renamed the second column.
    let sql = r#"{"sql":"select name, rack as name from pg.host"}"#;
    let doubled = client.post("/v1/query", sql).is(422).json();
    let detail = doubled["detail"].as_str().unwrap();
    assert!(detail.starts_with("it is \"name\"; "), "{detail}");
    let csv = [("Accept", "text/csv")];
    let rows = client.ask("POST", "/v1/query", &csv, sql.as_bytes());
    assert!(rows.is(200).text().starts_with("name,name\r\n"));

    // A changed row is seen when the answer has expired; the same body has the same validator.
    postgres
        .execute("update host set rack = 5 where name = 'b'")
        .unwrap();
    let fresh = until(&mut client, target, Some(&tag), |answer| {
        from(answer).starts_with("provider")
    });
    assert_eq!(fresh.status, 304);
    until(&mut client, "/v1/lookup/host?name=b", None, |answer| {
        answer.text() == r#"{"name":"b","rack":5}"#
    });

    drop(postgres);
    let gone = Instant::now();
    let old = until(&mut client, target, Some(&tag), |answer| {
        from(answer).starts_with("stale; age=")
    });
    assert_eq!((old.status, old.header("ETag")), (200, None));
    // Requests with a stale answer do not wait for a connection as long as the others.
    assert!(gone.elapsed() < PATIENCE, "{:?}", gone.elapsed());
    let stale = |client: &mut Client| -> u64 {
        let metrics = client.get("/metrics").is(200);
        let mark = "lookaside_http_answers_total{layer=\"stale\"} ";
        let count = metrics.text().split_once(mark).unwrap().1;
        count.lines().next().unwrap().parse().unwrap()
    };
    // Fresh answers are not counted as stale; this one is the younger.
    until(&mut client, "/v1/lookup/host?name=b", None, |answer| {
        from(answer).starts_with("stale; age=")
    });
    let before = stale(&mut client);
    let sets = r#"["a", "b", "never", "a"]"#;
    let batch = client.post("/v1/lookup/host", sets).is(200);
    assert_eq!(batch.header("X-Failed"), Some("1"));
    assert_eq!(stale(&mut client), before + 3);
    assert!(from(&batch).starts_with("stale; age="), "{batch:?}");
    assert!(batch.header("Age").is_some(), "{batch:?}");
    let unknown = client.get("/v1/lookup/host?name=never").is(503);
    assert_eq!(unknown.header("Retry-After"), Some("1"));
    assert!(!unknown.text().contains("select"), "{}", unknown.text());
    client.get("/readyz").is(200);
    let metrics = client.get("/metrics").is(200);
    let metrics = metrics.text();
    for gauge in [
        "connections{provider=\"pg\",state=\"idle\"} 0",
        "opened_total{provider=\"pg\"} ",
    ] {
        let gauge = format!("\nlookaside_pool_{gauge}");
        assert!(metrics.contains(&gauge), "{gauge} in\n{metrics}");
    }
    for series in [
        "query_seconds_count{kind=\"first\",outcome=\"success\"} ",
        "query_seconds_count{kind=\"first\",outcome=\"failure\"} ",
        "flight_seconds_count{provider=\"pg\"} ",
        "flight_queries_count{provider=\"pg\"} ",
    ] {
        let (_, count) = (metrics.split_once(&format!("\nlookaside_{series}")))
            .unwrap_or_else(|| panic!("{series} in\n{metrics}"));
        let count: u64 = count.lines().next().unwrap().parse().unwrap();
        assert!(count > 1, "{series}{count}");
    }
    let (_, log) = running.end();
    assert!(log.contains("stale answers are used"), "{log}");
}

#[test]
fn a_server_that_was_never_there_stops_nothing_else() {
    let project = project(
        "[[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\nacquire_timeout_ms = 60000\n\
         connection_uri = 'postgres://u:hunter2@127.0.0.1:1/d'\n\
         [lookups.away]\nsql = 'select a from pg.t where a = :a'\nparams.a = 'int'\n",
    );
    let running = serve(&project, &[]);
    let mut client = running.client();
    let lookups = client.get("/v1/lookups").is(200).json();
    let lookups = lookups["lookups"].as_array().unwrap();
    let away = lookups.iter().find(|it| it["name"] == "away").unwrap();
    assert_eq!(away["params"][0]["name"], "a");
    assert_eq!(away["params"][0]["type"], "int");
    assert_eq!(
        (&away["url"], &away["ready"]),
        (&"/v1/lookup/away?a={a}".into(), &false.into())
    );
    client.get("/v1/lookup/host?name=web-1").is(200);
    for told in [
        "WARN",
        "provider=\"pg\"",
        "lookups=\"away\"",
        "cannot connect",
    ] {
        assert!(running.greeting.contains(told), "{}", running.greeting);
    }
    let answer = client.get("/v1/lookup/away?a=1").is(503);
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.starts_with("provider pg does not answer; "),
        "{detail}"
    );
    let batch = client.post("/v1/lookup/away", "[1]").is(503);
    assert_eq!(batch.json()["detail"], detail);
    let ready = client.get("/readyz").is(200).json();
    assert_eq!(ready["lookups_not_ready"][0], "away");
    let (status, log) = running.end();
    assert!(status.success());
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn why_a_provider_does_not_answer_is_told_each_time() {
    if !has_postgres() {
        return;
    }
    let postgres = Postgres::builder()
        .version("18".parse().unwrap())
        .fresh_cluster()
        .sql("create table host (name text primary key); insert into host values ('a')")
        .start()
        .unwrap();
    let project = Project::with(&[(
        "knowdb.toml",
        "version = 2\n[[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\n\
         connection_uri = '${DATABASE_URL}'\nquery_timeout_ms = 10000\n[server]\nerror_detail = true\n\
         [lookups.host]\nsql = 'select name from pg.host where name = :name'\nparams.name = 'text'\n",
    )]);
    let mut command = Running::command(&project, &["--listen", "127.0.0.1:0"]);
    command.env("DATABASE_URL", postgres.url());
    let running = Running::of(command);
    let mut client = running.client();
    client.get("/v1/lookup/host?name=a").is(200);
    drop(postgres);
    // The server takes a moment to end, and the first error may be that of a closed connection.
    let begun = Instant::now();
    let mut key = 0;
    loop {
        let answer = client.get(&format!("/v1/lookup/host?name={key}"));
        if answer.status == 503 && answer.text().contains("cannot connect") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "the server never ended");
        key += 1;
    }
    for more in 1..4 {
        let key = key + more;
        let answer = client.get(&format!("/v1/lookup/host?name={key}")).is(503);
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("provider `pg` "), "{detail}");
        assert!(detail.contains("cannot connect"), "{key}: {detail}");
    }
    let (_, log) = running.end();
    // Each response reports it; the log entries are rate-limited.
    let told_count = log.matches("a lookup failed").count();
    assert!((1..4).contains(&told_count), "{log}");
}

#[test]
fn a_signal_ends_the_wait_for_a_server_that_is_away() {
    let project = project(
        "[[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\nacquire_timeout_ms = 600000\n\
         connection_uri = 'postgres://u:hunter2@127.0.0.1:1/d'\n\
         [lookups.away]\nsql = 'select a from pg.t where a = :a'\n",
    );
    let begun = Instant::now();
    let mut command = Running::command(&project, &["--listen", "127.0.0.1:0"]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id().to_string();
    wait_until("it listens to signals", || takes_sigterm(&pid));
    let killed = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(killed.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(begun.elapsed() < 2 * PATIENCE, "{log}");
    assert!(!log.contains("hunter2"), "{log}");
}

/// Whether a process has a handler for SIGTERM.
fn takes_sigterm(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    // A bit for each signal, from 1 on.
    caught & 1 << (15 - 1) != 0
}

/// A port that is ours, and on which no server listens yet.
pub(super) fn quiet_port() -> (OwnedFd, u16) {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = SocketAddr::try_from(net::getsockname(&socket).unwrap()).unwrap();
    (socket, address.port())
}

/// Forwards connections from a port to a server, until the test ends.
pub(super) fn forward(port: OwnedFd, target: String) {
    net::listen(&port, 128).unwrap();
    forward_from(TcpListener::from(port), target);
}

/// Forwards connections of a listener, including those already in its backlog.
fn forward_from(listener: TcpListener, target: String) {
    thread::spawn(move || {
        for there in listener.incoming() {
            let (mut there, mut back) = {
                let there = there.unwrap();
                (there.try_clone().unwrap(), there)
            };
            let here = std::net::TcpStream::connect(&target).unwrap();
            let (mut here, mut server) = (here.try_clone().unwrap(), here);
            // If one side ends, the other is shut down, too.
            thread::spawn(move || {
                let _ = std::io::copy(&mut there, &mut here);
                let _ = here.shutdown(Shutdown::Write);
            });
            thread::spawn(move || {
                let _ = std::io::copy(&mut server, &mut back);
                let _ = back.shutdown(Shutdown::Write);
            });
        }
    });
}

#[test]
fn a_server_that_comes_later_is_asked_then() {
    if !has_postgres() {
        return;
    }
    let postgres = Postgres::builder()
        .version("18".parse().unwrap())
        .tcp()
        .sql("create table t (a int); insert into t values (7)")
        .start()
        .unwrap();
    let url = postgres.tcp_url().unwrap();
    let (user, rest) = url.split_once('@').unwrap();
    let (server, database) = rest.split_once('/').unwrap();
    let (socket, port) = quiet_port();
    let project = project(&format!(
        "[[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\nacquire_timeout_ms = 60000\n\
         connection_uri = '{user}@127.0.0.1:{port}/{database}'\n\
         [lookups.away]\nsql = 'select a from pg.t where a = :a'\nparams.a = 'int'\n"
    ));
    let running = serve(&project, &[]);
    let mut client = running.client();
    client.get("/v1/lookup/away?a=7").is(503);
    forward(socket, server.to_owned());
    let answer = wait_for("the server answers", || {
        let answer = client.get("/v1/lookup/away?a=7");
        (answer.status == 200).then_some(answer)
    });
    assert_eq!(answer.text(), "{\"a\":7}");
    client.get("/v1/lookup/away?a=x").is(400);
    let (status, log) = running.end();
    assert!(status.success());
    assert!(log.contains("a provider answers"), "{log}");
}

#[test]
fn an_answer_that_took_longer_than_its_ttl_is_not_given_out_again() {
    if !has_postgres() {
        return;
    }
    let postgres = Postgres::builder()
        .version("18".parse().unwrap())
        .sql("create table t as select 7 as a")
        .start()
        .unwrap();
    let project = project(
        "[cache]\nttl_ms = 300\n\
         [[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\nconnection_uri = '${DATABASE_URL}'\n\
         [lookups.slow]\nsql = 'select a, pg_sleep(0.6) is null as slept from pg.t where a = :a'\n\
         params.a = 'int'\n\
         [lookups.own]\nsql = 'select pg_sleep(0.6) is null as slept, a from pg.t where a = :a'\n\
         params.a = 'int'\nttl_ms = 100\n",
    );
    let mut command = Running::command(&project, &["--listen", "127.0.0.1:0"]);
    command.env("DATABASE_URL", postgres.url());
    let running = Running::of(command);
    let mut client = running.client();
    for lookup in ["slow", "own"] {
        for _ in 0..3 {
            let answer = client.get(&format!("/v1/lookup/{lookup}?a=7")).is(200);
            let age = from(&answer).strip_prefix("provider; age=");
            let age = age.unwrap_or_else(|| panic!("{answer:?}"));
            // Minus one tick of the coarse clock on each side.
            assert!(age.parse::<f64>().unwrap() >= 0.58, "{answer:?}");
            assert_eq!(answer.header("Cache-Control"), Some("private, no-cache"));
        }
    }
}

#[test]
fn a_server_that_says_nothing_holds_up_no_start() {
    if !has_postgres() {
        return;
    }
    let postgres = Postgres::builder()
        .version("18".parse().unwrap())
        .tcp()
        .sql("create table t (a int); insert into t values (7)")
        .start()
        .unwrap();
    let url = postgres.tcp_url().unwrap();
    let (user, rest) = url.split_once('@').unwrap();
    let (server, database) = rest.split_once('/').unwrap();
    // Connections are accepted, but nothing is sent on them until the test allows it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Longer than the test waits.
    let project = Project::with(&[(
        "knowdb.toml",
        &format!(
            "version = 2\n[[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\n\
             acquire_timeout_ms = 600000\nquery_timeout_ms = 600000\n\
             connection_uri = '{user}@127.0.0.1:{port}/{database}'\n\
             [lookups.one]\nsql = 'select a from pg.t where a = :a'\nparams.a = 'int'\n\
             [lookups.all]\nsql = 'select a from pg.t'\nmany = true\n"
        ),
    )]);
    let model = "name : m\n---\na = select a from pg.t where a = read(a) ;\n";
    project.write("models/m.oml", model);
    let (path, listen) = socket(&project);
    let command = Running::command(&project, &["--listen", &listen]);
    let starting = thread::spawn(move || Running::of(command));
    wait_until("it listens", || {
        std::os::unix::net::UnixStream::connect(&path).is_ok()
    });
    let mut client = Client::unix(&path);
    client.get("/healthz").is(200);
    let ready = client.get("/readyz").is(503).json();
    assert_eq!(ready["status"], "waiting");
    assert_eq!(ready["lookups_not_ready"].as_array().unwrap().len(), 2);
    assert_eq!(client.get("/v1/status").is(200).json()["ready"], false);
    let refused = client.get("/v1/lookup/one?a=7").is(503);
    assert_eq!(refused.header("Retry-After"), Some("1"));
    let refused = client.post("/v1/enrich/m", "{\"a\":7}\n").is(503);
    assert_eq!(refused.header("Retry-After"), Some("1"));
    let running = starting.join().unwrap();
    assert!(
        running.greeting.contains("lookups=\"all, one\""),
        "{}",
        running.greeting
    );
    forward_from(listener, server.to_owned());
    until(&mut client, "/v1/lookup/one?a=7", None, |answer| {
        answer.text() == "{\"a\":7}"
    });
    assert_eq!(client.get("/readyz").is(200).json()["status"], "ready");
    client.get("/v1/lookup/all").is(200);
    let enriched = client.post("/v1/enrich/m", "{\"a\":7}\n").is(200);
    assert_eq!(enriched.text(), "{\"a\":7}\n");
    let (status, log) = running.end();
    assert!(status.success());
    assert!(log.contains("a provider answers"), "{log}");
}

#[test]
fn a_statement_that_a_provider_refuses_ends_the_start() {
    if !has_postgres() {
        return;
    }
    let postgres = Postgres::builder()
        .version("18".parse().unwrap())
        .start()
        .unwrap();
    let project = project(
        "[[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\nconnection_uri = '${DATABASE_URL}'\n\
         [lookups.wrong]\nsql = 'select b from pg.nothing'\n",
    );
    let mut command = Running::command(&project, &["--listen", "127.0.0.1:0"]);
    command.env("DATABASE_URL", postgres.url());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("lookups.wrong"), "{said}");
}

/// The timer of an earlier query expires between the two, and has to be set again.
#[test]
fn issue_14_a_query_on_a_silent_server_ends_in_time_on_an_idle_thread() {
    if !has_postgres() {
        return;
    }
    let postgres = Postgres::builder()
        .version("18".parse().unwrap())
        .sql("create table t as select 7 as a")
        .start()
        .unwrap();
    let project = project(
        "[cache]\nenabled = false\n\
         [[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\nconnection_uri = '${DATABASE_URL}'\n\
         query_timeout_ms = 2000\n\
         [lookups.slow]\nsql = 'select a from pg.t where pg_sleep(:seconds) is not null'\n\
         params.seconds = 'float'\n",
    );
    let mut command = Running::command(&project, &["--listen", "127.0.0.1:0"]);
    command.env("DATABASE_URL", postgres.url());
    let running = Running::of(command);
    // All requests of one connection are answered by one thread.
    let mut client = running.client();
    for _ in 0..60 {
        until(&mut client, "/v1/lookup/slow?seconds=0", None, |it| {
            it.status == 200
        });
        // sleep: the connection of the event loop is opened in the background meanwhile
        thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..2 {
        until(&mut client, "/v1/lookup/slow?seconds=1", None, |it| {
            it.status == 200
        });
        let answer = client.get("/v1/lookup/slow?seconds=600");
        assert!(matches!(answer.status, 503 | 504), "{answer:?}");
        until(&mut client, "/v1/lookup/slow?seconds=0", None, |it| {
            it.status == 200
        });
    }
}
