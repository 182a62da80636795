//! Settings by name, first from the URL and then from the environment, parsed to their types.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::url::PASSWORD;
use super::{ConfigError, Environment};

/// The default time limit for one host. The clients of the servers wait forever by default if the
/// peer accepts the connection and sends nothing; a slow server responds well within this limit.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A known setting.
pub(super) struct Key {
    pub(super) name: &'static str,
    /// The environment variable that is used if the URL does not have it.
    pub(super) variable: Option<&'static str>,
}

impl Key {
    pub(super) const fn new(name: &'static str) -> Self {
        Self {
            name,
            variable: None,
        }
    }

    pub(super) const fn or(name: &'static str, variable: &'static str) -> Self {
        Self {
            name,
            variable: Some(variable),
        }
    }
}

/// Contains the password, so it has no `Debug`.
pub(super) struct Settings<'a> {
    keys: &'static [Key],
    environment: &'a Environment,
    query: BTreeMap<&'static str, String>,
}

/// A value and its origin.
pub(super) struct Setting<'a> {
    pub(super) value: &'a str,
    pub(super) origin: String,
}

impl<'a> Settings<'a> {
    /// Settings of a URL; `unsupported` ones are supported by other clients; the reason is added to
    /// the error.
    pub(super) fn new(
        query: Vec<(String, String)>,
        keys: &'static [Key],
        unsupported: &[(&str, &str)],
        environment: &'a Environment,
    ) -> Result<Self, ConfigError> {
        let mut known = BTreeMap::new();
        for (name, value) in query {
            let before = match keys.iter().find(|key| key.name == name) {
                Some(key) => known.insert(key.name, value),
                // It may be a part of the password.
                None if known.contains_key(PASSWORD) => return Err(ConfigError::stray('&')),
                None => return Err(unknown(&name, keys, unsupported)),
            };
            if before.is_some() {
                return Err(ConfigError::twice(&name));
            }
        }
        Ok(Self {
            keys,
            environment,
            query: known,
        })
    }

    /// The setting, if it has a value; an empty value counts as missing.
    pub(super) fn setting(&self, name: &str) -> Option<Setting<'_>> {
        if let Some(value) = self.query.get(name) {
            return (!value.is_empty()).then(|| Setting {
                value,
                origin: format!("the URL's setting `{name}`"),
            });
        }
        let key = self.keys.iter().find(|key| key.name == name);
        let variable = key.expect("only known settings are asked for").variable?;
        Some(Setting {
            value: self.environment.variable(variable)?,
            origin: format!("the variable {variable}"),
        })
    }

    /// The setting if it is in the URL itself.
    pub(super) fn in_url(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.setting(name).map(|setting| setting.value.to_owned())
    }

    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.setting(name)
            .map(|setting| PathBuf::from(setting.value))
    }

    /// One of several words; `-`, `_` and letter case are ignored.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, ConfigError> {
        let Some(Setting { value, origin }) = self.setting(name) else {
            return Ok(None);
        };
        let plain = |word: &str| word.to_ascii_lowercase().replace('_', "-");
        let choice = choices.iter().find(|(word, _)| plain(word) == plain(value));
        match choice {
            Some((_, choice)) => Ok(Some(*choice)),
            None => {
                let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
                Err(ConfigError::not_one_of(&origin, value, &words))
            }
        }
    }

    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, ConfigError> {
        let words = [("1", true), ("0", false), ("true", true), ("false", false)];
        self.choice(name, &words)
    }

    /// A number of seconds; `None` if it is zero or less, which means the system's default.
    pub(super) fn seconds(&self, name: &str) -> Result<Option<Duration>, ConfigError> {
        Ok(self
            .count(name)?
            .map(|count| Duration::from_secs(count.into())))
    }

    /// How long to try one host; [`CONNECT_TIMEOUT`] by default.
    pub(super) fn connect_timeout(&self, name: &str) -> Result<Option<Duration>, ConfigError> {
        match self.setting(name) {
            Some(_) => self.seconds(name),
            None => Ok(Some(CONNECT_TIMEOUT)),
        }
    }

    pub(super) fn millis(&self, name: &str) -> Result<Option<Duration>, ConfigError> {
        Ok(self
            .count(name)?
            .map(|count| Duration::from_millis(count.into())))
    }

    /// A number; `None` if it is zero or less.
    pub(super) fn count(&self, name: &str) -> Result<Option<u32>, ConfigError> {
        let Some(Setting { value, origin }) = self.setting(name) else {
            return Ok(None);
        };
        match value.trim().parse::<i32>() {
            Ok(count) => Ok(u32::try_from(count).ok().filter(|&count| count > 0)),
            Err(_) => Err(ConfigError::bad_value(&origin, value, "a whole number")),
        }
    }
}

fn unknown(name: &str, keys: &[Key], unsupported: &[(&str, &str)]) -> ConfigError {
    match unsupported.iter().find(|(known, _)| *known == name) {
        Some((_, reason)) => ConfigError::unsupported_key(name, reason),
        None => {
            let known: Vec<_> = keys.iter().map(|key| key.name).collect();
            ConfigError::unknown_key(name, &known)
        }
    }
}
