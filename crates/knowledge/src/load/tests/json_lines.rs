//! Tables of JSON lines.

use fastrand::Rng;
use lookaside_testing::mutations_never_panic;
use serde_json::Value as Json;

use super::super::json_lines::JsonRows;
use super::*;

const NAME: &str = "[[tables]]\nname = 't'\ndata_file = 'data.jsonl'\n";

/// A folder with a table of JSON lines whose SQL is derived.
fn folder(config: &str, data: impl AsRef<[u8]>) -> Folder {
    let folder = Folder(tempfile::tempdir().unwrap());
    let (load, table) = match config.split_once("[default]") {
        Some((table, load)) => (format!("[default]{load}\n"), table),
        None => (String::new(), config),
    };
    folder.write("knowdb.toml", format!("version = 2\n{load}{NAME}{table}"));
    folder.write("t/data.jsonl", data);
    folder
}

fn check(config: &str, data: impl AsRef<[u8]>, expected: &str) {
    let said = folder(config, data).select("select * from t order by rowid");
    assert_eq!(said, expected, "{config}");
}

#[test]
fn values_keep_their_types() {
    let data = r#"{"i": 7, "r": 1.5, "b": true, "n": null, "t": "é\n\"", "o": {"k": [1, "x"]}, "a": [ ]}
{"i": -9223372036854775808, "r": 2, "b": false, "n": null, "t": "", "o": {}, "a": [1.50]}
"#;
    check(
        "",
        data,
        "7,1.5,1,NULL,\"é\\n\\\"\",\"{\\\"k\\\": [1, \\\"x\\\"]}\",\"[ ]\" \
         -9223372036854775808,2.0,0,NULL,\"\",\"{}\",\"[1.50]\"",
    );
    let folder = folder("", data);
    let config = Config::open(folder.0.path(), &[]).unwrap();
    let sql = table_sql(&config, &config.tables[0]).unwrap();
    assert_eq!(
        sql.create.text,
        "create table \"t\" (\n  \"i\" INTEGER,\n  \"r\" REAL,\n  \"b\" INTEGER,\n  \"n\" TEXT,\n  \
         \"t\" TEXT,\n  \"o\" TEXT,\n  \"a\" TEXT\n);\n"
    );
    assert_eq!(
        sql.insert.text,
        "insert into \"t\" (\"i\", \"r\", \"b\", \"n\", \"t\", \"o\", \"a\")\nvalues (?1, ?2, ?3, ?4, \
         ?5, ?6, ?7);\n"
    );
}

#[test]
fn numbers_keep_their_digits() {
    for (written, expected) in [
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "\"9223372036854775808\""),
        ("-0", "0"),
        ("0.1", "0.1"),
        ("1e3", "1000.0"),
        ("2.2250738585072014e-308", "2.2250738585072014e-308"),
    ] {
        check("", format!("{{\"a\":{written}}}\n"), expected);
    }
    // A column with decimals and an integer that REAL does not represent.
    check(
        "",
        "{\"a\":9007199254740993}\n{\"a\":0.5}\n",
        "9007199254740993 0.5",
    );
}

#[test]
fn keys_map_by_path_and_missing_ones_are_null() {
    let data = "{\"ip\":\"10.0.0.1\",\"owner\":{\"name\":\"a\",\"tags\":[\"x\",\"y\"]},\"b.c\":1}\n\n\
                {\"owner\":\"none\"}\r\n{\"ip\":null,\"owner\":{\"name\":null}}";
    check(
        "columns.by_header = ['owner.name', 'ip', 'owner.tags.1']\n",
        data,
        r#""a","10.0.0.1","y" NULL,NULL,NULL NULL,NULL,NULL"#,
    );
    check(
        "columns.by_path = { dotted = ['b.c'], name = 'owner.name' }\n",
        data,
        r#"1,"a" NULL,NULL NULL,NULL"#,
    );
    // All keys of all lines, in the order in which they occur.
    let folder = folder("", "{\"b\":1}\n{\"c\":2,\"a\":3}\n{\"a\":4}\n");
    assert_eq!(
        folder.select("select b, c, a from t"),
        "1,NULL,NULL NULL,2,3 NULL,NULL,4"
    );
    // A key that no line has is probably misspelled.
    let said = self::folder("columns.by_header = ['a', 'x.y']\n", "{\"a\":1}\n").load();
    assert_eq!(
        said.unwrap().1.tables[0].warnings,
        ["column \"x.y\" is NULL in each row: no line has the key x.y"]
    );
}

