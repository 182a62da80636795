//! Reads a model's text from left to right, in the mode that the context requires.
//!
//! OML has no single set of tokens: `/`, `[` and `*` are parts of a field's name but operators in
//! `calc`, and the text of a literal is anything up to the balancing parenthesis. So the parser
//! requests what it expects, and every method reads one kind of token.

use std::borrow::Cow;

use crate::ast::Span;

/// A position in a text.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

/// Text in quotes or up to a parenthesis.
#[derive(Clone, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) text: Cow<'a, str>,
    /// Its span, without its quotes.
    pub(crate) span: Span,
    pub(crate) is_quoted: bool,
}

impl<'a> Piece<'a> {
    fn bare(text: &'a str, start: usize) -> Self {
        Self {
            text: Cow::Borrowed(text),
            span: span(start, start + text.len()),
            is_quoted: false,
        }
    }
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn set_at(&mut self, at: usize) {
        self.at = at;
    }

    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The character before this position.
    pub(crate) fn before(&self) -> Option<char> {
        self.text[..self.at].chars().next_back()
    }

    /// The span from `start` to this position.
    pub(crate) fn span_from(&self, start: usize) -> Span {
        span(start, self.at)
    }

    /// Skips characters for which `matches` returns true and returns them.
    pub(crate) fn take_while(&mut self, matches: impl FnMut(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.len() - rest.trim_start_matches(matches).len();
        self.at += length;
        &rest[..length]
    }

    pub(crate) fn skip_whitespace(&mut self) {
        self.take_while(char::is_whitespace);
    }

    /// Skips blanks and comments. An unterminated block comment is not skipped, so that the parser
    /// reports it.
    pub(crate) fn skip_blanks(&mut self) {
        self.skip_blanks_with(|_, _| ());
    }

    /// [`Self::skip_blanks`] that passes `visit` the text of each block comment and its position.
    pub(crate) fn skip_blanks_with(&mut self, mut visit: impl FnMut(&'a str, usize)) {
        loop {
            self.skip_whitespace();
            if self.rest().starts_with("//") {
                self.take_while(|c| c != '\n');
            } else if let Some(inner) = self.rest().strip_prefix("/*") {
                let Some(length) = inner.find("*/") else {
                    return;
                };
                visit(&inner[..length], self.at + "/*".len());
                self.at += "/*".len() + length + "*/".len();
            } else {
                return;
            }
        }
    }

    /// Skips blanks and then `token`, if it follows; otherwise skips nothing.
    pub(crate) fn eat(&mut self, token: &str) -> bool {
        let mut ahead = *self;
        ahead.skip_blanks();
        let found = ahead.eat_here(token);
        if found {
            *self = ahead;
        }
        found
    }

    /// Skips `token` if it is at this position.
    pub(crate) fn eat_here(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Whether `token` follows the blanks.
    pub(crate) fn sees(&self, token: &str) -> bool {
        let mut ahead = *self;
        ahead.eat(token)
    }

    /// A word of letters, digits, `_`, and `::` between such words; empty if there is none.
    pub(crate) fn word(&mut self) -> &'a str {
        let start = self.at;
        loop {
            self.take_while(is_word_char);
            let ahead = self.rest().strip_prefix("::");
            match ahead {
                Some(ahead) if self.at > start && ahead.starts_with(is_word_char) => self.at += 2,
                _ => return &self.text[start..self.at],
            }
        }
    }

    /// The word after the blanks, without skipping it.
    pub(crate) fn peek_word(&self) -> &'a str {
        let mut ahead = *self;
        ahead.skip_blanks();
        ahead.word()
    }

    /// A field's name or a pattern of names; paired brackets belong to it. The names of metadata
    /// begin with `@meta/`.
    pub(crate) fn key(&mut self) -> &'a str {
        if self.peek() == Some('-') {
            return "";
        }
        let start = self.at;
        if self.rest().starts_with(METADATA) {
            self.at += 1;
        }
        self.key_chars();
        &self.text[start..self.at]
    }

