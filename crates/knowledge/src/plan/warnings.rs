//! Warnings about probable mistakes in statements that the database accepts.

use std::sync::Arc;

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value as Literal,
};

use super::census::Census;
use super::comparisons::{
    Item, Operator, Output, Scope, Source, args_of, bare, column_of, scopes_of, text_of,
};
use super::invalid_keys::InvalidKeys;
use super::schema::Table;
use super::tables::TableCache;
use crate::functions;
use crate::scan::Dialect;

/// A probable mistake in a statement: it is answered, but probably not as its author intended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatementWarning {
    /// The kind of mistake.
    pub kind: WarningKind,
    /// What is wrong, as a lower-case line.
    pub message: String,
    /// What to write instead.
    pub help: String,
}

/// The kind of mistake of a [`StatementWarning`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WarningKind {
    /// Addresses that are stored as text are compared, or sorted, as text.
    AddressText,
    /// A column is compared with itself.
    SelfComparison,
    /// Values of a column are not of the form that a function expects, so that no key finds their
    /// rows.
    InvalidKeys,
    /// The statement could not be analyzed, so mistakes in it are not found.
    NotAnalyzed,
}

/// The warnings about a statement of the folder's own tables.
pub(super) fn local(sql: &str, tables: &mut TableCache) -> Vec<StatementWarning> {
    let scopes = match scopes_of(sql, Dialect::Sqlite) {
        Ok(scopes) => scopes,
        Err(reason) => return vec![not_analyzed(&reason)],
    };
    let mut warnings = self_comparisons(&scopes);
    for scope in &scopes {
        warnings.extend(address_ranges(scope, tables));
        warnings.extend(address_order(scope, tables));
    }
    warnings
}

/// The warnings about a statement of a provider, whose tables are not read. Servers have syntax
/// that is not analyzed here, often without an alternative, so that alone is not a warning.
pub(crate) fn of_provider(sql: &str, dialect: Dialect) -> Vec<StatementWarning> {
    scopes_of(sql, dialect).map_or_else(|_| Vec::new(), |scopes| self_comparisons(&scopes))
}

/// The warning about values that no key finds, or because of which queries fail.
pub(super) fn invalid_keys(keys: Option<&InvalidKeys>) -> Vec<StatementWarning> {
    let Some(keys) = keys else {
        return Vec::new();
    };
    let InvalidKeys {
        column,
        form,
        count,
        row,
        example,
        problem,
    } = keys;
    let (message, help) = match (problem, count) {
        (Some(problem), 1) => (
            format!("`{example}` in row {row} of `{column}` is not {form}: {problem}"),
            "correct the value; until then, queries that reach its row fail",
        ),
        (Some(problem), count) => (
            format!(
                "{count} values of `{column}` are not {form}; the first is `{example}` in row \
                 {row}: {problem}"
            ),
            "correct the values; until then, queries that reach their rows fail",
        ),
        (None, 1) => (
            format!(
                "`{example}` in row {row} of `{column}` is not {form}, so no key finds its row"
            ),
            "correct the value, or remove the row",
        ),
        (None, count) => (
            format!(
                "{count} values of `{column}` are not {form}, so no key finds their rows; the \
                 first is `{example}` in row {row}"
            ),
            "correct the values, or remove the rows",
        ),
    };
    vec![StatementWarning {
        kind: WarningKind::InvalidKeys,
        message,
        help: help.to_owned(),
    }]
}

fn not_analyzed(reason: &str) -> StatementWarning {
    StatementWarning {
        kind: WarningKind::NotAnalyzed,
        message: format!(
            "this statement could not be analyzed, so mistakes in it are not found: {reason}"
        ),
        help: "rewrite it without the construct that the reason names, or as shorter statements"
            .to_owned(),
    }
}

