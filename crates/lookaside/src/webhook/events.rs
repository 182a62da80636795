//! How the body of a request is cut into events.
//!
//! A body is checked and counted when it is complete, and cut while the run reads it, so that it
//! needs no memory beyond its bytes, however many events there are.

use std::fmt;

use lookaside_http::Request;
use memchr::{memchr_iter, memchr2};
use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::options::BodyFraming;
use crate::serve::Problem;

/// U+FEFF in UTF-8, which some programs write before text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a body is, before it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyKind {
    /// One event.
    Message,
    /// Lines.
    Lines,
    /// Lines of JSON, or an array.
    JsonLines,
    /// A JSON document: an array of events, or one.
    JsonDocument,
}

impl BodyKind {
    /// The kind of a request's body, if the format of the events is JSON or another one.
    pub(super) fn of(request: &Request<'_>, framing: BodyFraming, is_json: bool) -> Self {
        let content_type = request.header_str("Content-Type").unwrap_or_default();
        match (framing, is_json) {
            (BodyFraming::Message, _) => Self::Message,
            (BodyFraming::Lines, false) => Self::Lines,
            (BodyFraming::Lines, true) if is_document(content_type) => Self::JsonDocument,
            (BodyFraming::Lines, true) => Self::JsonLines,
        }
    }
}

/// Whether a media type means that the body is one JSON document: JSON itself, or a format that is
/// JSON (RFC 6839), such as `application/cloudevents+json`.
fn is_document(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let media_type = media_type.to_ascii_lowercase();
    media_type == "application/json" || media_type.ends_with("+json")
}

/// The events of a body.
#[derive(Debug)]
pub(super) struct Events {
    body: Vec<u8>,
    cut: Cut,
    /// The position behind the last event that was taken, and behind the comma after it.
    at: usize,
    count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Whole,
    Lines,
    /// The elements of a valid JSON array.
    Elements,
}

impl Events {
    /// Counts the events of a complete body.
    ///
    /// # Errors
    /// 400 for a document that is not JSON, with line and column.
    pub(super) fn new(body: Vec<u8>, kind: BodyKind) -> Result<Self, Problem> {
        let start = match body.starts_with(BYTE_ORDER_MARK) {
            true => BYTE_ORDER_MARK.len(),
            false => 0,
        };
        let text = &body[start..];
        let first = text.iter().position(|byte| !byte.is_ascii_whitespace());
        let is_json = matches!(kind, BodyKind::JsonLines | BodyKind::JsonDocument);
        let (cut, at, count) = match (kind, first) {
            (BodyKind::Message, _) => (Cut::Whole, start, u64::from(!text.is_empty())),
            (_, None) if is_json => (Cut::Whole, body.len(), 0),
            (BodyKind::Lines | BodyKind::JsonLines, None) => (Cut::Lines, start, line_count(text)),
            (_, Some(first)) if is_json && text[first] == b'[' => {
                let Elements(count) = document(text)?;
                (Cut::Elements, start + first + 1, count)
            }
            (BodyKind::JsonDocument, Some(_)) => {
                let _: IgnoredAny = document(text)?;
                (Cut::Whole, start, 1)
            }
            (BodyKind::Lines | BodyKind::JsonLines, Some(_)) => {
                (Cut::Lines, start, line_count(text))
            }
            (BodyKind::JsonDocument, None) => unreachable!("an empty document is handled above"),
        };
        Ok(Self {
            body,
            cut,
            at,
            count,
        })
    }

    /// How many events there are, also those that were taken.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The size of the body in bytes.
    pub(super) fn size(&self) -> usize {
        self.body.len()
    }

    /// Takes the next event.
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        let rest = &self.body[self.at..];
        match self.cut {
            Cut::Whole if rest.is_empty() => None,
            Cut::Whole => {
                self.at = self.body.len();
                Some(rest)
            }
            Cut::Lines => {
                let mut lines = rest.split_inclusive(|byte| *byte == b'\n');
                lines.find_map(|line| {
                    self.at += line.len();
                    Some(without_end(line)).filter(|line| !line.is_empty())
                })
            }
            Cut::Elements => {
                let size = element_size(rest);
                let element = rest[..size].trim_ascii();
                // Behind the comma or the bracket.
                self.at = (self.at + size + 1).min(self.body.len());
                (!element.is_empty()).then_some(element)
            }
        }
    }
}

/// A line without its end.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The number of lines that are not empty.
fn line_count(text: &[u8]) -> u64 {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !without_end(line).is_empty()).count() as u64
}

/// The size of the first element of an array up to the comma or the bracket behind it.
fn element_size(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = rest.get(at) {
        match byte {
            b',' if depth == 0 => break,
            b']' if depth == 0 => break,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => at += string_size(&rest[at + 1..]),
            _ => {}
        }
        at += 1;
    }
    at.min(rest.len())
}

/// The size of a string behind its first quote, with the last one.
fn string_size(rest: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = rest.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if rest[at - 1] == b'"' {
            return at;
        }
        // The character that is escaped.
        at += 1;
    }
    rest.len()
}

/// Checks a document.
fn document<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, Problem> {
    let problem = |detail: String| Problem::new(400, "the body is not JSON").detail(detail);
    // The parser does not check the text of strings that it skips.
    if let Err(error) = std::str::from_utf8(body) {
        let before = &body[..error.valid_up_to()];
        let line = memchr_iter(b'\n', before).count() + 1;
        let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        let column = before.len() - start + 1;
        return Err(problem(format!(
            "it is not UTF-8 at line {line} column {column}"
        )));
    }
    serde_json::from_slice(body).map_err(|error| {
        problem(format!(
            "{error}; for events as lines, set Content-Type to application/x-ndjson"
        ))
    })
}

