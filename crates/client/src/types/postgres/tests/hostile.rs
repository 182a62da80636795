//! Fields that no honest server sends: an answer or an error, never a panic.

use std::collections::BTreeSet;
use std::panic::catch_unwind;

use fastrand::Rng;
use lookaside_value::Value;

use super::super::table::{ENTRIES, Scalar};
use super::super::{Encoded, Format, PgType, numeric};
use crate::types::json::HEAP_PER_BYTE_MAX;

/// Fields for each type: random ones and mutations of right ones, in either format.
const FIELD_COUNT: u64 = 100_000;

/// Letters that the types' texts are made of, so that parsers get past their first byte.
const LETTERS: &[u8; 64] =
    b"0123456789-+:.,/ {}[]\"\\ntfxeNULLBCinity\0\xff0123456789abcdef{}\"\",/:";

/// The types that are decoded in ways of their own: one for each kind, and its array.
fn distinct_types() -> Vec<(PgType, u32)> {
    let mut seen = BTreeSet::new();
    let entries = ENTRIES
        .iter()
        .filter(|entry| seen.insert(format!("{:?}", entry.scalar)));
    entries
        .flat_map(|entry| [entry.oid, entry.array_oid].map(|oid| (PgType::of(oid), entry.oid)))
        .collect()
}

fn values() -> Vec<Value> {
    let texts = [
        "192.0.2.1",
        "192.0.2.0/24",
        "2001:db8::/32",
        "2026-01-02 03:04:05",
        "6f9619ff-8b86-d011-b42d-00c04fc964ff",
        "{\"a\":[1.5,null,\"\\u00e4\"]}",
        "{1,NULL,\"2\"}",
        "[0:1]={1,2}",
        "\\x00ff",
    ];
    let mut values: Vec<_> = texts.into_iter().map(Value::from).collect();
    values.extend([
        Value::Bool(true),
        Value::Int(7),
        Value::Float(0.5),
        Value::Decimal("-12.50".parse().unwrap()),
        Value::Time("2026-01-02 03:04:05.5Z".parse().unwrap()),
        Value::from(vec![Value::from("1"), Value::Null]),
        Value::from(vec![Value::from("192.0.2.0/24")]),
    ]);
    values
}

/// What this crate itself writes for a type, and binary fields that it only reads.
fn samples(pg_type: PgType, element_oid: u32) -> Vec<(Format, Vec<u8>)> {
    let mut samples = Vec::new();
    for value in values() {
        let mut field = Vec::new();
        if let Ok(Encoded::Field(format)) = pg_type.encode(&value, &mut field) {
            samples.push((format, field));
        }
        let mut field = Vec::new();
        let array = Value::from(vec![value, Value::Null]);
        if let Ok(Encoded::Field(format)) = pg_type.encode(&array, &mut field) {
            samples.push((format, field));
        }
    }
    let number = [0, 2, 0, 0, 0x40, 0, 0, 2, 0, 12, 0x13, 0x88];
    samples.push((Format::Binary, number.to_vec()));
    samples.push((Format::Binary, b"\x01{\"a\":[1]}".to_vec()));
    samples.push((Format::Binary, vec![0; 4]));
    samples.push((Format::Binary, vec![0; 8]));
    samples.push((Format::Binary, vec![0; 12]));
    samples.push((Format::Binary, vec![0; 16]));
    let mut array = vec![0, 0, 0, 1, 0, 0, 0, 0];
    array.extend(element_oid.to_be_bytes());
    array.extend([
        0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff,
    ]);
    samples.push((Format::Binary, array));
    samples
}

fn mutate(rng: &mut Rng, field: &mut Vec<u8>) {
    for _ in 0..rng.usize(0..3) {
        let at = rng.usize(0..=field.len());
        let letter = LETTERS[rng.usize(0..LETTERS.len())];
        match rng.u8(..6) {
            0 => field.insert(at, letter),
            1 => field.truncate(at),
            _ if at == field.len() => field.push(letter),
            2 => drop(field.remove(at)),
            3 => field[at] ^= 1 << rng.u8(..8),
            4 => field[at] = rng.u8(..),
            _ => field[at] = letter,
        }
    }
}

fn random(rng: &mut Rng) -> (Format, Vec<u8>) {
    let mut bytes = [0; 40];
    rng.fill(&mut bytes);
    let field = &mut bytes[..rng.usize(..40)];
    if rng.bool() {
        return (Format::Binary, field.to_vec());
    }
    let letters = field.iter().map(|byte| LETTERS[usize::from(byte % 64)]);
    (Format::Text, letters.collect())
}

fn array_depth(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(array_depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Whether the field was a value.
fn check(pg_type: PgType, format: Format, field: &[u8]) -> bool {
    let decoded = catch_unwind(|| pg_type.decode(format, field));
    match decoded.unwrap_or_else(|_| panic!("{} {format:?} {field:?} panics", pg_type.name())) {
        Err(error) => {
            assert!(error.offset() <= field.len(), "{error} in {field:?}");
            false
        }
        Ok(value) => {
            // The digits of a number are the one thing that may be much larger than its field.
            let limit = (field.len() + 1) * (HEAP_PER_BYTE_MAX + numeric::TEXT_SIZE_MAX / 8);
            assert!(value.heap_size() <= limit, "{field:?}");
            assert!(array_depth(&value) <= 64);
            let _ = pg_type.encode(&value, &mut Vec::new());
            true
        }
    }
}

fn check_type(pg_type: PgType, element_oid: u32) {
    let samples = samples(pg_type, element_oid);
    for (format, field) in &samples {
        for at in 0..field.len() {
            check(pg_type, *format, &field[..at]);
            let mut flipped = field.clone();
            flipped[at] ^= 1 << (at % 8);
            check(pg_type, *format, &flipped);
        }
    }
    let mut rng = Rng::with_seed(u64::from(pg_type.oid()));
    let mut value_count = 0;
    for index in 0..FIELD_COUNT {
        let (format, field) = if index % 2 == 0 {
            random(&mut rng)
        } else {
            let (format, mut field) = samples[rng.usize(..samples.len())].clone();
            mutate(&mut rng, &mut field);
            (format, field)
        };
        value_count += u64::from(check(pg_type, format, &field));
    }
    assert!(
        value_count > FIELD_COUNT / 200 && (value_count < FIELD_COUNT || is_anything(pg_type)),
        "{value_count} fields of {} were values",
        pg_type.name()
    );
}

/// Whether every field is a value of the type.
fn is_anything(pg_type: PgType) -> bool {
    match pg_type.shape {
        super::super::Shape::Scalar(scalar) => {
            matches!(scalar, Scalar::Text | Scalar::Json | Scalar::Other)
        }
        super::super::Shape::Array(..) => false,
        super::super::Shape::Unknown => true,
    }
}

#[test]
fn no_field_of_any_type_panics() {
    let types = distinct_types();
    assert_eq!(types.len(), 25 * 2);
    std::thread::scope(|scope| {
        for part in types.chunks(types.len().div_ceil(2)) {
            scope.spawn(move || {
                for &(pg_type, element_oid) in part {
                    check_type(pg_type, element_oid);
                }
            });
        }
    });
}
