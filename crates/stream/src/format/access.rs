//! `access`: the common and combined log formats of web servers.
//!
//! ```text
//! 203.0.113.9 - amy [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 2326 "-" "curl/8.1"
//! ip          ·  user time                        http/request    │   │     │   http/agent
//!                                                       http/status   length http/referer
//! ```

use std::net::IpAddr;

use lookaside_value::{Name, NameTable, Names, Record, Time, TimeError, Value};
use memchr::{memchr, memchr2, memmem, memrchr};

use super::lines::{ParseLine, Reason};

/// The fields in the order of a record.
const FIELDS: [&str; 9] = [
    "ip",
    "user",
    "time",
    "http/request",
    "http/status",
    "length",
    "http/referer",
    "http/agent",
    "extra",
];

pub(crate) fn intern(names: &mut NameTable) {
    for field in FIELDS {
        names.intern(field);
    }
}

/// Parses a line; a field with `-` is left out, and the second word (of identd) is dropped.
pub(crate) struct AccessLine {
    fields: [Name; FIELDS.len()],
}

impl AccessLine {
    pub(crate) fn new(name: impl FnMut(&'static str) -> Name) -> Self {
        Self {
            fields: FIELDS.map(name),
        }
    }
}

impl ParseLine for AccessLine {
    fn parse(&mut self, line: &str, _: &mut Names, record: &mut Record) -> Result<(), Reason> {
        let [
            ip,
            user,
            time,
            request,
            status,
            length,
            referer,
            agent,
            extra,
        ] = self.fields;
        let mut cursor = Cursor { line, at: 0 };

        let host = cursor.word("client address")?;
        if host != "-" {
            record.push(ip, host_value(host));
        }
        cursor.word("second word")?;
        let login = cursor.until_bracket()?;
        if login != "-" {
            record.push(user, login);
        }
        record.push(time, cursor.time()?);
        push_text(record, request, cursor.quoted("request")?);
        push_number(record, status, cursor.word("status")?, "status")?;
        push_number(record, length, cursor.last_word("length")?, "length")?;
        if cursor.is_at_end() {
            return Ok(());
        }
        push_text(record, referer, cursor.quoted("referer")?);
        push_text(record, agent, cursor.quoted("agent")?);
        if !cursor.is_at_end() {
            record.push(extra, cursor.rest());
        }
        Ok(())
    }
}

/// The size of `10/Oct/2000:13:55:36 -0700`.
const USUAL_SIZE: usize = 26;

/// The characters between the time and the request.
const CLOSE: &[u8] = b"] \"";

/// The position of the bracket that opens the time, if it is not the first one or the time has an
/// unusual form.
#[cold]
fn last_open(rest: &[u8]) -> Option<usize> {
    let close = memmem::find(rest, CLOSE)?;
    memrchr(b'[', &rest[..close])
}

/// Parses a time in the usual form, or in another one that servers can be configured to write.
#[inline]
fn parse_time(text: &str) -> Result<Time, TimeError> {
    const DIGITS: [usize; 16] = [0, 1, 7, 8, 9, 10, 12, 13, 15, 16, 18, 19, 22, 23, 24, 25];
    let bytes = text.as_bytes();
    let is_usual = bytes.len() == USUAL_SIZE && DIGITS.iter().all(|&at| bytes[at].is_ascii_digit());
    match is_usual {
        true => Time::parse_access_log(text),
        false => text.parse(),
    }
}

/// Reads the parts of a line from left to right; each part includes the blank after it.
struct Cursor<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Up to the next blank. Words are short, so a plain loop beats a search with a start-up cost.
    #[inline]
    fn word(&mut self, what: &'static str) -> Result<&'a str, Reason> {
        let rest = &self.line.as_bytes()[self.at..];
        match rest.iter().position(|&byte| byte == b' ') {
            None | Some(0) => Err(self.missing(what)),
            Some(size) => Ok(self.advance(size, 1)),
        }
    }

    /// Up to the next blank or the end of the line.
    #[inline]
    fn last_word(&mut self, what: &'static str) -> Result<&'a str, Reason> {
        let rest = &self.line.as_bytes()[self.at..];
        match rest.iter().position(|&byte| byte == b' ') {
            Some(0) => Err(self.missing(what)),
            Some(size) => Ok(self.advance(size, 1)),
            None if rest.is_empty() => Err(self.missing(what)),
            None => Ok(self.advance(rest.len(), 0)),
        }
    }

    /// The user, up to the blank before the bracket of the time.
    ///
    /// A client chooses the user name, which may contain blanks and brackets, but servers escape
    /// quotes: so the first `] "` closes the time, and a name cannot imitate it.
    #[inline]
    fn until_bracket(&mut self) -> Result<&'a str, Reason> {
        let rest = &self.line.as_bytes()[self.at..];
        let Some(first) = memchr(b'[', rest) else {
            return Err(self.missing("time in brackets after the user"));
        };
        let is_usual = rest[first..]
            .get(USUAL_SIZE + 1..)
            .is_some_and(|end| end.starts_with(CLOSE));
        let open = if is_usual {
            first
        } else {
            last_open(rest).unwrap_or(first)
        };
        if open < 2 || rest[open - 1] != b' ' {
            return Err(self.missing("time in brackets after the user"));
        }
        Ok(self.advance(open - 1, 1))
    }

    #[inline]
    fn time(&mut self) -> Result<Time, Reason> {
        let rest = &self.line.as_bytes()[self.at..];
        let size = match rest.get(1 + USUAL_SIZE) {
            Some(b']') => USUAL_SIZE,
            _ => match memchr(b']', rest) {
                Some(at) => at - 1,
                None => return Err(self.missing("`]` after the time")),
            },
        };
        self.at += 1;
        let column = self.at + 1;
        let text = self.advance(size, 1);
        let time = parse_time(text)
            .map_err(|error| Reason::from(format!("byte {column}: {error}: `{text}`")))?;
        self.blank("`]`")?;
        Ok(time)
    }

    /// Text in double quotes; a byte after a backslash does not end the text.
    #[inline]
    fn quoted(&mut self, what: &'static str) -> Result<&'a str, Reason> {
        let bytes = self.line.as_bytes();
        if bytes.get(self.at) != Some(&b'"') {
            return Err(self.missing(what));
        }
        let start = self.at + 1;
        let mut searched = start;
        loop {
            let Some(found) = memchr2(b'"', b'\\', &bytes[searched.min(bytes.len())..]) else {
                return Err(format!("byte {}: the {what} has no closing quote", start).into());
            };
            let at = searched + found;
            if bytes[at] == b'"' {
                let text = &self.line[start..at];
                self.at = at + 1;
                self.blank("closing quote")?;
                return Ok(text);
            }
            searched = at + 2;
        }
    }

    fn is_at_end(&self) -> bool {
        self.at == self.line.len()
    }

    fn rest(&self) -> &'a str {
        &self.line[self.at..]
    }

    /// Takes `size` bytes and skips `skipped` more.
    #[inline]
    fn advance(&mut self, size: usize, skipped: usize) -> &'a str {
        let text = &self.line[self.at..self.at + size];
        self.at += size + skipped;
        text
    }

