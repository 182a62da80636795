//! What does SQL itself cost? The tests are of the same kinds as those for which PGlite publishes
//! figures (pglite.dev/benchmarks), which come from SQLite's speed test (sqlite.org/speed.html):
//! the same tables, counts and order, with data of our own seed.

use std::fmt::Write as _;

use clap::Args;
use lookaside_client::postgres::blocking::Connection;
use lookaside_load::measure::AnswerHash;
use lookaside_load::workload::Random;

use super::Result;
use super::measure::Samples;
use super::report::Report;
use super::served::{ServedArguments, ServedDatabase, hash_rows, run_script};

/// A suite of SQL: inserts, selects, updates and deletes by the thousand, with and without indexes
#[derive(Debug, Args)]
pub(super) struct SpeedArguments {
    #[command(flatten)]
    served: ServedArguments,
}

/// One test of the suite.
struct Test {
    name: &'static str,
    script: Script,
}

/// How the statements are sent.
enum Script {
    /// All in one message, as PGlite's suite sends them.
    Whole(String),
    /// Each in a separate message, so that each is committed and answered.
    Single(Vec<String>),
}

pub(super) fn run(arguments: &SpeedArguments) -> Result<()> {
    let served = ServedDatabase::start(&arguments.served)?;
    let mut report = Report::new("speed", arguments.served.json);
    let tests = suite();
    let mut samples = vec![Samples::default(); tests.len()];
    let mut hashes = Vec::new();
    for round in 0..=arguments.served.rounds {
        // Each round meets an empty schema; the first one warms up the server and is discarded.
        let mut connection = served.connect()?;
        if round == 0 {
            let durability = served.durability(&mut connection)?;
            let from = format!("an open connection, an empty schema, {durability}");
            report.begin(&served.engine(&connection), &from);
        }
        for (test, samples) in tests.iter().zip(&mut samples) {
            report.measuring(&format!("{}, round {round}", test.name));
            if round == 0 {
                hashes.push(run_test(&mut connection, &test.script)?);
            } else {
                samples.time(1, || run_test(&mut connection, &test.script))?;
            }
        }
        ServedDatabase::disconnect(connection)?;
    }
    for ((test, samples), hash) in tests.iter().zip(&samples).zip(hashes) {
        report.add(test.name, 1, samples, Some(hash), Vec::new())?;
    }
    report.finish()
}

fn run_test(connection: &mut Connection, script: &Script) -> Result<AnswerHash> {
    let statements = match script {
        Script::Whole(sql) => std::slice::from_ref(sql),
        Script::Single(statements) => statements,
    };
    let mut hash = AnswerHash::new();
    for sql in statements {
        let answers = run_script(connection, sql)?;
        hash_rows(&mut hash, answers.iter().map(|answer| &answer.rows));
    }
    Ok(hash)
}

pub(super) const ROW_COUNT: u64 = 25_000;
/// The upper bound of the tables' random numbers.
pub(super) const NUMBER_BOUND: u64 = 100_000;

fn suite() -> Vec<Test> {
    let mut random = Random::new(11);
    let whole = |name, sql| Test {
        name,
        script: Script::Whole(sql),
    };
    vec![
        Test {
            name: "1,000 inserts, a commit each",
            script: Script::Single(
                std::iter::once(create("t0"))
                    .chain((1..=1_000).map(|id| insert("t0", id, &mut random)))
                    .collect(),
            ),
        },
        whole(
            "1: 1,000 inserts in a script",
            create("t1") + &inserts("t1", 1_000, &mut random),
        ),
        whole(
            "2: 25,000 inserts in a transaction",
            in_transaction(create("t2") + &inserts("t2", ROW_COUNT, &mut random)),
        ),
        whole(
            "2.1: 25,000 inserts in one statement",
            create("t2_1") + &insert_rows("t2_1", ROW_COUNT, &mut random),
        ),
        whole(
            "3: 25,000 inserts into an indexed table",
            in_transaction(create_indexed("t3") + &inserts("t3", ROW_COUNT, &mut random)),
        ),
        whole(
            "3.1: the same in one statement",
            create_indexed("t3_1") + &insert_rows("t3_1", ROW_COUNT, &mut random),
        ),
        whole(
            "4: 100 selects without an index",
            selects_of_ranges(100, 100, 1_000),
        ),
        whole("5: 100 selects comparing texts", selects_of_texts()),
        whole(
            "6: create an index",
            "create index i2a on t2 (a); create index i2b on t2 (b);".to_owned(),
        ),
        whole(
            "7: 5,000 selects with an index",
            selects_of_ranges(5_000, 100, 100),
        ),
        whole("8: 1,000 updates without an index", updates_of_ranges()),
        whole(
            "9: 25,000 updates with an index",
            updates(|id, random| {
                let number = random.below(NUMBER_BOUND);
                format!("update t2 set b = {number} where a = {id};")
            }),
        ),
        whole(
            "10: 25,000 text updates with an index",
            updates(|id, random| {
                let text = words(random.below(NUMBER_BOUND));
                format!("update t2 set c = '{text}' where a = {id};")
            }),
        ),
        whole(
            "11: inserts from a select",
            in_transaction(
                "insert into t1 select b, a, c from t2; insert into t2 select b, a, c from t1;"
                    .to_owned(),
            ),
        ),
        whole(
            "12: delete without an index",
            "delete from t2 where c like '%fifty%';".to_owned(),
        ),
        whole(
            "13: delete with an index",
            "delete from t2 where a > 10 and a < 20000;".to_owned(),
        ),
        whole(
            "14: a big insert after a big delete",
            "insert into t2 select * from t1;".to_owned(),
        ),
        whole(
            "15: a big delete, 12,000 small inserts",
            in_transaction("delete from t1;".to_owned() + &inserts("t1", 12_000, &mut random)),
        ),
        whole(
            "16: drop tables",
            "drop table t1; drop table t2; drop table t3;".to_owned(),
        ),
    ]
}