#[test]
fn own_sql_gets_typed_values() {
    let folder = folder(
        "columns.by_header = ['b', 'a']\n",
        "{\"a\":true,\"b\":[1]}\n",
    );
    folder.write("t/create.sql", "create table {table} (x, y)");
    folder.write(
        "t/insert.sql",
        "insert into {table} values (typeof(?1), ?2 + 1)",
    );
    assert_eq!(folder.select("select x, y from t"), "\"text\",2");
}

#[test]
fn bad_lines_name_line_and_column() {
    for (line, expected) in [
        ("{\"a\":1", "column 6: EOF while parsing an object"),
        ("{\"a\":1} x", "column 9: trailing characters"),
        ("{\"é\":1,}", "column 8: trailing comma"),
        ("{\"a\":01}", "column 7: invalid number"),
        (
            "[1]",
            "column 1: not an object; write one object a line, as `jq -c '.[]'` does",
        ),
        (
            "  7",
            "column 1: not an object; write one object a line, as `jq -c '.[]'` does",
        ),
        (
            "{\"a\":1, \"é\":2, \"a\":3}",
            "column 20: a second value of the key \"a\"",
        ),
        (
            "{\"a\":{\"k\":1,\"k\":2}}",
            "column 17: a second value of the key \"k\"",
        ),
        (
            "{\"a\":\"\\ud800\"}",
            "column 13: unexpected end of hex escape",
        ),
        (
            "{\"a\":1e999}",
            "column 6: a number beyond the range of floats",
        ),
        (
            "{\"a\":\"x\ty\"}",
            "column 7: control character (\\u0000-\\u001F) found while parsing a string",
        ),
    ] {
        let columns = "columns.by_header = ['a', 'a.k', 'é']\n";
        let data = format!("{{\"a\":1}}\n{line}\n{{\"a\":2}}\n");
        check(columns, &data, &format!("Data: t/data.jsonl:2: {expected}"));
        // It can be skipped.
        let skipping = folder(&format!("{columns}{SKIP}"), &data);
        let (store, report) = skipping.load().unwrap();
        assert_eq!(rows(&store, "select a from t"), "1 2", "{line}");
        let table = &report.tables[0];
        let [row] = &table.skipped[..] else {
            panic!("{:?}", table.skipped);
        };
        assert!(row.place.ends_with("t/data.jsonl:2"), "{}", row.place);
        assert_eq!(row.reason, expected);
    }
    check(
        "",
        b"{\"a\":\"\xc3\xa9\xff\"}\n",
        "Data: t/data.jsonl:1: column 8: not UTF-8, which JSON has to be",
    );
    check(
        "columns.by_header = ['a']\n",
        b"{\"a\":\"\xc3\xa9\xff\"}\n",
        "Data: t/data.jsonl:1: column 8: not UTF-8, which JSON has to be",
    );
}

