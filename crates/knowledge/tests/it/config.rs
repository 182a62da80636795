//! Valid `knowdb.toml` files, and the errors about invalid ones.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use lookaside_knowledge::{
    Columns, Config, ConfigOptions, ErrorKind, IntranetMode, Knowledge, OnError, Result,
};
use tempfile::TempDir;

fn folder(text: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("knowdb.toml"), text).unwrap();
    folder
}

fn open(text: &str) -> Result<Config> {
    let variables = HashMap::from([("rows".to_owned(), "500".to_owned())]);
    let options = ConfigOptions {
        foreign_sections: &["enrich"],
        variables: Some(&variables),
    };
    Config::open_with(folder(text.as_bytes()).path(), &options)
}

/// The error message without the folder before the file name.
fn refusal(text: &[u8]) -> String {
    let folder = folder(text);
    let error = Config::open(folder.path(), &["enrich"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let prefix = format!("{}/", folder.path().display());
    error.to_string().replace(&prefix, "")
}

fn check(text: &str, expected: &str) {
    assert_eq!(refusal(text.as_bytes()), expected, "{text}");
}

/// As [`check`], for text after the line that every file has.
fn check_below(text: &str, expected: &str) {
    check(&format!("version = 2\n{text}"), expected);
}

#[test]
fn what_is_not_said_has_a_default() {
    let config = open("version = 2\n[[tables]]\nname = 't'\n").unwrap();
    assert!(config.load.transaction);
    assert_eq!(
        (config.load.batch_size, config.load.on_error),
        (2000, OnError::Fail)
    );
    assert!(config.csv.has_header && config.csv.trim);
    assert_eq!(
        (config.csv.delimiter, config.csv.encoding.name()),
        (b',', "UTF-8")
    );
    assert!(config.cache.enabled);
    assert_eq!(
        (config.cache.capacity, config.cache.ttl),
        (1024, Duration::from_secs(30))
    );
    assert_eq!(config.intranet_nets, None);
    let table = &config.tables[0];
    assert_eq!(table.columns, Columns::All);
    assert_eq!(table.folder, config.folder().join("t"));
    assert_eq!(table.data_file, config.folder().join("t/data.csv"));
    assert_eq!(
        (table.expected_rows.min, table.expected_rows.max),
        (None, None)
    );
    assert!(table.enabled);
    assert_eq!((table.refresh, table.line), (None, 2));
}

#[test]
fn all_that_can_be_said_is_read() {
    let text = r#"
version = 2
base_dir = "base"

[default]
transaction = false
batch_size = 0
on_error = "skip"

[csv]
has_header = true
delimiter = "\t"
encoding = "GBK"
trim = false

[cache]
enabled = false
capacity = 0x10
capacity_bytes = 4096
ttl_ms = 0

[local]
query_timeout_ms = 0

[intranet_nets]
enable = true
mode = "replace"
nets = ["10.1.2.3/8", "fd00::/8"]

[[tables]]
name = "a"
dir = "../x"
data_file = "/data/a.csv.zst"
columns.by_header = ["k", "v"]
expected_rows = { min = 1, max = ${ROWS} }
refresh_ms = 60_000

[[tables]]
name = "A"
enabled = false
columns = { by_index = [2, 0] }

[enrich]
format = "access"
output.path = "${NO_SUCH_VARIABLE:out.jsonl}"
"#;
    let config = open(text).unwrap();
    assert!(!config.load.transaction);
    assert_eq!(
        (config.load.batch_size, config.load.on_error),
        (1, OnError::Skip)
    );
    assert_eq!(
        (config.csv.delimiter, config.csv.encoding.name()),
        (b'\t', "GBK")
    );
    assert!(!config.csv.trim && !config.cache.enabled);
    assert_eq!(
        (config.cache.capacity, config.cache.capacity_bytes),
        (16, 4096)
    );
    assert_eq!(config.cache.ttl, Duration::from_millis(1));
    assert_eq!(config.local.query_timeout, None);
    let intranet = config.intranet_nets.as_ref().unwrap();
    assert_eq!(intranet.mode, IntranetMode::Replace);
    let nets: Vec<String> = intranet.nets.iter().map(ToString::to_string).collect();
    assert_eq!(nets, ["10.0.0.0/8", "fd00::/8"]);
    let [a, b] = &config.tables[..] else {
        panic!("two tables")
    };
    assert_eq!(a.folder, config.folder().join("base/../x"));
    assert_eq!(a.data_file.to_str(), Some("/data/a.csv.zst"));
    assert_eq!(a.columns, Columns::ByHeader(vec!["k".into(), "v".into()]));
    assert_eq!(
        (a.expected_rows.min, a.expected_rows.max),
        (Some(1), Some(500))
    );
    assert_eq!(a.refresh, Some(Duration::from_secs(60)));
    assert_eq!(b.columns, Columns::ByIndex(vec![2, 0]));
    assert_eq!(config.enabled_tables().count(), 1);
    let enrich = config.section("enrich").unwrap();
    assert_eq!(enrich["output"]["path"].as_str(), Some("out.jsonl"));
    assert_eq!(config.section_line("enrich"), Some(43));
    assert_eq!(config.section_line("enrich.output.path"), Some(45));
    assert_eq!(config.section("server"), None);
}

#[test]
fn switched_off_networks_are_not_there() {
    let config = open("version = 2\n[intranet_nets]\nenabled = false\nnets = ['10.0.0.0/8']\n");
    assert_eq!(config.unwrap().intranet_nets, None);
}

#[test]
fn versions() {
    check("", "knowdb.toml:1: version is missing; write version = 2");
    check("version = 1", "knowdb.toml:1: version must be 2, not 1");
    check(
        "\nversion = -2",
        "knowdb.toml:2: version must be a non-negative integer, not -2",
    );
    check(
        "version = \"2\"",
        "knowdb.toml:1: version must be a non-negative integer, not a string",
    );
}

#[test]
fn unknown_keys_name_the_nearest_known_one() {
    check_below(
        "base_dri = '.'",
        "knowdb.toml:2: unknown key base_dri; did you mean base_dir?",
    );
    check_below(
        "[cache]\nenabled = true\nttl = 5",
        "knowdb.toml:4: unknown key cache.ttl; did you mean ttl_ms?",
    );
    check_below(
        "[default]\nqq = 5",
        "knowdb.toml:3: unknown key default.qq; the known keys are transaction, batch_size, on_error, \
         compiled",
    );
    check_below(
        "[[tables]]\nname = 't'\n[[tables]]\nname = 'u'\nexpected_row = {}",
        "knowdb.toml:6: unknown key tables.expected_row; did you mean expected_rows?",
    );
    check_below(
        "[[tables]]\nname = 't'\ncolumns.by_name = ['a']",
        "knowdb.toml:4: unknown key columns.by_name; did you mean by_index?",
    );
    check_below(
        "[enrcih]\n",
        "knowdb.toml:2: unknown key enrcih; did you mean enrich?",
    );
}

#[test]
fn wrong_types_and_values_name_their_key() {
    check_below(
        "[cache]\ncapacity = \"10\"",
        "knowdb.toml:3: cache.capacity must be a non-negative integer, not a string",
    );
    check_below(
        "[cache]\ncapacity_bytes = 64000000000000000000",
        "knowdb.toml:3: cache.capacity_bytes must be at most 9223372036854775807, not \
         64000000000000000000",
    );
    check_below("cache = 5", "knowdb.toml:2: cache must be a table, not 5");
    check_below(
        "[default]\non_error = \"ignore\"",
        "knowdb.toml:3: default.on_error must be \"fail\" or \"skip\", not \"ignore\"",
    );
    check_below(
        "[csv]\ntrim = 1",
        "knowdb.toml:3: csv.trim must be true or false, not 1",
    );
    for delimiter in ["||", "", "\u{b7}"] {
        check_below(
            &format!("[csv]\ndelimiter = '{delimiter}'"),
            "knowdb.toml:3: csv.delimiter must be one ASCII character, such as \",\", \";\", \"|\" \
             or \"\\t\"",
        );
    }
    check_below(
        "[csv]\ndelimiter = '\"'",
        "knowdb.toml:3: csv.delimiter must not be a quote or a line break",
    );
    check_below(
        "[csv]\nencoding = 'utf8x'",
        "knowdb.toml:3: csv.encoding \"utf8x\" is unknown; use a label of the WHATWG encoding \
         standard, such as \"utf-8\", \"windows-1252\", \"gbk\" or \"utf-16le\"",
    );
    check_below(
        "[intranet_nets]\nnets = [\n'10.0.0.0/8', '10.0.0.0/33']",
        "knowdb.toml:3: intranet_nets.nets contains \"10.0.0.0/33\", which is not a network; write \
         \"10.0.0.0/8\"",
    );
    check_below(
        "[intranet_nets]\nenable = true\nenabled = true",
        "knowdb.toml:3: intranet_nets.enable is set together with enabled, which has the same meaning; keep one of them",
    );
}

#[test]
fn tables_say_what_is_wrong_with_them() {
    check_below(
        "[tables]\nname = 't'",
        "knowdb.toml:2: tables must be a list of tables, written [[tables]], not a table",
    );
    check_below(
        "[[tables]]\ndir = 't'",
        "knowdb.toml:2: tables.name is missing; write name = \"…\"",
    );
    check_below(
        "[[tables]]\nname = 'a;b'",
        "knowdb.toml:3: tables.name \"a;b\" cannot be a table's name",
    );
    check_below(
        "[[tables]]\nname = 't'\n\n[[tables]]\ndir = 'x'\nname = 'T'",
        "knowdb.toml:7: tables.name \"T\" is already the name of the table in line 2; rename or disable one of them",
    );
    check_below(
        "[csv]\nhas_header = false\n[[tables]]\nname = 't'\ncolumns.by_header = ['a']",
        "knowdb.toml:6: columns.by_header needs a header, and csv.has_header is false; use by_index",
    );
    check_below(
        "[[tables]]\nname = 't'\ncolumns.by_header = ['a']\ncolumns.by_index = [0]",
        "knowdb.toml:5: columns.by_index is set together with by_header; keep one of them",
    );
    check_below(
        "[[tables]]\nname = 't'\ncolumns.by_header = []",
        "knowdb.toml:4: columns.by_header and columns.by_index are both empty; omit columns to use \
         all of them",
    );
    check_below(
        "[[tables]]\nname = 't'\ncolumns.by_index = [0, -1]",
        "knowdb.toml:4: columns.by_index must be a list of non-negative integers",
    );
    check_below(
        "[[tables]]\nname = 't'\nexpected_rows = { min = 2, max = 1 }",
        "knowdb.toml:4: expected_rows.min is 2, above max, which is 1",
    );
    check_below(
        "[[tables]]\nname = 't'\nrefresh_ms = 0",
        "knowdb.toml:4: tables.refresh_ms must be at least 1",
    );
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    check_below(
        "[fun.risk]\ncall = 'get'",
        "knowdb.toml:2: fun is not supported; remove [fun], and look the values up in a table",
    );
    check_below(
        "[provider.redis]\nconnection_uri = 'x'",
        "knowdb.toml:2: provider.redis is not supported; remove it, and look the values up in a \
         table or a SQL database",
    );
}

#[test]
fn text_that_is_no_toml_names_its_line() {
    check(
        "version = 2\n[csv\n",
        "knowdb.toml:2: unclosed table, expected `]`",
    );
    for (text, expected) in [
        (
            "version = 2\nversion = 2\n",
            "knowdb.toml:2: duplicate key \"version\"",
        ),
        (
            "[cache]\nttl_ms = 1\n'ttl_ms' = 2\n",
            "knowdb.toml:3: duplicate key \"ttl_ms\"",
        ),
        (
            "[lookups.a]\n[lookups.b]\n[lookups.a]\n",
            "knowdb.toml:3: duplicate key \"a\"",
        ),
    ] {
        check(text, expected);
    }
    assert_eq!(
        refusal(b"version = 2\n# \xff\n"),
        "knowdb.toml:2: not UTF-8; save the file in this encoding"
    );
    assert!(open("\u{feff}version = 2\n").is_ok());
}

#[test]
fn variables_name_their_line() {
    check_below(
        "# ${IN_A_COMMENT}\nbase_dir = '${NO_SUCH_VARIABLE}'",
        "knowdb.toml:3: variable NO_SUCH_VARIABLE is not set; set it or write \
         ${NO_SUCH_VARIABLE:default}",
    );
    // The process environment is used, too.
    let config = open("version = 2\n[[tables]]\nname = 't'\ndata_file = '${CARGO_PKG_NAME}.csv'\n");
    let data_file = config.unwrap().tables[0].data_file.clone();
    assert!(
        data_file.ends_with("lookaside-knowledge.csv"),
        "{}",
        data_file.display()
    );
}

#[test]
fn a_file_is_found_by_itself_and_by_its_folder() {
    let folder = folder(b"version = 2\n");
    let file = folder.path().join("knowdb.toml");
    assert_eq!(Config::open(folder.path(), &[]).unwrap().file, file);
    assert_eq!(Config::open(&file, &[]).unwrap().file, file);
    let missing = Config::open(folder.path().join("missing"), &[]).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Environment);
}

#[test]
fn a_folder_without_the_file_is_told_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let message = |path| Config::open(path, &[]).unwrap_err().to_string();
    assert_eq!(
        message(folder.path()),
        format!(
            "{place}: there is no knowdb.toml; create {place}/knowdb.toml with the lines: version = 2; \
             [[tables]], name = \"…\", data_file = \"…\""
        )
    );
    for table in ["users", "asn"] {
        fs::create_dir(folder.path().join(table)).unwrap();
        fs::write(folder.path().join(table).join("data.csv"), "a\n").unwrap();
    }
    assert_eq!(
        message(folder.path()),
        format!(
            "{place}: there is no knowdb.toml; create {place}/knowdb.toml with the lines: version = 2; \
             [[tables]], name = \"asn\"; [[tables]], name = \"users\""
        )
    );
    assert!(message(&folder.path().join("asn/data.csv")).contains("no knowdb.toml"));
}

