//! Templates that the caller's own code makes: once for each key, in whichever process.

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use lookaside_embedded::{Builder, Error, ErrorKind};
use lookaside_testing::wait_until;

use crate::child::Child;
use crate::damage::with_our_programs;
use crate::site::{Site, entries, tempdir};
use crate::{ask, block_on, builder, chain, has_server};

/// Tells a child the file in which each run of its code leaves a line, and its key.
pub(crate) const LOG: &str = "LOOKASIDE_TEST_LOG";
pub(crate) const KEY: &str = "LOOKASIDE_TEST_KEY";

/// What a child asks for: its code says when it begins, and waits for a line before its last step.
pub(crate) fn options(wait: bool) -> Builder {
    let log = env::var(LOG).unwrap();
    builder().template(env::var(KEY).unwrap(), move |url| {
        let mut log = fs::File::options().append(true).create(true).open(&log)?;
        log.write_all(b"run\n")?;
        ask(url, "CREATE TABLE half (id int); SELECT 1");
        if wait {
            eprintln!("making");
            std::io::stdin().read_line(&mut String::new())?;
        }
        ask(url, "CREATE TABLE whole AS SELECT 7 AS id; SELECT 1");
        std::io::Result::Ok(())
    })
}

pub(crate) struct Stage {
    pub(crate) site: Site,
    cache: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let cache = tempdir();
        let site = Site::with_cache(cache.path());
        Self { site, cache }
    }

    pub(crate) fn start(&self, role: &str, key: &str) -> Child {
        Child::start_with(&self.site, role, |command| {
            with_our_programs(command);
            command.env(LOG, self.site.path().join("log")).env(KEY, key);
        })
    }

    fn run_count(&self) -> usize {
        let log = fs::read_to_string(self.site.path().join("log"));
        log.unwrap_or_default().lines().count()
    }

    pub(crate) fn templates(&self) -> Vec<PathBuf> {
        entries(&self.cache.path().join("template"))
    }

    fn has_half_made(&self) -> bool {
        let mut templates = self.templates().into_iter();
        templates.any(|path| path.to_str().unwrap().contains(".partial-"))
    }

    /// How many templates there are, all of them whole.
    fn template_count(&self) -> usize {
        assert!(!self.has_half_made(), "{:?}", self.templates());
        self.templates().len()
    }
}

#[test]
fn code_runs_once_for_a_key_of_all_processes() {
    if !has_server() {
        return;
    }
    let stage = Stage::new();
    let mut children: Vec<_> = (0..5).map(|_| stage.start("prepared", "a")).collect();
    let mut databases = Vec::new();
    for child in &mut children {
        let url = child.hear("url ");
        databases.push(child.hear("database "));
        child.hear("ready");
        assert_eq!(
            ask(&url, "SELECT id FROM half NATURAL FULL JOIN whole"),
            ["7"]
        );
        // A second one of the same process, and changes that no other sees.
        child.tell("sql DROP TABLE half");
        child.hear("done");
        child.tell("another");
        let url = child.hear("url ");
        child.hear("ready");
        assert_eq!(ask(&url, "SELECT count(*) FROM half"), ["0"]);
    }
    databases.sort();
    databases.dedup();
    assert_eq!(databases.len(), 5);
    for child in &mut children {
        assert!(child.end().success());
    }
    stage.site.wait_until_clean();
    assert_eq!((stage.run_count(), stage.template_count()), (1, 2));

    // On later days, and for a server of one's own.
    for role in ["prepared", "prepared fresh", "prepared fresh"] {
        let mut child = stage.start(role, "a");
        let url = child.hear("url ");
        child.hear("ready");
        assert_eq!(ask(&url, "SELECT id FROM whole"), ["7"], "{role}");
        assert!(child.end().success());
        stage.site.wait_until_clean();
    }
    assert_eq!(stage.run_count(), 1);
    let mut child = stage.start("prepared", "b");
    child.hear("ready");
    assert!(child.end().success());
    assert_eq!((stage.run_count(), stage.template_count()), (2, 3));
}

