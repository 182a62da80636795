//! Identifiers as PostgreSQL reads them.

use sqlparser::ast::{Ident, ObjectName};

use super::Reason;
use crate::sql_name::quote_name;

/// Words that are functions without parentheses, unless they are quoted or follow a dot.
const FUNCTION_WORDS: [&str; 12] = [
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtime",
    "localtimestamp",
    "session_user",
    "system_user",
    "user",
];

/// The columns that each table has.
const SYSTEM_COLUMNS: [&str; 6] = ["cmax", "cmin", "ctid", "tableoid", "xmax", "xmin"];

/// A name in the form in which the catalog has it.
pub(super) fn folded(ident: &Ident) -> Result<String, Reason> {
    match ident.quote_style {
        None => Ok(ident.value.to_ascii_lowercase()),
        Some('"') => Ok(ident.value.clone()),
        // `select "date" 'now'` is a value of the type `date`, but the parser takes it for a column
        // and its alias.
        Some(_) => Err("contains a name in quotes of another kind".into()),
    }
}

/// The parts of a qualified name.
pub(super) fn parts(name: &ObjectName) -> Result<Vec<&Ident>, Reason> {
    name.0
        .iter()
        .map(|part| part.as_ident())
        .collect::<Option<_>>()
        .ok_or_else(|| "contains a name of unknown form".into())
}

/// The name of a table, quoted, so that `to_regclass` reads it.
pub(super) fn relation(name: &ObjectName) -> Result<Vec<String>, Reason> {
    let parts = parts(name)?;
    if parts.len() > 2 {
        return Err(format!("reads {name}, a name of more than two parts").into());
    }
    // `from only t`, which the parser takes for a table `only` with the alias `t`.
    if let [word] = parts[..]
        && word.quote_style.is_none()
        && word.value.eq_ignore_ascii_case("only")
    {
        return Err("reads only a table without those that inherit from it".into());
    }
    parts.into_iter().map(folded).collect()
}

/// A qualified name as `to_regclass` reads it.
pub(super) fn quoted(parts: &[String]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| quote_name(part)).collect();
    parts.join(".")
}

/// A column with its table, if the text names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ColumnName {
    pub(super) table: Option<String>,
    pub(super) column: String,
}

/// The column of an identifier, which may be qualified.
pub(super) fn column(idents: &[Ident]) -> Result<ColumnName, Reason> {
    let Some(last) = idents.last().filter(|_| idents.len() <= 3) else {
        return Err("contains a name of more than three parts".into());
    };
    let name = folded(last)?;
    if idents.len() == 1 && last.quote_style.is_none() && FUNCTION_WORDS.contains(&name.as_str()) {
        return Err(format!("uses {name}").into());
    }
    if SYSTEM_COLUMNS.contains(&name.as_str()) {
        return Err(format!("uses the system column {name}").into());
    }
    // Of `schema.table.column`, the table is enough to find the column.
    let table = idents.len().checked_sub(2).map(|at| folded(&idents[at]));
    Ok(ColumnName {
        table: table.transpose()?,
        column: name,
    })
}
