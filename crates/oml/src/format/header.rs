//! The header, the line after it, and the line that ends the model.

use super::reader::{Read, Reader};
use super::token::{Break, Kind};
use crate::lexer::is_word_char;
use crate::parse::header::{LINE, model_name, next_rule};

impl<'a> Reader<'a> {
    /// A whole model.
    pub(super) fn model(&mut self) -> Read<()> {
        while !self.line()? {
            self.header_line()?;
        }
        loop {
            let mut ahead = self.cursor;
            ahead.skip_blanks();
            if ahead.rest().is_empty() {
                break;
            }
            if self.line()? {
                self.ignored_text();
                break;
            }
            self.statement()?;
        }
        // Comments at the end.
        self.begin_statement();
        self.skip_blanks();
        Ok(())
    }

    /// Three dashes or more, if they come next.
    fn line(&mut self) -> Read<bool> {
        let follows = self.cursor.sees(LINE);
        if follows {
            self.begin_statement();
            self.token(|cursor| cursor.take_while(|c| c == '-'))?;
        }
        Ok(follows)
    }

    fn header_line(&mut self) -> Read<()> {
        self.begin_statement();
        let word = self.word()?;
        self.expect(":")?;
        match word {
            "name" => self.token(|cursor| model_name(cursor))?,
            "rule" => return self.rules(),
            _ => self.token(|cursor| cursor.take_while(|c| is_word_char(c) || c == '.'))?,
        };
        Ok(())
    }

    fn rules(&mut self) -> Read<()> {
        let last_comment_end = self.cursor.text().rfind("*/").unwrap_or(0);
        loop {
            let start = self.cursor.at();
            let mut ahead = self.cursor;
            let Some(rule) = next_rule(&mut ahead, last_comment_end) else {
                return Ok(());
            };
            // At the beginning of a line, `/*` may begin a comment.
            if !rule.starts_with("/*") {
                self.allow_break(Break::Comma);
            }
            self.add_blanks(&self.cursor.text()[start..ahead.at() - rule.len()]);
            self.cursor = ahead;
            self.push(rule, Kind::Plain);
        }
    }

    /// What is behind the line that ends the model, as it is.
    fn ignored_text(&mut self) {
        let rest = self.cursor.rest().trim_end();
        self.cursor.set_at(self.cursor.text().len());
        if rest.is_empty() {
            return;
        }
        let behind_blanks = rest.trim_start_matches([' ', '\t', '\r']);
        self.glue();
        let text = match behind_blanks.starts_with('\n') {
            true => behind_blanks,
            false => rest,
        };
        self.push(text, Kind::Plain);
    }
}
