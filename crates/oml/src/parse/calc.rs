//! `calc(…)`: arithmetic with the usual precedence.

use lookaside_value::{Value, parse_float, parse_int};

use super::{Parsed, Parser};
use crate::ast::{CALC_OPERATOR_COUNT_MAX, Calc, CalcExpr, CalcFunction, CalcOperator, ExprKind};
use crate::diagnostic::Diagnostic;
use crate::lexer::Cursor;

const FUNCTIONS: [(&str, CalcFunction); 4] = [
    ("abs", CalcFunction::Abs),
    ("round", CalcFunction::Round),
    ("floor", CalcFunction::Floor),
    ("ceil", CalcFunction::Ceil),
];

const SUMS: [(&str, CalcOperator); 2] = [("+", CalcOperator::Add), ("-", CalcOperator::Subtract)];

const PRODUCTS: [(&str, CalcOperator); 3] = [
    ("*", CalcOperator::Multiply),
    ("/", CalcOperator::Divide),
    ("%", CalcOperator::Modulo),
];

/// The state that the parts of one `calc` share.
struct Context<'k> {
    implied: Option<&'k str>,
    operator_count: usize,
}

impl Parser<'_> {
    pub(super) fn calc(&mut self, implied: Option<&str>) -> Parsed<ExprKind> {
        self.word("`calc`")?;
        self.expect("(", "after `calc`")?;
        let mut context = Context {
            implied,
            operator_count: 0,
        };
        let root = self.sum(&mut context)?;
        self.expect(")", "or an operator in `calc`")?;
        Ok(ExprKind::Calc(Calc { root }))
    }

    fn sum(&mut self, context: &mut Context<'_>) -> Parsed<CalcExpr> {
        self.chain(&SUMS, context, |parser, context| {
            parser.chain(&PRODUCTS, context, Self::factor)
        })
    }

    /// Operands separated by operators of the same precedence, left-associative.
    fn chain(
        &mut self,
        operators: &[(&str, CalcOperator)],
        context: &mut Context<'_>,
        operand: impl Fn(&mut Self, &mut Context<'_>) -> Parsed<CalcExpr>,
    ) -> Parsed<CalcExpr> {
        let mut left = operand(self, context)?;
        loop {
            let found = operators.iter().find(|(token, _)| self.cursor.eat(token));
            let Some((_, operator)) = found else {
                return Ok(left);
            };
            context.operator_count += 1;
            if context.operator_count > CALC_OPERATOR_COUNT_MAX {
                let message = format!("`calc` has at most {CALC_OPERATOR_COUNT_MAX} operators");
                return Err(Diagnostic::error(self.next_span(), message));
            }
            let right = operand(self, context)?;
            left = CalcExpr::Binary(*operator, Box::new(left), Box::new(right));
        }
    }

    fn factor(&mut self, context: &mut Context<'_>) -> Parsed<CalcExpr> {
        self.nested(|parser| {
            parser.count_expressions(1)?;
            if parser.cursor.eat("-") {
                let inner = parser.factor(context)?;
                return Ok(negate(inner));
            }
            if parser.cursor.eat("(") {
                let inner = parser.sum(context)?;
                parser.expect(")", "or an operator in `calc`")?;
                return Ok(inner);
            }
            if parser.variable_begins() {
                return Ok(CalcExpr::Access(parser.variable(context.implied)?));
            }
            parser.number_or_name(context)
        })
    }

    fn number_or_name(&mut self, context: &mut Context<'_>) -> Parsed<CalcExpr> {
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        if self.cursor.peek().is_some_and(|c| c.is_ascii_digit()) {
            let (value, _) = self.number()?;
            return Ok(CalcExpr::Number(value));
        }
        let (word, span) = self.word("a number, `read(x)`, `@x` or a function")?;
        if self.cursor.sees("(") {
            if matches!(word, "digit" | "float") {
                self.cursor.set_at(start);
                return Ok(CalcExpr::Number(self.literal()?));
            }
            let Some((_, function)) = FUNCTIONS.iter().find(|(name, _)| *name == word) else {
                let names = FUNCTIONS.iter().map(|(name, _)| *name);
                return Err(
                    Diagnostic::error(span, format!("`calc` has no function `{word}`"))
                        .help("its functions are abs, round, floor and ceil")
                        .nearest(word, names),
                );
            };
            self.expect("(", "")?;
            let argument = self.sum(context)?;
            self.expect(")", &format!("or an operator in `{word}`"))?;
            return Ok(CalcExpr::Call(*function, Box::new(argument)));
        }
        match self.static_ids.get(word) {
            Some(id) => Ok(CalcExpr::Static(*id)),
            None => Err(
                Diagnostic::error(span, format!("unknown constant `{word}`"))
                    .help(format!("a field is read with `read({word})` or `@{word}`")),
            ),
        }
    }

    /// A number, an integer if it has neither a fraction nor an exponent.
    pub(super) fn number(&mut self) -> Parsed<(Value, usize)> {
        let start = self.cursor.at();
        skip_number(&mut self.cursor);
        let span = self.cursor.span_from(start);
        let text = &self.cursor.text()[span.range()];
        let value = match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => parse_int(text).map(Value::Int),
            false => parse_float(text).map(Value::Float),
        };
        match value {
            Some(value) => Ok((value, start)),
            None => Err(Diagnostic::error(
                span,
                format!("`{text}` is not a number of 64 bits"),
            )),
        }
    }
}

/// Skips digits, an optional fraction and an optional exponent.
pub(crate) fn skip_number(cursor: &mut Cursor<'_>) {
    cursor.take_while(|c| c.is_ascii_digit());
    if cursor.eat_here(".") {
        cursor.take_while(|c| c.is_ascii_digit());
    }
    let mut ahead = *cursor;
    if ahead.eat_here("e") || ahead.eat_here("E") {
        let _ = ahead.eat_here("+") || ahead.eat_here("-");
        if !ahead.take_while(|c| c.is_ascii_digit()).is_empty() {
            *cursor = ahead;
        }
    }
}

/// `-5` is a number, so that it is a constant; if it overflows, the negation is left to evaluation.
fn negate(inner: CalcExpr) -> CalcExpr {
    match inner {
        CalcExpr::Number(Value::Int(int)) if int != i64::MIN => CalcExpr::Number(Value::Int(-int)),
        CalcExpr::Number(Value::Float(float)) => CalcExpr::Number(Value::Float(-float)),
        inner => CalcExpr::Negate(Box::new(inner)),
    }
}
