//! Recognises the shapes of SQL that have a native plan, without reading any table.
//!
//! The parser accepts more than SQLite, so its result is verified twice: a statement whose text is
//! not fully covered by the recognised parts is not native (see [`rest_of_select`]), and the
//! planner lets SQLite prepare the same text and compares both interpretations.

use lookaside_value::{Text, Value};
use sqlparser::ast::{
    BinaryOperator, Expr, Function as Call, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    LimitClause, ObjectName, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableFactor, UnaryOperator,
    Value as Literal,
};
use sqlparser::dialect::SQLiteDialect;
use sqlparser::parser::Parser;

use super::operand::Operand;
use super::reason::Reason;
use super::schema::ROWID_NAMES;
use crate::functions::Function;
use crate::index::Bound;

/// Longer statements go to SQLite unparsed: no lookup is that long, and parsing costs memory.
pub(super) const SQL_SIZE_MAX: usize = 64 * 1024;

/// The number of digits of an integer literal that always fit in an `i64`.
const LITERAL_DIGIT_COUNT_MAX: usize = 18;

/// A single-table statement of a form that can be native; names are not resolved yet.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) table: String,
    /// The name of the table in SQLite's plan: its alias if it has one.
    pub(super) table_alias: Option<String>,
    pub(super) projection: Vec<Projected>,
    pub(super) condition: Condition,
    pub(super) order: Option<Order>,
    /// `limit 1`
    pub(super) is_limited: bool,
}

#[derive(Debug)]
pub(super) enum Projected {
    All,
    Column { name: Ident, alias: Option<Ident> },
}

#[derive(Debug)]
pub(super) enum Condition {
    /// Each column equals its operand.
    Equal(Vec<(KeyColumn, Operand)>),
    /// `low <= operand and high >= operand`, each bound with a separate operand.
    Within { low: Side, high: Side },
    /// The same with `ip_key(low)` and `ip_key(high)`.
    WithinKeys { low: Side, high: Side },
    /// `ip4_between(operand, low, high)`
    Ip4Between {
        ip: Operand,
        low: Ident,
        high: Ident,
    },
    /// `relation(operand, column)`
    Related {
        relation: Relation,
        operand: Operand,
        column: Ident,
    },
}

/// A column that is compared by `=`, or a function of it.
#[derive(Debug)]
pub(super) struct KeyColumn {
    pub(super) column: Ident,
    pub(super) function: Option<Function>,
}

/// A function of a key and a column that tells whether the row belongs to the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Relation {
    /// `cidr_contains`
    Network,
    /// `host_under`
    Host,
    /// `path_under`
    Path,
    /// `regexp_like`
    Pattern,
}

impl Relation {
    fn of(function: Function) -> Option<Self> {
        match function {
            Function::CidrContains => Some(Self::Network),
            Function::HostUnder => Some(Self::Host),
            Function::PathUnder => Some(Self::Path),
            Function::RegexpLike => Some(Self::Pattern),
            _ => None,
        }
    }
}

impl Condition {
    /// Calls `visit` with each operand.
    pub(super) fn visit_operands(&self, visit: &mut impl FnMut(&Operand)) {
        match self {
            Self::Equal(terms) => terms.iter().for_each(|(_, operand)| visit(operand)),
            Self::Within { low, high } | Self::WithinKeys { low, high } => {
                visit(&low.operand);
                visit(&high.operand);
            }
            Self::Ip4Between { ip, .. } => visit(ip),
            Self::Related { operand, .. } => visit(operand),
        }
    }
}

/// An `order by`.
#[derive(Debug)]
pub(super) enum Order {
    /// By the row id, ascending.
    RowId(Ident),
    /// By a column or a function of it, descending.
    Descending {
        column: Ident,
        function: Option<OrderFunction>,
        /// The row id, by which ties are sorted, ascending.
        row_id: Option<Ident>,
    },
}

/// A function by which rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderFunction {
    /// One of Lookaside's functions.
    Own(Function),
    /// SQLite's `length`.
    Length,
}

