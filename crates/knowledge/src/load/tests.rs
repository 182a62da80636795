//! Loads of small folders: their rows, reports and errors.

mod changes;
#[cfg(feature = "parquet")]
mod columnar;
mod compiled;
mod delimiter;
mod direct;
mod duplicates;
mod formats;
mod json_lines;
mod mmdb;
mod mutated;
mod patterns;

use std::cell::RefCell;
use std::error::Error as _;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::sync::Arc;

use tempfile::TempDir;

use super::records::NextRecord;
use super::*;
use crate::databases::Database;

const CREATE: &str = "create table {table} (a, b)";
const INSERT: &str = "insert into {table} values (?1, ?2)";
const TABLE: &str = "[[tables]]\nname = 't'\ncolumns.by_header = ['a', 'b']\n";
const SKIP: &str = "[default]\non_error = 'skip'\n";

/// A KnowDB folder with one table `t(a, b)` unless a test writes other files.
struct Folder(TempDir);

impl Folder {
    fn new(config: &str, data: impl AsRef<[u8]>) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("knowdb.toml", format!("version = 2\n{config}"));
        folder.write("t/create.sql", CREATE);
        folder.write("t/insert.sql", INSERT);
        folder.write("t/data.csv", data);
        folder
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.0.path().join(path)).unwrap();
    }

    fn load(&self) -> Result<(Arc<Database>, LoadReport)> {
        load_all(&Config::open(self.0.path(), &[])?, &[])
    }

    /// The rows that `sql` finds, fields quoted as SQL, or the error with its causes.
    fn select(&self, sql: &str) -> String {
        match self.load() {
            Ok((store, _)) => rows(&store, sql),
            Err(error) => self.chain(&error),
        }
    }

    fn chain(&self, error: &Error) -> String {
        let mut out = format!("{:?}: {error}", error.kind());
        if let Some(cause) = error.source() {
            write!(out, " > {cause}").unwrap();
        }
        out.replace(&format!("{}/", self.0.path().display()), "")
    }
}

/// Loads all tables, and copies those to SQLite that were loaded directly.
fn load_all(config: &Config, statements: &[UsedStatement]) -> Result<(Arc<Database>, LoadReport)> {
    let loaded = load(config, statements, &NoProgress, None)?;
    Ok((loaded.databases.with_all()?, loaded.report))
}

fn rows(database: &Database, sql: &str) -> String {
    let reader = database.store.reader().unwrap();
    let mut statement = reader.prepare(sql).unwrap();
    let width = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut out = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let fields: Vec<String> = (0..width)
            .map(|index| match row.get_ref(index).unwrap() {
                rusqlite::types::ValueRef::Null => "NULL".to_owned(),
                rusqlite::types::ValueRef::Integer(int) => int.to_string(),
                rusqlite::types::ValueRef::Real(float) => format!("{float:?}"),
                rusqlite::types::ValueRef::Text(text) => {
                    format!("{:?}", std::str::from_utf8(text).unwrap())
                }
                rusqlite::types::ValueRef::Blob(bytes) => format!("{bytes:?}"),
            })
            .collect();
        out.push(fields.join(","));
    }
    out.join(" ")
}

/// A statement of which the first row is taken.
fn used(sql: &str) -> UsedStatement {
    UsedStatement {
        sql: sql.to_owned(),
        takes_all_rows: false,
    }
}

/// The line of a skipped row.
fn line_of(row: &SkippedRow) -> &str {
    let (file, line) = row.place.rsplit_once(':').unwrap();
    assert!(file.ends_with("t/data.csv"), "{file}");
    line
}

fn check(config: &str, data: impl AsRef<[u8]>, expected: &str) {
    let folder = Folder::new(config, data);
    assert_eq!(
        folder.select("select a, b from t order by rowid"),
        expected,
        "{config}"
    );
}

