//! Compiled forms: they are read as they were written, or refused.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::thread;

use fastrand::Rng;
use lookaside_testing::mutations_never_panic;
use lookaside_value::Value;
use rusqlite::types::{Value as Owned, ValueRef};
use tempfile::TempDir;

use super::*;
use crate::bind::value_of;
use crate::index::{HashIndexBuilder, Key as KeyPart, TestKeys};
use crate::plan::key_index;
use crate::table::{KeyColumns, PackedTable, Segment, SegmentBuilder};

const KEY: Key = Key(0x1234_5678_9abc_def0);

/// A value of a column of this kind.
fn draw(random: &mut Rng, kind: usize) -> Owned {
    match kind {
        0 => Owned::Null,
        1 => Owned::Integer(random.i64(-3..300)),
        2 => Owned::Integer([i64::MIN, i64::MAX, 0, random.i64(..)][random.usize(..4)]),
        3 => Owned::Real(random.f64() * 1e9),
        4 => {
            Owned::Text(["", "de", "a text that is longer than a value"][random.usize(..3)].into())
        }
        5 => Owned::Text(format!("{}", random.u64(..))),
        6 => Owned::Text("ä€😀".repeat(random.usize(..9)) + &format!("{}", random.u32(..))),
        7 => Owned::Integer(7),
        _ => match random.u8(..4) {
            0 => Owned::Integer(random.i64(..)),
            1 => Owned::Text(format!("text {}", random.u8(..))),
            2 => Owned::Real(random.f64()),
            _ => Owned::Blob(vec![random.u8(..); random.usize(..20)]),
        },
    }
}

/// A table, and an index of its first column if that is unique.
fn random_form(random: &mut Rng, row_count_end: usize) -> CompiledForm {
    let kinds: Vec<usize> = (0..random.usize(1..7)).map(|_| random.usize(..9)).collect();
    let null_one_in = random.usize(1..9);
    let (mut segments, mut builder) = (Vec::new(), SegmentBuilder::new(kinds.len() + 1));
    let row_count = random.usize(..row_count_end);
    let spread = [1, 1 << 20][random.usize(..2)];
    let is_text = random.bool();
    for row in 0..row_count {
        let id = row as i64 * spread;
        let mut values = vec![match is_text {
            true => Owned::Text(id.to_string()),
            false => Owned::Integer(id),
        }];
        values.extend(kinds.iter().map(|kind| match random.usize(..null_one_in) {
            0 if null_one_in > 1 => Owned::Null,
            _ => draw(random, *kind),
        }));
        builder.push(values.iter().map(ValueRef::from)).unwrap();
        if random.usize(..300) == 0 {
            segments.push(Arc::new(builder.build()));
        }
    }
    segments.push(Arc::new(builder.build()));
    let texts = |random: &mut Rng| vec!["a note".to_owned(); random.usize(..3)];
    let row_id = (!is_text && random.bool()).then_some(0);
    let table = Arc::new(PackedTable::new(segments, row_id, usize::MAX).unwrap());
    let index = key_index(Arc::new(KeyColumns::new(Arc::clone(&table), &[Some(0)])));
    CompiledForm {
        table,
        column_count: kinds.len() + 1,
        unique_indexes: vec![(vec![0], index.unwrap().into())],
        report: StoredReport {
            files: vec!["t/data.csv".to_owned()],
            derived: random.bool().then(|| {
                vec![DerivedColumn {
                    declaration: 1,
                    comment: 2,
                }]
            }),
            notes: texts(random),
            warnings: texts(random),
            skipped_count: random.u64(..9),
            skipped: vec![("t/data.csv:3".to_owned(), "é".to_owned()); random.usize(..3)],
        },
    }
}

/// Integers as the keys of rows.
fn int_keys(row_count: usize) -> Arc<dyn RowKeys> {
    Arc::new(TestKeys {
        rows: (0..row_count as i64)
            .map(|row| vec![Some(KeyPart::Int(row))])
            .collect(),
        part_count: 1,
    })
}

