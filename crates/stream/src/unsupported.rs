//! Detects formats that are not supported, by name or content, and gives hints for alternatives.
//!
//! Without this, `-o events.parquet` would write JSON under that name, and all of a `.bz2` file
//! would be rejects. Names decide for outputs, the first bytes for inputs.

use std::fs::File;
use std::io::Seek;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::compression::Compression;

/// An unsupported format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsupported {
    /// Its common name.
    pub(crate) name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Compressed; the command decompresses it to standard output.
    Packed(&'static str),
    /// Text in another encoding, of this name for `iconv`.
    Encoded(&'static str),
    /// A format of records.
    Format,
}

/// Formats by suffix.
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
    ("msgpack", format("MessagePack")),
    ("cbor", format("CBOR")),
    ("bson", format("BSON")),
    ("pb", format("Protocol Buffers")),
];

const fn packed(name: &'static str, unpack: &'static str) -> Unsupported {
    let kind = Kind::Packed(unpack);
    Unsupported { name, kind }
}

const fn format(name: &'static str) -> Unsupported {
    let kind = Kind::Format;
    Unsupported { name, kind }
}

const fn encoded(name: &'static str, encoding: &'static str) -> Unsupported {
    let kind = Kind::Encoded(encoding);
    Unsupported { name, kind }
}

/// The number of first bytes that identify a format: two lines of a PDF.
const HEAD_SIZE: usize = 64;

/// The size of the end of a Parquet file, which is its magic, or of an ORC file, whose magic is
/// followed by one byte.
const TAIL_SIZE: u64 = 4;

/// The unsupported format that the name of an output stands for, if any.
pub(crate) fn of_name(path: &Path) -> Option<Unsupported> {
    let suffix = path.extension()?.to_str()?.to_ascii_lowercase();
    if Compression::of_path(path) != Compression::Plain {
        // A supported compression; check the name of the content.
        return of_name(path.file_stem()?.as_ref());
    }
    let found = BY_SUFFIX.iter().find(|(known, _)| *known == suffix);
    found.map(|(_, unsupported)| *unsupported)
}

/// The unsupported format of a file, by its first bytes, or by its name if these are inconclusive.
/// A file that cannot be read fails later, when it is read.
pub(crate) fn of_file(path: &Path, file: &File) -> Option<Unsupported> {
    // The magic of ORC is also a valid beginning of a line of text.
    const WITHOUT_MAGIC: [&str; 6] = ["tar", "lzma", "Brotli", "ORC", "MaxMind DB", "PDF"];
    let mut head = [0; HEAD_SIZE];
    // For standard input, another process may have read the beginning.
    let position = (&mut &*file).stream_position().ok()?;
    let size = file.read_at(&mut head, position).ok()?;
    let head = &head[..size];
    let found = of_head(head).or_else(|| of_tail(head, file));
    found.or_else(|| of_name(path).filter(|it| WITHOUT_MAGIC.contains(&it.name)))
}

/// Formats whose files begin and end with the same letters, which is rare for text.
fn of_tail(head: &[u8], file: &File) -> Option<Unsupported> {
    let size = file.metadata().ok()?.len();
    let mut tail = [0; TAIL_SIZE as usize];
    let start = size.checked_sub(TAIL_SIZE)?;
    file.read_exact_at(&mut tail, start).ok()?;
    match (head, tail) {
        ([b'P', b'A', b'R', b'1', ..], [b'P', b'A', b'R', b'1']) => Some(by_suffix("parquet")),
        // The last byte is the size of the part before the magic.
        ([b'O', b'R', b'C', ..], [b'O', b'R', b'C', size]) if !matches!(size, b'\n' | b'\r') => {
            Some(by_suffix("orc"))
        }
        _ => None,
    }
}

/// The format with this suffix, which must be in the table.
fn by_suffix(suffix: &str) -> Unsupported {
    let found = BY_SUFFIX.iter().find(|(known, _)| *known == suffix);
    found.expect("it is in the list").1
}

