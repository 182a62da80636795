//! JSON input and output.

use lookaside_stream::InputFormat;
use lookaside_value::{Batch, Name, NameTable, Record, Value};

use super::support::{Random, check, decode, encode, options, shown};

#[test]
fn values_keep_their_types() {
    check(
        "json",
        &[],
        r#"{"a":"x","b":-7,"c":1.5,"d":true,"e":null,"f":{"g":[1,{"h":"é\n"}]},"i":[],"":""}"#,
        r#"1 a:text=x b:int=-7 c:float=1.5 d:bool=true e:null= f:object={"g":[1,{"h":"é\n"}]} i:array=[] :text="#,
    );
    for (number, expected) in [
        ("9223372036854775807", "int=9223372036854775807"),
        ("-9223372036854775808", "int=-9223372036854775808"),
        ("9223372036854775808", "decimal=9223372036854775808"),
        ("18446744073709551615", "decimal=18446744073709551615"),
        ("18446744073709551616", "decimal=18446744073709551616"),
        ("-9223372036854775809", "decimal=-9223372036854775809"),
        (
            "123456789012345678901234567890",
            "decimal=123456789012345678901234567890",
        ),
        ("1e3", "float=1000"),
        ("1e20", "float=100000000000000000000"),
        ("-12345678901234567890.0", "float=-12345678901234567000"),
        ("0.1", "float=0.1"),
        ("-0", "int=0"),
        ("-0.0", "float=-0"),
        // Needs exact rounding of the last bit, which fast parsers get wrong.
        (
            "2.2250738585072011e-308",
            &format!("float={}", 2.225_073_858_507_201e-308_f64),
        ),
    ] {
        check(
            "json",
            &[],
            format!("{{\"n\":{number}}}"),
            &format!("1 n:{expected}"),
        );
    }
}

#[test]
fn issue_12_integers_beyond_64_bits_are_exact_wherever_they_stand() {
    check(
        "json",
        &[],
        r#"{"a-1e99\"2":1e20,"b":[1.5,36893488147419103232,{"c":-0,"d":"9e99"}],"e":-0.0,"f":0.5,"b2":9223372036854775807,"a":18446744073709551615,"g":-9223372036854775808,"h":-36893488147419103232}"#,
        "1 a-1e99\"2:float=100000000000000000000 b:array=[1.5,\"36893488147419103232\",{\"c\":0,\"d\":\"9e99\"}] \
         e:float=-0 f:float=0.5 b2:int=9223372036854775807 a:decimal=18446744073709551615 \
         g:int=-9223372036854775808 h:decimal=-36893488147419103232",
    );
    // State of one line does not affect the next.
    check(
        "json",
        &[],
        "{\"a\":36893488147419103232,\"a\":1}\n{\"a\":1e20,\"b\":2.5}\n{\"b\":-0}",
        "1 a:int=1\n2 a:float=100000000000000000000 b:float=2.5\n3 b:int=0",
    );
    check(
        "json",
        &[],
        format!("{{\"a\":{}}}", "9".repeat(308)),
        &format!("1 a:decimal={}", "9".repeat(308)),
    );
}

#[test]
fn of_two_members_the_later_wins() {
    check(
        "json",
        &[],
        r#"{"a":1,"b":2,"a":3,"o":{"x":1,"x":2}}"#,
        r#"1 a:int=3 b:int=2 o:object={"x":2}"#,
    );
    // Also if the previous line had the same keys, and if keys are in another order.
    check(
        "json",
        &[],
        "{\"a\":1,\"a\":2}\n{\"a\":3,\"a\":4}\n{\"b\":1,\"a\":5}\n{\"a\":6,\"b\":7,\"a\":8}",
        "1 a:int=2\n2 a:int=4\n3 b:int=1 a:int=5\n4 a:int=8 b:int=7",
    );
}

#[test]
fn keys_that_come_and_go_are_not_confused() {
    let mut random = Random(7);
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "\\u0061x"];
    let mut source = String::new();
    let mut expected = String::new();
    for line in 1..=500 {
        source.push('{');
        expected.push_str(&line.to_string());
        let mut first = true;
        for key in keys {
            if random.below(3) > 0 {
                source.push_str(if first { "" } else { "," });
                source.push_str(&format!("\"{key}\":{line}"));
                expected.push_str(&format!(" {}:int={line}", key.replace("\\u0061", "a")));
                first = false;
            }
        }
        source.push_str("}\n");
        expected.push('\n');
    }
    check("json", &[], source, &expected);
}

#[test]
fn lines_that_are_no_object_are_rejects() {
    for (line, reason) in [
        ("7", "not an object; json is one object per line"),
        ("\"host\": 1,", "not an object; json is one object per line"),
        (
            "[1]",
            "an array instead of one object per line; try `jq -c '.[]'`",
        ),
        ("null", "not an object; json is one object per line"),
        ("{", "the object does not end on this line; try `jq -c .`"),
        (
            "{\"a\":trew}",
            "byte 8: unknown word; only true, false and null are allowed",
        ),
        ("{} x", "byte 4: trailing characters"),
        ("{\"a\":01}", "byte 7: invalid number"),
        (
            "{\"a\":\"\\ud800\"}",
            "byte 13: unexpected end of hex escape",
        ),
        ("{\"a\":NaN}", "byte 6: expected value"),
        ("{\"a\":1e999}", "byte 10: number out of range"),
    ] {
        check("json", &[], line, &format!("1! {reason}"));
    }
}

