//! Random tables: what was pushed is what is read.

use std::sync::Arc;

use fastrand::Rng;
use lookaside_value::Value;
use rusqlite::types::{Value as Owned, ValueRef};

use super::{PackedTable, SegmentBuilder, TooManyRows};
use crate::bind::value_of;

/// A way to draw the values of a column.
type Draw = fn(&mut Rng) -> Owned;

/// Columns of all encodings, and those at the edges of their sizes.
const DRAWS: [Draw; 14] = [
    |_| Owned::Null,
    |random| Owned::Integer(random.i64(-3..300)),
    |random| Owned::Integer(random.i64(..)),
    |random| Owned::Integer([i64::MIN, i64::MAX, 0][random.usize(..3)]),
    |random| Owned::Real(random.f64() * 1e9),
    |random| Owned::Real([f64::INFINITY, -0.0, f64::MIN_POSITIVE][random.usize(..3)]),
    |random| {
        Owned::Text(
            ["", "de", "fr", "a text that is longer than a value"][random.usize(..4)].into(),
        )
    },
    |random| Owned::Text(format!("{}", random.u64(..))),
    |random| Owned::Text("ä€😀".repeat(random.usize(..3)) + &format!("{}", random.u32(..))),
    |random| Owned::Text("x".repeat(random.usize(..200)) + &format!("{}", random.u64(..))),
    |random| Owned::Text("é".repeat(random.usize(..12))),
    |random| Owned::Blob(vec![random.u8(..); random.usize(..20)]),
    |random| match random.u8(..5) {
        0 => Owned::Null,
        1 => Owned::Integer(random.i64(..)),
        2 => Owned::Real(random.f64()),
        3 => Owned::Text(format!("text {}", random.u8(..))),
        _ => Owned::Blob(vec![255, 254]),
    },
    |random| Owned::Integer(random.i64(0..2) * i64::from(u32::MAX)),
];

fn check(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let draws: Vec<(Draw, u32)> = (0..random.usize(1..8))
        .map(|_| (DRAWS[random.usize(..DRAWS.len())], random.u32(..3)))
        .collect();
    let row_count_end = [2, 50, 9000][random.usize(..3)];
    let row_count = random.usize(..row_count_end);
    let mut rows: Vec<Vec<Owned>> = Vec::new();
    let (mut segments, mut builder) = (Vec::new(), SegmentBuilder::new(draws.len()));
    for _ in 0..row_count {
        let row: Vec<Owned> = draws
            .iter()
            .map(|(draw, nulls)| match random.u32(..10) < *nulls {
                true => Owned::Null,
                false => draw(&mut random),
            })
            .collect();
        builder.push(row.iter().map(ValueRef::from)).unwrap();
        rows.push(row);
        if random.u32(..500) == 0 {
            segments.push(Arc::new(builder.build()));
        }
    }
    segments.push(Arc::new(builder.build()));
    let table = PackedTable::new(segments, None, usize::MAX).unwrap();
    assert_eq!(table.row_count(), rows.len(), "seed {seed}");
    let columns: Vec<Option<usize>> = (0..draws.len()).map(Some).chain([None]).collect();
    let mut read = rows.iter();
    let each = table.each(&columns, |values| {
        let (row_id, values) = values.split_last().unwrap();
        let expected = read.next().expect("no more rows than pushed");
        let expected_row_id = (rows.len() - read.len()) as i64;
        assert_eq!(*row_id, ValueRef::Integer(expected_row_id), "seed {seed}");
        let expected: Vec<ValueRef<'_>> = expected.iter().map(ValueRef::from).collect();
        assert_eq!(values, expected, "seed {seed}");
        Ok::<_, ()>(())
    });
    each.unwrap();
    assert_eq!(read.len(), 0);
    for _ in 0..row_count.min(200) {
        let at = random.usize(..row_count);
        let mut values = Vec::new();
        table.push_values(at, &columns, &mut values);
        let expected = rows[at].iter().map(|value| value_of(value.into()));
        let expected: Vec<Value> = expected.chain([Value::Int(at as i64 + 1)]).collect();
        assert_eq!(values, expected, "seed {seed}");
        let block = [Some(at as u32), None, Some(0), Some(at as u32)];
        let mut of_each = Vec::new();
        table.push_each(&block, &columns, &mut of_each);
        table.push_values(0, &columns, &mut values);
        table.push_values(at, &columns, &mut values);
        assert_eq!(of_each, values, "seed {seed}");
    }
}

