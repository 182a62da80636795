//! Splits the text of a model into tokens.
//!
//! The reader follows the grammar like the parser, whose predicates it uses. As the text was parsed
//! before, it does not check what the parser has checked; if it finds something else than it expects,
//! the two differ, and it returns the position.

use std::collections::HashSet;

use super::comments::{Comment, comments, line_breaks};
use super::token::{Break, Gap, Kind, Token};
use crate::lexer::Cursor;

/// The position of an unexpected text is the error.
pub(super) type Read<T> = Result<T, usize>;

pub(super) struct Reader<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) tokens: Vec<Token<'a>>,
    /// The names of constants so far.
    pub(super) constants: HashSet<&'a str>,
    next: Next,
    /// The indices of the brackets that are open.
    open: Vec<usize>,
}

/// What is already known about the next token.
#[derive(Clone, Copy)]
struct Next {
    gap: Gap,
    begins_item: bool,
    may_break: Option<Break>,
}

impl Default for Next {
    fn default() -> Self {
        Self {
            gap: Gap::Blank,
            begins_item: false,
            may_break: None,
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            cursor: Cursor::new(text),
            tokens: Vec::new(),
            constants: HashSet::new(),
            next: Next::default(),
            open: Vec::new(),
        }
    }

    /// All tokens of the text.
    pub(super) fn read(mut self) -> Read<Vec<Token<'a>>> {
        self.model()?;
        Ok(self.tokens)
    }

    /// The next token is directly behind the last one.
    pub(super) fn glue(&mut self) {
        self.next.gap = Gap::None;
    }

    /// What is before the next token, in SQL, where the blanks of the original are kept.
    pub(super) fn set_gap(&mut self, gap: Gap) {
        self.next.gap = gap;
    }

    /// The line may be broken before the next token, and a line break there is kept.
    pub(super) fn allow_break(&mut self, place: Break) {
        self.next.may_break = Some(place);
    }

    /// The next token begins a statement.
    pub(super) fn begin_statement(&mut self) {
        self.next.gap = Gap::Line;
        self.next.begins_item = true;
    }

    /// The next token begins an item of a block, or ends the block.
    pub(super) fn begin_item(&mut self) {
        self.next.gap = Gap::Item { is_apart: false };
        self.next.begins_item = true;
    }

    /// Reads `token`, which comes next.
    pub(super) fn expect(&mut self, token: &'static str) -> Read<()> {
        self.expect_as(token, Kind::Plain)
    }

    fn expect_as(&mut self, token: &'static str, kind: Kind) -> Read<()> {
        self.skip_blanks();
        if !self.cursor.eat_here(token) {
            return Err(self.cursor.at());
        }
        self.push(token, kind);
        Ok(())
    }

    /// Reads a token that is directly behind the one before it.
    pub(super) fn expect_glued(&mut self, token: &'static str) -> Read<()> {
        self.glue();
        self.expect(token)
    }

    /// Reads `token` if it comes next.
    pub(super) fn accept(&mut self, token: &'static str) -> Read<bool> {
        let follows = self.cursor.sees(token);
        if follows {
            self.expect(token)?;
        }
        Ok(follows)
    }

    /// Reads `,` if it comes next.
    pub(super) fn accept_comma(&mut self) -> Read<bool> {
        let follows = self.cursor.sees(",");
        if follows {
            self.expect_glued(",")?;
            self.allow_break(Break::Comma);
        }
        Ok(follows)
    }

    /// Reads `open`, directly behind the last token if it is glued, then what `inner` reads, then
    /// `close`.
    pub(super) fn enclosed(
        &mut self,
        open: &'static str,
        close: &'static str,
        inner: impl FnOnce(&mut Self) -> Read<()>,
    ) -> Read<()> {
        self.expect(open)?;
        self.open_bracket();
        self.glue();
        inner(self)?;
        self.glue();
        self.close_bracket(|reader| reader.expect(close))
    }

    /// `(…)` directly behind the last token.
    pub(super) fn arguments(&mut self, inner: impl FnOnce(&mut Self) -> Read<()>) -> Read<()> {
        self.glue();
        self.enclosed("(", ")", inner)
    }

    /// Reads the token that `skip` skips after the blanks.
    pub(super) fn token<T>(&mut self, skip: impl FnOnce(&mut Cursor<'a>) -> T) -> Read<&'a str> {
        self.skip_blanks();
        let start = self.cursor.at();
        skip(&mut self.cursor);
        let text = &self.cursor.text()[start..self.cursor.at()];
        if text.is_empty() {
            return Err(start);
        }
        self.push(text, Kind::Plain);
        Ok(text)
    }

    pub(super) fn word(&mut self) -> Read<&'a str> {
        self.token(|cursor| cursor.word())
    }

    /// Reads `{ item … }`, where `item` reads one item.
    pub(super) fn block(&mut self, mut item: impl FnMut(&mut Self) -> Read<()>) -> Read<()> {
        self.skip_blanks();
        let behind = self.cursor.rest().get(1..).unwrap_or_default();
        let blanks = &behind[..behind.len() - behind.trim_start().len()];
        let is_broken = line_breaks(blanks) > 0;
        self.expect_as("{", Kind::Open { is_broken })?;
        self.open_bracket();
        while !self.cursor.sees("}") {
            self.begin_item();
            item(self)?;
        }
        self.begin_item();
        self.close_bracket(|reader| reader.expect_as("}", Kind::Close))
    }

    /// The last token is a bracket that is open now.
    pub(super) fn open_bracket(&mut self) {
        self.open.push(self.tokens.len() - 1);
    }

    /// Reads, by `read`, the token that closes the innermost bracket; comments before it are within.
    pub(super) fn close_bracket(&mut self, read: impl FnOnce(&mut Self) -> Read<()>) -> Read<()> {
        read(self)?;
        self.open.pop();
        if let Some(token) = self.tokens.last_mut() {
            token.depth = self.open.len();
        }
        Ok(())
    }

    /// How many brackets are open.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Skips blanks and comments before the next token; the comments become tokens.
    pub(super) fn skip_blanks(&mut self) {
        let start = self.cursor.at();
        self.cursor.skip_blanks();
        self.add_blanks(&self.cursor.text()[start..self.cursor.at()]);
    }

    /// Takes account of the blanks and comments before the next token.
    pub(super) fn add_blanks(&mut self, blanks: &'a str) {
        let (comments, line_break_count) = comments(blanks);
        let Some(last) = comments.last() else {
            self.next.gap = match self.next.gap {
                Gap::Item { .. } if line_break_count > 1 => Gap::Item { is_apart: true },
                Gap::Line => Gap::of_lines(line_break_count),
                Gap::Blank if line_break_count > 0 && self.next.may_break.is_some() => Gap::Line,
                gap => gap,
            };
            return;
        };
        let ends_line = last.is_line || line_break_count > 0;
        // Without a line break around it, a comment belongs to what follows.
        let leads = !ends_line
            && comments
                .iter()
                .all(|it| it.line_break_count == 0 && !it.is_line);
        let token = self.next;
        for (index, comment) in comments.iter().enumerate() {
            self.next = Next {
                may_break: None,
                ..token
            };
            self.next.gap = self.comment_gap(comment, token, leads && index == 0);
            let kind = match comment.is_line {
                true => Kind::LineComment,
                false => Kind::Plain,
            };
            self.push(comment.text, kind);
        }
        self.next = Next {
            gap: match ends_line {
                true if token.begins_item => Gap::of_lines(line_break_count),
                true => Gap::Line,
                false => Gap::Blank,
            },
            ..token
        };
    }

    fn comment_gap(&self, comment: &Comment<'_>, token: Next, leads: bool) -> Gap {
        match comment.line_break_count {
            _ if self.tokens.is_empty() => Gap::Line,
            0 if leads && token.begins_item => token.gap,
            0 => Gap::Blank,
            count if token.begins_item => Gap::of_lines(count),
            _ => Gap::Line,
        }
    }

    /// Appends a token. A comment up to the end of the line is followed by a line break.
    pub(super) fn push(&mut self, text: &'a str, kind: Kind) {
        let next = std::mem::take(&mut self.next);
        let follows_comment = self
            .tokens
            .last()
            .is_some_and(|it| it.kind == Kind::LineComment);
        let gap = match follows_comment && !next.gap.is_line() {
            true => Gap::Line,
            false => next.gap,
        };
        self.tokens.push(Token {
            text,
            gap,
            kind,
            may_break: next.may_break,
            begins_item: next.begins_item,
            depth: self.open.len(),
            opener: self.open.last().copied(),
            item_indent: 0,
            line_indent: 0,
        });
    }
}
