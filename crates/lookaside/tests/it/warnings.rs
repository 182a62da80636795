//! Warnings about lookups that work, but probably not as intended.

use crate::program::{Project, Said};

/// A project with a table of addresses in text, one of services, and a model with these statements.
fn project(statements: &str) -> Project {
    let model = format!("name : e\nrule : /*\n---\n{statements}");
    let event = "{\"ip\":\"10.9.0.1\",\"service\":\"b\"}\n";
    Project::with(&[
        (
            "knowdb.toml",
            "version = 2\n[csv]\nhas_header = false\n[[tables]]\nname = 'geo'\n[[tables]]\n\
             name = 'svc'\n[enrich]\ninput = 'events.json'\nformat = 'json'\n",
        ),
        (
            "geo/data.csv",
            "9.0.0.0,9.255.255.255,US\n10.0.0.0,10.255.255.255,LAN\n",
        ),
        ("svc/data.csv", "a,ann\nb,bob\n"),
        ("models/e.oml", &model),
        ("events.json", &event.repeat(3)),
    ])
}

const RANGE: &str =
    "cc = select column_3 from geo where column_1 <= read(ip) and column_2 >= read(ip) ;\n";

/// Runs `check` and `enrich`, which warn, and both with `--strict`, which fail; `enrich` before it
/// writes anything.
#[track_caller]
fn warned(project: &Project, texts: &[&str]) -> Said {
    project.run(&["check", "."]).ended(0).out_has(texts);
    let said = project.run(&["enrich", "."]).ended(0).err_has(texts);
    for text in texts {
        assert_eq!(
            said.err.matches(text).count(),
            1,
            "told once:\n{}",
            said.err
        );
    }
    let strict = project.run(&["check", ".", "--strict"]).ended(1);
    strict
        .out_has(texts)
        .err_has(&["which --strict treats as errors"]);
    let strict = project.run(&["enrich", ".", "--strict"]).ended(1);
    assert_eq!(strict.out, "");
    strict.err_has(&["./models/e.oml"]).err_has(texts)
}

#[test]
fn text_where_a_time_is_expected() {
    let project = project("t : chars = read(service) ;\ns = @t | Time::to_ts ;\n");
    let said = project.run(&["check", "."]).ended(0);
    said.out_has(&[
        "this value is text, which the function leaves unchanged",
        "./models/e.oml:5:10",
        "Time::parse | Time::to_ts",
    ]);
}

#[test]
fn a_format_that_is_not_one() {
    let project = project("t = read(service) | Time::parse('%Y-%m-%E') ;\n");
    let said = project.run(&["check", "."]).ended(1);
    said.err_has(&[
        "`%Y-%m-%E` is not an argument for `Time::parse`",
        "./models/e.oml:4:34",
        "──",
    ]);
}

#[test]
fn a_range_of_addresses_in_text() {
    let project = project(RANGE);
    warned(
        &project,
        &[
            "`column_1` and `column_2` hold addresses as text",
            "write `ip4_between(read(ip), column_1, column_2)`",
        ],
    );
    project.run(&["check", "."]).ended(0).out_has(&[
        "  lookup 4:1: sqlite, full scan of geo, 2 rows",
        "derived: create table \"geo\"",
    ]);
    let sql = "select column_3 from geo where :ip between column_1 and column_2";
    project.run(&["explain", ".", sql]).ended(0).out_has(&[
        "sqlite: its bounds are addresses in text",
        "\n  full scan of geo, 2 rows\nwarning: ",
        "\n  help: write `ip4_between(:ip, column_1, column_2)`",
    ]);
    // The suggested line is correct and causes no warning.
    project.write(
        "models/e.oml",
        "name : e\nrule : /*\n---\n\
         cc = select column_3 from geo where ip4_between(read(ip), column_1, column_2) ;\n",
    );
    let said = project.run(&["enrich", ".", "--strict"]).ended(0);
    assert_eq!(said.out, "{\"cc\":\"LAN\"}\n".repeat(3));
    assert!(!said.err.contains("WARN"), "{}", said.err);
    let said = project.run(&["check", ".", "--strict"]).ended(0);
    said.out_has(&["  lookup 4:1: interval index of geo(column_1, column_2)"]);
}

#[test]
fn a_forgotten_read() {
    let project = project("owner = select column_2 from svc where column_1 = column_1 ;\n");
    warned(&project, &["`column_1` is compared with itself"]);
}

#[test]
fn a_lookup_without_a_parameter() {
    let no_parameter = project("owner = select column_2 from svc where column_1 = 'b' ;\n");
    warned(
        &no_parameter,
        &["this lookup has no parameter, so every event gets the same rows"],
    );
    // A constant with an explicit type is intended.
    let constant = project("owner = select column_2 from svc where column_1 = chars(b) ;\n");
    let said = constant.run(&["enrich", ".", "--strict"]).ended(0);
    assert_eq!(said.out, "{\"owner\":\"bob\"}\n".repeat(3));
}