/// The format of content that begins with `head`, if it is unsupported. All of these begin with
/// bytes that no line of text begins with, or with more than a word.
pub(crate) fn of_head(head: &[u8]) -> Option<Unsupported> {
    Some(match head {
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
        // The header of the first page, whose first field is a number (parquet.thrift, PageHeader).
        [b'P', b'A', b'R', b'1', 0x15, ..] => by_suffix("parquet"),
        [_, _, _, _, _, _, _, _, b'D', b'U', b'C', b'K', _, 0, ..] => by_suffix("duckdb"),
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => encoded("UTF-32 text", "UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => encoded("UTF-16 text", "UTF-16"),
        // Without a byte-order mark, two ASCII characters show the encoding (RFC 4627, section 3).
        [1..=0x7f, 0, 0, 0, ..] => encoded("UTF-32 text", "UTF-32LE"),
        [0, 0, 0, 1..=0x7f, ..] => encoded("UTF-32 text", "UTF-32BE"),
        [1..=0x7f, 0, 1..=0x7f, 0, ..] => encoded("UTF-16 text", "UTF-16LE"),
        [0, 1..=0x7f, 0, 1..=0x7f, ..] => encoded("UTF-16 text", "UTF-16BE"),
        head if head.starts_with(b"SQLite format 3\0") => by_suffix("sqlite"),
        head if is_pdf(head) => by_suffix("pdf"),
        _ => return None,
    })
}

/// Whether these are the first two lines of a PDF. An event may begin as the first one, so the second
/// must be what the format recommends, a comment of four or more bytes from 128 on (ISO 32000-1,
/// 7.5.2), or begin an object.
fn is_pdf(head: &[u8]) -> bool {
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let Some(version) = head.strip_prefix(b"%PDF-") else {
        return false;
    };
    let ([digit, b'.', ..], Some(end)) = (version, version.iter().position(is_line_end)) else {
        return false;
    };
    let second = version[end..].trim_ascii_start();
    let is_object = || {
        let mut words = second.split(|byte| byte.is_ascii_whitespace() || *byte == b'<');
        let mut is_number = || {
            let word = words.next().unwrap_or_default();
            !word.is_empty() && word.iter().all(u8::is_ascii_digit)
        };
        is_number() && is_number() && words.next() == Some(&b"obj"[..])
    };
    let is_binary = matches!(second, [b'%', bytes @ ..]
        if bytes.len() >= 4 && bytes[..4].iter().all(|byte| *byte >= 0x80));
    digit.is_ascii_digit() && (is_binary || is_object())
}

impl Unsupported {
    /// A hint how to read events from such a file.
    pub(crate) fn read_instead(self, name: &str) -> String {
        let name = match name {
            "standard input" => "FILE",
            name => name,
        };
        match self.kind {
            Kind::Packed(unpack) => {
                format!("pipe it in with `{unpack} {name} |`, and name the input `-`")
            }
            Kind::Encoded(encoding) => format!(
                "pipe it in with `iconv -f {encoding} -t UTF-8 {name} |`, and name the input `-`"
            ),
            Kind::Format => "convert it to CSV or JSON lines first".to_owned(),
        }
    }

    /// A hint how to write events to such a file.
    pub(crate) fn write_instead(self) -> &'static str {
        match self.kind {
            Kind::Packed(_) => "use a name that ends in .gz or .zst, or compress standard output",
            Kind::Encoded(_) | Kind::Format => "write JSON lines or CSV, and convert the result",
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
            // A format option can produce them, such as `csv` with tabs.
            ("out.tsv", None),
            ("out.yml", None),
            ("out.db", Some("SQLite")),
            ("out.sqlite3", Some("SQLite")),
            ("out.msgpack.gz", Some("MessagePack")),
            ("out.json.GZ", None),
            ("out.json.Z", Some("compress (.Z)")),
            ("out.rar", Some("RAR")),
            ("out.sql.Zst", Some("SQL")),
            ("out.parquet.gz", Some("Parquet")),
            ("out.pb", Some("Protocol Buffers")),
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
        for (head, expected) in [
            (&b"BZh91AY&SY\0\0"[..], Some("bzip2")),
            (b"\xfd7zXZ\0\0", Some("xz")),
            (b"PK\x03\x04", Some("zip")),
            (b"\xff\xfe\0\0{\0", Some("UTF-32 text")),
            (b"\x1f\x9d\x90", Some("compress (.Z)")),
            (b"Rar!\x1a\x07\0", Some("RAR")),
            (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj", Some("PDF")),
            (b"%PDF-1.4\r%\xb5\xb5\xb5\xb5\r", Some("PDF")),
            (b"%PDF-1.3\r\n1 0 obj\r\n<<", Some("PDF")),
            (b"%PDF-1.3\n12 0 obj<</Type", Some("PDF")),
            (b"%PDF-1.4", None),
            (b"%PDF-1.4 was read\n", None),
            (b"%PDF-1.4 a=1\n% b=2\n", None),
            (b"%PDF-1.4\n%\xc3\xa4 is a letter\n", None),
            (b"%PDF-1.4\n1 0 objects\n", None),
            (b"PAR1\x15\x04\x15", Some("Parquet")),
            (b"12345678DUCK\x40\0\0\0", Some("DuckDB")),
            (b"\xff\xfe{\0", Some("UTF-16 text")),
            (b"{\0\"\0a\0", Some("UTF-16 text")),
            (b"\0{\0\"\0a", Some("UTF-16 text")),
            (b"{\0\0\0\"\0\0\0", Some("UTF-32 text")),
            (b"{\0\"", None),
            (b"a\0bc", None),
            (b"\0\0\0\0", None),
            (b"12345678DUCKS are", None),
            (b"SQLite format 3\0", Some("SQLite")),
            (b"BZhang wrote", None),
            (b"PAR1 is a word", None),
            (b"{\"a\":1}", None),
            (b"", None),
        ] {
            let found = of_head(head).map(|it| it.name);
            assert_eq!(found, expected, "{head:?}");
        }
    }
}
