//! What a change feed does for a statement, for people: its class, why it is not higher, and what
//! would raise it.

use std::fmt;

use lookaside_value::Text;

use super::catalog::{Catalog, Relation};
use super::shape::Shape;
use super::{Dependency, Reason, classify};

/// What a change feed does for the answers to a statement of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatementDependency {
    /// Which answers a change of a row invalidates.
    pub class: DependencyClass,
    /// The tables that the statement reads and that exist: schema and name, quoted where SQL needs
    /// it.
    pub tables: Vec<Text>,
    /// The columns of the key, if the class is [`Key`](DependencyClass::Key).
    pub key_columns: Vec<Text>,
    /// Why the class is not higher: a clause that completes "because it …".
    pub reason: Option<String>,
    /// What would make the class higher, and what it costs.
    pub help: Option<String>,
    /// The class if the publication contained the tables.
    pub class_if_published: DependencyClass,
    /// The class if, beside that, the replica identity of each table were the whole row.
    pub class_if_full_identity: DependencyClass,
}

/// Which answers to a statement a change of a row invalidates; a higher class is more precise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DependencyClass {
    /// The class is not known, because the server was not asked or did not answer.
    Unknown,
    /// None: the age of an answer alone counts.
    None,
    /// All answers to the statement.
    Table,
    /// Those for the row's old and new key.
    Key,
}

impl DependencyClass {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::None => "none",
            Self::Table => "table",
            Self::Key => "key",
        }
    }
}

impl fmt::Display for DependencyClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for StatementDependency {
    /// Writes one line: `key of public.customers (id)`, or `table public.orders, because it combines
    /// rows`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = self.tables.join(", ");
        match (self.class, self.tables.len()) {
            (DependencyClass::Key, _) => {
                return write!(f, "key of {tables} ({})", self.key_columns.join(", "));
            }
            (DependencyClass::Table, 1) => write!(f, "table {tables}")?,
            (DependencyClass::Table, _) => write!(f, "tables {tables}")?,
            (DependencyClass::None, _) => f.write_str("age only")?,
            (DependencyClass::Unknown, _) => f.write_str("not known")?,
        }
        match &self.reason {
            Some(reason) => write!(f, ", because it {reason}"),
            None => Ok(()),
        }
    }
}

impl StatementDependency {
    /// The dependency of a statement without a feed, or whose server did not tell.
    pub(crate) fn without(class: DependencyClass, reason: String) -> Self {
        Self {
            class,
            tables: Vec::new(),
            key_columns: Vec::new(),
            reason: Some(reason),
            help: None,
            class_if_published: class,
            class_if_full_identity: class,
        }
    }

    /// The dependency of a statement; the catalog was asked with its names.
    pub(crate) fn of(shape: &Shape, catalog: &Catalog) -> Self {
        let (dependency, published, full, forced) = {
            let published = catalog.clone().published();
            let full = published.clone().with_full_identities(false);
            let forced = published.clone().with_full_identities(true);
            let classes = [catalog, &published, &full, &forced].map(|it| classify(shape, it));
            classes.into()
        };
        let relations = relations_of(shape, catalog);
        let class = dependency.class();
        let help = match (class, published.class(), &full) {
            (class, published, _) if published > class => Some(publication_help(&relations)),
            (DependencyClass::None, _, full) if full.class() > class => {
                Some(missing_identity_help(&relations))
            }
            (DependencyClass::Table, _, Dependency::Key(key)) => {
                let columns = key.columns.iter().map(|column| column.number);
                let columns: Vec<i16> = columns.collect();
                relations.first().map(|it| identity_help(it, &columns))
            }
            (DependencyClass::Table, ..) if forced.class() == DependencyClass::Key => {
                relations.first().map(|it| no_full_identity_help(it))
            }
            _ => None,
        };
        let key_columns = match &dependency {
            Dependency::Key(key) => {
                let names = key.columns.iter().map(|column| Text::from(&*column.name));
                names.collect()
            }
            _ => Vec::new(),
        };
        Self {
            class,
            tables: relations
                .iter()
                .map(|it| it.sql_name.as_str().into())
                .collect(),
            key_columns,
            reason: dependency
                .reason()
                .map(|reason| reason.clone().into_owned()),
            help,
            class_if_published: published.class(),
            class_if_full_identity: full.class(),
        }
    }
}

