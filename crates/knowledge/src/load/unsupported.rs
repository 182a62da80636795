//! Data files that are not CSV, by their names and by their first bytes, and how their rows become a
//! table all the same.

use std::path::Path;

use encoding_rs::{Encoding, UTF_8};

/// What a file is by the end of its name, and what to do with it.
const KNOWN: &[(&[&str], &str, &str)] = &[
    (
        &["mmdb"],
        "a MaxMind database",
        "take its CSV edition, or export it once, as with `mmdbctl export --format csv`, and look addresses \
         up with cidr_key_min and cidr_key_max (docs/KNOWDB.md, Functions)",
    ),
    (
        &[
            "bz2", "xz", "lzma", "lz4", "br", "z", "zip", "rar", "7z", "tar", "tgz",
        ],
        "packed in a way that is not read",
        UNPACK,
    ),
    (
        &["json", "jsonl", "ndjson"],
        "JSON",
        "write it as CSV, as with `jq -r '[.name, .rack] | @csv'`",
    ),
    (
        &["db", "db3", "sqlite", "sqlite3", "duckdb"],
        "a database",
        EXPORT_OF_SQLITE,
    ),
    (
        &[
            "parquet", "avro", "orc", "arrow", "feather", "xls", "xlsx", "ods", "pdf",
        ],
        "not a text file",
        EXPORT,
    ),
];

const EXPORT_OF_SQLITE: &str =
    "export the table as CSV, as with `sqlite3 -header -csv FILE 'select * from t'`";

/// How the rows of other formats become CSV.
const EXPORT: &str = "export its rows as CSV";

/// What to do with a file that is packed in another way than its name says.
const UNPACK: &str = "unpack it; a file that ends in .gz or .zst is read as it is";

/// What to do with text that [`Config`](crate::Config) does not say the encoding of.
const UTF_16: &str = "write its encoding in [csv], such as encoding = \"utf-16le\", or convert the file with `iconv \
                      -f UTF-16 -t UTF-8`";

/// How many first bytes of a data file say what it is: two lines of a PDF.
pub(super) const HEAD_SIZE: usize = 64;

/// What is wrong with a data file whose unpacked content begins so: what it is, and the way out. All
/// of these begin with bytes that no CSV does, or with more than a name of a column.
pub(super) fn problem_of_head(
    head: &[u8],
    encoding: &'static Encoding,
) -> Option<(&'static str, &'static str)> {
    Some(match head {
        [0x1f, 0x8b, ..] => (
            "gzip",
            "name it so that it ends in .gz (data_file = \"data.csv.gz\"), or unpack it",
        ),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => (
            "zstd",
            "name it so that it ends in .zst (data_file = \"data.csv.zst\"), or unpack it",
        ),
        [b'B', b'Z', b'h', _, b'1', b'A', b'Y', b'&', b'S', b'Y', ..] => ("bzip2", UNPACK),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => ("xz", UNPACK),
        [0x04, 0x22, 0x4d, 0x18, ..] => ("lz4", UNPACK),
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => ("7z", UNPACK),
        [b'P', b'K', 3, 4, ..] => (
            "zip, as files of Excel and OpenDocument are",
            "unpack it, or export the sheet as CSV",
        ),
        // Files of Excel until 2003, a compound file ([MS-CFB], section 2.2).
        [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1, ..] => {
            ("Excel (.xls)", "export the sheet as CSV")
        }
        // The header of the first page, whose first field is a number (parquet.thrift, PageHeader).
        [b'P', b'A', b'R', b'1', 0x15, ..] => ("Parquet", EXPORT),
        [b'O', b'b', b'j', 1, ..] => ("Avro", EXPORT),
        [b'A', b'R', b'R', b'O', b'W', b'1', 0, ..] => ("Arrow", EXPORT),
        [_, _, _, _, _, _, _, _, b'D', b'U', b'C', b'K', _, 0, ..] => ("DuckDB", EXPORT),
        head if head.starts_with(b"SQLite format 3\0") => ("SQLite", EXPORT_OF_SQLITE),
        head if is_pdf(head) => ("PDF", EXPORT),
        // With a byte-order mark, or two ASCII characters that show it (RFC 4627, section 3).
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] if encoding == UTF_8 => ("UTF-16 text", UTF_16),
        [1..=0x7f, 0, 1..=0x7f, 0, ..] | [0, 1..=0x7f, 0, 1..=0x7f, ..] if encoding == UTF_8 => {
            ("UTF-16 text", UTF_16)
        }
        _ => return None,
    })
}

/// Whether this is the first line of a PDF and the comment of bytes from 128 on that follows it (ISO
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

/// What is wrong with a data file of that name: what it is, and the way out.
pub(super) fn problem(path: &Path) -> Option<(&'static str, &'static str)> {
    if path.to_string_lossy().contains("://") {
        return Some((
            "a URL",
            "download the file; tables of a database are asked where they are, by a \
             [[provider.sqldb]] (docs/KNOWDB.md, Providers)",
        ));
    }
    let suffix = path.extension()?.to_str()?.to_ascii_lowercase();
    if matches!(&*suffix, "gz" | "zst") {
        // Packed as we read it, but what is inside?
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
            ("a/data.csv.bz2", Some("packed in a way that is not read")),
            ("data.JSONL", Some("JSON")),
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
