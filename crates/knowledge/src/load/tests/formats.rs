//! Data files whose first bytes show that they are not CSV.

use super::*;

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn are_refused_with_their_format_and_the_way_out() {
    let refused = |what: &str, instead: &str| {
        format!(
            "Data: t/data.csv: this is {what}, but table \"t\" must be CSV or JSON lines; {instead}"
        )
    };
    let csv = b"a,b\n1,2\n";
    for (data, what, instead) in [
        (
            gzip(csv),
            "gzip",
            "name it so that it ends in .gz (data_file = \"data.csv.gz\"), or decompress it",
        ),
        (
            zstd::encode_all(&csv[..], 1).unwrap(),
            "zstd",
            "name it so that it ends in .zst (data_file = \"data.csv.zst\"), or decompress it",
        ),
        (
            b"PK\x03\x04\x14\0".to_vec(),
            "zip, as files of Excel and OpenDocument are",
            "unpack it, or export the sheet as CSV",
        ),
        (
            b"PAR1\x15\x04\x15".to_vec(),
            "Parquet",
            "name it so that it ends in .parquet",
        ),
        (
            b"SQLite format 3\0\x10\0".to_vec(),
            "SQLite",
            "write sqlite = \"…\" instead of data_file, and sqlite_table if its table has another name \
             (docs/KNOWDB.md, SQLite databases)",
        ),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec(),
            "Excel (.xls)",
            "export the sheet as CSV",
        ),
        (
            b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec(),
            "PDF",
            "export its rows as CSV",
        ),
    ] {
        check(TABLE, &data, &refused(what, instead));
    }
    for text in [
        &b"\xff\xfea\0,\0b\0\n\0"[..],
        b"a\0,\0b\0\n\0",
        b"\0a\0,\0b\0\n",
    ] {
        let instead = "write its encoding in [csv], such as encoding = \"utf-16le\", or convert \
                       the file with `iconv -f UTF-16 -t UTF-8`";
        check(TABLE, text, &refused("UTF-16 text", instead));
    }
}

#[test]
fn packed_files_are_looked_into() {
    let folder = Folder::new(&format!("{TABLE}data_file = 'data.csv.gz'\n"), "");
    folder.write("t/data.csv.gz", gzip(b"%PDF-1.7\r%\xe2\xe3\xcf\xd3\r"));
    let said = folder.select("select a from t");
    assert!(
        said.starts_with("Data: t/data.csv.gz: this is PDF, but"),
        "{said}"
    );
    folder.write("t/data.csv.gz", gzip(b"a,b\n1,2\n"));
    assert_eq!(folder.select("select a, b from t"), r#""1","2""#);
}

#[test]
fn csv_that_begins_nearly_so_is_read() {
    let utf_16 = format!("[csv]\nencoding = 'utf-16le'\n{TABLE}");
    check(
        &utf_16,
        b"\xff\xfea\0,\0b\0\n\x001\0,\x002\0\n\0",
        r#""1","2""#,
    );
    check(&utf_16, b"a\0,\0b\0\n\x001\0,\x002\0\n\0", r#""1","2""#);
    let columns = "[csv]\nhas_header = false\n[[tables]]\nname = 't'\n";
    for (text, expected) in [
        ("%PDF-1.4,x\n%a,b\n", r#""%PDF-1.4","x" "%a","b""#),
        ("PAR1,PK\n", r#""PAR1","PK""#),
        ("BZh91,AY\n", r#""BZh91","AY""#),
    ] {
        check(columns, text, expected);
    }
}

#[cfg(not(feature = "http"))]
#[test]
fn addresses_need_the_feature_of_the_build() {
    let folder = Folder::new(
        &format!("{TABLE}data_file = 'http://127.0.0.1:1/x.csv'\n"),
        "",
    );
    assert_eq!(
        folder.select("select a from t"),
        "Unavailable: http://127.0.0.1:1/x.csv: this program was built without HTTP for data files; \
         build it with the feature http, and there is no earlier copy; correct the address or \
         tables.http, or try again"
    );
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_and_arrow_need_the_feature_of_the_build() {
    for name in ["x.parquet", "x.arrow", "x.arrows.gz", "x.feather", "x.ipc"] {
        let folder = Folder::new(&format!("{TABLE}data_file = '{name}'\n"), "");
        folder.write(&format!("t/{name}"), "");
        assert_eq!(
            folder.select("select a from t"),
            format!(
                "Config: t/{name}: this program was built without Parquet and Arrow files; build it with \
                 the feature parquet, or export the rows of table \"t\" as CSV"
            )
        );
    }
}