/// One bound of an interval.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) column: Ident,
    /// The bound is `ip_key` of the column.
    is_key: bool,
    pub(super) bound: Bound,
    pub(super) operand: Operand,
}

const OTHER_FORM: Reason = Reason::fixed("it has a clause that native plans do not support");

/// Recognises the shape of a statement; `params` are the names of its parameters in the order of
/// their values.
pub(super) fn shape_of(sql: &str, params: &[Text]) -> Result<Shape, Reason> {
    if sql.len() > SQL_SIZE_MAX {
        return Err(Reason::fixed("the statement is very long"));
    }
    // SQLite treats these as letters or as the end of the text, the parser as white space.
    if sql.contains(|c: char| c == '\0' || c == '\u{feff}' || !c.is_ascii() && c.is_whitespace()) {
        return Err(Reason::fixed("it contains unusual white space"));
    }
    let mut statements = Parser::parse_sql(&SQLiteDialect {}, sql)
        .map_err(|error| Reason::new(format!("the parser cannot read it: {error}")))?;
    let (Some(Statement::Query(query)), true) = (statements.pop(), statements.is_empty()) else {
        return Err(Reason::fixed("it is not one select"));
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        return Err(Reason::fixed("it is a compound select"));
    };
    let [from] = select.from.as_slice() else {
        return Err(Reason::fixed("it does not read one table"));
    };
    if !from.joins.is_empty() {
        return Err(Reason::fixed("it joins tables"));
    }
    let TableFactor::Table { name, alias, .. } = &from.relation else {
        return Err(Reason::fixed("it does not read a plain table"));
    };
    let Some(selection) = &select.selection else {
        return Err(Reason::fixed("it has no condition"));
    };
    if query.to_string() != rest_of_select(&query, select, selection) {
        return Err(OTHER_FORM);
    }
    let plain_table = match alias {
        None => name.to_string(),
        Some(alias) => format!("{name} {}{}", as_word(alias.explicit), alias.name),
    };
    if from.relation.to_string() != plain_table {
        return Err(OTHER_FORM);
    }
    let projection = projection_of(&select.projection)?;
    let order = order_of(query.order_by.as_ref(), &projection)?;
    Ok(Shape {
        table: single_name(name).ok_or(OTHER_FORM)?.value.clone(),
        table_alias: alias.as_ref().map(|alias| alias.name.value.clone()),
        condition: condition_of(selection, params)?,
        projection,
        order,
        is_limited: limit_of(query.limit_clause.as_ref())?,
    })
}

fn as_word(is_explicit: bool) -> &'static str {
    if is_explicit { "AS " } else { "" }
}

/// The text of a statement that consists only of the supported clauses. If the statement has others
/// (`distinct`, `group by`, `with`, …), its own text differs from this.
fn rest_of_select(query: &Query, select: &Select, selection: &Expr) -> String {
    let items: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "SELECT {} FROM {} WHERE {selection}",
        items.join(", "),
        select.from[0]
    );
    if let Some(order_by) = &query.order_by {
        text.push_str(&format!(" {order_by}"));
    }
    if let Some(limit) = &query.limit_clause {
        text.push_str(&limit.to_string());
    }
    text
}

fn single_name(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    }
}

/// A column, also as `table.column`: with one table, SQLite accepts no other qualifier.
fn column_of(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) if names.len() == 2 => names.last(),
        Expr::Nested(inner) => column_of(inner),
        _ => None,
    }
}

fn projection_of(items: &[SelectItem]) -> Result<Vec<Projected>, Reason> {
    items
        .iter()
        .map(|item| match item {
            SelectItem::Wildcard(_) if item.to_string() == "*" => Some(Projected::All),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _)
                if item.to_string() == format!("{name}.*") && name.0.len() == 1 =>
            {
                Some(Projected::All)
            }
            SelectItem::UnnamedExpr(expr) => column_of(expr).map(|name| Projected::Column {
                name: name.clone(),
                alias: None,
            }),
            SelectItem::ExprWithAlias { expr, alias } => {
                column_of(expr).map(|name| Projected::Column {
                    name: name.clone(),
                    alias: Some(alias.clone()),
                })
            }
            _ => None,
        })
        .collect::<Option<_>>()
        .ok_or(Reason::fixed("it selects expressions other than columns"))
}

