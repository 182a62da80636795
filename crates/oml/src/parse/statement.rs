//! Statements: targets, `=`, a value, `;`.

use super::header::LINE;
use super::recovery::Within;
use super::statics::static_block_begins;
use super::test::drop_begins;
use super::{ERROR_COUNT_MAX, Parsed, Parser, lost_semicolon};
use crate::Wildcard;
use crate::ast::{Statement, StatementKind, Target, TypeWord};
use crate::diagnostic::Diagnostic;
use crate::lexer::span;

impl Parser<'_> {
    /// All statements and static blocks, up to the closing line or the end.
    pub(super) fn statements(&mut self) -> Vec<Statement> {
        let mut statements = Vec::new();
        loop {
            self.cursor.skip_blanks();
            let start = self.cursor.at();
            if self.cursor.rest().is_empty() {
                break;
            }
            if self.line() {
                self.warn_of_lost_text();
                break;
            }
            let parsed = if static_block_begins(self.cursor) {
                self.static_block()
            } else {
                self.statement().map(|statement| statements.push(statement))
            };
            if let Err(mut fault) = parsed {
                if let Some(help) = self.swallowed(statements.last()) {
                    fault = fault.help(help);
                }
                let error = fault.span.start as usize;
                self.report(fault);
                self.skip_broken(start, error, Within::Model);
            }
            if self.error_count >= ERROR_COUNT_MAX {
                let message = "too many errors; the rest was not read";
                self.report(Diagnostic::error(self.next_span(), message));
                break;
            }
        }
        if statements.is_empty() && self.error_count == 0 {
            let fault = self.unexpected("a statement");
            self.report(fault.help("a model has at least one statement, such as `* = take() ;`"));
        }
        statements
    }

    /// A hint that the SQL of the previous statement may include the beginning of an invalid one;
    /// it is given if that SQL contains a brace, as SQL has none.
    fn swallowed(&self, before: Option<&Statement>) -> Option<String> {
        match &before?.kind {
            StatementKind::Lookup { sql, .. } if sql.text.contains('{') => {
                lost_semicolon(self.cursor.text(), sql.span)
            }
            _ => None,
        }
    }

    fn warn_of_lost_text(&mut self) {
        self.cursor.skip_blanks();
        if !self.cursor.rest().is_empty() {
            let message = format!("text after the closing `{LINE}` is ignored");
            self.warn(self.next_span(), message, "remove the text or the line");
        }
    }

    fn statement(&mut self) -> Parsed<Statement> {
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        let kind = match drop_begins(self.cursor) {
            true => self.drop_statement()?,
            false => self.targets_and_value()?,
        };
        self.text_fields.note(&kind);
        let end = self.cursor.at();
        if !self.cursor.eat(";") {
            self.missing_semicolon(end)?;
        }
        Ok(Statement {
            kind,
            span: self.cursor.span_from(start),
        })
    }

    /// What appends fields to the result.
    fn targets_and_value(&mut self) -> Parsed<StatementKind> {
        let targets = self.targets()?;
        self.expect("=", "after the target")?;
        let value = self.cursor;
        self.cursor.skip_blanks();
        if targets.iter().any(|target| target.name.contains('*')) {
            self.move_fields(targets)
        } else if self.sql_begins() {
            self.cursor = value;
            let sql = self.sql()?;
            if sql.rows_max.is_some() {
                check_target_of_rows(&targets)?;
            }
            Ok(StatementKind::Lookup { targets, sql })
        } else {
            self.assignment(targets)
        }
    }

    /// If a `;` is missing at the end of a line, parsing continues with the next line as the next
    /// statement.
    fn missing_semicolon(&mut self, end: usize) -> Parsed<()> {
        let behind = &self.cursor.text()[end..];
        let next = behind.trim_start();
        let gap = &behind[..behind.len() - next.len()];
        if !next.is_empty() && !gap.contains('\n') {
            return Err(self.unexpected("`;` at the end of the statement"));
        }
        let message = "expected `;` at the end of the statement";
        self.report(Diagnostic::error(span(end, end), message).label("`;` is missing"));
        Ok(())
    }

    fn targets(&mut self) -> Parsed<Vec<Target>> {
        let mut targets = vec![self.target()?];
        while self.cursor.eat(",") {
            targets.push(self.target()?);
        }
        Ok(targets)
    }

    /// A name or pattern and a type.
    pub(super) fn target(&mut self) -> Parsed<Target> {
        self.count_expressions(1)?;
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        let is_open_comment = self.cursor.rest().starts_with("/*");
        let name = self.cursor.key();
        if name.is_empty() || is_open_comment {
            self.cursor.set_at(start);
            return Err(self.unexpected("the name of a field"));
        }
        self.check_metadata(name, start)?;
        let type_word = self.optional_type()?;
        Ok(Target {
            name: name.into(),
            type_word,
            span: self.cursor.span_from(start),
        })
    }

    fn assignment(&mut self, targets: Vec<Target>) -> Parsed<StatementKind> {
        let mut targets = targets.into_iter();
        let target = targets.next().expect("a statement has a target");
        if let Some(further) = targets.next() {
            let message = "only a lookup can have several targets; here, only the first is used";
            self.warn(further.span, message, "give each target its own statement");
        }
        let value = self.expression(Some(&target.name))?;
        Ok(StatementKind::Assign { target, value })
    }

    fn move_fields(&mut self, targets: Vec<Target>) -> Parsed<StatementKind> {
        let [target] = &targets[..] else {
            let message = "a target with `*` stands alone";
            return Err(Diagnostic::error(targets[1].span, message));
        };
        if !matches!(self.cursor.peek_word(), "read" | "take") {
            return Err(self
                .unexpected("`read()` or `take()`")
                .help("a target with `*` moves fields unchanged"));
        }
        let start = self.cursor.at();
        self.gathering_access(Some("*"))?;
        let access = self.cursor.span_from(start);
        if !self.cursor.text()[access.range()].ends_with("()") {
            let message = "arguments and defaults have no effect when fields are moved";
            self.warn(access, message, "write `take()`");
        }
        let pattern = Wildcard::new(target.name.clone());
        if target.type_word != TypeWord::Auto && !pattern.is_any() {
            let message =
                "with a type, fields are selected by type only, and the name has no effect";
            let help = "write `*` as the name, or leave the type out";
            self.warn(target.span, message, help);
        }
        Ok(StatementKind::Move {
            pattern,
            type_word: target.type_word,
        })
    }
}

/// All rows become one array.
fn check_target_of_rows(targets: &[Target]) -> Parsed<()> {
    let [target, further @ ..] = targets else {
        unreachable!("a statement has a target");
    };
    if let Some(further) = further.first() {
        let message = "all rows become one array, so `select_all` has one target";
        return Err(Diagnostic::error(further.span, message).help(
            "remove the other targets; each row is an object with the names of the columns",
        ));
    }
    if target.is_placeholder() {
        let message = "the array of all rows needs a name";
        return Err(Diagnostic::error(target.span, message)
            .help("write a name in place of `_`, which stands for the name of one column"));
    }
    if !matches!(
        target.type_word,
        TypeWord::Auto | TypeWord::Array | TypeWord::Json
    ) {
        let message = "`select_all` results in an array";
        return Err(
            Diagnostic::error(target.span, message).help("leave the type out, or write `array`")
        );
    }
    Ok(())
}
