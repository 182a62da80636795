//! Request templates: bytes with placeholders.

use crate::workload::Random;
use crate::{Error, Result};

/// The limit for consecutive copies of a constant request, which allow to send a pipeline of them
/// in one write without copying.
const COPIES_SIZE_MAX: usize = 64 << 10;

/// A request with placeholders: `{RAND:1:050}` is a number from 1 to 50 with leading zeros up to
/// the width of the last, `{SEQ:7}` counts from 7 up with each request of the template, `{LENGTH}`
/// is the size of the body in bytes. Other braces are text.
#[derive(Debug)]
pub struct Template {
    /// Its request line, or the user's name for it.
    pub(super) name: String,
    /// Whether its answer never has a body, since it is a HEAD.
    pub(super) is_head: bool,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// A constant request, in as many consecutive copies as fit.
    Fixed { copies: Vec<u8>, size: usize },
    /// The part up to and including the empty line, and the part after it.
    Filled { head: Vec<Piece>, body: Vec<Piece> },
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Bytes(Vec<u8>),
    /// `{RAND:first:last}`: a number of the range, with leading zeros up to the width of `last`.
    Random {
        first: u64,
        last: u64,
        width: usize,
    },
    /// `{SEQ:first}`: one more with each request of the template.
    Sequence {
        first: u64,
    },
    /// `{LENGTH}`: the size of the body.
    Length,
}

impl Template {
    /// Creates a request. `Host` and, with a body, `Content-Length` come before `headers`, which
    /// are `NAME: VALUE` each.
    ///
    /// # Errors
    ///
    /// If the path, a header or a placeholder is malformed.
    pub fn new(
        method: &str,
        path: &str,
        host: &str,
        headers: &[String],
        body: Option<&str>,
    ) -> Result<Self> {
        if !path.starts_with('/') || path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(Error::usage(format!(
                "{path:?} is not a path: it begins with / and has no blanks"
            )));
        }
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
        for header in headers {
            if !header.contains(':') || header.contains(['\r', '\n']) {
                let text = format!("{header:?} is not a header: it is NAME: VALUE");
                return Err(Error::usage(text));
            }
            text.push_str(header);
            text.push_str("\r\n");
        }
        if body.is_some() {
            text.push_str("Content-Length: {LENGTH}\r\n");
        }
        text.push_str("\r\n");
        text.push_str(body.unwrap_or_default());
        Self::parse(&format!("{method} {path}"), text.as_bytes())
    }

    /// Parses a raw request, called `name` in reports.
    ///
    /// # Errors
    ///
    /// When it is not a request of HTTP/1.1 or 1.0, its `Content-Length` is not the size of its
    /// body, or a placeholder is malformed.
    pub fn parse(name: &str, raw: &[u8]) -> Result<Self> {
        Self::read(name, raw).map_err(Error::usage)
    }

    /// Its name in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn read(name: &str, raw: &[u8]) -> std::result::Result<Self, String> {
        let end = find(raw, b"\r\n\r\n")
            .ok_or("it has no empty line behind its head; do its lines end with CR LF?")?;
        let (head, body) = raw.split_at(end + 4);
        let method = head.split(|&byte| byte == b' ').next().unwrap_or_default();
        let line_end = find(head, b"\r\n").expect("it ends with one");
        if !head[..line_end].ends_with(b" HTTP/1.1") && !head[..line_end].ends_with(b" HTTP/1.0") {
            return Err("its first line is not a request line of HTTP/1.1".into());
        }
        let mut template = Self {
            name: name.to_owned(),
            is_head: method == b"HEAD",
            form: Form::Filled {
                head: pieces(head)?,
                body: pieces(body)?,
            },
        };
        template.check_length()?;
        template.settle();
        Ok(template)
    }

    /// Appends the request that is sent as number `turn`.
    pub(super) fn fill(&self, turn: u64, random: &mut Random, out: &mut Vec<u8>) {
        let (head, body) = match &self.form {
            Form::Fixed { copies, size } => return out.extend_from_slice(&copies[..*size]),
            Form::Filled { head, body } => (head, body),
        };
        if !head.contains(&Piece::Length) {
            fill(head, turn, 0, random, out);
            return fill(body, turn, 0, random, out);
        }
        // The size of the body is only known after it has been built, and it follows the head.
        let begin = out.len();
        fill(body, turn, 0, random, out);
        let size = out.len() - begin;
        fill(head, turn, size as u64, random, out);
        out[begin..].rotate_left(size);
    }

    /// `count` consecutive copies of the request, if it is constant and they fit.
    pub(super) fn copies(&self, count: usize) -> Option<&[u8]> {
        match &self.form {
            Form::Fixed { copies, size } => copies.get(..size * count),
            Form::Filled { .. } => None,
        }
    }

    /// Checks the content length: extra bytes would be taken for the next request.
    fn check_length(&self) -> std::result::Result<(), String> {
        let mut request = Vec::new();
        self.fill(0, &mut Random::new(0), &mut request);
        let end = find(&request, b"\r\n\r\n").expect("the head ends so") + 4;
        let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
        let body_size = request.len() - end;
        let field = |name: &str| {
            let mut lines = head.lines().skip(1);
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        };
        match (field("content-length"), field("transfer-encoding")) {
            (None, None) if body_size > 0 => Err(format!(
                "it has a body of {body_size} bytes, but no Content-Length; \
                 \"Content-Length: {{LENGTH}}\" puts the size in"
            )),
            (Some(length), None) if length.trim() != body_size.to_string() => Err(format!(
                "its Content-Length is {}, its body has {body_size} bytes; \
                 \"Content-Length: {{LENGTH}}\" puts the size in",
                length.trim()
            )),
            _ => Ok(()),
        }
    }

    /// Makes copies of a constant request.
    fn settle(&mut self) {
        let Form::Filled { head, body } = &self.form else {
            return;
        };
        let varies = |piece: &Piece| matches!(piece, Piece::Random { .. } | Piece::Sequence { .. });
        if head.iter().chain(body).any(varies) {
            return;
        }
        let mut copies = Vec::new();
        self.fill(0, &mut Random::new(0), &mut copies);
        let size = copies.len();
        let copies = copies.repeat((COPIES_SIZE_MAX / size).max(1));
        self.form = Form::Fixed { copies, size };
    }
}

