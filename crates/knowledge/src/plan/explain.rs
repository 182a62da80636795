//! Explanations of how statements are answered.

use std::fmt;

use lookaside_value::{Text, Type};

use super::column_types;
use super::reads::{self, ReadKind, TableRead};
use super::relations::Related;
use super::tables::Tables;
use super::warnings::{self, StatementWarning};
use super::{ChosenPlan, LookupPlan, Native, NativeProbe};
use crate::config::ProviderKind;
use crate::depends::StatementDependency;
use crate::first_of::{Expansion, FirstOf};

/// How a statement is answered, for `lookaside explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The kind of plan.
    pub kind: PlanKind,
    /// The table that a native plan reads.
    pub table: Option<Text>,
    /// The columns that a native plan looks up.
    pub key_columns: Vec<Text>,
    /// The columns of the answer, as far as the plan knows them.
    pub columns: Vec<Text>,
    /// The type of all values of each column that are not NULL; `None` if it cannot be determined
    /// from the folder's tables. The types of a provider's columns are in [`ProviderPlan`].
    pub column_types: Vec<Option<Type>>,
    /// The number of rows of the table.
    pub row_count: usize,
    /// Different keys of a hash index, boundaries of an interval index.
    pub key_count: usize,
    /// Bytes of the index, shared with other statements that use it.
    pub index_size: usize,
    /// Whether the plan knows which of several matching rows is SQLite's first; if not, a native plan
    /// finds at most one row for each key.
    pub is_first_known: bool,
    /// Why SQLite answers, if it does.
    pub reason: Option<String>,
    /// How SQLite reads each table, if SQLite answers.
    pub reads: Vec<TableRead>,
    /// What is probably wrong in the statement.
    pub warnings: Vec<StatementWarning>,
    /// The tables of the name of `[[first_of]]` that the statement reads, in their order; empty if it
    /// reads none.
    pub first_of: Vec<String>,
    /// The other database that answers, if one does.
    pub provider: Option<ProviderPlan>,
    /// What the provider's change feed does for the answers, if the configuration sets one.
    pub dependency: Option<StatementDependency>,
}

/// How a provider is queried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProviderPlan {
    /// The provider's name.
    pub name: Text,
    /// The kind of its server.
    pub server: ProviderKind,
    /// The SQL that is sent for all rows.
    pub sql: String,
    /// The SQL that is sent for the first row.
    pub first_row_sql: String,
    /// The parameters as the server numbers them, each with the type that it declares.
    pub params: Vec<(Text, Text)>,
    /// The types of the columns.
    pub column_types: Vec<Text>,
}

/// What answers a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanKind {
    /// A hash index over equal keys.
    Hash,
    /// An index over the intervals between two columns, or over networks.
    Interval,
    /// A hash index over host names and the names above them.
    HostSuffix,
    /// A hash index over paths and the paths above them.
    PathPrefix,
    /// Automata over regular expressions.
    Patterns,
    /// SQLite.
    Sqlite,
    /// Another database.
    Provider,
}

impl LookupPlan {
    /// How the statement is answered.
    pub(crate) fn explain(&self) -> Explanation {
        let reason = match &self.0 {
            ChosenPlan::Native(native) => return native.explain(),
            ChosenPlan::FirstOf(tables) => return tables.explain(),
            ChosenPlan::NotNative(reason) => reason,
        };
        Explanation {
            kind: match reason.provider {
                Some(_) => PlanKind::Provider,
                None => PlanKind::Sqlite,
            },
            table: None,
            key_columns: Vec::new(),
            columns: Vec::new(),
            column_types: Vec::new(),
            row_count: 0,
            key_count: 0,
            index_size: 0,
            is_first_known: true,
            reason: Some(reason.to_string()),
            reads: Vec::new(),
            warnings: warnings::invalid_keys(reason.invalid_keys.as_deref()),
            first_of: Vec::new(),
            provider: None,
            dependency: None,
        }
    }
}

impl Native {
    pub(super) fn explain(&self) -> Explanation {
        let (kind, key_count, index_size) = match &self.probe {
            NativeProbe::Hash { index, .. } => (PlanKind::Hash, index.len(), index.size()),
            NativeProbe::Interval { interval, .. } | NativeProbe::Ip4Between { interval, .. } => {
                let index = &interval.index;
                (PlanKind::Interval, index.len(), index.size())
            }
            NativeProbe::Related { index, .. } => match index {
                Related::Networks(index) => (PlanKind::Interval, index.len(), index.size()),
                Related::Hosts { index, .. } => (PlanKind::HostSuffix, index.len(), index.size()),
                Related::Paths { index, .. } => (PlanKind::PathPrefix, index.len(), index.size()),
                Related::Patterns(index) => (PlanKind::Patterns, index.len(), index.size()),
            },
        };
        Explanation {
            kind,
            table: Some(self.table.clone()),
            key_columns: self.key_columns.clone(),
            columns: self.rows.columns().to_vec(),
            column_types: Vec::new(),
            row_count: self.row_count as usize,
            key_count,
            index_size,
            is_first_known: self.is_first_known,
            reason: None,
            reads: Vec::new(),
            warnings: warnings::invalid_keys(self.invalid_keys.as_ref()),
            first_of: Vec::new(),
            provider: None,
            dependency: None,
        }
    }
}

