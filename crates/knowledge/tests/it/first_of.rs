//! Names of `[[first_of]]`: the first table with a row answers, then the default row.

use std::fmt::Write as _;
use std::fs;

use fastrand::Rng;
use lookaside_knowledge::{Knowledge, PlanKind, Value, params};
use tempfile::TempDir;

const TABLES: &str = "version = 2
[[tables]]
name = \"a\"
dir = \".\"
data_file = \"a.csv\"
[[tables]]
name = \"b\"
dir = \".\"
data_file = \"b.csv\"
";

const HEADER: &str = "k,lo,hi,net,host,name";

fn project(first_of: &str, rows: [&str; 2]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("knowdb.toml"),
        format!("{TABLES}{first_of}"),
    )
    .unwrap();
    for (name, rows) in ["a", "b"].into_iter().zip(rows) {
        let file = folder.path().join(name).with_extension("csv");
        fs::write(file, format!("{HEADER}\n{rows}")).unwrap();
    }
    folder
}

const OWNER: &str = "[[first_of]]\nname = \"owner\"\ntables = [\"a\", \"b\"]\n";

const TWO: [&str; 2] = [
    "1,10,20,10.0.0.0/8,example.com,a1\n",
    "1,10,30,10.1.0.0/16,a.example.com,b1\n2,40,50,::/0,org,b2\n",
];

fn name(knowledge: &Knowledge, sql: &str, key: i64) -> Option<String> {
    let row = knowledge.query_first(sql, &params! {"x" => key}).unwrap();
    row.map(|row| row[0].to_string())
}

#[test]
fn the_first_table_with_a_row_answers() {
    let folder = project(OWNER, TWO);
    let knowledge = Knowledge::open(folder.path()).unwrap();
    for (sql, kind) in [
        ("select name from owner where k = :x", PlanKind::Hash),
        ("select name from owner where k + 0 = :x", PlanKind::Sqlite),
    ] {
        assert_eq!(knowledge.explain(sql).unwrap().kind, kind);
        assert_eq!(name(&knowledge, sql, 1).as_deref(), Some("a1"), "{sql}");
        assert_eq!(name(&knowledge, sql, 2).as_deref(), Some("b2"), "{sql}");
        assert_eq!(name(&knowledge, sql, 3), None, "{sql}");
    }
    // A reload changes which table that is.
    fs::write(
        folder.path().join("a.csv"),
        format!("{HEADER}\n2,1,2,,,a2\n"),
    )
    .unwrap();
    knowledge.reload().unwrap();
    for sql in [
        "select name from owner where k = :x",
        "select name from owner where k + 0 = :x",
    ] {
        assert_eq!(name(&knowledge, sql, 1).as_deref(), Some("b1"), "{sql}");
        assert_eq!(name(&knowledge, sql, 2).as_deref(), Some("a2"), "{sql}");
    }
}

#[test]
fn explanations_name_the_tables() {
    let folder = project(OWNER, TWO);
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let explanation = knowledge
        .explain("select name from owner where k = :x")
        .unwrap();
    assert_eq!(explanation.first_of, ["a", "b"]);
    assert_eq!(explanation.summary(), "hash index of owner(k)");
    assert_eq!(explanation.row_count, 3);
    let text = explanation.to_string();
    assert!(text.ends_with("\n  first of: a, b"), "{text}");
    let explanation = knowledge
        .explain("select name from owner where k + 0 = :x")
        .unwrap();
    assert_eq!(explanation.tables(), ["a", "b"]);
    let text = explanation.to_string();
    assert!(text.contains("full scan of a"), "{text}");
    assert!(text.contains("full scan of b"), "{text}");
}

#[test]
fn the_default_row_answers_if_no_table_has_one() {
    let on_miss = format!("{OWNER}on_miss = {{ name = \"none\", lo = -1, hi = 0.5, k = true }}\n");
    let folder = project(&on_miss, TWO);
    let knowledge = Knowledge::open(folder.path()).unwrap();
    for condition in ["k = :x", "k + 0 = :x"] {
        let sql = format!("select name, lo, hi, k, net from owner where {condition}");
        let rows = knowledge.query_all(&*sql, &params! {"x" => 7}).unwrap();
        let row: Vec<Value> = rows.row(0).to_vec();
        let expected = [
            "none".into(),
            Value::Int(-1),
            Value::Float(0.5),
            Value::Int(1),
            Value::Null,
        ];
        assert_eq!((rows.len(), row), (1, expected.to_vec()), "{sql}");
        assert_eq!(name(&knowledge, &sql, 2).as_deref(), Some("b2"), "{sql}");
    }
    // Its columns are computed as those of other rows, whatever the conditions and the limit.
    let sql = "select upper(name) || :x from owner as o where k = :x order by k limit 1";
    assert_eq!(name(&knowledge, sql, 7).as_deref(), Some("NONE7"));
}