#[test]
fn random_tables_are_read_as_they_were_written() {
    let seed = fastrand::u64(..1 << 60);
    for seed in (0..150).chain(seed..seed + 50) {
        check(seed);
    }
}

#[test]
fn halves_of_a_character_in_two_texts_are_not_joined() {
    let euro = "€".as_bytes();
    let mut builder = SegmentBuilder::new(1);
    for half in [&euro[..1], &euro[1..], &euro[..1]] {
        builder.push([ValueRef::Text(half)].into_iter()).unwrap();
    }
    let table = PackedTable::new([Arc::new(builder.build())], None, 3).unwrap();
    let mut values = Vec::new();
    table.push_values(0, &[Some(0)], &mut values);
    assert_eq!(values, [Value::from("\u{fffd}")]);
}

#[test]
fn a_row_takes_few_bytes() {
    let mut builder = SegmentBuilder::new(4);
    for row in 0..60_000_i64 {
        let country = if row % 3 == 0 { "Germany" } else { "France" };
        let name = format!("host-{row}");
        let values = [
            ValueRef::Integer(1_000_000 + row),
            ValueRef::Text(country.as_bytes()),
            ValueRef::Text(name.as_bytes()),
            if row % 2 == 0 {
                ValueRef::Null
            } else {
                ValueRef::Integer(7)
            },
        ];
        builder.push(values.into_iter()).unwrap();
    }
    let segment = builder.build();
    // Two bytes, a code, ten of text and one, and one.
    assert!(segment.size() < 60_000 * 15 + 1000, "{}", segment.size());
}

#[test]
fn rows_are_bounded() {
    let mut builder = SegmentBuilder::new(1);
    for _ in 0..3 {
        builder.push([ValueRef::Null].into_iter()).unwrap();
    }
    let segment = Arc::new(builder.build());
    let two = [Arc::clone(&segment), segment];
    assert_eq!(
        PackedTable::new(two.clone(), None, 5).err(),
        Some(TooManyRows)
    );
    assert!(PackedTable::new(two, None, 6).is_ok());
}

#[test]
fn rows_are_sorted_by_their_ids() {
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    for row_count in [0, 1, 2, 3000] {
        let mut ids: Vec<i64> = (0..row_count).map(|id| id * 7 - 100).collect();
        random.shuffle(&mut ids);
        let table = |ids: &[i64]| {
            let mut builder = SegmentBuilder::new(2);
            let mut segments = Vec::new();
            for id in ids {
                let text = format!("text of {id}");
                let values = [ValueRef::Text(text.as_bytes()), ValueRef::Integer(*id)];
                builder.push(values.into_iter()).unwrap();
                if id % 50 == 0 {
                    segments.push(Arc::new(builder.build()));
                }
            }
            segments.push(Arc::new(builder.build()));
            PackedTable::new(segments, Some(1), ids.len()).unwrap()
        };
        for thread_count in [1, 2, 7] {
            let sorted = table(&ids).sorted_by_row_id(1, thread_count).unwrap();
            let mut expected = ids.clone();
            expected.sort_unstable();
            let mut read = Vec::new();
            let each = sorted.each(&[None, Some(0)], |values| {
                let text = format!("text of {}", values[0].as_i64().unwrap());
                assert_eq!(values[1], ValueRef::Text(text.as_bytes()), "seed {seed}");
                read.push(values[0].as_i64().unwrap());
                Ok::<_, ()>(())
            });
            each.unwrap();
            assert_eq!(read, expected, "seed {seed}");
        }
        if row_count > 1 {
            ids[0] = ids[1];
            assert!(table(&ids).sorted_by_row_id(1, 2).is_none());
            assert!(table(&ids).sorted_by_row_id(0, 2).is_none());
        }
    }
}
