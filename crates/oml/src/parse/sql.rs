//! Lookups: SQL is copied unchanged, except that its accesses become parameters.
//!
//! The text is copied verbatim, so parentheses, precedence and all syntax of the provider are
//! preserved, and each access gets a separate parameter. Strings and comments of SQL are not
//! searched for accesses. Comments of OML are removed; they may state how fresh the answer has to be,
//! and what happens if there is none because the lookup fails.

use std::fmt::Write as _;

use lookaside_value::Text;

use super::literal::{LITERAL_TYPES, literal_value};
use super::lookup_settings::LookupSettings;
use super::{Parsed, Parser, lost_semicolon};
use crate::ast::{Expr, ExprKind, Span, Sql, SqlParam};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Cursor, is_word_char, is_word_start, span};

/// Begins a lookup of all rows in place of `select`.
pub(super) const SELECT_ALL: &str = "select_all";

/// The statement that is being read.
struct Draft {
    text: String,
    params: Vec<SqlParam>,
    /// What the comments state.
    settings: LookupSettings,
    /// The positions of the open parentheses.
    open: Vec<usize>,
    /// The last token that is not a blank.
    last: Last,
}

/// The kind of the last token, as far as it matters for the next.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    /// `=`, `<`, `>` or `like`: a value follows.
    Comparison,
    /// `as`: a type may follow.
    As,
    Other,
}

/// Whether `select`, `select_all` or `with` and a blank come next, and not the name of a constant.
pub(crate) fn sql_begins(mut ahead: Cursor<'_>, is_constant: impl Fn(&str) -> bool) -> bool {
    ahead.skip_blanks();
    let word = ahead.word();
    let follows = ahead.peek().is_none_or(|c| !matches!(c, ';' | '|' | ':'));
    let is_begin = |begin: &&str| word.eq_ignore_ascii_case(begin);
    !is_constant(word) && follows && ["select", SELECT_ALL, "with"].iter().any(is_begin)
}

/// The form of OML that a word or `@` within SQL begins.
pub(crate) enum Embedded {
    /// `read(x)`, `@x`
    Access,
    /// `Now::time()`
    Now,
    /// `digit(1)`
    Literal,
}

/// What begins here, at a word or at `@`; `None` if it is SQL. `follows_as` is whether the last token
/// was the word `as`.
pub(crate) fn embedded(cursor: Cursor<'_>, follows_as: bool) -> Option<Embedded> {
    let before = cursor.before();
    if let Some(behind) = cursor.rest().strip_prefix('@') {
        // Neither `@@variable` nor the second half of an operator such as `@@`.
        let is_access = behind.starts_with(is_word_start)
            && !before.is_some_and(|c| c == '@' || is_word_char(c));
        return is_access.then_some(Embedded::Access);
    }
    if before.is_some_and(|c| matches!(c, '.' | '$' | ':' | '@')) {
        return None;
    }
    let mut ahead = cursor;
    match ahead.word() {
        "read" | "take" => ahead.sees("(").then_some(Embedded::Access),
        "Now::time" | "Now::date" | "Now::hour" => Some(Embedded::Now),
        word if LITERAL_TYPES.contains(&word) && ahead.eat("(") => {
            is_literal(word, ahead, follows_as).then_some(Embedded::Literal)
        }
        _ => None,
    }
}

/// Whether `type(`, already read, begins a literal rather than SQL: `time(created)` is a SQL function
/// and `cast(x as float(24))` has a SQL type, but `digit` and `chars` are always literals.
fn is_literal(word: &str, text: Cursor<'_>, follows_as: bool) -> bool {
    if follows_as || matches!(word, "digit" | "chars" | "symbol") {
        return !follows_as;
    }
    // Numbers, addresses and times are short; only the beginning of a longer text is searched.
    let near = text.rest();
    let near = &near[..near.floor_char_boundary(128)];
    Cursor::new(near)
        .literal_text()
        .is_some_and(|piece| !piece.is_quoted && literal_value(word, &piece.text).is_ok())
}