#[test]
fn statements_that_cannot_be_expanded_are_refused() {
    let folder = project(OWNER, TWO);
    let knowledge = Knowledge::open(folder.path()).unwrap();
    for (sql, expected) in [
        (
            "select name from owner join a using (k) where a.k = :x",
            "`owner` is defined by [[first_of]], so a statement that reads it must be a single select",
        ),
        (
            "select count(*) from owner",
            "cannot use aggregate or window functions",
        ),
        (
            "select max(name) from owner where k = :x",
            "cannot use aggregate or window functions",
        ),
        ("select nam from owner where k = :x", "no such column: nam"),
    ] {
        let params = params! {"x" => 1};
        let result = match sql.contains(":x") {
            true => knowledge.query_first(sql, &params),
            false => knowledge.query_first(sql, ()),
        };
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{sql}: {error}");
    }
    let other = project(OWNER, TWO);
    fs::write(other.path().join("b.csv"), "k,name,more\n1,x,y\n").unwrap();
    let knowledge = Knowledge::open(other.path()).unwrap();
    let all = knowledge.query_first("select * from owner where k = :x", &params! {"x" => 1});
    let error = all.unwrap_err().to_string();
    assert!(
        error.contains("the tables of `owner` have different columns"),
        "{error}"
    );
    assert_eq!(
        name(&knowledge, "select name from owner where k = :x", 1).unwrap(),
        "a1"
    );
}

#[test]
fn wrong_entries_are_refused_with_their_line() {
    for (entry, expected) in [
        (
            "tables = [\"a\"]",
            "knowdb.toml:10: first_of.name is missing",
        ),
        ("name = \"o\"", "knowdb.toml:10: first_of.tables is missing"),
        (
            "name = \"o\"\ntables = [\"a\", \"c\"]",
            "knowdb.toml:12: first_of.tables has \"c\", which is not a table; there are a, b",
        ),
        (
            "name = \"o\"\ntables = [\"a\", \"A\"]",
            "knowdb.toml:12: first_of.tables has \"A\" twice",
        ),
        (
            "name = \"B\"\ntables = [\"a\"]",
            "knowdb.toml:11: first_of.name \"B\" is already the name of the entry in line 6",
        ),
        (
            "name = \"a b\"\ntables = [\"a\"]",
            "knowdb.toml:11: first_of.name \"a b\" cannot be read in SQL without quotes",
        ),
        (
            "name = \"o\"\ntables = [\"a\"]\non_miss = {}",
            "knowdb.toml:13: first_of.on_miss has no columns",
        ),
        (
            "name = \"o\"\ntables = [\"a\"]\non_miss = { lo = 1, Lo = 2 }",
            "knowdb.toml:13: first_of.on_miss has",
        ),
        (
            "name = \"o\"\ntables = [\"a\"]\non_miss = { name = [1] }",
            "knowdb.toml:13: on_miss.name must be a string, a number, true or false",
        ),
        (
            "name = \"o\"\ntables = [\"a\"]\non_miss = { lo = inf }",
            "knowdb.toml:13: on_miss.lo must be a string",
        ),
        (
            "name = \"o\"\ntables = [\"a\"]\non_miss = { nam = \"x\" }",
            "knowdb.toml:10: first_of.on_miss.nam is not a column of \"a\", which has k, lo, hi, net, host, name",
        ),
        (
            "name = \"o\"\ntables = [\"a\"]\non_mis = { name = \"x\" }",
            "knowdb.toml:13: unknown key first_of.on_mis",
        ),
    ] {
        let folder = project(&format!("[[first_of]]\n{entry}\n"), TWO);
        let error = Knowledge::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\n{expected}");
    }
}

