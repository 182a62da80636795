//! Lines, heads and trailers of answers, parsed strictly by RFC 9112.

use memchr::{memchr, memchr2};

/// The size limit of a head, a chunk's line or a trailer, far above that of any server under
/// measurement.
pub(super) const HEAD_SIZE_MAX: usize = 64 << 10;

/// How an answer breaks the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// A parsed head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) content_length: Option<u64>,
    pub(super) is_chunked: bool,
    pub(super) closes: bool,
}

/// A line without its terminator, and its size including it.
pub(super) fn line(input: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    let Some(end) = memchr(b'\n', input) else {
        if input.len() > HEAD_SIZE_MAX {
            return Err(Malformed("a line that does not end"));
        }
        return Ok(None);
    };
    let Some(line) = input[..end].strip_suffix(b"\r") else {
        return Err(Malformed("a line that ends without a carriage return"));
    };
    if memchr2(b'\r', 0, line).is_some() {
        return Err(Malformed("a carriage return or a zero byte within a line"));
    }
    Ok(Some((line, end + 1)))
}

/// A head and its size, if it is complete.
pub(super) fn head(input: &[u8]) -> Result<Option<(Head, usize)>, Malformed> {
    let Some((status_line, mut at)) = line(input)? else {
        return Ok(None);
    };
    let mut head = status(status_line)?;
    let is_1_0 = status_line[7] == b'0';
    let mut keeps = false;
    loop {
        let Some((line, size)) = line(&input[at..])? else {
            return Ok(None);
        };
        at += size;
        if at > HEAD_SIZE_MAX {
            return Err(Malformed("a head over 64 KiB"));
        }
        if line.is_empty() {
            break;
        }
        let (name, value) = field(line)?;
        if name.eq_ignore_ascii_case(b"content-length") {
            if head.content_length.is_some() {
                return Err(Malformed("two fields Content-Length"));
            }
            head.content_length = Some(content_length(value)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if head.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Malformed("a Transfer-Encoding other than chunked"));
            }
            head.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"connection") {
            for word in value.split(|&byte| byte == b',') {
                head.closes |= word.trim_ascii().eq_ignore_ascii_case(b"close");
                keeps |= word.trim_ascii().eq_ignore_ascii_case(b"keep-alive");
            }
        }
    }
    if head.is_chunked && head.content_length.is_some() {
        return Err(Malformed("both Content-Length and Transfer-Encoding"));
    }
    if head.is_chunked && (is_1_0 || head.status < 200 || head.status == 204) {
        return Err(Malformed("chunks where none are allowed"));
    }
    if head.content_length.is_some() && (head.status < 200 || head.status == 204) {
        return Err(Malformed("a Content-Length where none is allowed"));
    }
    head.closes |= is_1_0 && !keeps;
    Ok(Some((head, at)))
}

fn status(line: &[u8]) -> Result<Head, Malformed> {
    let wrong = Malformed("a status line that is not one of HTTP/1.1");
    let [
        b'H',
        b'T',
        b'T',
        b'P',
        b'/',
        b'1',
        b'.',
        b'0' | b'1',
        b' ',
        digits @ ..,
    ] = line
    else {
        return Err(wrong);
    };
    let [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b' ', ..] = digits else {
        return Err(wrong);
    };
    let digit = |byte: &u8| u16::from(byte - b'0');
    Ok(Head {
        status: digit(a) * 100 + digit(b) * 10 + digit(c),
        ..Head::default()
    })
}

fn field(line: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let colon = memchr(b':', line).ok_or(Malformed("a field without a colon"))?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_token = |&byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    // A line that continues the one before begins with a blank, which is not allowed in a name.
    if name.is_empty() || !name.iter().all(is_token) {
        return Err(Malformed("a field without a valid name"));
    }
    if value
        .iter()
        .any(|&byte| byte.is_ascii_control() && byte != b'\t')
    {
        return Err(Malformed("a control character within a field"));
    }
    Ok((name, value.trim_ascii()))
}

fn content_length(value: &[u8]) -> Result<u64, Malformed> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).unwrap_or_default();
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or(Malformed("a Content-Length that is not a number"))
}

pub(super) fn chunk_size(line: &[u8]) -> Result<u64, Malformed> {
    let digits = match memchr(b';', line) {
        Some(end) => line[..end].trim_ascii_end(),
        None => line,
    };
    let is_number =
        !digits.is_empty() && digits.len() <= 15 && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).unwrap_or_default();
    let number = u64::from_str_radix(text, 16).ok().filter(|_| is_number);
    number.ok_or(Malformed("the size of a chunk that is not a number"))
}

/// The size of the fields after the last chunk, including the empty line, if they are complete.
pub(super) fn trailer(input: &[u8]) -> Result<Option<usize>, Malformed> {
    let mut at = 0;
    loop {
        let Some((line, size)) = line(&input[at..])? else {
            return Ok(None);
        };
        at += size;
        if at > HEAD_SIZE_MAX {
            return Err(Malformed("a trailer over 64 KiB"));
        }
        if line.is_empty() {
            return Ok(Some(at));
        }
        field(line)?;
    }
}
