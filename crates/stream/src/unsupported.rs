//! What is not read or written here though its name or its content says so, and the way around it.
//!
//! Without this, `-o events.parquet` would be a file of JSON under that name, and a `.bz2` a file of
//! rejects. Names decide for outputs, the first bytes for inputs.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::compression::Compression;

/// Something that others read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsupported {
    /// What people call it.
    pub(crate) name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Packed by a program that also unpacks to standard output when it is called so.
    Packed(&'static str),
    /// Text in another encoding, of this name for `iconv`.
    Encoded(&'static str),
    /// A format of records.
    Format,
}

/// By the end of a name.
const BY_SUFFIX: &[(&str, Unsupported)] = &[
    ("bz2", packed("bzip2", "bzip2 -dc")),
    ("xz", packed("xz", "xz -dc")),
    ("lzma", packed("lzma", "xz -dc")),
    ("lz4", packed("lz4", "lz4 -dc")),
    ("br", packed("Brotli", "brotli -dc")),
    ("z", packed("compress (.Z)", "gzip -dc")),
    ("lz", packed("lzip", "lzip -dc")),
    ("rar", packed("RAR", "unrar p -inul")),
    ("zip", packed("zip", "unzip -p")),
    ("7z", packed("7z", "7z x -so")),
    ("tar", packed("tar", "tar -xOf")),
    ("tgz", packed("tar", "tar -xOzf")),
    ("parquet", format("Parquet")),
    ("avro", format("Avro")),
    ("orc", format("ORC")),
    ("arrow", format("Arrow")),
    ("feather", format("Arrow")),
    ("xls", format("Excel")),
    ("xlsx", format("Excel")),
    ("ods", format("OpenDocument")),
    ("db", format("SQLite")),
    ("db3", format("SQLite")),
    ("sqlite", format("SQLite")),
    ("sqlite3", format("SQLite")),
    ("duckdb", format("DuckDB")),
    ("mmdb", format("MaxMind DB")),
    ("pdf", format("PDF")),
    ("sql", format("SQL")),
    ("tsv", format("tab-separated values")),
    ("xml", format("XML")),
    ("yaml", format("YAML")),
    ("yml", format("YAML")),
    ("msgpack", format("MessagePack")),
    ("cbor", format("CBOR")),
    ("bson", format("BSON")),
];

const fn packed(name: &'static str, unpack: &'static str) -> Unsupported {
    let kind = Kind::Packed(unpack);
    Unsupported { name, kind }
}

const fn format(name: &'static str) -> Unsupported {
    let kind = Kind::Format;
    Unsupported { name, kind }
}

/// Text of two bytes a character, with its mark of byte order.
const UTF_16: Unsupported = Unsupported {
    name: "UTF-16 text",
    kind: Kind::Encoded("UTF-16"),
};

/// Enough to tell them apart.
const MAGIC_SIZE: usize = 16;

/// Text of four bytes a character.
const UTF_32: Unsupported = Unsupported {
    name: "UTF-32 text",
    kind: Kind::Encoded("UTF-32"),
};

/// The end of a file of Parquet, which is its name, or of ORC, whose name has one byte behind it.
const TAIL_SIZE: u64 = 4;

/// What an output of that name would have to be.
pub(crate) fn of_name(path: &Path) -> Option<Unsupported> {
    let suffix = path.extension()?.to_str()?.to_ascii_lowercase();
    if Compression::of_path(path) != Compression::Plain {
        // Packed as we do it, but what is inside?
        return of_name(path.file_stem()?.as_ref());
    }
    let found = BY_SUFFIX.iter().find(|(known, _)| *known == suffix);
    found.map(|(_, unsupported)| *unsupported)
}

/// What a file is by its first bytes, or by its name where these say nothing. One that cannot be read
/// says so when it is its turn.
pub(crate) fn of_file(path: &Path, file: &File) -> Option<Unsupported> {
    // The letters that begin a file of ORC begin lines of text as well.
    const WITHOUT_MAGIC: [&str; 5] = ["tar", "lzma", "Brotli", "ORC", "MaxMind DB"];
    let mut magic = [0; MAGIC_SIZE];
    let size = file.read_at(&mut magic, 0).ok()?;
    let found = of_magic(&magic[..size]).or_else(|| of_tail(&magic[..size], file));
    found.or_else(|| of_name(path).filter(|it| WITHOUT_MAGIC.contains(&it.name)))
}

/// Formats whose files begin with letters and also end with them, as text seldom does.
fn of_tail(magic: &[u8], file: &File) -> Option<Unsupported> {
    let size = file.metadata().ok()?.len();
    let mut tail = [0; TAIL_SIZE as usize];
    let start = size.checked_sub(TAIL_SIZE)?;
    file.read_exact_at(&mut tail, start).ok()?;
    match (magic, tail) {
        ([b'P', b'A', b'R', b'1', ..], [b'P', b'A', b'R', b'1']) => Some(by_suffix("parquet")),
        // The last byte is the size of what is before the name.
        ([b'O', b'R', b'C', ..], [b'O', b'R', b'C', size]) if !matches!(size, b'\n' | b'\r') => {
            Some(by_suffix("orc"))
        }
        _ => None,
    }
}

/// One of those that are there.
fn by_suffix(suffix: &str) -> Unsupported {
    let found = BY_SUFFIX.iter().find(|(known, _)| *known == suffix);
    found.expect("it is in the list").1
}

/// All of these begin with bytes that no line of text does, or with more than a word.
fn of_magic(magic: &[u8]) -> Option<Unsupported> {
    Some(match magic {
        [b'B', b'Z', b'h', _, b'1', b'A', b'Y', b'&', b'S', b'Y', ..] => by_suffix("bz2"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => by_suffix("xz"),
        [0x04, 0x22, 0x4d, 0x18, ..] => by_suffix("lz4"),
        [b'P', b'K', 3, 4, ..] => by_suffix("zip"),
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => by_suffix("7z"),
        [b'O', b'b', b'j', 1, ..] => by_suffix("avro"),
        [b'A', b'R', b'R', b'O', b'W', b'1', 0, ..] => by_suffix("arrow"),
        [0x1f, 0x9d, ..] => by_suffix("z"),
        [b'L', b'Z', b'I', b'P', 1, ..] => by_suffix("lz"),
        [b'R', b'a', b'r', b'!', 0x1a, 7, ..] => by_suffix("rar"),
        [b'%', b'P', b'D', b'F', b'-', digit, b'.', ..] if digit.is_ascii_digit() => {
            by_suffix("pdf")
        }
        [_, _, _, _, _, _, _, _, b'D', b'U', b'C', b'K', _, 0, ..] => by_suffix("duckdb"),
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => UTF_32,
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => UTF_16,
        magic if magic.starts_with(b"SQLite format 3\0") => by_suffix("sqlite"),
        _ => return None,
    })
}

impl Unsupported {
    /// How events in such a file are read all the same.
    pub(crate) fn read_instead(self, name: &str) -> String {
        let name = match name {
            "standard input" => "FILE",
            name => name,
        };
        match self.kind {
            Kind::Packed(unpack) => {
                format!("unpack it on the way, with `{unpack} {name} |`, and name the input `-`")
            }
            Kind::Encoded(encoding) => format!(
                "convert it on the way, with `iconv -f {encoding} -t UTF-8 {name} |`, and name the input `-`"
            ),
            Kind::Format => "convert it to CSV or JSON lines first".to_owned(),
        }
    }

    /// How events get into such a file all the same.
    pub(crate) fn write_instead(self) -> &'static str {
        match self.kind {
            Kind::Packed(_) => {
                "name a file that ends in .gz or .zst, or write to standard output and pack there"
            }
            Kind::Encoded(_) | Kind::Format => "write JSON lines or CSV, and convert that",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_13_names_say_what_is_not_written() {
        for (name, expected) in [
            ("out.parquet", Some("Parquet")),
            ("out.PARQUET", Some("Parquet")),
            ("a.b/out.json.bz2", Some("bzip2")),
            ("out.xlsx.gz", Some("Excel")),
            ("out.tar.gz", Some("tar")),
            ("out.json.gz", None),
            ("out.csv.zst", None),
            ("out.yml", Some("YAML")),
            ("out.db", Some("SQLite")),
            ("out.sqlite3", Some("SQLite")),
            ("out.msgpack.gz", Some("MessagePack")),
            ("out.json.GZ", None),
            ("out.json.Z", Some("compress (.Z)")),
            ("out.rar", Some("RAR")),
            ("out.sql.Zst", Some("SQL")),
            ("out.log", None),
            ("parquet", None),
            (".parquet", None),
            ("out.parquet.bak", None),
        ] {
            let found = of_name(Path::new(name)).map(|it| it.name);
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn issue_13_first_bytes_say_what_is_not_read() {
        for (magic, expected) in [
            (&b"BZh91AY&SY\0\0"[..], Some("bzip2")),
            (b"\xfd7zXZ\0\0", Some("xz")),
            (b"PK\x03\x04", Some("zip")),
            (b"\xff\xfe\0\0{\0", Some("UTF-32 text")),
            (b"\x1f\x9d\x90", Some("compress (.Z)")),
            (b"Rar!\x1a\x07\0", Some("RAR")),
            (b"%PDF-1.7\n", Some("PDF")),
            (b"12345678DUCK\x40\0\0\0", Some("DuckDB")),
            (b"\xff\xfe{\0", Some("UTF-16 text")),
            (b"12345678DUCKS are", None),
            (b"SQLite format 3\0", Some("SQLite")),
            (b"BZhang wrote", None),
            (b"PAR1 is a word", None),
            (b"{\"a\":1}", None),
            (b"", None),
        ] {
            let found = of_magic(magic).map(|it| it.name);
            assert_eq!(found, expected, "{magic:?}");
        }
    }
}