fn order_of(order: Option<&OrderBy>, projection: &[Projected]) -> Result<Option<Order>, Reason> {
    let Some(order) = order else {
        return Ok(None);
    };
    let refused = Reason::fixed("it has an order that native plans do not support");
    let OrderByKind::Expressions(exprs) = &order.kind else {
        return Err(refused);
    };
    let (first, second) = match exprs.as_slice() {
        [first] => (first, None),
        [first, second] => (first, Some(second)),
        _ => return Err(refused),
    };
    let row_id = match second {
        Some(second) => Some(row_id_of(second, projection).ok_or(refused.clone())?),
        None => None,
    };
    if row_id.is_none()
        && let Some(row_id) = row_id_of(first, projection)
    {
        return Ok(Some(Order::RowId(row_id)));
    }
    let called = || {
        let call = call_of(&first.expr)?;
        if single_name(&call.name)?
            .value
            .eq_ignore_ascii_case("length")
            && let [argument] = args_of(call)?.as_slice()
        {
            return Some((column_of(argument)?, Some(OrderFunction::Length)));
        }
        let (function, [argument]) = parts_of(call)?;
        Some((column_of(argument)?, Some(OrderFunction::Own(function))))
    };
    let column = column_of(&first.expr).map(|column| (column, None));
    let Some((column, function)) = column.or_else(called) else {
        return Err(refused);
    };
    let is_descending = first.to_string() == format!("{} DESC", first.expr);
    if is_hidden(column, projection) || !is_descending {
        return Err(refused);
    }
    Ok(Some(Order::Descending {
        column: column.clone(),
        function,
        row_id,
    }))
}

/// The name of the row id in an ascending term of `order by`, unless a column has this name.
fn row_id_of(term: &OrderByExpr, projection: &[Projected]) -> Option<Ident> {
    let column = column_of(&term.expr)?;
    let text = term.to_string();
    let is_ascending = text == term.expr.to_string() || text == format!("{} ASC", term.expr);
    let is_row_id = ROWID_NAMES
        .iter()
        .any(|name| name.eq_ignore_ascii_case(&column.value));
    (is_ascending && is_row_id && !is_hidden(column, projection)).then(|| column.clone())
}

/// Whether an alias hides a column of the same name, as it does in `order by` only.
fn is_hidden(column: &Ident, projection: &[Projected]) -> bool {
    projection.iter().any(|projected| match projected {
        Projected::Column {
            name,
            alias: Some(alias),
        } => {
            alias.value.eq_ignore_ascii_case(&column.value)
                && !name.value.eq_ignore_ascii_case(&column.value)
        }
        _ => false,
    })
}

fn limit_of(limit: Option<&LimitClause>) -> Result<bool, Reason> {
    match limit {
        None => Ok(false),
        Some(limit) if limit.to_string() == " LIMIT 1" => Ok(true),
        Some(_) => Err(Reason::fixed("its limit is not 1")),
    }
}

/// One of the comparisons that `and` combines.
enum Term {
    Equal(KeyColumn, Operand),
    Low(Side),
    High(Side),
    Ip4Between(Operand, Ident, Ident),
    Related(Relation, Operand, Ident),
}