impl Parser<'_> {
    pub(super) fn sql_begins(&self) -> bool {
        sql_begins(self.cursor, |word| self.static_ids.contains_key(word))
    }

    /// A statement up to its `;`, which is not consumed. The blanks before it are part of the lookup.
    pub(super) fn sql(&mut self) -> Parsed<Sql> {
        let mut settings = LookupSettings::default();
        self.skip_lookup_blanks(&mut settings)?;
        let start = self.cursor.at();
        let takes_all = self.cursor.peek_word().eq_ignore_ascii_case(SELECT_ALL);
        let mut text = String::new();
        if takes_all {
            self.cursor.word();
            text.push_str("select");
        }
        let mut draft = Draft {
            text,
            params: Vec::new(),
            settings,
            open: Vec::new(),
            last: Last::Other,
        };
        loop {
            match self.cursor.peek() {
                None => {
                    let message = "the SQL statement has no `;` at its end";
                    return Err(self.unclosed(&draft, start, message));
                }
                Some(';') => break,
                Some(_) => self.sql_token(&mut draft)?,
            }
        }
        if !draft.open.is_empty() {
            return Err(self.unclosed(&draft, start, ""));
        }
        let text = draft.text.trim().to_owned();
        if text.split_whitespace().nth(1).is_none() {
            return Err(self.unexpected("columns after `select`"));
        }
        let rows_max = draft.settings.rows_max_of(takes_all)?;
        let end = start + self.cursor.text()[start..self.cursor.at()].trim_end().len();
        Ok(Sql {
            text,
            params: draft.params,
            rows_max,
            contract: draft.settings.contract,
            on_failure: draft.settings.on_failure,
            span: span(start, end),
        })
    }

    fn unclosed(&self, draft: &Draft, start: usize, otherwise: &str) -> super::Fault {
        let fault = match draft.open.last() {
            Some(open) => {
                let message = "this parenthesis is not closed";
                Diagnostic::error(span(*open, open + 1), message)
            }
            None => Diagnostic::error(self.next_span(), otherwise),
        };
        match lost_semicolon(self.cursor.text(), self.cursor.span_from(start)) {
            Some(help) => fault.help(help),
            None => fault,
        }
    }

    /// Copies one token, or replaces it by a parameter.
    fn sql_token(&mut self, draft: &mut Draft) -> Parsed<()> {
        let start = self.cursor.at();
        let rest = self.cursor.rest();
        let c = self.cursor.peek().expect("the caller saw a character");
        if c.is_whitespace() {
            draft
                .text
                .push_str(self.cursor.take_while(char::is_whitespace));
            return Ok(());
        }
        if rest.starts_with("--") || rest.starts_with("//") {
            self.cursor.take_while(|c| c != '\n');
            return Ok(());
        }
        // `/*+ … */` and `/*! … */` are instructions to a database, not comments.
        if rest.starts_with("/*") && !rest.starts_with("/*+") && !rest.starts_with("/*!") {
            self.skip_lookup_blanks(&mut draft.settings)?;
            draft.text.push(' ');
            return match self.cursor.at() > start {
                true => Ok(()),
                false => Err(self.unexpected("SQL")),
            };
        }
        if is_word_char(c) {
            return self.sql_word(draft);
        }
        match c {
            '\'' | '"' | '`' => return self.sql_quoted(draft, c, Escapes::Doubled),
            '@' if embedded(self.cursor, false).is_some() => {
                return self.sql_access(draft);
            }
            '$' => {
                if let Some(tag) = dollar_tag(rest, self.cursor.before()) {
                    let Some(inner) = rest[tag.len()..].find(tag) else {
                        let message = "these quotes are not closed";
                        return Err(Diagnostic::error(span(start, start + tag.len()), message));
                    };
                    let length = 2 * tag.len() + inner;
                    draft.text.push_str(&rest[..length]);
                    draft.last = Last::Other;
                    self.cursor.set_at(start + length);
                    return Ok(());
                }
            }
            '(' => draft.open.push(start),
            ')' if draft.open.pop().is_none() => {
                let message = "this parenthesis was never opened";
                return Err(Diagnostic::error(self.next_span(), message));
            }
            ':' => self.refuse_named_parameter(draft)?,
            _ => {}
        }
        draft.last = match c {
            '=' | '<' | '>' => Last::Comparison,
            _ => Last::Other,
        };
        draft.text.push(c);
        self.cursor.set_at(start + c.len_utf8());
        Ok(())
    }

    fn sql_access(&mut self, draft: &mut Draft) -> Parsed<()> {
        let access = self.variable(None)?;
        let span = access.span;
        let kind = ExprKind::Access(access);
        self.push_param(draft, Expr { kind, span })
    }

    fn sql_word(&mut self, draft: &mut Draft) -> Parsed<()> {
        let start = self.cursor.at();
        let kind = match embedded(self.cursor, draft.last == Last::As) {
            Some(Embedded::Access) => return self.sql_access(draft),
            Some(Embedded::Now) => Some(ExprKind::Now(self.now()?)),
            Some(Embedded::Literal) => Some(ExprKind::Literal(self.literal()?)),
            None => None,
        };
        if let Some(kind) = kind {
            let span = self.cursor.span_from(start);
            return self.push_param(draft, Expr { kind, span });
        }
        // The type of a cast such as `x::int` is not a word of OML.
        let word = self.cursor.take_while(is_word_char);
        draft.text.push_str(word);
        if word.eq_ignore_ascii_case("e") && self.cursor.peek() == Some('\'') {
            return self.sql_quoted(draft, '\'', Escapes::Backslash);
        }
        self.warn_of_constant(draft, word, self.cursor.span_from(start));
        draft.last = match word {
            word if word.eq_ignore_ascii_case("as") => Last::As,
            word if word.eq_ignore_ascii_case("like") => Last::Comparison,
            _ => Last::Other,
        };
        Ok(())
    }

    /// Warns that a bare name is a column even if there is a constant with this name.
    fn warn_of_constant(&mut self, draft: &Draft, word: &str, span: Span) {
        if draft.last == Last::Comparison && self.static_ids.contains_key(word) {
            let message = format!("in SQL `{word}` is a column, not the constant");
            let help = format!("write `x = {word} ;` before, then `read(x)` here");
            self.warn(span, message, help);
        }
    }

    fn push_param(&mut self, draft: &mut Draft, value: Expr) -> Parsed<()> {
        self.count_expressions(1)?;
        let index = draft.params.len();
        write!(draft.text, ":p{index}").expect("a string takes any text");
        // Without a blank, a name that follows would become part of the parameter's name.
        if self.cursor.peek().is_some_and(is_word_char) {
            draft.text.push(' ');
        }
        draft.params.push(SqlParam {
            name: Text::from(format!("p{index}")),
            value,
        });
        draft.last = Last::Other;
        Ok(())
    }

    /// Text or a quoted name, copied as a whole. Double-quoted text after a comparison is text in
    /// OML but would be a name in SQL, so it gets single quotes.
    fn sql_quoted(&mut self, draft: &mut Draft, quote: char, escapes: Escapes) -> Parsed<()> {
        let start = self.cursor.at();
        let rest = self.cursor.rest();
        let Some(length) = quoted_length(rest, quote as u8, escapes) else {
            let message = "these quotes are not closed";
            return Err(Diagnostic::error(span(start, start + 1), message));
        };
        self.cursor.set_at(start + length);
        let quoted = &rest[..length];
        let is_text = quote == '"'
            && draft.last == Last::Comparison
            && !rest[length..].trim_start().starts_with('.');
        if is_text {
            let inner = quoted[1..length - 1].replace("\"\"", "\"");
            write!(draft.text, "'{}'", inner.replace('\'', "''")).expect("a string takes any text");
            let message = "in SQL, double quotes enclose a name; this is read as text here";
            let help = "write text in single quotes, and a name as `table.\"name\"`";
            self.warn(self.cursor.span_from(start), message, help);
        } else {
            draft.text.push_str(quoted);
        }
        draft.last = Last::Other;
        Ok(())
    }

    /// `:name` would collide with the generated parameters.
    fn refuse_named_parameter(&self, draft: &Draft) -> Parsed<()> {
        let behind = &self.cursor.rest()[1..];
        let name_length = behind.len() - behind.trim_start_matches(is_word_char).len();
        let is_slice_or_cast = draft
            .text
            .trim_end()
            .ends_with(|c: char| is_word_char(c) || matches!(c, ':' | ']'));
        if name_length == 0 || is_slice_or_cast || !behind.starts_with(is_word_start) {
            return Ok(());
        }
        let name = &behind[..name_length];
        let start = self.cursor.at();
        let place = span(start, start + 1 + name_length);
        Err(
            Diagnostic::error(place, format!("`:{name}` has no value here"))
                .help(format!("write `read({name})` instead")),
        )
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Escapes {
    /// A quote in quotes is written twice.
    Doubled,
    /// Also escaped by a backslash, as in `E'it\'s'`.
    Backslash,
}

/// The length of a quoted piece at the beginning of the text, both quotes included.
pub(crate) fn quoted_length(text: &str, quote: u8, escapes: Escapes) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if escapes == Escapes::Backslash => at += 2,
            byte if byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

/// `$tag$` at the beginning of the text, which opens a string that ends with the same tag.
pub(crate) fn dollar_tag(text: &str, before: Option<char>) -> Option<&str> {
    if before.is_some_and(is_word_char) {
        return None;
    }
    let (name, _) = text[1..].split_once('$')?;
    let is_name = name.chars().all(is_word_char) && !name.starts_with(|c: char| c.is_ascii_digit());
    is_name.then(|| &text[..name.len() + 2])
}