/// All values of a table with their row ids.
fn rows(form: &CompiledForm) -> Vec<Vec<Value>> {
    let columns: Vec<Option<usize>> = (0..form.column_count).map(Some).chain([None]).collect();
    let mut rows = Vec::new();
    let each = form.table.each(&columns, |values| {
        rows.push(values.iter().map(|value| value_of(*value)).collect());
        Ok::<_, ()>(())
    });
    each.unwrap();
    rows
}

/// Checks that two forms are the same: rows, and what is found by the first column.
fn assert_same(found: &CompiledForm, expected: &CompiledForm, seed: u64) {
    assert_eq!(rows(found), rows(expected), "seed {seed}");
    assert_eq!(found.report, expected.report, "seed {seed}");
    assert_eq!(found.table.row_id(), expected.table.row_id(), "seed {seed}");
    let ([(columns, index)], [(_, other)]) = (&*found.unique_indexes, &*expected.unique_indexes)
    else {
        panic!("seed {seed}: one index");
    };
    assert_eq!(columns, &[0]);
    assert_eq!(index.len(), other.len(), "seed {seed}");
    for row in 0..found.table.row_count() {
        let key = match found.table.value_ref(row, 0) {
            ValueRef::Integer(int) => KeyPart::Int(int),
            ValueRef::Text(text) => KeyPart::Text(text),
            other => panic!("{other:?}"),
        };
        assert_eq!(index.rows(&[key]).to_vec(), [row as u32], "seed {seed}");
    }
    for absent in [KeyPart::Int(-7), KeyPart::Text(b"absent")] {
        assert!(index.rows(&[absent]).to_vec().is_empty(), "seed {seed}");
    }
}

fn file_in(folder: &TempDir, key: Key) -> CompiledFile {
    let tables = CompiledTables::new(Some(folder.path()), Selection::All);
    tables.file("t", 0, || Ok(key)).unwrap()
}

#[test]
fn random_tables_are_read_as_they_were_written() {
    let seed = fastrand::u64(..1 << 60);
    for seed in (0..60).chain(seed..seed + 40) {
        let mut random = Rng::with_seed(seed);
        let folder = tempfile::tempdir().unwrap();
        let form = random_form(&mut random, [2, 40, 3000][seed as usize % 3]);
        let file = file_in(&folder, KEY);
        let size = file.write(&form).unwrap();
        let (found, size_found) = file.read().unwrap();
        assert_same(&found, &form, seed);
        assert_eq!(size, size_found);
        assert_eq!(fs::metadata(&file.path).unwrap().len(), size);
        assert!(file_in(&folder, Key(KEY.0 + 1)).read().is_none());
    }
}

/// The integers of a key, of which the first one may be replaced by its text.
fn parts_of(key: &[(i64, String)], has_text: bool) -> Vec<KeyPart<'_>> {
    let mut parts: Vec<KeyPart<'_>> = key.iter().map(|(int, _)| KeyPart::Int(*int)).collect();
    if has_text {
        parts[0] = KeyPart::Text(key[0].1.as_bytes());
    }
    parts
}

#[test]
fn changed_tables_are_written_in_scan_order() {
    const ROW_COUNT: u32 = 150_000;
    let (mut segments, mut builder) = (Vec::new(), SegmentBuilder::new(1));
    for row in 0..ROW_COUNT {
        builder
            .push([ValueRef::Integer(row.into())].into_iter())
            .unwrap();
        if builder.is_full() {
            segments.push(Arc::new(builder.build()));
        }
    }
    segments.push(Arc::new(builder.build()));
    let base = PackedTable::new(segments, None, usize::MAX).unwrap();
    for int in [-1, -2, -3] {
        builder.push([ValueRef::Integer(int)].into_iter()).unwrap();
    }
    // The segments of the base do not end where those of the file do.
    let kept = [10..70_000, 70_001..ROW_COUNT];
    let places = vec![0, 65_536, ROW_COUNT];
    let changed = base.changed(&kept, [builder.build()], places, usize::MAX);
    let form = CompiledForm {
        table: Arc::new(changed.unwrap()),
        column_count: 1,
        unique_indexes: Vec::new(),
        report: StoredReport::default(),
    };
    let folder = tempfile::tempdir().unwrap();
    let file = file_in(&folder, KEY);
    file.write(&form).unwrap();
    let (found, _) = file.read().unwrap();
    assert!(!found.table.is_changed());
    let found = rows(&found);
    assert_eq!(found, rows(&form));
    assert_eq!(found.len(), ROW_COUNT as usize - 11 + 3);
    let ints = [0, 1, 65_527].map(|row| match &found[row][0] {
        Value::Int(int) => *int,
        other => panic!("{other:?}"),
    });
    assert_eq!(ints, [-1, 10, -2]);
}