#[test]
fn a_maker_that_dies_leaves_nothing_and_the_next_one_makes_it() {
    if !has_server() {
        return;
    }
    let stage = Stage::new();
    let mut maker = stage.start("prepared waiting", "a");
    maker.hear("making");
    // It waits for the maker, and takes its place.
    let mut waiting = stage.start("prepared", "a");
    maker.kill();
    let url = waiting.hear("url ");
    waiting.hear("ready");
    assert_eq!(ask(&url, "SELECT id FROM whole"), ["7"]);
    assert_eq!(ask(&url, "SELECT count(*) FROM half"), ["0"]);
    assert!(waiting.end().success());
    // The server of the one that died may end after the next template was made. What it held until
    // then, a later start removes.
    wait_until("what the killed process left is removed", || {
        let mut next = stage.start("prepared", "a");
        next.hear("ready");
        assert!(next.end().success());
        stage.site.wait_until_clean();
        !stage.has_half_made()
    });
    assert_eq!((stage.run_count(), stage.template_count()), (2, 2));
}

#[test]
fn a_damaged_template_is_made_again_by_the_code() {
    if !has_server() {
        return;
    }
    let stage = Stage::new();
    for run_count in [1, 2] {
        let mut child = stage.start("prepared fresh", "a");
        let url = child.hear("url ");
        child.hear("ready");
        assert_eq!(ask(&url, "SELECT id FROM whole"), ["7"]);
        assert!(child.end().success());
        assert_eq!(stage.run_count(), run_count);
        for template in entries(&stage.cache.path().join("template")) {
            // The one that is a copy of the other has the longer name.
            if template
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .split('-')
                .count()
                > 3
            {
                fs::remove_file(template.join("data/PG_VERSION")).unwrap();
            }
        }
    }
}

#[test]
fn templates_that_were_not_used_for_long_are_forgotten() {
    if !has_server() {
        return;
    }
    let stage = Stage::new();
    let templates = stage.cache.path().join("template");
    let mut child = stage.start("prepared", "a");
    child.hear("ready");
    assert!(child.end().success());
    for number in 0..10 {
        fs::create_dir(templates.join(format!("18.6-{number:016}-4-0123456789abcdef"))).unwrap();
    }
    // Its process was killed, and that key is not used again.
    fs::create_dir(templates.join("18.6-1-4-0123456789abcdef.partial-1-0")).unwrap();
    let mut child = stage.start("prepared", "a");
    child.hear("ready");
    wait_until("all but a few are forgotten", || {
        // Eight, and the one that they are copies of.
        entries(&templates).len() == 9
    });
    assert!(child.end().success());
    assert_eq!(stage.run_count(), 1);
    // A new one makes room before it is made, so that processes that end at once leave no more.
    let mut child = stage.start("prepared waiting", "b");
    child.hear("making");
    assert_eq!(
        entries(&templates)
            .iter()
            .filter(|path| !path.to_str().unwrap().contains(".partial-"))
            .count(),
        // Seven, and the one that they are copies of; the eighth is not there yet.
        8
    );
    child.tell("");
    child.hear("ready");
    assert!(child.end().success());
}

/// In this process, with the cache of this user.
#[test]
fn code_may_be_a_migrator_with_a_runtime_of_its_own_and_as_a_role() {
    if !has_server() {
        return;
    }
    let key = format!("test of a migrator {}", fastrand::u64(..));
    let make = |url: &str| -> Result<(), sqlx::Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let pool = sqlx::PgPool::connect(url).await?;
            for sql in [
                "CREATE TABLE items (id int)",
                "INSERT INTO items VALUES (1), (2)",
            ] {
                sqlx::query(sql).execute(&pool).await?;
            }
            // Left open.
            std::mem::forget(pool);
            Ok(())
        })
    };
    // On a thread of a runtime too.
    let db = block_on(async { builder().template(&key, make).start() }).unwrap();
    assert_eq!(ask(&db.url(), "SELECT count(*) FROM items"), ["2"]);
    let options = || builder().owner_role().template(&key, make);
    for db in [options().start().unwrap(), options().start().unwrap()] {
        let owner = "SELECT tableowner FROM pg_tables WHERE tablename = 'items'";
        assert_eq!(ask(&db.url(), owner), [db.user()]);
        db.execute("ALTER TABLE items ADD COLUMN name text")
            .unwrap();
    }
    let folder = tempdir();
    let kept = builder()
        .path(folder.path().join("data"))
        .template(&key, make);
    let db = kept.start().unwrap();
    assert_eq!(ask(&db.url(), "SELECT count(*) FROM items"), ["2"]);
}