    fn key_chars(&mut self) -> &'a str {
        let mut depth = 0_usize;
        self.take_while(|c| match c {
            '[' => {
                depth += 1;
                true
            }
            ']' if depth == 0 => false,
            ']' => {
                depth -= 1;
                true
            }
            _ => is_key_char(c),
        })
    }

    /// The name after `@`: like a key, but it ends before a character that may be an operator.
    /// In the name of a header, dashes and points are none.
    pub(crate) fn at_name(&mut self) -> &'a str {
        let start = self.at;
        if self.rest().starts_with(HEADERS_AFTER_AT) {
            return self.take_while(|c| is_word_char(c) || matches!(c, '/' | '-' | '.'));
        }
        self.take_while(is_word_char);
        while self.at > start {
            let rest = self.rest();
            let step = match rest.as_bytes().first() {
                Some(b'.' | b'/') if rest[1..].starts_with(is_word_start) => 1,
                Some(b'[') => {
                    let index = rest[1..].trim_start_matches(|c: char| c.is_ascii_digit());
                    let length = rest.len() - index.len();
                    if length == 1 || !index.starts_with(']') {
                        break;
                    }
                    length + 1
                }
                _ => break,
            };
            self.at += step;
            self.take_while(is_word_char);
        }
        &self.text[start..self.at]
    }

    /// The text of a literal after its `(`, up to and past the balancing `)`: in quotes with
    /// escapes, or unquoted and trimmed. `None` if the parentheses do not balance; the position is
    /// then unchanged.
    pub(crate) fn literal_text(&mut self) -> Option<Piece<'a>> {
        let start = self.at;
        self.skip_whitespace();
        if let Some(piece) = self.quoted_literal() {
            return Some(piece);
        }
        self.at = start;
        let end = start + balanced_length(self.rest())?;
        self.at = end + 1;
        let text = &self.text[start..end];
        let left = start + (text.len() - text.trim_start().len());
        Some(Piece::bare(text.trim(), left))
    }

    /// `'…'` or `"…"` directly before the closing parenthesis.
    fn quoted_literal(&mut self) -> Option<Piece<'a>> {
        let quote = self.peek().filter(|c| matches!(c, '\'' | '"'))?;
        let start = self.at + 1;
        let mut chars = self.text[start..].char_indices();
        let length = loop {
            match chars.next()? {
                (_, '\\') => drop(chars.next()),
                (length, c) if c == quote => break length,
                _ => {}
            }
        };
        let end = start + length;
        let behind = self.text[end + 1..].trim_start().strip_prefix(')')?;
        self.at = self.text.len() - behind.len();
        Some(Piece {
            text: unescape(&self.text[start..end]),
            span: span(start, end),
            is_quoted: true,
        })
    }

    /// One argument of a function: in quotes, which end before `,` or `)`, or unquoted and trimmed,
    /// up to the balancing `)` or, if there may be several arguments, to a `,`. No escapes.
    pub(crate) fn text_argument(&mut self, may_be_several: bool) -> Option<Piece<'a>> {
        self.skip_whitespace();
        let rest = self.rest();
        let start = self.at;
        if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '\'' | '"')) {
            let mut from = 1;
            loop {
                let length = from + rest[from..].find(quote)?;
                let behind = rest[length + 1..].trim_start();
                if behind.starts_with([',', ')']) {
                    self.at = start + length + 1;
                    return Some(Piece {
                        is_quoted: true,
                        ..Piece::bare(&rest[1..length], start + 1)
                    });
                }
                from = length + 1;
            }
        }
        let mut length = balanced_length(rest)?;
        if may_be_several {
            length = first_comma(&rest[..length]);
        }
        self.at += length;
        Some(Piece::bare(rest[..length].trim_end(), start))
    }
}