#[test]
fn files_and_keys_are_checked() {
    for (config, expected) in [
        (
            "columns.by_index = [0]",
            "columns.by_index does not apply to JSON lines; use by_header or by_path",
        ),
        (
            "columns.by_header = []",
            "columns.by_header is empty; omit columns to use all keys",
        ),
        (
            "columns.by_header = ['a..b']",
            "columns.by_header has \"a..b\", which is not a path of keys such as \"owner.name\"; use by_path for a \
             key with a dot or without a name",
        ),
        (
            "columns.by_header = ['a']\ncolumns.by_path = { b = 'b' }",
            "columns.by_path is set together with by_header; keep one of them",
        ),
        (
            "csv.trim = false",
            "tables.csv does not apply, as the rows are not CSV; remove it",
        ),
    ] {
        let said = folder(config, "{}").select("select 1");
        assert!(said.starts_with("Config: knowdb.toml:"), "{said}");
        assert!(said.ends_with(expected), "{said}");
    }
    for (data, expected) in [
        (
            "",
            "the file is empty, so no columns can be derived; write t/create.sql and insert.sql",
        ),
        (
            "{\"a\":1,\"A\":2}\n",
            "two columns have the name \"A\", regardless of letter case; give each a name in \
             columns.by_path",
        ),
    ] {
        check("", data, &format!("Data: t/data.jsonl: {expected}"));
    }
    // Without any valid line, the first one is reported.
    for (data, expected) in [
        ("\n{\n \"a\": 1\n}\n", "Data: t/data.jsonl:2: column "),
        ("{\"a\":NaN}\n[1]\n", "Data: t/data.jsonl:1: column "),
    ] {
        let said = folder("", data).select("select 1");
        assert!(said.starts_with(expected), "{said}");
    }
    check(
        "",
        b"\x1f\x8b\x08",
        "Data: t/data.jsonl: this is gzip, but table \"t\" must be CSV or JSON lines; name it so that \
         it ends in .gz (data_file = \"data.csv.gz\"), or decompress it",
    );
    let keys: String = (0..2001).map(|key| format!("{{\"k{key}\":1}}\n")).collect();
    check(
        "",
        keys,
        "LimitReached: t/data.jsonl:2001: the lines up to here have more than 2000 different keys; \
         name those of the columns in columns.by_header",
    );
    check(
        "",
        vec![b' '; (64 << 20) + 1],
        "LimitReached: t/data.jsonl:1: a line has more than 67108864 bytes; write one object a line, as `jq -c '.[]'` does",
    );
}

