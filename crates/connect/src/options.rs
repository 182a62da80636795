//! Options of URLs, as all kinds of connectors read them.

use std::fmt::Display;
use std::str::FromStr;

#[cfg(any(feature = "kafka", feature = "nats", feature = "redis"))]
use lookaside_stream::MessageFraming;
#[cfg(feature = "kafka")]
use lookaside_stream::OnNull;

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
    #[cfg(feature = "http")]
    pub(crate) fn with_prefixes(
        url: &'a ConnectUrl,
        known: &[&str],
        prefixes: &[&str],
    ) -> Result<Self> {
        let name = url.name();
        let has_prefix = |option: &str| {
            let mut rests = prefixes.iter().filter_map(|it| option.strip_prefix(it));
            rests.any(|rest| !rest.is_empty())
        };
        let is_unknown = |option: &str| !known.contains(&option) && !has_prefix(option);
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
        is_property: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let name = url.name();
        let is_unknown = |option: &str| !is_property(option) && !known.contains(&option);
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
    #[cfg(feature = "http")]
    pub(crate) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let options = self.url.options().iter();
        options.filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, &**value)))
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
