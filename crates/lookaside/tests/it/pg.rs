//! `lookaside pg` with a real server. Every test has its own cache and temporary folder, except for
//! files that all tests only read.

use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lookaside_testing::wait_until;

use crate::program::{Project, Said, lookaside};

/// The program's `pg`, without the developer's environment variables for other servers.
pub(crate) fn pg() -> Command {
    let mut command = lookaside();
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PG") || name == "DATABASE_URL" {
            command.env_remove(name);
        }
    }
    command.arg("pg");
    command
}

pub(crate) fn said(arguments: &[&str], folder: &Path) -> Said {
    let mut command = pg();
    command.args(arguments).current_dir(folder);
    command.output().expect("the program starts").into()
}

/// A folder whose server is stopped when the test ends, also if it fails.
pub(crate) struct Data {
    pub(crate) project: Project,
}

impl Data {
    pub(crate) fn new() -> Self {
        Self {
            project: Project::empty(),
        }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        said(arguments, self.project.path())
    }

    /// Queries the server of a folder with the built-in prompt.
    fn ask(&self, folder: &str, sql: &str) -> String {
        let arguments = ["shell", folder, "--format", "csv", "-c", sql];
        self.run(&arguments).ended(0).out
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.project.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry.path().is_dir() {
                let mut command = pg();
                command.arg("stop").arg(entry.path());
                let _ = command.output();
            }
        }
    }
}

/// Whether a process exists and is not a zombie.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}

#[test]
fn run_gives_a_command_a_server_and_takes_it_away() {
    let folder = Project::with(&[
        (
            "seed.sql",
            "create table seeded (n integer); insert into seeded values (41);",
        ),
        ("migrations/1_a.sql", "create table migrated (n integer);"),
        (
            "migrations/2_b.sql",
            "insert into migrated select n + 1 from seeded;",
        ),
    ]);
    let script = r#"
        set -e
        echo "url $DATABASE_URL"
        echo "foreign ${PGSERVICE-no} ${PGHOSTADDR-no} ${PGSSLNEGOTIATION-no}"
        echo "parts postgresql://$PGUSER:$PGPASSWORD@$PGHOST:$PGPORT/$PGDATABASE?sslmode=$PGSSLMODE"
        echo "jdbc $JDBC_DATABASE_URL"
        echo "jdbc $("$LOOKASIDE" pg url --format jdbc)"
        "$LOOKASIDE" pg shell --url "$DATABASE_URL" --format csv \
            -c "select n from migrated" -c "show work_mem" \
            -c "select extname from pg_extension where extname = 'pg_trgm'" \
            -c "show data_directory"
    "#;
    let arguments = [
        "run",
        "--sql",
        "seed.sql",
        "--migrations",
        "migrations",
        "--extension",
        "pg_trgm",
        "--set",
        "work_mem=7MB",
        "--",
        "sh",
        "-c",
        script,
    ];
    let mut command = pg();
    command
        .args(arguments)
        .env("LOOKASIDE", env!("CARGO_BIN_EXE_lookaside"))
        .env("PGSERVICE", "elsewhere")
        .env("PGHOSTADDR", "192.0.2.1")
        .env("PGSSLMODE", "require")
        .env("PGSSLNEGOTIATION", "direct")
        .current_dir(folder.path());
    let said = Said::from(command.output().unwrap()).ended(0);
    let lines: Vec<_> = said.out.lines().collect();
    let [
        url,
        "foreign no no no",
        parts,
        jdbc,
        jdbc_again,
        "n",
        "42",
        "work_mem",
        "7MB",
        "extname",
        "pg_trgm",
        "data_directory",
        data,
    ] = lines[..]
    else {
        panic!("{}", said.out);
    };
    let url = url.strip_prefix("url ").unwrap();
    assert!(url.starts_with("postgresql://postgres:"), "{url}");
    assert!(
        url.contains("@127.0.0.1:") && url.ends_with("?sslmode=disable"),
        "{url}"
    );
    assert_eq!(parts.strip_prefix("parts "), Some(url));
    let (front, database) = url.split_once('@').unwrap();
    let password = front.rsplit_once(':').unwrap().1;
    let address = database.strip_suffix("?sslmode=disable").unwrap();
    let expected = format!(
        "jdbc jdbc:postgresql://{address}?user=postgres&password={password}&sslmode=disable"
    );
    assert_eq!([jdbc, jdbc_again], [&expected, &expected]);
    wait_until("the data is gone", || !Path::new(data).exists());
}

