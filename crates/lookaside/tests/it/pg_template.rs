//! `lookaside pg run --template-command`: the template that the command makes, and failing
//! commands.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use lookaside_testing::wait_until;

use crate::pg::{pg, said, send};
use crate::program::{Project, Said};

#[test]
fn run_keeps_what_a_template_command_made() {
    let folder = Project::with(&[(
        "migrations/deep/1.sql",
        "create table migrated (n integer);",
    )]);
    let migrate = r#"
        echo migrating
        echo run >>runs
        "$LOOKASIDE" pg shell --builtin --url "$DATABASE_URL" <migrations/deep/1.sql
    "#;
    let run = |migrate: &str, pattern: &str| {
        let mut command = pg();
        command
            .current_dir(folder.path())
            .env("LOOKASIDE", env!("CARGO_BIN_EXE_lookaside"))
            .env("LOOKASIDE_CACHE", folder.path().join("cache"))
            .args(["run", "--template-command", migrate, "--template-key-files", pattern])
            .args(["--", "sh", "-c"])
            .arg(r#""$LOOKASIDE" pg shell --builtin --format csv -c "select count(*) from migrated""#);
        Said::from(command.output().expect("the program starts"))
    };
    let run_count = || {
        let runs = fs::read_to_string(folder.path().join("runs"));
        runs.unwrap_or_default().lines().count()
    };
    for _ in 0..2 {
        let said = run(migrate, "migrations/**").ended(0);
        assert_eq!(said.out, "count\n0\n");
        assert_eq!(run_count(), 1, "{}", said.err);
    }
    let file = folder.path().join("migrations/deep/1.sql");
    fs::write(
        file,
        "create table migrated (n integer); insert into migrated values (1);",
    )
    .unwrap();
    let said = run(migrate, "migrations/**").ended(0);
    assert_eq!((&*said.out, run_count()), ("count\n1\n", 2));
    assert!(said.err.contains("migrating"), "{}", said.err);

    let said = run("exit 3", "migrations/**").ended(125);
    assert!(
        said.err.contains("`exit 3` ended with exit status: 3"),
        "{}",
        said.err
    );
    // A command that makes the server unusable is reported at once, and nothing is kept.
    let ask = r#""$LOOKASIDE" pg shell --builtin --url "$DATABASE_URL" -c "#;
    let no_start = format!("{ask} \"alter system set shared_preload_libraries = 'nosuch'\"");
    let no_login = format!("{ask} 'alter role postgres nologin'");
    let other_role =
        format!("{ask} 'create role weak' && {ask} 'alter role postgres set role = weak'");
    for _ in 0..2 {
        run(&no_start, "migrations/**").ended(125).err_has(&[
            "no server can be used with the contents that",
            "alter system set shared_preload_libraries",
            "ALTER SYSTEM",
        ]);
        run(&other_role, "migrations/**").ended(125).err_has(&[
            "no server can be used with the contents that",
            "set role = weak",
        ]);
        run(&no_login, "migrations/**")
            .ended(125)
            .err_has(&["alter role postgres nologin", "the role `postgres`"]);
        for statement in [
            "alter role postgres nosuperuser",
            "alter role postgres set session_preload_libraries = nosuch",
        ] {
            run(&format!("{ask} '{statement}'"), "migrations/**")
                .ended(125)
                .err_has(&[statement, "the role `postgres`"]);
        }
    }
    let said = run(migrate, "nothing/*.sql").ended(125);
    assert!(said.err.contains("nothing/*.sql"), "{}", said.err);
    let said = said_of_one_half(folder.path());
    assert!(said.err.contains("--template-key-files"), "{}", said.err);
}

fn said_of_one_half(folder: &Path) -> Said {
    said(&["run", "--template-command", "true", "--", "true"], folder).ended(2)
}

#[test]
fn signals_reach_the_command_that_fills_a_template() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("key"), "1").unwrap();
    let pid = folder.path().join("pid");
    let fill = format!(
        "echo $$ > '{0}.new'; mv '{0}.new' '{0}'; exec sleep 1000",
        pid.display()
    );
    let mut command = pg();
    command
        .args(["run", "--template-command", &fill, "--template-key-files"])
        .arg(folder.path().join("key"))
        .args(["--", "true"])
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until("the command runs", || pid.exists());
    let filler = fs::read_to_string(&pid).unwrap();
    send("TERM", &child.id().to_string());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("signal: 15"), "{said}");
    assert!(!Path::new("/proc").join(filler.trim()).exists());
}
