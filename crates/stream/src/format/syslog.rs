//! `syslog`: RFC 5424, RFC 3164 and the files that syslog daemons write, detected for each line.
//!
//! ```text
//! <34>1 2003-10-11T22:14:15.003Z host su 111 ID47 [a b="c"] text       RFC 5424
//! <34>Oct 11 22:14:15 host su[111]: text                               RFC 3164
//! 2003-10-11T22:14:15.003+02:00 host su[111]: text                     a file
//! ```

use jiff::civil::Date;
use lookaside_value::{Name, NameTable, Names, Record, Text, Time, Value};
use memchr::memchr;

use super::lines::{ParseLine, Reason};
use super::syslog_data::structured_data;

const FIELDS: [&str; 10] = [
    "priority", "facility", "severity", "time", "host", "app", "pid", "msgid", "data", "msg",
];

/// RFC 5424, 6.2.1, tables 1 and 2, with the names from `syslog.h`.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];
const SEVERITIES: [&str; 8] = [
    "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
];

pub(crate) fn intern(names: &mut NameTable) {
    for field in FIELDS {
        names.intern(field);
    }
}

/// The source of the year for a time without one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum YearSource {
    /// Each time is in this year.
    Fixed(i16),
    /// The latest year in which the time is not more than a day ahead of the clock.
    Clock,
}

/// Parses a line; the field of a part that is `-` (RFC 5424's nil) or missing is left out.
pub(crate) struct SyslogLine {
    fields: [Name; FIELDS.len()],
    year: YearSource,
    /// The current date, read once per chunk.
    today: Date,
}

impl SyslogLine {
    pub(crate) fn new(year: YearSource, name: impl FnMut(&'static str) -> Name) -> Self {
        Self {
            fields: FIELDS.map(name),
            year,
            today: Date::constant(1970, 1, 1),
        }
    }
}

impl ParseLine for SyslogLine {
    fn begin(&mut self) {
        if matches!(self.year, YearSource::Clock) {
            self.today = jiff::Zoned::now().date();
        }
    }

    fn parse(&mut self, line: &str, _: &mut Names, record: &mut Record) -> Result<(), Reason> {
        let Some((priority, rest)) = priority(line)? else {
            return self.bsd(line, record, Header::Needed);
        };
        let [priority_name, facility, severity, ..] = self.fields;
        record.push(priority_name, i64::from(priority));
        let text = |text| Value::Text(Text::from_static(text));
        record.push(facility, text(FACILITIES[usize::from(priority >> 3)]));
        record.push(severity, text(SEVERITIES[usize::from(priority & 7)]));
        match rest.strip_prefix("1 ") {
            Some(rest) => self.ietf(rest, record),
            None => self.bsd(rest, record, Header::Optional),
        }
    }
}

/// Whether a line without a time can still be a message.
#[derive(Clone, Copy, PartialEq)]
enum Header {
    Needed,
    /// RFC 3164, 4.3.3: anything may follow a priority, and is then the message.
    Optional,
}

impl SyslogLine {
    /// Parses RFC 5424 after the version.
    fn ietf(&self, rest: &str, record: &mut Record) -> Result<(), Reason> {
        let [_, _, _, time_name, host, app, pid, msgid, data, msg] = self.fields;
        let (time, rest) = word(rest, "time")?;
        if time != "-" {
            // RFC 5424, 6.2.3: only RFC 3339 with a `T`, which other forms of a time do not have.
            let parsed = time.parse::<Time>().ok().filter(|_| time.contains('T'));
            let parsed = parsed.filter(|time| time.offset_minutes().is_some());
            let parsed = parsed.ok_or_else(|| format!("not an RFC 3339 time: `{time}`"))?;
            record.push(time_name, parsed);
        }
        let mut rest = rest;
        for (name, what) in [(host, "host"), (app, "app"), (pid, "pid"), (msgid, "msgid")] {
            let value;
            (value, rest) = word(rest, what)?;
            if value != "-" {
                record.push(name, value);
            }
        }
        let (elements, rest) = structured_data(rest)?;
        if !elements.is_empty() {
            record.push(data, elements);
        }
        let Some(text) = rest.strip_prefix(' ') else {
            return match rest.is_empty() {
                true => Ok(()),
                false => Err("missing blank after the structured data".into()),
            };
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if !text.is_empty() {
            record.push(msg, text);
        }
        Ok(())
    }

    /// Parses `TIME HOST APP[PID]: MSG`, the observed practice that RFC 3164 describes; each part
    /// except the time is optional.
    fn bsd(&self, line: &str, record: &mut Record, header: Header) -> Result<(), Reason> {
        let [
            _,
            _,
            _,
            time_name,
            host_name,
            app_name,
            pid_name,
            _,
            _,
            msg_name,
        ] = self.fields;
        let mut text = line;
        if let Some((time, rest)) = self.time(line) {
            record.push(time_name, time);
            text = rest;
            // A word that ends like a tag is not a host: local programs write no host.
            let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
            if !word.is_empty() && tag(text).is_none_or(|tag| tag.size > word.len()) {
                record.push(host_name, word);
                text = rest;
            }
        } else if header == Header::Needed {
            return Err("neither a priority nor a time at the beginning".into());
        }
        if let Some(tag) = tag(text) {
            record.push(app_name, tag.app);
            if let Some(pid) = tag.pid {
                record.push(pid_name, pid);
            }
            text = &text[tag.size..];
            text = text.strip_prefix(' ').unwrap_or(text);
        }
        if !text.is_empty() {
            record.push(msg_name, text);
        }
        Ok(())
    }

    /// The time at the beginning of a line, and the rest after the following blank.
    fn time<'a>(&self, line: &'a str) -> Option<(Time, &'a str)> {
        /// The size of `Oct 11 22:14:15`.
        const NAMED_SIZE: usize = 15;
        let bytes = line.as_bytes();
        let behind = |size: usize| -> Option<&'a str> {
            match bytes.get(size) {
                None => Some(""),
                Some(b' ') => Some(&line[size + 1..]),
                Some(_) => None,
            }
        };
        if bytes.first()?.is_ascii_digit() {
            let size = memchr(b' ', bytes).unwrap_or(bytes.len());
            let text = line[..size].strip_suffix(':').unwrap_or(&line[..size]);
            let time = text.parse().ok().filter(|_| text.contains('T'))?;
            return Some((time, behind(size)?));
        }
        let text = line.get(..NAMED_SIZE)?;
        let time = match self.year {
            YearSource::Fixed(year) => Time::parse_with_year(text, year).ok()?,
            YearSource::Clock => Time::parse_latest(text, self.today).ok()?,
        };
        // Routers write a colon after the time.
        let colon = usize::from(bytes.get(NAMED_SIZE) == Some(&b':'));
        Some((time, behind(NAMED_SIZE + colon)?))
    }
}

