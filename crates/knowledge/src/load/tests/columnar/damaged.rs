//! Files that are cut, changed or hostile.

use lookaside_testing::mutations_never_panic;

use super::super::super::columnar::{ColumnarRows, Input};
use super::*;
use crate::config::TableConfig;
use crate::error::ErrorKind;

const FILES: [&str; 7] = [
    "small-none.parquet",
    "small-zstd.parquet",
    "small-lz4.parquet",
    "small-zstd.arrow",
    "small-lz4.arrow",
    "small.feather",
    "small.arrows",
];

/// Reads all rows of a table; the error is that of the load.
fn read(table: &TableConfig, data: &[u8]) -> Result<Vec<String>> {
    let input = Input::Memory(data.to_vec().into());
    let mut reader = ColumnarRows::read_from(table, &table.data_file, input)?;
    let mut found = Vec::new();
    loop {
        match reader.next(table)? {
            NextRecord::End => return Ok(found),
            NextRecord::Bad { reason, .. } => found.push(reason),
            NextRecord::Record => {
                let values = (0..reader.names().len()).map(|index| reader.value(index));
                found.push(format!("{:?}", values.collect::<Vec<_>>()));
            }
        }
    }
}

/// Calls `body` with the table of a folder with a file, and with its content.
fn with_table(name: &str, columns: &str, body: impl FnOnce(&TableConfig, &[u8])) {
    let data = made(name);
    let folder = folder(name, columns, &data);
    let config = Config::open(folder.0.path(), &[]).unwrap();
    body(&config.tables[0], &data);
}

#[test]
fn truncated_files_are_refused_with_their_name() {
    for name in FILES {
        with_table(name, "", |table, data| {
            for size in 0..data.len() {
                let error = read(table, &data[..size]).expect_err("an error");
                let message = error.to_string();
                let file = table.data_file.display().to_string();
                assert!(message.starts_with(&file), "{size} bytes: {message}");
                assert_eq!(error.kind(), ErrorKind::Data, "{size} bytes: {message}");
            }
        });
    }
}

#[test]
fn no_changed_bit_causes_a_panic() {
    for name in FILES {
        with_table(name, "", |table, data| {
            let expected = read(table, data).unwrap();
            let mut refused = 0;
            for bit in 0..data.len() * 8 {
                let mut changed = data.to_vec();
                changed[bit / 8] ^= 1 << (bit % 8);
                match read(table, &changed) {
                    Ok(rows) => assert!(rows.len() <= 3 * expected.len(), "{name}: bit {bit}"),
                    Err(error) => {
                        refused += 1;
                        let file = table.data_file.display().to_string();
                        assert!(error.to_string().starts_with(&file), "{name}: {error}");
                    }
                }
            }
            assert!(refused > data.len(), "{name}: {refused}");
        });
    }
}

#[test]
fn mutated_files_of_all_types_never_panic() {
    for name in ["types.parquet", "types.arrow", "types.arrows"] {
        with_table(name, "", |table, data| {
            let words = [&b"\xff\xff\xff\xff"[..], b"PAR1", b"ARROW1", b"\0\0\0\0"];
            mutations_never_panic(300, &[data.to_vec()], &words, 1, |bytes| {
                let _ = read(table, bytes);
            });
        });
    }
}

/// The first position of bytes after another.
fn position(data: &[u8], from: usize, bytes: &[u8]) -> usize {
    let found = data[from..]
        .windows(bytes.len())
        .position(|window| window == bytes);
    from + found.expect("the bytes are there")
}

#[test]
fn the_part_of_the_damage_is_named() {
    const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
    let name = "small-zstd.parquet";
    let mut data = made(name);
    // In each row group: dictionary and values of `id`, then those of `name`.
    let pages: Vec<usize> = (0..data.len())
        .filter(|at| data[*at..].starts_with(ZSTD))
        .collect();
    let second_group = pages[pages.len() / 2..].to_vec();
    data[second_group[second_group.len() - 1]] ^= 1;
    let said = folder(name, "", &data).select("select * from t");
    assert!(
        said.starts_with(
            "Data: t/small-zstd.parquet: row group 2, column \"name\": cannot be read as Parquet: "
        ),
        "{said}"
    );
    assert!(said.ends_with("; write or copy the file again"), "{said}");
    // A column that the table does not have is not decoded.
    let said = folder(name, "columns.by_header = ['id']", &data).select("select * from t");
    assert_eq!(said, "1 2 3");

    let mut data = made("small-zstd.arrow");
    let at = position(&data, 0, ZSTD);
    data[at] ^= 1;
    let said = folder("x.arrow", "", &data).select("select * from t");
    assert!(
        said.starts_with("Data: t/x.arrow: batch 1: cannot be read as Arrow: "),
        "{said}"
    );
}

#[test]
fn sizes_beyond_the_limits_are_refused() {
    let name = "small-zstd.arrow";
    let mut data = made(name);
    // The decompressed size of a buffer is before it.
    let at = position(&data, 0, b"\x28\xb5\x2f\xfd") - 8;
    data[at..at + 8].copy_from_slice(&(1_i64 << 50).to_le_bytes());
    assert_eq!(
        folder(name, "", &data).select("select * from t"),
        "LimitReached: t/small-zstd.arrow: batch 1: the batch has more than 4294967296 bytes; write \
         batches of fewer rows"
    );

    // A schema of 100,000 groups within each other: name, one child.
    let mut metadata = vec![0x15, 2, 0x19, 0xfc];
    let mut count = 100_001_u32;
    while count > 0x7f {
        metadata.push(count as u8 | 0x80);
        count >>= 7;
    }
    metadata.push(count as u8);
    for _ in 0..100_000 {
        metadata.extend([0x48, 1, b'g', 0x15, 2, 0]);
    }
    metadata.extend([0x15, 2, 0x25, 2, 0x18, 1, b'a', 0]);
    metadata.extend([0x16, 0, 0x19, 0x0c, 0]);
    let mut data = b"PAR1".to_vec();
    data.extend(&metadata);
    data.extend((metadata.len() as u32).to_le_bytes());
    data.extend(b"PAR1");
    assert_eq!(
        folder("x.parquet", "", &data).select("select * from t"),
        "LimitReached: t/x.parquet: the schema has more than 64 levels"
    );
}

#[test]
fn other_files_are_refused() {
    for (name, data, expected) in [
        (
            "x.parquet",
            &b"a,b\n1,2\n"[..],
            "cannot be read as Parquet: it does not end as a Parquet file does",
        ),
        (
            "x.parquet",
            b"",
            "cannot be read as Parquet: it is not a Parquet file",
        ),
        (
            "x.parquet",
            b"\0\0\0\0\0\0\0\0PARE",
            "cannot be read as Parquet: it is encrypted",
        ),
        (
            "x.arrow",
            b"a,b\n1,2\n",
            "cannot be read as Arrow: it begins neither as a file nor as a stream of Arrow",
        ),
        (
            "x.arrow",
            b"",
            "cannot be read as Arrow: it begins neither as a file nor as a stream of Arrow",
        ),
        (
            "x.feather",
            b"FEA1\0\0\0\0",
            "cannot be read as Arrow: this is Feather of version 1",
        ),
    ] {
        let said = folder(name, "", data).select("select * from t");
        let expected = format!("t/{name}: {expected}");
        assert!(said.contains(&expected), "{said}");
    }
    let missing = folder("x.parquet", "", "");
    missing.remove("t/x.parquet");
    let said = missing.select("select * from t");
    assert!(
        said.starts_with("Environment: t/x.parquet: the data file of table \"t\" does not exist"),
        "{said}"
    );
}
