//! CSV input and output, with the `csv` crate as reference.

use lookaside_stream::{Chunk, ErrorKind, InputFormat, OutputFormat, Rejects};
use lookaside_value::{Batch, NameTable, Value};

use super::support::{Random, check, decode, encode, options};

#[test]
fn a_header_names_the_fields() {
    check(
        "csv",
        &[],
        "a,b\n1,x\n\n\"q,\"\"r\"\"\ns\",\r\ny,z",
        "2 a:text=1 b:text=x\n4 a:text=q,\"r\"\ns b:text=\n6 a:text=y b:text=z",
    );
    check("csv", &[], "\u{feff}a,b\r\n1,2\r\n", "2 a:text=1 b:text=2");
    check("csv", &[], "a,b\n", "");
}

#[test]
fn issue_12_another_delimiter_in_the_header_is_told_once() {
    for (delimiter, header, expected) in [
        ("comma", "a;b;c\n", Some(("';'", "semicolon"))),
        ("comma", "\u{feff}a\tb|c\td\r\n", Some(("a tab", "tab"))),
        ("comma", "\"a\";\"b\"\n", Some(("';'", "semicolon"))),
        ("semicolon", "a,b\n", Some(("','", "comma"))),
        ("comma", "a|b\n", Some(("'|'", "pipe"))),
        ("comma", "a;b,c\n", None),
        ("semicolon", "a;b\n", None),
        ("comma", "\"a;b\"\n", None),
        ("comma", "a\n", None),
    ] {
        let (sender, receiver) = std::sync::mpsc::channel();
        let options = options(&[("delimiter", delimiter)]).advised_as("--option ");
        let format = InputFormat::new("csv", &options).unwrap();
        let format = format.on_warning(move |warning| sender.send(warning.to_owned()).unwrap());
        for format in [&format.clone(), &format] {
            format.header(header.as_bytes()).unwrap();
        }
        drop(format);
        let told: Vec<String> = receiver.iter().collect();
        let expected = expected.map(|(shown, word)| {
            format!(
                "the header has a single column that contains {shown}; if {shown} is the delimiter, \
                 set `--option delimiter={word}`"
            )
        });
        assert_eq!(told, Vec::from_iter(expected), "{header:?}");
    }
}

#[test]
fn columns_name_the_fields_where_no_header_does() {
    let columns = ("columns", "x, y");
    check("csv", &[columns], "1,2\n", "1 x:text=1 y:text=2");
    check(
        "csv",
        &[columns, ("header", "true")],
        "a,b\n1,2\n",
        "2 x:text=1 y:text=2",
    );
    check(
        "csv",
        &[columns, ("delimiter", "tab")],
        "1,\t2\n",
        "1 x:text=1, y:text=2",
    );
    // A quote in the middle is text, and text after a closing quote belongs to the field.
    check(
        "csv",
        &[columns],
        "a\"b,\"c\"d\n",
        "1 x:text=a\"b y:text=cd",
    );
}

#[test]
fn records_of_another_width_are_rejects() {
    check(
        "csv",
        &[],
        "a,b\n1\n1,2\n1,2,3\n\"x\ny\"\n",
        "3 a:text=1 b:text=2\n2! 1 field, but 2 columns\n\
         4! 3 fields, but 2 columns\n5! 1 field, but 2 columns",
    );
    check(
        "csv",
        &[],
        "a,b\n1,\"2\n3,4\n",
        "2! a quoted field has no closing quote",
    );
    check(
        "csv",
        &[],
        b"a,b\n1,\xff\n3,4\n",
        "3 a:text=3 b:text=4\n2! byte 3 (0xff) is not UTF-8",
    );
}

