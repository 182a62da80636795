//! The body of the fuzz target over what clients send.

use crate::parse::{
    ChunkDecoder, Framing, Head, HeadLimits, HeadOutcome, Progress, Refusal, parse_head,
};

/// Small limits, so that they are reached.
const LIMITS: HeadLimits = HeadLimits {
    head_size_max: 400,
    header_count_max: 8,
    target_size_max: 60,
};

/// Checks for any input that nothing panics, and that the result does not depend on where the
/// stream is cut.
///
/// The first byte determines the cuts.
pub fn fuzz_requests(data: &[u8]) {
    let Some((&cut, stream)) = data.split_first() else {
        return;
    };
    let whole = run(stream, usize::MAX);
    let cut = run(stream, usize::from(cut) + 1);
    assert_eq!(whole, cut, "requests depend on where the stream was cut");
}

/// What the server parses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Trace {
    /// Method, path, query, host and headers; and the body.
    requests: Vec<(String, Vec<u8>)>,
    /// Only whether, not why: a limit and a wrong byte may coincide, so the reason may depend on
    /// the cuts.
    is_refused: bool,
}

fn run(stream: &[u8], piece_size: usize) -> Trace {
    let mut trace = Trace::default();
    let mut input = Vec::new();
    let mut body: Option<Body> = None;
    for piece in stream.chunks(piece_size.min(stream.len()).max(1)) {
        input.extend_from_slice(piece);
        match consume(&input, &mut body, &mut trace.requests) {
            Ok(used) => drop(input.drain(..used)),
            Err(Refusal(status)) => {
                assert!([400, 413, 414, 417, 431, 501, 505].contains(&status));
                trace.is_refused = true;
                return trace;
            }
        }
    }
    trace
}

enum Body {
    Length(u64),
    Chunked(ChunkDecoder),
}

fn consume(
    input: &[u8],
    body: &mut Option<Body>,
    requests: &mut Vec<(String, Vec<u8>)>,
) -> Result<usize, Refusal> {
    let mut at = 0;
    while at < input.len() {
        let progress = match body {
            None => {
                let Some(size) = begin(&input[at..], body, requests)? else {
                    break;
                };
                at += size;
                continue;
            }
            Some(Body::Chunked(decoder)) => decoder.next(input, at)?,
            Some(Body::Length(left)) => {
                let size = (*left).min((input.len() - at) as u64);
                *left -= size;
                let to = at + size as usize;
                match size {
                    0 => Progress::End { at },
                    _ => Progress::Data { from: at, to },
                }
            }
        };
        match progress {
            Progress::Data { from, to } => {
                assert!(at <= from && from < to && to <= input.len());
                let (_, data) = requests.last_mut().expect("a body has a head");
                data.extend_from_slice(&input[from..to]);
                at = to;
            }
            Progress::More => at = input.len(),
            Progress::End { at: end } => {
                at = end;
                *body = None;
            }
        }
    }
    Ok(at)
}

fn begin(
    bytes: &[u8],
    body: &mut Option<Body>,
    requests: &mut Vec<(String, Vec<u8>)>,
) -> Result<Option<usize>, Refusal> {
    let mut space = Vec::new();
    let mut head = Head::default();
    if parse_head(bytes, &mut space, LIMITS, &mut head)? == HeadOutcome::Partial {
        return Ok(None);
    }
    assert!(head.path.starts_with('/') || head.path == "*");
    assert!(head.minor == 0 || head.host.is_some());
    let mut text = format!(
        "{} {} {:?} {:?} {}",
        head.method_name.escape_ascii(),
        head.path,
        head.query,
        head.host
            .map(<[u8]>::escape_ascii)
            .map(|host| host.to_string()),
        head.keep_alive
    );
    for (name, value) in head.fields() {
        text += &format!(" {}={}", name.escape_ascii(), value.escape_ascii());
    }
    requests.push((text, Vec::new()));
    *body = match head.framing {
        Framing::None => None,
        Framing::Length(length) => Some(Body::Length(length)),
        Framing::Chunked => Some(Body::Chunked(ChunkDecoder::new())),
    };
    Ok(Some(head.bytes.len()))
}
