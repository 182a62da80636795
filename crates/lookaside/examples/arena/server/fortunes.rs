//! The page of fortunes: rows are extended, sorted, escaped and written for each request.

use lookaside_client::postgres::RawRows;

use super::json::push_number;

pub(super) const SQL: &str = "select id, message from fortune";

const ADDED: &str = "Additional fortune added at request time.";

/// A fortune with the first bytes of its message, which decide the order of nearly all.
struct Fortune<'a> {
    prefix: u64,
    message: &'a str,
    id: i64,
}

impl<'a> Fortune<'a> {
    fn new(id: i64, message: &'a str) -> Self {
        let mut prefix = [0; 8];
        let size = message.len().min(8);
        prefix[..size].copy_from_slice(&message.as_bytes()[..size]);
        Self {
            prefix: u64::from_be_bytes(prefix),
            message,
            id,
        }
    }
}

/// Appends the page of these rows and the additional one.
pub(super) fn write(rows: &RawRows, out: &mut Vec<u8>) {
    // An upper estimate: a few bytes of each fortune become six.
    out.reserve(rows.size() + (rows.len() + 2) * ROW_SIZE);
    let mut fortunes = Vec::with_capacity(rows.len() + 1);
    for row in rows {
        if let Some([id, message]) = row.fields()
            && let (Some(id), Some(message)) = (id.int(), message.text())
        {
            fortunes.push(Fortune::new(id, message));
        }
    }
    write_all(fortunes, out);
}

/// The estimated size of a page row beside its message.
const ROW_SIZE: usize = 64;

fn write_all(mut fortunes: Vec<Fortune<'_>>, out: &mut Vec<u8>) {
    fortunes.push(Fortune::new(0, ADDED));
    fortunes.sort_unstable_by(|one, other| {
        let key = |fortune: &Fortune<'_>| fortune.prefix;
        key(one)
            .cmp(&key(other))
            .then_with(|| one.message.cmp(other.message))
    });
    out.extend_from_slice(
        b"<!DOCTYPE html><html><head><title>Fortunes</title></head><body><table>\
          <tr><th>id</th><th>message</th></tr>",
    );
    for fortune in &fortunes {
        out.extend_from_slice(b"<tr><td>");
        push_number(out, fortune.id);
        out.extend_from_slice(b"</td><td>");
        push_escaped(out, fortune.message);
        out.extend_from_slice(b"</td></tr>");
    }
    out.extend_from_slice(b"</table></body></html>");
}

/// Appends a text with HTML escaping, eight bytes at a time as long as none of them needs it.
fn push_escaped(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    while let Some((chunk, after)) = rest.split_first_chunk() {
        out.extend_from_slice(chunk);
        match suspect(*chunk) {
            None => rest = after,
            Some(index) => {
                out.truncate(out.len() - chunk.len() + index);
                push_byte(out, chunk[index]);
                rest = &rest[index + 1..];
            }
        }
    }
    for &byte in rest {
        push_byte(out, byte);
    }
}

fn push_byte(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'<' => out.extend_from_slice(b"&lt;"),
        b'>' => out.extend_from_slice(b"&gt;"),
        b'&' => out.extend_from_slice(b"&amp;"),
        b'"' => out.extend_from_slice(b"&quot;"),
        b'\'' => out.extend_from_slice(b"&apos;"),
        _ => out.push(byte),
    }
}

/// The first byte that may have to be escaped: one of `"#&'<>`. Zero bytes are found by the borrows
/// of a subtraction, of which the lowest is always correct.
fn suspect(chunk: [u8; 8]) -> Option<usize> {
    let all = |byte| u64::from_le_bytes([byte; 8]);
    let word = u64::from_le_bytes(chunk);
    let zeros = |word: u64| word.wrapping_sub(all(1)) & !word & all(0x80);
    // 0x22, 0x23, 0x26 and 0x27 differ in two bits only, and so do 0x3c and 0x3e in one.
    let quotes = zeros((word | all(0x05)) ^ all(0x27));
    let brackets = zeros((word | all(0x02)) ^ all(0x3e));
    let found = quotes | brackets;
    (found != 0).then(|| found.trailing_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page() {
        let fortunes = [
            (2, "b"),
            (1, "<script>alert(\"x\");</script>"),
            (4, "Additional & 'more'"),
            (3, "日本"),
        ];
        let mut out = Vec::new();
        let fortunes = fortunes.map(|(id, message)| Fortune::new(id, message));
        write_all(fortunes.into(), &mut out);
        let page = String::from_utf8(out).unwrap();
        let rows: Vec<_> = page.split("<tr><td>").skip(1).collect();
        assert_eq!(
            rows,
            [
                "1</td><td>&lt;script&gt;alert(&quot;x&quot;);&lt;/script&gt;</td></tr>",
                "4</td><td>Additional &amp; &apos;more&apos;</td></tr>",
                "0</td><td>Additional fortune added at request time.</td></tr>",
                "2</td><td>b</td></tr>",
                "3</td><td>日本</td></tr></table></body></html>",
            ]
        );
    }

    /// For each position within eight bytes, and for all neighbours.
    #[test]
    fn texts_are_escaped_as_byte_by_byte() {
        let mut random = fastrand::Rng::with_seed(7);
        let beside: Vec<_> = "\"#&'<>=!%(;?\u{1}\0 aé日".chars().collect();
        for _ in 0..20_000 {
            let size = random.usize(..24);
            let text: String = (0..size)
                .map(|_| match random.bool() {
                    true => beside[random.usize(..beside.len())],
                    false => random.char(..),
                })
                .collect();
            let mut expected = Vec::new();
            for byte in text.bytes() {
                push_byte(&mut expected, byte);
            }
            let mut out = Vec::new();
            push_escaped(&mut out, &text);
            assert_eq!(out, expected, "{text:?}");
        }
    }
}