fn fill(pieces: &[Piece], turn: u64, length: u64, random: &mut Random, out: &mut Vec<u8>) {
    for piece in pieces {
        match *piece {
            Piece::Bytes(ref bytes) => out.extend_from_slice(bytes),
            Piece::Random { first, last, width } => {
                // The range is below 2^64, since `last` is below the largest number.
                push_number(first + random.below(last - first + 1), width, out);
            }
            Piece::Sequence { first } => push_number(first.saturating_add(turn), 1, out),
            Piece::Length => push_number(length, 1, out),
        }
    }
}

fn push_number(mut number: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while number > 0 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    let first = at.min(digits.len() - width.clamp(1, digits.len()));
    out.extend_from_slice(&digits[first..]);
}

/// Text with `{RAND:a:b}`, `{SEQ:n}` and `{LENGTH}`; other braces are text.
fn pieces(mut text: &[u8]) -> std::result::Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut bytes = Vec::new();
    while let Some(&first) = text.first() {
        let is_place = [&b"{RAND:"[..], b"{SEQ:", b"{LENGTH}"]
            .iter()
            .any(|name| text.starts_with(name));
        if !is_place {
            bytes.push(first);
            text = &text[1..];
            continue;
        }
        let end = find(text, b"}").ok_or("a place to fill has no closing brace")?;
        if !bytes.is_empty() {
            pieces.push(Piece::Bytes(std::mem::take(&mut bytes)));
        }
        pieces.push(parse_placeholder(&String::from_utf8_lossy(&text[1..end]))?);
        text = &text[end + 1..];
    }
    if !bytes.is_empty() {
        pieces.push(Piece::Bytes(bytes));
    }
    Ok(pieces)
}

