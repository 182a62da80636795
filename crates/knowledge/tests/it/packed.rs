//! Tables that are loaded without SQLite, and their copies in SQLite.

use std::fmt::Write as _;
use std::fs;

use lookaside_knowledge::{
    Answers, BatchQuery, ErrorKind, Knowledge, Lookup, ParamBatch, PlanKind, Value, params,
};
use tempfile::TempDir;

/// A project with a derived table `t` of integers, ranges and texts.
fn project(config: &str, row_count: i64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_rows(&folder, row_count, "a");
    let config = format!(
        "version = 2\n{config}\n[[tables]]\nname = \"t\"\ndir = \".\"\ndata_file = \"t.csv\"\n"
    );
    fs::write(folder.path().join("knowdb.toml"), config).unwrap();
    folder
}

fn write_rows(folder: &TempDir, row_count: i64, letter: &str) {
    let mut rows = String::from("k,lo,hi,name\n");
    for k in 1..=row_count {
        writeln!(rows, "{k},{},{},{letter}{k}", k * 10, k * 10 + 5).unwrap();
    }
    fs::write(folder.path().join("t.csv"), rows).unwrap();
}

const BY_KEY: &str = "select name from t where k = :x";
const BY_RANGE: &str = "select name from t where lo <= :x and hi >= :x";
const BY_SQLITE: &str = "select name from t where k + 0 = :x";

/// What SQLite takes for the schema, and for a copy of the rows at least.
const SCHEMA_SIZE_MAX: u64 = 64 << 10;

#[test]
fn only_statements_without_a_native_plan_copy_a_table() {
    let folder = project("", 20_000);
    let knowledge = Knowledge::open(folder.path()).unwrap();
    assert_eq!(knowledge.load_report().tables[0].loaded_by_sqlite, None);
    assert!(knowledge.snapshot().packed_size > 20_000 * 8);
    assert_eq!(knowledge.table_infos()[0].row_count, Some(20_000));
    assert_eq!(knowledge.explain(BY_KEY).unwrap().kind, PlanKind::Hash);
    assert_eq!(knowledge.explain(BY_SQLITE).unwrap().kind, PlanKind::Sqlite);
    let odd = [
        Value::Null,
        Value::from(" 7 "),
        Value::from("7.0"),
        Value::from("1e1"),
        Value::from("0x10"),
        Value::from("10.0.0.1"),
        Value::from(""),
        Value::Float(7.0),
        Value::Float(7.5),
        Value::Float(f64::INFINITY),
        Value::Float(f64::NAN),
        Value::from(vec![55_u8]),
        Value::Int(i64::MIN),
        Value::Int(i64::MAX),
        Value::from("99999999999999999999"),
        Value::Bool(true),
        Value::Ip("10.0.0.1".parse().unwrap()),
    ];
    let answers = |sql: &str| -> Vec<String> {
        let answers = odd.iter().map(|value| {
            let rows = knowledge
                .query_all(sql, &params! {"x" => value.clone()})
                .unwrap();
            format!("{value:?}: {rows:?}")
        });
        answers.collect()
    };
    let (by_key, by_range) = (answers(BY_KEY), answers(BY_RANGE));
    // All of them were answered from the packed rows.
    assert!(knowledge.snapshot().store_size < SCHEMA_SIZE_MAX);
    // SQLite answers alike.
    let in_sqlite = |sql: &str| answers(&format!("{sql} union all select 'none' where false"));
    assert_eq!(by_key, in_sqlite(BY_KEY));
    assert_eq!(by_range, in_sqlite(BY_RANGE));
    assert!(knowledge.snapshot().store_size > 20_000 * 8);
    let count = "select count(*), min(name), max(hi) from t where k > :x";
    let row = knowledge
        .query_first(count, &params! {"x" => 0})
        .unwrap()
        .unwrap();
    assert_eq!(row[0], Value::Int(20_000));
    assert_eq!(row[2], Value::Int(200_005));
}

#[test]
fn batches_are_answered_as_single_lookups() {
    let folder = project("", 5000);
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let mut session = knowledge.session();
    for sql in [BY_KEY, BY_RANGE, BY_SQLITE] {
        let statement = Lookup::prepare(&mut session, sql, &["x".into()]).unwrap();
        let keys = (0..333).map(|number| Value::Int(number * 17 % 5100));
        let mut batch = ParamBatch::new(1);
        keys.clone().for_each(|key| batch.push([key]));
        let mut answers = Answers::new();
        session.answer(BatchQuery::first(statement), &batch, &mut answers);
        assert_eq!(answers.len(), 333);
        for (index, key) in keys.enumerate() {
            let row = knowledge.query_first(sql, &params! {"x" => key}).unwrap();
            let expected = row.as_ref().map(|row| &row[..]);
            assert_eq!(answers.row(index).unwrap(), expected, "{sql}, {index}");
        }
    }
}

