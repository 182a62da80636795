//! `PROGRAM CASE [--option value]…`

use anyhow::{Context, Result, bail};

pub struct Arguments {
    pub case: String,
    options: Vec<(String, String)>,
}

impl Arguments {
    /// Reads the command line; an option that is not in `known` is an error.
    pub fn read(known: &[&str]) -> Result<Self> {
        let mut words = std::env::args().skip(1);
        let case = words
            .next()
            .context("which case? See the program's first lines")?;
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
        Ok(Self { case, options })
    }

    pub fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.options
            .iter()
            .filter(move |(option, _)| option == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn value(&self, name: &str) -> Option<&str> {
        self.values(name).last()
    }

    pub fn count(&self, name: &str, default: usize) -> Result<usize> {
        let count = match self.value(name) {
            None => default,
            Some(value) => value
                .parse()
                .with_context(|| format!("{name} {value} is no count"))?,
        };
        if count == 0 {
            bail!("{name} is at least 1");
        }
        Ok(count)
    }
}
