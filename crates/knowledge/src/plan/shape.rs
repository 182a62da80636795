//! Recognises the shapes of SQL that have a native plan, without reading any table.
//!
//! The parser accepts more than SQLite, so its result is verified twice: a statement whose text is
//! not fully covered by the recognised parts is not native (see [`rest_of_select`]), and the
//! planner lets SQLite prepare the same text and compares both interpretations.

use lookaside_value::{Text, Value};
use sqlparser::ast::{
    BinaryOperator, Expr, Function as Call, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    LimitClause, ObjectName, OrderBy, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableFactor, UnaryOperator,
    Value as Literal,
};
use sqlparser::dialect::SQLiteDialect;
use sqlparser::parser::Parser;

use super::operand::Operand;
use super::reason::Reason;
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
    /// `order by <column> desc`
    pub(super) order_descending: Option<Order>,
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
    Equal(Vec<(Ident, Operand)>),
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
        }
    }
}

/// A descending `order by`: a column, or an engine function of it.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) column: Ident,
    pub(super) function: Option<Function>,
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
    let order_descending = order_of(query.order_by.as_ref(), &projection)?;
    Ok(Shape {
        table: single_name(name).ok_or(OTHER_FORM)?.value.clone(),
        table_alias: alias.as_ref().map(|alias| alias.name.value.clone()),
        condition: condition_of(selection, params)?,
        projection,
        order_descending,
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
    let refused = Reason::fixed("it is not ordered by the lower bound in descending order");
    let OrderByKind::Expressions(exprs) = &order.kind else {
        return Err(refused);
    };
    let [expr] = exprs.as_slice() else {
        return Err(refused);
    };
    let called = || {
        let (function, [argument]) = parts_of(call_of(&expr.expr)?)?;
        Some((column_of(argument)?, Some(function)))
    };
    let column = column_of(&expr.expr).map(|column| (column, None));
    let Some((column, function)) = column.or_else(called) else {
        return Err(refused);
    };
    // An alias hides a column of the same name here, and only here.
    let is_hidden = projection.iter().any(|projected| match projected {
        Projected::Column {
            name,
            alias: Some(alias),
        } => {
            alias.value.eq_ignore_ascii_case(&column.value)
                && !name.value.eq_ignore_ascii_case(&column.value)
        }
        _ => false,
    });
    let is_descending = order.to_string() == format!("ORDER BY {} DESC", expr.expr);
    if is_hidden || !is_descending {
        return Err(refused);
    }
    Ok(Some(Order {
        column: column.clone(),
        function,
    }))
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
    Equal(Ident, Operand),
    Low(Side),
    High(Side),
    Ip4Between(Operand, Ident, Ident),
}

fn condition_of(selection: &Expr, params: &[Text]) -> Result<Condition, Reason> {
    let mut terms = Vec::new();
    let is_known = push_terms(selection, params, &mut terms).is_some();
    let refused = Reason::fixed("its condition is neither equalities nor one interval");
    if !is_known {
        return Err(refused);
    }
    let (mut equal, mut low, mut high) = (Vec::new(), Vec::new(), Vec::new());
    let mut between = Vec::new();
    for term in terms {
        match term {
            Term::Equal(column, operand) => equal.push((column, operand)),
            Term::Low(side) => low.push(side),
            Term::High(side) => high.push(side),
            Term::Ip4Between(ip, low, high) => between.push((ip, low, high)),
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
        Expr::Function(call) => terms.push(ip4_between(call, params)?),
        _ => return None,
    }
    Some(())
}

fn comparison(left: &Expr, op: &BinaryOperator, right: &Expr, params: &[Text]) -> Option<Term> {
    if let (Some(call), BinaryOperator::Eq, Some(one)) = (call_of(left), op, literal_of(right))
        && let Some(term) = ip4_between(call, params)
    {
        return (one == Value::Int(1)).then_some(term);
    }
    if let (Some(one), BinaryOperator::Eq, Some(call)) = (literal_of(left), op, call_of(right))
        && let Some(term) = ip4_between(call, params)
    {
        return (one == Value::Int(1)).then_some(term);
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
        (BinaryOperator::Eq, _) => Term::Equal(column, operand),
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

fn ip4_between(call: &Call, params: &[Text]) -> Option<Term> {
    let (Function::Ip4Between, [ip, low, high]) = parts_of(call)? else {
        return None;
    };
    Some(Term::Ip4Between(
        operand_of(ip, params)?,
        column_of(low)?.clone(),
        column_of(high)?.clone(),
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