#[test]
fn fields_are_text_and_empty_is_not_null() {
    check(TABLE, "a,b\n1,x\n,\n", r#""1","x" "","""#);
}

#[test]
fn declared_types_convert() {
    let folder = Folder::new(TABLE, "a,b\n1,007\nx,\n");
    folder.write("t/create.sql", "create table {table} (a integer, b text)");
    assert_eq!(folder.select("select a, b from t"), r#"1,"007" "x","""#);
}

#[test]
fn headers_map_by_name() {
    check(TABLE, "b,x,a\n1,2,3\n", r#""3","1""#);
    check(TABLE, " b ,a\t\n1,3\n", r#""3","1""#);
    check(
        "[csv]\ntrim = false\n[[tables]]\nname = 't'\ncolumns.by_header = [' b ', 'a']\n",
        " b ,a\n 1,3 \n",
        r#"" 1","3 ""#,
    );
    check(
        TABLE,
        "a,B\n1,2\n",
        "Data: t/data.csv:1: there is no column \"b\", which table \"t\" requires; the columns are: a, B",
    );
    check(
        TABLE,
        "",
        "Data: t/data.csv: there is no header, but table \"t\" requires column \"a\"",
    );
}

#[test]
fn a_name_twice_in_the_header_matters_only_if_it_is_wanted() {
    check(TABLE, "a,b,c,c\n1,2,3,4\n", r#""1","2""#);
    check(
        TABLE,
        "a,b,b\n1,2,3\n",
        "Data: t/data.csv:1: column \"b\" is named more than once; use columns.by_index",
    );
}

#[test]
fn positions_map_without_a_header() {
    let config = "[csv]\nhas_header = false\n[[tables]]\nname = 't'\ncolumns.by_index = [2, 0]\n";
    check(config, "1,2,3\n4,5,6\n", r#""3","1" "6","4""#);
    check(config, "", "");
    check(
        config,
        "1,2\n",
        "Data: t/data.csv: table \"t\" requires field 2, counted from 0, but records have 2 fields",
    );
    let config = "[[tables]]\nname = 't'\ncolumns.by_index = [1, 0]\n";
    check(config, "a,b\n1,2\n", r#""2","1""#);
}

#[test]
fn lines_end_and_fields_are_quoted_in_every_way() {
    check(TABLE, "a,b\r\n1,2\r\n", r#""1","2""#);
    check(TABLE, "a,b\n1,2", r#""1","2""#);
    check(TABLE, "a,b\n\n1,2\n\n", r#""1","2""#);
    check(TABLE, "\u{feff}a,b\n1,2\n", r#""1","2""#);
    check(TABLE, "a,b\n\"x\ny\",\"q\"\"q,\"\n", r#""x\ny","q\"q,""#);
    // Only ASCII white space is trimmed, inside quotes too.
    check(TABLE, "a,b\n\" x \",\u{3000}y\n", "\"x\",\"\\u{3000}y\"");
    check(
        &format!("[csv]\ndelimiter = \"\\t\"\n{TABLE}"),
        "a\tb\n1,\t2\n",
        r#""1,","2""#,
    );
}

#[test]
fn bad_records_name_their_line() {
    check(
        TABLE,
        "a,b\n\"1\n1\",2\n3\n4,5\n",
        "Data: t/data.csv:4: 1 field where the first record has 2",
    );
    check(
        TABLE,
        b"a,b\n1,2\n3,\xff\n",
        "Data: t/data.csv:3: field 2 is not UTF-8",
    );
    check(
        TABLE,
        b"a,\xff\n1,2\n",
        "Data: t/data.csv:1: field 2 is not UTF-8",
    );
}

#[test]
fn rows_that_sqlite_refuses_name_their_line() {
    let folder = Folder::new(TABLE, "a,b\n1,2\n\n1,3\n");
    folder.write("t/create.sql", "create table {table} (a unique, b)");
    assert_eq!(
        folder.select("select 1"),
        "Data: t/data.csv:4: refused by t/insert.sql > UNIQUE constraint failed: t.a",
    );
}

#[test]
fn skipping_covers_records_and_rows_and_reports_both() {
    for transaction in [true, false] {
        let config = format!("{SKIP}transaction = {transaction}\nbatch_size = 2\n{TABLE}");
        let data = b"a,b\n1,2\n1,3\nx\n4,\xff\n5,6\n7,8\n9,0\n9,1\n";
        let folder = Folder::new(&config, data);
        folder.write("t/create.sql", "create table {table} (a unique, b)");
        let (store, report) = folder.load().unwrap();
        assert_eq!(
            rows(&store, "select a, b from t order by rowid"),
            r#""1","2" "5","6" "7","8" "9","0""#
        );
        let table = &report.tables[0];
        assert_eq!((table.rows, table.skipped_count), (4, 4));
        let skipped: Vec<String> = table
            .skipped
            .iter()
            .map(|row| format!("{}: {}", line_of(row), row.reason))
            .collect();
        assert_eq!(
            skipped,
            [
                "3: UNIQUE constraint failed: t.a",
                "4: 1 field where the first record has 2",
                "5: field 2 is not UTF-8",
                "9: UNIQUE constraint failed: t.a",
            ]
        );
        assert_eq!(table.warnings, ["4 records skipped"]);
    }
}

#[test]
fn a_skipped_row_leaves_nothing_behind() {
    // The first row of each pair is inserted before the second is refused.
    let folder = Folder::new(&format!("{SKIP}{TABLE}"), "a,b\n1,1\n2,x\n3,3\n");
    folder.write(
        "t/create.sql",
        "create table {table} (a, b check (b <> 'x'))",
    );
    folder.write(
        "t/insert.sql",
        "insert into {table} select 'first', 0 union all select ?1, ?2",
    );
    let expected = r#""first",0 "1","1" "first",0 "3","3""#;
    assert_eq!(folder.select("select a, b from t order by rowid"), expected);
}

#[test]
fn a_function_error_is_a_row_error() {
    let folder = Folder::new(&format!("{SKIP}{TABLE}"), "a,b\n1.2.3.4,1\n,2\n");
    folder.write(
        "t/insert.sql",
        "insert into {table} values (ip4_int(nullif(?1, '')), ?2)",
    );
    let (store, report) = folder.load().unwrap();
    assert_eq!(rows(&store, "select * from t"), r#"16909060,"1""#);
    assert_eq!(line_of(&report.tables[0].skipped[0]), "3");
    assert_eq!(
        report.tables[0].skipped[0].reason,
        "ip4_int(): argument 1 must be text"
    );
}

#[test]
fn a_statement_that_undoes_its_batch_cannot_be_skipped() {
    let folder = Folder::new(&format!("{SKIP}{TABLE}"), "a,b\n1,1\n1,2\n");
    folder.write("t/create.sql", "create table {table} (a unique, b)");
    folder.write(
        "t/insert.sql",
        "insert or rollback into {table} values (?1, ?2)",
    );
    assert_eq!(
        folder.select("select 1"),
        "Data: t/data.csv:3: refused by t/insert.sql > UNIQUE constraint failed: t.a",
    );
}

#[test]
fn skipped_rows_are_counted_and_a_few_kept() {
    let folder = Folder::new(
        &format!("{SKIP}{TABLE}"),
        format!("a,b\n{}", "x\n".repeat(500)),
    );
    let (_, report) = folder.load().unwrap();
    assert_eq!(report.tables[0].skipped_count, 500);
    assert_eq!(report.tables[0].skipped.len(), report::SKIPPED_KEPT_MAX);
}

#[test]
fn expected_rows_guard_both_ends() {
    let bounded = |bounds: &str| format!("{TABLE}expected_rows = {{ {bounds} }}\n");
    check(
        &bounded("min = 2, max = 2"),
        "a,b\n1,1\n2,2\n",
        r#""1","1" "2","2""#,
    );
    check(
        &bounded("min = 3"),
        "a,b\n1,1\n2,2\n",
        "Data: t/data.csv: 2 rows, but table \"t\" expects at least 3",
    );
    let (_, report) = Folder::new(&bounded("max = 1"), "a,b\n1,1\n2,2\n")
        .load()
        .unwrap();
    assert_eq!(
        report.tables[0].warnings,
        ["2 rows, and expected_rows.max is 1"]
    );
}

#[test]
fn a_word_among_numbers_is_a_warning_unless_the_type_is_written() {
    let folder = Folder::new("[[tables]]\nname = 't'\n", "a,b\n1,x\n2,y\noops,z\n");
    let warnings = || folder.load().unwrap().1.tables[0].warnings.clone();
    assert_eq!(warnings(), [""; 0]);
    folder.remove("t/create.sql");
    folder.remove("t/insert.sql");
    let expected = "column \"a\" is text: line 4 is not a number; correct it, or \
                    write create.sql";
    assert_eq!(warnings(), [expected]);
}

#[test]
fn batches_of_every_size_load_all_rows() {
    let data: String = (0..10).fold("a,b\n".to_owned(), |data, row| data + &format!("{row},x\n"));
    for size in [0, 1, 3, 5, 10, 11] {
        let folder = Folder::new(&format!("[default]\nbatch_size = {size}\n{TABLE}"), &data);
        assert_eq!(folder.select("select count(*) from t"), "10", "{size}");
    }
}

#[test]
fn made_tables_are_cleaned() {
    let folder = Folder::new(TABLE, "a,b\n1,1\n");
    folder.write(
        "t/create.sql",
        "create table {table} (a, b); insert into {table} values (0, 0)",
    );
    assert_eq!(folder.select("select a, b from t"), r#""1","1""#);
    folder.write("t/clean.sql", "update {table} set a = 'kept'");
    assert_eq!(folder.select("select a, b from t"), r#""kept",0 "1","1""#);
}

#[test]
fn names_replace_their_placeholder_everywhere() {
    let config = "[[tables]]\nname = 'my-table'\ndir = 't'\ncolumns.by_index = [0, 1]\n";
    let folder = Folder::new(config, "a,b\n1,2\n");
    folder.write(
        "t/create.sql",
        "create table \"{table}\" (a, b); create index \"{table}_a\" on \"{table}\"(a)",
    );
    folder.write(
        "t/insert.sql",
        "insert into \"{table}\" values (?1, ?2) -- into {table}\n;\n",
    );
    assert_eq!(
        folder.select("select * from \"my-table\" indexed by \"my-table_a\" where a = '1'"),
        r#""1","2""#
    );
}

#[test]
fn paths_follow_the_file() {
    let config = "base_dir = 'base'\n[[tables]]\nname = 't'\ndir = 'd'\ndata_file = '${DATA:../x.csv}'\ncolumns.by_index = [0, 1]\n";
    let folder = Folder::new(config, "");
    folder.write("base/d/create.sql", CREATE);
    folder.write("base/d/insert.sql", INSERT);
    folder.write("base/x.csv", "a,b\n1,2\n");
    assert_eq!(folder.select("select a, b from t"), r#""1","2""#);
    let elsewhere = tempfile::tempdir().unwrap();
    let absolute = elsewhere.path().join("y.csv");
    fs::write(&absolute, "a,b\n3,4\n").unwrap();
    folder.write(
        "knowdb.toml",
        format!(
            "version = 2\n{}",
            config.replace("${DATA:../x.csv}", absolute.to_str().unwrap())
        ),
    );
    assert_eq!(folder.select("select a, b from t"), r#""3","4""#);
}

#[test]
fn disabled_tables_are_not_touched() {
    let off = "[[tables]]\nname = 'off'\nenabled = false\ncolumns.by_index = [0]\n";
    let folder = Folder::new(&format!("{TABLE}{off}"), "a,b\n1,2\n");
    let (_, report) = folder.load().unwrap();
    assert_eq!(report.tables.len(), 1);
    assert!(Folder::new("", "").load().unwrap().1.tables.is_empty());
}

#[test]
fn tables_share_one_store() {
    let folder = Folder::new(
        &format!("{TABLE}{}", TABLE.replace("'t'", "'u'")),
        "a,b\n1,2\n",
    );
    folder.write("u/create.sql", "create table {table} (a, b)");
    folder.write("u/insert.sql", INSERT);
    folder.write("u/data.csv", "a,b\n1,3\n");
    assert_eq!(
        folder.select("select t.b, u.b from t join u using (a)"),
        r#""2","3""#
    );
}

#[test]
fn wrong_sql_names_its_file() {
    let folder = Folder::new(TABLE, "a,b\n1,2\n");
    folder.write("t/insert.sql", "insert into {table} values (?1, ?2, ?3)");
    assert_eq!(
        folder.select("select 1"),
        "Config: t/insert.sql: refused by SQLite > table t has 2 columns but 3 values were supplied",
    );
    folder.write("t/insert.sql", "insert into {table} values (?1, 0)");
    assert_eq!(
        folder.select("select 1"),
        "Config: t/insert.sql: 1 parameters for 2 columns of table \"t\"; write ?1 to ?2, or change \
         its columns",
    );
    folder.write(
        "t/insert.sql",
        "insert into {table} values (?1, ?2); delete from {table}",
    );
    assert_eq!(
        folder.select("select 1"),
        "Config: t/insert.sql: refused by SQLite > Multiple statements provided",
    );
    folder.write("t/create.sql", "create table other (a, b)");
    assert_eq!(
        folder.select("select 1"),
        "Config: table \"t\": derived clean.sql: refused by SQLite > no such table: t",
    );
    folder.write("t/create.sql", b"\xff");
    assert_eq!(
        folder.select("select 1"),
        "Environment: t/create.sql: cannot be read > stream did not contain valid UTF-8",
    );
}

#[test]
fn missing_data_names_the_file() {
    let folder = Folder::new(TABLE, "");
    folder.remove("t/data.csv");
    assert_eq!(
        folder.select("select 1"),
        "Environment: t/data.csv: the data file of table \"t\" does not exist; set the table's dir or \
         data_file, or enabled = false",
    );
}

#[test]
fn sql_is_derived_from_header_and_values() {
    let data = "id,name,size,zip,re\"st\n1,x,1.5,007,a\n,,,,\n-3,2,2,1,b\n";
    let folder = Folder::new("[[tables]]\nname = 't'\n", data);
    folder.remove("t/create.sql");
    folder.remove("t/insert.sql");
    let config = Config::open(folder.0.path(), &[]).unwrap();
    let sql = table_sql(&config, &config.tables[0]).unwrap();
    assert_eq!(
        sql.create.text,
        "create table \"t\" (\n  \"id\" INTEGER,\n  \"name\" TEXT,\n  \"size\" REAL,\n  \"zip\" TEXT,\n  \"re\"\"st\" TEXT\n);\n"
    );
    assert_eq!(
        sql.insert.text,
        "insert into \"t\" (\"id\", \"name\", \"size\", \"zip\", \"re\"\"st\")\nvalues (nullif(?1, ''), ?2, nullif(?3, ''), ?4, ?5);\n"
    );
    assert_eq!((sql.create.file, sql.insert.file), (None, None));
    assert_eq!(
        folder.select("select * from t"),
        r#"1,"x",1.5,"007","a" NULL,"",NULL,"","" -3,"2",2.0,"1","b""#
    );
    // If only one of the files exists, the other one is derived.
    folder.write(
        "t/create.sql",
        "create table {table} (id text, name, size, zip, \"re\"\"st\", x default 7)",
    );
    assert_eq!(folder.select("select id, x from t limit 1"), r#""1",7"#);
    folder.remove("t/create.sql");
    folder.write("t/insert.sql", "insert into {table} (id) values (?1 || ?5)");
    assert_eq!(folder.select("select id from t limit 1"), r#""1a""#);
}

#[test]
fn sql_is_derived_without_a_header_and_for_mapped_columns() {
    let folder = Folder::new(
        "[csv]\nhas_header = false\n[[tables]]\nname = 't'\n",
        "1,x\n2,y\n",
    );
    folder.remove("t/create.sql");
    folder.remove("t/insert.sql");
    assert_eq!(
        folder.select("select column_1, column_2 from t"),
        r#"1,"x" 2,"y""#
    );
    folder.write("knowdb.toml", format!("version = 2\n{TABLE}"));
    folder.write("t/data.csv", "b,x,a\n1,2,3\n");
    assert_eq!(folder.select("select * from t"), "3,1");
    folder.write("knowdb.toml", "version = 2\n[[tables]]\nname = 't'\n");
    folder.write("t/data.csv", "a,A\n1,2\n");
    assert_eq!(
        folder.select("select 1"),
        "Data: t/data.csv:1: column \"A\" is named more than once; use columns.by_index",
    );
    folder.write("t/data.csv", "");
    assert_eq!(
        folder.select("select 1"),
        "Data: t/data.csv: the file is empty, so no columns can be derived; write t/create.sql and \
         insert.sql",
    );
}

#[test]
fn compressed_data_loads() {
    let data = "a,b\n1,2\n";
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(data.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(data.as_bytes(), 1).unwrap();
    // Both formats allow concatenated members.
    let two = zstd::encode_all("3,4\n".as_bytes(), 1).unwrap();
    for (name, bytes, expected) in [
        ("d.csv.gz", gzip.clone(), r#""1","2""#),
        ("d.csv.zst", zstd.clone(), r#""1","2""#),
        (
            "d.csv.zst",
            [zstd.clone(), two].concat(),
            r#""1","2" "3","4""#,
        ),
        (
            "d.csv.gz",
            gzip[..gzip.len() - 9].to_vec(),
            "Data: t/d.csv.gz:3: cannot be read beyond this line > incomplete deflate stream",
        ),
        (
            "d.csv.zst",
            zstd[..zstd.len() - 1].to_vec(),
            "Data: t/d.csv.zst:2: cannot be read beyond this line > incomplete frame",
        ),
        (
            "d.csv.gz",
            "a,b\n1,2\n3,4\n5,6\n".into(),
            "Data: t/d.csv.gz:1: cannot be read beyond this line > invalid gzip header",
        ),
    ] {
        let folder = Folder::new(&format!("{TABLE}data_file = '{name}'\n"), "");
        folder.write(&format!("t/{name}"), &bytes);
        assert_eq!(folder.select("select a, b from t"), expected, "{name}");
    }
}

#[test]
fn encodings_become_utf8() {
    let with = |label: &str| format!("[csv]\nencoding = '{label}'\n{TABLE}");
    check(
        &with("latin1"),
        b"a,b\n\xe9,\x80\n",
        "\"\u{e9}\",\"\u{20ac}\"",
    );
    check(&with("GBK"), b"a,b\n\xc4\xe3,1\n", "\"\u{4f60}\",\"1\"");
    let utf16: Vec<u8> = "\u{feff}a,b\n\u{4f60},\u{1f600}\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    check(&with("utf-16le"), &utf16, "\"\u{4f60}\",\"\u{1f600}\"");
    check(
        &with("utf-16le"),
        &utf16[..utf16.len() - 1],
        "Data: t/data.csv:2: cannot be read beyond this line > bytes that are not UTF-16LE",
    );
    check(
        &with("gbk"),
        b"a,b\n1,2\n3,\xff\n",
        "Data: t/data.csv:3: cannot be read beyond this line > bytes that are not GBK",
    );
    // Longer than every buffer on the way, so that characters are split at every position.
    let long = format!("a,b\n{},1\n", "\u{4f60}x".repeat(300_000));
    let (bytes, _, _) = encoding_rs::GB18030.encode(&long);
    let folder = Folder::new(&with("gb18030"), &bytes);
    assert_eq!(
        folder.select("select length(a), substr(a, -2) from t"),
        "600000,\"\u{4f60}x\""
    );
}

#[test]
fn records_have_a_limit() {
    let folder = Folder::new(TABLE, format!("a,b\n1,2\n{}\n", ",".repeat(70_000)));
    assert_eq!(
        folder.select("select 1"),
        "LimitReached: t/data.csv:3: a record has more than 65536 fields; is a quote unclosed, or \
         is the delimiter different?",
    );
}

#[test]
fn a_huge_field_is_a_field() {
    let folder = Folder::new(
        TABLE,
        format!("a,b\n\"{}\",1\n2,3\n", "x\n".repeat(5_000_000)),
    );
    assert_eq!(
        folder.select("select length(a), b from t"),
        r#"9999999,"1" 1,"3""#
    );
}

/// Loads `a,b` and these lines with `on_error = 'skip'`: how many rows there are, and why records were
/// left out; or the error.
fn load_skipping(lines: impl IntoIterator<Item = String>) -> String {
    let data: String = lines.into_iter().map(|line| line + "\n").collect();
    let folder = Folder::new(&format!("{SKIP}{TABLE}"), format!("a,b\n{data}"));
    match folder.load() {
        Ok((_, report)) => {
            let table = &report.tables[0];
            let skipped = table.skipped.iter();
            let skipped: Vec<_> = skipped
                .map(|row| format!("{}: {}", line_of(row), row.reason))
                .collect();
            format!("{} rows; {}", table.rows, skipped.join("; "))
        }
        Err(error) => folder.chain(&error),
    }
}

/// `count` good lines, of which some are replaced: by number, from 0, and text.
fn lines_with(count: usize, others: &[(usize, &str)]) -> Vec<String> {
    let line = |index| match others.iter().find(|(at, _)| *at == index) {
        Some((_, text)) => (*text).to_owned(),
        None => format!("{index},x"),
    };
    (0..count).map(line).collect()
}

#[test]
fn a_stray_quote_does_not_lose_the_rest_of_a_table() {
    // The quote opens on line 12 of the file: a header, and ten lines before it.
    assert_eq!(
        load_skipping(lines_with(5000, &[(10, "10,\"x")])),
        "Data: t/data.csv:12: a quote is not closed; the quote that opens on line 12 \
         spans 4990 lines, 33848 bytes; correct or remove it: on_error = \"skip\" skips records of \
         at most 1000 lines and 1 MiB"
    );
    // The next stray quote closes it, and the record has too many fields.
    let seen = load_skipping(lines_with(5000, &[(10, "10,\"x"), (1500, "1500,x\",y")]));
    assert!(
        seen.starts_with(
            "Data: t/data.csv:12: 3 fields where the first record has 2; the quote that opens on \
             line 12 spans 1491 lines, "
        ),
        "{seen}"
    );
    // Or it has the right number of them.
    let seen = load_skipping(lines_with(5000, &[(10, "10,\"x"), (1500, "1500,\"y")]));
    assert!(
        seen.starts_with(
            "Data: t/data.csv:12: text follows the closing quote of a field; the quote that opens \
             on line 12 spans 1491 lines, "
        ),
        "{seen}"
    );
    // Few lines of many bytes.
    let long = "y".repeat(1 << 20);
    let seen = load_skipping(lines_with(20, &[(10, "10,\"x"), (11, &long)]));
    assert!(seen.starts_with("Data: t/data.csv:12: "), "{seen}");
}

#[test]
fn what_a_small_record_took_in_is_told() {
    assert_eq!(
        load_skipping(lines_with(20, &[(10, "10,\"x"), (12, "12,\"y")])),
        "17 rows; 12: text follows the closing quote of a field; the quote that opens on line 12 \
         spans 3 lines, 14 bytes"
    );
    assert_eq!(
        load_skipping(lines_with(20, &[(18, "18,\"x")])),
        "18 rows; 20: a quote is not closed; the quote that opens on line 20 spans 2 \
         lines, 8 bytes"
    );
    // A long line without a quote includes no other lines.
    let wide = "y,".repeat(1 << 20);
    assert_eq!(
        load_skipping(lines_with(3, &[(1, &wide[..100_001])])),
        "2 rows; 3: 50001 fields where the first record has 2"
    );
}

#[test]
fn a_long_record_is_a_record() {
    let text = "line\n".repeat(5000);
    assert_eq!(
        load_skipping([format!("1,\"{text}\""), "2,x".to_owned()]),
        "2 rows; "
    );
    let text = "z".repeat(3 << 20);
    assert_eq!(
        load_skipping([format!("1,\"{text}\n{text}\""), "2,x".to_owned()]),
        "2 rows; "
    );
}

#[test]
fn progress_ends_at_the_whole_file() {
    struct Recorder(RefCell<Vec<(u64, u64)>>);
    impl Progress for Recorder {
        fn advanced(&self, progress: LoadProgress<'_>) {
            let (bytes_read, bytes_total) = (progress.bytes_read, progress.bytes_total);
            assert_eq!(progress.table, "t");
            assert!(progress.rows <= 200_000);
            self.0.borrow_mut().push((bytes_read, bytes_total));
        }
    }
    let data = format!("a,b\n{}", "1,2\n".repeat(200_000));
    let folder = Folder::new(TABLE, &data);
    let recorded = Recorder(RefCell::new(Vec::new()));
    load(
        &Config::open(folder.0.path(), &[]).unwrap(),
        &[],
        &recorded,
        None,
    )
    .unwrap();
    let recorded = recorded.0.into_inner();
    let size = data.len() as u64;
    assert_eq!(recorded.last(), Some(&(size, size)));
    assert!(recorded.len() > 10);
    assert!(recorded.is_sorted());
}

#[test]
fn derived_tables_have_the_indexes_that_statements_use() {
    let folder = Folder::new(
        &format!("{TABLE}[[tables]]\nname = 'u'\n[[tables]]\nname = 'made'\n"),
        "a,b\n1,x\n",
    );
    folder.remove("t/create.sql");
    folder.write("u/data.csv", "a,B,c d,e\n1,x,2,3\n");
    folder.write("made/data.csv", "a,b\n1,x\n");
    folder.write("made/create.sql", CREATE);
    let statements = [
        "select b from t where a = :p0",
        "select b from default.t where A == :p0 and b > :p1",
        "select 1 from u x join t on t.b = x.b where x.\"c d\" in (:a, 2) or e is null",
        "select a from made where b = :b",
        "select a from gone where b = :b",
        "select 1 from (select * from u) where a = 1",
        "nonsense =",
    ];
    let statements = statements.map(used);
    let config = Config::open(folder.0.path(), &[]).unwrap();
    let (store, report) = load_all(&config, &statements).unwrap();
    let indexes: Vec<_> = report
        .tables
        .iter()
        .map(|table| &table.indexes[..])
        .collect();
    assert_eq!(indexes, [&["a", "b"][..], &["B", "c d"], &[]]);
    let plan = "explain query plan select b from t where a = 1";
    let reader = store.store.reader().unwrap();
    let detail: String = reader.query_row(plan, [], |row| row.get("detail")).unwrap();
    assert_eq!(detail, "SEARCH t USING INDEX lookaside_key_1_t_a (a=?)");
    // Without statements there are none.
    let (_, report) = load_all(&config, &[]).unwrap();
    assert!(report.tables.iter().all(|table| table.indexes.is_empty()));
}

#[test]
fn indexes_of_tables_whose_names_run_into_those_of_columns() {
    let tables = "[[tables]]\nname = 'host'\n[[tables]]\nname = 'host_user'\n";
    let folder = Folder::new(tables, "");
    folder.write("host/data.csv", "user_name,b\na,b\n");
    folder.write("host_user/data.csv", "name,b\na,b\n");
    let statements = [
        "select b from host where user_name = :a",
        "select b from host_user where name = :a",
    ];
    let config = Config::open(folder.0.path(), &[]).unwrap();
    let (_, report) = load_all(&config, &statements.map(used)).unwrap();
    assert!(report.tables.iter().all(|table| table.indexes.len() == 1));
}

#[test]
fn columns_of_addresses_say_so_and_stay_text() {
    let folder = Folder::new(
        "[[tables]]\nname = 't'\n",
        "v4,both,some,empty\n1.2.3.4,::1,1.2.3.4,\n,,n/a,\n10.0.0.0,10.0.0.1,1.2.3.4,\n",
    );
    folder.remove("t/create.sql");
    folder.remove("t/insert.sql");
    let config = Config::open(folder.0.path(), &[]).unwrap();
    let sql = table_sql(&config, &config.tables[0]).unwrap();
    assert_eq!(
        sql.create.text,
        "create table \"t\" (\n  \
         \"v4\" TEXT, -- every value is an IPv4 address: ip4_between(:ip, low, high) for ranges\n  \
         \"both\" TEXT, -- every value is an address: ip_key(:ip) between ip_key(low) and \
         ip_key(high) for ranges\n  \
         \"some\" TEXT,\n  \"empty\" TEXT\n);\n"
    );
    assert_eq!(
        folder.select("select v4 from t where v4 = '1.2.3.4'"),
        "\"1.2.3.4\""
    );
}

#[test]
fn an_ip6_network_does_not_load_as_zero() {
    let folder = Folder::new(TABLE, "a,b\n10.0.0.0/8,v4\n2001:db8::/32,v6\n");
    folder.write(
        "t/insert.sql",
        "insert into {table} values (cidr4_min(?1), ?2)",
    );
    assert_eq!(
        folder.select("select a from t"),
        "Data: t/data.csv:3: refused by t/insert.sql > cidr4_min() supports IPv4 only; for IPv6, use \
         cidr_key_min(), and compare it with ip_key()"
    );
    folder.write(
        "t/insert.sql",
        "insert into {table} values (cidr_key_min(?1), ?2)",
    );
    assert_eq!(
        folder.select("select b from t where a <= ip_key('2001:db8::5') order by a desc limit 1"),
        "\"v6\""
    );
}
