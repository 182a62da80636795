//! A table that is reloaded shares rows and indexes with that of the last load, and answers as one that is
//! loaded for the first time.

use lookaside_value::{Answers, BatchQuery, Lookup, ParamBatch, Value};

use super::*;
use crate::{Knowledge, RowChanges, params};

/// Statements with one parameter, by the plans that they have.
const STATEMENTS: [&str; 12] = [
    "select id, k, v, u, rowid from t where id = :x",
    "select * from t where k = :x",
    "select v, k from t where k = :x order by rowid",
    "select rowid, v from t where v = :x",
    "select k from t where rowid = :x",
    "select u from t where v = :x and k = 'b'",
    "select id from t where ip_key(k) = ip_key('10.0.0.1') and u = :x",
    "select count(*), min(rowid), max(id), sum(v * rowid) from t where u > :x",
    "select rowid, * from t where id > :x order by rowid",
    "select id, rowid from t where v <= :x and u >= :x order by rowid",
    "select id from t where v <= :x and u >= :x order by v desc, rowid",
    "select id, k from t where host_under(k, :x) order by length(k) desc, rowid",
];

/// How many of the statements, from the first, have hash indexes only.
const HASH_COUNT: usize = 9;

const CREATES: [Option<&str>; 5] = [
    None,
    Some("create table {table} (id integer primary key, k text, v integer, u integer)"),
    Some("create table {table} (id integer, k text unique, v integer, u integer)"),
    Some("create table {table} (id, k, v, u, unique (k, v))"),
    Some("create table {table} (id real, k, v integer, u real)"),
];

type Record = [String; 4];

fn record(random: &mut fastrand::Rng, id: usize, has_unique_texts: bool) -> Record {
    let words = [
        "a",
        "b",
        "",
        "a.b",
        "10.0.0.1",
        "a text that is longer than a value",
    ];
    let word = match has_unique_texts {
        true => format!("k{id}"),
        false => random.choice(words).unwrap().to_owned(),
    };
    let low = random.u8(..20);
    let high = low + random.u8(..4);
    [id.to_string(), word, low.to_string(), high.to_string()]
}

