//! The commands beside `enrich`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use crate::program::{Project, example, run, run_with_input};

#[test]
fn a_new_project_runs_and_is_sound() {
    let folder = Project::empty();
    let dir = folder.file("a/b");
    let said = run([Path::new("new"), &dir])
        .ended(0)
        .out_has(&["Run it:  lookaside enrich "]);
    assert!(said.err.is_empty());
    let said = run([Path::new("enrich"), &dir]).ended(0);
    assert_eq!(
        said.out.lines().collect::<Vec<_>>(),
        [
            r#"{"host":"web-1","status":200,"class":"ok","owner":"shop","rack":7,"message":"GET /"}"#,
            r#"{"host":"web-2","status":503,"class":"error","owner":"shop","rack":8,"message":"GET /cart"}"#,
            r#"{"host":"db-1","status":200,"class":"ok","owner":"storage","rack":12,"message":"backup done"}"#,
            r#"{"host":"tape-1","status":500,"class":"error","message":"no such host"}"#,
        ]
    );
    run([Path::new("check"), &dir]).ended(0);
    let said = run([Path::new("test"), &dir]).ended(0);
    assert_eq!(said.out, "2 passed, 0 failed\n");
    run([Path::new("new"), &dir])
        .ended(1)
        .err_has(&[" is not empty", "help: name a folder"]);
}

#[test]
fn query_writes_tables_json_and_csv() {
    let project = Project::new();
    let query = |form: &str| {
        let sql = "select name, rack from hosts where owner = :owner order by rack";
        let param = ["--param", "owner=shop", "--format", form];
        let arguments = ["query", ".", sql].into_iter().chain(param);
        project.run(&arguments.collect::<Vec<_>>()).ended(0).out
    };
    assert_eq!(
        query("table"),
        "┌──────────────┐\n\
         │ name    rack │\n\
         ╞══════════════╡\n\
         │ web-1      7 │\n\
         │ web-2      8 │\n\
         └──────────────┘\n\
         2 rows\n"
    );
    assert_eq!(
        query("json"),
        "{\"name\":\"web-1\",\"rack\":7}\n{\"name\":\"web-2\",\"rack\":8}\n"
    );
    assert_eq!(query("csv"), "name,rack\nweb-1,7\nweb-2,8\n");
}

#[test]
fn query_reads_sql_from_standard_input_and_typed_parameters() {
    let project = Project::new();
    let dir = project.path().to_str().unwrap();
    let said = run_with_input(
        [
            "query", dir, "-", "--param", "n:=41", "--param", "t=41", "--format", "csv",
        ],
        "select :n + 1 as next, typeof(:n), typeof(:t)\n",
    );
    assert_eq!(
        said.ended(0).out,
        "next,typeof(:n),typeof(:t)\n42,integer,text\n"
    );
}

#[test]
fn query_says_what_is_wrong() {
    let project = Project::new();
    for (sql, params, expected) in [
        ("select nope from hosts", &[][..], "no such column: nope"),
        ("select 1; select 2", &[], "error: "),
        ("delete from hosts", &[], "error: "),
        ("select :a", &[], "a"),
        ("select 1", &["--param", "b=1"], "b"),
    ] {
        let mut arguments = vec!["query", ".", sql];
        arguments.extend(params);
        let said = project
            .run(&arguments)
            .ended(1)
            .err_has(&["error: ", expected]);
        assert_eq!(said.out, "", "{sql}");
    }
    project
        .run(&["query", ".", "select 1", "--param", "x"])
        .ended(2);
    project
        .run(&["query", ".", "select 1 as a, 2 as a", "-f", "json"])
        .ended(1)
        .err_has(&["returns two columns named \"a\"", "as other_id"]);
    project
        .run(&["query", ".", "select 1 as a, 2 as a", "-f", "csv"])
        .ended(0);
    project
        .run(&["query", ".", "select 1", "--format", "xml"])
        .ended(2);
}

#[test]
fn explain_names_the_plan() {
    for (sql, expected) in [
        (
            "select asn, org from asn where first_ip <= ip4_int(:ip) and last_ip >= ip4_int(:ip)",
            "interval: asn(first_ip, last_ip)\n  3000 rows",
        ),
        (
            "select name from users where login = :login",
            "hash: users(login)\n  1200 rows",
        ),
        ("select count(*) from users", "sqlite: "),
    ] {
        let said = run([Path::new("explain"), &example(), Path::new(sql)]).ended(0);
        assert!(said.out.starts_with(expected), "{}", said.out);
    }
}

#[test]
fn check_shows_tables_and_models() {
    let said = Project::new().run(&["check", "."]).ended(0);
    said.out_has(&[
        "table hosts: 3 rows in ",
        "  derived: create table \"hosts\" (",
        "model events: rules [/json/* /csv/* /kv/*], ./models/events.oml\n",
        "models: events.oml runs for /json/events\n",
    ]);
    let said = run([Path::new("check"), &example()]).ended(0);
    assert!(!said.out.contains("derived"), "{}", said.out);
}

