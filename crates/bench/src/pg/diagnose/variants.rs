//! The cases, as in `speed`, and what each variant changes.

use lookaside_load::workload::Random;

use crate::pg::speed::{NUMBER_BOUND, insert_rows, words};

/// A case of the suite.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// The first is the suite's own.
    pub(super) variants: Vec<Variant>,
}

/// Tables, and the statements that are measured on them, in one transaction.
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) setup: Vec<String>,
    pub(super) statements: Vec<String>,
}

/// The columns of a table's row, as in the suite: a key, a number and the number in words.
const COLUMNS: &str = "(a integer, b integer, c varchar(100))";
const KEY_INDEX: &str = "create index i2a on t2 (a);";
const NUMBER_INDEX: &str = "create index i2b on t2 (b);";
const AS_IN_THE_SUITE: &str = "as in the suite";

pub(super) fn cases(row_count: u64) -> Vec<Case> {
    vec![
        Case {
            name: "9: updates with an index, of the indexed number",
            variants: updates(row_count, Column::Number),
        },
        Case {
            name: "10: updates with an index, of the text",
            variants: updates(row_count, Column::Text),
        },
        Case {
            name: "11: inserts from a select, into a table without and one with indexes",
            variants: copies(row_count),
        },
    ]
}

/// Which column an update sets.
#[derive(Clone, Copy)]
enum Column {
    Number,
    Text,
}

fn table(kind: &str, name: &str, options: &str, row_count: u64) -> String {
    let mut random = Random::new(11);
    format!(
        "create {kind} table {name} {COLUMNS} {options};{}",
        insert_rows(name, row_count, &mut random)
    )
}

fn updates(row_count: u64, column: Column) -> Vec<Variant> {
    let mut random = Random::new(13);
    let values: Vec<_> = (1..=row_count)
        .map(|id| {
            let number = random.below(NUMBER_BOUND);
            match column {
                Column::Number => (id, number.to_string()),
                Column::Text => (id, format!("'{}'", words(number))),
            }
        })
        .collect();
    let set = match column {
        Column::Number => "b",
        Column::Text => "c",
    };
    let single: Vec<_> = values
        .iter()
        .map(|(id, value)| format!("update t2 set {set} = {value} where a = {id};"))
        .collect();
    let lookups = (1..=row_count).map(|id| format!("select {set} from t2 where a = {id};"));
    let rows: Vec<_> = values
        .iter()
        .map(|(id, value)| format!("({id},{value})"))
        .collect();
    let together = format!(
        "update t2 set {set} = new.value from (values {}) new (id, value) where a = new.id;",
        rows.join(",")
    );
    let variant = |name, kind: &str, options: &str, rest: &[&str], statements: &[String]| Variant {
        name,
        setup: std::iter::once(table(kind, "t2", options, row_count))
            .chain(rest.iter().map(|sql| (*sql).to_owned()))
            .collect(),
        statements: statements.to_vec(),
    };
    let both = &[KEY_INDEX, NUMBER_INDEX][..];
    vec![
        variant(AS_IN_THE_SUITE, "", "", both, &single),
        variant(
            "lookups by the index alone, no update",
            "",
            "",
            both,
            &lookups.collect::<Vec<_>>(),
        ),
        variant("index on the key alone", "", "", &[KEY_INDEX], &single),
        variant(
            "index on the key alone, fillfactor 45",
            "",
            "with (fillfactor = 45)",
            &[KEY_INDEX],
            &single,
        ),
        variant("unlogged table", "unlogged", "", both, &single),
        variant(
            "after vacuum analyze",
            "",
            "",
            &[KEY_INDEX, NUMBER_INDEX, "vacuum analyze t2"],
            &single,
        ),
        variant("one update of all rows", "", "", both, &[together]),
    ]
}

fn copies(row_count: u64) -> Vec<Variant> {
    // The state of `t1` after the previous cases of the suite.
    let few = row_count.div_ceil(25);
    let tables = |kind: &str, rest: &[&str]| -> Vec<String> {
        [table(kind, "t1", "", few), table(kind, "t2", "", row_count)]
            .into_iter()
            .chain(rest.iter().map(|sql| (*sql).to_owned()))
            .collect()
    };
    let there = "insert into t1 select b, a, c from t2;";
    let back = "insert into t2 select b, a, c from t1;";
    let variant = |name, setup, statements: &[&str]| Variant {
        name,
        setup,
        statements: statements.iter().map(|sql| (*sql).to_owned()).collect(),
    };
    let both = &[KEY_INDEX, NUMBER_INDEX][..];
    let updated = [
        KEY_INDEX,
        NUMBER_INDEX,
        "update t2 set b = b + 1",
        "update t2 set b = b - 1",
    ];
    vec![
        variant(AS_IN_THE_SUITE, tables("", both), &[there, back]),
        variant(
            "with two dead rows for each, as the updates leave them",
            tables("", &updated),
            &[there, back],
        ),
        variant(
            "the same after vacuum analyze",
            tables("", &[&updated[..], &["vacuum analyze t2"]].concat()),
            &[there, back],
        ),
        variant(
            "index on the key alone",
            tables("", &[KEY_INDEX]),
            &[there, back],
        ),
        variant("no index", tables("", &[]), &[there, back]),
        variant(
            "indexes made after the copy",
            tables("", &[]),
            &[there, back, KEY_INDEX, NUMBER_INDEX],
        ),
        variant("unlogged tables", tables("unlogged", both), &[there, back]),
    ]
}
