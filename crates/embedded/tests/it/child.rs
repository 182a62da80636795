//! A process that owns a database: this test binary, with [`run`] as its only test.
//!
//! It says through its standard error what it has, and does what it is told through its standard
//! input, to whose end it lives.

use std::env;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{self, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;

use lookaside_embedded::{CleanMode, Error, Instance, Postgres, Progress, clean, doctor};

use crate::site::Site;
use crate::{builder, chain};

/// Tells the child what to own; unset in an ordinary run.
const ROLE: &str = "LOOKASIDE_TEST_ROLE";

/// Tells a child of the role `path` its folder.
const FOLDER: &str = "LOOKASIDE_TEST_FOLDER";

#[test]
fn run() {
    struct Aloud;
    impl Progress for Aloud {
        fn step(&self, what: &str) {
            eprintln!("step {what}");
        }
    }
    let Ok(role) = env::var(ROLE) else {
        return;
    };
    let folder = env::var(FOLDER).unwrap_or_default();
    let options = match &*role {
        "doctor" => {
            for finding in doctor().findings {
                let advice = finding.advice.unwrap_or_default();
                eprintln!("finding {} {}; {advice}", finding.what, finding.state);
            }
            return;
        }
        "clean" | "clean dry run" => {
            let mode = match &*role {
                "clean" => CleanMode::Remove,
                _ => CleanMode::DryRun,
            };
            match clean(mode) {
                Ok(leftovers) => leftovers.iter().for_each(|left| {
                    eprintln!("left {} {}: {}", left.size, left.what, left.place);
                }),
                Err(error) => say_error(&error),
            }
            return;
        }
        "temporary" | "exit at once" | "killed at once" => builder(),
        "fresh" => builder().fresh_cluster(),
        "bad setting" => builder().setting("work_mem", "a lot"),
        "prepared" => crate::prepared::options(false),
        "prepared waiting" => crate::prepared::options(true),
        "prepared fresh" => crate::prepared::options(false).fresh_cluster(),
        "owner role" => builder().owner_role(),
        "path" => builder().path(folder),
        "instance" => {
            return match Instance::at(folder).unwrap().start(builder()) {
                Ok(running) => eprintln!("url {}", running.url),
                Err(error) => say_error(&error),
            };
        }
        "second database" => builder()
            .path(&folder)
            .database("second")
            .migrations(Path::new(&folder).with_file_name("sql")),
        "migrated path" => builder()
            .path(&folder)
            .migrations(Path::new(&folder).with_file_name("sql")),
        "descriptors used up" => {
            use_up_descriptors();
            builder().fresh_cluster()
        }
        _ => panic!("no role `{role}`"),
    };
    let options = options.progress(Arc::new(Aloud));
    let mut database = match options.clone().start() {
        Ok(database) => database,
        Err(error) => return say_error(&error),
    };
    introduce(&database);
    match &*role {
        // Before the thread in the background does anything.
        "exit at once" => process::exit(0),
        "killed at once" => crate::death::kill(process::id().cast_signed()),
        _ => {}
    }
    let mut clones = Vec::new();
    for order in io::stdin().lines() {
        let order = order.unwrap();
        match order.split_once(' ').unwrap_or((&order, "")) {
            ("sql", sql) => match database.execute(sql) {
                Ok(()) => eprintln!("done"),
                Err(error) => say_error(&error),
            },
            ("another", _) => match options.clone().start() {
                Ok(another) => {
                    database = another;
                    introduce(&database);
                }
                Err(error) => say_error(&error),
            },
            ("snapshot", name) => match database.snapshot(name) {
                Ok(()) => eprintln!("done"),
                Err(error) => say_error(&error),
            },
            ("reset", name) => match database.reset_to(name) {
                Ok(()) => eprintln!("done"),
                Err(error) => say_error(&error),
            },
            ("clone", _) => {
                clones.push(database.try_clone().unwrap());
                eprintln!("done {}", clones[clones.len() - 1].database());
            }
            // Rows numbered from 1, one transaction each, until it is ended.
            ("count", _) => {
                for number in 1.. {
                    database
                        .execute(&format!("INSERT INTO counted VALUES ({number})"))
                        .unwrap();
                    eprintln!("counted {number}");
                }
            }
            ("abort", _) => process::abort(),
            _ => panic!("no order `{order}`"),
        }
    }
}

/// Says what a start is told that finds no free file descriptor, or few.
fn use_up_descriptors() {
    let mut files: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    for free_count in [0, 4] {
        files.truncate(files.len() - free_count);
        match builder().fresh_cluster().start() {
            Ok(_) => eprintln!("{free_count} descriptors are enough"),
            Err(error) => eprintln!("refused {:?} {}", error.kind(), chain(&error)),
        }
    }
}

fn introduce(database: &Postgres) {
    eprintln!("url {}", database.url());
    eprintln!("folder {}", database.folder().display());
    eprintln!("database {}", database.database());
    eprintln!("ready");
}

fn say_error(error: &Error) {
    eprintln!(
        "error {:?} {}",
        error.kind(),
        chain(error).replace('\n', " | ")
    );
}

/// A child, from outside. Dropping it kills it.
pub(crate) struct Child {
    pub(crate) process: process::Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStderr>>,
    said: Vec<String>,
}

impl Child {
    pub(crate) fn start(site: &Site, role: &str) -> Self {
        Self::start_with(site, role, |_| {})
    }

    pub(crate) fn start_in(site: &Site, folder: &Path) -> Self {
        Self::start_with(site, "path", |command| {
            command.env(FOLDER, folder);
        })
    }

    pub(crate) fn start_with(site: &Site, role: &str, also: impl FnOnce(&mut Command)) -> Self {
        Self::start_through(Command::new(env::current_exe().unwrap()), site, role, also)
    }

    /// One whose command line comes after that of another program.
    pub(crate) fn start_through(
        mut command: Command,
        site: &Site,
        role: &str,
        also: impl FnOnce(&mut Command),
    ) -> Self {
        command.args(["child::run", "--exact", "--nocapture"]);
        site.place(&mut command);
        command
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        also(&mut command);
        let mut process = command.spawn().unwrap();
        let output = BufReader::new(process.stderr.take().unwrap()).lines();
        Self {
            input: process.stdin.take(),
            output,
            process,
            said: Vec::new(),
        }
    }

    /// Tells a child of the role `path` its folder.
    pub(crate) fn folder(folder: &Path) -> impl FnOnce(&mut Command) {
        let folder = folder.to_owned();
        move |command| {
            command.env(FOLDER, folder);
        }
    }

    pub(crate) fn tell(&mut self, order: &str) {
        let input = self.input.as_mut().expect("it was not told to end");
        input.write_all(format!("{order}\n").as_bytes()).unwrap();
    }

    /// What comes after `word` in the next line that begins with it.
    #[track_caller]
    pub(crate) fn hear(&mut self, word: &str) -> String {
        match self.hear_or_end(word) {
            Some(rest) => rest,
            None => panic!("the child never said `{word}`, but {:#?}", self.said),
        }
    }

    /// As [`hear`](Self::hear); `None` if the child ends before.
    pub(crate) fn hear_or_end(&mut self, word: &str) -> Option<String> {
        while let Some(Ok(line)) = self.output.next() {
            self.said.push(line.clone());
            if let Some(rest) = line.strip_prefix(word) {
                return Some(rest.trim().to_owned());
            }
            // Instead of waiting for what will not come.
            assert!(!line.starts_with("error "), "{:#?}", self.said);
        }
        None
    }

    /// All that was heard.
    pub(crate) fn said(&self) -> String {
        self.said.join("\n")
    }

    /// Kills the process alone, with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Lets it end by itself; the error that it ends with, if it does.
    pub(crate) fn error_or_end(&mut self) -> Option<String> {
        self.input = None;
        let error = self.hear_or_end("error ");
        self.process.wait().unwrap();
        error
    }

    /// Lets it end by itself.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.input = None;
        while self.hear_or_end("\n").is_some() {}
        self.process.wait().unwrap()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
