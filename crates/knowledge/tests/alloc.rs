//! A warm lookup allocates nothing. This is a separate binary because it counts every allocation.

use std::fmt::Write as _;
use std::fs;

use allocation_counter::measure;
use lookaside_knowledge::{Knowledge, PlanKind, Policy, Session, Statement, Value};

fn check(session: &mut Session, statement: &Statement, keys: &[Value], allocation_count: u64) {
    let mut ask = || {
        for key in keys {
            let row = session.first(statement, std::slice::from_ref(key));
            assert!(row.expect("a lookup that cannot fail").is_some());
        }
    };
    ask();
    let counted = measure(&mut ask);
    assert_eq!(counted.count_total, allocation_count, "{}", statement.sql());
}

#[test]
fn warm_lookups_do_not_allocate() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("t")).unwrap();
    fs::write(
        path.join("knowdb.toml"),
        "version = 2\n[[tables]]\nname = \"t\"\ncolumns.by_header = [\"lo\", \"hi\", \"name\"]\n",
    )
    .unwrap();
    let create = "create table {table} (lo integer, hi integer, name text)";
    fs::write(path.join("t/create.sql"), create).unwrap();
    fs::write(
        path.join("t/insert.sql"),
        "insert into {table} values (?1, ?2, ?3)",
    )
    .unwrap();
    let mut data = String::from("lo,hi,name\n");
    for id in 1..=1000 {
        writeln!(
            data,
            "{},{},a name that is longer than its place {id}",
            id * 10,
            id * 10 + 9
        )
        .unwrap();
    }
    fs::write(path.join("t/data.csv"), data).unwrap();

    let knowledge = Knowledge::open(path).unwrap();
    let mut session = knowledge.session();
    let keys: Vec<Value> = (1..=100).map(|id| Value::Int(id * 10)).collect();
    let texts: Vec<Value> = (1..=100)
        .map(|id| Value::from(format!("a name that is longer than its place {id}")))
        .collect();
    for (sql, kind, keys) in [
        ("select name from t where lo = :x", PlanKind::Hash, &keys),
        ("select lo from t where name = :x", PlanKind::Hash, &texts),
        (
            "select name from t where lo <= :x and hi >= :x",
            PlanKind::Interval,
            &keys,
        ),
        (
            "select name from t where lo + 0 = :x",
            PlanKind::Sqlite,
            &keys,
        ),
    ] {
        assert_eq!(knowledge.explain(sql).unwrap().kind, kind, "{sql}");
        let statement = session.prepare(sql).unwrap();
        check(&mut session, &statement, keys, 0);
    }

    // Checks that the counter works: a query allocates its rows.
    let statement = session
        .prepare("select name from t where lo + 0 = :x")
        .unwrap();
    let counted = measure(|| {
        session
            .first_with(&statement, &keys[..1], Policy::Bypass)
            .unwrap();
    });
    assert!(counted.count_total > 0);
}
