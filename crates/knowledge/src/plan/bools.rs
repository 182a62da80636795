//! Boolean parameters that are compared with columns of text.
//!
//! SQLite has no booleans, and CSV files write them as words. A column that is derived from such
//! words stays text, so that it shows the original words; a boolean parameter that is compared with
//! it becomes the word in the column's notation. Anywhere else a boolean is 1 or 0.

use lookaside_value::Text;
use sqlparser::ast::{Expr, Value as Literal};

use super::bool_words::BoolWords;
use super::comparisons::{bare, column_of, scopes_of};
use super::tables::{TableCache, Tables};
use super::warnings::Search;
use crate::scan::Dialect;

impl Tables {
    /// For each parameter of a statement, the words that replace a boolean value, if any.
    pub(crate) fn bool_words(&self, sql: &str, params: &[Text]) -> Box<[Option<BoolWords>]> {
        self.with(|tables| words_of_params(sql, params, tables))
    }
}

/// For each parameter, the words that replace a boolean value, if any; empty for a statement
/// without such columns.
fn words_of_params(
    sql: &str,
    params: &[Text],
    tables: &mut TableCache,
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

/// The position of the parameter, if the expression is one.
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
