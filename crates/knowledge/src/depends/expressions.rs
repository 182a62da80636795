//! Expressions: which of them are known, and what they use.

use sqlparser::ast::{
    Array, BinaryOperator, CaseWhen, CastKind, CeilFloorKind, DataType, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList, FunctionArguments,
    Ident, TrimWhereField, UnaryOperator, Value as Literal, WindowSpec, WindowType,
};

use super::Reason;
use super::names;
use super::queries::read_order;
use super::types::{Cast, cast_of};
use super::uses::{Call, ColumnUse, Node, Use, Uses, bare};

/// Functions that are refused by name, with a reason that says more than the catalog could.
const VOLATILE: [&str; 20] = [
    "clock_timestamp",
    "currval",
    "current_setting",
    "gen_random_uuid",
    "lastval",
    "localtimestamp",
    "nextval",
    "now",
    "pg_current_snapshot",
    "pg_sleep",
    "random",
    "set_config",
    "setval",
    "statement_timestamp",
    "timeofday",
    "transaction_timestamp",
    "txid_current",
    "uuid_generate_v4",
    "uuidv4",
    "uuidv7",
];

/// Aggregates whose result depends on the order of the rows.
const ORDERED_AGGREGATES: [&str; 8] = [
    "array_agg",
    "json_agg",
    "json_object_agg",
    "jsonb_agg",
    "jsonb_object_agg",
    "string_agg",
    "xmlagg",
    "range_agg",
];

