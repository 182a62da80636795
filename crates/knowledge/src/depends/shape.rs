//! What a statement uses, read from its text alone.

use sqlparser::ast::{BinaryOperator, Expr, Query, Select, SetExpr, Statement, TableFactor};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::Reason;
use super::expressions::parameter_of;
use super::names::{self, ColumnName};
use super::queries;
use super::tokens::tokens_of;
use super::types::Cast;
use super::uses::{ColumnUse, Node, RelationName, Use, Uses, bare};

/// What a statement uses; the names are not resolved yet.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(super) form: Form,
    pub(super) uses: Uses,
}

/// The class of a statement, as far as its text determines it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One table, and a conjunction of `column = $n`.
    Key {
        terms: Vec<KeyTerm>,
        /// There is a limit without an order, so the key has to be unique.
        is_arbitrary: bool,
    },
    /// Any change of the tables may change an answer; the reason is why it has no key.
    Table(Reason),
    Refused(Reason),
}

/// `column = $n`
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeyTerm {
    pub(super) column: ColumnName,
    /// The position of the parameter: 0 for `$1`.
    pub(super) parameter: usize,
    pub(super) cast: Option<Cast>,
}

impl Shape {
    /// Reads a statement, in the form in which it is sent to PostgreSQL.
    pub(crate) fn of(sql: &str) -> Self {
        let mut shape = Self {
            form: Form::Refused(Reason::Borrowed("")),
            uses: Uses::default(),
        };
        shape.form = shape.read(sql).unwrap_or_else(Form::Refused);
        shape.uses.operators.sort_unstable();
        shape.uses.operators.dedup();
        shape
    }

    /// The tables that it names, without their schemas.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &str> {
        self.uses.relations.iter().map(RelationName::last)
    }

    /// Why no change feed can keep answers to this statement fresh, if the text shows it.
    pub(crate) fn refused(&self) -> Option<&Reason> {
        match &self.form {
            Form::Refused(reason) => Some(reason),
            Form::Key { .. } | Form::Table(_) => None,
        }
    }

    fn read(&mut self, sql: &str) -> Result<Form, Reason> {
        let tokens = tokens_of(sql)?;
        let unreadable = |error| format!("cannot be read: {error}");
        let mut parser = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(tokens);
        let statement = parser.parse_statement().map_err(unreadable)?;
        while parser.consume_token(&Token::SemiColon) {}
        // `parse_statements` would stop at the word `end` and leave out what follows.
        let is_whole = parser.peek_token_ref().token == Token::EOF;
        let Statement::Query(query) = &statement else {
            return Err("is not one query".into());
        };
        if !is_whole {
            return Err("is not one query".into());
        }
        let form = match key_query(query) {
            Ok(key) => self.read_key(query, key)?,
            Err(reason) => {
                self.uses.read_all(vec![Node::Query(query)])?;
                Form::Table(reason)
            }
        };
        let is_arbitrary = queries::is_arbitrary(query);
        Ok(match form {
            Form::Key { terms, .. } => Form::Key {
                terms,
                is_arbitrary,
            },
            Form::Table(_) if is_arbitrary => return Err(queries::ARBITRARY),
            form => form,
        })
    }

    /// Reads a query of the form that may have a key: everything except the terms of the key.
    fn read_key(&mut self, query: &Query, select: &Select) -> Result<Form, Reason> {
        let mut terms = Vec::new();
        let mut nodes = Vec::new();
        self.uses.read_around_body(query, &mut nodes)?;
        self.uses.read_around_condition(select, &mut nodes)?;
        let mut conjuncts: Vec<&Expr> = select.selection.iter().collect();
        while let Some(conjunct) = conjuncts.pop() {
            match conjunct {
                Expr::Nested(inner) => conjuncts.push(inner),
                Expr::BinaryOp {
                    left,
                    op: BinaryOperator::And,
                    right,
                } => conjuncts.extend([&**right, left]),
                other => match term_of(other)? {
                    Some(term) => {
                        self.uses.operators.push("=".to_owned());
                        self.uses.columns.push(ColumnUse {
                            column: Some(term.column.column.clone()),
                            table: term.column.table.clone(),
                            usage: Use::Operand,
                        });
                        terms.push(term);
                    }
                    None => nodes.push(Node::Expr(other, Use::Operand)),
                },
            }
        }
        let has_parameters = self.uses.read_all(nodes)?;
        Ok(if has_parameters {
            Form::Table("uses parameters outside of `column = :parameter`".into())
        } else if self.uses.is_nested {
            Form::Table("contains another query".into())
        } else if terms.is_empty() {
            Form::Table("has no condition `column = :parameter`".into())
        } else {
            Form::Key {
                terms,
                is_arbitrary: false,
            }
        })
    }
}

/// The select of a query that may have a key, or else why it has none.
fn key_query(query: &Query) -> Result<&Select, Reason> {
    if query.with.is_some() {
        return Err("has a common table expression".into());
    }
    let SetExpr::Select(select) = &*query.body else {
        return Err("is not a plain select".into());
    };
    let [from] = select.from.as_slice() else {
        return Err("does not read one table".into());
    };
    if !from.joins.is_empty() {
        return Err("joins tables".into());
    }
    if !matches!(from.relation, TableFactor::Table { .. }) {
        return Err("does not read a plain table".into());
    }
    if select.selection.is_none() {
        return Err("has no condition".into());
    }
    if queries::is_grouped(select) {
        return Err("groups rows".into());
    }
    Ok(select)
}

/// The term of a condition `column = $n`, on either side.
fn term_of(expr: &Expr) -> Result<Option<KeyTerm>, Reason> {
    let Expr::BinaryOp {
        left,
        op: BinaryOperator::Eq,
        right,
    } = expr
    else {
        return Ok(None);
    };
    for (column, parameter) in [(left, right), (right, left)] {
        let idents = match bare(column) {
            Expr::Identifier(ident) => std::slice::from_ref(ident),
            Expr::CompoundIdentifier(idents) => idents,
            _ => continue,
        };
        let Some((parameter, cast)) = parameter_of(bare(parameter))? else {
            continue;
        };
        return Ok(Some(KeyTerm {
            column: names::column(idents)?,
            parameter,
            cast,
        }));
    }
    Ok(None)
}
