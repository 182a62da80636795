//! `Sun, 06 Nov 1994 08:49:37 GMT`: RFC 9110, section 5.6.7.

use std::io::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use httpdate::HttpDate;

/// The size of a date.
pub(crate) const SIZE: usize = 29;

/// 31 December 9999, the last day that the format can represent. `HttpDate` panics after it, and
/// file systems store later times.
const SECONDS_MAX: u64 = 253_402_300_799;

/// The text of a time in seconds since 1970. Nothing is allocated.
pub(crate) fn format(seconds: u64) -> [u8; SIZE] {
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(SECONDS_MAX));
    let mut text = [0; SIZE];
    write!(text.as_mut_slice(), "{}", HttpDate::from(time)).expect("a date fits its size");
    text
}

/// The seconds since 1970 of a date in one of the three formats that a recipient has to accept.
/// `None` for times before 1970, days of the week that are not those of the date, and leap seconds
/// (`:60`): a condition with such a date is ignored.
pub(crate) fn parse(text: &[u8]) -> Option<u64> {
    let time = httpdate::parse_http_date(str::from_utf8(text).ok()?).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_795_304_999, "Sat, 21 Nov 2026 23:49:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (SECONDS_MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(String::from_utf8_lossy(&format(seconds)), text);
            assert_eq!(parse(text.as_bytes()), Some(seconds), "{text}");
        }
        for text in ["Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
        let end = format(SECONDS_MAX);
        for seconds in [SECONDS_MAX + 1, i64::MAX as u64, u64::MAX] {
            assert_eq!(format(seconds), end, "{seconds}");
        }
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..20_000 {
            let seconds = random.u64(..=SECONDS_MAX);
            assert_eq!(parse(&format(seconds)), Some(seconds), "{seconds}");
        }
    }

    #[test]
    fn texts_that_are_no_date() {
        for text in [
            "",
            "0",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 2100 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 06 Nov 1994 08:4x:37 GMT",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sat, 31 Dec 2016 23:59:60 GMT",
            "Sün, 06 Nov 1994 08:49:37 GM",
            "Sun Nov  6 08:49:37 94",
            "Sun Nov  6 08:49",
            "1994-11-06T08:49:37Z",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        let date = b"Sunday, 06-Nov-94 08:49:37 GMT";
        for size in 0..date.len() {
            assert_eq!(parse(&date[..size]), None);
        }
        assert_eq!(parse(b"Sun, 06 Nov 1994 08:49:37 \xff\xff\xff"), None);
    }
}
