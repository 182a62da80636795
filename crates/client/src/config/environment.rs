//! The environment variables for missing parts of a URL.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::path::PathBuf;

/// Environment variables; only those that a configuration uses.
///
/// `Debug` shows their names without values, since `PGPASSWORD` may be among them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

/// The user's name and home folder; `libpq` uses the system's user database instead, which has the
/// same.
const USER: [&str; 2] = ["USER", "LOGNAME"];
const HOME: &str = "HOME";

impl Environment {
    /// No variables: everything comes from the URL.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The variables of this process with these names, and those of its user.
    pub(super) fn of_names(names: impl Iterator<Item = &'static str>) -> Self {
        let names = names.chain(USER).chain([HOME]);
        let set = |name: &str| Some((name.to_owned(), env::var(name).ok()?));
        Self {
            variables: names.filter_map(set).collect(),
        }
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(name)?;
        (!value.is_empty()).then_some(value)
    }

    /// The name of the user that runs the process.
    pub(super) fn user(&self) -> Option<String> {
        let mut names = USER.iter().filter_map(|name| self.variable(name));
        names.next().map(str::to_owned)
    }

    /// A file in the home folder.
    pub(super) fn home_file(&self, name: &str) -> Option<PathBuf> {
        self.variable(HOME)
            .map(|home| PathBuf::from(home).join(name))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}
