//! Tables whose rows are in several files.

use super::*;

const NAME: &str = "[[tables]]\nname = 't'\ndata_file = 'parts/*.csv'\n";

/// A folder with a table of these files in `t/parts`; its SQL is derived.
fn folder(config: &str, files: &[(&str, &str)]) -> Folder {
    let folder = Folder(tempfile::tempdir().unwrap());
    let config = match config.contains("[[tables]]") {
        true => config.to_owned(),
        false => format!("{NAME}{config}"),
    };
    folder.write("knowdb.toml", format!("version = 2\n{config}"));
    for (name, text) in files {
        folder.write(&format!("t/parts/{name}"), text);
    }
    folder
}

fn check(config: &str, files: &[(&str, &str)], expected: &str) {
    let said = folder(config, files).select("select * from t order by rowid");
    assert_eq!(said, expected, "{config} {files:?}");
}

#[test]
fn rows_are_read_in_the_order_of_the_names() {
    let files = [
        ("b.csv", "a,b\n3,z\n"),
        ("a.csv", "a,b\n1,x\n2,y\n"),
        ("c.txt", "other"),
    ];
    check("", &files, r#"1,"x" 2,"y" 3,"z""#);
    // With columns by name, the order of the columns may differ.
    let files = [("a.csv", "a,b\n1,x\n"), ("b.csv", "b,c,a\ny,0,2\n")];
    check("columns.by_header = ['b', 'a']\n", &files, r#""x",1 "y",2"#);
    // Types are those of all files.
    let files = [("a.csv", "a\n1\n"), ("b.csv", "a\nx\n")];
    check("", &files, r#""1" "x""#);
    // Without a header, a file may be empty.
    let config = format!("[csv]\nhas_header = false\n{NAME}");
    let files = [
        ("a.csv", ""),
        ("b.csv", "1,2\n"),
        ("c.csv", "\n"),
        ("d.csv", "3,4\n"),
    ];
    check(&config, &files, "1,2 3,4");
}

#[test]
fn compressed_files_and_json_lines_may_be_mixed_in_their_kind() {
    let folder = folder(
        "[[tables]]\nname = 't'\ndata_file = 'parts/*.jsonl*'\n",
        &[
            ("a.jsonl", "{\"a\":1}\n"),
            ("c.jsonl", "{\"b\":\"x\"}\n{\"a\":2}\n"),
        ],
    );
    let packed = zstd::encode_all(&b"{\"a\":7,\"c\":null}\n"[..], 1).unwrap();
    folder.write("t/parts/b.jsonl.zst", packed);
    assert_eq!(
        folder.select("select a, c, b from t"),
        "1,NULL,NULL 7,NULL,NULL NULL,NULL,\"x\" 2,NULL,NULL"
    );
}

#[test]
fn mistakes_name_the_file() {
    let by_name = "columns.by_header = ['a', 'b']\n";
    let good = ("a.csv", "a,b\n1,2\n");
    for (config, files, expected) in [
        (
            "",
            &[good, ("b.csv", "a,c\n3,4\n")][..],
            "Data: t/parts/b.csv: the columns are: a, c; those of t/parts/a.csv are: a, b; all files \
             of table \"t\" must have the same ones",
        ),
        (
            "",
            &[good, ("b.csv", "")],
            "Data: t/parts/b.csv: the file is empty, but each file of table \"t\" must have a header",
        ),
        (
            "",
            &[("0.csv", ""), good],
            "Data: t/parts/0.csv: the file is empty, but each file of table \"t\" must have a header",
        ),
        (
            by_name,
            &[good, ("b.csv", "a,c\n3,4\n")],
            "Data: t/parts/b.csv:1: there is no column \"b\", which table \"t\" requires; the columns \
             are: a, c",
        ),
        (
            by_name,
            &[good, ("b.csv", "a,b\n3,4\n5\n")],
            "Data: t/parts/b.csv:3: 1 field where the first record has 2",
        ),
        (
            by_name,
            &[good, ("b.csv", "PK\u{3}\u{4}")],
            "Data: t/parts/b.csv: this is zip, as files of Excel and OpenDocument are, but table \"t\" \
             must be CSV or JSON lines; unpack it, or export the sheet as CSV",
        ),
        (
            by_name,
            &[],
            "Environment: t/parts/*.csv: no file matches this pattern; set the data_file of table \
             \"t\", or enabled = false",
        ),
    ] {
        check(config, files, expected);
    }
    check(
        "[[tables]]\nname = 't'\ndata_file = 'parts/*'\n",
        &[good, ("b.jsonl.gz", "")],
        "Data: t/parts/b.jsonl.gz: the name is that of JSON lines, but the rows of table \"t\" are CSV; \
         end its data_file with the suffix of the files",
    );
    for (file, expected) in [
        (
            "a/**/b.csv",
            "must not contain **; write a level of folders as */",
        ),
        (
            "a[.csv",
            "is not a pattern; write [[] for a bracket, [*] and [?] for the others",
        ),
    ] {
        let config = format!("[[tables]]\nname = 't'\ndata_file = '{file}'\n");
        check(
            &config,
            &[],
            &format!("Config: knowdb.toml:4: tables.data_file {expected}"),
        );
    }
}

#[test]
fn skipped_rows_and_notes_name_the_file() {
    let files = [
        ("a.csv", "a,b\n1,1\n2\n"),
        ("b.csv", "a,b\n2,2\n3,3\n\n4,x\n"),
    ];
    let config = format!("{SKIP}{NAME}");
    let folder = folder(&config, &files);
    let (store, report) = folder.load().unwrap();
    assert_eq!(rows(&store, "select count(*) from t"), "4");
    let root = format!("{}/", folder.0.path().display());
    let table = &report.tables[0];
    assert_eq!(table.skipped[0].place.replace(&root, ""), "t/parts/a.csv:3");
    assert_eq!(
        table.warnings[0].replace(&root, ""),
        "column \"b\" is text: line 5 of t/parts/b.csv is not a number; correct it, or write create.sql"
    );
}

#[test]
fn a_file_whose_name_looks_like_a_pattern_is_read() {
    let folder = folder(
        "[[tables]]\nname = 't'\ndata_file = 'parts/[a].csv'\n",
        &[("[a].csv", "a\n1\n"), ("a.csv", "a\n2\n")],
    );
    assert_eq!(folder.select("select a from t"), "1");
    folder.remove("t/parts/[a].csv");
    assert_eq!(folder.select("select a from t"), "2");
}

#[test]
fn progress_reaches_the_size_of_all_files() {
    struct Last(RefCell<(u64, u64)>);
    impl Progress for Last {
        fn advanced(&self, progress: LoadProgress<'_>) {
            let (bytes_read, bytes_total) = (progress.bytes_read, progress.bytes_total);
            assert!(bytes_read <= bytes_total, "{bytes_read} of {bytes_total}");
            *self.0.borrow_mut() = (bytes_read, bytes_total);
        }
    }
    let rows: String = (0..10_000).map(|row| format!("{row}\n")).collect();
    let (first, second) = (format!("a\n{rows}"), format!("a\n{rows}7\n"));
    let folder = folder("", &[("a.csv", &first), ("b.csv", &second)]);
    let last = Last(RefCell::default());
    load(
        &Config::open(folder.0.path(), &[]).unwrap(),
        &[],
        &last,
        None,
    )
    .unwrap();
    let size = (first.len() + second.len()) as u64;
    assert_eq!(last.0.into_inner(), (size, size));
}

#[test]
fn a_pattern_matches_a_limited_number_of_files() {
    let folder = folder("", &[("a.csv", "a\n1\n")]);
    for number in 0..10_000 {
        folder.write(&format!("t/parts/{number}.csv"), "a\n");
    }
    assert_eq!(
        folder.select("select * from t"),
        "LimitReached: t/parts/*.csv: more than 10000 files match this pattern; join them, or write a \
         narrower one"
    );
    folder.remove("t/parts/0.csv");
    assert_eq!(folder.select("select * from t"), "1");
}
