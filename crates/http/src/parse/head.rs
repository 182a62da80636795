//! The head of a request: request line and headers.
//!
//! httparse splits it and refuses what the grammar does. It is generous in one thing, bare line
//! feeds, and what the headers mean is not its business; both are looked after here.

use std::mem::MaybeUninit;

use httparse::{Error, Header, Status};

use super::{BAD_REQUEST, Refusal};
use crate::Method;
use crate::options::HEADER_COUNT_LIMIT;

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

/// A head that is whole and means one thing.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) method: Method,
    pub(crate) method_name: &'a str,
    /// Begins with `/`, or is `*`.
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    /// `None` only for HTTP/1.0.
    pub(crate) host: Option<&'a str>,
    pub(crate) minor: u8,
    pub(crate) headers: &'a [Header<'a>],
    pub(crate) framing: Framing,
    /// Whether the client wants the connection to go on.
    pub(crate) keep_alive: bool,
    pub(crate) expects_continue: bool,
    /// The head itself, the empty line included.
    pub(crate) bytes: &'a [u8],
}

pub(crate) enum Outcome<'a> {
    Whole(Head<'a>),
    Partial,
}

/// Space for the headers of one head, on its caller's stack.
pub(crate) type Headers<'a> = [MaybeUninit<Header<'a>>; HEADER_COUNT_LIMIT];

pub(crate) fn headers<'a>() -> Headers<'a> {
    [const { MaybeUninit::uninit() }; HEADER_COUNT_LIMIT]
}

/// Reads the head that `bytes` begin with.
pub(crate) fn parse_head<'a>(
    bytes: &'a [u8],
    headers: &'a mut Headers<'a>,
    limits: HeadLimits,
) -> Result<Outcome<'a>, Refusal> {
    let mut request = httparse::Request::new(&mut []);
    let space = &mut headers[..limits.header_count_max];
    let size = match request.parse_with_uninit_headers(bytes, space) {
        Ok(Status::Complete(size)) => size,
        Ok(Status::Partial) => return partial(bytes, limits).map(|()| Outcome::Partial),
        Err(error) => return Err(refusal(error, bytes, limits)),
    };
    if size > limits.head_size_max {
        return Err(Refusal(431));
    }
    let (Some(method_name), Some(target), Some(minor)) =
        (request.method, request.path, request.version)
    else {
        return Err(BAD_REQUEST);
    };
    // The second of them says so of a head that comes in pieces, and must not depend on the pieces.
    if target.len() > limits.target_size_max || is_target_long(bytes, limits) {
        return Err(Refusal(414));
    }
    let headers: &'a [Header<'a>] = request.headers;
    check_line_ends(&bytes[..size], method_name, headers)?;
    let fields = Fields::read(headers, minor)?;
    let method = Method::from_name(method_name);
    let target = Target::read(target, method)?;
    let host = match (target.authority, fields.host) {
        // RFC 9112, 3.2.2: the authority of an absolute target replaces the header, which has to
        // be there all the same.
        (Some(authority), Some(_)) => Some(authority),
        (authority, None) if minor == 0 => authority,
        (None, Some(host)) => Some(host),
        (_, None) => return Err(BAD_REQUEST),
    };
    Ok(Outcome::Whole(Head {
        method,
        method_name,
        path: target.path,
        query: target.query,
        host,
        minor,
        headers,
        framing: fields.framing,
        keep_alive: fields.keep_alive(minor),
        // RFC 9110, 10.1.1: the expectation of an HTTP/1.0 client is ignored.
        expects_continue: fields.expects_continue && minor > 0,
        bytes: &bytes[..size],
    }))
}

/// Whether more bytes can still make it a head.
fn partial(bytes: &[u8], limits: HeadLimits) -> Result<(), Refusal> {
    if bytes.len() >= limits.head_size_max {
        return Err(match is_target_long(bytes, limits) {
            true => Refusal(414),
            false => Refusal(431),
        });
    }
    if is_target_long(bytes, limits) {
        return Err(Refusal(414));
    }
    // A bare line feed can be seen now; a client that sends them would wait for an answer.
    match memchr::memchr_iter(b'\n', bytes).any(|at| at == 0 || bytes[at - 1] != b'\r') {
        true => Err(BAD_REQUEST),
        false => Ok(()),
    }
}