/// Expressions that look like calls; each returns one of its arguments.
const CONDITIONAL: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// The position of a parameter, 0 for `$1`, and the type that it is cast to.
pub(super) fn parameter_of(expr: &Expr) -> Result<Option<(usize, Option<Cast>)>, Reason> {
    match expr {
        Expr::Value(value) => match &value.value {
            Literal::Placeholder(text) => Ok(Some((position_of(text)?, None))),
            _ => Ok(None),
        },
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr,
            data_type,
            format: None,
        } => match parameter_of_value(bare(expr))? {
            Some(position) => Ok(Some((position, Some(allowed_cast(data_type)?)))),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

fn parameter_of_value(expr: &Expr) -> Result<Option<usize>, Reason> {
    match expr {
        Expr::Value(value) => match &value.value {
            Literal::Placeholder(text) => position_of(text).map(Some),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

fn position_of(placeholder: &str) -> Result<usize, Reason> {
    let number = placeholder.strip_prefix('$');
    let number = number.and_then(|number| number.parse::<u16>().ok());
    number
        .and_then(|number| usize::from(number).checked_sub(1))
        .ok_or_else(|| format!("has a parameter of the unknown form {placeholder}").into())
}

fn allowed_cast(data_type: &DataType) -> Result<Cast, Reason> {
    cast_of(data_type).ok_or_else(|| {
        let name = data_type.to_string().to_ascii_lowercase();
        format!("converts a value to {name}, which may depend on settings").into()
    })
}

/// The name of an operator whose results depend on nothing but its operands, provided that the
/// operands' types do not.
fn operator_name(op: &BinaryOperator) -> Result<String, Reason> {
    use BinaryOperator as Op;
    match op {
        Op::Plus
        | Op::Minus
        | Op::Multiply
        | Op::Divide
        | Op::Modulo
        | Op::StringConcat
        | Op::Gt
        | Op::Lt
        | Op::GtEq
        | Op::LtEq
        | Op::Eq
        | Op::NotEq
        | Op::BitwiseOr
        | Op::BitwiseAnd
        | Op::PGBitwiseXor
        | Op::PGBitwiseShiftLeft
        | Op::PGBitwiseShiftRight
        | Op::PGExp
        | Op::PGOverlap
        | Op::PGRegexMatch
        | Op::PGRegexIMatch
        | Op::PGRegexNotMatch
        | Op::PGRegexNotIMatch
        | Op::PGLikeMatch
        | Op::PGILikeMatch
        | Op::PGNotLikeMatch
        | Op::PGNotILikeMatch
        | Op::PGStartsWith
        | Op::Arrow
        | Op::LongArrow
        | Op::HashArrow
        | Op::HashLongArrow
        | Op::AtArrow
        | Op::ArrowAt
        | Op::HashMinus => Ok(op.to_string()),
        other => Err(format!("uses the operator {other}, which is not known").into()),
    }
}

impl Uses {
    /// Reads one expression, and pushes those within it. Returns whether it is a parameter.
    pub(super) fn read_expr<'a>(
        &mut self,
        expr: &'a Expr,
        usage: Use,
        nodes: &mut Vec<Node<'a>>,
    ) -> Result<bool, Reason> {
        let mut operands = |exprs: &[&'a Expr]| {
            nodes.extend(exprs.iter().map(|expr| Node::Expr(expr, Use::Operand)));
        };
        match expr {
            Expr::Identifier(ident) => self.use_column(std::slice::from_ref(ident), usage)?,
            // The parser takes `t.$1` for a name; a server refuses it.
            Expr::CompoundIdentifier(idents) if idents.iter().any(is_placeholder) => {
                return Err("has a parameter in place of a name".into());
            }
            Expr::CompoundIdentifier(idents) => self.use_column(idents, usage)?,
            Expr::Nested(inner) => nodes.push(Node::Expr(inner, usage)),
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => {
                nodes.push(Node::Expr(inner, Use::Shown));
            }
            Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner) => operands(&[inner]),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.operators.push("=".to_owned());
                operands(&[left, right]);
            }
            Expr::InList {
                expr,
                list,
                negated,
            } => {
                self.use_either(*negated, &["="], &["<>"]);
                operands(&[expr]);
                nodes.extend(list.iter().map(|item| Node::Expr(item, Use::Operand)));
            }
            Expr::InSubquery {
                expr,
                subquery,
                negated,
            } => {
                self.use_either(*negated, &["="], &["<>"]);
                self.is_nested = true;
                operands(&[expr]);
                nodes.push(Node::Query(subquery));
            }
            Expr::Exists {
                subquery,
                negated: _,
            }
            | Expr::Subquery(subquery) => {
                self.is_nested = true;
                nodes.push(Node::Query(subquery));
            }
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => {
                self.use_either(*negated, &["<=", ">="], &["<", ">"]);
                operands(&[expr, low, high]);
            }
            Expr::BinaryOp { left, op, right } => {
                if !matches!(op, BinaryOperator::And | BinaryOperator::Or) {
                    self.operators.push(operator_name(op)?);
                }
                operands(&[left, right]);
            }
            Expr::AnyOp {
                left,
                compare_op,
                right,
                is_some: _,
            }
            | Expr::AllOp {
                left,
                compare_op,
                right,
            } => {
                self.operators.push(operator_name(compare_op)?);
                operands(&[left, right]);
            }
            Expr::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => {
                self.use_either(*negated, &["~~"], &["!~~"]);
                self.use_escape(escape_char.is_some());
                operands(&[expr, pattern]);
                nodes.extend(escape_char.iter().map(|it| Node::Expr(it, Use::Operand)));
            }
            Expr::ILike {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => {
                self.use_either(*negated, &["~~*"], &["!~~*"]);
                self.use_escape(escape_char.is_some());
                operands(&[expr, pattern]);
                nodes.extend(escape_char.iter().map(|it| Node::Expr(it, Use::Operand)));
            }
            Expr::UnaryOp { op, expr } => {
                match op {
                    UnaryOperator::Not => {}
                    UnaryOperator::Plus | UnaryOperator::Minus => {
                        self.operators.push(op.to_string());
                    }
                    other => {
                        return Err(format!("uses the operator {other}, which is not known").into());
                    }
                }
                operands(&[expr]);
            }
            Expr::Value(value) => return is_parameter(&value.value),
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => {
                let Expr::Value(value) = bare(expr) else {
                    return Err("converts something other than a parameter or a literal".into());
                };
                allowed_cast(data_type)?;
                return is_parameter(&value.value);
            }
            Expr::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => {
                if operand.is_some() {
                    self.operators.push("=".to_owned());
                }
                let ends = operand.iter().chain(else_result).map(|expr| &**expr);
                let arms = conditions
                    .iter()
                    .flat_map(|CaseWhen { condition, result }| [condition, result]);
                nodes.extend(arms.chain(ends).map(|expr| Node::Expr(expr, Use::Operand)));
            }
            Expr::Tuple(exprs)
            | Expr::Array(Array {
                elem: exprs,
                named: true,
            }) => nodes.extend(exprs.iter().map(|expr| Node::Expr(expr, Use::Operand))),
            Expr::Function(call) => self.read_call(call, nodes)?,
            Expr::Substring { .. }
            | Expr::Trim { .. }
            | Expr::Position { .. }
            | Expr::Ceil { .. }
            | Expr::Floor { .. } => self.read_worded_call(expr, nodes)?,
            Expr::AtTimeZone { .. } | Expr::Extract { .. } | Expr::Interval(_) => {
                return Err("computes with times".into());
            }
            Expr::TypedString(_) => {
                return Err("has a literal of a type that may depend on settings".into());
            }
            Expr::Collate { .. } => return Err("names a collation".into()),
            _ => return Err("has an expression that is not supported".into()),
        }
        Ok(false)
    }

    /// Functions with words among their arguments.
    fn read_worded_call<'a>(
        &mut self,
        expr: &'a Expr,
        nodes: &mut Vec<Node<'a>>,
    ) -> Result<(), Reason> {
        let (name, arguments): (&str, Vec<&Expr>) = match expr {
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                special: _,
                shorthand: _,
            } => {
                let range = [substring_from, substring_for].into_iter().flatten();
                (
                    "substring",
                    [expr].into_iter().chain(range).map(|it| &**it).collect(),
                )
            }
            Expr::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters: None,
            } => {
                let name = match trim_where {
                    None | Some(TrimWhereField::Both) => "btrim",
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                };
                let what = trim_what.iter().map(|it| &**it);
                (name, [&**expr].into_iter().chain(what).collect())
            }
            Expr::Position { expr, r#in } => ("position", vec![expr, r#in]),
            Expr::Ceil {
                expr,
                field: CeilFloorKind::DateTimeField(sqlparser::ast::DateTimeField::NoDateTime),
            } => ("ceil", vec![expr]),
            Expr::Floor {
                expr,
                field: CeilFloorKind::DateTimeField(sqlparser::ast::DateTimeField::NoDateTime),
            } => ("floor", vec![expr]),
            _ => return Err("has an expression that is not supported".into()),
        };
        self.calls.push(Call {
            name: name.to_owned(),
            argument_count: arguments.len(),
            has_untyped: arguments.iter().any(|argument| is_untyped(argument)),
        });
        nodes.extend(arguments.into_iter().map(|it| Node::Expr(it, Use::Operand)));
        Ok(())
    }

    fn read_call<'a>(
        &mut self,
        call: &'a Function,
        nodes: &mut Vec<Node<'a>>,
    ) -> Result<(), Reason> {
        let Function {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            within_group,
            filter,
            null_treatment,
            over,
        } = call;
        let parts = names::parts(name)?;
        let (name, is_plain) = match parts[..] {
            [name] => (name, name.quote_style.is_none()),
            [schema, name] if names::folded(schema)? == "pg_catalog" => (name, false),
            _ => return Err(format!("uses the function {name}, which is not built in").into()),
        };
        let name = names::folded(name)?;
        if VOLATILE.contains(&name.as_str()) {
            return Err(format!("uses the function {name}(), which is not immutable").into());
        }
        let FunctionArguments::List(list) = args else {
            return Err(format!("uses {name}").into());
        };
        let is_odd = *uses_odbc_syntax
            || !matches!(parameters, FunctionArguments::None)
            || !within_group.is_empty()
            || null_treatment.is_some();
        if is_odd {
            return Err(format!("calls {name}() in an unknown form").into());
        }
        let FunctionArgumentList {
            duplicate_treatment: _,
            args,
            clauses,
        } = list;
        let mut is_ordered = false;
        for clause in clauses {
            let FunctionArgumentClause::OrderBy(exprs) = clause else {
                return Err(format!("calls {name}() in an unknown form").into());
            };
            is_ordered = true;
            read_order(exprs, nodes)?;
        }
        if ORDERED_AGGREGATES.contains(&name.as_str()) && !is_ordered {
            return Err(format!("does not say in which order {name}() takes the rows").into());
        }
        let mut has_untyped = false;
        let mut argument_count = 0;
        for arg in args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                    argument_count += 1;
                    has_untyped |= is_untyped(expr);
                    nodes.push(Node::Expr(expr, Use::Operand));
                }
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if name == "count" => {}
                _ => return Err(format!("calls {name}() in an unknown form").into()),
            }
        }
        nodes.extend(filter.iter().map(|expr| Node::Expr(expr, Use::Operand)));
        if let Some(window) = over {
            read_window(window, nodes)?;
        }
        match name.as_str() {
            conditional if is_plain && CONDITIONAL.contains(&conditional) => {
                if conditional == "nullif" {
                    self.operators.push("=".to_owned());
                }
            }
            _ => self.calls.push(Call {
                name,
                argument_count,
                has_untyped,
            }),
        }
        Ok(())
    }

    pub(super) fn use_column(&mut self, idents: &[Ident], usage: Use) -> Result<(), Reason> {
        let name = names::column(idents)?;
        self.columns.push(ColumnUse {
            column: Some(name.column),
            table: name.table,
            usage,
        });
        Ok(())
    }

    fn use_either(&mut self, is_negated: bool, plain: &[&str], negated: &[&str]) {
        let names = if is_negated { negated } else { plain };
        self.operators
            .extend(names.iter().map(|&name| name.to_owned()));
    }

    fn use_escape(&mut self, is_used: bool) {
        if is_used {
            self.calls.push(Call {
                name: "like_escape".to_owned(),
                argument_count: 2,
                has_untyped: true,
            });
        }
    }
}