/// A migrator of any language: it runs once for the contents of its files.
#[test]
fn run_ends_as_its_command_did() {
    let folder = Project::empty();
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        said(&["run", "--", "sh", "-c", script], folder.path()).ended(code);
    }
    // It also works without `--`, and flags after the command belong to the command.
    said(&["run", "sh", "-c", "exit 3"], folder.path()).ended(3);
}

#[test]
fn run_tells_its_own_failures_from_those_of_the_command() {
    let folder = Project::with(&[
        ("bad.sql", "create table t (n integer);\nselect nope;\n"),
        ("no-program", "not executable"),
    ]);
    said(&["run", "--", "./no-such-program"], folder.path())
        .ended(127)
        .err_has(&["cannot run `./no-such-program`"]);
    said(&["run", "--", "./no-program"], folder.path())
        .ended(126)
        .err_has(&["cannot run `./no-program`"]);
    let said_of = |arguments: &[&str]| {
        let arguments = [&["run"], arguments, &["--", "echo", "ran"]].concat();
        let said = said(&arguments, folder.path()).ended(125);
        assert_eq!(said.out, "");
        said
    };
    said_of(&["--sql", "bad.sql"]).err_has(&["the server refused `bad.sql`, line 2: ", "nope"]);
    said_of(&["--sql", "create table t (n integer)"]).err_has(&[
        "cannot read `create table t (n integer)`",
        "help: --sql takes the name of a file",
    ]);
    said_of(&["--extension", "no_such_extension"]).err_has(&["no_such_extension"]);
    let missing = said_of(&["--pg-version", "99"]).err_has(&["99", "only 15 to 18"]);
    assert!(!missing.err.contains("allow"), "{}", missing.err);
    said(&["run", "--set", "work_mem", "--", "true"], folder.path()).ended(2);
    said(&["run", "--pg-version", "x", "--", "true"], folder.path()).ended(2);
    said(&["run"], folder.path()).ended(2);
    // `--version` is not the version of PostgreSQL.
    said(&["run", "--version", "17", "--", "true"], folder.path())
        .ended(2)
        .err_has(&["'--version'", "'--pg-version'"]);
    said(&["run", "-V", "--", "true"], folder.path()).ended(2);
}

/// A command of `pg run` that is running: its first line of output, and the reader of the rest.
fn begin(script: &str, folder: &Path) -> (Child, String, impl BufRead + use<>) {
    let mut child = pg()
        .args(["run", "--", "sh", "-c", script])
        .env("LOOKASIDE", env!("CARGO_BIN_EXE_lookaside"))
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    (child, line.trim_end().to_owned(), out)
}

pub(crate) fn send(signal: &str, pid: &str) {
    let command = format!("kill -{signal} {pid}");
    let status = Command::new("sh").args(["-c", &command]).status().unwrap();
    assert!(status.success(), "{command}");
}

const DATA_FOLDER: &str = r#""$LOOKASIDE" pg shell --url "$DATABASE_URL" --format csv -c "copy (select current_setting('data_directory')) to stdout""#;

#[test]
fn signals_reach_the_command_of_run_and_the_server_goes() {
    let folder = Project::empty();
    for (signal, code) in [("TERM", 4), ("INT", 5), ("HUP", 6)] {
        let script = format!(
            "trap 'echo got TERM; exit 4' TERM; trap 'echo got INT; exit 5' INT
             trap 'echo got HUP; exit 6' HUP
             {DATA_FOLDER}
             for i in $(seq 4000); do sleep 0.05; done"
        );
        let (mut child, data, mut out) = begin(&script, folder.path());
        assert!(Path::new(&data).is_dir(), "{data}");
        send(signal, &child.id().to_string());
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, format!("got {signal}\n"));
        assert_eq!(child.wait().unwrap().code(), Some(code));
        wait_until("the data is gone", || !Path::new(&data).exists());
    }
}

#[test]
fn a_killed_run_leaves_no_server() {
    let folder = Project::empty();
    let script = format!("{DATA_FOLDER}; echo $$; exec sleep 600");
    let (mut child, data, mut out) = begin(&script, folder.path());
    let pid_file = Path::new(&data).join("postmaster.pid");
    let text = fs::read_to_string(&pid_file).unwrap();
    let server = text.lines().next().unwrap().to_owned();
    let mut command = String::new();
    out.read_line(&mut command).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the data is gone", || !Path::new(&data).exists());
    // In its own pid namespace the server has another number.
    assert!(
        !is_alive(&server)
            || !fs::read_to_string(format!("/proc/{server}/comm"))
                .unwrap_or_default()
                .contains("postgres"),
        "the server {server} is alive"
    );
    send("KILL", command.trim_end());
}