#[test]
fn deep_nesting_is_a_reject_and_not_a_stack() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let deepest = format!("1 a:array={}{}", "[".repeat(63), "]".repeat(63));
    check("json", &[], nested(63), &deepest);
    for depth in [64, 1000, 1_000_000] {
        let format = InputFormat::new("json", &options(&[])).unwrap();
        let (batch, rejects) = decode(&format, nested(depth).as_bytes());
        assert_eq!((batch.len(), rejects.count()), (0, 1), "{depth}");
        assert!(rejects.first()[0].reason.contains("nested deeper than 64"));
        let objects = format!("{}1{}", "{\"a\":".repeat(depth + 1), "}".repeat(depth + 1));
        let (batch, rejects) = decode(&format, objects.as_bytes());
        assert_eq!((batch.len(), rejects.count()), (0, 1), "{depth}");
    }
}

#[test]
fn many_keys_are_read_in_linear_time() {
    let mut line = String::from("{\"k\":0");
    for key in 0..200_000 {
        line.push_str(&format!(",\"k{key}\":1"));
    }
    line.push('}');
    let format = InputFormat::new("json", &options(&[])).unwrap();
    let (batch, _) = decode(&format, line.as_bytes());
    assert_eq!(batch.records()[0].len(), 200_001);
}

#[test]
fn records_are_written_in_order_without_ignored_fields() {
    let mut names = NameTable::new();
    let [a, quoted, c] = ["a", "q\"\n", "c"].map(|text| names.intern(text));
    let mut batch = Batch::new(names.into());
    push(
        &mut batch,
        &[
            (a, Value::Int(1)),
            (quoted, Value::Null),
            (c, Value::Float(600.0)),
            (a, 2_i64.into()),
        ],
    );
    push(&mut batch, &[(a, Value::Ignore)]);
    push(&mut batch, &[(a, Value::Ignore), (c, "é\u{1}".into())]);
    push(&mut batch, &[]);
    assert_eq!(
        encode("json", &[], &batch),
        "{\"a\":1,\"q\\\"\\n\":null,\"c\":600.0,\"a\":2}\n{}\n{\"c\":\"é\\u0001\"}\n{}\n"
    );
}

fn push(batch: &mut Batch, fields: &[(Name, Value)]) {
    let mut record = Record::new();
    for (name, value) in fields {
        record.push(*name, value.clone());
    }
    batch.push(record);
}

#[test]
fn names_of_one_batch_do_not_leak_into_the_next() {
    let format = InputFormat::new("json", &options(&[])).unwrap();
    let names = std::sync::Arc::new(NameTable::new());
    let output = lookaside_stream::OutputFormat::new("json", &options(&[])).unwrap();
    let (mut decoder, mut encoder) = (format.decoder(&names), output.encoder(&names));
    let mut batch = Batch::new(names);
    let mut rejects = lookaside_stream::Rejects::new();
    for line in [
        "{\"a\":1,\"b\":2}\n",
        "{\"b\":3,\"c\":4}\n",
        "{\"c\":5,\"a\":6,\"b\":7}\n",
    ] {
        batch.clear();
        decoder.decode(
            &lookaside_stream::Chunk::new(line.as_bytes(), 1),
            &mut batch,
            &mut rejects,
        );
        let mut out = String::new();
        encoder.encode(&batch, &mut out, &mut rejects);
        assert_eq!(out, line);
    }
}

#[test]
fn what_is_written_reads_back_the_same() {
    let seed = 0x0a5e_ed01;
    let mut random = Random(seed);
    let format = InputFormat::new("json", &options(&[])).unwrap();
    for round in 0..300 {
        let mut names = NameTable::new();
        let fields: Vec<Name> = (0..8).map(|_| names.intern(&text(&mut random))).collect();
        let mut batch = Batch::new(names.into());
        for _ in 0..5 {
            let mut record = Record::new();
            for name in &fields {
                if record.value(*name).is_none() {
                    record.push(*name, value(&mut random, 0));
                }
            }
            batch.push(record);
        }
        let written = encode("json", &[], &batch);
        let (read, rejects) = decode(&format, written.as_bytes());
        let (read, expected) = (shown(&read, &rejects), shown(&batch, &rejects));
        let without_line = |text: &str| -> Vec<String> {
            text.lines()
                .map(|line| line.split_once(' ').map_or("", |(_, rest)| rest).into())
                .collect()
        };
        assert_eq!(
            without_line(&read),
            without_line(&expected),
            "seed {seed:#x}, round {round}"
        );
        assert_eq!(rejects.count(), 0);
    }
}

fn text(random: &mut Random) -> String {
    const CHARS: &[char] = &[
        'a', 'Z', ' ', '"', '\\', '/', '\u{0}', '\u{1f}', '\u{7f}', 'é', '\u{2028}', '💡',
    ];
    (0..random.below(30))
        .map(|_| *random.pick(CHARS))
        .filter(|char| *char != '\n')
        .collect()
}

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth < 4 { 9 } else { 7 }) {
        0 => Value::Null,
        1 => Value::Bool(random.below(2) == 0),
        2 => Value::Int(random.next() as i64),
        3 => Value::Int(random.below(100) as i64),
        4 => {
            let float = f64::from_bits(random.next());
            Value::Float(if float.is_finite() { float } else { 0.5 })
        }
        5 | 6 => Value::from(text(random)),
        7 => (0..random.below(4))
            .map(|_| value(random, depth + 1))
            .collect::<Vec<_>>()
            .into(),
        _ => {
            let members =
                (0..random.below(4)).map(|_| (text(random).into(), value(random, depth + 1)));
            Value::from(members.collect::<lookaside_value::Object>())
        }
    }
}