#[test]
fn random_indexes_are_read_as_they_were_written() {
    let seed = fastrand::u64(..1 << 60);
    for seed in (0..60).chain(seed..seed + 40) {
        let mut random = Rng::with_seed(seed);
        let (width, kind) = (random.usize(1..4), random.usize(..3));
        let row_count = random.usize(..200);
        let text = |random: &mut Rng| "é".repeat(random.usize(..5));
        let keys: Vec<Vec<(i64, String)>> = (0..row_count)
            .map(|_| {
                let spread = [1, i64::from(i32::MAX)][kind % 2];
                let part = |_| (random.i64(-20..20) * spread, text(&mut random));
                (0..width).map(part).collect()
            })
            .collect();
        let mut builder = HashIndexBuilder::new(width, row_count);
        for (row, key) in keys.iter().enumerate() {
            let parts = parts_of(key, kind == 2);
            builder.push(row, &parts).unwrap();
        }
        let index = builder.build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = file_in(&folder, KEY);
        file.write_index(&[3, 1], &index);
        let found = file.read_index(&[3, 1], int_keys(row_count)).unwrap();
        assert_eq!(found.len(), index.len(), "seed {seed}");
        for key in &keys {
            let parts = parts_of(key, kind == 2);
            let expected = index.rows(&parts).to_vec();
            assert!(!expected.is_empty());
            assert_eq!(found.rows(&parts).to_vec(), expected, "seed {seed}");
        }
        // Another index, another table, and fewer rows than the index has.
        assert!(file.read_index(&[1, 3], int_keys(row_count)).is_none());
        let other = file_in(&folder, Key(1));
        assert!(other.read_index(&[3, 1], int_keys(row_count)).is_none());
        if row_count > 0 {
            assert!(
                file.read_index(&[3, 1], int_keys(row_count - 1)).is_none(),
                "seed {seed}"
            );
        }
    }
}

/// Files whose names tell that they are temporary.
fn temporary_count(folder: &TempDir) -> usize {
    let names = fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".next")).count()
}

#[test]
fn changed_and_cut_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let form = random_form(&mut Rng::with_seed(7), 12);
    let file = file_in(&folder, KEY);
    file.write(&form).unwrap();
    let (_, index) = &form.unique_indexes[0];
    file.write_index(&[0], index.base());
    let row_count = form.table.row_count();
    for path in [file.path.clone(), file.index_path(&[0])] {
        let whole = fs::read(&path).unwrap();
        let is_read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            match path == file.path {
                true => file.read().is_some(),
                false => file.read_index(&[0], int_keys(row_count)).is_some(),
            }
        };
        assert!(is_read(&whole));
        for at in 0..whole.len() {
            assert!(!is_read(&whole[..at]), "cut at {at}");
            for bit in [1, 128] {
                let mut changed = whole.clone();
                changed[at] ^= bit;
                assert!(!is_read(&changed), "byte {at}");
            }
        }
        assert!(!is_read(&[&*whole, b"\0"].concat()));
    }
}

/// What reads a form does not panic, whatever it is.
fn use_form(form: &CompiledForm) {
    rows(form);
    let mut values = Vec::new();
    let columns: Vec<Option<usize>> = (0..form.column_count).map(Some).collect();
    let packed = crate::table::PackedRows::new(Arc::clone(&form.table), &columns, []);
    (0..form.table.row_count()).for_each(|row| packed.push_values(row, &mut values));
    for (_, index) in &form.unique_indexes {
        use_index(index.base(), form.table.row_count());
    }
}

fn use_index(index: &HashIndex, row_count: usize) {
    let texts: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    let texts = texts.iter().map(|text| KeyPart::Text(text.as_bytes()));
    for key in (-5..50).map(KeyPart::Int).chain(texts) {
        let rows = index.rows(&[key]).to_vec();
        assert!(rows.iter().all(|row| (*row as usize) < row_count));
    }
    assert!(
        index
            .lists()
            .flatten()
            .all(|row| (*row as usize) < row_count)
    );
}

