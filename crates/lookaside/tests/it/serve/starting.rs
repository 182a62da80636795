//! Messages for new users: before the program serves, and when it starts.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::running::configure;
use super::{Running, project, serve};
use crate::program::{lookaside, run};

/// Asserts that `check` and `serve` report the same errors.
#[track_caller]
fn both_refuse(more: &str, expected: &[&str]) {
    let project = project(more);
    for command in [&["check", "."][..], &["serve", "."]] {
        let said = project.run(command).ended(1).err_has(&["knowdb.toml:"]);
        said.err_has(expected);
    }
}

#[test]
fn check_refuses_what_serve_would() {
    both_refuse(
        "[server]\nthreads = 1\nlisten = '0.0.0.0:0'\n",
        &[
            "0.0.0.0:0 can be reached from other machines, and no keys are configured",
            "lookaside key new",
        ],
    );
    both_refuse(
        "[lookups.x]\nsql = 'select :rack as rack'\nparams.rack = 'int'\nexample.rack = 'seven'\n",
        &[
            "lookups.x.example.rack is \"seven\", but must be a whole number within 64 bits",
            "correct it",
        ],
    );
    both_refuse(
        "[server]\ntls = { cert = 'none.pem', key = 'none.pem' }\n",
        &["none.pem"],
    );
    for (line, expected) in [
        ("access_log = 'no/log'", "server.access_log: cannot write"),
        (
            "listen = 'unix:no/s'",
            "server.listen: cannot listen on unix:",
        ),
    ] {
        let folder = "/no does not exist";
        both_refuse(&format!("[server]\n{line}\n"), &[expected, folder]);
    }
    both_refuse(
        "[server]\nbody_size_max = '8 MiB'\n",
        &["must be a whole number of bytes, such as 8388608 for 8 MiB, not"],
    );
    for host in ["a b", "", "https://a.example", "a.example/x"] {
        let named = format!("server.hosts holds {host:?}, which is not a host name");
        both_refuse(&format!("[server]\nhosts = {host:?}\n"), &[&named]);
    }
    let said = project("").run(&["serve", ".", "--listen", "unix:/no/dir/x.sock"]);
    said.ended(1)
        .err_has(&["unix:/no/dir/x.sock: the folder /no/dir does not exist"]);
}

/// Like in a container or with `taskset`, the process has fewer cores than the machine.
#[test]
fn a_thread_serves_on_each_core_that_may_be_used() {
    let project = project("");
    let started = || {
        let mut command = lookaside();
        command.args(["serve", ".", "--listen", "127.0.0.1:0"]);
        command
            .current_dir(project.path())
            .env_remove("XDG_RUNTIME_DIR");
        Running::of(command)
    };
    let cores = sched_getaffinity(None).unwrap();
    assert_eq!(started().io_thread_count(), cores.count() as usize);
    // The program inherits the cores of the thread that starts it.
    let first = (0..CpuSet::MAX_CPU)
        .find(|core| cores.is_set(*core))
        .unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).unwrap();
    assert_eq!(started().io_thread_count(), 1);
    sched_setaffinity(None, &cores).unwrap();
}

#[test]
fn a_place_to_listen_is_shown_how_it_is_written() {
    for (value, found) in [
        ("8378", "not a whole number"),
        ("[8378]", "not a list that contains a whole number"),
        ("['8300', true]", "not a list that contains true or false"),
    ] {
        both_refuse(
            &format!("[server]\nlisten = {value}\n"),
            &[
                "server.listen must be",
                "\"127.0.0.1:8300\"",
                "\"8300\"",
                "\"unix:PATH\"",
                found,
            ],
        );
    }
}

#[test]
fn a_key_that_no_server_takes_is_not_made() {
    for (flags, reason) in [
        (&["--per-second", "0"][..], "1..=1000000000"),
        (&["--per-second", "1000000001"], "1..=1000000000"),
        (&["--name", ""], "1 to 64"),
        (&["--name", "a\u{7}b"], "control"),
    ] {
        let said = run([&["key", "new"], flags].concat()).ended(2);
        said.err_has(&[reason]);
    }
    // The output is valid TOML for any name.
    let name = "d\u{e4}sh \"board\" \u{200b}\\";
    let lines = run(["key", "new", "--name", name]).ended(0).out;
    let project = project(&lines);
    project.run(&["check", "."]).ended(0);
}

#[test]
fn the_first_request_that_is_shown_can_be_sent() {
    let lines = run(["key", "new"]).ended(0).out;
    let project = project(&lines);
    for listen in ["0.0.0.0:0", "127.0.0.1:0"] {
        let running = Running::start(&project, &["--listen", listen]);
        let port = running.address.rsplit_once(':').unwrap().1;
        let expected = format!(
            "try:  curl -H \"Authorization: Bearer $LOOKASIDE_KEY\" \
             'http://127.0.0.1:{port}/v1/lookup/dice'\n"
        );
        assert!(running.greeting.contains(&expected), "{}", running.greeting);
    }
    configure(&project, "");
    let running = serve(&project, &[]);
    assert!(
        running.greeting.contains("try:  curl 'http://127.0.0.1:"),
        "{}",
        running.greeting
    );
}

#[test]
fn a_socket_that_is_not_made_is_told() {
    let project = project("");
    // The default port is the same for all processes, so it may be in use; then the program says
    // so.
    let said = |runtime: Option<&str>| {
        let mut command = lookaside();
        command.args(["serve", "."]).current_dir(project.path());
        match runtime {
            Some(folder) => command.env("XDG_RUNTIME_DIR", folder),
            None => command.env_remove("XDG_RUNTIME_DIR"),
        };
        let mut child = command
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        while !text.contains("try:  ") && !text.contains("error: ") {
            let size = std::io::BufRead::read_line(&mut stderr, &mut text).unwrap();
            assert_ne!(size, 0, "{text}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        text
    };
    let text = said(None);
    if !text.contains("error: ") {
        assert!(
            text.contains("no socket: XDG_RUNTIME_DIR is not set; create one elsewhere with `--listen unix:PATH`"),
            "{text}"
        );
    }
    let text = said(Some(project.path().to_str().unwrap()));
    assert!(!text.contains("no socket"), "{text}");
    let running = serve(&project, &[]);
    assert!(
        !running.greeting.contains("no socket"),
        "{}",
        running.greeting
    );
}

/// Warnings about a lookup are logged at the start, and again only after it has changed.
#[test]
fn probable_mistakes_and_scans_are_logged_once() {
    let more = "[[tables]]\nname = 'geo'\n[lookups.cc]\n\
                sql = 'select cc from geo where :ip between lo and hi'\n";
    let project = project(more);
    let mut rows = "lo,hi,cc\n".to_owned();
    for row in 0..10_001 {
        let net = format!("10.{}.{}", row / 256, row % 256);
        rows.push_str(&format!("{net}.0,{net}.255,LAN\n"));
    }
    project.write("geo/data.csv", &rows);
    let mut server = serve(&project, &[]);
    // Both are logged before the server prints its addresses.
    for text in [
        "`lo` and `hi` hold addresses as text",
        "each lookup scans the whole table geo",
    ] {
        let greeting = &server.greeting;
        assert_eq!(greeting.matches(text).count(), 1, "{greeting}");
    }
    server.signal("HUP");
    let log = server.log_until("reloaded");
    assert!(!log.contains("geo"), "{log}");
    let (_, log) = server.end();
    assert!(!log.contains("geo"), "{log}");
}
