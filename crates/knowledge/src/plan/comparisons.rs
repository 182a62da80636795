//! The comparisons anywhere in a statement, and the tables that they may refer to.
//!
//! Answers do not depend on this module: it serves warnings, and a statement that cannot be parsed
//! gets a warning of its own kind.

use std::rc::Rc;

use sqlparser::ast::{
    BinaryOperator, Expr, Function as Call, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, JoinConstraint, JoinOperator, LimitClause, OrderByExpr, OrderByKind, Query,
    Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias,
    TableFactor, TableWithJoins, UnaryOperator, Value as Literal, WindowType,
};
use sqlparser::dialect::{Dialect as ParserDialect, MySqlDialect, PostgreSqlDialect};
use sqlparser::parser::{Parser, ParserError};

use super::shape::SQL_SIZE_MAX;
use super::sqlite_dialect::SqliteForms;
use crate::scan::Dialect;

/// One `select` of a statement.
#[derive(Debug, Default)]
pub(super) struct Scope {
    /// The tables that columns may belong to: those of the select itself, then those of the
    /// enclosing selects.
    pub(super) sources: Vec<Source>,
    pub(super) comparisons: Vec<Comparison>,
    /// Its result columns, whose names its conditions may use as well.
    pub(super) output: Output,
    /// The first `order by` expression, if it has a limit.
    pub(super) order: Option<OrderByExpr>,
}

/// One entry of `from`.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The name that qualifies its columns.
    pub(super) name: String,
    /// The table; `None` for a subquery, a function or a table of a schema.
    pub(super) table: Option<String>,
    /// The query, if it is one of `with` or one in parentheses.
    pub(super) query: Option<Rc<Output>>,
}

/// The result columns of a query.
#[derive(Clone, Debug, Default)]
pub(super) struct Output {
    /// The column names of an alias, from the first column on.
    pub(super) names: Vec<String>,
    pub(super) items: Vec<Item>,
    /// The sources that the origins of the items refer to.
    pub(super) sources: Vec<Source>,
    /// The result columns of the selects after `union` and similar operators, which correspond to
    /// these by position.
    pub(super) others: Vec<Rc<Output>>,
    /// The nesting depth of the queries that its names refer to, including itself.
    depth: usize,
}

/// Maximum nesting of queries that are searched for a column, as the search recurses.
const DEPTH_MAX: usize = 64;

/// One entry of a `select` list.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Column {
        /// The name, if it has one.
        name: Option<String>,
        /// The column whose text it is, and the qualifier of that column.
        origin: Option<(Option<String>, String)>,
    },
    /// `*`, or `source.*`.
    All(Option<String>),
}

/// Two compared expressions.
#[derive(Debug)]
pub(super) struct Comparison {
    /// The lesser operand, if the operator is an ordering.
    pub(super) left: Expr,
    pub(super) operator: Operator,
    pub(super) right: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    Less,
    LessOrEqual,
    Other,
}

/// The selects of a statement; a one-line reason if it cannot be parsed.
pub(super) fn scopes_of(sql: &str, dialect: Dialect) -> Result<Vec<Scope>, String> {
    if sql.len() > SQL_SIZE_MAX {
        return Err(format!("it is longer than {SQL_SIZE_MAX} bytes"));
    }
    let parser: &dyn ParserDialect = match dialect {
        Dialect::Sqlite => &SqliteForms,
        Dialect::Postgres => &PostgreSqlDialect {},
        Dialect::Mysql => &MySqlDialect {},
    };
    let statements = Parser::parse_sql(parser, sql).map_err(|error| match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        ParserError::RecursionLimitExceeded => "it is nested too deeply".to_owned(),
    })?;
    let mut walker = Walker::default();
    for statement in statements {
        if let Statement::Query(query) = statement {
            walker.query(&query, &[]);
        }
    }
    Ok(walker.scopes)
}