    /// Skips the blank between two fields, unless at the end of the line.
    #[inline]
    fn blank(&mut self, after: &'static str) -> Result<(), Reason> {
        match self.line.as_bytes().get(self.at) {
            None => Ok(()),
            Some(b' ') => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(format!("byte {}: missing blank after the {after}", self.at + 1).into()),
        }
    }

    #[cold]
    fn missing(&self, what: &'static str) -> Reason {
        format!("byte {}: missing {what}", self.at + 1).into()
    }
}

#[inline]
fn push_text(record: &mut Record, name: Name, text: &str) {
    if text != "-" {
        record.push(name, text);
    }
}

#[inline]
fn push_number(
    record: &mut Record,
    name: Name,
    text: &str,
    what: &'static str,
) -> Result<(), Reason> {
    if text == "-" {
        return Ok(());
    }
    match number(text.as_bytes()) {
        Some(number) => {
            record.push(name, number);
            Ok(())
        }
        None => Err(format!("the {what} `{text}` is not a number").into()),
    }
}

/// Up to eighteen digits cannot overflow, and no status or size has more.
#[inline]
fn number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    digits.iter().try_fold(0_i64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| number * 10 + i64::from(digit))
    })
}

/// The host: an address if the server logged one; a host name stays text.
#[inline]
fn host_value(host: &str) -> Value {
    match lookaside_value::parse_ipv4(host.as_bytes()) {
        Some(ip) => Value::Ip(IpAddr::V4(ip)),
        None => other_host(host),
    }
}

fn other_host(host: &str) -> Value {
    match host.parse() {
        Ok(ip) => Value::Ip(ip),
        Err(_) => Value::from(host),
    }
}

/// Decodes `data` as access-log lines; must not panic for any input.
#[doc(hidden)]
pub fn fuzz_access(data: &[u8]) {
    super::fuzz("access", &[], data);
}
