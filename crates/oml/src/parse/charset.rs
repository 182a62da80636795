//! The names of encodings for `base64_decode`.

use encoding_rs::Encoding;

use crate::ast::Charset;

/// Names that the Encoding Standard does not have, and the label of the same encoding in it.
const FOREIGN: [(&str, &str); 12] = [
    ("utf16le", "utf-16le"),
    ("utf16be", "utf-16be"),
    ("big52003", "big5"),
    ("eucjp", "euc-jp"),
    ("windows31j", "shift_jis"),
    ("shiftjis", "shift_jis"),
    ("iso2022jp", "iso-2022-jp"),
    ("koi8r", "koi8-r"),
    ("koi8u", "koi8-u"),
    ("windows949", "euc-kr"),
    ("maccyrillic", "x-mac-cyrillic"),
    ("macroman", "macintosh"),
];

/// The names to suggest if one is unknown.
pub(super) const NAMES: [&str; 12] = [
    "Utf8",
    "Utf16le",
    "Utf16be",
    "Gbk",
    "Gb18030",
    "Big5",
    "EucJp",
    "Windows31j",
    "Koi8R",
    "Windows1252",
    "Iso88591",
    "Imap",
];

/// The charset with this name, ignoring letter case and dashes.
pub(super) fn charset(name: &str) -> Option<Charset> {
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, '-' | '_'))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let label = match &*plain {
        // HZ is decoded as by the original: its escapes stay visible.
        "utf8" | "ascii" | "hz" => return Some(Charset::Utf8),
        "imap" => return Some(Charset::Imap),
        plain => match FOREIGN.iter().find(|(foreign, _)| *foreign == plain) {
            Some((_, label)) => (*label).to_owned(),
            None => standard_label(plain),
        },
    };
    let encoding = Encoding::for_label_no_replacement(label.as_bytes())?;
    Some(Charset::Standard(encoding))
}

/// The dashes of `windows1252` and `iso88592` are at other positions.
fn standard_label(plain: &str) -> String {
    if let Some(number) = plain.strip_prefix("windows") {
        return format!("windows-{number}");
    }
    match plain.strip_prefix("iso8859") {
        Some(number) => format!("iso-8859-{number}"),
        None => plain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_charsets() {
        for (name, expected) in [
            ("Utf8", "Utf8"),
            ("utf-8", "Utf8"),
            ("Imap", "Imap"),
            ("Utf16le", "UTF-16LE"),
            ("Gbk", "GBK"),
            ("Gb18030", "gb18030"),
            ("Big52003", "Big5"),
            ("EucJp", "EUC-JP"),
            ("Windows31j", "Shift_JIS"),
            ("Iso2022Jp", "ISO-2022-JP"),
            ("Koi8R", "KOI8-R"),
            ("Windows1257", "windows-1257"),
            ("Windows874", "windows-874"),
            ("Windows949", "EUC-KR"),
            ("Iso885915", "ISO-8859-15"),
            ("ISO_8859_2", "ISO-8859-2"),
            ("MacCyrillic", "x-mac-cyrillic"),
            ("Hz", "Utf8"),
            ("Utf7", "none"),
            ("hz-gb-2312", "none"),
        ] {
            let found = match charset(name) {
                Some(Charset::Utf8) => "Utf8",
                Some(Charset::Imap) => "Imap",
                Some(Charset::Standard(encoding)) => encoding.name(),
                None => "none",
            };
            assert_eq!(found, expected, "{name}");
        }
        for name in NAMES {
            assert!(charset(name).is_some(), "{name}");
        }
    }
}
