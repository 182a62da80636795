//! The head of a request: request line and headers, and their meaning.

use super::scan::{Header, Scanner, Stop, table};
use super::{BAD_REQUEST, Refusal};
use crate::Method;

/// How large a head may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadLimits {
    pub(crate) head_size_max: usize,
    pub(crate) header_count_max: usize,
    pub(crate) target_size_max: usize,
}

/// How the body is delimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    #[default]
    None,
    Length(u64),
    Chunked,
}

/// A complete and unambiguous head.
#[derive(Clone, Copy, Default)]
pub(crate) struct Head<'a> {
    pub(crate) method: Method,
    /// A token, so ASCII.
    pub(crate) method_name: &'a [u8],
    /// Begins with `/`, or is `*`.
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    /// `None` only for HTTP/1.0. It is ASCII.
    pub(crate) host: Option<&'a [u8]>,
    /// 0 or 1.
    pub(crate) minor: u8,
    /// Their positions in `bytes`.
    pub(crate) headers: &'a [Header],
    pub(crate) framing: Framing,
    /// Whether the client wants a persistent connection.
    pub(crate) keep_alive: bool,
    pub(crate) expects_continue: bool,
    /// The head itself, the empty line included.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Head<'a> {
    /// The headers' names, which are ASCII, and values, in order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        let bytes = self.bytes;
        let headers = self.headers.iter();
        headers.map(move |header| (header.name(bytes), header.value(bytes)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadOutcome {
    Whole,
    Partial,
}

/// Parses the head at the beginning of `bytes` into `head`, since moving it would cost a tenth of a
/// request. `headers` is a reusable buffer for the positions of its headers.
pub(crate) fn parse_head<'a>(
    bytes: &'a [u8],
    headers: &'a mut Vec<Header>,
    limits: HeadLimits,
    head: &mut Head<'a>,
) -> Result<HeadOutcome, Refusal> {
    let size = bytes.len().min(limits.head_size_max);
    match scan(&bytes[..size], headers, limits, head) {
        Ok(()) => Ok(HeadOutcome::Whole),
        Err(Stop::Partial) if size == limits.head_size_max => Err(Refusal(431)),
        Err(Stop::Partial) => Ok(HeadOutcome::Partial),
        Err(Stop::Refused(refusal)) => Err(refusal),
    }
}

#[inline]
fn scan<'a>(
    bytes: &'a [u8],
    headers: &'a mut Vec<Header>,
    limits: HeadLimits,
    head: &mut Head<'a>,
) -> Result<(), Stop> {
    let mut scanner = Scanner::new(bytes);
    let method_name = scanner.method()?;
    let target = scanner.target(limits.target_size_max)?;
    let minor = scanner.version()?;
    let method = Method::from_name(method_name);
    let target = Target::read(target, method)?;
    let mut fields = Fields::default();
    headers.clear();
    while let Some(header) = scanner.header()? {
        if headers.len() == limits.header_count_max {
            return Err(Stop::Refused(Refusal(431)));
        }
        fields.note(header.name(bytes), header.value(bytes))?;
        headers.push(header);
    }
    let host = match (target.authority, fields.host) {
        // RFC 9112, 3.2.2: the authority of an absolute target replaces the header, which has to be
        // present nevertheless.
        (Some(authority), Some(_)) => Some(authority),
        (authority, None) if minor == 0 => authority,
        (None, Some(host)) => Some(host),
        (_, None) => return Err(BAD_REQUEST.into()),
    };
    *head = Head {
        method,
        method_name,
        path: target.path,
        query: target.query,
        host,
        minor,
        headers,
        framing: fields.framing(minor)?,
        keep_alive: fields.keep_alive(minor),
        // RFC 9110, 10.1.1: the expectation of an HTTP/1.0 client is ignored.
        expects_continue: fields.expects_continue && minor > 0,
        bytes: scanner.taken(),
    };
    Ok(())
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The header fields that matter to the server itself.
#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a [u8]>,
    length: Option<u64>,
    coding: Coding,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

impl<'a> Fields<'a> {
    #[inline]
    fn note(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), Refusal> {
        // Filtering by the length of the name first is cheap.
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                if self.host.is_some() {
                    return Err(BAD_REQUEST);
                }
                self.host = Some(read_host(value)?);
            }
            6 if name.eq_ignore_ascii_case(b"expect") => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(Refusal(417));
                }
                self.expects_continue = true;
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for option in tokens(value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                // Two lengths are an attempt at smuggling, even if they are equal.
                if self.length.is_some() {
                    return Err(BAD_REQUEST);
                }
                self.length = Some(read_length(value)?);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                for token in tokens(value) {
                    self.coding = self.coding.then(token)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn framing(&self, minor: u8) -> Result<Framing, Refusal> {
        match (self.coding, self.length) {
            (Coding::None, None) => Ok(Framing::None),
            (Coding::None, Some(length)) => Ok(Framing::Length(length)),
            // Both a length and a coding, or a coding from an HTTP/1.0 client, indicate smuggling
            // (RFC 9112, 6.1 and 6.3).
            _ if self.length.is_some() || minor == 0 => Err(BAD_REQUEST),
            (Coding::Chunked, _) => Ok(Framing::Chunked),
            (Coding::Unknown, _) => Err(Refusal(501)),
        }
    }

    fn keep_alive(&self, minor: u8) -> bool {
        !self.close && (minor > 0 || self.keep_alive)
    }
}

/// The transfer codings parsed so far.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Coding {
    #[default]
    None,
    Chunked,
    Unknown,
}

impl Coding {
    fn then(self, token: &[u8]) -> Result<Self, Refusal> {
        match self {
            // Nothing may follow `chunked`, not even itself (RFC 9112, 6.1).
            Self::Chunked => Err(BAD_REQUEST),
            Self::None if token.eq_ignore_ascii_case(b"chunked") => Ok(Self::Chunked),
            Self::None | Self::Unknown if token.is_empty() => Err(BAD_REQUEST),
            Self::None | Self::Unknown => Ok(Self::Unknown),
        }
    }
}

/// The elements of a list, without the blanks around them.
fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

fn read_length(value: &[u8]) -> Result<u64, Refusal> {
    /// More digits than a u64 has are leading zeros or an error.
    const DIGIT_COUNT_MAX: usize = 20;
    if value.is_empty() || value.len() > DIGIT_COUNT_MAX {
        return Err(BAD_REQUEST);
    }
    value.iter().try_fold(0_u64, |length, &byte| {
        let digit = byte.wrapping_sub(b'0');
        let length = length.checked_mul(10).filter(|_| digit < 10);
        length
            .and_then(|length| length.checked_add(digit.into()))
            .ok_or(BAD_REQUEST)
    })
}

/// The characters of a host name (RFC 3986, 3.2.2).
const HOST: [bool; 256] = table(b"-._~%!$&'()*+,;=");

/// A host and perhaps a port (RFC 3986, 3.2.2). A client sends an empty one if its target has no
/// authority.
fn read_host(value: &[u8]) -> Result<&[u8], Refusal> {
    if value.is_empty() {
        return Ok(value);
    }
    let rest = match value.strip_prefix(b"[") {
        Some(literal) => {
            let end = memchr::memchr(b']', literal).ok_or(BAD_REQUEST)?;
            let (address, rest) = literal.split_at(end);
            let is_part = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
            if !address.contains(&b':') || !address.iter().all(is_part) {
                return Err(BAD_REQUEST);
            }
            &rest[1..]
        }
        None => {
            let is_other = |&byte: &u8| !HOST[usize::from(byte)];
            let size = value.iter().position(is_other).unwrap_or(value.len());
            if size == 0 {
                return Err(BAD_REQUEST);
            }
            &value[size..]
        }
    };
    match rest.split_first() {
        None => Ok(value),
        Some((b':', port)) if port.len() <= 5 && port.iter().all(u8::is_ascii_digit) => Ok(value),
        Some(_) => Err(BAD_REQUEST),
    }
}

/// The parsed request target.
struct Target<'a> {
    path: &'a str,
    query: Option<&'a str>,
    authority: Option<&'a [u8]>,
}