impl Explanation {
    /// Adds what requires reading the tables: how SQLite reads them, and what is probably wrong.
    /// Failures are ignored, as the statement itself was accepted.
    pub(crate) fn look_at(&mut self, sql: &str, tables: &Tables) {
        tables.with(|tables| {
            if self.kind == PlanKind::Sqlite {
                self.reads = reads::reads(sql, tables).unwrap_or_default();
            }
            self.warnings.extend(warnings::local(sql, tables));
            self.column_types = column_types::of(sql, tables).unwrap_or_default();
        });
    }

    /// As [`Self::look_at`], for a statement that reads a name of `[[first_of]]`.
    pub(crate) fn look_at_first_of(
        &mut self,
        names: &FirstOf,
        expansion: &Expansion,
        tables: &Tables,
    ) {
        let mut reads = Vec::new();
        for sql in &expansion.members {
            self.look_at(sql, tables);
            reads.append(&mut self.reads);
        }
        self.reads = reads;
        // The same column may have other types in other tables and in the default row.
        self.column_types = Vec::new();
        if let Some(table) = &mut self.table {
            *table = names.name().into();
        }
        self.first_of = names.tables().to_vec();
    }

    /// The largest table of which SQLite reads all rows for each query, if there is one.
    pub fn largest_scan(&self) -> Option<&TableRead> {
        let scans = self.reads.iter().filter(|it| it.kind == ReadKind::Scan);
        scans.max_by_key(|read| read.row_count)
    }

    /// The names of the folder's tables that are read, sorted and without duplicates; virtual
    /// tables are excluded.
    pub fn tables(&self) -> Vec<&str> {
        let native = self.table.as_deref();
        let reads = self.reads.iter().map(|read| &*read.table);
        let first_of = self.first_of.iter().map(String::as_str);
        let mut tables: Vec<&str> = native.into_iter().chain(reads).chain(first_of).collect();
        tables.sort_unstable();
        tables.dedup();
        tables
    }

    /// What answers, in one line: `hash index of users(login)`, `sqlite, full scan of users, 250
    /// rows`, `provider assets`.
    pub fn summary(&self) -> String {
        if let Some(provider) = &self.provider {
            return format!("provider {}", provider.name);
        }
        if let Some(table) = &self.table {
            return format!(
                "{} index of {table}({})",
                self.kind,
                self.key_columns.join(", ")
            );
        }
        let mut summary = self.kind.to_string();
        for read in &self.reads {
            summary.push_str(&format!(", {read}"));
        }
        summary
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(provider) = &self.provider {
            return provider.write(&self.columns, f);
        }
        if let Some(reason) = &self.reason {
            write!(f, "sqlite: {reason}")?;
            for read in &self.reads {
                write!(f, "\n  {read}")?;
            }
            return Ok(());
        }
        let table = self.table.as_deref().unwrap_or_default();
        let columns = self.key_columns.join(", ");
        writeln!(f, "{}: {table}({columns})", self.kind)?;
        let unit = match self.kind {
            PlanKind::Interval => "boundaries",
            PlanKind::Patterns => "patterns",
            _ => "keys",
        };
        writeln!(
            f,
            "  {} rows, {} {unit}, index of {} KiB",
            self.row_count,
            self.key_count,
            self.index_size.div_ceil(1024)
        )?;
        f.write_str(match self.is_first_known {
            true => "  first of several rows: known",
            false => "  no key has several rows",
        })
    }
}

impl PlanKind {
    /// The kind in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Interval => "interval",
            Self::HostSuffix => "host suffix",
            Self::PathPrefix => "path prefix",
            Self::Patterns => "pattern",
            Self::Sqlite => "sqlite",
            Self::Provider => "provider",
        }
    }
}

impl fmt::Display for PlanKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Explanation {
    /// Writes a few lines for users.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)?;
        if !self.first_of.is_empty() {
            write!(f, "\n  first of: {}", self.first_of.join(", "))?;
        }
        if let Some(dependency) = &self.dependency {
            write!(f, "\n  freshness: {dependency}")?;
            if let Some(help) = &dependency.help {
                write!(f, "\n    help: {help}")?;
            }
        }
        for StatementWarning { message, help, .. } in &self.warnings {
            write!(f, "\nwarning: {message}\n  help: {help}")?;
        }
        Ok(())
    }
}

impl ProviderPlan {
    fn write(&self, columns: &[Text], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let typed = |name: &Text, type_name: &Text| format!("{name} {type_name}");
        let params: Vec<String> = self
            .params
            .iter()
            .map(|(name, it)| typed(name, it))
            .collect();
        let columns = columns.iter().zip(&self.column_types);
        let columns: Vec<String> = columns.map(|(name, it)| typed(name, it)).collect();
        writeln!(f, "provider: {} ({})", self.name, self.server)?;
        writeln!(f, "  sent: {}", self.sql)?;
        if self.first_row_sql != self.sql {
            writeln!(
                f,
                "  for the first row: {}",
                self.first_row_sql.replace('\n', " ")
            )?;
        }
        if !params.is_empty() {
            writeln!(f, "  parameters: {}", params.join(", "))?;
        }
        write!(f, "  columns: {}", columns.join(", "))
    }
}