fn condition_of(selection: &Expr, params: &[Text]) -> Result<Condition, Reason> {
    let mut terms = Vec::new();
    let is_known = push_terms(selection, params, &mut terms).is_some();
    let refused = Reason::fixed("its condition is neither equalities nor one interval");
    if !is_known {
        return Err(refused);
    }
    if let [Term::Related(..)] = terms.as_slice()
        && let Some(Term::Related(relation, operand, column)) = terms.pop()
    {
        return Ok(Condition::Related {
            relation,
            operand,
            column,
        });
    }
    let (mut equal, mut low, mut high) = (Vec::new(), Vec::new(), Vec::new());
    let mut between = Vec::new();
    for term in terms {
        match term {
            Term::Equal(column, operand) => equal.push((column, operand)),
            Term::Low(side) => low.push(side),
            Term::High(side) => high.push(side),
            Term::Ip4Between(ip, low, high) => between.push((ip, low, high)),
            Term::Related(..) => return Err(refused),
        }
    }
    match (equal.len(), low.pop(), high.pop(), between.pop()) {
        (1.., None, None, None) => Ok(Condition::Equal(equal)),
        (0, Some(low_side), Some(high_side), None)
            if low.is_empty() && high.is_empty() && low_side.is_key == high_side.is_key =>
        {
            let (low, high) = (low_side, high_side);
            Ok(match low.is_key {
                true => Condition::WithinKeys { low, high },
                false => Condition::Within { low, high },
            })
        }
        (0, None, None, Some((ip, low, high))) if between.is_empty() => {
            Ok(Condition::Ip4Between { ip, low, high })
        }
        _ => Err(refused),
    }
}

fn push_terms(expr: &Expr, params: &[Text], terms: &mut Vec<Term>) -> Option<()> {
    match expr {
        Expr::Nested(inner) => push_terms(inner, params, terms)?,
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            push_terms(left, params, terms)?;
            push_terms(right, params, terms)?;
        }
        Expr::BinaryOp { left, op, right } => terms.push(comparison(left, op, right, params)?),
        Expr::Between {
            expr,
            negated: false,
            low,
            high,
        } => {
            let operand = operand_of(expr, params)?;
            let side = |(column, is_key): (&Ident, bool)| Side {
                column: column.clone(),
                is_key,
                bound: Bound::Inclusive,
                operand: operand.clone(),
            };
            terms.push(Term::Low(side(bound_of(low)?)));
            terms.push(Term::High(side(bound_of(high)?)));
        }
        Expr::Function(call) => terms.push(predicate(call, params)?),
        _ => return None,
    }
    Some(())
}

fn comparison(left: &Expr, op: &BinaryOperator, right: &Expr, params: &[Text]) -> Option<Term> {
    if let (Some(call), BinaryOperator::Eq, Some(one)) = (call_of(left), op, literal_of(right))
        && let Some(term) = predicate(call, params)
    {
        return (one == Value::Int(1)).then_some(term);
    }
    if let (Some(one), BinaryOperator::Eq, Some(call)) = (literal_of(left), op, call_of(right))
        && let Some(term) = predicate(call, params)
    {
        return (one == Value::Int(1)).then_some(term);
    }
    if *op == BinaryOperator::Eq
        && let Some(term) = equal_results(left, right, params)
    {
        return Some(term);
    }
    // Normalised to `column op operand`.
    let ((column, is_key), operand, is_swapped) = match (bound_of(left), bound_of(right)) {
        (Some(bound), None) => (bound, operand_of(right, params)?, false),
        (None, Some(bound)) => (bound, operand_of(left, params)?, true),
        _ => return None,
    };
    let column = column.clone();
    let side = |bound, operand, column| Side {
        column,
        is_key,
        bound,
        operand,
    };
    Some(match (op, is_swapped) {
        (BinaryOperator::Eq, _) if is_key => return None,
        (BinaryOperator::Eq, _) => Term::Equal(
            KeyColumn {
                column,
                function: None,
            },
            operand,
        ),
        (BinaryOperator::LtEq, false) | (BinaryOperator::GtEq, true) => {
            Term::Low(side(Bound::Inclusive, operand, column))
        }
        (BinaryOperator::Lt, false) | (BinaryOperator::Gt, true) => {
            Term::Low(side(Bound::Exclusive, operand, column))
        }
        (BinaryOperator::GtEq, false) | (BinaryOperator::LtEq, true) => {
            Term::High(side(Bound::Inclusive, operand, column))
        }
        (BinaryOperator::Gt, false) | (BinaryOperator::Lt, true) => {
            Term::High(side(Bound::Exclusive, operand, column))
        }
        _ => return None,
    })
}

