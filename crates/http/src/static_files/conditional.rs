//! Conditional and range requests: RFC 9110, sections 13 and 14.

use std::ops::Range;

use crate::http_date;
use crate::negotiate::elements;

/// The conditions of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Conditions<'a> {
    pub(super) if_none_match: Option<&'a [u8]>,
    pub(super) if_modified_since: Option<&'a [u8]>,
    pub(super) range: Option<&'a [u8]>,
    pub(super) if_range: Option<&'a [u8]>,
}

/// The outcome of the conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConditionalOutcome {
    /// The whole file.
    Whole,
    /// These bytes.
    Part(Range<u64>),
    /// Nothing, since the client has the file already.
    NotModified,
    /// Nothing, since the requested range has no bytes.
    Unsatisfiable,
}

impl Conditions<'_> {
    /// Evaluates the conditions for a file with a tag, a modification time in seconds since 1970,
    /// and a size.
    pub(super) fn outcome(&self, tag: &str, modified: u64, size: u64) -> ConditionalOutcome {
        let has_it = match (self.if_none_match, self.if_modified_since) {
            // A tag takes precedence over the time.
            (Some(tags), _) => {
                elements(tags).any(|other| other == b"*" || strong(other) == tag.as_bytes())
            }
            (None, Some(date)) => http_date::parse(date).is_some_and(|date| modified <= date),
            (None, None) => false,
        };
        if has_it {
            return ConditionalOutcome::NotModified;
        }
        match self.range {
            Some(range) if self.is_range_wanted(tag, modified) => part(range, size),
            _ => ConditionalOutcome::Whole,
        }
    }

    /// Whether the range is still wanted, that is, the client's parts are of the same file.
    fn is_range_wanted(&self, tag: &str, modified: u64) -> bool {
        match self.if_range {
            None => true,
            Some(date) if !date.contains(&b'"') => http_date::parse(date) == Some(modified),
            // A weak tag does not promise the same bytes.
            Some(other) => other == tag.as_bytes(),
        }
    }
}

/// A tag without the prefix of weak ones, for the weak comparison.
fn strong(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Evaluates one range of bytes. Several ranges, or an invalid one, get the whole file, which
/// section 14.2 allows.
fn part(range: &[u8], size: u64) -> ConditionalOutcome {
    let unit = b"bytes=";
    let Some(range) = range
        .split_at_checked(unit.len())
        .filter(|(name, _)| name.eq_ignore_ascii_case(unit))
        .map(|(_, range)| range.trim_ascii())
    else {
        return ConditionalOutcome::Whole;
    };
    let Some(dash) = memchr::memchr(b'-', range) else {
        return ConditionalOutcome::Whole;
    };
    let number = |text: &[u8]| match text {
        b"" => Some(None),
        _ if !text.iter().all(u8::is_ascii_digit) => None,
        // A number that overflows is beyond the end of any file.
        _ => Some(Some(text.iter().fold(0_u64, |sum, digit| {
            sum.saturating_mul(10)
                .saturating_add(u64::from(digit - b'0'))
        }))),
    };
    let (Some(first), Some(last)) = (number(&range[..dash]), number(&range[dash + 1..])) else {
        return ConditionalOutcome::Whole;
    };
    match (first, last) {
        (None, None) => ConditionalOutcome::Whole,
        (Some(first), Some(last)) if last < first => ConditionalOutcome::Whole,
        (Some(first), _) if first >= size => ConditionalOutcome::Unsatisfiable,
        (Some(first), Some(last)) => {
            ConditionalOutcome::Part(first..size.min(last.saturating_add(1)))
        }
        (Some(first), None) => ConditionalOutcome::Part(first..size),
        // A suffix range.
        (None, Some(0)) => ConditionalOutcome::Unsatisfiable,
        (None, Some(_)) if size == 0 => ConditionalOutcome::Unsatisfiable,
        (None, Some(count)) => ConditionalOutcome::Part(size.saturating_sub(count)..size),
    }
}

#[cfg(test)]
mod tests {
    use super::ConditionalOutcome::{NotModified, Part, Unsatisfiable, Whole};
    use super::*;

    const TAG: &str = "\"5-abc\"";
    const MODIFIED: u64 = 784_111_777;

    #[track_caller]
    fn check(conditions: &Conditions<'_>, expected: ConditionalOutcome) {
        let found = conditions.outcome(TAG, MODIFIED, 100);
        assert_eq!(found, expected, "{conditions:?}");
    }

    #[test]
    fn what_the_client_has() {
        let match_of = |tags: &'static str| Conditions {
            if_none_match: Some(tags.as_bytes()),
            ..Conditions::default()
        };
        for (tags, expected) in [
            ("\"5-abc\"", NotModified),
            ("W/\"5-abc\"", NotModified),
            ("\"x\", \"5-abc\"", NotModified),
            ("\"x,y\",,\"5-abc\" ", NotModified),
            ("*", NotModified),
            ("\"x\"", Whole),
            ("\"x, \"5-abc\"", Whole),
            ("5-abc", Whole),
            ("", Whole),
        ] {
            check(&match_of(tags), expected);
        }
        let since = |date: &'static str| Conditions {
            if_modified_since: Some(date.as_bytes()),
            ..Conditions::default()
        };
        check(&since("Sun, 06 Nov 1994 08:49:37 GMT"), NotModified);
        check(&since("Sun, 06 Nov 1994 08:49:38 GMT"), NotModified);
        check(&since("Sun, 06 Nov 1994 08:49:36 GMT"), Whole);
        check(&since("yesterday"), Whole);
        // The tag counts where there is one.
        let mut both = since("Sun, 06 Nov 1994 08:49:37 GMT");
        both.if_none_match = Some(b"\"x\"");
        check(&both, Whole);
    }

    #[test]
    fn parts() {
        let range = |range: &'static str| Conditions {
            range: Some(range.as_bytes()),
            ..Conditions::default()
        };
        for (text, expected) in [
            ("bytes=0-9", Part(0..10)),
            ("bytes=0-0", Part(0..1)),
            ("Bytes=90-", Part(90..100)),
            ("bytes=90-1000", Part(90..100)),
            ("bytes=99-99", Part(99..100)),
            ("bytes=-1", Part(99..100)),
            ("bytes=-100", Part(0..100)),
            ("bytes=-101", Part(0..100)),
            ("bytes=100-", Unsatisfiable),
            ("bytes=100-200", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=99999999999999999999999-", Unsatisfiable),
            ("bytes=0-99999999999999999999999", Part(0..100)),
            ("bytes=9-0", Whole),
            ("bytes=0-1,5-6", Whole),
            ("bytes=", Whole),
            ("bytes=-", Whole),
            ("bytes=a-b", Whole),
            ("bytes=--1", Whole),
            ("bytes=1 - 2", Whole),
            ("lines=0-9", Whole),
            ("0-9", Whole),
        ] {
            check(&range(text), expected);
        }
        let mut conditions = range("bytes=0-9");
        for (if_range, expected) in [
            (TAG, Part(0..10)),
            ("\"x\"", Whole),
            ("W/\"5-abc\"", Whole),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Part(0..10)),
            ("Sun, 06 Nov 1994 08:49:38 GMT", Whole),
            ("", Whole),
        ] {
            conditions.if_range = Some(if_range.as_bytes());
            check(&conditions, expected);
        }
        let empty = range("bytes=-5").outcome(TAG, MODIFIED, 0);
        assert_eq!(empty, Unsatisfiable);
    }
}