#[test]
fn a_table_may_have_its_own_csv_and_keeps_what_it_does_not_say() {
    let config = open(
        "version = 2\n[csv]\ntrim = false\n[[tables]]\nname = 'a'\ncsv.delimiter = ';'\n\
         [[tables]]\nname = 'b'\n[[tables]]\nname = 'c'\n[tables.csv]\nhas_header = false\n",
    )
    .unwrap();
    let read = config.tables.iter().map(|table| {
        let csv = config.csv_of(table);
        (csv.has_header, csv.delimiter, csv.trim)
    });
    let expected = [
        (true, b';', false),
        (true, b',', false),
        (false, b',', false),
    ];
    assert_eq!(read.collect::<Vec<_>>(), expected);
    check_below(
        "[[tables]]\nname = 'a'\ncsv.delimeter = ';'\n",
        "knowdb.toml:4: unknown key csv.delimeter; did you mean delimiter?",
    );
    check_below(
        "[[tables]]\nname = 'a'\ncsv.has_header = false\ncolumns.by_header = ['x']\n",
        "knowdb.toml:5: columns.by_header needs a header, and csv.has_header is false; use by_index",
    );
}

#[test]
fn tables_of_different_delimiters_load_side_by_side() {
    let folder = folder(
        b"version = 2\n[[tables]]\nname = 'a'\ncsv.delimiter = ';'\n[[tables]]\nname = 'b'\n",
    );
    for (table, data) in [("a", "x;y\n1;2\n"), ("b", "x,y\n3,4\n")] {
        fs::create_dir(folder.path().join(table)).unwrap();
        fs::write(folder.path().join(table).join("data.csv"), data).unwrap();
    }
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let row = knowledge.query_first("select a.y, b.y as z from a, b", ());
    let row = row.unwrap().unwrap();
    assert_eq!(row.value("y"), Some(&2.into()));
    assert_eq!(row.value("z"), Some(&4.into()));
}