impl<'a> Target<'a> {
    fn read(target: &'a [u8], method: Method) -> Result<Self, Refusal> {
        let target = std::str::from_utf8(target).map_err(|_| BAD_REQUEST)?;
        // This server does not support tunnels.
        if method == Method::Connect {
            return Err(Refusal(501));
        }
        if target.starts_with('/') {
            return Self::split(target, None);
        }
        if target == "*" && method == Method::Options {
            return Self::split(target, None);
        }
        let Some(rest) = strip_scheme(target) else {
            return Err(BAD_REQUEST);
        };
        let authority_size = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(authority_size);
        // User information in a target is often used for phishing (RFC 9110, 4.2.4), so it is
        // refused.
        if authority.is_empty() {
            return Err(BAD_REQUEST);
        }
        let authority = read_host(authority.as_bytes())?;
        // Uses the last slash of the scheme: a path has to be a part of the head, from which it may
        // be copied.
        let root = &target[target.len() - rest.len() - 1..target.len() - rest.len()];
        let found = Self::split(path, Some(authority))?;
        // `http://host` and `http://host?query` have an empty path, which is the root's.
        Ok(match found.path {
            "" => Self {
                path: root,
                ..found
            },
            _ => found,
        })
    }

    fn split(target: &'a str, authority: Option<&'a [u8]>) -> Result<Self, Refusal> {
        let bytes = target.as_bytes();
        // A fragment is used by the client only and never sent. Paths are short, so this loop is
        // faster than a vectorized search.
        let end = bytes.iter().position(|byte| matches!(byte, b'?' | b'#'));
        let (path, query) = match end {
            None => (target, None),
            Some(at) if bytes[at] == b'?' && memchr::memchr(b'#', &bytes[at..]).is_none() => {
                (&target[..at], Some(&target[at + 1..]))
            }
            Some(_) => return Err(BAD_REQUEST),
        };
        Ok(Self {
            path,
            query,
            authority,
        })
    }
}