/// Changes sections and gives them right checksums.
#[test]
fn forged_sections_are_refused_or_harmless() {
    let seed = fastrand::u64(..1 << 60);
    let (mut refused_count, mut read_count) = (0, 0);
    for seed in (0..150).chain(seed..seed + 50) {
        let mut random = Rng::with_seed(seed);
        let form = random_form(&mut random, 30);
        let folder = tempfile::tempdir().unwrap();
        let file = file_in(&folder, KEY);
        let sections: Vec<Vec<u8>> = (0..form.section_count())
            .map(|index| {
                let mut out = Vec::new();
                form.serialize(index, &mut out).unwrap();
                out
            })
            .collect();
        for _ in 0..10 {
            let mut forged = sections.clone();
            let count = forged.len();
            let section = &mut forged[random.usize(..count)];
            for _ in 0..random.usize(1..3) {
                match random.u8(..4) {
                    0 if !section.is_empty() => section.truncate(random.usize(..section.len())),
                    1 => section.extend_from_slice(&random.u64(..).to_le_bytes()),
                    _ if !section.is_empty() => {
                        let at = random.usize(..section.len());
                        section[at] = [0, 1, 127, 255, random.u8(..)][random.usize(..5)];
                    }
                    _ => {}
                }
            }
            let written = file::write(&file.path, KEY, count, |index, out| {
                out.extend_from_slice(&forged[index]);
                Ok(())
            });
            written.unwrap();
            match file.read() {
                None => refused_count += 1,
                Some((form, _)) => {
                    read_count += 1;
                    use_form(&form);
                }
            }
        }
    }
    assert!(
        refused_count > 300 && read_count > 200,
        "{refused_count} {read_count}"
    );
}

/// A name, an encoding, the size of a row, rows, their texts or bytes, and what is wrong.
type Case<'a> = (&'a str, Vec<u8>, u32, Vec<u8>, &'a [u8], Option<&'a str>);

/// A segment with one column: the encoding, the size of a row, the rows, and the texts or bytes.
fn forged_segment(encoding: &[u8], stride: u32, rows: &[u8], heap: &[u8]) -> Vec<u8> {
    let mut out = ((rows.len() / stride as usize) as u32)
        .to_le_bytes()
        .to_vec();
    out.extend_from_slice(&stride.to_le_bytes());
    out.extend_from_slice(encoding);
    let is_text = encoding[0] != 6;
    let sizes = [
        rows.len() + 8,
        heap.len() * usize::from(is_text),
        heap.len() * usize::from(!is_text),
    ];
    sizes
        .iter()
        .for_each(|size| out.extend_from_slice(&(*size as u64).to_le_bytes()));
    out.extend_from_slice(rows);
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(heap);
    out
}

