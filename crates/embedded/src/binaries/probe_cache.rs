//! Cached output of programs such as `postgres --version`, so that a start need not run them.
//!
//! `postgres --version` takes about 10 ms, as long as handing out a database.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::FOLDER;
use super::program::probe;
use crate::cache::Cache;
use crate::{Error, Result, Version};

/// The number of cached answers; a machine has a few programs, and the file must not grow with each
/// upgrade.
const ANSWER_COUNT_MAX: usize = 100;

/// The file of the answers in the cache.
const FILE: &str = "answers.toml";

/// Answers of programs, by program and argument.
pub(crate) struct ProbeCache {
    file: Option<PathBuf>,
    answers: BTreeMap<String, Answer>,
    is_changed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    /// The state of the program when it answered; if it differs, the answer is outdated.
    modified_ns: i64,
    size: u64,
    text: String,
}

impl ProbeCache {
    /// Reads the answers from the cache, if there is one.
    pub(crate) fn read(cache: Option<&Cache>) -> Self {
        let file = cache.map(|cache| cache.root().join(FOLDER).join(FILE));
        let text = file.as_ref().and_then(|file| fs::read_to_string(file).ok());
        // A damaged file is treated as missing, and rewritten.
        let answers = text.and_then(|text| toml::from_str(&text).ok());
        Self {
            file,
            answers: answers.unwrap_or_default(),
            is_changed: false,
        }
    }

    /// Writes the answers to the cache. If that fails, the programs are run again.
    pub(crate) fn write(&mut self, cache: Option<&Cache>) {
        let (Some(cache), Some(file), true) = (cache, &self.file, self.is_changed) else {
            return;
        };
        if self.answers.len() > ANSWER_COUNT_MAX {
            self.answers.retain(|key, _| {
                key.split_once('\n')
                    .is_some_and(|(program, _)| Path::new(program).exists())
            });
        }
        if cache.folder(FOLDER).is_ok()
            && let Ok(text) = toml::to_string(&self.answers)
            && cache.write(file, text.as_bytes()).is_ok()
        {
            self.is_changed = false;
        }
    }

    /// The version of a PostgreSQL program.
    pub(crate) fn version(&mut self, program: &Path) -> Result<Version> {
        let banner = self.probe(program, "--version")?;
        Version::from_banner(&banner)
            .ok_or_else(|| Error::program_fails(program, &format!("its version is `{banner}`")))
    }

    /// The first line of output of `program` with `argument`.
    pub(crate) fn probe(&mut self, program: &Path, argument: &str) -> Result<String> {
        let Some((key, modified_ns, size)) = state(program, argument) else {
            return probe(program, argument);
        };
        if let Some(answer) = self.answers.get(&key)
            && (answer.modified_ns, answer.size) == (modified_ns, size)
        {
            return Ok(answer.text.clone());
        }
        let text = probe(program, argument)?;
        let answer = Answer {
            modified_ns,
            size,
            text: text.clone(),
        };
        self.answers.insert(key, answer);
        self.is_changed = true;
        Ok(text)
    }
}

/// Identifies the state of a program; `None` if it cannot be stored.
fn state(program: &Path, argument: &str) -> Option<(String, i64, u64)> {
    let metadata = fs::metadata(program).ok()?;
    let age = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let key = format!("{}\n{argument}", program.to_str()?);
    Some((key, age.as_nanos().try_into().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that records each run.
    fn program(folder: &Path, banner: &str) -> PathBuf {
        let program = folder.join("postgres");
        let runs = folder.join("runs");
        let text = format!(
            "#!/bin/sh\necho run >>'{}'\necho '{banner}'\n",
            runs.display()
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn a_program_is_asked_once_until_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(folder.path().join("cache"));
        let check = |banner: &str, minor: u32, runs_expected: usize| {
            let program = if runs_expected == 0 {
                folder.path().join("postgres")
            } else {
                program(folder.path(), banner)
            };
            let runs = folder.path().join("runs");
            let _ = fs::remove_file(&runs);
            for _ in 0..3 {
                let mut probe_cache = ProbeCache::read(Some(&cache));
                assert_eq!(
                    probe_cache.version(&program).unwrap(),
                    Version { major: 17, minor }
                );
                probe_cache.write(Some(&cache));
            }
            let runs = fs::read_to_string(&runs).unwrap_or_default();
            assert_eq!(runs.lines().count(), runs_expected, "{banner}");
        };
        check("postgres (PostgreSQL) 17.2", 2, 1);
        check("", 2, 0);
        check("postgres (PostgreSQL) 17.10", 10, 1);
        fs::write(cache.root().join(FOLDER).join(FILE), "not = [toml").unwrap();
        check("postgres (PostgreSQL) 17.11", 11, 1);
    }

    #[test]
    fn a_program_that_fails_is_named_with_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("postgres");
        fs::write(&program, "#!/bin/sh\necho 'no libpq' >&2\nexit 3\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let error = ProbeCache::read(None)
            .version(&program)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("no libpq") && error.contains("postgres`"),
            "{error}"
        );
        fs::write(&program, "#!/bin/sh\necho hello\n").unwrap();
        let error = ProbeCache::read(None)
            .version(&program)
            .unwrap_err()
            .to_string();
        assert!(error.contains("`hello`"), "{error}");
    }
}
