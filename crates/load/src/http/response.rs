//! Parses answers strictly by RFC 9112: an answer that a careful client would refuse counts as a
//! failure.

use super::head::{Head, Malformed, chunk_size, head, line, trailer};

/// An answer that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    /// Whether the server accepts no other request on the connection.
    pub(super) closes: bool,
    /// Whether the body matches the expected one, if any.
    pub(super) is_expected: bool,
}

/// The properties of a request that its answer depends on.
pub(super) struct SentRequest<'a> {
    /// Whether it was a HEAD.
    pub(super) is_head: bool,
    /// The expected body.
    pub(super) body: Option<&'a [u8]>,
    /// The head of an earlier answer to the same template.
    pub(super) known: &'a mut KnownHead,
}

/// The last head that was parsed. Servers repeat their head until the date changes, and equal bytes
/// mean the same: comparing costs a tenth of parsing.
#[derive(Debug, Default)]
pub(super) struct KnownHead {
    /// Including its empty line, so that input that begins with these bytes begins with a complete
    /// head.
    bytes: Vec<u8>,
    head: Head,
}

/// Reads the answers of one connection.
#[derive(Debug, Default)]
pub(super) struct Reader {
    part: Part,
    status: u16,
    closes: bool,
    body_size: u64,
    differs: bool,
}

/// The next part of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    /// This many remaining bytes of the body.
    Sized(u64),
    ChunkSize,
    /// This many remaining bytes of the chunk, and its line end.
    Chunk(u64),
    ChunkEnd,
    Trailer,
    /// A body that ends with the connection.
    UntilClose,
}

impl Reader {
    /// Parses up to the end of an answer. Returns how many bytes it consumed, and the answer if it
    /// is complete. The rest has to be passed again, together with more input.
    pub(super) fn read(
        &mut self,
        input: &[u8],
        asked: &mut SentRequest<'_>,
    ) -> Result<(usize, Option<Response>), Malformed> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.part {
                Part::Head => {
                    let Some(size) = self.head(rest, asked)? else {
                        return Ok((at, None));
                    };
                    at += size;
                }
                Part::Sized(left) => {
                    let taken = self.body(rest, left, asked);
                    at += taken;
                    self.part = Part::Sized(left - taken as u64);
                }
                Part::ChunkSize => {
                    let Some((line, size)) = line(rest)? else {
                        return Ok((at, None));
                    };
                    self.part = match chunk_size(line)? {
                        0 => Part::Trailer,
                        size => Part::Chunk(size),
                    };
                    at += size;
                }
                Part::Chunk(left) => {
                    let taken = self.body(rest, left, asked);
                    at += taken;
                    self.part = match left - taken as u64 {
                        0 => Part::ChunkEnd,
                        left => Part::Chunk(left),
                    };
                }
                Part::ChunkEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        at += 2;
                        self.part = Part::ChunkSize;
                    }
                    [] | [b'\r'] => return Ok((at, None)),
                    _ => return Err(Malformed("a chunk longer than it says")),
                },
                Part::Trailer => {
                    let Some(size) = trailer(rest)? else {
                        return Ok((at, None));
                    };
                    at += size;
                    self.part = Part::Sized(0);
                }
                Part::UntilClose => {
                    let taken = self.body(rest, u64::MAX, asked);
                    return Ok((at + taken, None));
                }
            }
            if self.part == Part::Sized(0) {
                return Ok((at, Some(self.finish(asked))));
            }
            if at == input.len() {
                return Ok((at, None));
            }
        }
    }

    /// Handles the end of the connection; returns the answer if it ends that way.
    pub(super) fn end(&mut self, asked: &mut SentRequest<'_>) -> Option<Response> {
        (self.part == Part::UntilClose).then(|| self.finish(asked))
    }

    /// Whether the answer to a request has begun.
    pub(super) fn is_within(&self) -> bool {
        self.part != Part::Head
    }

    /// The size of the head, if it is complete.
    fn head(
        &mut self,
        input: &[u8],
        asked: &mut SentRequest<'_>,
    ) -> Result<Option<usize>, Malformed> {
        let known = &mut *asked.known;
        if known.bytes.is_empty() || !input.starts_with(&known.bytes) {
            let Some((head, size)) = head(input)? else {
                return Ok(None);
            };
            known.head = head;
            known.bytes.clear();
            known.bytes.extend_from_slice(&input[..size]);
        }
        let head = known.head;
        let size = known.bytes.len();
        match head.status {
            101 => {
                return Err(Malformed(
                    "101 to a request that asked for no other protocol",
                ));
            }
            // The final answer follows.
            100..200 => return Ok(Some(size)),
            _ => {}
        }
        self.status = head.status;
        self.closes = head.closes;
        let has_no_body = asked.is_head || matches!(head.status, 204 | 304);
        self.part = match head.content_length {
            _ if has_no_body => Part::Sized(0),
            _ if head.is_chunked => Part::ChunkSize,
            Some(length) => Part::Sized(length),
            None => Part::UntilClose,
        };
        Ok(Some(size))
    }

    /// Consumes at most `left` bytes of the body.
    fn body(&mut self, input: &[u8], left: u64, asked: &SentRequest<'_>) -> usize {
        let taken = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if let Some(expected) = asked.body {
            let from = usize::try_from(self.body_size).unwrap_or(usize::MAX);
            self.differs |= expected.get(from..from.saturating_add(taken)) != Some(&input[..taken]);
        }
        self.body_size += taken as u64;
        taken
    }

    fn finish(&mut self, asked: &SentRequest<'_>) -> Response {
        let is_whole = asked.is_head
            || asked
                .body
                .is_none_or(|expected| expected.len() as u64 == self.body_size);
        let response = Response {
            status: self.status,
            closes: self.closes || self.part == Part::UntilClose,
            is_expected: is_whole && !self.differs,
        };
        *self = Self::default();
        response
    }
}