fn call_of(expr: &Expr) -> Option<&Call> {
    match expr {
        Expr::Function(call) => Some(call),
        Expr::Nested(inner) => call_of(inner),
        _ => None,
    }
}

/// A column, or `ip_key` of one.
fn bound_of(expr: &Expr) -> Option<(&Ident, bool)> {
    let key = || match parts_of(call_of(expr)?)? {
        (Function::IpKey, [argument]) => Some((column_of(argument)?, true)),
        _ => None,
    };
    column_of(expr).map(|column| (column, false)).or_else(key)
}

/// `function(column) = operand`, with the sides in any order.
fn equal_results(left: &Expr, right: &Expr, params: &[Text]) -> Option<Term> {
    let called = |expr: &Expr| {
        let (function, [argument]) = parts_of(call_of(expr)?)?;
        let column = column_of(argument)?.clone();
        Some(KeyColumn {
            column,
            function: Some(function),
        })
    };
    let (column, operand) = match (called(left), called(right)) {
        (Some(column), None) => (column, operand_of(right, params)?),
        (None, Some(column)) => (column, operand_of(left, params)?),
        _ => return None,
    };
    Some(Term::Equal(column, operand))
}

/// A function of a key and columns that returns 1 or 0.
fn predicate(call: &Call, params: &[Text]) -> Option<Term> {
    if let Some((Function::Ip4Between, [ip, low, high])) = parts_of(call) {
        return Some(Term::Ip4Between(
            operand_of(ip, params)?,
            column_of(low)?.clone(),
            column_of(high)?.clone(),
        ));
    }
    let (function, [key, column]) = parts_of(call)?;
    Some(Term::Related(
        Relation::of(function)?,
        operand_of(key, params)?,
        column_of(column)?.clone(),
    ))
}

/// A plain call of an engine function, without modifiers, and its arguments.
fn parts_of<const N: usize>(call: &Call) -> Option<(Function, [&Expr; N])> {
    let args = args_of(call)?;
    let name = single_name(&call.name)?;
    let function = Function::from_name(&name.value)?;
    (args.len() == N).then_some(())?;
    Some((function, std::array::from_fn(|index| args[index])))
}

fn args_of(call: &Call) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    let args: Vec<&Expr> = list
        .args
        .iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let texts: Vec<String> = args.iter().map(ToString::to_string).collect();
    let plain = format!("{}({})", call.name, texts.join(", "));
    (call.to_string() == plain).then_some(args)
}

/// A parameter, a literal, or an engine function of those.
fn operand_of(expr: &Expr, params: &[Text]) -> Option<Operand> {
    match expr {
        Expr::Nested(inner) => operand_of(inner, params),
        Expr::Value(value) => match &value.value {
            Literal::Placeholder(name) => {
                let name = name.strip_prefix(':')?;
                let position = params.iter().position(|param| param.as_str() == name)?;
                Some(Operand::Param(position))
            }
            _ => literal_of(expr).map(Operand::Literal),
        },
        Expr::UnaryOp { .. } => literal_of(expr).map(Operand::Literal),
        Expr::Function(call) => {
            let name = single_name(&call.name)?;
            let function = Function::from_name(&name.value)?;
            let args = args_of(call)?
                .into_iter()
                .map(|arg| operand_of(arg, params))
                .collect::<Option<Vec<_>>>()?;
            (args.len() == function.argument_count()).then_some(Operand::Call(function, args))
        }
        _ => None,
    }
}

/// Integers and text only; SQLite and the parser may interpret other literals differently.
fn literal_of(expr: &Expr) -> Option<Value> {
    match expr {
        Expr::Nested(inner) => literal_of(inner),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match literal_of(expr)? {
            Value::Int(int) => Some(Value::Int(-int)),
            _ => None,
        },
        Expr::Value(value) => match &value.value {
            Literal::Number(digits, false)
                if digits.len() <= LITERAL_DIGIT_COUNT_MAX
                    && digits.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                digits.parse().ok().map(Value::Int)
            }
            Literal::SingleQuotedString(text) => Some(Value::from(text.as_str())),
            _ => None,
        },
        _ => None,
    }
}
