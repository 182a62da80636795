//! Conditions outside of models, such as those of routes.

use std::ops::Range;

use crate::ast::{Access, Atom, Condition as FieldCondition, MatchFunction, Operand, Span, Test};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::parse::parse_test;
use lookaside_value::Value;

/// A condition on the result of a model, written as in `drop when`.
///
/// ```
/// use lookaside_oml::Condition;
///
/// assert!(Condition::parse("a.toml", "read(status) in (digit(500), digit(599))").is_ok());
///
/// let error = Condition::parse("a.toml", "read(status) > digit(499)").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "a.toml:1:14: error: expected a condition after the field, found `>` \
///      (write `gt(499)` or `in (digit(500), digit(599))`)"
/// );
/// ```
#[derive(Clone, Debug)]
pub struct Condition {
    test: Test,
    /// Without a difference that has no meaning.
    text: Box<str>,
}

/// Equal conditions are written alike, up to blanks.
impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Condition {}

/// A conjunction: each field with its condition.
type Clause<'t> = Vec<(&'t Access, &'t FieldCondition)>;

/// The largest integers that floating-point numbers represent exactly.
const EXACT: Range<i64> = -(1 << 53)..1 << 53;

impl Condition {
    /// Parses a text that is a condition; `file_name` is its name in messages.
    ///
    /// # Errors
    /// The first error in the text.
    pub fn parse(file_name: &str, text: &str) -> Result<Self, Diagnostics> {
        Self::parse_within(file_name, text, 0..text.len())
    }

    /// Parses the part of a file that is a condition.
    ///
    /// # Errors
    /// The first error, with its position in the file.
    ///
    /// # Panics
    /// When the range is not one of the text.
    pub fn parse_within(
        file_name: &str,
        file: &str,
        range: Range<usize>,
    ) -> Result<Self, Diagnostics> {
        let text = &file[range.clone()];
        let shift = |at: u32| u32::try_from(range.start).map_or(at, |start| at + start);
        let parsed = parse_test(text).map_err(|fault| {
            let Span { start, end } = fault.span;
            let span = Span {
                start: shift(start),
                end: shift(end),
            };
            let fault = Diagnostic { span, ..*fault };
            Diagnostics::new(file_name.into(), file.into(), vec![fault])
        })?;
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(Self {
            test: parsed,
            text: words.join(" ").into(),
        })
    }

    /// Its text, with single blanks.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its syntax tree.
    pub fn test(&self) -> &Test {
        &self.test
    }

    /// Whether this condition certainly holds wherever the other one does. False also if that cannot
    /// be told.
    ///
    /// ```
    /// use lookaside_oml::Condition;
    ///
    /// let parse = |text| Condition::parse("a.toml", text).unwrap();
    /// let errors = parse("read(status) in (digit(400), digit(599))");
    /// assert!(errors.covers(&parse("read(status) = digit(404) and read(path) = chars(/)")));
    /// assert!(!errors.covers(&parse("read(status) = digit(200)")));
    /// ```
    pub fn covers(&self, other: &Self) -> bool {
        if self == other {
            return true;
        }
        match (clauses(&self.test), clauses(&other.test)) {
            (Some(own), Some(others)) => others
                .iter()
                .all(|other| own.iter().any(|own| is_implied(own, other))),
            _ => false,
        }
    }
}

/// The alternatives of a test without `not`; `None` for any other.
fn clauses(test: &Test) -> Option<Vec<Clause<'_>>> {
    match test {
        Test::Field { source, condition } => Some(vec![vec![(source, condition)]]),
        Test::All(tests) => {
            let fields = tests.iter().map(|test| match test {
                Test::Field { source, condition } => Some((source, condition)),
                _ => None,
            });
            Some(vec![fields.collect::<Option<_>>()?])
        }
        Test::Any(tests) => {
            let all: Option<Vec<_>> = tests.iter().map(clauses).collect();
            Some(all?.into_iter().flatten().collect())
        }
        Test::Not(_) => None,
    }
}

/// Whether all of a conjunction hold if all of the other one do.
fn is_implied(clause: &Clause<'_>, by: &Clause<'_>) -> bool {
    clause.iter().all(|(source, condition)| {
        by.iter().any(|(other, by)| {
            is_plain(source)
                && is_plain(other)
                && source.key == other.key
                && by
                    .any
                    .iter()
                    .all(|by| condition.any.iter().any(|atom| is_atom_implied(atom, by)))
        })
    })
}