#[test]
fn a_folder_is_served_until_it_is_stopped() {
    let data = Data::new();
    data.project.write("other/file", "of somebody else");
    for (folder, absence) in [
        ("data", "there is no folder `data`"),
        ("other", "`other` contains no data of an embedded server"),
    ] {
        data.run(&["status", folder]).ended(1).out_has(&[absence]);
        data.run(&["url", folder])
            .ended(1)
            .err_has(&[absence, "help: `lookaside pg start "]);
        data.run(&["stop", folder])
            .ended(1)
            .err_has(&[absence, "help: `lookaside pg list`"]);
    }
    let url = data.run(&["start", "data"]).ended(0).out;
    assert!(
        url.starts_with("postgresql:///") && url.contains("host="),
        "{url}"
    );
    assert_eq!(url.lines().count(), 1);
    // A second start and other commands find the same server.
    assert_eq!(data.run(&["start", "data"]).ended(0).out, url);
    assert_eq!(data.run(&["url", "data"]).ended(0).out, url);
    data.run(&["status", "data"])
        .ended(0)
        .out_has(&["running, PostgreSQL ", ", pid ", &url]);
    let folder = data.project.file("data");
    let shown = folder.canonicalize().unwrap().display().to_string();
    data.run(&["list"]).ended(0).out_has(&[&shown, "running"]);

    data.ask(
        "data",
        "create table kept (n integer); insert into kept values (7)",
    );
    data.run(&["stop", "data"]).ended(0);
    data.run(&["stop", "data"])
        .ended(0)
        .err_has(&["no server of data was running"]);
    data.run(&["status", "data"])
        .ended(1)
        .out_has(&["stopped, PostgreSQL "]);
    data.run(&["list"]).ended(0).out_has(&[&shown, "stopped"]);
    let listed = |said: Said| -> Vec<serde_json::Value> {
        let lines = said.out.lines().map(serde_json::from_str);
        let entries: Result<Vec<serde_json::Value>, _> = lines.collect();
        let entries = entries.expect("each line is JSON").into_iter();
        entries.filter(|entry| entry["folder"] == shown).collect()
    };
    let entries = listed(data.run(&["list", "--json"]).ended(0));
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["state"], "stopped");
    data.run(&["forget", "data"]).ended(0);
    assert_eq!(listed(data.run(&["list", "--json"]).ended(0)).len(), 0);
    data.run(&["forget", "data"])
        .ended(1)
        .err_has(&["the list has no folder `data`"]);
    data.run(&["url", "data"]).ended(1).err_has(&["stopped"]);

    // A shell runs the server of a stopped folder for its own duration.
    assert_eq!(data.ask("data", "select n from kept"), "n\n7\n");
    data.run(&["status", "data"]).ended(1).out_has(&["stopped"]);

    // It does not listen on TCP unless requested.
    data.run(&["start", "data"]).ended(0);
    let entries = listed(data.run(&["list", "--json"]).ended(0));
    assert_eq!(entries[0]["state"], "running");
    assert!(
        entries[0]["pid"].is_u64() && entries[0]["url"].is_string(),
        "{entries:?}"
    );
    data.run(&["forget", "data"])
        .ended(1)
        .err_has(&["stop it first"]);
    data.run(&["url", "data", "--tcp"])
        .ended(1)
        .err_has(&["does not listen on TCP", "--tcp"]);
    data.run(&["url", "data", "--format", "jdbc"])
        .ended(1)
        .err_has(&[
            "JDBC requires TCP, and the server of data is running, but does not listen on TCP",
            "help: `lookaside pg stop data`, then `lookaside pg start data --tcp`",
        ]);
    data.run(&["stop", "data"]).ended(0);
    let url = data.run(&["start", "data", "--tcp"]).ended(0).out;
    assert!(url.contains("@127.0.0.1:"), "{url}");
    assert_eq!(data.run(&["url", "data", "--tcp"]).ended(0).out, url);
    let jdbc = data.run(&["url", "data", "--format", "jdbc"]).ended(0).out;
    assert!(jdbc.starts_with("jdbc:postgresql://127.0.0.1:"), "{jdbc}");
    let arguments = [
        "shell",
        "--url",
        url.trim_end(),
        "--format",
        "csv",
        "-c",
        "select n from kept",
    ];
    assert_eq!(data.run(&arguments).ended(0).out, "n\n7\n");
}

