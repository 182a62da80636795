//! Tests: `read(status) in (digit(500), digit(599)) and not read(path) starts_with('/health')`.
//!
//! A test is a variable and a condition as in a case of a match; a condition that begins with a
//! constant has `=` before it, and one with `!` has `!=` instead. `and` binds tighter than `or`, and
//! `not` binds tightest.

use super::literal::LITERAL_TYPES;
use super::{Fault, Parsed, Parser};
use crate::ast::{AccessMode, Atom, Condition, Span, StatementKind, Test};
use crate::diagnostic::Diagnostic;
use crate::lexer::Cursor;

/// The first word of the statement that removes records.
const DROP: &str = "drop";

/// The word between it and its test.
const WHEN: &str = "when";

/// Parses a text that is a test, or returns the first error.
pub(crate) fn parse_test(text: &str) -> Parsed<Test> {
    let mut parser = Parser::new(text);
    let test = parser.test()?;
    parser.cursor.skip_blanks();
    match parser.cursor.rest() {
        "" => Ok(test),
        _ => Err(parser.no_connective("`and`, `or` or the end of the condition")),
    }
}

/// Whether `drop` comes next without what follows a target: the name `drop` is that of a field in
/// `drop = …`, `drop : chars = …` and `drop, b = …`.
pub(crate) fn drop_begins(mut ahead: Cursor<'_>) -> bool {
    ahead.skip_blanks();
    if ahead.word() != DROP {
        return false;
    }
    let is_separate = ahead.peek().is_none_or(|c| c.is_whitespace() || c == ';');
    is_separate && (!ahead.peek_word().is_empty() || ahead.sees(";"))
}

impl Parser<'_> {
    /// `drop when …`
    pub(super) fn drop_statement(&mut self) -> Parsed<StatementKind> {
        self.count_expressions(1)?;
        self.word("`drop`")?;
        if self.cursor.peek_word() != WHEN {
            let fault = self.unexpected(&format!("`{WHEN}` after `{DROP}`"));
            return Err(fault
                .help("write which events are dropped: `drop when read(status) = digit(200) ;`"));
        }
        self.word("`when`")?;
        let test = self.test()?;
        let rest = self.cursor.rest();
        let next = rest.trim_start();
        let gap = &rest[..rest.len() - next.len()];
        // At the end of a line, the caller reports that a `;` is missing.
        if next.starts_with(['&', '|']) || !gap.contains('\n') && !self.ends_statement() {
            return Err(self.no_connective("`and`, `or` or `;` after the condition"));
        }
        Ok(StatementKind::Drop { test })
    }

    fn ends_statement(&self) -> bool {
        self.cursor.sees(";") || self.cursor.rest().trim_start().is_empty()
    }

    /// The alternatives, separated by `or`.
    fn test(&mut self) -> Parsed<Test> {
        let first = self.all_tests()?;
        let mut tests = vec![first];
        while self.eat_word("or") {
            tests.push(self.all_tests()?);
        }
        Ok(one_or(tests, Test::Any))
    }

    /// Tests separated by `and`.
    fn all_tests(&mut self) -> Parsed<Test> {
        let mut tests = vec![self.single_test()?];
        while self.eat_word("and") {
            tests.push(self.single_test()?);
        }
        Ok(one_or(tests, Test::All))
    }

    fn single_test(&mut self) -> Parsed<Test> {
        self.count_expressions(1)?;
        if self.eat_word("not") {
            return self.nested(|parser| Ok(Test::Not(Box::new(parser.single_test()?))));
        }
        if self.cursor.eat("(") {
            let test = self.nested(Self::test)?;
            self.expect(")", "after the condition in parentheses")?;
            return Ok(test);
        }
        if !self.variable_begins() {
            return Err(self
                .unexpected("a condition")
                .help("such as `read(status) = digit(200)` or `read(path) starts_with('/a')`"));
        }
        let source = self.match_source()?;
        if source.mode == AccessMode::Take {
            return Err(
                Diagnostic::error(source.span, "a condition only reads fields")
                    .help("write `read` instead of `take`"),
            );
        }
        let condition = self.test_condition()?;
        Ok(Test::Field { source, condition })
    }

    /// `= digit(1) | digit(2)`, `!= digit(1)`, `in (…)`, `starts_with(…)` …
    fn test_condition(&mut self) -> Parsed<Condition> {
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        if self.cursor.sees("!=") {
            self.cursor.eat("!=");
            let differs = Atom::Differs(self.operand()?);
            if self.cursor.sees("|") {
                return Err(self
                    .unexpected("one value after `!=`")
                    .help("write `not read(x) = digit(1) | digit(2)`"));
            }
            return Ok(Condition { any: vec![differs] });
        }
        if self.cursor.eat("=") {
            if self.cursor.sees("=") {
                let span = self.cursor.span_from(start);
                return Err(Diagnostic::error(span, "values are compared with one `=`"));
            }
            return self.condition();
        }
        let word = self.cursor.peek_word();
        if self.cursor.sees("!") || LITERAL_TYPES.contains(&word) {
            return Err(self
                .unexpected("`=` or `!=` before the value")
                .help("write `read(x) = digit(1)`"));
        }
        if word.is_empty() || matches!(word, "and" | "or") {
            return Err(self.no_condition());
        }
        self.condition()
    }

    /// The error about what follows a variable.
    fn no_condition(&self) -> Fault {
        let fault = self.unexpected("a condition after the field");
        fault.help(match self.cursor_char() {
            Some('<') => "write `lt(500)` or `in (digit(400), digit(499))`",
            Some('>') => "write `gt(499)` or `in (digit(500), digit(599))`",
            Some('~') => "write `regex_match('…')`",
            _ => "such as `= digit(200)`, `in (digit(200), digit(299))` or `starts_with('/a')`",
        })
    }

    /// The error about what follows a test.
    fn no_connective(&self, expected: &str) -> Fault {
        let fault = self.unexpected(expected);
        match self.cursor_char() {
            Some('&') => fault.help("write `and`"),
            Some('|') => fault.help("write `or` between conditions"),
            _ => fault,
        }
    }

    fn cursor_char(&self) -> Option<char> {
        let span: Span = self.next_span();
        self.cursor.text()[span.range()].chars().next()
    }

    /// Skips a word.
    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.cursor.peek_word() == word;
        if found {
            self.cursor.skip_blanks();
            self.cursor.word();
        }
        found
    }
}

/// The only test, or all of them combined.
fn one_or(mut tests: Vec<Test>, combine: impl FnOnce(Vec<Test>) -> Test) -> Test {
    match tests.len() {
        1 => tests.remove(0),
        _ => combine(tests),
    }
}