/// Whether an access is `read(x)` or `@x`.
fn is_plain(access: &Access) -> bool {
    access.options.is_empty() && access.default.is_none()
}

fn is_atom_implied(atom: &Atom, by: &Atom) -> bool {
    if let Some((low, high)) = integers(by) {
        let (least, most) = (low as f64, high as f64);
        let is_exact = EXACT.contains(&low) && EXACT.contains(&high);
        match atom {
            Atom::Function(MatchFunction::InRange(from, to)) if is_exact => {
                return *from <= least && most <= *to;
            }
            Atom::Function(MatchFunction::Gt(number)) if is_exact => return *number < least,
            Atom::Function(MatchFunction::Lt(number)) if is_exact => return most < *number,
            _ => {}
        }
        return integers(atom).is_some_and(|(from, to)| from <= low && high <= to);
    }
    match (atom, by) {
        (
            Atom::Function(MatchFunction::StartsWith(prefix)),
            Atom::Function(MatchFunction::StartsWith(text))
            | Atom::Equals(Operand::Literal(Value::Text(text))),
        ) => text.starts_with(prefix.as_str()),
        // Neither has a position in the text.
        _ => format!("{atom:?}") == format!("{by:?}"),
    }
}

/// The integers that fulfil a condition, if nothing else does.
fn integers(atom: &Atom) -> Option<(i64, i64)> {
    let number = |operand: &Operand| match operand {
        Operand::Literal(Value::Int(number)) => Some(*number),
        _ => None,
    };
    match atom {
        Atom::Equals(operand) => number(operand).map(|number| (number, number)),
        Atom::Within(low, high) => Some((number(low)?, number(high)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_holds_wherever_another_does() {
        let parse = |text| Condition::parse("t", text).unwrap();
        for (text, other, expected) in [
            ("read(a) = digit(1)", "read(a)   = digit(1)", true),
            ("not read(a) = digit(1)", "not read(a) = digit(1)", true),
            ("not read(a) = digit(1)", "not read(a) = digit(2)", false),
            ("read(a) = digit(1)", "@a = digit(1)", true),
            ("read(a) = digit(1)", "read(b) = digit(1)", false),
            ("read(a) = digit(1) | digit(2)", "read(a) = digit(2)", true),
            ("read(a) = digit(2)", "read(a) = digit(1) | digit(2)", false),
            (
                "read(a) in (digit(1), digit(9))",
                "read(a) = digit(9)",
                true,
            ),
            (
                "read(a) in (digit(1), digit(9))",
                "read(a) in (digit(2), digit(10))",
                false,
            ),
            ("read(a) gt(0)", "read(a) in (digit(1), digit(2))", true),
            ("read(a) gt(1)", "read(a) = digit(1)", false),
            ("read(a) lt(2)", "read(a) = digit(1)", true),
            ("read(a) in_range(1, 2)", "read(a) = digit(2)", true),
            // Texts that are numbers are in the range of the function only.
            (
                "read(a) in (digit(1), digit(9))",
                "read(a) in_range(2, 3)",
                false,
            ),
            ("read(a) starts_with('/a')", "read(a) = chars(/ab)", true),
            (
                "read(a) starts_with('/a')",
                "read(a) starts_with('/')",
                false,
            ),
            (
                "read(a) contains('x')",
                "read(a) contains('x') and read(b) = digit(1)",
                true,
            ),
            (
                "read(a) contains('x') and read(b) = digit(1)",
                "read(a) contains('x')",
                false,
            ),
            (
                "read(a) contains('x') or read(b) = digit(1)",
                "read(b) = digit(1)",
                true,
            ),
            (
                "read(b) = digit(1)",
                "read(a) contains('x') or read(b) = digit(1)",
                false,
            ),
            (
                "read(a) { _ : digit(1) } = digit(1)",
                "read(a) = digit(1)",
                false,
            ),
        ] {
            assert_eq!(
                parse(text).covers(&parse(other)),
                expected,
                "{text} / {other}"
            );
        }
    }

    #[test]
    fn an_error_has_its_position_in_the_file() {
        let file = "[a]\nwhen = 'read(x) = nonsense'\n";
        let start = file.find("read").unwrap();
        let end = file.rfind('\'').unwrap();
        let error = Condition::parse_within("f.toml", file, start..end).unwrap_err();
        assert_eq!(
            error.to_string(),
            "f.toml:2:19: error: unknown constant `nonsense` (for text write `chars(nonsense)`)"
        );
    }
}
