//! The databases that answer, by the names that qualify tables.

use crate::config::{Config, DEFAULT_NAME, LOCAL_NAME, ProviderKind};
use crate::scan::{Dialect, Part, Relation, relations};

/// The database that answers a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RouteTarget {
    /// The folder's own tables, in SQLite.
    Local,
    /// The provider at this position of the configuration.
    Provider(usize),
}

/// The names of the databases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// The configured providers, the default one first.
    providers: Vec<(String, ProviderKind)>,
}

impl Names {
    pub(crate) fn of(config: Option<&Config>) -> Self {
        let providers = config.map_or(&[][..], |config| &config.providers);
        let providers = providers.iter().map(|it| (it.name.clone(), it.kind()));
        Self {
            providers: providers.collect(),
        }
    }

    #[cfg(test)]
    pub(super) fn new(providers: impl IntoIterator<Item = (&'static str, ProviderKind)>) -> Self {
        let providers = providers
            .into_iter()
            .map(|(name, kind)| (name.to_owned(), kind));
        Self {
            providers: providers.collect(),
        }
    }

    /// The database with this name.
    pub(crate) fn target(&self, name: &str) -> Option<RouteTarget> {
        let position = self.providers.iter().position(|(known, _)| known == name);
        match position {
            Some(position) => Some(RouteTarget::Provider(position)),
            None if name == DEFAULT_NAME => Some(self.fallback()),
            None => (name == LOCAL_NAME).then_some(RouteTarget::Local),
        }
    }

    /// The database for tables that are not qualified and not in the folder.
    pub(crate) fn fallback(&self) -> RouteTarget {
        match self.providers.is_empty() {
            true => RouteTarget::Local,
            false => RouteTarget::Provider(0),
        }
    }

    pub(crate) fn dialect(&self, target: RouteTarget) -> Dialect {
        match target {
            RouteTarget::Local => Dialect::Sqlite,
            RouteTarget::Provider(position) => match self.providers[position].1 {
                ProviderKind::Mysql => Dialect::Mysql,
                ProviderKind::Postgres | ProviderKind::Embedded => Dialect::Postgres,
            },
        }
    }

    /// The name of a database.
    pub(crate) fn name(&self, target: RouteTarget) -> &str {
        match target {
            RouteTarget::Provider(position) => &self.providers[position].0,
            RouteTarget::Local if self.providers.is_empty() => DEFAULT_NAME,
            RouteTarget::Local => LOCAL_NAME,
        }
    }

    /// All databases, the default one first.
    pub(crate) fn targets(&self) -> Vec<RouteTarget> {
        let providers = (0..self.providers.len()).map(RouteTarget::Provider);
        providers.chain([RouteTarget::Local]).collect()
    }

    /// The names of all databases, the default one first.
    pub(crate) fn all(&self) -> Vec<&str> {
        let targets = self.targets().into_iter();
        targets.map(|target| self.name(target)).collect()
    }

    /// A suggestion for an unknown name: the name that differs in case only, or all names.
    pub(crate) fn instead_of(&self, name: &str) -> String {
        let all = self.all();
        let alike = all.iter().find(|known| known.eq_ignore_ascii_case(name));
        match alike {
            Some(alike) => {
                format!("no provider is named `{name}`; names are case-sensitive: write `{alike}`")
            }
            None => {
                let names: Vec<String> = all.iter().map(|name| format!("`{name}`")).collect();
                let names = names.join(", ");
                format!("no provider is named `{name}`; the providers are {names}")
            }
        }
    }

    /// Whether there are providers.
    pub(crate) fn has_providers(&self) -> bool {
        !self.providers.is_empty()
    }

    /// The relations of a statement that are qualified by the name of a database, when the
    /// statement is parsed in the dialect of that database.
    pub(crate) fn named<'a>(&self, sql: &'a str) -> Vec<Named<'a>> {
        let mut found: Vec<Named<'a>> = Vec::new();
        let mut dialects = Vec::new();
        for target in self.targets() {
            let dialect = self.dialect(target);
            if dialects.contains(&dialect) {
                continue;
            }
            dialects.push(dialect);
            for relation in relations(sql, dialect) {
                let Some(prefix) = prefix_of(&relation) else {
                    continue;
                };
                let Some(target) = self.target(prefix) else {
                    continue;
                };
                let is_known = found.iter().any(|named| named.prefix == prefix);
                if self.dialect(target) == dialect && !is_known {
                    found.push(Named {
                        target,
                        prefix,
                        table: relation.text,
                    });
                }
            }
        }
        found
    }
}

/// A relation that is qualified by the name of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    pub(crate) target: RouteTarget,
    pub(crate) prefix: &'a str,
    pub(crate) table: &'a str,
}

/// The first qualifier of a relation's name, if it is not quoted.
pub(crate) fn prefix_of<'a>(relation: &Relation<'a>) -> Option<&'a str> {
    match relation.parts.as_slice() {
        [Part::Bare(prefix), _, ..] => Some(prefix),
        _ => None,
    }
}
