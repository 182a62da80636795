//! Booleans in columns of text: what `true` and `false` mean there.
//!
//! SQLite has no booleans, and CSV files have words for them. A column that is derived from such words
//! stays text, so that it shows what was written; a boolean that is compared with it becomes the word
//! of that column. Anywhere else a boolean is 1 or 0.

use lookaside_value::Text;
use rusqlite::{Connection, OptionalExtension as _};
use sqlparser::ast::{Expr, Value as Literal};

use super::comparisons::{bare, column_of, scopes_of};
use super::tables::Inner;
use super::warnings::Search;
use crate::load::quote_name;
use crate::scan::Dialect;

/// The type with which such a column is declared; by SQLite's rules its values are text.
pub(crate) const BOOL_TEXT: &str = "TEXT BOOLEAN";

/// How a column writes its booleans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoolWords {
    /// `true` and `false`.
    Lower,
    /// `True` and `False`, as Python writes them.
    Title,
    /// `TRUE` and `FALSE`, as spreadsheets do.
    Upper,
}

impl BoolWords {
    const ALL: [Self; 3] = [Self::Lower, Self::Title, Self::Upper];

    /// The words that a cell is of.
    pub(crate) fn of(cell: &[u8]) -> Option<Self> {
        let is_word = |words: &Self| {
            [false, true]
                .iter()
                .any(|bool| words.word(*bool).as_bytes() == cell)
        };
        Self::ALL.into_iter().find(is_word)
    }

    pub(crate) fn word(self, bool: bool) -> &'static str {
        let [no, yes] = match self {
            Self::Lower => ["false", "true"],
            Self::Title => ["False", "True"],
            Self::Upper => ["FALSE", "TRUE"],
        };
        if bool { yes } else { no }
    }

    /// The words of a column that is declared as [`BOOL_TEXT`], by the first value that is not empty.
    pub(super) fn of_column(
        connection: &Connection,
        table: &str,
        column: &str,
    ) -> rusqlite::Result<Option<Self>> {
        let (table, column) = (quote_name(table), quote_name(column));
        let sql = format!("select {column} from main.{table} where {column} <> '' limit 1");
        let cell = connection.query_row(&sql, [], |row| {
            Ok(row.get_ref(0)?.as_bytes().ok().and_then(Self::of))
        });
        Ok(cell.optional()?.flatten())
    }
}

/// For each parameter the words that it is compared with, if it is one; none of a statement without
/// such columns.
pub(super) fn words_of_params(
    sql: &str,
    params: &[Text],
    tables: &mut Inner,
) -> Box<[Option<BoolWords>]> {
    if params.is_empty() || !tables.has_bool_texts() {
        return Box::default();
    }
    let mut words = vec![None; params.len()];
    for scope in scopes_of(sql, Dialect::Sqlite).unwrap_or_default() {
        for comparison in &scope.comparisons {
            let (left, right) = (&comparison.left, &comparison.right);
            for (column, param) in [(left, right), (right, left)] {
                let Some((source, name)) = column_of(column) else {
                    continue;
                };
                let Some(position) = param_of(param, params) else {
                    continue;
                };
                let origin = Search::default().column(source, name, &scope.sources, tables);
                let found = origin.and_then(|it| it.table.column(it.column).words);
                words[position] = words[position].or(found);
            }
        }
    }
    words.into()
}

/// The position of the parameter that an expression is.
fn param_of(expr: &Expr, params: &[Text]) -> Option<usize> {
    let Expr::Value(value) = bare(expr) else {
        return None;
    };
    let Literal::Placeholder(name) = &value.value else {
        return None;
    };
    let name = name.strip_prefix(':')?;
    params.iter().position(|param| param == name)
}