/// A span of positions, which fit in 32 bits because the parser bounds the size of the text.
pub(crate) fn span(start: usize, end: usize) -> Span {
    Span {
        start: start as u32,
        end: end as u32,
    }
}

/// What the names of metadata begin with.
pub(crate) const METADATA: &str = "@meta/";

/// What the name of a header begins with after `@`.
const HEADERS_AFTER_AT: &str = "meta/headers/";

pub(crate) fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

pub(crate) fn is_word_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_key_char(c: char) -> bool {
    is_word_char(c) || matches!(c, '.' | '/' | '*' | '-')
}

/// The distance to the parenthesis that closes one opened before the text.
fn balanced_length(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 0 => return Some(index),
            b')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The first comma outside parentheses, or the length.
fn first_comma(text: &str) -> usize {
    let mut depth = 0_usize;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => return index,
            _ => {}
        }
    }
    text.len()
}

/// Resolves `\n \r \t \\ \' \"`; any other backslash is literal.
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = match chars.peek().filter(|_| c == '\\') {
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some(&same @ ('\\' | '\'' | '"')) => Some(same),
            _ => None,
        };
        if escaped.is_some() {
            chars.next();
        }
        out.push(escaped.unwrap_or(c));
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_texts() {
        for (text, expected) in [
            ("abc)", Some("abc")),
            ("  a (b) ; c ) rest", Some("a (b) ; c")),
            (")", Some("")),
            ("\"\")", Some("")),
            ("'a)' )", Some("a)")),
            (r"'it\'s\n\d')", Some("it's\n\\d")),
            (r"'\\n')", Some("\\n")),
            ("it's)", Some("it's")),
            ("'a' or 'b')", Some("'a' or 'b'")),
            ("'tis)", Some("'tis")),
            ("https://example.org/*)", Some("https://example.org/*")),
            ("\u{4e2d}\u{6587})", Some("\u{4e2d}\u{6587}")),
            ("a(b)", None),
            ("", None),
        ] {
            let piece = Cursor::new(text).literal_text();
            assert_eq!(piece.as_ref().map(|piece| &*piece.text), expected, "{text}");
        }
    }

    #[test]
    fn arguments() {
        for (text, may_be_several, expected) in [
            (r"'^\d{1,3}$')", false, Some(r"^\d{1,3}$")),
            (r"^(\d{1,3}|x)$ )", false, Some(r"^(\d{1,3}|x)$")),
            ("'a', 'b')", true, Some("a")),
            ("a b , c)", true, Some("a b")),
            ("'it's' )", false, Some("it's")),
            ("'open", false, None),
            ("open", true, None),
        ] {
            let piece = Cursor::new(text).text_argument(may_be_several);
            assert_eq!(piece.as_ref().map(|piece| &*piece.text), expected, "{text}");
        }
    }

    #[test]
    fn names() {
        for (text, key, at_name) in [
            ("http/status", "http/status", "http/status"),
            ("details[0]/p,", "details[0]/p", "details[0]/p"),
            ("a]", "a", "a"),
            ("a/2", "a/2", "a"),
            ("a[b]", "a[b]", "a"),
            ("a[]", "a[]", "a"),
            ("a.", "a.", "a"),
            ("src_*)", "src_*", "src_"),
            ("user-agent", "user-agent", "user"),
            ("---", "", ""),
        ] {
            assert_eq!(Cursor::new(text).key(), key, "{text}");
            assert_eq!(Cursor::new(text).at_name(), at_name, "{text}");
        }
    }

    #[test]
    fn blanks_and_comments() {
        let mut cursor = Cursor::new(" // a\n /* b\n */ // c\n\tx");
        cursor.skip_blanks();
        assert_eq!(cursor.rest(), "x");
        let mut cursor = Cursor::new(" /* open");
        cursor.skip_blanks();
        assert_eq!(cursor.rest(), "/* open");
    }
}