/// The columns that a SQLite statement compares by `=` or `in`, each with its table. Both are
/// spelled as declared; `columns` returns the declared columns of a table.
pub(crate) fn equal_columns(
    sql: &str,
    columns: &dyn Fn(&str) -> Vec<String>,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for scope in scopes_of(sql, Dialect::Sqlite).unwrap_or_default() {
        for comparison in &scope.comparisons {
            if comparison.operator != Operator::Equal {
                continue;
            }
            for side in [&comparison.left, &comparison.right] {
                let Some((qualifier, name)) = column_of(side) else {
                    continue;
                };
                let column = scope.sources.iter().find_map(|source| {
                    let is_meant = qualifier.is_none_or(|it| it.eq_ignore_ascii_case(&source.name));
                    let table = source.table.as_ref().filter(|_| is_meant)?;
                    let mut columns = columns(table).into_iter();
                    let column = columns.find(|column| column.eq_ignore_ascii_case(name))?;
                    Some((table.to_lowercase(), column))
                });
                found.extend(column);
            }
        }
    }
    found
}

/// An expression without surrounding parentheses.
pub(super) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        expr => expr,
    }
}

/// A column as written: its qualifier and its name.
pub(super) fn column_of(expr: &Expr) -> Option<(Option<&str>, &str)> {
    match bare(expr) {
        Expr::Identifier(name) => Some((None, &name.value)),
        Expr::CompoundIdentifier(names) => match names.as_slice() {
            [.., source, name] => Some((Some(&source.value), &name.value)),
            _ => None,
        },
        Expr::Collate { expr, .. } => column_of(expr),
        _ => None,
    }
}

/// The expression whose text an expression returns, up to white space and letter case: the argument
/// of functions, casts and branches that preserve text.
pub(super) fn text_of(expr: &Expr) -> &Expr {
    let kept = match expr {
        Expr::Nested(inner)
        | Expr::Collate { expr: inner, .. }
        | Expr::Trim { expr: inner, .. }
        | Expr::UnaryOp {
            op: UnaryOperator::Plus,
            expr: inner,
        }
        // With a length, the result is a part of the text.
        | Expr::Substring {
            expr: inner,
            substring_for: None,
            ..
        } => return text_of(inner),
        Expr::Cast {
            expr: inner,
            data_type,
            ..
        } => {
            // A type with SQLite's TEXT affinity.
            let name = data_type.to_string().to_lowercase();
            let is_text = ["char", "clob", "text"].iter().any(|it| name.contains(it));
            is_text.then(|| text_of(inner))
        }
        Expr::BinaryOp {
            left,
            op: BinaryOperator::StringConcat,
            right,
        } => match (is_empty_text(left), is_empty_text(right)) {
            (true, _) => Some(text_of(right)),
            (_, true) => Some(text_of(left)),
            _ => None,
        },
        Expr::Case {
            conditions,
            else_result,
            ..
        } => {
            let results = conditions.iter().map(|when| &when.result);
            column_among(results.chain(else_result.as_deref()))
        }
        Expr::Subquery(query) => value_of(query).map(text_of),
        Expr::Function(call) => text_of_call(call),
        _ => None,
    };
    kept.unwrap_or(expr)
}

fn text_of_call(call: &Call) -> Option<&Expr> {
    let name = call.name.to_string().to_lowercase();
    let mut args = args_of(call);
    match &*name {
        "trim" | "ltrim" | "rtrim" | "trim_quotes" | "lower" | "upper" | "nullif" | "replace"
        | "likely" | "unlikely" | "likelihood" => args.next().map(text_of),
        "substr" | "substring" => args.next().filter(|_| args.count() == 1).map(text_of),
        "coalesce" | "ifnull" | "concat" | "min" | "max" => column_among(args),
        // The arguments after the condition, or the format.
        "iif" | "if" | "printf" | "format" => column_among(args.skip(1)),
        "ip4_text" => match bare(args.next()?) {
            Expr::Function(inner) if inner.name.to_string().eq_ignore_ascii_case("ip4_int") => {
                args_of(inner).next().map(text_of)
            }
            _ => None,
        },
        _ => None,
    }
}