#[test]
fn offsets_beyond_a_segment_are_refused() {
    let read = |bytes: &[u8]| {
        let mut reader = LeReader::new(bytes);
        Segment::deserialize(&mut reader, 1).map_err(|malformed| malformed.0)
    };
    const VALUE: Option<&str> = Some("a value is not within its segment");
    const FIELD: Option<&str> = Some("a field is not within its row");
    // Heap: base, bits of a start, offset and size of the field; the word has the size plus one above the
    // start.
    let heap = |base: u64, at: u32, size: u8| {
        [
            &[5][..],
            &base.to_le_bytes(),
            &[4],
            &at.to_le_bytes(),
            &[size],
        ]
        .concat()
    };
    let any = |base: u64, at: u32| [&[6][..], &base.to_le_bytes(), &at.to_le_bytes()].concat();
    let any_row = |class: u8, start: u32, size: u32| {
        [&[class][..], &start.to_le_bytes(), &size.to_le_bytes()].concat()
    };
    let inline = |at: u32| [&[4][..], &at.to_le_bytes()].concat();
    let cases: [Case<'_>; 15] = [
        ("text", heap(0, 0, 1), 1, vec![0x31, 0x43], b"abcdef", None),
        (
            "beyond",
            heap(0, 0, 1),
            1,
            vec![0x31, 0x75],
            b"abcdef",
            VALUE,
        ),
        ("base", heap(7, 0, 1), 1, vec![0x10], b"abcdef", VALUE),
        (
            "huge base",
            heap(u64::MAX, 0, 1),
            1,
            vec![0x11],
            b"abcdef",
            VALUE,
        ),
        (
            "character",
            heap(0, 0, 1),
            1,
            vec![0x21],
            "é".as_bytes(),
            VALUE,
        ),
        ("field", heap(0, 1, 1), 1, vec![0], b"", FIELD),
        ("huge field", heap(0, u32::MAX, 8), 1, vec![0], b"", FIELD),
        ("blob", any(0, 0), 9, any_row(4, 1, 2), b"abc", None),
        ("blob beyond", any(0, 0), 9, any_row(4, 2, 2), b"abc", VALUE),
        ("text beyond", any(1, 0), 9, any_row(3, 1, 2), b"abc", VALUE),
        (
            "blob, huge",
            any(u64::MAX, 0),
            9,
            any_row(4, 1, 2),
            b"abc",
            VALUE,
        ),
        ("any field", any(0, 1), 9, any_row(0, 0, 0), b"", FIELD),
        ("inline", inline(0), 3, vec![3, 65, 66, 0, 0, 0], b"", None),
        (
            "inline beyond",
            inline(0),
            3,
            vec![0, 0, 0, 4, 65, 66],
            b"",
            VALUE,
        ),
        ("inline field", inline(3), 3, vec![0, 0, 0], b"", FIELD),
    ];
    for (name, encoding, stride, rows, heap, expected) in cases {
        let found = read(&forged_segment(&encoding, stride, &rows, heap));
        assert_eq!(found.err(), expected, "{name}");
    }
}