/// The number of elements of an array.
struct Elements(u64);

impl<'de> Deserialize<'de> for Elements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counter;

        impl<'de> Visitor<'de> for Counter {
            type Value = Elements;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Elements, A::Error> {
                let mut count = 0;
                while elements.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Elements(count))
            }
        }

        deserializer.deserialize_seq(Counter)
    }
}

#[cfg(test)]
mod tests {
    use lookaside_testing::never_panics;

    use super::*;

    fn cut(body: &str, kind: BodyKind) -> Result<Vec<String>, String> {
        let events = Events::new(body.as_bytes().to_vec(), kind);
        let mut events = events.map_err(|problem| problem.line(true).into_owned())?;
        let mut found = Vec::new();
        while let Some(event) = events.next() {
            found.push(String::from_utf8(event.to_vec()).unwrap());
        }
        assert_eq!(events.next(), None);
        assert_eq!(events.count(), found.len() as u64, "{body}");
        Ok(found)
    }

    #[test]
    fn bodies_are_cut_by_their_kind() {
        use BodyKind::{JsonDocument, JsonLines, Lines, Message};
        for (body, kind, expected) in [
            ("", JsonLines, &[][..]),
            ("", JsonDocument, &[]),
            ("", Lines, &[]),
            ("", Message, &[]),
            (" \r\n\t", JsonLines, &[]),
            (" \n", JsonDocument, &[]),
            (" \n", Lines, &[" "]),
            ("\n\r\n", Lines, &[]),
            ("\n", Message, &["\n"]),
            ("{}\n{}", JsonLines, &["{}", "{}"]),
            ("\r\n{}\r\n\nno\n", JsonLines, &["{}", "no"]),
            ("[1", Lines, &["[1"]),
            ("a\n\nb\n", Message, &["a\n\nb\n"]),
            ("[]", JsonLines, &[]),
            (" [ ] ", JsonDocument, &[]),
            ("[1, 2 ,\n3]\n", JsonLines, &["1", "2", "3"]),
            (
                r#"[{"a":[1,{}]},"x]\",\\",[],null]"#,
                JsonDocument,
                &[r#"{"a":[1,{}]}"#, r#""x]\",\\""#, "[]", "null"],
            ),
            ("\u{feff}{}\n\u{feff}{}\n", JsonLines, &["{}", "\u{feff}{}"]),
            ("\u{feff} [1,2]", JsonLines, &["1", "2"]),
            ("\u{feff}[1]", JsonDocument, &["1"]),
            ("\u{feff}{}", JsonDocument, &["{}"]),
            ("\u{feff}a\nb", Lines, &["a", "b"]),
            ("\u{feff}a\nb", Message, &["a\nb"]),
            ("\u{feff}", JsonLines, &[]),
            ("\u{feff}", JsonDocument, &[]),
            ("\u{feff}", Lines, &[]),
            ("\u{feff}", Message, &[]),
            ("{\n\"a\": 1\n}\n", JsonDocument, &["{\n\"a\": 1\n}\n"]),
        ] {
            let expected: Vec<_> = expected.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(cut(body, kind), Ok(expected), "{body:?} {kind:?}");
        }
    }

    #[test]
    fn what_is_not_a_document_is_refused_with_its_place() {
        use BodyKind::{JsonDocument, JsonLines};
        for (body, kind, place) in [
            ("[1,\n2,,3]", JsonLines, "line 2 column 3"),
            ("[1]\n[2]", JsonLines, "line 2 column 1"),
            ("[1", JsonLines, "line 1 column 2"),
            ("{}\n{}", JsonDocument, "line 2 column 1"),
            ("{\"a\":", JsonDocument, "line 1 column 5"),
            ("no", JsonDocument, "line 1 column 2"),
        ] {
            let refused = cut(body, kind).unwrap_err();
            assert!(refused.contains(place), "{body:?}: {refused}");
        }
        let body = b"[1,\n \"\xff\"]".to_vec();
        let refused = Events::new(body, JsonLines).unwrap_err();
        assert!(refused.line(true).contains("line 2 column 3"));
    }

    #[test]
    fn documents_are_told_from_lines_by_their_type() {
        for (content_type, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/cloudevents+json", true),
            ("application/x-ndjson", false),
            ("application/jsonl", false),
            ("application/x-www-form-urlencoded", false),
            ("", false),
        ] {
            assert_eq!(is_document(content_type), expected, "{content_type}");
        }
    }

    #[test]
    fn deep_arrays_need_no_stack() {
        let body = format!("[{}{}]", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(cut(&body, BodyKind::JsonLines).unwrap().len(), 1);
    }

    #[test]
    fn any_body_is_cut_or_refused() {
        let corpus = [
            &br#"[{"a":[1,{"b":"x]\",\\"}]},"\u00e9",[],null,-1.5e3]"#[..],
            b"{\"a\":1}\r\n\n{\"b\":\"\\n\"}\n",
            b"{ \"a\": [ 1, 2 ] }",
        ]
        .map(<[u8]>::to_vec);
        let check = |body: &[u8]| {
            for kind in [
                BodyKind::Message,
                BodyKind::Lines,
                BodyKind::JsonLines,
                BodyKind::JsonDocument,
            ] {
                let Ok(mut events) = Events::new(body.to_vec(), kind) else {
                    continue;
                };
                let mut count = 0;
                while events.next().is_some() {
                    count += 1;
                }
                assert_eq!(count, events.count(), "{kind:?}");
            }
        };
        never_panics(&corpus, &[b"[", b"]", b",", b"\"", b"\\", b"\n"], 8, check);
    }
}
