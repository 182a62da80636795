//! A MaxMind database as a table: `tests/data/city.mmdb`, which `scripts/make-mmdb` has made.

use std::fs;

use lookaside_knowledge::{ErrorKind, Knowledge, PlanKind, Value, params};
use tempfile::TempDir;

const DATABASE: &[u8] = include_bytes!("../data/city.mmdb");

const CONFIG: &str = "version = 2
[[tables]]
name = 'geo'
mmdb = 'city.mmdb'
[tables.columns.by_path]
country = 'country.iso_code'
city = 'city.names.en'
lat = 'location.latitude'
radius = 'location.accuracy_radius'
region = 'subdivisions.0.iso_code'
";

const LOOKUP: &str = "select country, city, lat, radius, region from geo \
                      where ip_key(:ip) between first and last";

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("geo")).unwrap();
    fs::write(folder.path().join("knowdb.toml"), CONFIG).unwrap();
    fs::write(folder.path().join("geo/city.mmdb"), DATABASE).unwrap();
    folder
}

fn answer(knowledge: &Knowledge, ip: &str) -> Option<Vec<Value>> {
    let row = knowledge
        .query_first(LOOKUP, &params! { "ip" => ip })
        .unwrap();
    row.map(|row| row.as_ref().values().to_vec())
}

#[test]
fn addresses_are_looked_up_natively() {
    let folder = folder();
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let plan = knowledge.explain(LOOKUP).unwrap();
    assert_eq!(plan.kind, PlanKind::Interval);
    let text = |text: &str| Value::from(text);
    for (ip, expected) in [
        (
            "192.0.2.127",
            Some(vec![
                text("AU"),
                text("Sydney"),
                Value::Float(-33.87),
                Value::Int(50),
                text("NSW"),
            ]),
        ),
        (
            "192.0.2.128",
            Some(vec![
                text("AU"),
                text("Perth"),
                Value::Float(-31.95),
                Value::Int(50),
                text("WA"),
            ]),
        ),
        (
            "::ffff:198.51.100.7",
            Some(vec![
                text("DE"),
                text("Köln"),
                Value::Float(50.93),
                Value::Int(50),
                text("NW"),
            ]),
        ),
        (
            "2001:db8:4::1",
            Some(vec![
                text("JP"),
                text("Ōsaka"),
                Value::Float(34.69),
                Value::Int(50),
                text("27"),
            ]),
        ),
        (
            "203.0.113.255",
            Some(vec![
                text("FR"),
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
            ]),
        ),
        ("203.0.114.0", None),
        ("2001:db8:5::", None),
    ] {
        assert_eq!(answer(&knowledge, ip), expected, "{ip}");
    }
}

#[test]
fn a_damaged_database_leaves_the_old_table_serving() {
    let folder = folder();
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let file = folder.path().join("geo/city.mmdb");
    fs::write(&file, &DATABASE[..DATABASE.len() - 100]).unwrap();
    let error = knowledge.reload().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data, "{error}");
    assert_eq!(
        answer(&knowledge, "192.0.2.1").unwrap()[1],
        Value::from("Sydney")
    );
    // The same database with another name of a city.
    let mut changed = DATABASE.to_vec();
    let at = changed.windows(6).position(|bytes| bytes == b"Sydney");
    changed[at.unwrap()..][..6].copy_from_slice(b"Newton");
    fs::write(&file, changed).unwrap();
    knowledge.reload().unwrap();
    assert_eq!(
        answer(&knowledge, "192.0.2.1").unwrap()[1],
        Value::from("Newton")
    );
}
