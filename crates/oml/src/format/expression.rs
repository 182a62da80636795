//! Expressions.

use super::reader::{Read, Reader};
use super::token::{Break, Kind};
use crate::lexer::Cursor;
use crate::parse::access::{default_begins, variable_begins};
use crate::parse::calc::skip_number;
use crate::parse::expression::call_begins;
use crate::parse::matching;
use crate::parse::pipe::{PipeArguments, pipe_arguments};

impl Reader<'_> {
    /// A value and the functions after it.
    pub(super) fn expression(&mut self) -> Read<()> {
        if self.cursor.peek_word() == "pipe" {
            self.word()?;
        }
        self.primary()?;
        while self.cursor.sees("|") {
            self.allow_break(Break::Operator);
            self.expect("|")?;
            self.pipe_step()?;
        }
        Ok(())
    }

    fn primary(&mut self) -> Read<()> {
        if variable_begins(self.cursor) {
            return self.access();
        }
        match self.cursor.peek_word() {
            "match" => self.match_expression(),
            "object" => {
                self.word()?;
                self.block(Self::member)
            }
            "array" => {
                self.word()?;
                self.block(Self::item)
            }
            "collect" => {
                self.word()?;
                self.access()
            }
            "fmt" => {
                self.word()?;
                self.arguments(Self::fmt_arguments)
            }
            "calc" => {
                self.word()?;
                self.arguments(Self::calc)
            }
            "lookup_nocase" => {
                self.word()?;
                self.arguments(Self::dictionary_arguments)
            }
            "access_direct" => {
                self.word()?;
                self.arguments(|reader| {
                    reader.expression()?;
                    reader.accept_comma()?;
                    reader.expression()
                })
            }
            "Now::time" | "Now::date" | "Now::hour" => self.now(),
            _ => self.operand(),
        }
    }

    pub(super) fn now(&mut self) -> Read<()> {
        self.word()?;
        self.arguments(|_| Ok(()))
    }

    /// `read(…)`, `take(…)` or `@name`, and the default after it.
    pub(super) fn access(&mut self) -> Read<()> {
        if self.cursor.sees("@") {
            self.expect("@")?;
            self.glue();
            self.token(|cursor| cursor.at_name())?;
        } else {
            self.word()?;
            self.arguments(|reader| reader.until(")", Self::access_argument))?;
        }
        if default_begins(self.cursor).is_none() {
            return Ok(());
        }
        self.expect("{")?;
        self.open_bracket();
        self.expect("_")?;
        self.expect(":")?;
        self.expression()?;
        self.accept(";")?;
        self.close_bracket(|reader| reader.expect("}"))
    }

    fn access_argument(&mut self) -> Read<()> {
        self.field_name()?;
        if self.cursor.sees(":") {
            self.expect_glued(":")?;
            self.glue();
            match self.cursor.sees("[") {
                true => self.enclosed("[", "]", |reader| reader.until("]", Self::list_name))?,
                false => self.field_name()?,
            }
        }
        self.accept_comma()?;
        Ok(())
    }

    fn list_name(&mut self) -> Read<()> {
        self.field_name()?;
        self.accept_comma()?;
        Ok(())
    }

    fn field_name(&mut self) -> Read<()> {
        self.token(|cursor| {
            if !skip_quoted(cursor) {
                cursor.key();
            }
        })?;
        Ok(())
    }

    fn until(
        &mut self,
        end: &'static str,
        mut item: impl FnMut(&mut Self) -> Read<()>,
    ) -> Read<()> {
        while !self.cursor.sees(end) {
            item(self)?;
        }
        Ok(())
    }

    fn pipe_step(&mut self) -> Read<()> {
        let name = self.word()?;
        if !self.cursor.sees("(") {
            return Ok(());
        }
        match pipe_arguments(name).ok_or(self.cursor.at())? {
            PipeArguments::Texts(counts) => self.text_arguments(*counts.end() > 1),
            PipeArguments::Expression => self.arguments(|reader| {
                reader.expression()?;
                if reader.accept_comma()? {
                    reader.word()?;
                }
                Ok(())
            }),
        }
    }

    /// Texts in parentheses, in which `//` and `/*` do not begin comments.
    fn text_arguments(&mut self, may_be_several: bool) -> Read<()> {
        self.arguments(|reader| {
            while !reader.cursor.sees(")") {
                let blanks = reader.cursor.take_while(char::is_whitespace);
                reader.add_blanks(blanks);
                let start = reader.cursor.at();
                reader.cursor.text_argument(may_be_several).ok_or(start)?;
                let text = &reader.cursor.text()[start..reader.cursor.at()];
                reader.push(text.trim_end(), Kind::Plain);
                reader.accept_comma()?;
            }
            Ok(())
        })
    }

    /// `type(text)`
    pub(super) fn literal(&mut self) -> Read<()> {
        self.word()?;
        self.expect_glued("(")?;
        let start = self.cursor.at();
        self.cursor.literal_text().ok_or(start)?;
        // Without its blanks, the text is the same, as a literal in quotes is not trimmed.
        let text = &self.cursor.text()[start..self.cursor.at() - ")".len()];
        if !text.trim().is_empty() {
            self.glue();
            self.push(text.trim(), Kind::Plain);
        }
        self.glue();
        self.push(")", Kind::Plain);
        Ok(())
    }

    fn match_expression(&mut self) -> Read<()> {
        self.word()?;
        let is_tuple = self.cursor.sees("(");
        match is_tuple {
            true => self.tuple(Self::access)?,
            false => self.access()?,
        }
        self.block(|reader| reader.case(is_tuple))
    }

    fn tuple(&mut self, mut item: impl FnMut(&mut Self) -> Read<()>) -> Read<()> {
        self.enclosed("(", ")", |reader| {
            item(reader)?;
            while reader.accept_comma()? {
                item(reader)?;
            }
            Ok(())
        })
    }

    fn case(&mut self, is_tuple: bool) -> Read<()> {
        match self.cursor.peek_word() {
            "_" => drop(self.word()?),
            _ if is_tuple => self.tuple(Self::condition)?,
            _ => self.condition()?,
        }
        self.expect("=>")?;
        self.expression()?;
        if self.cursor.sees(",") {
            self.expect_glued(",")?;
        }
        self.accept(";")?;
        Ok(())
    }

    /// Atoms with `|` between them.
    pub(super) fn condition(&mut self) -> Read<()> {
        self.atom()?;
        while self.cursor.sees("|") {
            self.allow_break(Break::Operator);
            self.expect("|")?;
            self.atom()?;
        }
        Ok(())
    }

    fn atom(&mut self) -> Read<()> {
        if self.accept("!")? {
            self.glue();
            return self.operand();
        }
        match self.cursor.peek_word() {
            "in" if call_begins(self.cursor) => {
                self.word()?;
                self.tuple(Self::operand)
            }
            word if matching::FUNCTIONS.contains(&word) && call_begins(self.cursor) => {
                self.word()?;
                self.text_arguments(*matching::argument_counts(word).end() > 1)
            }
            _ => self.operand(),
        }
    }

    /// A literal or the name of a constant.
    pub(super) fn operand(&mut self) -> Read<()> {
        match call_begins(self.cursor) {
            true => self.literal(),
            false => self.word().map(drop),
        }
    }

    fn member(&mut self) -> Read<()> {
        self.targets()?;
        self.expect("=")?;
        self.expression()?;
        self.accept(";")?;
        Ok(())
    }

    fn item(&mut self) -> Read<()> {
        self.expression()?;
        if !self.accept(";")? && self.cursor.sees(",") {
            self.expect_glued(",")?;
        }
        Ok(())
    }

    fn fmt_arguments(&mut self) -> Read<()> {
        self.token(|cursor| skip_quoted(cursor))?;
        while self.accept_comma()? {
            self.access()?;
        }
        Ok(())
    }

    fn dictionary_arguments(&mut self) -> Read<()> {
        self.word()?;
        while self.accept_comma()? {
            self.expression_or_bare()?;
        }
        Ok(())
    }

    /// An expression, a number, or text in quotes.
    fn expression_or_bare(&mut self) -> Read<()> {
        let mut ahead = self.cursor;
        ahead.skip_blanks();
        match ahead.peek() {
            Some('\'' | '"') => self.token(|cursor| skip_quoted(cursor)).map(drop),
            Some('-' | '0'..='9') => self
                .token(|cursor| {
                    cursor.eat_here("-");
                    skip_number(cursor);
                })
                .map(drop),
            _ => self.expression(),
        }
    }

    /// Operands with operators between them.
    fn calc(&mut self) -> Read<()> {
        self.factor()?;
        while let Some(operator) = ["+", "-", "*", "/", "%"]
            .into_iter()
            .find(|token| self.cursor.sees(token))
        {
            self.allow_break(Break::Operator);
            self.expect(operator)?;
            self.factor()?;
        }
        Ok(())
    }

    fn factor(&mut self) -> Read<()> {
        while self.accept("-")? {
            self.glue();
        }
        if self.cursor.sees("(") {
            return self.enclosed("(", ")", Self::calc);
        }
        if variable_begins(self.cursor) {
            return self.access();
        }
        match self.cursor.peek_word() {
            word if word.starts_with(|c: char| c.is_ascii_digit()) => {
                self.token(skip_number).map(drop)
            }
            "digit" | "float" => self.operand(),
            _ => {
                self.word()?;
                match self.cursor.sees("(") {
                    true => self.arguments(Self::calc),
                    false => Ok(()),
                }
            }
        }
    }
}

/// Skips text in quotes without escapes, if the cursor is at its beginning.
fn skip_quoted(cursor: &mut Cursor<'_>) -> bool {
    let Some(quote) = cursor.peek().filter(|c| matches!(c, '\'' | '"')) else {
        return false;
    };
    cursor.set_at(cursor.at() + 1);
    cursor.take_while(|c| c != quote);
    cursor.eat_here(quote.encode_utf8(&mut [0; 4]))
}
