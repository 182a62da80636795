//! Options of URLs, as all kinds of connectors read them.

use std::fmt::Display;
use std::str::FromStr;

#[cfg(any(feature = "kafka", feature = "nats", feature = "redis"))]
use lookaside_stream::MessageFraming;
#[cfg(any(
    feature = "http",
    feature = "kafka",
    feature = "nats",
    feature = "redis"
))]
use lookaside_stream::MetaValue;
#[cfg(feature = "kafka")]
use lookaside_stream::OnNull;
#[cfg(any(feature = "kafka", feature = "nats", feature = "redis"))]
use lookaside_stream::ResultMeta;

use crate::{ConnectUrl, Error, Result};

/// The options of a URL, all of which are known.
///
/// ```
/// use lookaside_connect::{ConnectUrl, UrlOptions};
///
/// let url: ConnectUrl = "http://127.0.0.1:8080/events?timeout_ms=500".parse()?;
/// let options = UrlOptions::new(&url, &["timeout_ms", "framing"])?;
/// assert_eq!(options.at_least("timeout_ms", 30_000, 1, "milliseconds")?, 500);
/// assert_eq!(options.choice("framing", &["lines", "message"])?, "lines");
/// # Ok::<(), lookaside_connect::Error>(())
/// ```
#[derive(Debug)]
pub struct UrlOptions<'a> {
    url: &'a ConnectUrl,
    name: String,
}

/// What the options begin with that are headers of results.
#[cfg(any(feature = "kafka", feature = "nats", feature = "redis"))]
pub(crate) const HEADER: &str = "header.";

/// Where a new group or consumer begins.
#[cfg(any(feature = "kafka", feature = "nats", feature = "redis"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Earliest,
    Latest,
    /// At the first message with this time or a later one, in milliseconds since 1970.
    #[cfg(any(feature = "kafka", feature = "redis"))]
    Time(i64),
    /// At this position.
    #[cfg(any(feature = "kafka", feature = "nats"))]
    Position(u64),
}

impl<'a> UrlOptions<'a> {
    /// The options of a URL that may have those of these names.
    ///
    /// # Errors
    /// When the URL has an option that is not known.
    pub fn new(url: &'a ConnectUrl, known: &[&str]) -> Result<Self> {
        let name = url.name();
        let mut options = url.options().iter();
        match options.find(|(option, _)| !known.contains(&&**option)) {
            Some((option, _)) => Err(Error::unknown_option(&name, option, known, None)),
            None => Ok(Self { url, name }),
        }
    }

    /// Options, some of which begin with a prefix and a name that the user chooses.
    ///
    /// # Errors
    /// As [`Self::new`].
    #[cfg(any(feature = "http", feature = "nats", feature = "redis"))]
    pub(crate) fn with_prefixes(
        url: &'a ConnectUrl,
        known: &[&str],
        prefixes: &[&str],
    ) -> Result<Self> {
        let name = url.name();
        let is_unknown = |option: &str| !known.contains(&option) && !has_name(option, prefixes);
        match url.options().iter().find(|(option, _)| is_unknown(option)) {
            Some((option, _)) => {
                let known: Vec<_> = known.iter().chain(prefixes).copied().collect();
                Err(Error::unknown_option(&name, option, &known, None))
            }
            None => Ok(Self { url, name }),
        }
    }

    /// As for other kinds, with options that are properties of librdkafka.
    #[cfg(feature = "kafka")]
    pub(crate) fn with_properties(
        url: &'a ConnectUrl,
        known: &[&str],
        prefixes: &[&str],
        is_property: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let name = url.name();
        let is_unknown = |option: &str| {
            !is_property(option) && !known.contains(&option) && !has_name(option, prefixes)
        };
        match url.options().iter().find(|(option, _)| is_unknown(option)) {
            Some((option, _)) => {
                let hint = "options with a dot are properties of librdkafka, as in `?linger.ms=1`";
                Err(Error::unknown_option(&name, option, known, Some(hint)))
            }
            None => Ok(Self { url, name }),
        }
    }

