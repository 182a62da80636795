//! A Parquet file as a table: `tests/data/columnar`, which `scripts/make-columnar` has made.

use std::fs;

use lookaside_knowledge::{ErrorKind, Knowledge, PlanKind, Value, params};

const PARQUET: &[u8] = include_bytes!("../data/columnar/small-snappy.parquet");
const ARROW: &[u8] = include_bytes!("../data/columnar/small.feather");

const LOOKUP: &str = "select name from t where id = :id";

fn name(knowledge: &Knowledge, id: i64) -> Value {
    let row = knowledge.query_first(LOOKUP, &params! { "id" => id });
    row.unwrap().unwrap().as_ref().values()[0].clone()
}

/// Replaces the first occurrence of bytes by as many others.
fn replaced(data: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    let at = data.windows(from.len()).position(|bytes| bytes == from);
    data[at.unwrap()..][..to.len()].copy_from_slice(to);
    data
}

#[test]
fn a_damaged_file_leaves_the_old_table_serving() {
    for (file, data) in [("t.parquet", PARQUET), ("t.arrow", ARROW)] {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("t")).unwrap();
        let config = format!("version = 2\n[[tables]]\nname = 't'\ndata_file = '{file}'\n");
        fs::write(folder.path().join("knowdb.toml"), config).unwrap();
        let path = folder.path().join("t").join(file);
        fs::write(&path, data).unwrap();
        let knowledge = Knowledge::open(folder.path()).unwrap();
        assert_eq!(knowledge.explain(LOOKUP).unwrap().kind, PlanKind::Hash);
        assert_eq!(name(&knowledge, 2), Value::from("two"));

        fs::write(&path, &data[..data.len() - 100]).unwrap();
        let error = knowledge.reload().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Data, "{error}");
        assert!(error.to_string().contains(file), "{error}");
        assert_eq!(name(&knowledge, 2), Value::from("two"));

        fs::write(&path, replaced(data, b"two", b"new")).unwrap();
        knowledge.reload().unwrap();
        assert_eq!(name(&knowledge, 2), Value::from("new"));
        assert_eq!(name(&knowledge, 3), Value::Null);
    }
}

#[test]
fn times_are_found_by_parameters() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("t")).unwrap();
    let config = "version = 2\n[[tables]]\nname = 't'\ndata_file = 'x.parquet'\n";
    fs::write(folder.path().join("knowdb.toml"), config).unwrap();
    let data = include_bytes!("../data/columnar/types.parquet");
    fs::write(folder.path().join("t/x.parquet"), data).unwrap();
    let knowledge = Knowledge::open(folder.path()).unwrap();
    for (column, time) in [
        ("timestamp_us", "2026-03-01 10:04:05.250001"),
        ("timestamp_zone", "2026-03-01T11:04:05.25+01:00"),
        ("timestamp_zone", "1970-01-01T00:00:00Z"),
    ] {
        let sql = format!("select int8 from t where {column} = :time");
        let time = Value::Time(time.parse().unwrap());
        let row = knowledge.query_first(&sql, &params! { "time" => time });
        assert!(row.unwrap().is_some(), "{column}");
    }
}
