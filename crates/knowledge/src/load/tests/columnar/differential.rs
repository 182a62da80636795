//! The rows of random files are those of CSV with the same values.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array,
    Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use fastrand::Rng;
use jiff::civil::date;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use super::*;

const KINDS: [&str; 9] = [
    "int32",
    "int64",
    "uint64",
    "float64",
    "bool",
    "text",
    "decimal",
    "date",
    "timestamp",
];

/// A column, and its values as fields of CSV; an empty field stands for NULL.
fn column(kind: &str, count: usize, random: &mut Rng) -> (ArrayRef, Vec<String>) {
    let null_count = *random.choice(&[0, 0, 1, 5, 9]).unwrap();
    let is_null: Vec<bool> = (0..count).map(|_| random.u8(..10) < null_count).collect();
    let mut fields = Vec::new();
    // Makes a value and its field unless the row has NULL.
    macro_rules! values {
        ($array:ty, $make:expr) => {{
            let make = $make;
            let values = is_null.iter().map(|is_null| match is_null {
                true => {
                    fields.push(String::new());
                    None
                }
                false => {
                    let (value, field): (_, String) = make(&mut *random);
                    fields.push(field);
                    Some(value)
                }
            });
            <$array>::from(values.collect::<Vec<_>>())
        }};
    }
    let array: ArrayRef = match kind {
        "int32" => Arc::new(values!(Int32Array, |random: &mut Rng| {
            let value = random.i32(-3..3) * random.i32(0..100_000);
            (value, value.to_string())
        })),
        "int64" => Arc::new(values!(Int64Array, |random: &mut Rng| {
            let value = random.i64(..) >> random.u8(..64);
            (value, value.to_string())
        })),
        "uint64" => Arc::new(values!(UInt64Array, |random: &mut Rng| {
            let value = random.u64(..) >> random.u8(..64);
            (value, value.to_string())
        })),
        "float64" => Arc::new(values!(Float64Array, |random: &mut Rng| {
            let value = f64::from(random.i32(..)) / 1024.0;
            (value, format!("{value:?}"))
        })),
        "bool" => Arc::new(values!(BooleanArray, |random: &mut Rng| {
            let value = random.bool();
            (value, i32::from(value).to_string())
        })),
        "text" => {
            let array = values!(StringArray, |random: &mut Rng| {
                let size = random.usize(1..20);
                let text: String = (0..size)
                    .map(|_| *random.choice(&['a', 'é', '"', ',', '\n', '7']).unwrap())
                    .collect();
                let field = format!("\"{}\"", text.replace('"', "\"\""));
                (text, field)
            });
            match random.bool() {
                true => {
                    let values = array
                        .iter()
                        .collect::<DictionaryArray<arrow_array::types::Int32Type>>();
                    Arc::new(values)
                }
                false => Arc::new(array),
            }
        }
        "decimal" => {
            let array = values!(Decimal128Array, |random: &mut Rng| {
                let value = random.i128(..) >> random.u8(10..127);
                let sign = if value < 0 { "-" } else { "" };
                let digits = format!("{:06}", value.unsigned_abs());
                let (whole, part) = digits.split_at(digits.len() - 5);
                (value, format!("{sign}{whole}.{part}"))
            });
            Arc::new(array.with_precision_and_scale(38, 5).unwrap())
        }
        "date" => Arc::new(values!(Date32Array, |random: &mut Rng| {
            let (year, month, day) = (random.i16(1..9999), random.i8(1..13), random.i8(1..29));
            let days = date(1970, 1, 1)
                .until(date(year, month, day))
                .unwrap()
                .get_days();
            (days, format!("{year:04}-{month:02}-{day:02}"))
        })),
        _ => Arc::new(values!(TimestampMicrosecondArray, |random: &mut Rng| {
            let (days, seconds) = (random.i64(-700_000..2_900_000), random.i64(0..86_400));
            let micros = random.i64(0..1_000_000) * random.i64(0..2);
            let day = date(1970, 1, 1)
                .checked_add(jiff::Span::new().days(days))
                .unwrap();
            let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            let part = format!(".{micros:06}");
            let part = part.trim_end_matches('0').trim_end_matches('.');
            let count = (days * 86_400 + seconds) * 1_000_000 + micros;
            (
                count,
                format!("{day} {hour:02}:{minute:02}:{second:02}{part}"),
            )
        })),
    };
    (array, fields)
}

