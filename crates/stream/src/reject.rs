//! Lines that could not be read and records that could not be written.

use std::borrow::Cow;
use std::sync::Arc;

/// The number of rejects that are kept to be shown; the others are only counted.
const SHOWN_MAX: usize = 5;

/// How many bytes of a rejected line are shown.
const EXCERPT_SIZE_MAX: usize = 120;

/// The number of bytes that are kept of a line beyond the size limit.
pub(crate) const LONG_LINE_KEPT_SIZE: usize = 1024;

/// One rejected line or record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The source of the line, or the partition of a message; empty until it is set.
    pub source: Arc<str>,
    /// The line, counted from 1 in its source; of a record of several lines, the first. Of a
    /// message, its position in the partition.
    pub line: u64,
    /// Why, as one lower-case phrase.
    pub reason: Cow<'static, str>,
    /// The beginning of the line, with invalid UTF-8 replaced.
    pub excerpt: String,
}

/// Counts rejects, keeps the first five to be shown, and optionally the bytes of all of them.
///
/// A worker fills one for each chunk; the run appends them in the order of the input.
#[derive(Clone, Debug, Default)]
pub struct Rejects {
    count: u64,
    first: Vec<Reject>,
    raw: Option<Vec<u8>>,
    each: Option<Vec<EachReject>>,
}

/// A reject of which also the reason is written.
#[derive(Clone, Debug)]
pub(crate) struct EachReject {
    pub(crate) line: u64,
    pub(crate) reason: Cow<'static, str>,
    /// The bytes of the rejected line, without its line end.
    pub(crate) bytes: Vec<u8>,
}

impl Rejects {
    /// Counts, and keeps the first five.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also keeps the bytes of every rejected line, each ended by a newline.
    pub fn with_raw() -> Self {
        Self {
            raw: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Also keeps the line, the reason and the bytes of every reject.
    pub(crate) fn with_each() -> Self {
        Self {
            each: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Adds a rejected line, given without its line end.
    pub fn push(&mut self, line: u64, reason: impl Into<Cow<'static, str>>, bytes: &[u8]) {
        self.count += 1;
        let reason = reason.into();
        if let Some(each) = &mut self.each {
            each.push(EachReject {
                line,
                reason: reason.clone(),
                bytes: bytes.to_vec(),
            });
        }
        if self.first.len() < SHOWN_MAX {
            self.first.push(Reject {
                source: Arc::default(),
                line,
                reason,
                excerpt: excerpt(bytes),
            });
        }
        if let Some(raw) = &mut self.raw {
            raw.extend_from_slice(bytes);
            raw.push(b'\n');
        }
    }

    /// Adds a line that is longer than `size_max` bytes; `bytes` is the line or its beginning.
    ///
    /// Only its first 1,024 bytes are kept, so the result does not depend on where the length was
    /// noticed.
    pub fn push_too_long(&mut self, line: u64, size_max: usize, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(LONG_LINE_KEPT_SIZE)];
        self.push(line, format!("longer than {size_max} bytes"), bytes);
    }

    /// Appends the rejects of `later`, from `source` unless they name another one, and leaves
    /// `later` empty.
    ///
    /// Raw bytes are moved if both sides keep them.
    pub fn append(&mut self, later: &mut Self, source: &Arc<str>) {
        self.count += std::mem::take(&mut later.count);
        let room = SHOWN_MAX - self.first.len();
        self.first
            .extend(later.first.drain(..).take(room).map(|mut reject| {
                if reject.source.is_empty() {
                    reject.source = source.clone();
                }
                reject
            }));
        if let Some(bytes) = &mut later.raw {
            if let Some(raw) = &mut self.raw {
                raw.extend_from_slice(bytes);
            }
            bytes.clear();
        }
    }

    /// The number of rejects.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first rejects, at most five.
    pub fn first(&self) -> &[Reject] {
        &self.first
    }

    /// Replaces the line of each shown reject by a source and a position there.
    pub(crate) fn locate(&mut self, mut place: impl FnMut(u64) -> (Arc<str>, u64)) {
        for reject in &mut self.first {
            (reject.source, reject.line) = place(reject.line);
        }
    }

    /// Moves out the rejects, if each is kept.
    pub(crate) fn take_each(&mut self) -> Vec<EachReject> {
        self.each.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The bytes of the rejected lines, if they are kept.
    pub fn raw(&self) -> &[u8] {
        self.raw.as_deref().unwrap_or_default()
    }

    /// Removes only the kept bytes, after they were written.
    pub fn clear_raw(&mut self) {
        if let Some(raw) = &mut self.raw {
            raw.clear();
        }
    }
}

fn excerpt(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(EXCERPT_SIZE_MAX)];
    let mut text = String::from_utf8_lossy(shown).into_owned();
    if shown.len() < bytes.len() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_five_are_kept_in_order_and_all_are_counted() {
        let source: Arc<str> = "a.log".into();
        let mut total = Rejects::with_raw();
        for chunk in 0..3 {
            let mut rejects = Rejects::with_raw();
            for line in 0..3 {
                rejects.push(chunk * 10 + line, "broken", b"x");
            }
            total.append(&mut rejects, &source);
            assert_eq!(
                (rejects.count(), rejects.first().len(), rejects.raw().len()),
                (0, 0, 0)
            );
        }
        assert_eq!(total.count(), 9);
        let lines: Vec<_> = total.first().iter().map(|reject| reject.line).collect();
        assert_eq!(lines, [0, 1, 2, 10, 11]);
        assert!(total.first().iter().all(|reject| reject.source == source));
        assert_eq!(total.raw(), b"x\n".repeat(9));
        total.clear_raw();
        assert_eq!((total.count(), total.raw().len()), (9, 0));
    }

    #[test]
    fn an_excerpt_is_short_and_always_text() {
        assert_eq!(excerpt(b"a\xffb"), "a\u{fffd}b");
        let long = "é".repeat(EXCERPT_SIZE_MAX);
        assert!(excerpt(long.as_bytes()).ends_with('…'));
        assert!(excerpt(long.as_bytes()).len() < EXCERPT_SIZE_MAX + 4);
    }
}