/// The first column whose text one of the expressions returns.
fn column_among<'e>(exprs: impl Iterator<Item = &'e Expr>) -> Option<&'e Expr> {
    exprs.map(text_of).find(|expr| column_of(expr).is_some())
}

/// The expression of `(select expression)`.
fn value_of(query: &Query) -> Option<&Expr> {
    let SetExpr::Select(select) = &*query.body else {
        return None;
    };
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }]
            if select.from.is_empty() =>
        {
            Some(expr)
        }
        _ => None,
    }
}

/// The arguments of a call that are expressions.
pub(super) fn args_of(call: &Call) -> impl Iterator<Item = &Expr> {
    let args = match &call.args {
        FunctionArguments::List(list) => list.args.as_slice(),
        _ => &[],
    };
    args.iter().filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

fn is_empty_text(expr: &Expr) -> bool {
    match bare(expr) {
        Expr::Value(value) => {
            matches!(&value.value, Literal::SingleQuotedString(text) if text.is_empty())
        }
        _ => false,
    }
}

/// The `order by` and limit of a query.
#[derive(Clone, Copy, Default)]
struct Sorting<'q> {
    exprs: &'q [OrderByExpr],
    is_limited: bool,
}

#[derive(Default)]
struct Walker {
    /// The queries of `with` by their names, which are not tables. The result columns of a query
    /// are unknown within itself.
    withs: Vec<(String, Option<Rc<Output>>)>,
    scopes: Vec<Scope>,
}