/// A window with an order: without one, its rows are numbered arbitrarily.
fn read_window<'a>(window: &'a WindowType, nodes: &mut Vec<Node<'a>>) -> Result<(), Reason> {
    let WindowType::WindowSpec(WindowSpec {
        window_name: None,
        partition_by,
        order_by,
        window_frame: None,
    }) = window
    else {
        return Err("uses a window of an unknown form".into());
    };
    if order_by.is_empty() {
        return Err("uses a window without an order".into());
    }
    nodes.extend(partition_by.iter().map(|it| Node::Expr(it, Use::Shown)));
    read_order(order_by, nodes)
}

fn is_placeholder(ident: &Ident) -> bool {
    ident.quote_style.is_none() && ident.value.starts_with('$')
}

/// Whether a literal is a parameter; literals of unknown forms are refused.
fn is_parameter(literal: &Literal) -> Result<bool, Reason> {
    match literal {
        Literal::Placeholder(text) => position_of(text).map(|_| true),
        Literal::Number(_, false)
        | Literal::SingleQuotedString(_)
        | Literal::EscapedStringLiteral(_)
        | Literal::DollarQuotedString(_)
        | Literal::Boolean(_)
        | Literal::Null => Ok(false),
        _ => Err("has a literal of a form that is not supported".into()),
    }
}

/// Whether the type of an argument is decided by the function: a text, a null, a parameter.
fn is_untyped(expr: &Expr) -> bool {
    match bare(expr) {
        Expr::Value(value) => !matches!(value.value, Literal::Number(..) | Literal::Boolean(_)),
        _ => false,
    }
}