/// Whether the first line goes on behind the longest target that is allowed.
fn is_target_long(bytes: &[u8], limits: HeadLimits) -> bool {
    /// Methods are short words; this is room for the longest registered one twice.
    const METHOD_SIZE_MAX: usize = 64;
    let size_max = limits.target_size_max + METHOD_SIZE_MAX;
    bytes.len() > size_max && memchr::memchr(b'\n', &bytes[..size_max]).is_none()
}

fn refusal(error: Error, bytes: &[u8], limits: HeadLimits) -> Refusal {
    match error {
        Error::TooManyHeaders => Refusal(431),
        Error::Version if is_other_version(bytes) => Refusal(505),
        _ if is_target_long(bytes, limits) => Refusal(414),
        _ => BAD_REQUEST,
    }
}

/// Whether the first line ends in a version of HTTP that we do not speak, but somebody may.
fn is_other_version(bytes: &[u8]) -> bool {
    let line_size = memchr::memchr2(b'\r', b'\n', bytes).unwrap_or(bytes.len());
    let line = &bytes[..line_size];
    let mut parts = line.split(|&byte| byte == b' ');
    let (Some(_), Some(_), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    match version.strip_prefix(b"HTTP/") {
        Some([major, b'.', minor]) => major.is_ascii_digit() && minor.is_ascii_digit(),
        Some([major]) => major.is_ascii_digit(),
        _ => false,
    }
}

/// Every line has to end in CR LF: whoever takes a bare LF for an end, and whoever does not, see
/// different requests in the same bytes.
fn check_line_ends(head: &[u8], method_name: &str, headers: &[Header<'_>]) -> Result<(), Refusal> {
    let offset = |part: &str| part.as_ptr() as usize - head.as_ptr() as usize;
    // Empty lines before the request line are skipped by the parser.
    let is_begin_strict = head[..offset(method_name)]
        .chunks(2)
        .all(|line| line == b"\r\n");
    // The line before each header ends right before its name, and the last one before the end.
    let are_strict = headers
        .iter()
        .all(|header| head[..offset(header.name)].ends_with(b"\r\n"));
    match is_begin_strict && are_strict && head.ends_with(b"\r\n\r\n") {
        true => Ok(()),
        false => Err(BAD_REQUEST),
    }
}

/// What the headers say that matters to the server itself.
#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a str>,
    framing: Framing,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

impl<'a> Fields<'a> {
    fn read(headers: &[Header<'a>], minor: u8) -> Result<Self, Refusal> {
        let mut fields = Self::default();
        let mut coding = Coding::None;
        for header in headers {
            // The lengths of the names that matter are a cheap sieve.
            match header.name.len() {
                4 if header.name.eq_ignore_ascii_case("host") => {
                    if fields.host.is_some() {
                        return Err(BAD_REQUEST);
                    }
                    fields.host = Some(read_host(header.value)?);
                }
                6 if header.name.eq_ignore_ascii_case("expect") => {
                    if !header.value.eq_ignore_ascii_case(b"100-continue") {
                        return Err(Refusal(417));
                    }
                    fields.expects_continue = true;
                }
                10 if header.name.eq_ignore_ascii_case("connection") => {
                    for option in tokens(header.value) {
                        fields.close |= option.eq_ignore_ascii_case(b"close");
                        fields.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    }
                }
                14 if header.name.eq_ignore_ascii_case("content-length") => {
                    // Two lengths are an attempt to smuggle, even where they agree.
                    if fields.framing != Framing::None {
                        return Err(BAD_REQUEST);
                    }
                    fields.framing = Framing::Length(read_length(header.value)?);
                }
                17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                    for token in tokens(header.value) {
                        coding = coding.then(token)?;
                    }
                    if coding == Coding::None {
                        return Err(BAD_REQUEST);
                    }
                }
                _ => {}
            }
        }
        match coding {
            Coding::None => {}
            // A length beside a coding, or a coding from a client of HTTP/1.0, is what smuggling
            // looks like (RFC 9112, 6.1 and 6.3).
            _ if fields.framing != Framing::None || minor == 0 => return Err(BAD_REQUEST),
            Coding::Chunked => fields.framing = Framing::Chunked,
            Coding::Unknown => return Err(Refusal(501)),
        }
        Ok(fields)
    }

    fn keep_alive(&self, minor: u8) -> bool {
        !self.close && (minor > 0 || self.keep_alive)
    }
}

/// The transfer codings so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coding {
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
    /// More digits than a u64 has are leading zeros or nonsense.
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

/// A host and perhaps a port (RFC 3986, 3.2.2). An empty one is what a client sends whose target
/// has no authority.
fn read_host(value: &[u8]) -> Result<&str, Refusal> {
    let text = std::str::from_utf8(value).map_err(|_| BAD_REQUEST)?;
    if text.is_empty() {
        return Ok(text);
    }
    let (is_host, rest) = match text.strip_prefix('[') {
        Some(literal) => {
            let (address, rest) = literal.split_once(']').ok_or(BAD_REQUEST)?;
            let is_digit = |byte: u8| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.';
            let is_host = address.contains(':') && address.bytes().all(is_digit);
            (is_host, rest)
        }
        None => {
            let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            let is_part =
                |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte);
            (!name.is_empty() && name.bytes().all(is_part), rest)
        }
    };
    let is_port = match rest.strip_prefix(':') {
        Some(port) => port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit()),
        None => rest.is_empty(),
    };
    match is_host && is_port {
        true => Ok(text),
        false => Err(BAD_REQUEST),
    }
}