#[test]
fn refused_parameters_are_errors_without_a_copy() {
    let sql = "select name from t where ip4_between(:x, lo, hi)";
    let folder = project("", 100);
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let error = knowledge.query_first(sql, &params! {"x" => 5}).unwrap_err();
    let in_sqlite = format!("{sql} and name <> 'none'");
    let expected = knowledge
        .query_first(&in_sqlite, &params! {"x" => 5})
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        expected.to_string().replace(&in_sqlite, sql)
    );
    // Without rows, nothing is compared.
    let empty = project("", 0);
    let knowledge = Knowledge::open(empty.path()).unwrap();
    assert!(
        knowledge
            .query_first(sql, &params! {"x" => 5})
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_reload_also_replaces_the_copy() {
    let folder = project("", 100);
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let statement = knowledge.prepare(BY_SQLITE).unwrap();
    let mut session = knowledge.session();
    let found = session.first(&statement, &[Value::Int(7)]).unwrap();
    assert_eq!(found, Some(&[Value::from("a7")][..]));
    write_rows(&folder, 50, "b");
    knowledge.reload().unwrap();
    // The copy is made before the tables appear.
    assert!(knowledge.snapshot().store_size > 0);
    let found = session.first(&statement, &[Value::Int(7)]).unwrap();
    assert_eq!(found, Some(&[Value::from("b7")][..]));
    assert_eq!(session.first(&statement, &[Value::Int(70)]).unwrap(), None);
}

/// Sets the time of the last change of a file to a minute ago, as files that rest have it.
fn age(file: &std::path::Path) {
    let file = fs::File::open(file).unwrap();
    let time = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    file.set_modified(time).unwrap();
}

#[test]
fn a_reload_loads_only_what_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let tables = "[[tables]]\nname = \"one\"\ndir = \".\"\ndata_file = \"one.csv\"\n\
                  [[tables]]\nname = \"two\"\ndir = \".\"\ndata_file = \"two.csv\"\n";
    fs::write(at("knowdb.toml"), format!("version = 2\n{tables}")).unwrap();
    fs::write(at("one.csv"), "k,v\n1,a\n1,b\n").unwrap();
    fs::write(at("two.csv"), "k,v\n1,c\n").unwrap();
    ["one.csv", "two.csv"]
        .iter()
        .for_each(|name| age(&at(name)));
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let value = |table: &str| {
        let sql = format!("select v from {table} where k = :k order by rowid");
        let rows = knowledge.query_all(&sql, &params! {"k" => 1}).unwrap();
        rows.iter()
            .map(|row| row[0].to_string())
            .collect::<String>()
    };
    assert_eq!((value("one"), value("two")), ("ab".into(), "c".into()));
    // The data of `two` changes.
    fs::write(at("two.csv"), "k,v\n1,d\n").unwrap();
    knowledge.reload().unwrap();
    assert_eq!((value("one"), value("two")), ("ab".into(), "d".into()));
    assert_eq!(knowledge.load_report().tables[0].rows, 2);
    assert_eq!(knowledge.table_infos().len(), 2);
    // The same size, and the same time of the change.
    fs::write(at("one.csv"), "k,v\n1,x\n1,y\n").unwrap();
    age(&at("one.csv"));
    knowledge.reload().unwrap();
    assert_eq!((value("one"), value("two")), ("xy".into(), "d".into()));
    // Another setting.
    let create = "create table {table} (k text, v text)";
    fs::write(at("create.sql"), create).unwrap();
    knowledge.reload().unwrap();
    assert_eq!((value("one"), value("two")), ("xy".into(), "d".into()));
    let infos = knowledge.table_infos();
    assert_eq!(infos[0].columns[0].declared, "TEXT");
    // A reload that fails leaves all as it is.
    fs::write(at("two.csv"), "k,v\n1,e\n1\n").unwrap();
    assert!(knowledge.reload().is_err());
    assert_eq!((value("one"), value("two")), ("xy".into(), "d".into()));
}

#[test]
fn when_sqlite_copies_a_table_is_configured() {
    let never = project("[local]\nsqlite_copy = \"never\"", 100);
    let knowledge = Knowledge::open(never.path()).unwrap();
    let row = knowledge.query_first(BY_KEY, &params! {"x" => 7}).unwrap();
    assert_eq!(row.unwrap()[0], Value::from("a7"));
    let error = knowledge
        .query_first(BY_SQLITE, &params! {"x" => 7})
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    let message = error.to_string();
    assert!(message.contains("sqlite_copy is \"never\""), "{message}");
    assert!(message.contains("it has no native plan ("), "{message}");
    let start = project("[local]\nsqlite_copy = \"start\"", 20_000);
    let knowledge = Knowledge::open(start.path()).unwrap();
    assert!(knowledge.snapshot().store_size > 20_000 * 8);
    let wrong = project("[local]\nsqlite_copy = \"always\"", 1);
    let error = Knowledge::open(wrong.path()).unwrap_err().to_string();
    assert!(error.contains("sqlite_copy"), "{error}");
}

#[test]
fn the_memory_of_rows_is_limited() {
    let folder = project("[local]\ntable_memory_max = 100_000", 20_000);
    let error = Knowledge::open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached);
    let message = error.to_string();
    assert!(
        message.contains("table_memory_max of [local] is 100000"),
        "{message}"
    );
    let folder = project("[local]\ntable_memory_max = 10_000_000", 20_000);
    Knowledge::open(folder.path()).unwrap();
}
