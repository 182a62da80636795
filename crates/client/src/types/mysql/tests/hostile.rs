//! Fields that no honest server sends: an answer or an error, never a panic.

use std::panic::catch_unwind;

use fastrand::Rng;
use lookaside_value::Value;

use super::super::kind::{CellKind, KINDS};
use super::super::{Format, MyType, ParamType, encode};
use crate::types::json::HEAP_PER_BYTE_MAX;

/// Fields for each kind: random ones and mutations of right ones, in either format.
const FIELD_COUNT: u64 = 100_000;

/// Letters that the types' texts are made of, so that parsers get past their first byte.
const LETTERS: &[u8; 64] =
    b"0123456789-+:.,/ {}[]\"\\ntfaeNUL:-.inity\0\xff0123456789abcdef{}\"\",/:";

/// Fields that are values of some type.
const SAMPLES: &[(Format, &[u8])] = &[
    (Format::Text, b"-42"),
    (Format::Text, b"18446744073709551615"),
    (Format::Text, b"-12.50"),
    (Format::Text, b"1e22"),
    (Format::Text, b"2026-01-02"),
    (Format::Text, b"0000-00-00 00:00:00.000"),
    (Format::Text, b"2026-01-02 03:04:05.25"),
    (Format::Text, b"-838:59:59.000000"),
    (Format::Text, b"{\"a\":[1.5,null,\"\\u00e4\"]}"),
    (Format::Text, b"6f9619ff-8b86-d011-b42d-00c04fc964ff"),
    (Format::Text, b"2001:db8::1"),
    (Format::Text, b"192.0.2.1"),
    (Format::Text, b"Z\xc3\xbcrich"),
    (Format::Binary, &[]),
    (Format::Binary, &[1]),
    (Format::Binary, &[1, 2]),
    (Format::Binary, &[0xea, 7, 1, 2]),
    (Format::Binary, &[0xea, 7, 1, 2, 3, 4, 5]),
    (Format::Binary, &[1, 34, 0, 0, 0, 22, 59, 59]),
    (Format::Binary, &[0xea, 7, 1, 2, 3, 4, 5, 6, 0, 0, 0]),
    (Format::Binary, &[1, 34, 0, 0, 0, 22, 59, 59, 1, 2, 3, 0]),
];

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

/// Whether the field was a value.
fn check(my_type: MyType, format: Format, field: &[u8]) -> bool {
    let decoded = catch_unwind(|| my_type.decode(format, field));
    match decoded.unwrap_or_else(|_| panic!("{:?} {format:?} {field:?} panics", my_type.kind)) {
        Err(error) => {
            assert!(error.offset() <= field.len(), "{error} in {field:?}");
            false
        }
        Ok(value) => {
            let limit = (field.len() + 1) * HEAP_PER_BYTE_MAX;
            assert!(value.heap_size() <= limit, "{field:?}");
            let written = catch_unwind(|| encode(&value, &mut Vec::new()));
            assert!(written.is_ok(), "{value:?}");
            assert!(!ParamType::of(&value).is_null() || value == Value::Null);
            true
        }
    }
}

fn is_anything(kind: CellKind) -> bool {
    matches!(kind, CellKind::Text | CellKind::Json | CellKind::Bytes)
}

#[test]
fn no_field_of_any_type_panics() {
    for &kind in KINDS {
        let my_type = |decimals| MyType {
            kind,
            name: "x",
            decimals,
        };
        for (format, field) in SAMPLES {
            for at in 0..field.len() {
                check(my_type(3), *format, &field[..at]);
                let mut flipped = field.to_vec();
                flipped[at] ^= 1 << (at % 8);
                check(my_type(3), *format, &flipped);
            }
        }
        let mut rng = Rng::with_seed(kind as u64);
        let mut value_count = 0;
        for index in 0..FIELD_COUNT {
            let (format, field) = if index % 2 == 0 {
                random(&mut rng)
            } else {
                let (format, field) = SAMPLES[rng.usize(..SAMPLES.len())];
                let mut field = field.to_vec();
                mutate(&mut rng, &mut field);
                (format, field)
            };
            value_count += u64::from(check(my_type(rng.u8(..)), format, &field));
        }
        assert!(
            value_count > FIELD_COUNT / 200 && (value_count < FIELD_COUNT || is_anything(kind)),
            "{value_count} fields of {kind:?} were values"
        );
    }
}
