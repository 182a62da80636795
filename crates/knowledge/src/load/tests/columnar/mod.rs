//! Tables of Parquet and Arrow files: `tests/data/columnar`, which `scripts/make-columnar` has made by
//! pyarrow, and files that are written here.

mod damaged;
mod differential;
mod types;

use std::path::Path;

use super::*;

/// A file of pyarrow.
fn made(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/columnar");
    fs::read(folder.join(name)).unwrap()
}

/// A folder with a table of one file whose SQL is derived.
fn folder(name: &str, config: &str, data: impl AsRef<[u8]>) -> Folder {
    let folder = Folder(tempfile::tempdir().unwrap());
    let table = format!("version = 2\n[[tables]]\nname = 't'\ndata_file = '{name}'\n{config}");
    folder.write("knowdb.toml", table);
    folder.write(&format!("t/{name}"), data);
    folder
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

const SMALL: &str = r#"1,"one" 2,"two" 3,NULL"#;

#[test]
fn files_of_other_makers_are_read() {
    for name in [
        "small-none.parquet",
        "small-snappy.parquet",
        "small-gzip.parquet",
        "small-zstd.parquet",
        "small-lz4.parquet",
        "small-lz4.arrow",
        "small-zstd.arrow",
        "small.feather",
        "small.arrows",
        "empty-groups.parquet",
    ] {
        let said = folder(name, "", made(name)).select("select * from t");
        assert_eq!(said, SMALL, "{name}");
    }
    let none = folder("no-rows.parquet", "", made("no-rows.parquet"));
    assert_eq!(none.select("select count(*), count(name) from t"), "0,0");
    let name = "small-brotli.parquet";
    let said = folder(name, "", made(name)).select("select * from t");
    assert_eq!(
        said,
        "Data: t/small-brotli.parquet: row group 1, column \"id\": cannot be read as Parquet: its \
         compression is Brotli, which is not supported, but Snappy, gzip, zstd and LZ4 are; write or \
         copy the file again"
    );
}

#[test]
fn compressed_files_and_other_suffixes_are_read() {
    for (name, source) in [
        ("x.parquet.gz", "small-none.parquet"),
        ("x.ipc.gz", "small.feather"),
        ("x.arrows.gz", "small.arrows"),
        // A stream with the name of a file, and the reverse.
        ("x.arrow", "small.arrows"),
        ("x.arrows", "small.feather"),
        ("x.PARQUET", "small-none.parquet"),
    ] {
        let packed = name.ends_with(".gz");
        let data = if packed {
            gzip(&made(source))
        } else {
            made(source)
        };
        let said = folder(name, "", data).select("select * from t");
        assert_eq!(said, SMALL, "{name}");
    }
    let data = zstd::encode_all(&made("small-zstd.parquet")[..], 1).unwrap();
    let said = folder("x.parquet.zst", "", data).select("select * from t");
    assert_eq!(said, SMALL);
    // The end of the compression is missing.
    let mut data = gzip(&made("small-none.parquet"));
    data.truncate(data.len() - 9);
    let said = folder("x.parquet.gz", "", data).select("select * from t");
    assert!(
        said.starts_with("Data: t/x.parquet.gz: cannot be read to its end"),
        "{said}"
    );
}

#[test]
fn the_rows_of_several_files_are_one_table() {
    let folder = folder("*.parquet", "", "");
    folder.remove("t/*.parquet");
    for name in ["small-none.parquet", "small-zstd.parquet"] {
        folder.write(&format!("t/{name}"), made(name));
    }
    assert_eq!(folder.select("select * from t"), format!("{SMALL} {SMALL}"));
    folder.write("t/types.parquet", made("types.parquet"));
    let said = folder.select("select * from t");
    assert!(
        said.contains("t/types.parquet: the columns are: bool, int8,")
            && said.contains("must have the same ones"),
        "{said}"
    );
    // They only need the columns of the table.
    folder.write(
        "knowdb.toml",
        "version = 2\n[[tables]]\nname = 't'\ndata_file = '*.parquet'\ncolumns.by_header = ['id']\n",
    );
    folder.remove("t/types.parquet");
    folder.write("t/other.parquet", written(&[("more", 7), ("id", 9)]));
    assert_eq!(folder.select("select * from t"), "9 1 2 3 1 2 3");
}

/// A Parquet file with a row of integers.
fn written(columns: &[(&str, i64)]) -> Vec<u8> {
    let columns = columns.iter().map(|(name, value)| {
        let array = arrow_array::Int64Array::from(vec![*value]);
        (*name, std::sync::Arc::new(array) as arrow_array::ArrayRef)
    });
    let batch = arrow_array::RecordBatch::try_from_iter(columns).unwrap();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn columns_are_found_by_name_and_path() {
    let types = made("types.arrow");
    for (columns, expected) in [
        (
            "columns.by_header = ['struct.name', 'int8', 'list.2', 'map.one', 'struct.tags.1']",
            r#""ann",1,3,1,"y" NULL,-128,NULL,NULL,NULL NULL,NULL,NULL,NULL,NULL"#,
        ),
        (
            "columns.by_path = { day = 'map_of_ints.7', who = ['struct', 'name'], id = 'int8' }",
            r#""2026-03-01","ann",1 NULL,NULL,-128 NULL,NULL,NULL"#,
        ),
    ] {
        let said = folder("x.arrow", columns, &types).select("select * from t");
        assert_eq!(said, expected, "{columns}");
    }
    for (columns, expected) in [
        (
            "columns.by_header = ['id']",
            "Data: t/x.arrow: there is no \"id\" of column \"id\", which table \"t\" requires; there \
             are: bool, int8, ",
        ),
        (
            "columns.by_header = ['struct.names']",
            "Data: t/x.arrow: there is no \"names\" of column \"struct.names\", which table \"t\" \
             requires; there are: name, tags, raw",
        ),
        (
            "columns.by_header = ['int8.x']",
            "Data: t/x.arrow: there is no \"x\" of column \"int8.x\", which table \"t\" requires; \
             nothing is below that column",
        ),
        (
            "columns.by_header = ['list.first']",
            "Data: t/x.arrow: there is no \"first\" of column \"list.first\", which table \"t\" \
             requires; nothing is below that column",
        ),
    ] {
        let said = folder("x.arrow", columns, &types).select("select * from t");
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn keys_of_the_configuration_are_checked() {
    for (config, expected) in [
        (
            "columns.by_index = [0]",
            "columns.by_index does not apply to Parquet; use by_header or by_path",
        ),
        (
            "columns.by_header = ['a..b']",
            "columns.by_header has \"a..b\", which is not a path of keys such as \"owner.name\"; use by_path for a \
             key with a dot or without a name",
        ),
        (
            "csv.trim = false",
            "tables.csv does not apply, as the rows are not CSV; remove it",
        ),
    ] {
        let said = folder("x.parquet", config, "").select("select 1");
        assert!(said.ends_with(expected), "{said}");
    }
}

#[test]
fn own_sql_gets_typed_values() {
    let name = "small-none.parquet";
    let folder = folder(name, "columns.by_header = ['name', 'id']\n", made(name));
    folder.write("t/create.sql", "create table {table} (x, y)");
    folder.write(
        "t/insert.sql",
        "insert into {table} values (typeof(?1), ?2 + 1)",
    );
    assert_eq!(
        folder.select("select x, y from t"),
        "\"text\",2 \"text\",3 \"null\",4"
    );
}

#[test]
fn wide_files_and_repeated_names_are_refused() {
    let names: Vec<String> = (0..2001).map(|index| format!("c{index}")).collect();
    let columns: Vec<(&str, i64)> = names.iter().map(|name| (&**name, 1)).collect();
    let data = written(&columns);
    assert_eq!(
        folder("x.parquet", "", &data).select("select 1"),
        "LimitReached: t/x.parquet: the file has more than 2000 columns; name those of the table in \
         columns.by_header"
    );
    let config = "columns.by_header = ['c2000', 'c7']\n";
    assert_eq!(
        folder("x.parquet", config, &data).select("select * from t"),
        "1,1"
    );
    let batch = |names: [&str; 2]| {
        let fields =
            names.map(|name| arrow_schema::Field::new(name, arrow_schema::DataType::Int64, false));
        let schema = std::sync::Arc::new(arrow_schema::Schema::new(fields.to_vec()));
        let mut writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &schema).unwrap();
        writer.finish().unwrap();
        writer.into_inner().unwrap()
    };
    assert_eq!(
        folder("x.arrow", "", batch(["a", "a"])).select("select 1"),
        "Data: t/x.arrow: several columns have the name \"a\"; write the file with different names"
    );
    assert_eq!(
        folder("x.arrow", "", batch(["a", "A"])).select("select 1"),
        "Data: t/x.arrow: two columns have the name \"A\", regardless of letter case; give each a \
         name in columns.by_path"
    );
}
