//! `Sun, 06 Nov 1994 08:49:37 GMT`: RFC 9110, section 5.6.7.

/// How long a date is.
pub(crate) const SIZE: usize = 29;

const DAYS: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

const DAY: u64 = 86_400;

/// 31 December 9999, the last day that the format can name.
const SECONDS_MAX: u64 = 253_402_300_799;

/// The text of a time in seconds since 1970.
pub(crate) fn format(seconds: u64) -> [u8; SIZE] {
    let seconds = seconds.min(SECONDS_MAX);
    let (days, second) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = date_of(days);
    let mut text = *b"Sun, 06 Nov 1994 08:49:37 GMT";
    // 1 January 1970 was a Thursday.
    text[..3].copy_from_slice(DAYS[((days + 4) % 7) as usize]);
    two(&mut text[5..7], day);
    text[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    two(&mut text[12..14], year / 100);
    two(&mut text[14..16], year % 100);
    two(&mut text[17..19], second / 3600);
    two(&mut text[20..22], second / 60 % 60);
    two(&mut text[23..25], second % 60);
    text
}

fn two(text: &mut [u8], number: u64) {
    text[0] = b'0' + (number / 10) as u8;
    text[1] = b'0' + (number % 10) as u8;
}

/// The seconds since 1970 of a date in one of the three formats that a recipient has to know. A
/// time before 1970 is none.
pub(crate) fn parse(text: &[u8]) -> Option<u64> {
    // What the day of the week is called tells nothing that the date does not.
    let (day, month, year, time) = match text {
        // `Sun, 06 Nov 1994 08:49:37 GMT`
        [
            _,
            _,
            _,
            b',',
            b' ',
            d1,
            d2,
            b' ',
            m1,
            m2,
            m3,
            b' ',
            y1,
            y2,
            y3,
            y4,
            b' ',
            time @ ..,
        ] => {
            let time = time.strip_suffix(b" GMT")?;
            let year = digits(&[*y1, *y2, *y3, *y4])?;
            (digits(&[*d1, *d2])?, [*m1, *m2, *m3], year, time)
        }
        // `Sun Nov  6 08:49:37 1994`
        [_, _, _, b' ', m1, m2, m3, b' ', d1, d2, b' ', rest @ ..] => {
            let (time, year) = rest.split_at_checked(8)?;
            let day = if *d1 == b' ' {
                digits(&[*d2])?
            } else {
                digits(&[*d1, *d2])?
            };
            (
                day,
                [*m1, *m2, *m3],
                digits(year.strip_prefix(b" ")?)?,
                time,
            )
        }
        // `Sunday, 06-Nov-94 08:49:37 GMT`
        _ => {
            let comma = memchr::memchr(b',', text)?;
            match &text[comma..] {
                [
                    b',',
                    b' ',
                    d1,
                    d2,
                    b'-',
                    m1,
                    m2,
                    m3,
                    b'-',
                    y1,
                    y2,
                    b' ',
                    time @ ..,
                ] => {
                    let time = time.strip_suffix(b" GMT")?;
                    let short = digits(&[*y1, *y2])?;
                    // A year that is more than 50 ahead is past; nothing here is from before 1970.
                    let year = if short < 70 {
                        2000 + short
                    } else {
                        1900 + short
                    };
                    (digits(&[*d1, *d2])?, [*m1, *m2, *m3], year, time)
                }
                _ => return None,
            }
        }
    };
    let month = MONTHS.iter().position(|name| **name == month)? as u64 + 1;
    let second = match time {
        [h1, h2, b':', m1, m2, b':', s1, s2] => {
            let (hour, minute) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            // 60 is a leap second.
            let second = digits(&[*s1, *s2])?;
            if hour > 23 || minute > 59 || second > 60 {
                return None;
            }
            hour * 3600 + minute * 60 + second
        }
        _ => return None,
    };
    if year < 1970 || day == 0 || day > days_in(year, month) {
        return None;
    }
    Some(days_of(year, month, day) * DAY + second)
}

fn digits(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.len() <= 4 && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| {
        text.iter()
            .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'))
    })
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1 January 1970 to a day from then on.
fn days_of(year: u64, month: u64, day: u64) -> u64 {
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    let before = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    before + (1..month).map(|month| days_in(year, month)).sum::<u64>() + day - 1
}

fn date_of(days: u64) -> (u64, u64, u64) {
    let mut year = 1970 + days / 366;
    while days_of(year + 1, 1, 1) <= days {
        year += 1;
    }
    let mut day = days - days_of(year, 1, 1) + 1;
    let mut month = 1;
    while day > days_in(year, month) {
        day -= days_in(year, month);
        month += 1;
    }
    (year, month, day)
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
        assert_eq!(
            parse(b"Sat, 31 Dec 2016 23:59:60 GMT"),
            Some(1_483_228_800),
            "a leap second"
        );
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
    }
}
