//! Each type of the two formats, as a value of a table.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Float64Array, Int32Array, RecordBatch, Time64MicrosecondArray,
    TimestampSecondArray, UnionArray,
};
use arrow_schema::{DataType, Field, UnionFields};
use parquet::data_type::{ByteArray, ByteArrayType, Int96, Int96Type};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::*;

/// What becomes of the values of the two rows; the third one has NULL.
const BOTH: &[(&str, &str)] = &[
    ("bool", "1 0"),
    ("int8", "1 -128"),
    ("int16", "1 -32768"),
    ("int32", "1 -2147483648"),
    ("int64", "1 -9223372036854775808"),
    ("uint8", "1 255"),
    ("uint16", "1 65535"),
    ("uint32", "1 4294967295"),
    // The column is text, as one of its values is beyond the integers of SQLite.
    ("uint64", "\"1\" \"18446744073709551615\""),
    ("float16", "1.5 -0.25"),
    ("float32", "0.1 16777216.0"),
    ("float64", "0.1 inf"),
    ("string", "\"é\\\"\" \"\""),
    ("large_string", "\"large\" \"\""),
    ("binary", "[0, 255] []"),
    ("large_binary", "[108, 97, 114, 103, 101] []"),
    ("fixed", "[97, 98, 99] [0, 0, 0]"),
    (
        "uuid",
        "\"6f9619ff-8b86-d011-b42d-00c04fc964ff\" \"00000000-0000-0000-0000-000000000000\"",
    ),
    ("date32", "\"2026-03-01\" \"0001-01-01\""),
    ("time32_ms", "\"03:04:05.25\" \"00:00:00\""),
    ("time64_us", "\"03:04:05.250001\" \"23:59:59.999999\""),
    ("time64_ns", "\"03:04:05.000000001\" \"00:00:00\""),
    (
        "timestamp_ms",
        "\"2026-03-01 10:04:05.25\" \"9999-12-31 23:59:59.999\"",
    ),
    (
        "timestamp_us",
        "\"2026-03-01 10:04:05.250001\" \"0001-01-01 00:00:00\"",
    ),
    (
        "timestamp_ns",
        "\"2026-03-01 10:04:05.250000001\" \"1677-09-21 00:12:43.145224192\"",
    ),
    (
        "timestamp_zone",
        "\"2026-03-01 10:04:05.25\" \"1970-01-01 00:00:00\"",
    ),
    ("duration_s", "\"PT1H30M30S\" \"-PT1S\""),
    (
        "duration_ns",
        "\"PT0.000000001S\" \"-PT2562047H47M16.854775808S\"",
    ),
    ("decimal32", "\"123.45\" \"-0.05\""),
    ("decimal64", "\"999999999999999999\" \"-1\""),
    (
        "decimal128",
        "\"1234567890123456789012345678.0123456789\" \"0.0000000000\"",
    ),
    (
        "decimal256",
        "\"999999999999999999999999999999999999999999999999999999999999999999999999999.9\" \"-1.0\"",
    ),
    ("list", "\"[1,null,3]\" \"[]\""),
    ("large_list", "\"[\\\"a\\\",\\\"b\\\\n\\\"]\" \"[]\""),
    ("fixed_list", "\"[0.5,1.0]\" \"[0.0,null]\""),
    (
        "struct",
        "\"{\\\"name\\\":\\\"ann\\\",\\\"tags\\\":[\\\"x\\\",\\\"y\\\"],\\\"raw\\\":\\\"0x01\\\"}\" \
         \"{\\\"name\\\":null,\\\"tags\\\":null,\\\"raw\\\":null}\"",
    ),
    ("map", "\"{\\\"one\\\":1,\\\"two\\\":null}\" \"{}\""),
    ("map_of_ints", "\"{\\\"7\\\":\\\"2026-03-01\\\"}\" \"{}\""),
    ("dictionary", "\"red\" \"green\""),
];

/// Those that pyarrow writes to Arrow files only.
const ARROW: &[(&str, &str)] = &[
    ("null", "NULL NULL"),
    ("string_view", "\"a text of more than 12 bytes\" \"short\""),
    ("binary_view", "[98, 121, 116, 101, 115] []"),
    ("date64", "\"2026-03-01\" \"1969-12-31\""),
    ("time32_s", "\"03:04:05\" \"00:00:00\""),
    (
        "timestamp_s",
        "\"2026-03-01 10:04:05\" \"1969-12-31 23:59:59\"",
    ),
    ("interval", "\"P14M-2DT3.5S\" \"PT0S\""),
    ("negative_scale", "\"12300\" \"0\""),
    ("list_view", "\"[1,2]\" \"[]\""),
    ("dictionary_of_ints", "7 8"),
];

#[test]
fn each_type_has_its_form() {
    for (name, columns) in [
        ("types.parquet", vec![BOTH]),
        ("types.arrow", vec![BOTH, ARROW]),
        ("types.arrows", vec![BOTH, ARROW]),
    ] {
        let (store, report) = folder(name, "", made(name)).load().unwrap();
        assert_eq!(report.tables[0].rows, 3, "{name}");
        for (column, expected) in columns.concat() {
            let found = rows(
                &store,
                &format!("select \"{column}\" from t order by rowid"),
            );
            assert_eq!(found, format!("{expected} NULL"), "{name}: {column}");
        }
        // A mixed column is announced, as of any format with types.
        assert_eq!(report.tables[0].warnings.len(), 1, "{name}");
        assert!(
            report.tables[0].warnings[0].starts_with("column \"uint64\" is text"),
            "{:?}",
            report.tables[0].warnings
        );
    }
}