fn strip_scheme(target: &str) -> Option<&str> {
    ["http://", "https://"].into_iter().find_map(|scheme| {
        let (head, rest) = target.split_at_checked(scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits {
        head_size_max: 4096,
        header_count_max: 16,
        target_size_max: 1000,
    };

    /// The parsed head, in one line.
    fn read(bytes: &[u8]) -> String {
        let mut head = Head::default();
        match parse_head(bytes, &mut Vec::new(), LIMITS, &mut head) {
            Err(Refusal(status)) => status.to_string(),
            Ok(HeadOutcome::Partial) => "partial".into(),
            Ok(HeadOutcome::Whole) => format!(
                "{} {} {:?} {} {:?}{}{}",
                head.method_name.escape_ascii(),
                head.path,
                head.query,
                head.host.unwrap_or(b"-").escape_ascii(),
                head.framing,
                if head.keep_alive { "" } else { " close" },
                if head.expects_continue { " expect" } else { "" },
            ),
        }
    }

    fn check(head: &str, expected: &str) {
        assert_eq!(read(head.as_bytes()), expected, "{head:?}");
    }

    #[test]
    fn heads_mean_one_thing() {
        let host = "Host: h\r\n";
        let get = |headers: &str| format!("GET /a?b=c HTTP/1.1\r\n{host}{headers}\r\n");
        check(&get(""), "GET /a Some(\"b=c\") h None");
        check(
            &get("content-length: 0012\r\n"),
            "GET /a Some(\"b=c\") h Length(12)",
        );
        check(
            &get("Transfer-Encoding: Chunked\r\n"),
            "GET /a Some(\"b=c\") h Chunked",
        );
        check(
            &get("Connection: x, Close\r\n"),
            "GET /a Some(\"b=c\") h None close",
        );
        check(
            &get("Expect: 100-Continue\r\n"),
            "GET /a Some(\"b=c\") h None expect",
        );
        for minor in 1..=9 {
            let head = format!("GET / HTTP/1.{minor}\r\n{host}\r\n");
            check(&head, "GET / None h None");
            // Nothing of HTTP/1.0 holds for it.
            let head = format!(
                "GET / HTTP/1.{minor}\r\n{host}Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
            );
            check(&head, "GET / None h Chunked expect");
            check(&format!("GET / HTTP/1.{minor}\r\n\r\n"), "400");
        }
        check("GET / HTTP/1.0\r\n\r\n", "GET / None - None close");
        check(
            "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\nExpect: 100-continue\r\n\r\n",
            "GET / None - None",
        );
        check("\r\nGET / HTTP/1.1\r\nHost:\r\n\r\n", "GET / None  None");
        check(
            "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
            "OPTIONS * None h None",
        );
        for (target, path) in [
            ("http://other:8080/x?y", "/x Some(\"y\") other:8080"),
            ("HTTP://[::1]", "/ None [::1]"),
            ("http://[::ffff:1.2.3.4]:80/", "/ None [::ffff:1.2.3.4]:80"),
            ("http://a_b%20:/", "/ None a_b%20:"),
            ("https://o?q", "/ Some(\"q\") o"),
        ] {
            check(
                &format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"),
                &format!("GET {path} None"),
            );
        }
    }

    #[test]
    fn heads_that_mean_two_things_are_refused() {
        for (headers, status) in [
            ("", 400),
            ("Host: a\r\nHost: a\r\n", 400),
            ("Host: a b\r\n", 400),
            ("Host: a/b\r\n", 400),
            ("Host: user@a\r\n", 400),
            ("Host: a:b\r\n", 400),
            ("Host: a:1:2\r\n", 400),
            ("Host: a:123456\r\n", 400),
            ("Host: :80\r\n", 400),
            ("Host: a[b]\r\n", 400),
            ("Host: [::1\r\n", 400),
            ("Host: [::1]x\r\n", 400),
            ("Host: [a.b]\r\n", 400),
            ("Host: []\r\n", 400),
            ("Host: \u{e9}\r\n", 400),
            ("Host: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n", 400),
            ("Host: h\r\nContent-Length: 1, 1\r\n", 400),
            ("Host: h\r\nContent-Length: +1\r\n", 400),
            ("Host: h\r\nContent-Length: -1\r\n", 400),
            ("Host: h\r\nContent-Length: 0x1\r\n", 400),
            ("Host: h\r\nContent-Length:\r\n", 400),
            ("Host: h\r\nContent-Length: 1 1\r\n", 400),
            ("Host: h\r\nContent-Length: 18446744073709551616\r\n", 400),
            (
                "Host: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n",
                400,
            ),
            (
                "Host: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n",
                400,
            ),
            ("Host: h\r\nTransfer-Encoding: chunked, chunked\r\n", 400),
            (
                "Host: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                400,
            ),
            ("Host: h\r\nTransfer-Encoding: chunked, gzip\r\n", 400),
            ("Host: h\r\nTransfer-Encoding:\r\n", 400),
            ("Host: h\r\nTransfer-Encoding: gzip, chunked\r\n", 501),
            ("Host: h\r\nTransfer-Encoding: xchunked\r\n", 501),
            ("Host: h\r\nTransfer-Encoding: identity\r\n", 501),
            ("Host: h\r\nTransfer-Encoding : chunked\r\n", 400),
            ("Host: h\r\n Transfer-Encoding: chunked\r\n", 400),
            ("Host: h\r\nA: b\r\n c\r\n", 400),
            ("Host: h\r\nA: b\r\n\tc\r\n", 400),
            ("Host: h\r\nA: b\0c\r\n", 400),
            ("Host: h\r\nA: b\rc\r\n", 400),
            ("Host: h\r\nA\0: b\r\n", 400),
            ("Host: h\r\nA b: c\r\n", 400),
            ("Host: h\r\n: c\r\n", 400),
            ("Host: h\r\nA\r\n", 400),
            ("Host: h\nA: b\r\n", 400),
            ("Host: h\r\nA: b\n", 400),
            ("Host: h\r\nExpect: 200-ok\r\n", 417),
            (&"A: b\r\n".repeat(17), 431),
            (&format!("Host: h\r\nA: {}\r\n", "x".repeat(4096)), 431),
        ] {
            check(
                &format!("POST / HTTP/1.1\r\n{headers}\r\n"),
                &status.to_string(),
            );
        }
        check(
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "400",
        );
        for (line, status) in [
            ("GET / HTTP/2.0\r\n", 505),
            ("GET / HTTP/0.9\r\n", 505),
            ("GET / HTTP/1.10\r\n", 400),
            ("GET / HTTP/1.\r\n", 400),
            ("GET / HTTP/1.x\r\n", 400),
            ("GET / HTTP/.1\r\n", 400),
            ("GET / HTTP/01.1\r\n", 400),
            ("GET / HTTP/10\r\n", 400),
            ("GET / HTTP/\r\n", 400),
            ("GET / HTTP/3\r\n", 505),
            ("GET / HTTP/11\r\n", 400),
            ("GET / http/1.1\r\n", 400),
            ("GET /\r\n", 400),
            ("GET / HTTP/1.1\n", 400),
            ("\nGET / HTTP/1.1\r\n", 400),
            ("\r\n\nGET / HTTP/1.1\r\n", 400),
            ("GET  / HTTP/1.1\r\n", 400),
            ("GET /  HTTP/1.1\r\n", 400),
            ("GET / HTTP/1.1 \r\n", 400),
            ("GET /a b HTTP/1.1\r\n", 400),
            ("GET /\0 HTTP/1.1\r\n", 400),
            ("GET /a#b HTTP/1.1\r\n", 400),
            ("GET /a?b#c HTTP/1.1\r\n", 400),
            ("GET a HTTP/1.1\r\n", 400),
            ("GET * HTTP/1.1\r\n", 400),
            ("GET ftp://h/ HTTP/1.1\r\n", 400),
            ("GET http:///x HTTP/1.1\r\n", 400),
            ("GET http://h:x/ HTTP/1.1\r\n", 400),
            ("GET http://u:p@h/x HTTP/1.1\r\n", 400),
            ("GET http://h#f HTTP/1.1\r\n", 400),
            ("GET http://h/#f HTTP/1.1\r\n", 400),
            ("GET http://h?q#f HTTP/1.1\r\n", 400),
            ("G\0T / HTTP/1.1\r\n", 400),
            ("CONNECT h:1 HTTP/1.1\r\n", 501),
            ("\u{16}\u{3}\u{1}", 400),
        ] {
            check(&format!("{line}Host: h\r\n\r\n"), &status.to_string());
        }
        check(
            &format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(1000)),
            "414",
        );
        check(&format!("GET /{}", "x".repeat(1100)), "414");
        check(&"x".repeat(64), "partial");
        check(&"x".repeat(65), "501");
        check(&format!("GET /{}", "x".repeat(5000)), "414");
        check("GET / HTTP/1.1\r\nHost: h\n\n", "400");
    }

    #[test]
    fn what_is_as_large_as_it_may_be_is_read() {
        let head = |method: usize, target: usize, headers: usize, size: usize| {
            let (method, target) = ("M".repeat(method), "x".repeat(target - 1));
            let others = "A: b\r\n".repeat(headers - 1);
            let head = format!("{method} /{target} HTTP/1.1\r\n{others}Host:h\r\n\r\n");
            head.replacen(':', &format!(":{}", " ".repeat(size - head.len())), 1)
        };
        let status = |head: &str| match &*read(head.as_bytes()) {
            text if text.starts_with('M') => 200,
            text => text.parse().expect(text),
        };
        let cases = [
            (64, 1000, 16, 4096, 200),
            (65, 1000, 16, 4096, 501),
            (64, 1001, 16, 4096, 414),
            (64, 1000, 17, 4096, 431),
            (64, 1000, 16, 4097, 431),
        ];
        for (method, target, headers, size, expected) in cases {
            let head = head(method, target, headers, size);
            assert_eq!(status(&head), expected, "{head:?}");
            // What follows it does not count.
            assert_eq!(status(&(head + "GET")), expected);
        }
    }

    #[test]
    fn a_head_that_is_cut_is_partial() {
        let head = "\r\nGET /a?b=c HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n";
        for size in 0..head.len() {
            check(&head[..size], "partial");
        }
    }
}
