//! How long do the statements of PGlite's published speed tests take? They are SQLite's old ones: the
//! tables and statements of each kind are as theirs, the numbers in them come from a seed here.
//!
//! Each test is one message of many statements, as the published ones are, and so without `begin`
//! one transaction all the same. The first is asked a second time with a message for each insert.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use crate::client::Client;
use crate::measure::{Measure, Report, Server, Stopwatch};

const COLUMNS: &str = "(a INTEGER, b INTEGER, c VARCHAR(100))";
const TABLES: [&str; 6] = ["t1", "t1_1", "t2", "t2_1", "t3", "t3_1"];
/// What t2 holds after its first test.
pub const ROW_COUNT: usize = 25_000;

pub fn run(url: &str, server: Server, rounds: usize, report: &Report) -> Result<()> {
    let tests = tests();
    let mut measures: Vec<Measure> = tests.iter().map(|test| Measure::new(&test.name)).collect();
    let mut client = Client::connect(url)?;
    let cpu = server.cpu(client.backend_pid());
    let mut answers = String::new();
    for round in 0..=rounds {
        for (test, measure) in tests.iter().zip(&mut measures) {
            if test.name.ends_with("DROP TABLE") {
                let found = fingerprint(&mut client)?;
                ensure!(
                    round == 0 || found == answers,
                    "round {round} left {found}, not {answers}"
                );
                answers = found;
            }
            let stopwatch = Stopwatch::start(Some(cpu));
            for message in &test.messages {
                client.ask(message)?;
            }
            // The first round warms up.
            if round > 0 {
                measure.add(stopwatch);
            }
        }
    }
    for measure in &mut measures {
        measure.set_answers(&answers);
        report.print(measure);
    }
    Ok(())
}

/// Engines that did the same work agree on this.
fn fingerprint(client: &mut Client) -> Result<String> {
    let sums = TABLES.map(|table| {
        format!(
            "(select count(*) || ':' || sum(a::int8 + b) || ':' || sum(length(c)) from {table})"
        )
    });
    client
        .ask(&format!("select concat_ws(' ', {})", sums.join(", ")))?
        .text()
}

struct Test {
    name: String,
    messages: Vec<String>,
}

fn tests() -> Vec<Test> {
    let mut numbers = Numbers::default();
    let mut tests = Vec::new();
    let mut test = |name: &str, messages: Vec<String>| {
        tests.push(Test {
            name: format!("speed {name}"),
            messages,
        });
    };
    let in_transaction = |statements: String| vec![format!("BEGIN;\n{statements}COMMIT;\n")];

    let inserts = numbers.inserts("t1", 1000);
    test(
        "1: 1000 INSERTs",
        vec![format!("CREATE TABLE t1{COLUMNS};\n{inserts}")],
    );
    let mut messages = vec![format!("CREATE TABLE t1_1{COLUMNS}")];
    messages.extend(numbers.inserts("t1_1", 1000).lines().map(str::to_owned));
    test("1.1: 1000 INSERTs, a message each", messages);
    let inserts = numbers.inserts("t2", ROW_COUNT);
    test(
        "2: 25000 INSERTs in a transaction",
        in_transaction(format!("CREATE TABLE t2{COLUMNS};\n{inserts}")),
    );
    let insert = numbers.one_insert("t2_1", ROW_COUNT);
    test(
        "2.1: 25000 INSERTs in one statement",
        in_transaction(format!("CREATE TABLE t2_1{COLUMNS};\n{insert}")),
    );
    let inserts = numbers.inserts("t3", ROW_COUNT);
    test(
        "3: 25000 INSERTs into an indexed table",
        in_transaction(format!(
            "CREATE TABLE t3{COLUMNS};\nCREATE INDEX i3 ON t3(c);\n{inserts}"
        )),
    );
    let insert = numbers.one_insert("t3_1", ROW_COUNT);
    test(
        "3.1: 25000 INSERTs into an indexed table in one statement",
        in_transaction(format!(
            "CREATE TABLE t3_1{COLUMNS};\nCREATE INDEX i3_1 ON t3_1(c);\n{insert}"
        )),
    );
    let ranges = |count: i32, step: i32, width: i32| {
        lines(count, |line, index| {
            let first = index * step;
            let last = first + width;
            write!(
                line,
                "SELECT count(*), avg(b) FROM t2 WHERE b>={first} AND b<{last};"
            )
        })
    };
    test(
        "4: 100 SELECTs without an index",
        in_transaction(ranges(100, 100, 1000)),
    );
    test(
        "5: 100 SELECTs on a string comparison",
        in_transaction(lines(100, |line, index| {
            let words = words(index as u32 + 1);
            write!(
                line,
                "SELECT count(*), avg(b) FROM t2 WHERE c LIKE '%{words}%';"
            )
        })),
    );
    test(
        "6: Creating indexes",
        vec!["CREATE INDEX i2a ON t2(a);\nCREATE INDEX i2b ON t2(b);\n".into()],
    );
    test(
        "7: 5000 SELECTs with an index",
        vec![ranges(5000, 100, 100)],
    );
    test(
        "8: 1000 UPDATEs without an index",
        in_transaction(lines(1000, |line, index| {
            let first = index * 10;
            write!(
                line,
                "UPDATE t1 SET b=b*2 WHERE a>={first} AND a<{};",
                first + 10
            )
        })),
    );
    test(
        "9: 25000 UPDATEs with an index",
        in_transaction(lines(ROW_COUNT as i32, |line, index| {
            let number = numbers.draw();
            write!(line, "UPDATE t2 SET b={number} WHERE a={};", index + 1)
        })),
    );
    test(
        "10: 25000 text UPDATEs with an index",
        in_transaction(lines(ROW_COUNT as i32, |line, index| {
            let words = words(numbers.draw());
            write!(line, "UPDATE t2 SET c='{words}' WHERE a={};", index + 1)
        })),
    );
    test(
        "11: INSERTs from a SELECT",
        in_transaction(
            "INSERT INTO t1 SELECT b,a,c FROM t2;\nINSERT INTO t2 SELECT b,a,c FROM t1;\n".into(),
        ),
    );
    test(
        "12: DELETE without an index",
        vec!["DELETE FROM t2 WHERE c LIKE '%fifty%';".into()],
    );
    test(
        "13: DELETE with an index",
        vec!["DELETE FROM t2 WHERE a>10 AND a<20000;".into()],
    );
    test(
        "14: A big INSERT after a big DELETE",
        vec!["INSERT INTO t2 SELECT * FROM t1;".into()],
    );
    let inserts = numbers.inserts("t1", 12_000);
    test(
        "15: A big DELETE followed by 12000 small INSERTs",
        in_transaction(format!("DELETE FROM t1;\n{inserts}")),
    );
    let drops = TABLES
        .map(|table| format!("DROP TABLE {table};\n"))
        .concat();
    test("16: DROP TABLE", vec![drops]);
    tests
}

