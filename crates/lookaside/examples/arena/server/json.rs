//! Writes JSON field by field.

/// Appends a number.
pub(super) fn push_number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a string with its quotes.
pub(super) fn push_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(index) = rest.iter().position(|&byte| must_be_escaped(byte)) {
        out.extend_from_slice(&rest[..index]);
        match rest[index] {
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            byte => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[DIGITS[high], DIGITS[low]]);
            }
        }
        rest = &rest[index + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn must_be_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in [
            "",
            "plain",
            "\"\\\"",
            "a\nb\tc\u{1f}\0",
            "\u{7f}\u{2014}日本",
        ] {
            let mut out = Vec::new();
            push_text(&mut out, text);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