/// A select list, the other name of the table, and what follows.
const STATEMENTS: [(&str, &str, &str); 11] = [
    ("name, k", "", "where k = :x"),
    ("name", "", "where k = :x order by rowid limit 1"),
    ("T.name as n", "", "where T.k = :x and T.lo = :x"),
    ("name", "", "where lo <= :x and hi >= :x"),
    (
        "name",
        "",
        "where lo <= :x and hi >= :x order by lo desc limit 1",
    ),
    (
        "name, net",
        "",
        "where cidr_contains('10.0.0.' || :x, net) order by cidr_len(net) desc",
    ),
    (
        "name",
        "as z",
        "where host_under('a' || :x || '.example.com', z.host)",
    ),
    ("upper(name), :x", "", "where k + 0 = :x order by name desc"),
    ("distinct name", "z", "where z.k > :x order by name limit 2"),
    (
        "name",
        "",
        "where k = :x or lo = :x order by hi, name -- all",
    ),
    ("k, lower(name) as c", "", "where k = :x;"),
];

fn random_rows(rng: &mut Rng) -> String {
    let mut rows = String::new();
    for row in 0..rng.u32(0..6) {
        let (k, lo) = (rng.i32(0..6), rng.i32(0..6));
        let k = if rng.u8(0..8) == 0 {
            String::new()
        } else {
            k.to_string()
        };
        let net = [
            "10.0.0.0/8",
            "10.0.0.0/30",
            "0.0.0.0/0",
            "10.0.0.2/32",
            "::/0",
        ];
        let host = [
            "example.com",
            "a1.example.com",
            "com",
            "*.example.com",
            "net",
        ];
        let (net, host) = (rng.choice(net).unwrap(), rng.choice(host).unwrap());
        let (hi, tag) = (lo + rng.i32(0..3), rng.u8(0..9));
        writeln!(rows, "{k},{lo},{hi},{net},{host},n{row}{tag}").unwrap();
    }
    rows
}

#[test]
fn answers_equal_those_of_the_tables_in_turn() {
    let seed = std::env::var("LOOKASIDE_SEED").map_or_else(
        |_| fastrand::u64(..),
        |seed| seed.parse().expect("LOOKASIDE_SEED is a number"),
    );
    let mut rng = Rng::with_seed(seed);
    let mut answered_by = [0; 4];
    for _ in 0..40 {
        let on_miss = rng.bool();
        let default = if on_miss {
            "on_miss = { name = \"none\", k = 9 }\n"
        } else {
            ""
        };
        let rows = [random_rows(&mut rng), random_rows(&mut rng)];
        let folder = project(&format!("{OWNER}{default}"), [&rows[0], &rows[1]]);
        // Empty tables have no types to derive, and columns of text only.
        let knowledge = Knowledge::open(folder.path()).unwrap();
        for (list, alias, rest) in STATEMENTS {
            let sql = |table: &str| {
                let text = format!("select {list} from {table} {alias} {rest}");
                text.replace("T.", &format!("{table}."))
            };
            let miss = format!(
                "select {list} from (select 9 as k, null as lo, null as hi, null as net,
                 null as host, 'none' as name) as {}",
                if alias.is_empty() {
                    "owner"
                } else {
                    alias.trim_start_matches("as ")
                }
            );
            let miss = miss.replace("T.", "owner.");
            for x in 0..6 {
                let params = params! {"x" => x};
                let all = |sql: &str| knowledge.query_all(sql, &params).unwrap();
                let of_tables = ["a", "b"].map(|table| all(&sql(table)));
                let found = of_tables.iter().position(|rows| !rows.is_empty());
                let expected = match found {
                    Some(table) => of_tables[table].clone(),
                    None if on_miss && miss.contains(":x") => all(&miss),
                    None if on_miss => knowledge.query_all(&*miss, ()).unwrap(),
                    None => of_tables[0].clone(),
                };
                answered_by[found.unwrap_or(2 + usize::from(on_miss))] += 1;
                let sql = sql("owner");
                let context = format!("LOOKASIDE_SEED={seed}\n{sql}, :x = {x}\n{rows:#?}");
                assert_eq!(all(&sql), expected, "{context}");
                let first = knowledge.query_first(&*sql, &params).unwrap();
                let first = first.map(|row| row.to_vec());
                let expected = (!expected.is_empty()).then(|| expected.row(0).to_vec());
                assert_eq!(first, expected, "{context}");
            }
        }
    }
    let is_covered = answered_by.iter().all(|count| *count > 50);
    assert!(is_covered, "LOOKASIDE_SEED={seed}: {answered_by:?}");
}