#[test]
fn indexes_that_would_not_end_or_leave_the_table_are_refused() {
    const NONE: u32 = (1 << 31) - 1;
    let none: &[u8] = &NONE.to_le_bytes();
    let read = |lists: &[u32], rest: &[&[u8]]| {
        let mut bytes = (lists.len() as u64).to_le_bytes().to_vec();
        lists
            .iter()
            .for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.extend_from_slice(&rest.concat());
        let mut reader = LeReader::new(&bytes);
        let read = HashIndex::deserialize(&mut reader, int_keys(5));
        read.map(|index| use_index(&index, 5)).map_err(|it| it.0)
    };
    let slot = |slot: u32| slot.to_le_bytes();
    let dense = |first: u32| {
        [
            &[0][..],
            &0_i64.to_le_bytes(),
            &1_u64.to_le_bytes(),
            &slot(first),
        ]
        .concat()
    };
    let list = |start: u32| dense(start | 1 << 31);
    let row = Err("a key refers to a row that does not exist");
    let lists = Err("a list of rows is invalid");
    assert_eq!(read(&[], &[&dense(4)]), Ok(()));
    assert_eq!(read(&[], &[&dense(5)]), row);
    assert_eq!(read(&[], &[&list(0)]), row);
    assert_eq!(read(&[2, 0, 4], &[&list(0)]), Ok(()));
    assert_eq!(read(&[2, 0, 4], &[&list(1)]), row);
    assert_eq!(read(&[2, 0, 5], &[&list(0)]), lists);
    assert_eq!(read(&[3, 0, 4], &[&list(0)]), lists);
    assert_eq!(read(&[u32::MAX, 0], &[&list(0)]), lists);
    assert_eq!(read(&[1, 0], &[&list(0)]), lists);
    assert_eq!(read(&[0], &[&list(0)]), lists);
    let int = |key: i64, row: &[u8]| [&key.to_le_bytes()[..], row].concat();
    let ints = |count: u64| [&[1][..], &count.to_le_bytes()].concat();
    let full = Err("an index has no free place");
    assert_eq!(
        read(&[], &[&ints(2), &int(7, &slot(1)), &int(0, none)]),
        Ok(())
    );
    assert_eq!(
        read(&[], &[&ints(2), &int(7, &slot(1)), &int(8, &slot(2))]),
        full
    );
    assert_eq!(read(&[], &[&ints(1), &int(7, none)]), Ok(()));
    assert_eq!(read(&[], &[&ints(0)]), full);
    let three = [int(7, &slot(1)), int(0, none), int(0, none)].concat();
    assert_eq!(read(&[], &[&ints(3), &three]), full);
    assert_eq!(
        read(&[], &[&ints(2), &int(7, &slot(6)), &int(0, none)]),
        row
    );
    let end = Err("a section ends too early");
    assert_eq!(read(&[], &[&ints(u64::MAX), &int(7, none)]), end);
    let encoded = |start: u32, stop: u32, arena: &[u8]| {
        let key = [1, start, stop].map(u32::to_le_bytes).concat();
        let free = [0; 12];
        let size = (arena.len() as u64).to_le_bytes();
        [
            &[2][..],
            &2_u64.to_le_bytes(),
            &key,
            &slot(3),
            &free,
            none,
            &size,
            arena,
        ]
        .concat()
    };
    let key = Err("a key is not within its index");
    assert_eq!(read(&[], &[&encoded(1, 3, b"abc")]), Ok(()));
    assert_eq!(read(&[], &[&encoded(1, 4, b"abc")]), key);
    assert_eq!(read(&[], &[&encoded(3, 1, b"abc")]), key);
    let narrow = |key: u32, row: &[u8]| [&key.to_le_bytes()[..], row].concat();
    let head = [&[3][..], &(-5_i64).to_le_bytes(), &2_u64.to_le_bytes()].concat();
    let free = narrow(0, none);
    assert_eq!(read(&[], &[&head, &narrow(7, &slot(4)), &free]), Ok(()));
    assert_eq!(read(&[], &[&head, &narrow(7, &slot(5)), &free]), row);
    let other = narrow(u32::MAX, &slot(1));
    assert_eq!(read(&[], &[&head, &narrow(7, &slot(4)), &other]), full);
    let head = [&[4][..], &2_u64.to_le_bytes()].concat();
    assert_eq!(read(&[], &[&head, &narrow(7, &slot(4)), &free]), Ok(()));
    assert_eq!(read(&[], &[&head, &narrow(7, &slot(5)), &free]), row);
    assert_eq!(read(&[], &[&head, &narrow(7, &slot(4)), &other]), full);
    let list = slot(1 << 31);
    assert_eq!(read(&[2, 0, 4], &[&head, &narrow(7, &list), &free]), Ok(()));
    assert_eq!(read(&[], &[&head, &narrow(7, &list), &free]), row);
    assert_eq!(read(&[], &[&[5]]), Err("a kind of index is unknown"));
}

#[test]
fn files_belong_to_their_owner_and_leave_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("a/b");
    let tables = CompiledTables::new(Some(&place), Selection::All);
    let file = tables.file("t", 0, || Ok(KEY)).unwrap();
    let form = random_form(&mut Rng::with_seed(3), 40);
    file.write(&form).unwrap();
    file.write_index(&[0], form.unique_indexes[0].1.base());
    for path in [&file.path, &file.index_path(&[0])] {
        assert_eq!(
            fs::metadata(path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    assert_eq!(fs::read_to_string(place.join(".gitignore")).unwrap(), "*\n");
    // The next form has no indexes yet.
    file.write(&form).unwrap();
    assert!(!file.index_path(&[0]).exists());
    assert_eq!(fs::read_dir(&place).unwrap().count(), 2);
}

#[test]
fn names_of_tables_become_names_of_files() {
    for (name, other) in [
        ("t", "u"),
        ("a b", "a_b"),
        ("..", "."),
        ("a/b", "a_b"),
        ("é", "è"),
    ] {
        let (name, other) = (file_name(name), file_name(other));
        assert_ne!(name, other);
        let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        assert!(
            name.chars().all(is_safe) && !name.starts_with('.'),
            "{name}"
        );
    }
    assert_eq!(file_name("Orders"), file_name("orders"));
    assert!(file_name(&"x".repeat(1000)).len() < 200);
}

#[test]
fn threads_that_write_at_once_leave_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let form = random_form(&mut Rng::with_seed(5), 3000);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let file = file_in(&folder, KEY);
                for _ in 0..25 {
                    file.write(&form).unwrap();
                    let (found, _) = file.read().expect("whole at each moment");
                    assert_eq!(found.table.row_count(), form.table.row_count());
                }
            });
        }
    });
    assert_eq!(temporary_count(&folder), 0);
    assert_same(&file_in(&folder, KEY).read().unwrap().0, &form, 5);
}