#[test]
fn code_that_fails_says_why_and_is_run_again() {
    if !has_server() {
        return;
    }
    let fail = |_: &str| Err::<(), _>(std::io::Error::other("no such migration"));
    for _ in 0..2 {
        let error: Error = builder().template("fails", fail).start().unwrap_err();
        let text = chain(&error);
        assert!(
            text.contains("`fails`") && text.contains("no such migration"),
            "{text}"
        );
    }
    let panics = builder().template("panics", |_: &str| -> Result<(), Error> { panic!("meant") });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panics.start())).is_err());
}

/// By a session in another database, as none is dropped or closed from within.
#[test]
fn code_that_takes_a_database_away_is_told_which() {
    if !has_server() {
        return;
    }
    for (key, sql, expected) in [
        (
            "drop",
            "DROP DATABASE $database",
            "dropped or renamed the database `t_",
        ),
        (
            "rename",
            "ALTER DATABASE $database RENAME TO other",
            "dropped or renamed the database `t_",
        ),
        (
            "close",
            "ALTER DATABASE postgres ALLOW_CONNECTIONS false",
            "has changed the database or the role `postgres`",
        ),
    ] {
        let key = format!("{key} {}", fastrand::u64(..));
        let error = builder()
            .template(key.clone(), move |url| {
                let database = url.split(['/', '?']).nth(3).unwrap();
                let url = match sql.contains("$database") {
                    true => url.replacen(database, "postgres", 1),
                    false => url.to_owned(),
                };
                ask(&url, &sql.replace("$database", database));
                Ok::<_, Error>(())
            })
            .start()
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse);
        for part in [expected, &key] {
            assert!(error.to_string().contains(part), "{}", chain(&error));
        }
    }
}

/// A copy would be handed out, and no session of its user would begin, or none at once.
#[test]
fn code_that_keeps_sessions_out_or_waiting_is_refused() {
    if !has_server() {
        return;
    }
    let raise = |condition: &str| {
        format!(
            "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF {condition} THEN RAISE 'closed'; END IF; END $$; \
             CREATE EVENT TRIGGER refuse ON login EXECUTE FUNCTION refuse()"
        )
    };
    let is_role = "NOT (SELECT rolsuper FROM pg_roles WHERE rolname = session_user)";
    let cases = [
        (builder(), raise("true"), Some("event triggers on `login`")),
        (
            builder().fresh_cluster().tcp(),
            raise("true"),
            Some("event triggers on `login`"),
        ),
        (
            builder().owner_role(),
            raise(is_role),
            Some("event triggers on `login`"),
        ),
        (builder(), raise(is_role), None),
        (
            builder(),
            "ALTER SYSTEM SET post_auth_delay = 1".to_owned(),
            Some("`ALTER SYSTEM RESET post_auth_delay`"),
        ),
        (
            builder(),
            "ALTER SYSTEM SET pre_auth_delay = 0".to_owned(),
            None,
        ),
    ];
    for (options, sql, expected) in cases {
        let key = format!("sessions {}", fastrand::u64(..));
        let started = options
            .template(&key, {
                let sql = sql.clone();
                move |url| {
                    // Only a superuser makes event triggers and sets what is the server's.
                    let url = match url.split_once("&user=") {
                        Some((start, _)) => format!("{start}&user=postgres"),
                        None => url.to_owned(),
                    };
                    for statement in sql.split_inclusive("END $$; ") {
                        ask(&url, statement);
                    }
                    Ok::<_, Error>(())
                }
            })
            .start();
        match (started, expected) {
            (Ok(db), None) => assert_eq!(ask(&db.url(), "SELECT 1"), ["1"]),
            (Err(error), Some(expected)) => {
                assert_eq!(error.kind(), ErrorKind::Misuse, "{}", chain(&error));
                for part in [expected, &key] {
                    assert!(error.to_string().contains(part), "{}", chain(&error));
                }
            }
            (Ok(_), Some(_)) => panic!("{sql}: it was kept"),
            (Err(error), None) => panic!("{sql}: {}", chain(&error)),
        }
    }
}