#[test]
fn every_form_of_a_url_leads_to_the_server() {
    let data = Data::new();
    data.run(&["start", "data", "--tcp"]).ended(0);
    let folder = data.ask("data", "show data_directory");
    let ask = |url: &str| {
        let arguments = ["shell", "--url", url, "--format", "csv", "-c"];
        data.run(&[&arguments[..], &["show data_directory"]].concat())
            .ended(0)
            .out
    };
    for arguments in [&["url", "data"][..], &["url", "data", "--tcp"]] {
        assert_eq!(ask(data.run(arguments).ended(0).out.trim_end()), folder);
        let json = data.run(&[arguments, &["--format", "json"]].concat());
        let json: serde_json::Value = serde_json::from_str(&json.ended(0).out).unwrap();
        assert_eq!(ask(json["url"].as_str().unwrap()), folder);
        // The scheme names the driver, and `sslmode` is called `ssl`.
        let other = json["sqlalchemy_asyncpg_url"].as_str().unwrap();
        let other = other.replace("+asyncpg", "").replace("?ssl=", "?sslmode=");
        assert_eq!(ask(&other), folder);
        let part = |name: &str| json[name].as_str().unwrap_or_default();
        let [database, host, user, password] = ["database", "host", "user", "password"].map(part);
        let (port, jdbc) = (&json["port"], json["jdbc_url"].as_str());
        let parts = format!("{database}?host={host}&port={port}&user={user}&password={password}");
        assert_eq!(ask(&format!("postgresql:///{parts}")), folder);
        // Java has no support for Unix sockets, so its URL always uses TCP.
        assert_eq!(ask(jdbc.unwrap().strip_prefix("jdbc:").unwrap()), folder);
    }
    // As read by a shell, and by psql if it is installed.
    let has_psql = Command::new("psql").arg("--version").output().is_ok();
    if !has_psql {
        let _ = writeln!(std::io::stderr(), "SKIP no psql to try the variables with");
        return;
    }
    for tcp in [&[][..], &["--tcp"]] {
        let lines = data
            .run(&[&["url", "data", "--format", "env"], tcp].concat())
            .ended(0)
            .out;
        let script = format!(
            "set -a; {lines} psql -XAtc 'show data_directory'; psql -XAt \"$DATABASE_URL\" -c 'show data_directory'"
        );
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let out = Said::from(output).ended(0).out;
        let shown = folder.strip_prefix("data_directory\n").unwrap();
        assert_eq!(out, shown.repeat(2));
    }
}

#[test]
fn a_url_without_a_folder_is_that_of_database_url() {
    let folder = Project::empty();
    let url = |database_url: &str, arguments: &[&str]| {
        let mut command = pg();
        command.arg("url").args(arguments);
        command.env("DATABASE_URL", database_url);
        Said::from(command.current_dir(folder.path()).output().unwrap())
    };
    let ours = "postgresql://postgres:0af1@127.0.0.1:40000/t_1?sslmode=disable";
    assert_eq!(url(ours, &[]).ended(0).out, format!("{ours}\n"));
    let said = url(ours, &["--format", "sqlalchemy-asyncpg"]).ended(0);
    assert_eq!(
        said.out,
        "postgresql+asyncpg://postgres:0af1@127.0.0.1:40000/t_1?ssl=disable\n"
    );
    url("", &[])
        .ended(2)
        .err_has(&["DATABASE_URL is not set", "pg run"]);
    let socket = "postgresql:///t_1?host=/dev/shm/s&user=postgres";
    url(socket, &["--tcp"])
        .ended(1)
        .err_has(&["DATABASE_URL is the address of a Unix socket"]);
    url(socket, &["--format", "jdbc"]).ended(1).err_has(&[
        "JDBC requires TCP, and DATABASE_URL is the address of a Unix socket",
        "help: `lookaside pg start DIR --tcp`",
    ]);
    for foreign in [
        "postgres://u:secret@h/d",
        "mysql://u:secret@h/d",
        "nonsense secret",
    ] {
        let said = url(foreign, &["--format", "json"]).ended(1);
        assert!(!said.err.contains("secret"), "{}", said.err);
        said.err_has(&["not an address that `lookaside pg run` sets"]);
    }
}

