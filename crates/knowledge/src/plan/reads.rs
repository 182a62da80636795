//! How SQLite reads the tables of a statement: through an index, or from the first row to the last.

use std::fmt;

use lookaside_value::Text;
use rusqlite::Connection;

use super::comparisons::{Source, scopes_of};
use super::reason::Reason;
use super::tables::TableCache;
use crate::scan::Dialect;

/// How SQLite reads one table for a statement, as `explain query plan` reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableRead {
    /// The table.
    pub table: Text,
    /// How its rows are found.
    pub kind: ReadKind,
    /// The terms that the index is searched by, in SQLite's notation, such as `name=?`; empty for a
    /// full scan.
    pub terms: String,
    /// How many rows the table has.
    pub row_count: usize,
}

/// How the rows of a table are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadKind {
    /// By equal keys of an index.
    Index,
    /// By a range of an index, which may be most of the table.
    Range,
    /// All rows are read, for each query.
    Scan,
}

impl fmt::Display for TableRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            table,
            kind,
            terms,
            row_count,
        } = self;
        match kind {
            ReadKind::Index => write!(f, "index of {table} ({terms})"),
            ReadKind::Range => write!(f, "range of an index of {table} ({terms})"),
            ReadKind::Scan => {
                let rows = if *row_count == 1 { "row" } else { "rows" };
                write!(f, "full scan of {table}, {row_count} {rows}")
            }
        }
    }
}

/// How SQLite reads the tables of a statement; empty if it reads none.
pub(super) fn reads(sql: &str, tables: &mut TableCache) -> Result<Vec<TableRead>, Reason> {
    let details = details(&tables.connection, sql)?;
    let mut sources: Vec<(String, String)> = Vec::new();
    for Source { name, table, .. } in scopes_of(sql, Dialect::Sqlite)
        .into_iter()
        .flatten()
        .flat_map(|scope| scope.sources)
    {
        sources.extend(table.map(|table| (name, table)));
    }
    // The tables of a view do not occur in the statement.
    for table in tables.table_names()? {
        sources.push((table.clone(), table));
    }
    let mut reads: Vec<TableRead> = Vec::new();
    for detail in &details {
        let Some((name, kind, terms)) = parts_of(detail, &sources) else {
            continue;
        };
        let Ok(table) = tables.table(name) else {
            continue;
        };
        let read = TableRead {
            table: table.name.as_str().into(),
            kind,
            terms,
            row_count: tables.row_count(&table)?,
        };
        if !reads.contains(&read) {
            reads.push(read);
        }
    }
    Ok(reads)
}

fn details(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let mut explain = connection.prepare(&format!("explain query plan {sql}"))?;
    explain
        .raw_query()
        .mapped(|row| row.get("detail"))
        .collect()
}

/// The table that a line of SQLite's plan refers to, and how it is read. A line names a table as
/// the statement does; if several names match, the longest is the right one.
fn parts_of<'a>(
    detail: &str,
    sources: &'a [(String, String)],
) -> Option<(&'a str, ReadKind, String)> {
    let (is_scan, rest) = match detail.strip_prefix("SCAN ") {
        Some(rest) => (true, rest),
        None => (false, detail.strip_prefix("SEARCH ")?),
    };
    let follows = |name: &str| {
        let rest = rest.strip_prefix(name)?;
        (rest.is_empty() || rest.starts_with(' ')).then_some(rest)
    };
    let (_, table, how) = sources
        .iter()
        .filter_map(|(name, table)| Some((name.len(), table.as_str(), follows(name)?)))
        // Of equal names, the first is the one in the statement.
        .rev()
        .max_by_key(|(length, ..)| *length)?;
    if how.contains("VIRTUAL TABLE") {
        return None;
    }
    // An automatic index is built for each query.
    if is_scan || how.contains("AUTOMATIC") {
        return Some((table, ReadKind::Scan, String::new()));
    }
    let terms = how
        .split_once(" (")
        .and_then(|(_, terms)| Some(terms.rsplit_once(')')?.0))
        .unwrap_or_default();
    let kind = match terms.contains("=?") || !terms.contains(['<', '>']) {
        true => ReadKind::Index,
        false => ReadKind::Range,
    };
    Some((table, kind, terms.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_plan_name_tables_and_how_they_are_read() {
        let sources: Vec<(String, String)> = [
            ("t", "hosts"),
            ("t u", "odd"),
            ("asn", "asn"),
            ("hosts", "hosts"),
        ]
        .map(|(name, table)| (name.to_owned(), table.to_owned()))
        .into();
        use ReadKind::{Index, Range, Scan};
        for (detail, expected) in [
            ("SCAN t", Some(("hosts", Scan, ""))),
            ("SCAN t u", Some(("odd", Scan, ""))),
            (
                "SCAN hosts USING COVERING INDEX i",
                Some(("hosts", Scan, "")),
            ),
            (
                "SEARCH t USING INDEX i (a=? AND b>?)",
                Some(("hosts", Index, "a=? AND b>?")),
            ),
            (
                "SEARCH asn USING INTEGER PRIMARY KEY (rowid<?)",
                Some(("asn", Range, "rowid<?")),
            ),
            (
                "SEARCH asn USING AUTOMATIC COVERING INDEX (a=?)",
                Some(("asn", Scan, "")),
            ),
            ("SCAN json_each VIRTUAL TABLE INDEX 1:", None),
            ("SCAN CONSTANT ROW", None),
            ("USE TEMP B-TREE FOR ORDER BY", None),
        ] {
            let seen = parts_of(detail, &sources);
            let seen = seen
                .as_ref()
                .map(|(table, kind, terms)| (*table, *kind, terms.as_str()));
            assert_eq!(seen, expected, "{detail}");
        }
    }
}