#[test]
fn lookups_that_are_served() {
    let project = project("x = read(service) ;\n");
    let config = project.read("knowdb.toml");
    let lookup = "[lookups.cc]\nsql = 'select column_3 from geo where :ip between column_1 and \
                  column_2'\n[lookups.all]\nsql = 'select column_2 from svc'\nmany = true\n";
    project.write("knowdb.toml", &format!("{config}{lookup}"));
    let texts = [
        "lookup all(): sqlite, full scan of svc, 2 rows",
        "lookup cc(ip any): sqlite, full scan of geo, 2 rows",
        "\n  warning: `column_1` and `column_2` hold addresses as text",
        "\n    help: write `ip4_between(:ip, column_1, column_2)`",
    ];
    project.run(&["check", "."]).ended(0).out_has(&texts);
    let strict = project.run(&["check", ".", "--strict"]).ended(1);
    strict.err_has(&["1 warning about a lookup, which --strict treats as errors"]);
    project.write("knowdb.toml", &format!("{config}strict = true\n{lookup}"));
    project.run(&["check", "."]).ended(1);
}

/// A column that a lookup compares by `=` has an index, so that SQLite does not scan the table.
#[test]
fn derived_tables_have_indexes_for_lookups() {
    let project = project(
        "a = select upper(column_2) from svc where column_1 = read(service) ;\n\
         b = select cc from (select column_3 as cc from geo where column_2 = read(ip)) ;\n",
    );
    let config = project.read("knowdb.toml");
    let lookup = "[lookups.cc]\nsql = 'select upper(column_3) from geo where column_3 = :cc'\n";
    project.write("knowdb.toml", &format!("{config}{lookup}"));
    project.run(&["check", "."]).ended(0).out_has(&[
        "  indexes for its lookups: column_2, column_3\n",
        "  indexes for its lookups: column_1\n",
        "  lookup 4:1: sqlite, index of svc (column_1=?)",
        "  lookup 5:1: sqlite, index of geo (column_2=?)",
        "lookup cc(cc any): sqlite, index of geo (column_3=?)",
    ]);
}

#[test]
fn scans_of_large_tables_are_told_once() {
    let project = project(
        "a = select column_2 from svc where lower(column_1) = read(service) ;\n\
         b = select column_2 from svc where column_1 = read(service) ;\n",
    );
    let rows = |count: usize| -> String { (0..count).map(|row| format!("{row},x\n")).collect() };
    project.write("svc/data.csv", &rows(10_001));
    project.run(&["check", "."]).ended(0).out_has(&[
        "  lookup 4:1: sqlite, full scan of svc, 10,001 rows",
        "  lookup 5:1: hash index of svc(column_1)",
    ]);
    let said = project.run(&["enrich", ".", "--strict"]).ended(0);
    let told = "each lookup scans the whole table svc";
    assert_eq!(said.err.matches(told).count(), 1, "{}", said.err);
    said.err_has(&["./models/e.oml:4:1", "10001"]);
    project.write("svc/data.csv", &rows(10_000));
    let said = project.run(&["enrich", "."]).ended(0);
    assert!(!said.err.contains(told), "{}", said.err);
}

/// Nothing fails with the wrong delimiter: each event, or row, is one field.
#[test]
fn issue_12_another_delimiter_in_a_header_is_told_once() {
    let project = project("x = read(ip) ;\n");
    project.write("knowdb.toml", "version = 2\n[[tables]]\nname = 'svc'\n");
    project.write("svc/data.csv", "service;owner\na;ann\n");
    for file in ["one.csv", "two.csv"] {
        project.write(file, "ip\tservice\n10.9.0.1\tb\n");
    }
    let input = ["enrich", ".", "--format", "csv", "one.csv", "two.csv"];
    let said = project.run(&input).ended(0);
    for told in [
        "contains a tab; if a tab is the delimiter, set `--option delimiter=tab`",
        "contains ';'; if ';' is the delimiter, set `csv.delimiter = ",
    ] {
        assert_eq!(said.err.matches(told).count(), 1, "{}", said.err);
    }
    let said = project.run(&["check", "."]).ended(0);
    said.err_has(&["contains ';'"]);
    project.write(
        "knowdb.toml",
        "version = 2\n[[tables]]\nname = 'svc'\ncsv.delimiter = ';'\n",
    );
    let said = project.run(&[&input[..], &["--option", "delimiter=tab"]].concat());
    let said = said.ended(0);
    assert!(!said.err.contains("the header has"), "{}", said.err);
    assert_eq!(said.out, "{\"x\":\"10.9.0.1\"}\n".repeat(2));
}

#[test]
fn issue_12_a_range_behind_a_common_table_expression() {
    let project = project("x = read(service) ;\n");
    let config = project.read("knowdb.toml");
    let lookup = "[lookups.cc]\nsql = 'with g(lo, hi, cc) as (select * from geo) select cc from g \
                  where :ip between trim(lo) and trim(hi)'\n";
    project.write("knowdb.toml", &format!("{config}{lookup}"));
    let strict = project.run(&["check", ".", "--strict"]).ended(1);
    strict.err_has(&["1 warning about a lookup, which --strict treats as errors"]);
}

#[test]
fn keys_with_several_rows_where_one_is_taken() {
    let project = project("n = select column_2 from svc where column_1 = read(service) ;\n");
    let expected = "1 key (column_1) has several rows, such as \"b\" with 2, and a lookup takes the first \
                    one; remove the others, or define which by order by";
    std::fs::write(project.file("svc/data.csv"), "a,ann\nb,bob\nb,ben\n").unwrap();
    for arguments in [&["check", "."][..], &["enrich", "."]] {
        let said = project.run(arguments).ended(0);
        assert_eq!(said.err.matches(expected).count(), 1, "{}", said.err);
    }
    std::fs::write(project.file("svc/data.csv"), "a,ann\nb,bob\n").unwrap();
    let said = project.run(&["check", "."]).ended(0);
    assert!(!said.err.contains("several rows"), "{}", said.err);
}