#[test]
fn compile_writes_tables_and_the_indexes_of_models() {
    let project = Project::new();
    let compile = || project.run(&["compile", "."]).ended(0).out;
    let first = compile();
    assert!(
        first.starts_with("table hosts: 3 rows, compiled to "),
        "{first}"
    );
    let second = compile();
    assert!(
        second.starts_with("table hosts: 3 rows, already compiled, "),
        "{second}"
    );
    let checked = project.run(&["check", "."]).ended(0);
    checked.out_has(&["  read from its compiled form, "]);
    let files = || std::fs::read_dir(project.file(".lookaside")).unwrap();
    let names = files().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[0], ".gitignore");
    let size: u64 = files()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    let total = second.lines().last().unwrap();
    assert!(
        total.ends_with(&format!(": 3 files, {size} bytes")),
        "{total}"
    );
    let is_table = |name: &str| name.starts_with("hosts-") && name.ends_with(".table");
    assert!(is_table(&names[1]), "{names:?}");
    assert!(
        names[2].starts_with(&names[1]) && names[2].ends_with(".index"),
        "{names:?}"
    );
    let sql = "select owner, rack from hosts where name = 'web-2'";
    let query = || {
        project
            .run(&["query", ".", sql, "--format", "csv"])
            .ended(0)
    };
    let expected = query();
    assert_eq!(expected.err, "");
    // Damaged files cost a load and a warning.
    for file in files() {
        std::fs::write(file.unwrap().path(), "damaged").unwrap();
    }
    let said = query().err_has(&["the compiled form is damaged and not used"]);
    assert_eq!(said.out, expected.out);
    let said = query();
    assert_eq!((said.out, said.err), (expected.out, String::new()));
    // A file has the name of the folder.
    std::fs::remove_dir_all(project.file(".lookaside")).unwrap();
    project.write(".lookaside", "");
    project.run(&["compile", "."]).ended(1).err_has(&[
        "the compiled form of table hosts is not written",
        "help: make ./.lookaside writable",
    ]);
    let config = std::fs::read_to_string(project.file("knowdb.toml")).unwrap();
    let off = config.replace("version = 2", "version = 2\ndefault.compiled = false");
    project.write("knowdb.toml", &off);
    project
        .run(&["compile", "."])
        .ended(1)
        .err_has(&["[default] compiled is false", "help: set it to true"]);
}

#[test]
fn test_shows_differences_field_by_field() {
    let project = Project::new();
    project.write(
        "models/events.test.jsonl",
        concat!(
            r#"{"input":{"host":"web-1","status":200},"output":{"host":"web-1","class":"ok","#,
            r#""owner":"shop","rack":7,"status":200}}"#,
            "\n\n",
            r#"{"name":"wrong","input":{"host":"web-1","status":500},"output":{"host":"web-1","#,
            r#""status":500,"class":"ok","rack":7,"gone":null}}"#,
            "\n",
            r#"{"input":"{","output":{}}"#,
            "\n",
        ),
    );
    let said = project.run(&["test", "."]).ended(1);
    let (differences, rest) = said
        .out
        .split_once("FAIL ./models/events.test.jsonl:4\n")
        .unwrap();
    assert_eq!(
        differences,
        "FAIL ./models/events.test.jsonl:3 (wrong)\n  \
         - \"class\": \"ok\"\n  \
         + \"class\": \"error\"\n  \
         - \"gone\": null\n  \
         + \"owner\": \"shop\"\n"
    );
    assert!(rest.starts_with("  the input cannot be parsed: "), "{rest}");
    assert!(rest.ends_with("1 passed, 2 failed\n"), "{rest}");
}

#[test]
fn the_examples_models_pass_their_tests() {
    let said = run([Path::new("test"), &example()]).ended(0);
    assert_eq!(said.out, "2 passed, 0 failed\n");
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let said = run(["completions", shell]).ended(0);
        said.out_has(&[
            "enrich",
            "query",
            "explain",
            "check",
            "compile",
            "new",
            "test",
            "completions",
        ]);
    }
    run(["completions", "abacus"]).ended(2);
}

#[test]
fn the_manual_has_a_page_for_every_command() {
    run(["man"])
        .ended(0)
        .out_has(&[".TH lookaside 1", "lookaside\\-enrich(1)", "Exit codes"]);
    let folder = tempfile::tempdir().unwrap();
    run([Path::new("man"), &folder.path().join("man1")]).ended(0);
    for command in ["query", "enrich", "pg-run", "bench-lookup"] {
        let page = folder.path().join(format!("man1/lookaside-{command}.1"));
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains("SYNOPSIS"), "{}", page.display());
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    run([Path::new("man"), &file])
        .ended(1)
        .err_has(&["cannot write manual pages to", "file"]);
}

#[test]
fn help_tells_exit_codes_and_examples() {
    run(["--help"])
        .ended(0)
        .out_has(&["Exit codes:", "130", "enrich", "knowdb.toml"]);
    run(["enrich", "--help"])
        .ended(0)
        .out_has(&["Examples:", "--follow", "SIGHUP"]);
    run(["--version"]).ended(0).out_has(&["lookaside "]);
}

#[test]
fn no_argument_makes_it_panic() {
    let not_text = OsString::from_vec(b"a\xff".to_vec());
    let words = [
        "enrich",
        "query",
        "explain",
        "check",
        "new",
        "test",
        "completions",
        "man",
        "bench",
        "",
    ];
    let values = [
        "",
        "-",
        "--",
        ".",
        "/dev/null",
        "tcp://",
        "tcp://x:99999",
        "a=b",
        "--follow",
        "🦀",
    ];
    // In a folder without a project, so that the commands have nothing to do; what `new` creates is
    // removed with it. `Said` fails on a panic.
    let folder = Project::empty();
    for word in words {
        for value in values {
            for arguments in [
                &[word, value][..],
                &[word, "missing", value],
                &[word, value, value],
            ] {
                let said = folder.run(arguments);
                assert!((0..=2).contains(&said.code), "{arguments:?}: {}", said.code);
            }
        }
        let said = folder.run(&[OsString::from(word), not_text.clone()]);
        assert!((0..=2).contains(&said.code), "{word}: {}", said.code);
    }
}