fn parquet_file(batch: &RecordBatch, random: &mut Rng) -> Vec<u8> {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::ZSTD(Default::default()),
        Compression::LZ4_RAW,
    ];
    let versions = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0];
    let mut options = WriterProperties::builder()
        .set_compression(*random.choice(&codecs).unwrap())
        .set_writer_version(*random.choice(&versions).unwrap())
        .set_dictionary_enabled(random.bool())
        .set_max_row_group_row_count(Some(random.usize(1..80)))
        .set_data_page_row_count_limit(random.usize(1..40))
        .set_write_batch_size(random.usize(1..20));
    for field in batch.schema().fields() {
        let encoding = match field.name().as_str() {
            "int32" | "int64" | "uint64" | "date" | "timestamp" => Encoding::DELTA_BINARY_PACKED,
            "float64" => Encoding::BYTE_STREAM_SPLIT,
            "text" => *random
                .choice(&[
                    Encoding::DELTA_BYTE_ARRAY,
                    Encoding::DELTA_LENGTH_BYTE_ARRAY,
                ])
                .unwrap(),
            _ => Encoding::PLAIN,
        };
        if random.bool() {
            let path = ColumnPath::from(field.name().as_str());
            options = options.set_column_encoding(path, encoding);
        }
    }
    let options = Some(options.build());
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn arrow_file(batch: &RecordBatch, is_stream: bool, random: &mut Rng) -> Vec<u8> {
    let codec = *random
        .choice(&[
            None,
            Some(CompressionType::LZ4_FRAME),
            Some(CompressionType::ZSTD),
        ])
        .unwrap();
    let options = || {
        IpcWriteOptions::default()
            .try_with_compression(codec)
            .unwrap()
    };
    let size = random.usize(1..60);
    let batches = (0..batch.num_rows()).step_by(size);
    let batches = batches.map(|at| batch.slice(at, size.min(batch.num_rows() - at)));
    let schema = batch.schema();
    match is_stream {
        true => {
            let mut writer =
                StreamWriter::try_new_with_options(Vec::new(), &schema, options()).unwrap();
            batches.for_each(|batch| writer.write(&batch).unwrap());
            writer.finish().unwrap();
            writer.into_inner().unwrap()
        }
        false => {
            let mut writer =
                FileWriter::try_new_with_options(Vec::new(), &schema, options()).unwrap();
            batches.for_each(|batch| writer.write(&batch).unwrap());
            writer.finish().unwrap();
            writer.into_inner().unwrap()
        }
    }
}

#[test]
fn random_tables_have_the_rows_of_csv() {
    let seed = std::env::var("LOOKASIDE_SEED").map_or_else(
        |_| fastrand::u64(..),
        |seed| seed.parse().expect("LOOKASIDE_SEED is a number"),
    );
    let mut random = Rng::with_seed(seed);
    for round in 0..60 {
        let count = *random.choice(&[0, 1, 7, 100, 1025, 2100]).unwrap();
        let mut kinds = KINDS.to_vec();
        random.shuffle(&mut kinds);
        kinds.truncate(random.usize(1..=KINDS.len()));
        let (arrays, fields): (Vec<_>, Vec<_>) = kinds
            .iter()
            .map(|kind| column(kind, count, &mut random))
            .unzip();
        let batch = RecordBatch::try_from_iter_with_nullable(
            kinds
                .iter()
                .copied()
                .zip(arrays)
                .map(|(kind, array)| (kind, array, true)),
        )
        .unwrap();
        let mut csv = format!("{}\n", kinds.join(","));
        for row in 0..count {
            // A line with a single empty field would be skipped.
            let line = fields.iter().map(|fields| match &*fields[row] {
                "" => "\"\"",
                field => field,
            });
            csv.push_str(&line.collect::<Vec<_>>().join(","));
            csv.push('\n');
        }
        let declared = |kind: &&str| match *kind {
            "int32" | "int64" | "bool" => format!("\"{kind}\" integer"),
            "float64" => format!("\"{kind}\" real"),
            kind => format!("\"{kind}\" text"),
        };
        let declared: Vec<String> = kinds.iter().map(declared).collect();
        let bound = (1..=kinds.len()).map(|number| format!("nullif(?{number}, '')"));
        let bound = bound.collect::<Vec<_>>().join(", ");
        let select = |name: &str, data: &[u8]| {
            let folder = folder(name, "csv.trim = false\n", data);
            if name != "x.csv" {
                let config = format!("version = 2\n[[tables]]\nname = 't'\ndata_file = '{name}'\n");
                folder.write("knowdb.toml", config);
            }
            folder.write(
                "t/create.sql",
                format!("create table {{table}} ({})", declared.join(", ")),
            );
            folder.write(
                "t/insert.sql",
                format!("insert into {{table}} values ({bound})"),
            );
            folder.select("select * from t order by rowid")
        };
        let expected = select("x.csv", csv.as_bytes());
        for (name, data) in [
            ("x.parquet", parquet_file(&batch, &mut random)),
            ("x.arrow", arrow_file(&batch, false, &mut random)),
            ("x.arrows", arrow_file(&batch, true, &mut random)),
        ] {
            let found = select(name, &data);
            assert!(
                found == expected,
                "LOOKASIDE_SEED={seed}, round {round}, {name}, {count} rows of {kinds:?}:\n{}",
                difference(&found, &expected)
            );
        }
    }
}

/// Both texts from where they differ.
fn difference(found: &str, expected: &str) -> String {
    let pairs = found.bytes().zip(expected.bytes());
    let at = pairs.take_while(|(a, b)| a == b).count().saturating_sub(20);
    let shown = |text: &str| {
        text.bytes()
            .skip(at)
            .take(200)
            .map(char::from)
            .collect::<String>()
    };
    format!("{}\n{}", shown(found), shown(expected))
}