#[test]
fn a_folder_without_its_entry_is_named_with_the_entry() {
    let folder = folder(b"version = 2\nbase_dir = 'in'\n");
    fs::create_dir_all(folder.path().join("in/users")).unwrap();
    fs::write(folder.path().join("in/users/data.csv"), "id\n1\n").unwrap();
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let message = |sql| knowledge.query_first(sql, ()).unwrap_err().to_string();
    let hint = "add to knowdb.toml: [[tables]], name = \"users\"";
    assert!(message("select * from users").ends_with(hint));
    assert!(message("select * from main.users").ends_with(hint));
    assert!(message("select * from nobody").ends_with("there is none"));
}

#[test]
fn an_engine_opens_the_folder_of_a_whole_project() {
    let project = "[enrich]\nmodels = 'models'\n[server]\nbind = 'x'\n[lookups]\nby = 1\n";
    let open = |text: &str| {
        let folder = folder(format!("version = 2\n{text}").as_bytes());
        Knowledge::open(folder.path())
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    assert_eq!(open(project), Ok(()));
    let error = open(&format!("{project}[enrihc]\nx = 1\n")).unwrap_err();
    assert!(
        error.ends_with("unknown key enrihc; did you mean enrich?"),
        "{error}"
    );
    let error = open(&format!("{project}[mine]\nx = 1\n")).unwrap_err();
    assert!(
        error.contains("unknown key mine; the known keys are version"),
        "{error}"
    );
    // A caller's list replaces the default list.
    check_below(
        "[server]\nbind = 'x'\n",
        "knowdb.toml:2: unknown key server; the known keys are \
        version, base_dir, default, csv, cache, local, tables, first_of, provider, intranet_nets, enrich",
    );
}