#[test]
fn a_header_that_cannot_be_one_is_an_error() {
    for (columns, header, expected) in [
        (
            None,
            "a,,c\n",
            "the csv header in line 1 has no name for column 2",
        ),
        (None, "a,b,a", "the csv header in line 1 names `a` twice"),
        (
            None,
            "a,\"b",
            "the csv header in line 1 cannot be read: a quoted field has no closing quote",
        ),
        (
            Some("x"),
            "a,b",
            "the csv header in line 1 has 2 fields, but `columns` names 1",
        ),
    ] {
        let mut pairs = vec![("header", "true")];
        pairs.extend(columns.map(|columns| ("columns", columns)));
        let format = InputFormat::new("csv", &options(&pairs)).unwrap();
        let error = format.header(header.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

#[test]
fn each_source_has_a_header_of_its_own() {
    let format = InputFormat::new("csv", &options(&[])).unwrap();
    let names = std::sync::Arc::new(NameTable::new());
    let mut decoder = format.decoder(&names);
    let mut batch = Batch::new(names);
    let mut rejects = Rejects::new();
    let headers = [
        format.header(b"a,b\n").unwrap(),
        format.header(b"b,a\n").unwrap(),
    ];
    for header in &headers {
        let chunk = Chunk {
            bytes: b"1,2\n",
            first_line: 2,
            header: Some(header),
        };
        decoder.decode(&chunk, &mut batch, &mut rejects);
    }
    let b = batch.names().name("b").unwrap();
    let values: Vec<_> = batch
        .records()
        .iter()
        .map(|record| record.value(b))
        .collect();
    assert_eq!(values, [Some(&Value::from("2")), Some(&Value::from("1"))]);
}

/// Random tables, written by the `csv` crate and read by this one, and vice versa.
#[test]
fn tables_pass_between_us_and_the_csv_crate() {
    let seed = 0xc5_0001;
    let mut random = Random(seed);
    const PARTS: &[&str] = &[
        "", "a", "é", ",", ";", "\"", "\"\"", "\n", "\r\n", " ", "\\", "'", "\t",
    ];
    for round in 0..500 {
        let width = 1 + random.below(5);
        let delimiter = *random.pick(b",;\t");
        let rows: Vec<Vec<String>> = (0..random.below(6))
            .map(|_| {
                (0..width)
                    .map(|_| (0..random.below(6)).map(|_| *random.pick(PARTS)).collect())
                    .collect()
            })
            .collect();
        let columns: Vec<String> = (0..width).map(|column| format!("c{column}")).collect();

        let mut writer = csv::WriterBuilder::new()
            .delimiter(delimiter)
            .from_writer(Vec::new());
        writer.write_record(&columns).unwrap();
        rows.iter()
            .for_each(|row| writer.write_record(row).unwrap());
        let written = writer.into_inner().unwrap();
        let text = (delimiter as char).to_string();
        let format = InputFormat::new("csv", &options(&[("delimiter", &text)])).unwrap();
        let (batch, rejects) = decode(&format, &written);
        assert_eq!(
            rejects.count(),
            0,
            "seed {seed:#x}, round {round}: {:?}",
            rejects.first()
        );
        let read: Vec<Vec<String>> = batch
            .records()
            .iter()
            .map(|record| record.iter().map(|field| field.value.to_string()).collect())
            .collect();
        assert_eq!(read, rows, "seed {seed:#x}, round {round}");

        let ours = encode("csv", &[("delimiter", &text)], &batch);
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(!rows.is_empty())
            .from_reader(ours.as_bytes());
        let read: Vec<Vec<String>> = reader
            .records()
            .map(|row| row.unwrap().iter().map(Into::into).collect())
            .collect();
        assert_eq!(read, rows, "seed {seed:#x}, round {round}: {ours:?}");
    }
}

fn sample() -> Batch {
    let source = b"{\"a\":1,\"b\":\"x,\\\"y\\\"\",\"c\":null}\n{\"b\":{\"k\":[1]},\"a\":2}\n{\"a\":3,\"d\":4}\n{\"c\":null}\n";
    let format = InputFormat::new("json", &options(&[])).unwrap();
    decode(&format, source).0
}

#[test]
fn the_first_record_decides_the_columns() {
    assert_eq!(
        encode("csv", &[], &sample()),
        "a,b,c\n1,\"x,\"\"y\"\"\",\n2,\"{\"\"k\"\":[1]}\",\n,,\n! no CSV column for `d`; name all \
         columns (columns=a,b,c) or omit such fields (extra=ignore)\n"
    );
    assert_eq!(
        encode(
            "csv",
            &[("extra", "ignore"), ("header", "false")],
            &sample()
        ),
        "1,\"x,\"\"y\"\"\",\n2,\"{\"\"k\"\":[1]}\",\n3,,\n,,\n"
    );
    assert_eq!(encode("csv", &[], &Batch::new(NameTable::new().into())), "");
}

#[test]
fn named_columns_need_no_first_record() {
    let pairs = [
        ("columns", "d,gone,a"),
        ("extra", "ignore"),
        ("delimiter", ";"),
    ];
    assert_eq!(
        encode("csv", &pairs, &sample()),
        "d;gone;a\n;;1\n;;2\n4;;3\n;;\n"
    );
    assert_eq!(
        encode(
            "csv",
            &[("columns", "a,b")],
            &Batch::new(NameTable::new().into())
        ),
        "a,b\n"
    );
    // A record without any value is still a record.
    let one = [("columns", "c"), ("extra", "ignore"), ("header", "false")];
    assert_eq!(encode("csv", &one, &sample()), "\"\"\n".repeat(4));
}

#[test]
fn all_encoders_of_an_output_wait_for_the_same_columns() {
    let format = OutputFormat::new("csv", &options(&[])).unwrap();
    let copy = format.clone();
    let names = NameTable::new();
    let (mut first, mut second) = (format.encoder(&names), copy.encoder(&names));
    assert!(!copy.is_ready());
    assert_eq!(format.prologue(), "");
    let mut rejects = Rejects::new();
    let mut out = String::new();
    let read = |line: &[u8]| {
        let format = InputFormat::new("json", &options(&[])).unwrap();
        decode(&format, line).0
    };
    first.encode(&read(b""), &mut out, &mut rejects);
    assert!(!copy.is_ready());
    first.encode(&read(b"{\"b\":1,\"a\":2}"), &mut out, &mut rejects);
    assert!(copy.is_ready());
    second.encode(&read(b"{\"a\":3,\"b\":4}"), &mut out, &mut rejects);
    assert_eq!(out, "b,a\n1,2\n4,3\n");
}