/// The request target, taken apart.
struct Target<'a> {
    path: &'a str,
    query: Option<&'a str>,
    authority: Option<&'a str>,
}

impl<'a> Target<'a> {
    fn read(target: &'a str, method: Method) -> Result<Self, Refusal> {
        // A tunnel is a thing that this server does not do.
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
        // Names and passwords in a target are a trap for whoever reads it (RFC 9110, 4.2.4).
        if authority.is_empty() {
            return Err(BAD_REQUEST);
        }
        let authority = read_host(authority.as_bytes())?;
        // The last slash of the scheme: a path has to lie in the head, from which it may be copied.
        let root = &target[target.len() - rest.len() - 1..target.len() - rest.len()];
        match path.is_empty() {
            true => Self::split(root, Some(authority)),
            // `http://host?query` has an empty path, which is the root's.
            false if path.starts_with('?') => Ok(Self {
                path: root,
                query: Some(&path[1..]),
                authority: Some(authority),
            }),
            false => Self::split(path, Some(authority)),
        }
    }

    fn split(target: &'a str, authority: Option<&'a str>) -> Result<Self, Refusal> {
        let bytes = target.as_bytes();
        // A fragment is the client's own business and never sent.
        let (path, query) = match memchr::memchr2(b'?', b'#', bytes) {
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

    /// What the server understands, in one line.
    fn read(bytes: &[u8]) -> String {
        let mut space = headers();
        match parse_head(bytes, &mut space, LIMITS) {
            Err(Refusal(status)) => status.to_string(),
            Ok(Outcome::Partial) => "partial".into(),
            Ok(Outcome::Whole(head)) => format!(
                "{} {} {:?} {} {:?}{}{}",
                head.method_name,
                head.path,
                head.query,
                head.host.unwrap_or("-"),
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
            ("GET / HTTP/1.2\r\n", 505),
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
        check(&format!("GET /{}", "x".repeat(5000)), "414");
        check("GET / HTTP/1.1\r\nHost: h\n\n", "400");
    }

    #[test]
    fn a_head_that_is_cut_is_partial() {
        let head = "\r\nGET /a?b=c HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n";
        for size in 0..head.len() {
            check(&head[..size], "partial");
        }
    }
}
