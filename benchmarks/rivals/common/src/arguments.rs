//! `PROGRAM MODE [--option value]…`

use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

pub struct Arguments {
    pub mode: String,
    options: Vec<(String, String)>,
}

impl Arguments {
    /// Reads the command line; an option that is not in `known` is an error.
    pub fn read(known: &[&str]) -> Result<Self> {
        let mut words = std::env::args().skip(1);
        let mode = words
            .next()
            .context("which mode? See the program's first lines")?;
        let mut options = Vec::new();
        while let Some(name) = words.next() {
            if !known.contains(&name.as_str()) {
                bail!("{name} is none of {known:?}");
            }
            let value = words
                .next()
                .with_context(|| format!("{name} needs a value"))?;
            options.push((name, value));
        }
        Ok(Self { mode, options })
    }

    pub fn value(&self, name: &str) -> Option<&str> {
        self.options
            .iter()
            .rfind(|(option, _)| option == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn required(&self, name: &str) -> Result<&str> {
        self.value(name)
            .with_context(|| format!("{name} is missing"))
    }

    pub fn number<N: FromStr>(&self, name: &str) -> Result<Option<N>> {
        self.value(name)
            .map(|value| {
                value
                    .parse()
                    .ok()
                    .with_context(|| format!("{name} {value} is no number of its kind"))
            })
            .transpose()
    }

    pub fn count(&self, name: &str, default: usize) -> Result<usize> {
        let count = self.number(name)?.unwrap_or(default);
        ensure!(count > 0, "{name} is at least 1");
        Ok(count)
    }

    /// One of `words`, of which the first is the default.
    pub fn word<'a>(&self, name: &str, words: &[&'a str]) -> Result<&'a str> {
        let value = self.value(name).unwrap_or(words[0]);
        words
            .iter()
            .find(|&&word| word == value)
            .copied()
            .with_context(|| format!("{name} {value} is none of {words:?}"))
    }
}
