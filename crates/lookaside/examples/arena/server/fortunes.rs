//! The page of fortunes: read, added to, sorted, escaped and written for each request.

use lookaside_value::{RowSet, Value};

use super::json::push_number;

pub(super) const SQL: &str = "select id, message from fortune";

const ADDED: &str = "Additional fortune added at request time.";

/// A fortune beside the first bytes of its message, by which nearly all are sorted.
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

/// Appends the page.
pub(super) fn write(rows: &RowSet, out: &mut Vec<u8>) {
    let mut fortunes = Vec::with_capacity(rows.len() + 1);
    for row in rows.iter() {
        if let [Value::Int(id), Value::Text(message)] = row {
            fortunes.push(Fortune::new(*id, message));
        }
    }
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

/// Appends a text in which no byte means anything to HTML: what stands between those that do goes
/// as a whole.
fn push_escaped(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut from = 0;
    for (index, &byte) in bytes.iter().enumerate() {
        let entity: &[u8] = match byte {
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'&' => b"&amp;",
            b'"' => b"&quot;",
            b'\'' => b"&apos;",
            _ => continue,
        };
        out.extend_from_slice(&bytes[from..index]);
        out.extend_from_slice(entity);
        from = index + 1;
    }
    out.extend_from_slice(&bytes[from..]);
}

#[cfg(test)]
mod tests {
    use lookaside_value::RowSetBuilder;

    use super::*;

    #[test]
    fn the_page() {
        let mut rows = RowSetBuilder::new(["id", "message"]);
        for (id, message) in [
            (2, "b"),
            (1, "<script>alert(\"x\");</script>"),
            (4, "Additional & 'more'"),
            (3, "日本"),
        ] {
            rows.push([Value::Int(id), Value::from(message)]);
        }
        let mut out = Vec::new();
        write(&rows.build(), &mut out);
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
}