impl Walker {
    /// Walks a query and returns its result columns; of several selects, those of the first.
    fn query(&mut self, query: &Query, outer: &[Source]) -> Output {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            let index = self.withs.len();
            self.withs
                .push((table.alias.name.value.to_lowercase(), None));
            let output = self.query(&table.query, outer);
            self.withs[index].1 = Some(Rc::new(output.named(&table.alias)));
        }
        let exprs = match query.order_by.as_ref().map(|order| &order.kind) {
            Some(OrderByKind::Expressions(exprs)) => exprs.as_slice(),
            _ => &[],
        };
        let is_limited = matches!(
            query.limit_clause,
            Some(LimitClause::LimitOffset { limit: Some(_), .. })
        );
        self.body(&query.body, outer, Sorting { exprs, is_limited })
    }

    fn body(&mut self, body: &SetExpr, outer: &[Source], sorting: Sorting<'_>) -> Output {
        match body {
            SetExpr::Select(select) => self.select(select, outer, sorting),
            SetExpr::Query(query) => self.query(query, outer),
            SetExpr::SetOperation { left, right, .. } => {
                let mut output = self.body(left, outer, Sorting::default());
                let mut right = self.body(right, outer, Sorting::default());
                let others = std::mem::take(&mut right.others);
                output.depth = output.depth.max(right.depth);
                output.others.push(Rc::new(right));
                output.others.extend(others);
                output
            }
            _ => Output::default(),
        }
    }

    fn select(&mut self, select: &Select, outer: &[Source], sorting: Sorting<'_>) -> Output {
        let mut scope = Scope {
            order: sorting
                .exprs
                .first()
                .filter(|_| sorting.is_limited)
                .cloned(),
            ..Scope::default()
        };
        let mut exprs = Vec::new();
        for from in &select.from {
            self.from(from, outer, &mut scope.sources, &mut exprs);
        }
        let output = Output {
            names: Vec::new(),
            items: select.projection.iter().map(Item::of).collect(),
            depth: 1 + scope.sources.iter().map(Source::depth).max().unwrap_or(0),
            sources: scope.sources.clone(),
            others: Vec::new(),
        };
        scope.output = output.clone();
        scope.sources.extend_from_slice(outer);
        exprs.extend(select.projection.iter().filter_map(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
            _ => None,
        }));
        exprs.extend(&select.selection);
        exprs.extend(&select.having);
        if let GroupByExpr::Expressions(groups, _) = &select.group_by {
            exprs.extend(groups);
        }
        exprs.extend(sorting.exprs.iter().map(|order| &order.expr));
        for expr in exprs {
            self.expr(expr, &mut scope);
        }
        self.scopes.push(scope);
        output
    }

    fn from<'a>(
        &mut self,
        from: &'a TableWithJoins,
        outer: &[Source],
        sources: &mut Vec<Source>,
        exprs: &mut Vec<&'a Expr>,
    ) {
        self.factor(&from.relation, outer, sources, exprs);
        for join in &from.joins {
            self.factor(&join.relation, outer, sources, exprs);
            if let Some(JoinConstraint::On(expr)) = constraint_of(&join.join_operator) {
                exprs.push(expr);
            }
        }
    }

    fn factor<'a>(
        &mut self,
        factor: &'a TableFactor,
        outer: &[Source],
        sources: &mut Vec<Source>,
        exprs: &mut Vec<&'a Expr>,
    ) {
        match factor {
            TableFactor::Table {
                name, alias, args, ..
            } => {
                let Some(table) = name.0.last().and_then(|part| part.as_ident()) else {
                    return;
                };
                let is_main = match name.0.as_slice() {
                    [_] => true,
                    [schema, _] => schema
                        .as_ident()
                        .is_some_and(|schema| schema.value.eq_ignore_ascii_case("main")),
                    _ => false,
                };
                let lower = table.value.to_lowercase();
                let with = self.withs.iter().rev().find(|(name, _)| *name == lower);
                let is_table = is_main && args.is_none() && with.is_none();
                let query = with.and_then(|(_, output)| output.clone());
                let query = query.filter(|query| query.depth < DEPTH_MAX);
                sources.push(Source {
                    name: alias
                        .as_ref()
                        .map_or(table, |alias| &alias.name)
                        .value
                        .clone(),
                    table: is_table.then(|| table.value.clone()),
                    query,
                });
            }
            TableFactor::Derived {
                subquery, alias, ..
            } => {
                let around: Vec<Source> = sources.iter().chain(outer).cloned().collect();
                let output = self.query(subquery, &around);
                let (name, output) = match alias {
                    Some(alias) => (alias.name.value.clone(), output.named(alias)),
                    None => (String::new(), output),
                };
                sources.push(Source {
                    name,
                    table: None,
                    query: (output.depth < DEPTH_MAX).then(|| Rc::new(output)),
                });
            }
            TableFactor::NestedJoin {
                table_with_joins, ..
            } => self.from(table_with_joins, outer, sources, exprs),
            _ => {}
        }
    }

    fn expr(&mut self, expr: &Expr, scope: &mut Scope) {
        match expr {
            Expr::Nested(inner)
            | Expr::UnaryOp { expr: inner, .. }
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::Collate { expr: inner, .. }
            | Expr::Trim { expr: inner, .. }
            | Expr::Substring { expr: inner, .. }
            | Expr::Ceil { expr: inner, .. }
            | Expr::Floor { expr: inner, .. }
            | Expr::Cast { expr: inner, .. } => self.expr(inner, scope),
            Expr::BinaryOp { left, op, right } => {
                compare(left, op, right, scope);
                self.expr(left, scope);
                self.expr(right, scope);
            }
            Expr::IsDistinctFrom(left, right)
            | Expr::IsNotDistinctFrom(left, right)
            | Expr::Like {
                expr: left,
                pattern: right,
                ..
            }
            | Expr::ILike {
                expr: left,
                pattern: right,
                ..
            } => {
                scope.push(left, Operator::Other, right);
                self.expr(left, scope);
                self.expr(right, scope);
            }
            Expr::Between {
                expr, low, high, ..
            } => {
                scope.push(low, Operator::LessOrEqual, expr);
                scope.push(expr, Operator::LessOrEqual, high);
                for part in [expr, low, high] {
                    self.expr(part, scope);
                }
            }
            Expr::InList { expr, list, .. } => {
                self.expr(expr, scope);
                for item in list {
                    scope.push(expr, Operator::Equal, item);
                    self.expr(item, scope);
                }
            }
            Expr::InSubquery { expr, subquery, .. } => {
                self.expr(expr, scope);
                self.query(subquery, &scope.sources);
            }
            Expr::Exists { subquery, .. } | Expr::Subquery(subquery) => {
                self.query(subquery, &scope.sources);
            }
            Expr::Tuple(items) => items.iter().for_each(|item| self.expr(item, scope)),
            Expr::Case {
                operand,
                conditions,
                else_result,
                ..
            } => {
                operand.iter().for_each(|it| self.expr(it, scope));
                for when in conditions {
                    self.expr(&when.condition, scope);
                    self.expr(&when.result, scope);
                }
                else_result.iter().for_each(|it| self.expr(it, scope));
            }
            Expr::Function(call) => self.call(call, scope),
            _ => {}
        }
    }

    fn call(&mut self, call: &Call, scope: &mut Scope) {
        if let FunctionArguments::Subquery(query) = &call.args {
            self.query(query, &scope.sources);
        }
        let window = match &call.over {
            Some(WindowType::WindowSpec(window)) => Some(window),
            _ => None,
        };
        let sorted = window.iter().flat_map(|it| &it.order_by);
        let exprs = args_of(call)
            .chain(call.filter.as_deref())
            .chain(window.iter().flat_map(|it| &it.partition_by))
            .chain(sorted.map(|order| &order.expr));
        for expr in exprs {
            self.expr(expr, scope);
        }
    }
}