#[test]
fn a_folder_begins_as_it_is_wished() {
    let data = Data::new();
    fs::write(data.project.file("seed.sql"), "create table kept (n int);").unwrap();
    let wishes = [
        "start",
        "data",
        "--sql",
        "seed.sql",
        "--set",
        "work_mem=7MB",
    ];
    let url = data.run(&wishes).ended(0).out;
    assert_eq!(data.ask("data", "select * from kept"), "n\n");
    assert_eq!(data.ask("data", "show work_mem"), "work_mem\n7MB\n");
    assert_eq!(data.run(&wishes).ended(0).out, url);
    data.run(&["start", "data", "--set", "work_mem=8MB"])
        .ended(1)
        .err_has(&["is already running", "`work_mem = 8MB`", "stop it first"]);
    fs::write(data.project.file("wrong.sql"), "\ncreate tabel x ();").unwrap();
    data.run(&["start", "other", "--sql", "wrong.sql"])
        .ended(1)
        .err_has(&["`wrong.sql`, line 2"]);
}

#[test]
fn dumps_of_a_folder_are_restored_into_another() {
    let data = Data::new();
    data.run(&["start", "first"]).ended(0);
    data.ask("first", "create table t (n integer primary key, v text)");
    data.ask(
        "first",
        "insert into t select n, 'row ' || n from generate_series(1, 1000) n",
    );
    data.run(&["dump", "first", "out.txt"])
        .ended(2)
        .err_has(&[".tar.zst or .sql"]);
    data.run(&["dump", "nowhere", "out.tar.zst"])
        .ended(1)
        .err_has(&["there is no folder `nowhere`"]);
    data.run(&["dump", "first", "nodir/out.tar.zst"])
        .ended(1)
        .err_has(&["there is no folder `nodir`"]);
    data.run(&["dump", "first", "out.tar.zst"]).ended(0);
    data.run(&["restore", "out.tar.zst", "second"]).ended(0);
    data.run(&["restore", "out.tar.zst", "second"]).ended(1);
    data.run(&["restore", "out.sql", "third"])
        .ended(2)
        .err_has(&["lookaside pg start third --sql out.sql"]);
    data.project.write(
        "grant.sql",
        "create table t (n int);\ngrant select on t to nobody_here;\n",
    );
    data.run(&["run", "--sql", "grant.sql", "--", "true"])
        .ended(125)
        .err_has(&["nobody_here", "dumps hold no roles"]);
    data.run(&["start", "second"]).ended(0);
    let sum = "select count(*), max(v) from t";
    assert_eq!(data.ask("second", sum), "count,max\n1000,row 999\n");
    assert_eq!(data.ask("second", sum), data.ask("first", sum));
}

#[test]
fn the_prompt_answers_a_script() {
    let folder = Project::with(&[(
        "script.sql",
        "create table users (id integer primary key, name text default 'é;');\n\
         insert into users values (1), -- not yet ;\n (2);\n\
         \\dt\n\\d users\n\
         select id, name,\n  id * 1.50 as n, null as nothing from users;\n\
         \\q\nselect nope;\n",
    )]);
    let shell = |arguments: &[&str], script: &str| {
        let mut command = pg();
        command
            .arg("shell")
            .args(arguments)
            .current_dir(folder.path());
        let script = fs::File::open(folder.file(script)).unwrap();
        Said::from(command.stdin(script).output().unwrap())
    };
    let said = shell(&["--builtin"], "script.sql").ended(0);
    assert_eq!(said.err, "CREATE TABLE\nINSERT 0 2\n");
    assert_eq!(
        said.out,
        "┌───────────────────────────────────┐\n\
         │ schema   name    kind    owner    │\n\
         ╞═══════════════════════════════════╡\n\
         │ public   users   table   postgres │\n\
         └───────────────────────────────────┘\n\
         1 row\n\
         ┌──────────────────────────────────────────┐\n\
         │ column   type      nullable   default    │\n\
         ╞══════════════════════════════════════════╡\n\
         │ id       integer   false      NULL       │\n\
         │ name     text      true       'é;'::text │\n\
         └──────────────────────────────────────────┘\n\
         2 rows\n\
         ┌──────────────────────────────────────────────────────────────────────────────┐\n\
         │ index        definition                                                      │\n\
         ╞══════════════════════════════════════════════════════════════════════════════╡\n\
         │ users_pkey   CREATE UNIQUE INDEX users_pkey ON public.users USING btree (id) │\n\
         └──────────────────────────────────────────────────────────────────────────────┘\n\
         1 row\n\
         ┌────────────────────────────┐\n\
         │ id   name      n   nothing │\n\
         ╞════════════════════════════╡\n\
         │  1   é;     1.50   NULL    │\n\
         │  2   é;     3.00   NULL    │\n\
         └────────────────────────────┘\n\
         2 rows\n"
    );
    folder.write(
        "error.sql",
        "select 1 as one;\nselect nope;\nselect 2 as two;\n",
    );
    let said = shell(&["--format", "csv"], "error.sql").ended(1);
    assert_eq!(said.out, "one\n1\n");
    said.err_has(&["error: column \"nope\" does not exist (42703)"]);
    folder.write("unknown.sql", "\\x\n");
    shell(&["--builtin"], "unknown.sql")
        .ended(1)
        .err_has(&["unknown command \\x", "help: \\?"]);
}

