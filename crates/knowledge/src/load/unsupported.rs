//! Detects data files of other formats, by their names and first bytes, with hints how to load
//! their rows.

use std::path::Path;

use encoding_rs::{Encoding, UTF_8};

use crate::config::URL_SCHEMES;

/// File formats by suffix, each with a hint.
const KNOWN: &[(&[&str], &str, &str)] = &[
    (
        &["mmdb"],
        "a MaxMind database",
        "write mmdb = \"…\" instead of data_file, and columns.by_path (docs/KNOWDB.md, MaxMind \
         databases)",
    ),
    (
        &[
            "bz2", "xz", "lzma", "lz4", "br", "z", "zip", "rar", "7z", "tar", "tgz",
        ],
        "compressed in an unsupported format",
        UNPACK,
    ),
    (
        &["json"],
        "JSON",
        "write one object a line into a file that ends in .jsonl, as with `jq -c '.[]'`",
    ),
    (&["db", "db3", "sqlite", "sqlite3"], "a database", SQLITE),
    (&["duckdb"], "a database", EXPORT),
    (
        &["avro", "orc", "xls", "xlsx", "ods", "pdf"],
        "not a text file",
        EXPORT,
    ),
];

const SQLITE: &str = "write sqlite = \"…\" instead of data_file, and sqlite_table if its table has another name \
                      (docs/KNOWDB.md, SQLite databases)";

/// The hint for other table formats.
const EXPORT: &str = "export its rows as CSV";

/// The hint for a file that is compressed in another way than its name suggests.
const UNPACK: &str = "decompress it; a file that ends in .gz or .zst is read as it is";

/// The hint for text whose encoding is not set in [`Config`](crate::Config).
const UTF_16: &str = "write its encoding in [csv], such as encoding = \"utf-16le\", or convert the file with `iconv \
                      -f UTF-16 -t UTF-8`";

/// The number of first bytes that identify a format: two lines of a PDF.
pub(super) const HEAD_SIZE: usize = 64;

/// The format and hint for a data file whose decompressed content begins with `head`, if it is not
/// text. All of these begin with bytes that no CSV file begins with, or with more than a column
/// name.
pub(super) fn problem_of_head(
    head: &[u8],
    encoding: &'static Encoding,
) -> Option<(&'static str, &'static str)> {
    Some(match head {
        [0x1f, 0x8b, ..] => (
            "gzip",
            "name it so that it ends in .gz (data_file = \"data.csv.gz\"), or decompress it",
        ),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => (
            "zstd",
            "name it so that it ends in .zst (data_file = \"data.csv.zst\"), or decompress it",
        ),
        [b'B', b'Z', b'h', _, b'1', b'A', b'Y', b'&', b'S', b'Y', ..] => ("bzip2", UNPACK),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => ("xz", UNPACK),
        [0x04, 0x22, 0x4d, 0x18, ..] => ("lz4", UNPACK),
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => ("7z", UNPACK),
        [b'P', b'K', 3, 4, ..] => (
            "zip, as files of Excel and OpenDocument are",
            "unpack it, or export the sheet as CSV",
        ),
        // Excel files until 2003, which are compound files ([MS-CFB], section 2.2).
        [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1, ..] => {
            ("Excel (.xls)", "export the sheet as CSV")
        }
        // The header of the first page, whose first field is a number (parquet.thrift, PageHeader).
        [b'P', b'A', b'R', b'1', 0x15, ..] => ("Parquet", "name it so that it ends in .parquet"),
        [b'O', b'b', b'j', 1, ..] => ("Avro", EXPORT),
        [b'A', b'R', b'R', b'O', b'W', b'1', 0, ..] => {
            ("Arrow", "name it so that it ends in .arrow")
        }
        [_, _, _, _, _, _, _, _, b'D', b'U', b'C', b'K', _, 0, ..] => ("DuckDB", EXPORT),
        head if head.starts_with(b"SQLite format 3\0") => ("SQLite", SQLITE),
        head if is_pdf(head) => ("PDF", EXPORT),
        // With a byte-order mark, or two ASCII characters that show it (RFC 4627, section 3).
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] if encoding == UTF_8 => ("UTF-16 text", UTF_16),
        [1..=0x7f, 0, 1..=0x7f, 0, ..] | [0, 1..=0x7f, 0, 1..=0x7f, ..] if encoding == UTF_8 => {
            ("UTF-16 text", UTF_16)
        }
        _ => return None,
    })
}

/// Whether `head` is the first line of a PDF, followed by a comment of bytes above 127 (ISO
/// 32000-1, 7.5.2).
fn is_pdf(head: &[u8]) -> bool {
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let Some(version) = head.strip_prefix(b"%PDF-") else {
        return false;
    };
    let end = version.iter().position(is_line_end);
    let second = version[end.unwrap_or(version.len())..].trim_ascii_start();
    matches!(second, [b'%', bytes @ ..]
        if bytes.len() >= 4 && bytes[..4].iter().all(|byte| *byte >= 0x80))
}

/// The format and hint for a data file with this name, if it is not CSV.
pub(super) fn problem(path: &Path) -> Option<(&'static str, &'static str)> {
    let text = path.to_string_lossy();
    if text.contains("://") && !URL_SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
        return Some((
            "a URL",
            "download the file, or use its address with http:// or https://; to query the tables of a database in place, configure a \
             [[provider.sqldb]] (docs/KNOWDB.md, Providers)",
        ));
    }
    let suffix = path.extension()?.to_str()?.to_ascii_lowercase();
    if matches!(&*suffix, "gz" | "zst") {
        // A supported compression; check the name of the content.
        return problem(path.file_stem()?.as_ref());
    }
    let found = KNOWN
        .iter()
        .find(|(suffixes, ..)| suffixes.contains(&&*suffix));
    found.map(|(_, what, instead)| (*what, *instead))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_13_other_files_than_csv_are_told_by_their_names() {
        for (name, expected) in [
            ("GeoLite2-City.mmdb", Some("a MaxMind database")),
            (
                "a/data.csv.bz2",
                Some("compressed in an unsupported format"),
            ),
            ("data.JSONL", None),
            ("data.json.gz", Some("JSON")),
            ("shop.db", Some("a database")),
            ("t/https://example.com/data.csv", Some("a URL")),
            ("data.csv", None),
            ("data.csv.GZ", None),
            ("data.tsv", None),
            ("data", None),
            ("mmdb", None),
        ] {
            let found = problem(Path::new(name)).map(|(what, _)| what);
            assert_eq!(found, expected, "{name}");
        }
    }
}