#[cfg(test)]
mod tests {
    use super::super::head::HEAD_SIZE_MAX;
    use super::*;

    /// Reads `text` in pieces of `step` bytes; what the connection's end brings is the last.
    fn read(text: &[u8], step: usize, is_head: bool, body: Option<&[u8]>) -> Vec<Said> {
        let mut reader = Reader::default();
        let mut known = KnownHead::default();
        let mut said = Vec::new();
        let (mut begin, mut end) = (0, 0);
        let mut asked = SentRequest {
            is_head,
            body,
            known: &mut known,
        };
        while end < text.len() {
            end = text.len().min(end + step);
            while begin < end {
                match reader.read(&text[begin..end], &mut asked) {
                    Ok((taken, response)) => {
                        begin += taken;
                        match response {
                            Some(response) => said.push(Ok(response)),
                            None => break,
                        }
                    }
                    Err(error) => {
                        said.push(Err(error.0));
                        return said;
                    }
                }
            }
        }
        said.extend(reader.end(&mut asked).map(Ok));
        said
    }

    type Said = Result<Response, &'static str>;

    fn answer(status: u16) -> Said {
        Ok(Response {
            status,
            closes: false,
            is_expected: true,
        })
    }

    fn closing(status: u16) -> Said {
        Ok(Response {
            closes: true,
            ..answer(status).unwrap()
        })
    }

    fn check(text: &str, body: &str, expected: &[Said]) {
        // Split into pieces of every size, up to the whole.
        for step in 1..=text.len() {
            let body = Some(body.as_bytes());
            assert_eq!(
                read(text.as_bytes(), step, false, body),
                expected,
                "{text:?} by {step}"
            );
        }
    }

