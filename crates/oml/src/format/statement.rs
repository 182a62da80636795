//! Statements, blocks of constants, and the tests of `drop when`.

use super::reader::{Read, Reader};
use super::token::Break;
use crate::parse::sql::sql_begins;
use crate::parse::statics::static_block_begins;
use crate::parse::test::drop_begins;

impl Reader<'_> {
    /// A statement or a block of constants.
    pub(super) fn statement(&mut self) -> Read<()> {
        self.begin_statement();
        if static_block_begins(self.cursor) {
            self.word()?;
            self.block(Self::constant)?;
            self.accept(";")?;
            return Ok(());
        }
        if drop_begins(self.cursor) {
            self.word()?;
            self.word()?;
            self.test()?;
        } else {
            self.targets()?;
            self.expect("=")?;
            match sql_begins(self.cursor, |word| self.constants.contains(word)) {
                true => self.sql()?,
                false => self.expression()?,
            }
        }
        self.expect(";")
    }

    fn constant(&mut self) -> Read<()> {
        let name = self.word()?;
        self.expect("=")?;
        self.expression()?;
        self.constants.insert(name);
        self.expect(";")
    }

    /// `a, b : type`
    pub(super) fn targets(&mut self) -> Read<()> {
        self.target()?;
        while self.accept_comma()? {
            self.target()?;
        }
        Ok(())
    }

    fn target(&mut self) -> Read<()> {
        self.token(|cursor| cursor.key())?;
        if self.accept(":")? {
            let is_type = |c: char| c.is_alphanumeric() || matches!(c, '_' | '/');
            self.token(|cursor| cursor.take_while(is_type))?;
        }
        Ok(())
    }

    /// Tests with `and` and `or` between them.
    fn test(&mut self) -> Read<()> {
        loop {
            self.single_test()?;
            match self.cursor.peek_word() {
                "or" => self.allow_break(Break::Clause),
                "and" => self.allow_break(Break::Operator),
                _ => return Ok(()),
            }
            self.word()?;
        }
    }

    fn single_test(&mut self) -> Read<()> {
        while self.cursor.peek_word() == "not" {
            self.word()?;
        }
        if self.cursor.sees("(") {
            return self.enclosed("(", ")", Self::test);
        }
        self.access()?;
        if self.accept("!=")? {
            return self.operand();
        }
        self.accept("=")?;
        self.condition()
    }
}