#[test]
fn compressed_files_and_a_byte_order_mark_are_read() {
    let data = "\u{feff}{\"a\":1}\n{\"a\":\"x\"}";
    let folder = folder("", data);
    let (store, report) = folder.load().unwrap();
    assert_eq!(rows(&store, "select a from t"), r#""1" "x""#);
    let path = folder.0.path().join("t/data.jsonl");
    assert_eq!(
        report.tables[0]
            .warnings
            .join("")
            .replace(path.to_str().unwrap(), "FILE"),
        "column \"a\" is text, as its values have several types: FILE:2 has text, FILE:1 has a \
         number; its numbers become text"
    );
    for (name, bytes) in [
        ("x.ndjson", data.as_bytes().to_vec()),
        ("x.jsonl.zst", zstd::encode_all(data.as_bytes(), 1).unwrap()),
    ] {
        folder.write(
            "knowdb.toml",
            format!("version = 2\n{}", NAME.replace("data.jsonl", name)),
        );
        folder.write(&format!("t/{name}"), bytes);
        assert_eq!(folder.select("select a from t"), r#""1" "x""#, "{name}");
    }
}

/// Each value is that of another parser.
#[test]
fn random_objects_have_the_values_of_serde_json() {
    let seed = std::env::var("LOOKASIDE_SEED").map_or_else(
        |_| fastrand::u64(..),
        |seed| seed.parse().expect("LOOKASIDE_SEED is a number"),
    );
    let mut random = Rng::with_seed(seed);
    let config = "columns.by_path = { a = 'a', k = 'a.k', i = 'a.1' }\n";
    for round in 0..200 {
        let objects: Vec<Json> = (0..20).map(|_| object(&mut random)).collect();
        let data: String = objects.iter().map(|it| format!("{it}\n")).collect();
        let folder = folder(config, &data);
        let config = Config::open(folder.0.path(), &[]).unwrap();
        let table = &config.tables[0];
        let mut ours = JsonRows::open(table, std::slice::from_ref(&table.data_file)).unwrap();
        for object in &objects {
            assert!(matches!(ours.next().unwrap(), NextRecord::Record));
            for (index, theirs) in [&object["a"], &object["a"]["k"], &object["a"][1]]
                .into_iter()
                .enumerate()
            {
                let expected = match theirs {
                    Json::Null => rusqlite::types::Value::Null,
                    Json::Bool(bool) => i64::from(*bool).into(),
                    Json::Number(number) => match number.as_i64() {
                        Some(int) => int.into(),
                        None => number.as_f64().unwrap().into(),
                    },
                    Json::String(text) => text.clone().into(),
                    nested => nested.to_string().into(),
                };
                let found = rusqlite::types::Value::try_from(ours.value(index)).unwrap();
                assert_eq!(found, expected, "seed {seed}, round {round}: {object}");
            }
        }
        assert!(matches!(ours.next().unwrap(), NextRecord::End));
    }
}

fn object(random: &mut Rng) -> Json {
    let scalar = |random: &mut Rng| match random.u8(0..6) {
        0 => Json::Null,
        1 => random.bool().into(),
        2 => random.i64(..).into(),
        3 => (random.i32(..) as f64 / 8.0).into(),
        4 => (0..random.usize(0..4))
            .map(|_| random.char(..))
            .collect::<String>()
            .into(),
        _ => random.i64(-3..3).into(),
    };
    let a = match random.u8(0..4) {
        0 => Json::Array((0..random.usize(0..4)).map(|_| scalar(random)).collect()),
        1 => serde_json::json!({"k": scalar(random), "\"": scalar(random)}),
        _ => scalar(random),
    };
    serde_json::json!({"b": scalar(random), "a": a})
}

#[test]
fn damaged_lines_never_panic() {
    let folder = folder("columns.by_path = { a = 'a', k = 'a.k.1', e = 'é' }\n", "");
    let config = Config::open(folder.0.path(), &[]).unwrap();
    let table = &config.tables[0];
    let corpus = [
        &b"{\"a\":{\"k\":[1,{\"x\":\"\\u00e9\"}]},\"\xc3\xa9\":-1.5e3}\n{\"a\":null}\n"[..],
        b"{\"a\":[\"\\ud83d\\ude00\",true]}\n[]\n\n{}",
    ]
    .map(<[u8]>::to_vec);
    let words = [&b"{\"a\":"[..], b"}", b"]", b"\\u", b"\"", b"1e", b"\xc3"];
    mutations_never_panic(3_000, &corpus, &words, 1, |bytes| {
        fs::write(&table.data_file, bytes).unwrap();
        let Ok(mut rows) = JsonRows::open(table, std::slice::from_ref(&table.data_file)) else {
            return;
        };
        while let Ok(NextRecord::Record | NextRecord::Bad { .. }) = rows.next() {
            for index in 0..rows.names().len() {
                let _ = rows.value(index);
            }
        }
    });
}

#[test]
fn mutations_of_json_lines_hold() {
    let corpus = [
        "\u{20}{\"a\":{\"b\":1.50e400},\"b\":\"\u{e4}\\u00e4\\ud83d\\ude00\"}\n\n{\"a\":[[],null,-0]}\r\n",
        "\u{3}\u{feff}{}\n{\"a\":[{\"b\":true}],\"a\":2}\n{\"b\":123456789012345678901234567890}",
        "\u{0}{\"a.b\":1}\n[1]\n{\"a\":{\"0\":[\"x\"]}} x\n",
    ];
    let corpus = corpus.map(|text| text.as_bytes().to_vec());
    let words: [&[u8]; 6] = [b"\"a\":", b"\\ud800", b"\n", b"[[[[[[[[", b"1e999", b"\xff"];
    mutations_never_panic(30_000, &corpus, &words, 1, json_lines_fuzz);
}
