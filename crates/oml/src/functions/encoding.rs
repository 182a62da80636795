//! Base64, and the character encodings of its content.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use lookaside_value::{Text, Value};

use crate::ast::Charset;

/// Accepts missing padding, so that such messages are not lost.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl Charset {
    /// The text of these bytes; never fails, as malformed bytes become U+FFFD.
    pub(crate) fn decode(self, bytes: &[u8]) -> String {
        match self {
            Self::Standard(encoding) => encoding.decode_without_bom_handling(bytes).0.into_owned(),
            Self::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
            Self::Imap => bytes.escape_ascii().to_string(),
        }
    }
}

/// Text in base64; other types are unchanged.
pub(crate) fn base64_encode(value: Value) -> Value {
    match &value {
        Value::Text(text) => Value::Text(Text::from(STANDARD.encode(text.as_bytes()))),
        Value::Bytes(bytes) => Value::Text(Text::from(STANDARD.encode(bytes))),
        _ => value,
    }
}

/// The decoded base64 text in an encoding, empty if it is not base64; other types are unchanged.
pub(crate) fn base64_decode(value: Value, charset: Charset) -> Value {
    match &value {
        Value::Text(text) => match LENIENT.decode(text.trim_ascii()) {
            Ok(bytes) => Value::Text(Text::from(charset.decode(&bytes))),
            Err(_) => Value::Text(Text::EMPTY),
        },
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_text() {
        use encoding_rs as standard;
        let utf8 = Charset::Utf8.decode(b"h\xc3\xa9\xff");
        assert_eq!(utf8, "hé\u{fffd}");
        let imap = Charset::Imap.decode(b"a\n\xe9\\\"");
        assert_eq!(imap, "a\\n\\xe9\\\\\\\"");
        for (encoding, bytes, expected) in [
            (standard::UTF_16LE, &b"h\0\xe9\0"[..], "hé"),
            (standard::UTF_16BE, b"\0h\0\xe9", "hé"),
            (standard::GBK, b"\xc4\xe3\x80", "你€"),
            (standard::GB18030, b"\x81\x30\x81\x30", "\u{80}"),
            (standard::BIG5, b"\xa7\x41", "你"),
            (standard::ISO_2022_JP, b"\x1b$B$\"\x1b(B", "あ"),
            (standard::EUC_KR, b"\xb0\xa1\x81\x41", "가갂"),
            (standard::WINDOWS_1251, b"\xff", "я"),
        ] {
            assert_eq!(
                Charset::Standard(encoding).decode(bytes),
                expected,
                "{}",
                encoding.name()
            );
        }
    }

    #[test]
    fn base64() {
        let decode = |text: &str| base64_decode(Value::from(text), Charset::Utf8);
        assert_eq!(base64_encode("Hello".into()), Value::from("SGVsbG8="));
        assert_eq!(base64_encode(Value::Int(1)), Value::Int(1));
        assert_eq!(decode("SGVsbG8="), Value::from("Hello"));
        assert_eq!(
            decode("SGVsbG8"),
            Value::from("Hello"),
            "padding may be missing"
        );
        assert_eq!(decode("no base64!"), Value::from(""));
        assert_eq!(decode(""), Value::from(""));
        assert_eq!(base64_decode(Value::Int(1), Charset::Utf8), Value::Int(1));
        let gbk = Charset::Standard(encoding_rs::GBK);
        assert_eq!(base64_decode("xOM=".into(), gbk), Value::from("你"));
    }
}