fn arrow_file(column: ArrayRef) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn other_arrays_are_read() {
    let runs = arrow_array::RunArray::<arrow_array::types::Int32Type>::try_new(
        &Int32Array::from(vec![2, 3]),
        &arrow_array::StringArray::from(vec![Some("x"), None]),
    )
    .unwrap();
    let fields = UnionFields::try_new(
        [1, 2],
        [
            Field::new("i", DataType::Int32, true),
            Field::new("f", DataType::Float64, true),
        ],
    )
    .unwrap();
    let children: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![7, 8])),
        Arc::new(Float64Array::from(vec![0.5])),
    ];
    let union = UnionArray::try_new(
        fields,
        vec![1, 2, 1].into(),
        Some(vec![0, 0, 1].into()),
        children,
    )
    .unwrap();
    for (array, expected) in [
        (Arc::new(runs) as ArrayRef, "\"x\" \"x\" NULL"),
        (Arc::new(union), "7.0 0.5 8.0"),
    ] {
        let said = folder("x.arrow", "", arrow_file(array)).select("select a from t");
        assert_eq!(said, expected);
    }
}

#[test]
fn values_without_a_form_are_bad_rows() {
    let dates = || Arc::new(Date32Array::from(vec![0, i32::MAX, 1])) as ArrayRef;
    let times = TimestampSecondArray::from(vec![i64::MIN, 253_402_300_800]);
    let clocks = Time64MicrosecondArray::from(vec![0, 86_400_000_000]);
    for (array, expected) in [
        (
            dates(),
            "Data: t/x.arrow: row 2: column \"a\": a date beyond the years -9999 to 9999",
        ),
        (
            Arc::new(times),
            "Data: t/x.arrow: row 1: column \"a\": a date beyond the years -9999 to 9999",
        ),
        (
            Arc::new(clocks),
            "Data: t/x.arrow: row 2: column \"a\": a time of day that is not within a day",
        ),
    ] {
        let said = folder("x.arrow", "", arrow_file(array)).select("select a from t");
        assert_eq!(said, expected);
    }
    let folder = folder(
        "x.arrow",
        "[default]\non_error = 'skip'\n",
        arrow_file(dates()),
    );
    let (store, report) = folder.load().unwrap();
    assert_eq!(
        rows(&store, "select a from t"),
        "\"1970-01-01\" \"1970-01-02\""
    );
    let [skipped] = &report.tables[0].skipped[..] else {
        panic!("{:?}", report.tables[0].skipped);
    };
    assert!(
        skipped.place.ends_with("t/x.arrow: row 2"),
        "{}",
        skipped.place
    );
}

#[test]
fn values_that_change_cause_a_warning() {
    let array = Float64Array::from(vec![f64::NAN, 0.5, f64::INFINITY]);
    let nan = folder("x.arrow", "", arrow_file(Arc::new(array)));
    let (store, report) = nan.load().unwrap();
    assert_eq!(rows(&store, "select a from t"), "NULL 0.5 inf");
    let path = nan.0.path().join("t/x.arrow");
    assert_eq!(
        report.tables[0].warnings,
        [format!(
            "column \"a\" of {} has NaN, which is NULL in the table",
            path.display()
        )]
    );
    let (store, report) = folder("int96.parquet", "", made("int96.parquet"))
        .load()
        .unwrap();
    assert_eq!(
        rows(&store, "select \"at\" from t"),
        "\"2026-03-01 10:04:05.25\" \"9999-12-31 23:59:59\" NULL"
    );
    assert_eq!(
        report.tables[0].warnings,
        ["column \"at\" has timestamps of 96 bits, which are read to the microsecond"]
    );
}

/// A Parquet file with a row, written by columns, as makers without Arrow do.
fn written_by_columns(
    schema: &str,
    write: impl FnOnce(&mut SerializedColumnWriter<'_>),
) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    write(&mut column);
    column.close().unwrap();
    group.close().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn obsolete_types_of_parquet_are_read() {
    let kind = written_by_columns("message m { required binary kind (ENUM); }", |column| {
        let values = [ByteArray::from("RED")];
        column
            .typed::<ByteArrayType>()
            .write_batch(&values, None, None)
            .unwrap();
    });
    let said = folder("x.parquet", "", kind).select("select kind from t");
    assert_eq!(said, "\"RED\"");
    let nested = "message m { required group g { required int96 at; } }";
    let nested = written_by_columns(nested, |column| {
        let values = [Int96::from(vec![0, 0, 2_440_588])];
        column
            .typed::<Int96Type>()
            .write_batch(&values, None, None)
            .unwrap();
    });
    assert_eq!(
        folder("x.parquet", "", nested).select("select 1"),
        "Data: t/x.parquet: column \"g.at\": cannot be read as Parquet: a nested timestamp of 96 bits; \
         write one of 64 bits; write or copy the file again"
    );
}
