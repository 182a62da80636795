//! `match`: sources, cases, conditions.

use std::ops::RangeInclusive;

use lookaside_value::{Text, Value, parse_float};
use regex::{Regex, RegexBuilder};

use super::literal::LITERAL_TYPES;
use super::{Fault, Parsed, Parser};
use crate::ast::{
    Access, Atom, Case, Condition, Expr, ExprKind, Match, MatchFunction, Operand, Span,
};
use crate::diagnostic::Diagnostic;
use crate::lexer::Piece;

/// The names of the tests.
pub(crate) const FUNCTIONS: [&str; 11] = [
    "starts_with",
    "ends_with",
    "contains",
    "iequals",
    "iequals_any",
    "regex_match",
    "is_empty",
    "gt",
    "lt",
    "eq",
    "in_range",
];

/// The maximal size of a compiled pattern; real patterns are a hundredth of it.
const REGEX_SIZE_MAX: usize = 1 << 20;

/// The properties that the cases of one match share.
#[derive(Clone, Copy)]
struct Shape<'k> {
    /// Whether the source is a tuple, so that conditions are in parentheses.
    is_tuple: bool,
    source_count: usize,
    implied: Option<&'k str>,
}

impl Parser<'_> {
    pub(super) fn match_expression(&mut self, implied: Option<&str>) -> Parsed<ExprKind> {
        let (_, match_span) = self.word("`match`")?;
        let is_tuple = self.cursor.eat("(");
        let sources = if is_tuple {
            self.tuple_sources()?
        } else {
            vec![self.match_source()?]
        };
        let shape = Shape {
            is_tuple,
            source_count: sources.len(),
            implied,
        };
        self.expect("{", "after what is matched")?;
        let mut cases = Vec::new();
        let mut default = None;
        while !self.cursor.eat("}") {
            self.before_end("`}` or a case of the match")?;
            if default.is_some() {
                return Err(self.behind_the_default());
            }
            if self.cursor.peek_word() == "_" {
                default = Some(Box::new(self.default_case(implied)?));
            } else {
                cases.push(self.case(shape)?);
            }
            self.cursor.eat(",");
            self.cursor.eat(";");
        }
        if cases.is_empty() {
            let message = "a match has at least one case besides `_`";
            return Err(Diagnostic::error(match_span, message)
                .help("write a case such as `digit(1) => chars(one) ;`"));
        }
        Ok(ExprKind::Match(Match {
            sources,
            cases,
            default,
        }))
    }

    pub(super) fn match_source(&mut self) -> Parsed<Access> {
        self.count_expressions(1)?;
        self.variable(None)
    }

    fn tuple_sources(&mut self) -> Parsed<Vec<Access>> {
        let mut sources = vec![self.match_source()?];
        while !self.cursor.eat(")") {
            self.expect(",", "or `)` in the tuple of what is matched")?;
            sources.push(self.match_source()?);
        }
        Ok(sources)
    }

    fn behind_the_default(&self) -> Fault {
        let message = "cases after `_` never match";
        Diagnostic::error(self.next_span(), message).help("move the `_` case to the end")
    }

    fn default_case(&mut self, implied: Option<&str>) -> Parsed<Expr> {
        self.word("`_`")?;
        self.expect("=>", "after `_`")?;
        self.expression(implied)
    }

    fn case(&mut self, shape: Shape<'_>) -> Parsed<Case> {
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        let conditions = if shape.is_tuple {
            self.tuple_conditions(shape.source_count)?
        } else {
            vec![self.condition()?]
        };
        self.expect("=>", "or `|` after the condition")?;
        let result = self.expression(shape.implied)?;
        Ok(Case {
            conditions,
            result,
            span: self.cursor.span_from(start),
        })
    }

    fn tuple_conditions(&mut self, source_count: usize) -> Parsed<Vec<Condition>> {
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        self.expect("(", "around the conditions of a tuple")?;
        let mut conditions = vec![self.condition()?];
        while !self.cursor.eat(")") {
            self.expect(",", "or `)` in the conditions of a tuple")?;
            conditions.push(self.condition()?);
        }
        if conditions.len() == source_count {
            return Ok(conditions);
        }
        let message = format!("{} conditions for {source_count} values", conditions.len());
        Err(Diagnostic::error(self.cursor.span_from(start), message)
            .help("a case has one condition for each value of the tuple"))
    }

    pub(super) fn condition(&mut self) -> Parsed<Condition> {
        let mut any = vec![self.atom()?];
        while self.cursor.eat("|") {
            any.push(self.atom()?);
        }
        Ok(Condition { any })
    }

    fn atom(&mut self) -> Parsed<Atom> {
        self.count_expressions(1)?;
        if self.cursor.eat("!") {
            return Ok(Atom::Differs(self.operand()?));
        }
        let word = self.cursor.peek_word();
        if word == "in" && self.call_begins() {
            return self.within();
        }
        if FUNCTIONS.contains(&word) && self.call_begins() {
            return Ok(Atom::Function(self.match_function()?));
        }
        Ok(Atom::Equals(self.operand()?))
    }

    /// `in (low, high)`
    fn within(&mut self) -> Parsed<Atom> {
        let (_, in_span) = self.word("`in`")?;
        self.expect("(", "after `in`")?;
        let low = self.operand()?;
        self.expect(",", "between the bounds of `in`")?;
        let high = self.operand()?;
        self.expect(")", "behind the bounds of `in`")?;
        let (low_type, high_type) = (self.operand_type(&low), self.operand_type(&high));
        if low_type.is_some() && high_type.is_some() && low_type != high_type {
            let span = self.cursor.span_from(in_span.start as usize);
            return Err(
                Diagnostic::error(span, "the bounds of `in` are of different types")
                    .help("no value can be between them"),
            );
        }
        Ok(Atom::Within(low, high))
    }

    fn operand_type(&self, operand: &Operand) -> Option<lookaside_value::Type> {
        let value = match operand {
            Operand::Literal(value) => value,
            Operand::Static(id) => match &self.statics[id.0 as usize].value.kind {
                ExprKind::Literal(Value::Null) => return None,
                ExprKind::Literal(value) => value,
                _ => return None,
            },
        };
        Some(value.type_of())
    }

    /// A literal or a constant.
    pub(super) fn operand(&mut self) -> Parsed<Operand> {
        if self.call_begins() {
            let word = self.cursor.peek_word();
            if !LITERAL_TYPES.contains(&word) {
                return Err(unknown_condition(word, self.next_span()));
            }
            return Ok(Operand::Literal(self.literal()?));
        }
        let (word, span) = self.word("a condition such as `digit(1)` or `contains('x')`")?;
        if let Some(id) = self.static_ids.get(word) {
            return Ok(Operand::Static(*id));
        }
        let fault = Diagnostic::error(span, format!("unknown constant `{word}`"));
        Err(match word {
            "_" => fault
                .help("`_` can only be a whole case; list the possible values of this position"),
            word if FUNCTIONS.contains(&word) => fault.help(format!("write `{word}(…)`")),
            word => {
                let names = self.static_ids.keys().map(Text::as_str);
                fault
                    .help(format!("for text write `chars({word})`"))
                    .nearest(word, names.chain(FUNCTIONS))
            }
        })
    }

    fn match_function(&mut self) -> Parsed<MatchFunction> {
        let (name, _) = self.word("a condition")?;
        let arguments = self.arguments(name, argument_counts(name))?;
        self.count_expressions(arguments.len())?;
        let text = |index: usize| Text::from(&*arguments[index].text);
        let number = |index: usize| number(name, &arguments[index]);
        Ok(match name {
            "starts_with" => MatchFunction::StartsWith(text(0)),
            "ends_with" => MatchFunction::EndsWith(text(0)),
            "contains" => MatchFunction::Contains(text(0)),
            "iequals" => MatchFunction::Iequals(text(0)),
            "iequals_any" => {
                let texts = arguments.iter().map(|piece| Text::from(&*piece.text));
                MatchFunction::IequalsAny(texts.collect())
            }
            "regex_match" => MatchFunction::RegexMatch(regex(&arguments[0])?),
            "is_empty" => MatchFunction::IsEmpty,
            "gt" => MatchFunction::Gt(number(0)?),
            "lt" => MatchFunction::Lt(number(0)?),
            "eq" => MatchFunction::Eq(number(0)?),
            _ => MatchFunction::InRange(number(0)?, number(1)?),
        })
    }
}

