//! The same queries to SQLite, PostgreSQL and MariaDB.

use std::fmt::Write as _;
use std::fs;

use lookaside_knowledge::{Knowledge, Value, params};
use lookaside_testing::{Brand, Server};

use super::{mysql_database, postgres, write_project};

/// Queries that have the same meaning in all databases: whole numbers, text and NULL; `order by`
/// where the order matters.
const QUESTIONS: &[&str] = &[
    "select * from {t} where id = :id",
    "select id, name from {t} where id > :id order by id",
    "select name from {t} where name = :name order by id",
    "select count(*) as n, sum(size) as s, min(name) as a, max(size) as b from {t} where size > :id",
    "select size, count(*) as n from {t} group by size order by size",
    "select x.id, y.id as other from {t} as x join {t} as y on x.id = y.size order by 1, 2",
    "with big as (select * from {t} where size >= :id) select count(*) as n from big",
    "select id from {t} where name is null order by id",
    "select id, case when size > :id then 'big' else 'small' end as word from {t} order by id limit 7",
    "select coalesce(name, 'none') as name, length(name) as n from {t} order by id",
    "select id + :id as n, id * 2 as twice, id % 7 as rest from {t} where id between :id and 40 order by id",
    "select upper(name) as name, replace(name, 'a', ':x') as r from {t} where name like 'a%' order by id",
    "select id from {t} where id in (select size from {t} where size is not null) order by id",
    "select distinct size from {t} where size < 30 order by size desc",
    "select id from {t} where id = :id union select size from {t} where size = :id order by 1",
];

/// The rows, as CSV and as inserts.
fn rows(escape: fn(&str) -> String) -> (String, Vec<String>) {
    let mut random = fastrand::Rng::with_seed(20_260_103);
    let (mut csv, mut inserts) = ("id,size,name\n".to_owned(), Vec::new());
    for id in 1..=100 {
        let size = random.u32(0..60);
        let name = NAMES[random.usize(0..NAMES.len())];
        writeln!(csv, "{id},{size},\"{name}\"").unwrap();
        let quoted = escape(name);
        inserts.push(format!("insert into t values ({id}, {size}, '{quoted}')"));
    }
    (csv, inserts)
}

const NAMES: [&str; 10] = [
    "ada",
    "bob",
    "abba",
    "",
    "x y",
    "quote's",
    "back\\slash",
    "per%cent",
    "é",
    "日本",
];

/// Queries the folder and the provider, whose table has the same rows.
fn check(
    url: &str,
    csv: &str,
    provider: &str,
    questions: impl Iterator<Item = &'static &'static str>,
) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("t")).unwrap();
    let create = "create table {table} (id integer primary key, size integer, name text)";
    fs::write(folder.path().join("t/create.sql"), create).unwrap();
    fs::write(
        folder.path().join("t/insert.sql"),
        "insert into {table} values (?1, ?2, ?3)",
    )
    .unwrap();
    fs::write(folder.path().join("t/data.csv"), csv).unwrap();
    write_project(
        folder.path(),
        url,
        "",
        "[[tables]]\nname = 't'\n[csv]\ntrim = false",
    );
    let knowledge = Knowledge::open(folder.path()).unwrap();
    for question in questions {
        for id in [1, 17, 50, 1000] {
            let ask = |table: &str| {
                let sql = question.replace("{t}", table);
                let all = params! {"id" => id, "name" => NAMES[id as usize % NAMES.len()]};
                let params: Vec<_> = all
                    .into_iter()
                    .filter(|(name, _)| sql.contains(&format!(":{name}")))
                    .collect();
                let rows = knowledge.query_all(&sql, params.as_slice());
                let rows = rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
                let first = knowledge.query_first(&sql, params.as_slice()).unwrap();
                assert_eq!(first.as_deref(), rows.iter().next(), "{sql}");
                let cells = |row: &[Value]| row.iter().map(plain).collect::<Vec<_>>();
                let table: Vec<_> = rows.iter().map(cells).collect();
                (rows.columns().to_vec(), table)
            };
            let theirs = format!("{provider}.t");
            assert_eq!(ask("local.t"), ask(&theirs), "{question} with {id}");
        }
    }
}

#[test]
fn postgres_answers_as_sqlite_does() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    let (csv, inserts) = rows(|name| name.replace('\'', "''"));
    postgres
        .execute("create table t (id bigint primary key, size bigint, name text collate \"C\")")
        .unwrap();
    postgres.execute(&inserts.join(";")).unwrap();
    check(&postgres.url(), &csv, "pg", QUESTIONS.iter());
}

#[test]
fn mariadb_answers_as_sqlite_does() {
    let Some(server) = Server::shared(Brand::MariaDb) else {
        return;
    };
    let (mut connection, url) = mysql_database(server);
    let (csv, inserts) = rows(|name| name.replace('\\', "\\\\").replace('\'', "''"));
    let create = "create table t (id bigint primary key, size bigint, \
        name varchar(50) character set utf8mb4 collate utf8mb4_bin)";
    connection.query(create, &[]).unwrap();
    for insert in inserts {
        connection.query(insert, &[]).unwrap();
    }
    // `length` counts bytes there.
    let questions = QUESTIONS
        .iter()
        .filter(|question| !question.contains("length"));
    check(&url, &csv, "my", questions);
}

/// A sum of `bigint` is a `numeric` in PostgreSQL.
fn plain(value: &Value) -> Value {
    match value {
        Value::Decimal(decimal) => decimal.as_str().parse().map(Value::Int).unwrap(),
        value => value.clone(),
    }
}