/// Changes of a file, of which most keep most rows.
fn change(random: &mut fastrand::Rng, records: &mut Vec<Record>, has_unique: bool) {
    let next_id = records
        .iter()
        .filter_map(|it| it[0].parse().ok())
        .max()
        .unwrap_or(0)
        + 1;
    let at = |random: &mut fastrand::Rng, records: &Vec<Record>| random.usize(..=records.len());
    match random.u8(..12) {
        0 => {}
        1 => random.shuffle(records),
        2 => records.retain(|_| false),
        3 => {
            for record in records.iter_mut() {
                record[3] = "19".into();
            }
        }
        4 => {
            let start = at(random, records);
            let end = (start + random.usize(..10)).min(records.len());
            records.drain(start..end);
        }
        5 if !records.is_empty() => {
            let from = random.usize(..records.len());
            let moved = records.remove(from);
            let to = at(random, records);
            records.insert(to, moved);
        }
        6 => {
            let to = at(random, records);
            let count = random.usize(..15);
            let new = (0..count).map(|index| record(random, next_id + index, has_unique));
            let new: Vec<Record> = new.collect();
            records.splice(to..to, new);
        }
        8 if !records.is_empty() => {
            let record = random.usize(..records.len());
            records[record][3] = random.choice(["0.0", "-0.0", "a", "7.5"]).unwrap().into();
        }
        7 => {
            let new = (0..5).map(|index| record(random, next_id + index, has_unique));
            let new: Vec<Record> = new.collect();
            records.extend(new);
        }
        _ => {
            for _ in 0..random.usize(1..6) {
                let to = at(random, records);
                let id = match random.u8(..10) {
                    0 => next_id / 2,
                    _ => next_id,
                };
                match (random.u8(..4), to < records.len()) {
                    (0, _) => records.insert(to, record(random, id, has_unique)),
                    (1, true) => drop(records.remove(to)),
                    (_, true) => {
                        let old = records[to][0].parse().unwrap_or(id);
                        let new = record(random, old, has_unique);
                        let column = random.usize(1..4);
                        records[to][column] = new[column].clone();
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Everything that a project answers to these statements.
fn answers(knowledge: &Knowledge, statements: &[&str]) -> Vec<String> {
    let (mut answers, mut session) = (Vec::new(), knowledge.session());
    let report = knowledge.load_report();
    answers.push(format!(
        "{} {:?}",
        report.tables[0].rows, report.tables[0].warnings
    ));
    let infos = knowledge.table_infos();
    answers.push(format!("{:?}", infos[0]));
    for &sql in statements {
        let plan = knowledge.explain(sql).unwrap();
        answers.push(format!(
            "{sql}: {:?} {} {}",
            plan.kind, plan.row_count, plan.key_count
        ));
        let texts = [
            "a",
            "b",
            "",
            "a.b",
            "k3",
            "k7",
            "a text that is longer than a value",
        ];
        let numbers = [0, 1, 3, 9, 19, 40, 1000];
        let values = texts
            .map(Value::from)
            .into_iter()
            .chain(numbers.map(Value::from));
        let statement = Lookup::prepare(&mut session, sql, &["x".into()]).unwrap();
        let mut batch = ParamBatch::new(1);
        values.clone().for_each(|value| batch.push([value]));
        let mut batched = Answers::new();
        session.answer(BatchQuery::first(statement), &batch, &mut batched);
        let rows = (0..batched.len()).map(|index| format!("{:?}", batched.row(index)));
        answers.push(format!("{sql}: {:?}", rows.collect::<Vec<_>>()));
        for value in values {
            let params = params! {"x" => value.clone()};
            let all = knowledge.query_all(sql, &params).map(|rows| {
                rows.iter()
                    .map(|row| format!("{row:?}"))
                    .collect::<Vec<_>>()
            });
            let first = knowledge.query_first(sql, &params);
            let first = first.map(|row| row.map(|row| format!("{:?}", &row[..])));
            answers.push(format!("{sql} {value:?}: {all:?} {first:?}"));
        }
    }
    answers
}

/// Reloads a random project several times; returns how many of the reloads have changed rows only.
fn check(seed: u64) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let create = *random.choice(&CREATES).unwrap();
    // With indexes that number rows in scan order, tables are loaded completely.
    let statements = match random.u8(..4) {
        0 => STATEMENTS.as_slice(),
        _ => &STATEMENTS[..HASH_COUNT],
    };
    let has_unique = create.is_some_and(|it| it.contains("unique"));
    let folder = tempfile::tempdir().unwrap();
    let folder = Folder(folder);
    let config = "version = 2\n[[tables]]\nname = 't'\n\
                  columns.by_header = ['id', 'k', 'v', 'u']\n[cache]\nenabled = false\n";
    folder.write("knowdb.toml", config);
    if let Some(create) = create {
        folder.write("t/create.sql", create);
        folder.write(
            "t/insert.sql",
            "insert into {table} values (?1, nullif(?2, ''), ?3, ?4)",
        );
    }
    let write = |records: &[Record]| {
        let lines = records.iter().map(|record| record.join(",") + "\n");
        folder.write(
            "t/data.csv",
            format!("id,k,v,u\n{}", lines.collect::<String>()),
        );
    };
    let row_count = random.usize(..120);
    let records = (0..row_count).map(|id| record(&mut random, id, has_unique));
    let mut records: Vec<Record> = records.collect();
    write(&records);
    let open = || {
        let statements = || STATEMENTS.map(used).to_vec();
        Knowledge::builder(folder.0.path())
            .statements(statements)
            .open()
    };
    let knowledge = open().unwrap();
    if random.bool() {
        answers(&knowledge, statements);
    }
    let mut changed_count = 0;
    for step in 0..6 {
        // The others are asked when rows have changed already.
        let asked = if step == 5 { &STATEMENTS } else { statements };
        let before = (records.clone(), answers(&knowledge, statements));
        change(&mut random, &mut records, has_unique);
        write(&records);
        let fresh = open();
        let reloaded = knowledge.reload();
        let place = format!("seed {seed}, step {step}, {create:?}\n{records:?}");
        match &fresh {
            Ok(fresh) => {
                reloaded.unwrap_or_else(|error| panic!("{error}, {place}"));
                for (found, expected) in
                    answers(&knowledge, asked).iter().zip(answers(fresh, asked))
                {
                    assert_eq!(*found, expected, "{place}");
                }
            }
            // As for two rows with the same key.
            Err(error) => {
                let reloaded = reloaded.expect_err(&place).to_string();
                assert_eq!(reloaded, error.to_string(), "{place}");
                assert_eq!(answers(&knowledge, statements), before.1, "{place}");
                records = before.0;
                continue;
            }
        }
        if let Some(changes) = knowledge.load_report().tables[0].changes {
            let (old, new) = (before.0.len() as u64, records.len() as u64);
            let RowChanges { added, removed } = changes;
            assert_eq!(statements.len(), HASH_COUNT, "{place}");
            assert_eq!(old + added, new + removed, "{place}");
            changed_count += 1;
        }
    }
    changed_count
}

#[test]
fn reloads_answer_as_first_loads() {
    let seed = fastrand::u64(..1 << 60);
    let changed: usize = (0..20).chain(seed..seed + 20).map(check).sum();
    assert!(changed > 60, "{changed} of 240 reloads");
}

#[test]
fn only_rows_that_differ_are_counted() {
    let line = |id: usize, value: &str| format!("{id},{value}\n");
    let table = "[[tables]]\nname = 't'\ncolumns.by_header = ['a', 'b']\n";
    let lines: Vec<String> = (0..500).map(|id| line(id, "x")).collect();
    let folder = Folder::new(table, format!("a,b\n{}", lines.concat()));
    let knowledge = Knowledge::open(folder.0.path()).unwrap();
    let reload = |lines: &[String]| {
        folder.write("t/data.csv", format!("a,b\n{}", lines.concat()));
        knowledge.reload().unwrap();
        let report = &knowledge.load_report().tables[0];
        let (changes, why) = (report.changes, report.loaded_completely);
        assert!(changes.is_none() || why.is_none(), "{changes:?}, {why:?}");
        changes.map(|it| (it.added, it.removed))
    };
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines = lines.clone();
        change(&mut lines);
        lines
    };
    assert_eq!(reload(&lines), Some((0, 0)));
    assert_eq!(reload(&with(&|it| it[7] = line(7, "y"))), Some((1, 1)));
    // Back again: the row is the one that was removed.
    assert_eq!(reload(&lines), Some((1, 1)));
    assert_eq!(
        reload(&with(&|it| it.insert(300, line(1, "z")))),
        Some((1, 0))
    );
    assert_eq!(reload(&with(&|it| drop(it.drain(100..150)))), Some((0, 51)));
    let prepended = with(&|it| {
        it.splice(0..0, (0..60).map(|id| line(id, "new")))
            .for_each(drop)
    });
    assert_eq!(reload(&prepended), Some((110, 0)));
    assert_eq!(reload(&with(&|it| it.rotate_right(60))), Some((60, 120)));
    assert_eq!(reload(&lines), Some((60, 60)));
    // Rows that have moved are added, also if they have moved back.
    let complete = || {
        assert_eq!(reload(&[]), None);
        assert_eq!(reload(&lines), None);
    };
    complete();
    assert_eq!(reload(&with(&|it| it.rotate_left(60))), Some((60, 60)));
    complete();
    let moved = with(&|it| {
        let lines: Vec<String> = it.drain(100..130).collect();
        drop(it.splice(400..400, lines));
    });
    // They are found in the sample, which has none of the first ones.
    let (added, removed) = reload(&moved).unwrap();
    assert!(added == removed && (30..40).contains(&added), "{added}");
    complete();
    assert_eq!(reload(&prepended), Some((60, 0)));
    // A record at the end that is not valid leaves all as it was.
    folder.write("t/data.csv", format!("a,b\n{}9,b,c\n", lines[1..].concat()));
    let error = knowledge.reload().unwrap_err().to_string();
    assert!(error.contains("data.csv:501"), "{error}");
    let row = knowledge.query_first("select b from t where a = '59'", ());
    assert_eq!(row.unwrap().unwrap()[0], Value::from("new"));
    assert_eq!(reload(&with(&|it| it.truncate(200))), None);
    let why = knowledge.load_report().tables[0].loaded_completely;
    assert!(why.is_some_and(|it| it.starts_with("more than a quarter")));
    assert_eq!(reload(&[]), None);
    assert_eq!(reload(&lines), None);
}

#[test]
fn changes_at_regular_places_are_found() {
    let table = "[[tables]]\nname = 't'\ncolumns.by_header = ['a', 'b']\n";
    let lines = |value: &dyn Fn(usize) -> usize| -> String {
        let lines = (0..4000).map(|id| format!("{id},{}\n", value(id)));
        format!("a,b\n{}", lines.collect::<String>())
    };
    for (period, first) in [(4, 0), (4, 3), (8, 0), (8, 5), (12, 0)] {
        let folder = Folder::new(table, lines(&|_| 0));
        let knowledge = Knowledge::open(folder.0.path()).unwrap();
        let changed = lines(&|id| usize::from(id % period == first));
        folder.write("t/data.csv", changed);
        knowledge.reload().unwrap();
        let changes = knowledge.load_report().tables[0].changes;
        let expected = (first..4000).step_by(period).count() as u64;
        let counts = changes.map(|it| (it.added, it.removed));
        assert_eq!(counts, Some((expected, expected)), "{period}, {first}");
    }
}

#[test]
fn removed_rows_do_not_exceed_the_memory_of_the_tables() {
    let tables = "[local]\ntable_memory_max = MAX\n\
         [[tables]]\nname = 't'\ncolumns.by_header = ['a', 'b']\n\
         [[tables]]\nname = 'u'\ncolumns.by_header = ['a', 'b']\n";
    let lines = |value: &str| -> String {
        let lines = (0..2000).map(|id| format!("{id},{}\n", if id % 5 == 0 { value } else { "x" }));
        format!("a,b\n{}", lines.collect::<String>())
    };
    let folder = Folder::new(&tables.replace("MAX", "1000000"), lines("y"));
    folder.write("u/data.csv", lines("y"));
    let knowledge = Knowledge::open(folder.0.path()).unwrap();
    let size = knowledge.snapshot().packed_size;
    drop(knowledge);
    let max = (size + size / 50).to_string();
    folder.write(
        "knowdb.toml",
        format!("version = 2\n{}", tables.replace("MAX", &max)),
    );
    let knowledge = Knowledge::open(folder.0.path()).unwrap();
    // Each of them fits, with the rows of the last one too, but not together with the other table.
    for (table, value) in [("t", "z"), ("u", "z"), ("t", "y")] {
        folder.write(&format!("{table}/data.csv"), lines(value));
        knowledge.reload().unwrap();
        let sql = format!("select b from {table} where a = '5'");
        let tables = &knowledge.load_report().tables;
        assert!(
            tables
                .iter()
                .any(|table| table.loaded_completely == Some(MEMORY))
        );
        let row = knowledge.query_first(&sql, ()).unwrap().unwrap();
        assert_eq!(row[0], Value::from(value));
    }
}

#[test]
fn other_columns_have_other_indexes() {
    let folder = Folder::new("[[tables]]\nname = 't'\n", "id,k,v\n1,a,5\n2,b,6\n3,c,7\n");
    folder.remove("t/create.sql");
    folder.remove("t/insert.sql");
    let knowledge = Knowledge::open(folder.0.path()).unwrap();
    let by_row_id = knowledge
        .prepare("select id from t where rowid = :n")
        .unwrap();
    let mut session = knowledge.session();
    let mut id = |number: i64| {
        let row = session.first(&by_row_id, &[Value::Int(number)]).unwrap();
        row.map(|row| row[0].clone())
    };
    assert_eq!(id(2), Some(Value::Int(2)));
    for data in [
        "id,k,v,x\n1,a,5,2\n2,b,6,3\n3,c,7,1\n",
        "x,id,k\n2,1,a\n3,2,b\n1,3,c\n",
        "id\n1\n2\n3\n",
    ] {
        folder.write("t/data.csv", data);
        knowledge.reload().unwrap();
        let found: Vec<_> = (1..4).map(&mut id).collect();
        let expected: Vec<_> = (1..4).map(|it| Some(Value::Int(it))).collect();
        assert_eq!(found, expected, "{data}");
    }
}
