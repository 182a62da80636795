//! Builds the index of a column whose rows are found by one of the functions of [`Relation`].

use std::sync::Arc;

use rusqlite::types::ValueRef;

use super::invalid_keys::InvalidKeys;
use super::reason::Reason;
use super::schema::Table;
use super::shape::Relation;
use super::table_rows::TableRows;
use crate::functions::{HostPattern, Network, PathPrefix, host_keys, path_keys};
use crate::index::{
    IntervalIndex, IntervalIndexBuilder, NestedIndex, NestedIndexBuilder, PatternError,
    PatternIndex, PatternIndexBuilder,
};

/// The longest part of a value in a message, in characters.
const EXAMPLE_SIZE_MAX: usize = 60;

/// An index of a column by a [`Relation`].
#[derive(Clone, Debug)]
pub(super) struct RelationIndex {
    pub(super) index: Related,
    pub(super) invalid_keys: Option<InvalidKeys>,
}

/// The kinds of indexes.
#[derive(Clone, Debug)]
pub(super) enum Related {
    Networks(Arc<IntervalIndex>),
    Hosts {
        index: Arc<NestedIndex>,
        has_wildcards: bool,
    },
    Paths {
        index: Arc<NestedIndex>,
        /// The most slashes of a prefix.
        slash_count_max: usize,
    },
    Patterns(Arc<PatternIndex>),
}

impl Related {
    /// Whether several rows may belong to one key.
    pub(super) fn has_several(&self) -> bool {
        match self {
            Self::Networks(index) => index.has_several(),
            Self::Hosts { index, .. } | Self::Paths { index, .. } => index.has_several(),
            Self::Patterns(index) => index.len() > 1,
        }
    }

    /// Whether the descending order leaves the order of any two of them open.
    pub(super) fn has_ties(&self) -> bool {
        match self {
            Self::Networks(index) => index.has_ties(),
            Self::Hosts { index, .. } | Self::Paths { index, .. } => index.has_ties(),
            // Only ranges have this order.
            Self::Patterns(_) => false,
        }
    }
}

impl RelationIndex {
    /// Reads the column.
    pub(super) fn of(
        rows: TableRows<'_>,
        table: &Table,
        column: usize,
        relation: Relation,
        pattern_memory_max: usize,
    ) -> Result<Self, Reason> {
        let mut reader = Reader {
            rows,
            table,
            column,
            invalid_keys: None,
        };
        let index = match relation {
            Relation::Network => reader.networks()?,
            Relation::Host => reader.hosts()?,
            Relation::Path => reader.paths()?,
            Relation::Pattern => reader.patterns(pattern_memory_max)?,
        };
        Ok(Self {
            index,
            invalid_keys: reader.invalid_keys,
        })
    }
}

struct Reader<'a> {
    rows: TableRows<'a>,
    table: &'a Table,
    column: usize,
    invalid_keys: Option<InvalidKeys>,
}

impl Reader<'_> {
    fn networks(&mut self) -> Result<Related, Reason> {
        let mut builder = IntervalIndexBuilder::default();
        self.each("a network", |row, text| {
            let Some(network) = Network::parse(text) else {
                return Ok(false);
            };
            for (first, last) in network.ranges().into_iter().flatten() {
                builder.push_network(row, first, last, network.prefix_len);
            }
            Ok(true)
        })?;
        Ok(Related::Networks(Arc::new(builder.build()?)))
    }

    fn hosts(&mut self) -> Result<Related, Reason> {
        let mut builder = NestedIndexBuilder::default();
        let mut has_wildcards = false;
        self.each("a host name", |row, text| {
            let host = HostPattern::parse(text);
            if let Some(host) = &host {
                has_wildcards |= host.is_wildcard();
                builder.push(row, &host.key(), length(text))?;
            }
            Ok(host.is_some())
        })?;
        let index = builder.build(|key| host_keys(key).skip(1))?;
        Ok(Related::Hosts {
            index: Arc::new(index),
            has_wildcards,
        })
    }

    fn paths(&mut self) -> Result<Related, Reason> {
        let mut builder = NestedIndexBuilder::default();
        let mut slash_count_max = 0;
        self.each("a path", |row, text| {
            let prefix = PathPrefix::parse(text);
            if let Some(prefix) = prefix {
                slash_count_max = slash_count_max.max(prefix.slash_count());
                builder.push(row, prefix.as_str(), length(text))?;
            }
            Ok(prefix.is_some())
        })?;
        let index = builder.build(|key| path_keys(key).skip(1))?;
        Ok(Related::Paths {
            index: Arc::new(index),
            slash_count_max,
        })
    }

    fn patterns(&mut self, memory_max: usize) -> Result<Related, Reason> {
        let mut builder = PatternIndexBuilder::new(memory_max);
        let too_large = || {
            Reason::new(format!(
                "its patterns need more than pattern_memory_max, {memory_max} bytes"
            ))
        };
        let mut first_problem = None;
        self.each("a regular expression", |row, text| {
            match builder.push(row, text) {
                Ok(()) => Ok(true),
                Err(PatternError::Invalid(problem)) => {
                    first_problem.get_or_insert(problem);
                    Ok(false)
                }
                Err(PatternError::TooLarge) => Err(too_large()),
            }
        })?;
        if let Some(mut keys) = self.invalid_keys.take() {
            keys.problem = first_problem;
            let reason = format!("the pattern in row {} is not valid", keys.row);
            return Err(Reason::invalid_keys(reason, keys));
        }
        let index = builder.build().map_err(|_| too_large())?;
        Ok(Related::Patterns(Arc::new(index)))
    }

    fn column_name(&self) -> String {
        let name = &self.table.column(self.column).name;
        format!("{}.{name}", self.table.name)
    }

    /// Calls `push` with each text and its row; it returns whether the text is of the right form.
    /// Other values are not compared: the functions return NULL.
    fn each(
        &mut self,
        form: &'static str,
        mut push: impl FnMut(usize, &str) -> Result<bool, Reason>,
    ) -> Result<(), Reason> {
        let (rows, mut row_at) = (self.rows, 0);
        rows.each(self.table, &[self.column], |values| {
            row_at += 1;
            let ValueRef::Text(text) = values[0] else {
                return Ok(());
            };
            // An error, which SQLite reports.
            let text = std::str::from_utf8(text);
            let text = text.map_err(|_| Reason::fixed("a value is not UTF-8"))?;
            if push(row_at - 1, text)? || text.is_empty() {
                return Ok(());
            }
            match &mut self.invalid_keys {
                Some(keys) => keys.count += 1,
                None => {
                    self.invalid_keys = Some(InvalidKeys {
                        column: self.column_name(),
                        form,
                        count: 1,
                        row: row_at,
                        example: example(text),
                        problem: None,
                    });
                }
            }
            Ok(())
        })
    }
}

fn example(text: &str) -> String {
    match text.char_indices().nth(EXAMPLE_SIZE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// SQLite's `length`: the characters before the first NUL.
fn length(text: &str) -> usize {
    text.chars().take_while(|it| *it != '\0').count()
}