impl Source {
    fn depth(&self) -> usize {
        self.query.as_ref().map_or(0, |query| query.depth)
    }
}

impl Output {
    /// The position of the column with this name, if it can be determined without reading tables.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        let is_name = |own: &String| own.eq_ignore_ascii_case(name);
        if !self.names.is_empty() {
            return self.names.iter().position(is_name);
        }
        let columns = self.items.iter().map_while(|item| match item {
            Item::Column { name, .. } => Some(name),
            Item::All(_) => None,
        });
        columns
            .into_iter()
            .position(|own| own.as_ref().is_some_and(is_name))
    }

    fn named(mut self, alias: &TableAlias) -> Self {
        let names = alias.columns.iter().map(|column| column.name.value.clone());
        self.names = names.collect();
        self
    }
}

impl Item {
    fn column(name: Option<&str>, expr: &Expr) -> Self {
        let origin = column_of(text_of(expr));
        Self::Column {
            name: name.map(str::to_owned),
            origin: origin.map(|(source, name)| (source.map(str::to_owned), name.to_owned())),
        }
    }

    fn of(item: &SelectItem) -> Self {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let name = column_of(expr).map(|(_, name)| name);
                Self::column(name, expr)
            }
            SelectItem::ExprWithAlias { expr, alias } => Self::column(Some(&alias.value), expr),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let source = name.0.last().and_then(|part| part.as_ident());
                Self::All(source.map(|source| source.value.clone()))
            }
            _ => Self::All(None),
        }
    }
}

impl Scope {
    /// Rows are compared column by column.
    fn push(&mut self, left: &Expr, operator: Operator, right: &Expr) {
        if let (Expr::Tuple(lefts), Expr::Tuple(rights)) = (bare(left), bare(right))
            && operator != Operator::Other
        {
            for (left, right) in lefts.iter().zip(rights) {
                self.push(left, operator, right);
            }
            return;
        }
        self.comparisons.push(Comparison {
            left: bare(left).clone(),
            operator,
            right: bare(right).clone(),
        });
    }
}

fn compare(left: &Expr, op: &BinaryOperator, right: &Expr, scope: &mut Scope) {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq, Spaceship};
    match op {
        Eq => scope.push(left, Operator::Equal, right),
        Lt => scope.push(left, Operator::Less, right),
        LtEq => scope.push(left, Operator::LessOrEqual, right),
        Gt => scope.push(right, Operator::Less, left),
        GtEq => scope.push(right, Operator::LessOrEqual, left),
        NotEq | Spaceship => scope.push(left, Operator::Other, right),
        _ => {}
    }
}

fn constraint_of(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::CrossJoin(constraint)
        | JoinOperator::StraightJoin(constraint) => Some(constraint),
        _ => None,
    }
}
