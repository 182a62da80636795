//! Data files that are not CSV, by their names, and how their rows become a table all the same.

use std::path::Path;

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
        "unpack it; a file that ends in .gz or .zst is read as it is",
    ),
    (
        &["json", "jsonl", "ndjson"],
        "JSON",
        "write it as CSV, as with `jq -r '[.name, .rack] | @csv'`",
    ),
    (
        &["db", "db3", "sqlite", "sqlite3", "duckdb"],
        "a database",
        "export the table as CSV, as with `sqlite3 -header -csv FILE 'select * from t'`",
    ),
    (
        &[
            "parquet", "avro", "orc", "arrow", "feather", "xls", "xlsx", "ods", "pdf",
        ],
        "not a text file",
        "export its rows as CSV",
    ),
];

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