fn self_comparisons(scopes: &[Scope]) -> Vec<StatementWarning> {
    let mut warnings: Vec<StatementWarning> = Vec::new();
    for scope in scopes {
        for comparison in &scope.comparisons {
            let (column, right) = (&comparison.left, &comparison.right);
            let Some(name) = any_column(column) else {
                continue;
            };
            if !is_same(column, right, &scope.sources) {
                continue;
            }
            let warning = StatementWarning {
                kind: WarningKind::SelfComparison,
                message: format!(
                    "`{column}` is compared with itself, so the condition has no effect"
                ),
                help: format!(
                    "pass the value to look up as a parameter: `read({name})` in a model, \
                     `:{name}` elsewhere"
                ),
            };
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    warnings
}

/// Whether two expressions are the same column. Equal names always are, in any scope; a qualified
/// and an unqualified name are if there is only one table.
fn is_same_column(left: &Expr, right: &Expr, sources: &[Source]) -> bool {
    let (Some((left_source, left)), Some((right_source, right))) =
        (column_of(left), column_of(right))
    else {
        return false;
    };
    let same_source = match (left_source, right_source) {
        (Some(left), Some(right)) => left.eq_ignore_ascii_case(right),
        (None, None) => true,
        _ => sources.len() == 1,
    };
    same_source && left.eq_ignore_ascii_case(right)
}

/// Whether two expressions are the same in all their parts, which are columns and constants.
fn is_same(left: &Expr, right: &Expr, sources: &[Source]) -> bool {
    let (left, right) = (without_plus(left), without_plus(right));
    if is_same_column(left, right, sources) {
        return true;
    }
    match (left, right) {
        (Expr::Value(left), Expr::Value(right)) => {
            left == right && !matches!(left.value, Literal::Placeholder(_))
        }
        (
            Expr::Trim {
                trim_where: left_where,
                trim_what: None,
                expr: left,
                trim_characters: None,
            },
            Expr::Trim {
                trim_where: right_where,
                trim_what: None,
                expr: right,
                trim_characters: None,
            },
        ) => left_where == right_where && is_same(left, right, sources),
        (
            Expr::Cast {
                expr: left,
                data_type: left_type,
                ..
            },
            Expr::Cast {
                expr: right,
                data_type: right_type,
                ..
            },
        ) => left_type == right_type && is_same(left, right, sources),
        (
            Expr::UnaryOp {
                op: left_op,
                expr: left,
            },
            Expr::UnaryOp {
                op: right_op,
                expr: right,
            },
        ) => left_op == right_op && is_same(left, right, sources),
        (
            Expr::BinaryOp {
                left: left_first,
                op: left_op,
                right: left_second,
            },
            Expr::BinaryOp {
                left: right_first,
                op: right_op,
                right: right_second,
            },
        ) => {
            left_op == right_op
                && is_same(left_first, right_first, sources)
                && is_same(left_second, right_second, sources)
        }
        (Expr::Function(left), Expr::Function(right)) => {
            let name = left.name.to_string();
            name.eq_ignore_ascii_case(&right.name.to_string())
                && left.over.is_none()
                && right.over.is_none()
                && args_of(left).count() == args_of(right).count()
                && args_of(left)
                    .zip(args_of(right))
                    .all(|(left, right)| is_same(left, right, sources))
        }
        _ => false,
    }
}

fn without_plus(expr: &Expr) -> &Expr {
    match bare(expr) {
        Expr::UnaryOp {
            op: UnaryOperator::Plus,
            expr,
        } => without_plus(expr),
        expr => expr,
    }
}

/// The name of the first column in an expression that [`is_same`] compares.
fn any_column(expr: &Expr) -> Option<&str> {
    match bare(expr) {
        Expr::Trim { expr, .. } | Expr::Cast { expr, .. } | Expr::UnaryOp { expr, .. } => {
            any_column(expr)
        }
        Expr::BinaryOp { left, right, .. } => any_column(left).or_else(|| any_column(right)),
        Expr::Function(call) => args_of(call).find_map(any_column),
        expr => column_of(expr).map(|(_, name)| name),
    }
}

/// One side of a range over a column of addresses.
struct AddressBound {
    /// The column as written.
    column: String,
    side: Side,
    operator: Operator,
    /// The address that is looked up, as written.
    operand: String,
    is_ip4: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Low,
    High,
}

fn address_ranges(scope: &Scope, tables: &mut TableCache) -> Option<StatementWarning> {
    let mut bounds = Vec::new();
    for comparison in &scope.comparisons {
        if !matches!(comparison.operator, Operator::Less | Operator::LessOrEqual) {
            continue;
        }
        let sides = [
            (&comparison.left, Side::Low, &comparison.right),
            (&comparison.right, Side::High, &comparison.left),
        ];
        let found = sides.into_iter().find_map(|(column, side, operand)| {
            let census = census_of(column, scope, tables)?;
            (!is_other_text(operand)).then(|| AddressBound {
                column: column.to_string(),
                side,
                operator: comparison.operator,
                operand: argument_of(operand).to_string(),
                is_ip4: census.is_ip4(),
            })
        });
        bounds.extend(found);
    }
    let mut columns: Vec<String> = Vec::new();
    for bound in &bounds {
        let column = format!("`{}`", bound.column);
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    if columns.is_empty() {
        return None;
    }
    let verb = if columns.len() == 1 { "holds" } else { "hold" };
    Some(StatementWarning {
        kind: WarningKind::AddressText,
        message: format!(
            "{} {verb} addresses as text, and text does not sort as addresses do: '9.0.0.0' \
             sorts after '10.0.0.0'",
            columns.join(" and ")
        ),
        help: format!(
            "write `{}`; or store keys, ip_key(?1) in insert.sql, and compare them with \
             ip_key(:ip)",
            instead(bounds)
        ),
    })
}

/// The condition that should replace comparisons as text.
fn instead(mut bounds: Vec<AddressBound>) -> String {
    let mut terms = Vec::new();
    while !bounds.is_empty() {
        let bound = bounds.remove(0);
        let other = bounds.iter().position(|other| {
            other.side != bound.side
                && other.operand == bound.operand
                && other.is_ip4
                && bound.is_ip4
                && other.operator == Operator::LessOrEqual
                && bound.operator == Operator::LessOrEqual
        });
        terms.push(match other {
            Some(index) => {
                let other = bounds.remove(index);
                let (low, high) = match bound.side {
                    Side::Low => (&bound, &other),
                    Side::High => (&other, &bound),
                };
                let (low, high) = (&low.column, &high.column);
                format!("ip4_between({}, {low}, {high})", bound.operand)
            }
            None => {
                let operator = match (bound.operator, bound.side) {
                    (Operator::Less, Side::Low) => "<",
                    (Operator::Less, Side::High) => ">",
                    (_, Side::Low) => "<=",
                    (_, Side::High) => ">=",
                };
                let (column, operand) = (&bound.column, &bound.operand);
                format!("ip_key({column}) {operator} ip_key({operand})")
            }
        });
    }
    terms.join(" and ")
}

fn address_order(scope: &Scope, tables: &mut TableCache) -> Option<StatementWarning> {
    let order = scope.order.as_ref()?;
    let census = census_of(&order.expr, scope, tables)?;
    let column = order.expr.to_string();
    let function = if census.is_ip4() { "ip4_int" } else { "ip_key" };
    let call = format!("{function}({column})");
    Some(StatementWarning {
        kind: WarningKind::AddressText,
        message: format!(
            "`{column}` holds addresses as text and is sorted as text: '9.0.0.0' comes after \
             '10.0.0.0'"
        ),
        help: format!(
            "write `order by {}`",
            order
                .to_string()
                .replacen(&column, &call, 1)
                .replace(" DESC", " desc")
                .replace(" ASC", " asc")
        ),
    })
}

/// The census of the column that an expression refers to, also through a subquery or a function
/// that preserves text; `None` if it is not a table column that holds addresses.
fn census_of(expr: &Expr, scope: &Scope, tables: &mut TableCache) -> Option<Census> {
    let (source, name) = column_of(text_of(expr))?;
    let mut search = Search::default();
    let mut origin = search.column(source, name, &scope.sources, tables);
    if origin.is_none() && source.is_none() {
        // A name that no source has may be that of a result column.
        origin = search.output(name, &scope.output, tables).origin();
    }
    origin?.addresses(tables)
}

/// A column of a table.
pub(super) struct Origin {
    pub(super) table: Arc<Table>,
    pub(super) column: usize,
}

/// The most sources that are searched for one column. Queries may refer to each other many times,
/// which gives more paths than can be searched.
const STEP_COUNT_MAX: usize = 10_000;

/// A search for the table column that a name refers to.
#[derive(Default)]
pub(super) struct Search {
    step_count: usize,
}

impl Search {
    pub(super) fn column(
        &mut self,
        qualifier: Option<&str>,
        name: &str,
        sources: &[Source],
        tables: &mut TableCache,
    ) -> Option<Origin> {
        for source in sources {
            if qualifier.is_some_and(|qualifier| !qualifier.eq_ignore_ascii_case(&source.name)) {
                continue;
            }
            self.step_count += 1;
            if self.step_count > STEP_COUNT_MAX {
                return None;
            }
            if let Some(query) = &source.query {
                match self.output(name, query, tables) {
                    Found::Origin(origin) => return Some(origin),
                    Found::Other => return None,
                    Found::Absent => {}
                }
            }
            let table = source
                .table
                .as_ref()
                .and_then(|table| tables.table(table).ok());
            if let Some(table) = table
                && let Some(column) = declared_column(&table, name)
            {
                return Some(Origin { table, column });
            }
        }
        None
    }

    /// The result column of a query with this name, in any of its selects.
    fn output(&mut self, name: &str, query: &Output, tables: &mut TableCache) -> Found {
        let mut found = self.first_output(name, query, tables);
        let position = query.position(name);
        for other in &query.others {
            if found.is_addresses(tables) || self.step_count > STEP_COUNT_MAX {
                break;
            }
            self.step_count += 1;
            let behind = match position {
                Some(position) => self.output_at(position, other, tables),
                None => self.first_output(name, other, tables),
            };
            if behind.is_addresses(tables) {
                found = behind;
            }
        }
        found
    }

    /// The result column of a select at this position.
    fn output_at(&mut self, position: usize, query: &Output, tables: &mut TableCache) -> Found {
        let sources = &query.sources;
        for (index, item) in query.items.iter().enumerate() {
            let origin = match item {
                Item::Column { origin, .. } if index == position => {
                    origin.as_ref().and_then(|(source, name)| {
                        self.column(source.as_deref(), name, sources, tables)
                    })
                }
                Item::Column { .. } => continue,
                // After it, positions are unknown.
                Item::All(source) => {
                    self.column_origin(source.as_deref(), position - index, sources, tables)
                }
            };
            return origin.map_or(Found::Other, Found::Origin);
        }
        Found::Absent
    }

    /// As `output`, for the first select of a query only.
    fn first_output(&mut self, name: &str, query: &Output, tables: &mut TableCache) -> Found {
        let named = query
            .names
            .iter()
            .position(|it| it.eq_ignore_ascii_case(name));
        for (index, item) in query.items.iter().enumerate() {
            match item {
                Item::Column { name: own, origin } => {
                    let own = query.names.get(index).or(own.as_ref());
                    if own.is_some_and(|own| own.eq_ignore_ascii_case(name)) {
                        let found = origin.as_ref().and_then(|(source, name)| {
                            self.column(source.as_deref(), name, &query.sources, tables)
                        });
                        return found.map_or(Found::Other, Found::Origin);
                    }
                }
                // After it, positions are unknown; remaining names of the alias are taken as its
                // columns.
                Item::All(source) => {
                    let sources = &query.sources;
                    let source = source.as_deref();
                    let origin = match named {
                        Some(position) => {
                            self.column_origin(source, position - index, sources, tables)
                        }
                        None => self.column(source, name, sources, tables),
                    };
                    match origin {
                        Some(origin) => return Found::Origin(origin),
                        None if named.is_some() => return Found::Other,
                        None => {}
                    }
                }
            }
        }
        Found::Absent
    }

    /// The column at this position of `*` or `source.*`, which depends on the tables.
    fn column_origin(
        &mut self,
        source: Option<&str>,
        mut position: usize,
        sources: &[Source],
        tables: &mut TableCache,
    ) -> Option<Origin> {
        for it in sources {
            if source.is_some_and(|source| !source.eq_ignore_ascii_case(&it.name)) {
                continue;
            }
            let table = tables.table(it.table.as_ref()?).ok()?;
            if position < table.declared_count {
                let name = table.column(position).name.clone();
                let column = declared_column(&table, &name)?;
                return Some(Origin { table, column });
            }
            position -= table.declared_count;
        }
        None
    }
}

impl Origin {
    /// The census of its texts, if they are addresses.
    fn addresses(&self, tables: &mut TableCache) -> Option<Census> {
        let census = tables.census(&self.table, self.column).ok()?;
        Some(census).filter(|it| it.holds_addresses())
    }
}

/// The meaning of a name among the result columns of a query.
enum Found {
    Origin(Origin),
    /// Something other than the text of a column.
    Other,
    Absent,
}

impl Found {
    fn is_addresses(&self, tables: &mut TableCache) -> bool {
        match self {
            Self::Origin(origin) => origin.addresses(tables).is_some(),
            Self::Other | Self::Absent => false,
        }
    }

    fn origin(self) -> Option<Origin> {
        match self {
            Self::Origin(origin) => Some(origin),
            Self::Other | Self::Absent => None,
        }
    }
}

fn declared_column(table: &Arc<Table>, name: &str) -> Option<usize> {
    let position = table.position(name)?;
    (!table.is_rowid(position)).then_some(position)
}

/// Whether an operand is a text that is certainly not an address: a comparison with `'10.'` is
/// intended as one of text.
fn is_other_text(operand: &Expr) -> bool {
    match bare(operand) {
        Expr::Value(value) => match &value.value {
            Literal::SingleQuotedString(text) => functions::ip_key_of(text).is_none(),
            _ => false,
        },
        _ => false,
    }
}

/// The argument of an engine function, or the operand itself.
fn argument_of(operand: &Expr) -> &Expr {
    if let Expr::Function(call) = operand
        && ["ip4_int", "ip_key"]
            .iter()
            .any(|name| call.name.to_string().eq_ignore_ascii_case(name))
        && let FunctionArguments::List(list) = &call.args
        && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_slice()
    {
        return argument;
    }
    operand
}
