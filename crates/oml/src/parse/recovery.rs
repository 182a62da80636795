//! Error recovery: where parsing continues after an error.

use super::Parser;
use super::header::LINE;
use crate::ast::Span;
use crate::lexer::is_word_char;

/// How a statement that removes records begins.
const DROPS: &str = "drop when ";

/// The context of the invalid piece.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Within {
    /// The model: pieces end with `;`.
    Model,
    /// A block: its `}` ends a piece as well, and is not skipped.
    Block,
}

impl Parser<'_> {
    /// Skips past the header's line, wherever that is.
    pub(super) fn skip_to_statements(&mut self) -> bool {
        let text = self.cursor.text();
        let mut from = self.cursor.at();
        while let Some(found) = text[from..].find(LINE) {
            let at = from + found;
            self.cursor.set_at(at);
            if begins_line(text, at) {
                return self.line();
            }
            from = at + LINE.len();
        }
        false
    }

    /// Skips the invalid piece that began at `start`; its error was at `error`.
    ///
    /// Parsing continues after the first `;` that follows the error outside of all parentheses and
    /// braces, or, if they do not balance, at the next line that looks like a statement.
    pub(super) fn skip_broken(&mut self, start: usize, error: usize, within: Within) {
        let text = self.cursor.text();
        let end = piece_end(text, start, error, within)
            .or_else(|| next_statement_line(text, error.max(start + 1)))
            .unwrap_or(text.len());
        self.cursor.set_at(end);
    }
}

fn piece_end(text: &str, start: usize, error: usize, within: Within) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = start;
    while at < text.len() {
        let byte = text.as_bytes()[at];
        match byte {
            b'}' if depth == 0 && within == Within::Block && at >= error => return Some(at),
            b';' if depth == 0 && at >= error => return Some(at + 1),
            b'(' | b'{' => depth += 1,
            b')' | b'}' => depth = depth.saturating_sub(1),
            b'\'' | b'"' => at += quoted_length(&text[at + 1..], byte),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The length of a string after its opening quote; `None` if it does not end on its line, as it is
/// then an apostrophe.
fn quoted_length(text: &str, quote: u8) -> usize {
    text.bytes()
        .take_while(|byte| *byte != b'\n')
        .position(|byte| byte == quote)
        .map_or(0, |length| length + 1)
}

/// The first line that begins at `from` or later with targets and `=`.
fn next_statement_line(text: &str, from: usize) -> Option<usize> {
    let from = text.floor_char_boundary(from);
    let mut start = match begins_line(text, from) {
        true => from,
        false => from + text[from..].find('\n')? + 1,
    };
    for line in text[start..].split_inclusive('\n') {
        if is_statement(line) {
            return Some(start);
        }
        start += line.len();
    }
    None
}

fn begins_line(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches([' ', '\t']);
    before.is_empty() || before.ends_with('\n')
}

fn is_statement(line: &str) -> bool {
    if line.trim_start().starts_with(DROPS) {
        return true;
    }
    let Some((targets, value)) = line.split_once('=') else {
        return false;
    };
    let is_target_char = |c| is_word_char(c) || "./*[],:- \t".contains(c);
    !targets.trim().is_empty() && targets.chars().all(is_target_char) && !value.starts_with('>')
}

/// A hint for invalid SQL that includes a line that looks like the next statement: as SQL extends
/// to the first `;`, a `;` may be missing.
pub(crate) fn lost_semicolon(text: &str, sql: Span) -> Option<String> {
    let start = sql.start as usize;
    let first = 1 + text[..start].matches('\n').count();
    let mut last = ("", first);
    for (line_number, line) in (first..).zip(text[sql.range()].lines()) {
        let line = line.trim();
        if !last.0.is_empty() && !asks_for_more(last.0) && is_strict_statement(line) {
            return Some(format!("is a `;` missing at the end of line {}?", last.1));
        }
        if !line.is_empty() && !line.starts_with("//") && !line.starts_with("--") {
            last = (line, line_number);
        }
    }
    None
}

/// Whether a line begins with `name =`, `a, b =`, `name : type =` or `drop when`; a preceding word, such as
/// `and`, makes it SQL.
fn is_strict_statement(line: &str) -> bool {
    if line.starts_with(DROPS) {
        return true;
    }
    let Some((targets, value)) = line.split_once('=') else {
        return false;
    };
    let is_name = |text: &str| {
        let text = text.trim();
        !text.is_empty()
            && text
                .chars()
                .all(|c| is_word_char(c) || "./*[]-".contains(c))
    };
    !value.starts_with('=')
        && targets
            .split(',')
            .all(|target| match target.split_once(':') {
                Some((name, type_word)) => is_name(name) && is_name(type_word),
                None => is_name(target),
            })
}

/// Whether a comparison may follow a line of SQL.
fn asks_for_more(line: &str) -> bool {
    const WORDS: [&str; 8] = [
        "where", "and", "or", "not", "on", "having", "when", "select",
    ];
    let last = line.rsplit(|c| !is_word_char(c)).next().unwrap_or("");
    WORDS.iter().any(|word| last.eq_ignore_ascii_case(word)) || line.ends_with(['(', ',', '='])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::span;

    #[test]
    fn lines_that_look_like_the_next_statement() {
        for (text, line) in [
            ("select a from t\nb = read(c)", Some(1)),
            (
                "select a from t\n\n  // b\n  -- c\n a, b = select c from d",
                Some(1),
            ),
            ("select a\n from t\nn : digit = read(c)", Some(2)),
            ("select a from t\nsrc_* = take()", Some(1)),
            ("select a from t\n  drop when read(a) = digit(1)", Some(1)),
            ("select a from t where\ndrop when b", None),
            ("select a from t where\nb = 1", None),
            ("select a from t join u ON\nt.a = u.a", None),
            ("select a from t where (\nb = 1)", None),
            ("select a from t\nwhere b = 1\nand c = 2", None),
            ("select a from t\n== 2", None),
            ("select a from t\n= 2", None),
            ("b = 1", None),
        ] {
            let found = lost_semicolon(text, span(0, text.len()));
            let expected =
                line.map(|line: usize| format!("is a `;` missing at the end of line {line}?"));
            assert_eq!(found, expected, "{text}");
        }
        let text = "x =\n\nselect a\ny = b";
        let found = lost_semicolon(text, span(5, text.len()));
        assert_eq!(
            found.as_deref(),
            Some("is a `;` missing at the end of line 3?")
        );
    }
}