impl Dependency {
    pub(crate) fn class(&self) -> DependencyClass {
        match self {
            Self::Key(_) => DependencyClass::Key,
            Self::Table { .. } => DependencyClass::Table,
            Self::None { .. } => DependencyClass::None,
        }
    }

    fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Key(_) => None,
            Self::Table { reason, .. } | Self::None { reason } => Some(reason),
        }
    }
}

/// The tables of a statement, each once, by their names.
fn relations_of<'a>(shape: &Shape, catalog: &'a Catalog) -> Vec<&'a Relation> {
    let names = shape.uses.relations.iter();
    let mut relations: Vec<&Relation> = names
        .filter_map(|name| catalog.relation(&name.quoted()))
        .collect();
    relations.sort_unstable_by(|a, b| a.sql_name.cmp(&b.sql_name));
    relations.dedup_by_key(|relation| relation.oid);
    relations
}

fn publication_help(relations: &[&Relation]) -> String {
    let missing = relations.iter().filter(|it| it.published.is_none());
    if let Some(refused) = missing.clone().find(|it| it.has_generated_identity()) {
        return format!(
            "`lookaside feed status` says why {} cannot be published: its replica identity has generated \
             columns, which the publication leaves out",
            refused.sql_name
        );
    }
    let missing: Vec<&str> = missing.map(|it| it.sql_name.as_str()).collect();
    match missing.is_empty() {
        true => "let the publication contain all rows, columns and kinds of changes".to_owned(),
        false => format!(
            "`lookaside feed setup` adds {} to the publication",
            missing.join(", ")
        ),
    }
}

fn missing_identity_help(relations: &[&Relation]) -> String {
    let bare = relations.iter().filter(|it| !it.has_identity());
    let bare: Vec<&Relation> = bare.copied().collect();
    let keyed = bare
        .iter()
        .find(|it| it.unique_keys.iter().any(|key| key.is_primary));
    if let Some(keyed) = keyed {
        return format!(
            "`alter table {} replica identity default` makes its primary key the replica identity",
            keyed.sql_name
        );
    }
    let refuses_full = bare.iter().any(|it| it.refuses_full_identity);
    let bare: Vec<&str> = bare.iter().map(|it| it.sql_name.as_str()).collect();
    let bare = bare.join(", ");
    if refuses_full {
        return format!("add a primary key that is not deferrable to {bare}");
    }
    format!(
        "add a primary key that is not deferrable to {bare}, or let `lookaside feed setup --identity-full` set its replica \
         identity; {FULL_COST}"
    )
}

/// What the replica identity `full` costs.
const FULL_COST: &str = "the log then contains the whole old row of each update and delete";

/// How the replica identity comes to contain the columns of a key.
fn identity_help(relation: &Relation, columns: &[i16]) -> String {
    let table = &relation.sql_name;
    let identity = relation.identity_columns().unwrap_or_default();
    // Another key may need the columns of the present identity.
    let is_enough = |numbers: &[i16]| {
        let mut needed = columns.iter().chain(identity);
        needed.all(|number| numbers.contains(number))
    };
    let mut keys = relation.unique_keys.iter();
    match keys.find(|key| !key.has_nulls && is_enough(&key.columns)) {
        Some(key) => format!(
            "`alter table {table} replica identity using index {}` makes the class `key`; the log then \
             contains the old values of these columns where they change",
            key.sql_name
        ),
        None => format!(
            "`alter table {table} replica identity full`, or `lookaside feed setup --identity-full`, \
             makes the class `key`; {FULL_COST}"
        ),
    }
}

/// What helps where that must not be done.
fn no_full_identity_help(relation: &Relation) -> String {
    let table = &relation.sql_name;
    format!(
        "a publication leaves out columns of {table}, so that the replica identity cannot be `full`; \
         one that uses a unique index over the columns of the key, which are published and not null, \
         makes the class `key`"
    )
}

impl Relation {
    /// Whether the server does not permit its replica identity because of generated columns.
    fn has_generated_identity(&self) -> bool {
        let columns = self.identity_columns().unwrap_or_default();
        let mut attributes = self.attributes.iter();
        self.refuses_full_identity
            && attributes.any(|it| it.is_generated && columns.contains(&it.number))
    }

    /// Whether the table's updates and deletes tell which row they change.
    fn has_identity(&self) -> bool {
        self.identity == 'f' || self.identity_columns().is_some()
    }
}
