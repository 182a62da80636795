//! What a statement uses: the result of reading it.

use sqlparser::ast::{Expr, Query, SetExpr, TableFactor};

use super::names;

/// What a statement uses; the names are not resolved yet.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// The tables, without repetitions. A name may also be that of a common table expression.
    pub(super) relations: Vec<RelationName>,
    /// What the text reads from: tables, and everything else that has columns.
    pub(super) sources: Vec<Source>,
    /// The names of common table expressions.
    pub(super) ctes: Vec<String>,
    /// The positions of relations whose columns the text gives other names.
    pub(super) renamed: Vec<usize>,
    pub(super) columns: Vec<ColumnUse>,
    /// Names that the text itself gives to columns.
    pub(super) aliases: Vec<String>,
    pub(super) calls: Vec<Call>,
    /// The names of operators, sorted and without repetitions.
    pub(super) operators: Vec<String>,
    /// Whether a query is within another one. What a name refers to is then not known exactly.
    pub(super) is_nested: bool,
}

/// A table by its parts, as the catalog has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RelationName(pub(super) Vec<String>);

impl RelationName {
    /// The name for `to_regclass`.
    pub(super) fn quoted(&self) -> String {
        names::quoted(&self.0)
    }

    pub(super) fn last(&self) -> &str {
        self.0.last().expect("a name has a part")
    }
}

/// Something that columns are read from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// Its alias, or else its name.
    pub(super) name: String,
    /// The position among the relations; `None` for a query.
    pub(super) relation: Option<usize>,
}

/// How an expression is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Shown, sorted or grouped, without being compared with values of other types.
    Shown,
    /// An operand, or an argument: a literal beside it takes its type, so the type must be one
    /// whose input does not depend on the time or on settings. `day = 'today'` is true tomorrow for
    /// other rows.
    Operand,
}

/// A column in an expression.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ColumnUse {
    /// `None` for all columns: `*`.
    pub(super) column: Option<String>,
    pub(super) table: Option<String>,
    pub(super) usage: Use,
}

/// A call of a function.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) argument_count: usize,
    /// An argument is a literal or a parameter, whose type the function decides.
    pub(super) has_untyped: bool,
}

/// A part of a statement that is still to be read.
pub(super) enum Node<'a> {
    Query(&'a Query),
    Set(&'a SetExpr),
    Expr(&'a Expr, Use),
    From(&'a TableFactor),
}

impl Uses {
    /// Names that are qualified by something that may be a query. Those qualified by a table are
    /// found among its columns.
    pub(super) fn members(&self) -> Vec<&str> {
        let may_be_query = |table: &str| {
            let mut sources = self.sources.iter().filter(|source| source.name == table);
            sources.any(|source| match source.relation {
                None => true,
                Some(relation) => self
                    .ctes
                    .iter()
                    .any(|cte| cte == self.relations[relation].last()),
            })
        };
        let columns = self.columns.iter();
        columns
            .filter(|used| used.table.as_deref().is_some_and(may_be_query))
            .filter_map(|used| used.column.as_deref())
            .collect()
    }
}

/// An expression without the parentheses around it.
pub(super) fn bare(mut expr: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}
