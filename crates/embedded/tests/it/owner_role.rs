//! Roles of single databases.

use lookaside_embedded::ErrorKind;
use lookaside_testing::wait_until;

use crate::child::Child;
use crate::site::{Site, tempdir};
use crate::{ask, builder, chain, has_server, try_ask};

fn roles(url: &str) -> Vec<String> {
    ask(url, "SELECT rolname FROM pg_roles")
}

#[test]
fn a_role_owns_its_database_and_is_dropped_with_it() {
    if !has_server() {
        return;
    }
    let watcher = builder().start().unwrap();
    let empty = builder().owner_role().start().unwrap();
    let options = || {
        builder().owner_role().extension("pgcrypto").sql(
            "CREATE SCHEMA app; CREATE TABLE app.items (id int); CREATE TABLE notes (body text)",
        )
    };
    // The second may be one that was made ahead.
    let (one, other) = (options().start().unwrap(), options().start().unwrap());
    for db in [&empty, &one, &other] {
        assert_eq!(db.user(), db.database());
        assert!(
            db.url().contains(&format!("user={}", db.user())),
            "{}",
            db.url()
        );
        let sql =
            "SELECT current_user || ' ' || rolsuper FROM pg_roles WHERE rolname = current_user";
        assert_eq!(ask(&db.url(), sql), [format!("{} false", db.user())]);
        // It may do what an owner may: public is its own too.
        ask(
            &db.url(),
            "CREATE SCHEMA s; CREATE TABLE s.t (id int); CREATE TABLE t (id int); SELECT 1",
        );
        db.execute("CREATE TABLE mine (id int)").unwrap();
        ask(&db.url(), "DROP TABLE mine; SELECT 1");
    }
    for db in [&one, &other] {
        let owners = "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class \
                      WHERE relname IN ('items', 'notes', 't')";
        assert_eq!(ask(&db.url(), owners), [db.user()]);
        ask(
            &db.url(),
            "ALTER TABLE app.items ADD COLUMN name text; DROP TABLE notes; SELECT 1",
        );
    }
    // What one sets no other sees.
    ask(
        &one.url(),
        "ALTER ROLE CURRENT_USER SET work_mem = '123kB'; SELECT 1",
    );
    assert_eq!(ask(&one.url(), "SHOW work_mem"), ["123kB"]);
    assert_ne!(ask(&other.url(), "SHOW work_mem"), ["123kB"]);
    let foreign =
        one.url()
            .replace(one.user(), other.user())
            .replacen(other.user(), one.database(), 1);
    assert!(try_ask(&foreign, "SELECT * FROM app.items").is_err());

    one.snapshot("begin").unwrap();
    one.execute("DROP SCHEMA app CASCADE").unwrap();
    one.reset_to("begin").unwrap();
    assert_eq!(ask(&one.url(), "SELECT count(*) FROM app.items"), ["0"]);
    // The role stays as long as a clone needs it.
    let (name, clone) = (one.user().to_owned(), one.try_clone().unwrap());
    one.close().unwrap();
    assert_eq!(ask(&clone.url(), "SELECT count(*) FROM app.items"), ["0"]);
    assert!(roles(&watcher.url()).contains(&name));
    clone.close().unwrap();
    assert!(!roles(&watcher.url()).contains(&name));
    let name = other.user().to_owned();
    drop(other);
    wait_until("the role is dropped", || {
        !roles(&watcher.url()).contains(&name)
    });
}

#[test]
fn a_role_that_owns_something_elsewhere_stays_and_is_reported() {
    if !has_server() {
        return;
    }
    let other = builder().start().unwrap();
    let give = [
        "CREATE TABLE given (id int); ALTER TABLE given OWNER TO",
        "CREATE TABLE granted (id int); GRANT SELECT ON granted TO",
    ];
    for give in give {
        let db = builder().owner_role().start().unwrap();
        let (role, clone) = (db.user().to_owned(), db.try_clone().unwrap());
        other.execute(&format!("{give} \"{role}\"")).unwrap();
        // As long as the clone needs the role it is not reported.
        db.close().unwrap();
        let error = clone.close().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert_eq!(error.sqlstate(), Some("2BP01"));
        assert!(error.to_string().contains(&role), "{error}");
        // The server counts what is in another database, and names that one.
        let reason = format!("in database {}", other.database());
        assert!(chain(&error).contains(&reason), "{}", chain(&error));
        assert!(roles(&other.url()).contains(&role));
        // What the error tells to do.
        let sql = format!("DROP OWNED BY \"{role}\"; DROP ROLE \"{role}\"");
        other.execute(&sql).unwrap();
        assert!(!roles(&other.url()).contains(&role));
    }
}

#[test]
fn roles_of_ended_processes_are_swept_and_servers_of_their_own_need_none() {
    if !has_server() {
        return;
    }
    let site = Site::new();
    let mut watcher = Child::start(&site, "temporary");
    let url = watcher.hear("url ");
    watcher.hear("ready");
    let mut child = Child::start(&site, "owner role");
    let name = child.hear("database ");
    child.hear("ready");
    assert!(roles(&url).contains(&name));
    child.kill();
    wait_until("the role is swept", || {
        let mut next = Child::start(&site, "temporary");
        next.hear("ready");
        next.end();
        !roles(&url).contains(&name)
    });
    assert!(watcher.end().success());
    site.wait_until_clean();

    let folder = tempdir();
    for options in [
        builder().fresh_cluster(),
        builder().path(folder.path().join("data")),
    ] {
        let error = options.owner_role().start().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse);
        assert!(error.to_string().contains("user("), "{error}");
    }
}