/// A table like t2 after its tests 2 and 6.
pub fn indexed_table() -> String {
    let insert = Numbers::default().one_insert("t2", ROW_COUNT);
    format!(
        "DROP TABLE IF EXISTS t2;\nCREATE TABLE t2{COLUMNS};\n{insert}\
         CREATE INDEX i2a ON t2(a);\nCREATE INDEX i2b ON t2(b);\n"
    )
}

fn lines(count: i32, mut line: impl FnMut(&mut String, i32) -> std::fmt::Result) -> String {
    let mut text = String::new();
    for index in 0..count {
        line(&mut text, index).expect("a string takes everything");
        text.push('\n');
    }
    text
}

/// Numbers below 100,000 from a fixed seed.
pub struct Numbers(u64);

impl Default for Numbers {
    fn default() -> Self {
        Self(20_261_122)
    }
}

impl Numbers {
    pub fn draw(&mut self) -> u32 {
        // Knuth's linear congruential generator; its high bits are the random ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32 % 100_000
    }

    /// `(1,13153,'thirteen thousand one hundred fifty three')`
    fn row(&mut self, text: &mut String, index: i32) -> std::fmt::Result {
        let number = self.draw();
        write!(text, "({},{number},'{}')", index + 1, words(number))
    }

    fn inserts(&mut self, table: &str, count: usize) -> String {
        lines(count as i32, |line, index| {
            write!(line, "INSERT INTO {table} VALUES")?;
            self.row(line, index)?;
            line.push(';');
            Ok(())
        })
    }

    fn one_insert(&mut self, table: &str, count: usize) -> String {
        let rows = lines(count as i32, |line, index| {
            line.push(if index == 0 { ' ' } else { ',' });
            self.row(line, index)
        });
        format!("INSERT INTO {table} VALUES\n{};\n", rows.trim_end())
    }
}

/// A number below 1,000,000 in English, as SQLite's tests write it.
pub fn words(number: u32) -> String {
    const SMALL: [&str; 20] = [
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
        0..20 => return SMALL[number as usize].into(),
        20..100 => (TENS[number as usize / 10].into(), number % 10),
        100..1000 => (format!("{} hundred", words(number / 100)), number % 100),
        _ => (format!("{} thousand", words(number / 1000)), number % 1000),
    };
    if rest == 0 {
        head
    } else {
        format!("{head} {}", words(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn numbers_are_words() {
        assert_eq!(words(0), "zero");
        assert_eq!(words(40), "forty");
        assert_eq!(words(100), "one hundred");
        assert_eq!(words(13_153), "thirteen thousand one hundred fifty three");
        assert_eq!(words(99_019), "ninety nine thousand nineteen");
    }
}