/// How many arguments a test takes.
pub(crate) fn argument_counts(name: &str) -> RangeInclusive<usize> {
    match name {
        "is_empty" => 0..=0,
        "in_range" => 2..=2,
        "iequals_any" => 1..=usize::MAX,
        _ => 1..=1,
    }
}

fn unknown_condition(word: &str, span: Span) -> Fault {
    let names = FUNCTIONS.into_iter().chain(LITERAL_TYPES).chain(["in"]);
    Diagnostic::error(span, format!("unknown condition `{word}`")).nearest(word, names)
}

fn number(name: &str, Piece { text, span, .. }: &Piece<'_>) -> Parsed<f64> {
    parse_float(text).ok_or_else(|| {
        Diagnostic::error(*span, format!("`{text}` is not a number"))
            .help(format!("`{name}` requires a number"))
    })
}

fn regex(pattern: &Piece<'_>) -> Parsed<Regex> {
    let built = RegexBuilder::new(&pattern.text)
        .size_limit(REGEX_SIZE_MAX)
        .build();
    built.map_err(|error| {
        let error = error.to_string();
        // The library's message has several lines; the last one is the reason.
        let reason = error.lines().last().unwrap_or_default().trim();
        let reason = reason.strip_prefix("error: ").unwrap_or(reason);
        Diagnostic::error(pattern.span, "this is not a regular expression").help(reason.to_owned())
    })
}