#[test]
fn a_shell_without_a_server_says_what_is_missing() {
    let data = Data::new();
    data.run(&["shell", "nowhere"])
        .ended(1)
        .err_has(&["there is no folder `nowhere`", "pg start"]);
    data.run(&["shell", "--url", "mysql://u:secret@h/d"])
        .ended(2)
        .err_has(&["postgres://"]);
    let said = data
        .run(&["shell", "--builtin", "--url", "postgres:///d?host=/nowhere"])
        .ended(1);
    said.err_has(&["cannot connect to /nowhere/.s.PGSQL.5432"]);
    data.run(&["shell", "data", "--url", "postgres://h/d"])
        .ended(2);
}

#[test]
fn a_shell_finds_the_server_of_database_url() {
    let data = Data::new();
    let url = data.run(&["start", "data", "--tcp"]).ended(0).out;
    let url = url.trim_end();
    let ask = |database_url: &str, arguments: &[&str]| {
        let mut command = pg();
        command
            .args(["shell", "--format", "csv", "-c", "show data_directory"])
            .args(arguments)
            .env("DATABASE_URL", database_url)
            .current_dir(data.project.path());
        Said::from(command.output().unwrap())
    };
    let folder = data.ask("data", "show data_directory");
    let said = ask(url, &[]).ended(0);
    assert_eq!(said.out, folder);
    said.err_has(&["DATABASE_URL is the address of 127.0.0.1:"]);
    // Arguments take precedence over it.
    assert_eq!(ask("postgres://h.invalid/d", &[url]).ended(0).out, folder);
    assert_eq!(
        ask("postgres://h.invalid/d", &["data"]).ended(0).out,
        folder
    );
    assert_ne!(ask(url, &["--temporary"]).ended(0).out, folder);
    ask("mysql://u:secret@h/d", &[])
        .ended(2)
        .err_has(&["postgres://", "--temporary"]);
    let (front, host) = url.rsplit_once('@').unwrap();
    let nameless = format!("{}@{host}", front.rsplit_once(':').unwrap().0);
    ask(&nameless, &[])
        .ended(1)
        .err_has(&["the server requires a password, and none was given"]);
    // It would use TLS.
    ask("postgres://u@h/d?sslmode=verify-full&sslrootcert=x", &[])
        .ended(1)
        .err_has(&["certificates in `x`"]);
}

#[test]
fn the_prompt_shows_what_came_before_an_error() {
    let folder = Project::with(&[(
        "notices.sql",
        "do $$ begin raise notice 'a' using hint = 'b'; raise 'c' using detail = 'd'; end $$;\n",
    )]);
    let script = fs::File::open(folder.file("notices.sql")).unwrap();
    let mut command = pg();
    command.args(["shell", "--builtin"]).stdin(script);
    let said = Said::from(command.output().unwrap()).ended(1);
    said.err_has(&["NOTICE: a\nHINT: b\n", "error: c (P0001)\n  detail: d\n"]);
    let copy = "create table t (n int); copy t from stdin";
    let said = self::said(&["shell", "--builtin", "-c", copy], folder.path()).ended(1);
    said.err_has(&[
        "CREATE TABLE",
        "error: a script cannot contain the data",
        "psql",
    ]);
}

#[test]
fn the_doctor_finds_a_server() {
    let folder = Project::empty();
    let said = said(&["doctor"], folder.path()).ended(0);
    assert!(said.out.contains("PostgreSQL "), "{}", said.out);
    assert!(
        said.out.lines().any(|line| line.starts_with("ok ")),
        "{}",
        said.out
    );
}
