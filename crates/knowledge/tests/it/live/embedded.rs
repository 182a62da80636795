//! The folder's tables in an embedded PostgreSQL, started by the test.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use lookaside_knowledge::{ErrorKind, Knowledge, PlanKind, Result, Value, params};
use lookaside_testing::wait_until;
use tempfile::TempDir;

use super::postgres;

fn write(folder: &Path, file: &str, text: &str) {
    let file = folder.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

fn project() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(
        path,
        "knowdb.toml",
        "version = 2\n[provider.sqldb]\nname = 'pg'\nkind = 'embedded'\n\
         [[tables]]\nname = 'Kinds'\n[[tables]]\nname = 'networks'\n",
    );
    write(
        path,
        "Kinds/create.sql",
        "create table {table} (Id integer primary key, big numeric(20, 5), real real, data blob, \
         seen timestamptz, ok boolean, note text, unique (note))",
    );
    let insert = "insert into {table} values (?1, ?2, ?3, x'00ff', ?4, ?5, nullif(?6, 'none'))";
    write(path, "Kinds/insert.sql", insert);
    let kinds = "id,big,real,seen,ok,note\n\
        1,12345678901.5,0.1,2026-01-02 03:04:05+00,true,\"a, \"\"b\"\" \\c {d} NULL\"\n\
        2,-1,1e300,2026-01-02 03:04:05+02,f,none\n";
    write(path, "Kinds/data.csv", kinds);
    let create = "-- two; statements\ncreate table {table} (net cidr primary key, owner text);\n\
        create index on {table} using gist (net inet_ops);";
    write(path, "networks/create.postgres.sql", create);
    write(
        path,
        "networks/data.csv",
        "net,owner\n10.0.0.0/8,corp\n10.20.0.0/16,lab\n",
    );
    folder
}

fn open(folder: &TempDir) -> Option<Result<Knowledge>> {
    let database = Mutex::new(postgres(false)?);
    let knowledge = Knowledge::builder(folder.path())
        .embedded(move |_| Ok(database.lock().unwrap().url()))
        .open();
    Some(knowledge)
}

const BY_ADDRESS: &str =
    "select owner from pg.networks where net >>= :ip order by masklen(net) desc";

fn owner(knowledge: &Knowledge, ip: &str) -> Option<Value> {
    let row = knowledge
        .query_first(BY_ADDRESS, &params! {"ip" => ip})
        .unwrap();
    row.map(|row| row[0].clone())
}

#[test]
fn tables_are_there_with_their_types() {
    let folder = project();
    let Some(knowledge) = open(&folder) else {
        return;
    };
    let knowledge = knowledge.unwrap();
    assert_eq!(owner(&knowledge, "10.20.1.1"), Some("lab".into()));
    assert_eq!(owner(&knowledge, "10.21.1.1"), Some("corp".into()));
    assert_eq!(owner(&knowledge, "192.0.2.1"), None);
    let sql = "select id, big::text, real, data, seen::text, ok, note from pg.Kinds order by Id";
    let rows = knowledge.query_all(sql, ()).unwrap();
    let seen: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|value| format!("{value:?}")).collect())
        .collect();
    let text = |text: &str| format!("{:?}", Value::from(text));
    assert_eq!(seen[0][1], text("12345678901.50000"));
    assert_eq!(rows.row(0)[2], Value::Float(0.1));
    assert_eq!(rows.row(0)[3], Value::from(vec![0_u8, 255]));
    assert_eq!(rows.row(0)[5], Value::Bool(true));
    assert_eq!(rows.row(0)[6], Value::from("a, \"b\" \\c {d} NULL"));
    assert_eq!(rows.row(1)[2], Value::Float(1e300));
    assert_eq!(
        (&rows.row(1)[5], &rows.row(1)[6]),
        (&Value::Bool(false), &Value::Null)
    );
    // Without the provider's name, the tables are those in SQLite, and native plans answer.
    let plan = knowledge
        .explain("select owner from networks where net = :net")
        .unwrap();
    assert_eq!(plan.kind, PlanKind::Hash);
    let error = knowledge.query_all("select owner from networks where net >>= '10.0.0.0/8'", ());
    let text = error.unwrap_err().to_string();
    assert!(text.contains("write `pg.` before"), "{text}");
    let sql = "select count(*) from pg.pg_indexes where schemaname like 'lookaside%'";
    let indexes = knowledge.query_first(sql, ()).unwrap().unwrap();
    assert_eq!(indexes[0], Value::Int(4));
}

#[test]
fn a_reload_is_whole_or_nothing() {
    let folder = project();
    let Some(knowledge) = open(&folder) else {
        return;
    };
    let knowledge = knowledge.unwrap();
    let statement = knowledge.prepare(BY_ADDRESS).unwrap();
    let ask = |ip: &str| {
        let row = knowledge
            .query_first(&statement, &params! {"ip" => ip})
            .unwrap();
        row.map(|row| row[0].clone())
    };
    assert_eq!(ask("10.20.1.1"), Some("lab".into()));
    let mut old = knowledge.session();
    old.prepare(BY_ADDRESS).unwrap();

    write(
        folder.path(),
        "networks/data.csv",
        "net,owner\n10.0.0.0/8,corp\nno network,x\n",
    );
    let error = knowledge.reload().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data, "{error}");
    let text = error.to_string();
    assert!(
        text.contains("table \"networks\": the embedded PostgreSQL refuses its rows"),
        "{text}"
    );
    assert!(text.contains("\"no network\""), "{text}");
    assert!(text.contains("networks/create.postgres.sql"), "{text}");
    assert_eq!(ask("10.20.1.1"), Some("lab".into()), "the old tables stay");

    write(
        folder.path(),
        "networks/data.csv",
        "net,owner\n10.20.0.0/16,office\n",
    );
    knowledge.reload().unwrap();
    assert_eq!(ask("10.20.1.1"), Some("office".into()));
    assert_eq!(ask("10.21.1.1"), None);
    drop(old);
    let sql = "select count(*) from pg.pg_namespace where nspname like 'lookaside%'";
    let is_clean = || {
        let count = knowledge
            .query_first_with(sql, (), lookaside_knowledge::Policy::Bypass)
            .unwrap()
            .unwrap();
        count[0] == Value::Int(1)
    };
    wait_until("schemas of old generations are gone", is_clean);
}

#[test]
fn nobody_starts_a_server_unasked() {
    let folder = project();
    let error = Knowledge::open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("Builder::embedded"), "{error}");
    let error = Knowledge::builder(folder.path())
        .embedded(|_| Err("no server today".into()))
        .open()
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("provider `pg`: the embedded PostgreSQL"),
        "{error}"
    );
}