/// Parses the text between the braces.
fn parse_placeholder(text: &str) -> std::result::Result<Piece, String> {
    let mut words = text.split(':');
    let words = (words.next(), words.next(), words.next(), words.next());
    let number = |word: &str| word.parse::<u64>().ok().filter(|&number| number < u64::MAX);
    match words {
        (Some("LENGTH"), None, ..) => Ok(Piece::Length),
        (Some("SEQ"), Some(first), None, _) => number(first)
            .map(|first| Piece::Sequence { first })
            .ok_or_else(|| format!("{{{text}}}: {first:?} is not a number")),
        (Some("RAND"), Some(first), Some(last), None) => match (number(first), number(last)) {
            (Some(low), Some(high)) if low <= high => Ok(Piece::Random {
                first: low,
                last: high,
                width: last.len(),
            }),
            _ => Err(format!("{{{text}}} is not a range of numbers")),
        },
        _ => Err(format!("{{{text}}} is neither {{RAND:a:b}} nor {{SEQ:n}}")),
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str, turn: u64) -> String {
        let template = Template::parse("test", text.as_bytes()).unwrap();
        let mut out = Vec::new();
        template.fill(turn, &mut Random::new(7), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn places_are_filled() {
        let line = |text: &str, turn| {
            let text = format!("GET {text} HTTP/1.1\r\nHost: a\r\n\r\n");
            let request = request(&text, turn);
            request.split(' ').nth(1).unwrap().to_owned()
        };
        for (text, turn, expected) in [
            ("/plain", 3, "/plain"),
            ("/{RAND:5:5}", 0, "/5"),
            ("/{RAND:5:05}", 0, "/05"),
            ("/{RAND:7:7}{RAND:0:0}", 0, "/70"),
            ("/{SEQ:100001}", 0, "/100001"),
            ("/{SEQ:9}/{SEQ:0}", 2, "/11/2"),
            ("/{other}{", 0, "/{other}{"),
        ] {
            assert_eq!(line(text, turn), expected, "{text}");
        }
        for turn in 0..200 {
            let text = line("/{RAND:8:00012}", turn);
            assert_eq!(text.len(), 6, "{text}");
            assert!((8..=12).contains(&text[1..].parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn every_number_of_a_range_is_drawn() {
        let template = Template::new("GET", "/{RAND:1:3}", "a", &[], None).unwrap();
        let mut random = Random::new(7);
        let mut seen = [0; 4];
        for turn in 0..300 {
            let mut out = Vec::new();
            template.fill(turn, &mut random, &mut out);
            seen[usize::from(out[5] - b'0')] += 1;
        }
        assert!(
            seen[0] == 0 && seen[1..].iter().all(|&count| count > 50),
            "{seen:?}"
        );
    }

    #[test]
    fn the_length_of_a_body_is_put_in() {
        let template = Template::new("POST", "/", "a", &["X-A: b".into()], Some("n={SEQ:8}"));
        let template = template.unwrap();
        assert!(template.copies(1).is_none());
        for (turn, length, body) in [(0, 3, "n=8"), (1, 3, "n=9"), (2, 4, "n=10")] {
            let mut out = b"before".to_vec();
            template.fill(turn, &mut Random::new(7), &mut out);
            let expected = format!(
                "beforePOST / HTTP/1.1\r\nHost: a\r\nX-A: b\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn what_never_changes_is_copied_ahead() {
        let template = Template::new("POST", "/", "a", &[], Some("body")).unwrap();
        let one = template.copies(1).unwrap().to_vec();
        assert!(one.ends_with(b"Content-Length: 4\r\n\r\nbody"));
        assert_eq!(template.copies(3).unwrap(), one.repeat(3));
        assert!(template.copies(COPIES_SIZE_MAX).is_none());
        let large = "x".repeat(2 * COPIES_SIZE_MAX);
        let large = Template::new("POST", "/", "a", &[], Some(&large)).unwrap();
        assert!(large.copies(1).is_some() && large.copies(2).is_none());
    }

    #[test]
    fn mistakes_are_errors() {
        let check = |text: &str, expected: &str| {
            let error = Template::parse("test", text.as_bytes()).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        };
        check("GET / HTTP/1.1\nHost: a\n\n", "CR LF");
        check("GET /\r\n\r\n", "request line");
        check(
            "GET /{RAND:2:1} HTTP/1.1\r\n\r\n",
            "{RAND:2:1} is not a range",
        );
        check("GET /{RAND:1} HTTP/1.1\r\n\r\n", "neither");
        check("GET /{SEQ:x} HTTP/1.1\r\n\r\n", "\"x\" is not a number");
        check("GET /{SEQ:1 HTTP/1.1\r\n\r\n", "closing brace");
        check("POST / HTTP/1.1\r\n\r\nabc", "no Content-Length");
        check(
            "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nabc",
            "body has 3 bytes",
        );
        for (path, header) in [("a", "A: b"), ("/a b", "A: b"), ("/", "A")] {
            assert!(Template::new("GET", path, "a", &[header.into()], None).is_err());
        }
    }
}