pub(super) fn in_transaction(sql: String) -> String {
    format!("begin;{sql}commit;")
}

fn create(table: &str) -> String {
    format!("create table {table} (a integer, b integer, c varchar(100));")
}

fn create_indexed(table: &str) -> String {
    format!("{}create index i_{table} on {table} (c);", create(table))
}

fn row(id: u64, random: &mut Random) -> String {
    let number = random.below(NUMBER_BOUND);
    format!("({id}, {number}, '{}')", words(number))
}

fn insert(table: &str, id: u64, random: &mut Random) -> String {
    format!("insert into {table} values {};", row(id, random))
}

fn inserts(table: &str, count: u64, random: &mut Random) -> String {
    (1..=count).map(|id| insert(table, id, random)).collect()
}

pub(super) fn insert_rows(table: &str, count: u64, random: &mut Random) -> String {
    let rows: Vec<_> = (1..=count).map(|id| row(id, random)).collect();
    format!("insert into {table} values {};", rows.join(","))
}

fn selects_of_ranges(count: u64, step: u64, width: u64) -> String {
    let select = |index: u64| {
        let first = index * step;
        let end = first + width;
        format!("select count(*), avg(b) from t2 where b >= {first} and b < {end};")
    };
    in_transaction((0..count).map(select).collect())
}

fn selects_of_texts() -> String {
    let select = |index| {
        let text = words(index);
        format!("select count(*), avg(b) from t2 where c like '%{text}%';")
    };
    in_transaction((1..=100).map(select).collect())
}

fn updates_of_ranges() -> String {
    let update = |index: u64| {
        let (first, end) = (index * 10, index * 10 + 10);
        format!("update t1 set b = b * 2 where a >= {first} and a < {end};")
    };
    in_transaction((0..1_000).map(update).collect())
}

fn updates(update: impl Fn(u64, &mut Random) -> String) -> String {
    let mut random = Random::new(13);
    let mut sql = String::new();
    for id in 1..=ROW_COUNT {
        sql += &update(id, &mut random);
    }
    in_transaction(sql)
}

/// A number below a million in English words, like the texts of SQLite's speed test.
pub(super) fn words(number: u64) -> String {
    const ONES: [&str; 20] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    const TENS: [&str; 10] = [
        "", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
    ];
    let (head, rest) = match number {
        0..20 => return ONES[number as usize].to_owned(),
        20..100 => (TENS[number as usize / 10].to_owned(), number % 10),
        100..1_000 => (
            format!("{} hundred", ONES[number as usize / 100]),
            number % 100,
        ),
        _ => (
            format!("{} thousand", words(number / 1_000)),
            number % 1_000,
        ),
    };
    let mut text = head;
    if rest > 0 {
        write!(text, " {}", words(rest)).expect("a string takes any text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spelt() {
        for (number, text) in [
            (0, "zero"),
            (13, "thirteen"),
            (40, "forty"),
            (52, "fifty two"),
            (100, "one hundred"),
            (13_153, "thirteen thousand one hundred fifty three"),
            (99_999, "ninety nine thousand nine hundred ninety nine"),
        ] {
            assert_eq!(words(number), text);
        }
    }
}