    /// The name of the URL, for messages.
    #[cfg(any(
        feature = "kafka",
        feature = "nats",
        feature = "postgres",
        feature = "redis"
    ))]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The value of an option; the last one, if it is given several times.
    pub fn text(&self, option: &str) -> Option<&'a str> {
        let mut options = self.url.options().iter().rev();
        options
            .find(|(name, _)| name == option)
            .map(|(_, value)| &**value)
    }

    /// The value of an option, or the default; `wanted` says what it is, with an article.
    ///
    /// # Errors
    /// When the value is not a `T`; the message quotes it, so that secrets must not be read by this.
    pub fn parse<T: FromStr>(&self, option: &str, default: T, wanted: &str) -> Result<T> {
        let Some(text) = self.text(option) else {
            return Ok(default);
        };
        text.parse()
            .map_err(|_| Error::bad_option(&self.name, option, text, wanted))
    }

    /// A number of `what` that has a lower limit.
    ///
    /// # Errors
    /// When the value is not a number, or less than the limit.
    pub fn at_least<T: FromStr + PartialOrd + Display>(
        &self,
        option: &str,
        default: T,
        least: T,
        what: &str,
    ) -> Result<T> {
        let wanted = format!("a number of {what}, at least {least}");
        let number = self.parse(option, default, &wanted)?;
        match number < least {
            true => {
                let text = self.text(option).unwrap_or_default();
                Err(Error::bad_option(&self.name, option, text, &wanted))
            }
            false => Ok(number),
        }
    }

    /// One of these words; the first is the default.
    ///
    /// # Errors
    /// When the value is another one.
    pub fn choice(&self, option: &str, words: &[&'static str]) -> Result<&'static str> {
        let text = self.text(option).unwrap_or(words[0]);
        let mut known = words.iter();
        match known.find(|word| **word == text) {
            Some(word) => Ok(word),
            None => {
                let wanted = format!("one of: {}", words.join(", "));
                Err(Error::bad_option(&self.name, option, text, &wanted))
            }
        }
    }

    /// The names behind a prefix, and their values.
    #[cfg(any(
        feature = "http",
        feature = "kafka",
        feature = "nats",
        feature = "redis"
    ))]
    pub(crate) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let options = self.url.options().iter();
        options.filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, &**value)))
    }

    /// A field of the result, or a text in single quotes.
    ///
    /// # Errors
    /// When it is empty.
    #[cfg(any(
        feature = "http",
        feature = "kafka",
        feature = "nats",
        feature = "redis"
    ))]
    pub(crate) fn meta_value(&self, option: &str) -> Result<Option<MetaValue>> {
        let Some(text) = self.text(option) else {
            return Ok(None);
        };
        let wrong = || {
            let wanted = "the name of a field, or a text in single quotes";
            Err(Error::bad_option(&self.name, option, text, wanted))
        };
        let has_quotes = [text.starts_with('\''), text.ends_with('\'')];
        match (has_quotes, text.len()) {
            (_, 0 | 1) if has_quotes != [false; 2] || text.is_empty() => wrong(),
            ([false, false], _) => Ok(Some(MetaValue::Field(text.to_owned()))),
            ([true, true], size) => {
                let text = &text[1..size - 1];
                Ok(Some(MetaValue::Constant(text.to_owned())))
            }
            _ => wrong(),
        }
    }

    /// The options `key`, `topic`, `timestamp` and `header.NAME`.
    #[cfg(any(feature = "kafka", feature = "nats", feature = "redis"))]
    pub(crate) fn result_meta(&self) -> Result<ResultMeta> {
        let mut headers = Vec::new();
        for (name, _) in self.with_prefix(HEADER) {
            if let Some(value) = self.meta_value(&format!("{HEADER}{name}"))? {
                headers.push((name.to_owned(), value));
            }
        }
        let topic = self.meta_value("topic")?;
        if topic == Some(MetaValue::Constant(String::new())) {
            let wanted = "a name that is not empty";
            return Err(Error::bad_option(&self.name, "topic", "''", wanted));
        }
        let timestamp = self.meta_value("timestamp")?;
        if let Some(MetaValue::Constant(text)) = &timestamp {
            let wanted = "the name of a field, whose value is a time";
            return Err(Error::bad_option(&self.name, "timestamp", text, wanted));
        }
        Ok(ResultMeta {
            key: self.meta_value("key")?,
            topic,
            timestamp,
            headers,
        })
    }

    /// The option `start`, also with a time.
    #[cfg(feature = "redis")]
    pub(crate) fn start_or_time(&self) -> Result<Start> {
        self.start_of(
            |text| time_ms(text).map(Start::Time),
            "earliest, latest or a time from 1970 on, such as 2026-11-28T10:00:00Z (a + is written %2B)",
        )
    }

    /// The option `start`, also with a position.
    #[cfg(feature = "nats")]
    pub(crate) fn start_or_position(&self, what: &str) -> Result<Start> {
        self.start_of(
            |text| Some(Start::Position(text.parse().ok().filter(|it| *it > 0)?)),
            &format!("earliest, latest or {what}"),
        )
    }

    /// The option `start`, also with a time or a position.
    #[cfg(feature = "kafka")]
    pub(crate) fn start_or_time_or_position(&self, what: &str) -> Result<Start> {
        self.start_of(
            |text| match text.parse() {
                Ok(position) => Some(Start::Position(position)),
                Err(_) => time_ms(text).map(Start::Time),
            },
            &format!("earliest, latest, {what}, or a time from 1970 on, such as 2026-11-28T10:00:00Z (a + is written %2B)"),
        )
    }

    #[cfg(any(feature = "kafka", feature = "nats", feature = "redis"))]
    fn start_of(&self, other: impl Fn(&str) -> Option<Start>, wanted: &str) -> Result<Start> {
        match self.text("start") {
            None | Some("earliest") => Ok(Start::Earliest),
            Some("latest") => Ok(Start::Latest),
            Some(text) => {
                other(text).ok_or_else(|| Error::bad_option(&self.name, "start", text, wanted))
            }
        }
    }

    /// The option `framing`.
    #[cfg(any(feature = "kafka", feature = "nats", feature = "redis"))]
    pub(crate) fn framing(&self) -> Result<MessageFraming> {
        Ok(match self.choice("framing", &["message", "lines"])? {
            "lines" => MessageFraming::Lines,
            _ => MessageFraming::Message,
        })
    }

    /// The option `on_null`.
    #[cfg(feature = "kafka")]
    pub(crate) fn on_null(&self) -> Result<OnNull> {
        Ok(match self.choice("on_null", &["skip", "forward"])? {
            "forward" => OnNull::Forward,
            _ => OnNull::Skip,
        })
    }
}

/// Whether an option is one of these prefixes and a name.
#[cfg(any(
    feature = "http",
    feature = "kafka",
    feature = "nats",
    feature = "redis"
))]
fn has_name(option: &str, prefixes: &[&str]) -> bool {
    let mut rests = prefixes.iter().filter_map(|it| option.strip_prefix(it));
    rests.any(|rest| !rest.is_empty())
}

/// A time of RFC 3339, in milliseconds since 1970.
#[cfg(any(feature = "kafka", feature = "redis"))]
fn time_ms(text: &str) -> Option<i64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.as_millisecond()).filter(|time| *time >= 0)
}