/// The priority, `<0>` to `<191>`, and the rest; `None` if a line has no priority at all.
fn priority(line: &str) -> Result<Option<(u8, &str)>, Reason> {
    let Some(rest) = line.strip_prefix('<') else {
        return Ok(None);
    };
    let (digits, rest) = rest
        .split_once('>')
        .ok_or("missing `>` after the priority")?;
    let plain = (1..=3).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    match digits.parse::<u8>() {
        Ok(priority) if plain && usize::from(priority >> 3) < FACILITIES.len() => {
            Ok(Some((priority, rest)))
        }
        _ => Err("the priority is not a number from 0 to 191".into()),
    }
}

/// A part of an RFC 5424 header, which is never empty, and the rest after its blank.
fn word<'a>(rest: &'a str, what: &str) -> Result<(&'a str, &'a str), Reason> {
    match rest.split_once(' ') {
        Some((word, rest)) if !word.is_empty() => Ok((word, rest)),
        _ => Err(format!("missing {what} in the header").into()),
    }
}

/// `app:`, `app[pid]:` or `app[pid]` at the beginning of a message.
struct Tag<'a> {
    app: &'a str,
    pid: Option<&'a str>,
    size: usize,
}

fn tag(text: &str) -> Option<Tag<'_>> {
    let end = text
        .bytes()
        .position(|byte| matches!(byte, b' ' | b':' | b'['))?;
    let app = &text[..end];
    if app.is_empty() {
        return None;
    }
    match text.as_bytes()[end] {
        // A colon within a word does not end a tag: `::1` and `12:30` are not tags.
        b':' if matches!(text.as_bytes().get(end + 1), None | Some(b' ')) => Some(Tag {
            app,
            pid: None,
            size: end + 1,
        }),
        b'[' => {
            let (pid, after) = text[end + 1..].split_once(']')?;
            if pid.is_empty() || pid.contains(' ') {
                return None;
            }
            let colon = usize::from(after.starts_with(':'));
            Some(Tag {
                app,
                pid: Some(pid),
                size: text.len() - after.len() + colon,
            })
        }
        _ => None,
    }
}

/// Decodes `data` as syslog lines; must not panic for any input.
#[doc(hidden)]
pub fn fuzz_syslog(data: &[u8]) {
    super::fuzz("syslog", &[], data);
}