    #[test]
    fn answers_are_framed_as_they_say() {
        let sized = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        check(sized, "ok", &[answer(200)]);
        check(&sized.repeat(3), "ok", &[answer(200); 3]);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n";
        let chunks = "1\r\no\r\n01;a=b\r\nk\r\n0\r\n\r\n";
        check(
            &format!("{chunked}{chunks}{sized}"),
            "ok",
            &[answer(200); 2],
        );
        let trailed = "2\r\nok\r\n0\r\nA: b\r\nB: c\r\n\r\n";
        check(
            &format!("{chunked}{trailed}{sized}"),
            "ok",
            &[answer(200); 2],
        );
        let until_close = "HTTP/1.1 200 \r\nServer: x\r\n\r\nok";
        check(until_close, "ok", &[closing(200)]);
        let empty =
            "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n";
        check(empty, "", &[answer(204), answer(304)]);
        let interim = format!("HTTP/1.1 100 Continue\r\n\r\n{sized}");
        check(&interim, "ok", &[answer(200)]);
        let closes = "HTTP/1.1 503 Sorry\r\nconnection: x, Close\r\ncontent-length:0\r\n\r\n";
        check(closes, "", &[closing(503)]);
        let old = "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok";
        check(old, "ok", &[closing(200)]);
        let old_kept = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok";
        check(old_kept, "ok", &[answer(200)]);
    }

    #[test]
    fn the_answer_to_head_has_no_body() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n";
        assert_eq!(read(text, 7, true, None), [answer(200)]);
    }

    #[test]
    fn another_body_than_expected_is_seen() {
        for (body, text) in [
            ("ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"),
            ("ok", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\no"),
            ("ok", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok!"),
            (
                "ok",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nx\r\n0\r\n\r\n",
            ),
        ] {
            for step in 1..text.len() {
                let said = read(text.as_bytes(), step, false, Some(body.as_bytes()));
                assert!(!said[0].unwrap().is_expected, "{text:?} by {step}");
            }
        }
    }

    #[test]
    fn broken_answers_are_refused() {
        let ok = "HTTP/1.1 200 OK\r\n";
        for (text, expected) in [
            ("HTTP/1.1 200\r\n\r\n".into(), "status line"),
            ("HTTP/2 200 OK\r\n\r\n".into(), "status line"),
            ("HTTP/1.1 020 OK\r\n\r\n".into(), "status line"),
            ("HTTP/1.1 200 OK\n\n".into(), "carriage return"),
            (format!("{ok}A\r\n\r\n"), "colon"),
            (format!("{ok}A : b\r\n\r\n"), "name"),
            (format!("{ok}A: b\r\n c: d\r\n\r\n"), "name"),
            (format!("{ok}A: b\0c\r\n\r\n"), "zero"),
            (format!("{ok}A: b\x01c\r\n\r\n"), "control"),
            (format!("{ok}Content-Length: +2\r\n\r\n"), "not a number"),
            (format!("{ok}Content-Length: 2, 2\r\n\r\n"), "not a number"),
            (
                format!("{ok}Content-Length: 99999999999999999999\r\n\r\n"),
                "not a number",
            ),
            (
                format!("{ok}Content-Length: 2\r\nContent-Length: 2\r\n\r\n"),
                "two fields",
            ),
            (
                format!("{ok}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"),
                "both",
            ),
            (
                format!("{ok}Transfer-Encoding: gzip\r\n\r\n"),
                "other than chunked",
            ),
            (
                format!("{ok}Transfer-Encoding: chunked\r\n\r\nx\r\n"),
                "not a number",
            ),
            (
                format!("{ok}Transfer-Encoding: chunked\r\n\r\n\r\n"),
                "not a number",
            ),
            (
                format!("{ok}Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n"),
                "longer",
            ),
            (
                "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".into(),
                "chunks",
            ),
            (
                "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n".into(),
                "Content-Length",
            ),
            ("HTTP/1.1 101 Switching\r\n\r\n".into(), "101"),
            (
                format!("{ok}A: {}", "b".repeat(HEAD_SIZE_MAX)),
                "does not end",
            ),
            (
                format!("{ok}{}", "A: b\r\n".repeat(HEAD_SIZE_MAX / 6)),
                "64 KiB",
            ),
        ] {
            for step in [1, 3, text.len()] {
                if text.len() > HEAD_SIZE_MAX && step < text.len() {
                    continue;
                }
                let said = read(text.as_bytes(), step, false, None);
                let [Err(error)] = said[..] else {
                    panic!("{text:?} by {step}: {said:?}");
                };
                assert!(error.contains(expected), "{text:?}: {error}");
            }
        }
    }
}
