//! Pairs of name and value, input and output.

use lookaside_stream::InputFormat;
use lookaside_value::{Batch, NameTable, Record, Value};

use super::support::{Random, check, decode, encode, options};

#[test]
fn pairs_parted_by_blanks() {
    check(
        "kv",
        &[],
        "  a=1\tb=\"x y\"   c= d=\"\" e=f=g h=\"q\\\"\\\\\\t\\x\" i=C:\\dir p=a\"b  \n",
        "1 a:text=1 b:text=x y c:text= d:text= e:text=f=g h:text=q\"\\\t\\x i:text=C:\\dir p:text=a\"b",
    );
    check("kv", &[], "a=1 b=2 a=3", "1 a:text=3 b:text=2");
    check("kv", &[], "   \n", "1");
}

#[test]
fn other_separators() {
    let semicolon = [("pair_separator", ";"), ("value_separator", ":")];
    check(
        "kv",
        &semicolon,
        "a: 1 ; b :two words;c:\"x;y\" ; d:e:f;",
        "1 a:text=1 b:text=two words c:text=x;y d:text=e:f",
    );
    check(
        "kv",
        &[("pair_separator", "pipe")],
        "a=1|b=2",
        "1 a:text=1 b:text=2",
    );
}

#[test]
fn broken_lines_say_why() {
    for (pairs, line, reason) in [
        (&[][..], "a=1 b", "missing `=` in `b`"),
        (&[], "=1", "a value without a name: `=1`"),
        (&[], "a=\"x", "a quoted value has no closing quote"),
        (&[], "a=\"x\\", "a quoted value has no closing quote"),
        (
            &[],
            "a=\"x\"b=1",
            "missing blank after a quoted value: `b=1`",
        ),
        (
            &[("pair_separator", ",")],
            "a=\"x\" b=1",
            "missing `,` after a quoted value",
        ),
        (&[("pair_separator", ",")], "a=1,,b=2", "missing `=` in ``"),
    ] {
        check("kv", pairs, line, &format!("1! {reason}"));
    }
}

#[test]
fn values_are_quoted_where_they_would_not_read_back() {
    let mut names = NameTable::new();
    let [a, odd] = ["a", "x y=\"z"].map(|text| names.intern(text));
    let mut batch = Batch::new(names.into());
    let time: lookaside_value::Time = "2026-01-02 03:04:05".parse().unwrap();
    let array = Value::from(vec![Value::from("x y"), Value::Int(1)]);
    for value in [
        Value::from("plain"),
        Value::from(""),
        Value::from("two words \"q\" \\ \n"),
        Value::from("a=b"),
        Value::Null,
        Value::Ignore,
        Value::Float(1.5),
        Value::Time(time),
        array,
    ] {
        let mut record = Record::new();
        record.push(a, value);
        record.push(odd, 1_i64);
        batch.push(record);
    }
    assert_eq!(
        encode("kv", &[], &batch),
        "a=plain x_y__z=1\na=\"\" x_y__z=1\na=\"two words \\\"q\\\" \\\\ \\n\" x_y__z=1\n\
         a=\"a=b\" x_y__z=1\na= x_y__z=1\nx_y__z=1\na=1.5 x_y__z=1\n\
         a=\"2026-01-02 03:04:05\" x_y__z=1\na=\"[\\\"x y\\\",1]\" x_y__z=1\n"
    );
}

#[test]
fn text_that_is_written_reads_back() {
    const PARTS: &[&str] = &[
        "a", " ", "\"", "\\", "=", ";", "\n", "\r", "\t", "é", "\u{b}", "\\n", "-", "1",
    ];
    let seed = 0x6b_0076;
    let mut random = Random(seed);
    for round in 0..500 {
        let pairs = [
            (
                "pair_separator",
                *random.pick(&["blank", ";", ",", "1", "-", "tab"]),
            ),
            ("value_separator", *random.pick(&["=", ":"])),
        ];
        let mut names = NameTable::new();
        let fields: Vec<_> = ["x", "y", "z"].map(|text| names.intern(text)).into();
        let mut batch = Batch::new(names.into());
        let mut record = Record::new();
        for name in fields {
            let text: String = (0..random.below(8)).map(|_| *random.pick(PARTS)).collect();
            record.push(name, Value::from(text));
        }
        batch.push(record.clone());
        let written = encode("kv", &pairs, &batch);
        let format = InputFormat::new("kv", &options(&pairs)).unwrap();
        let (read, rejects) = decode(&format, written.as_bytes());
        assert_eq!(
            rejects.count(),
            0,
            "seed {seed:#x}, round {round}: {written:?} {:?}",
            rejects.first()
        );
        let values = |record: &Record| -> Vec<Value> {
            record.iter().map(|field| field.value.clone()).collect()
        };
        assert_eq!(
            values(&read.records()[0]),
            values(&record),
            "round {round}: {written:?}"
        );
    }
}