#[test]
fn a_write_that_fails_leaves_the_file_before() {
    let folder = tempfile::tempdir().unwrap();
    let form = random_form(&mut Rng::with_seed(5), 40);
    let file = file_in(&folder, KEY);
    file.write(&form).unwrap();
    // A folder with the name of the file cannot be replaced, whatever the user may do.
    let other = CompiledFile {
        path: folder.path().join("other.table"),
        ..file.clone()
    };
    fs::create_dir_all(other.path.join("x")).unwrap();
    assert!(other.write(&form).is_err());
    assert!(other.has_warned.load(Ordering::Relaxed));
    assert_eq!(temporary_count(&folder), 0);
    assert!(file.read().is_some());
}

#[test]
fn keys_depend_on_all_that_is_hashed() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let (a, b) = (write("a", &[1; 1000]), write("b", &[2; 500]));
    let key = |files: &[&PathBuf], settings: &str| {
        let files: Vec<(&Path, &Path)> = files.iter().map(|it| (&***it, &***it)).collect();
        Key::of(&files, settings).unwrap()
    };
    let first = key(&[&a, &b], "s");
    assert_eq!(key(&[&a, &b], "s"), first);
    let mut others = vec![key(&[&b, &a], "s"), key(&[&a], "s"), key(&[&a, &b], "t")];
    for at in [0, 63, 64, 999] {
        let mut changed = [1; 1000];
        changed[at] = 3;
        write("a", &changed);
        others.push(key(&[&a, &b], "s"));
    }
    write("a", &[1; 999]);
    others.push(key(&[&a, &b], "s"));
    // The same bytes, divided otherwise.
    write("a", &[1; 500]);
    write("b", &[&[1; 500][..], &[2; 500]].concat());
    others.push(key(&[&a, &b], "s"));
    others.push(first);
    let count = others.len();
    others.sort_unstable_by_key(|key| key.0);
    others.dedup();
    assert_eq!(others.len(), count);
}

#[test]
fn only_large_tables_and_those_that_are_compiled_are_selected() {
    let folder = tempfile::tempdir().unwrap();
    let large = CompiledTables::new(Some(folder.path()), Selection::Large);
    let is_selected = |size: u64| large.file("t", size, || Ok(KEY)).is_some();
    assert!(!is_selected(DATA_SIZE_MIN - 1));
    assert!(is_selected(DATA_SIZE_MIN));
    let form = random_form(&mut Rng::with_seed(5), 40);
    file_in(&folder, KEY).write(&form).unwrap();
    assert!(is_selected(0));
    let off = CompiledTables::new(None, Selection::All);
    assert!(off.file("t", u64::MAX, || Ok(KEY)).is_none());
}

#[test]
fn mutations_of_sections_hold() {
    let mut random = Rng::with_seed(7);
    let mut corpus = Vec::new();
    while corpus.len() < 40 {
        let form = random_form(&mut random, 20);
        let segment_count = form.table.scan_segment_count();
        let column_count = form.column_count as u8;
        for section in 1..form.section_count() {
            let mut input = vec![match section <= segment_count {
                true => column_count << 1,
                false => 1,
            }];
            form.serialize(section, &mut input).unwrap();
            corpus.push(input);
        }
    }
    for (columns, settings) in [(&[1][..], 3), (&[1, 0], 5)] {
        let mut builder = HashIndexBuilder::new(columns.len(), 10);
        for row in 0..10_i64 {
            let text = row.to_string();
            let parts = [KeyPart::Text(text.as_bytes()), KeyPart::Int(row * 3)];
            builder.push(row as usize, &parts[..columns.len()]).unwrap();
        }
        let mut input = vec![settings];
        builder.build().unwrap().serialize(&mut input);
        corpus.push(input);
    }
    let words = [
        &b"\xff\xff\xff\xff"[..],
        b"\0\0\0\x80",
        b"\x01\0\0\0\0\0\0\0",
    ];
    mutations_never_panic(30_000, &corpus, &words, 1, compiled_fuzz);
}
