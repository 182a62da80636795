//! Where to go on after an error.

use super::Parser;
use super::header::LINE;
use crate::lexer::is_word_char;

/// What encloses the broken piece.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Within {
    /// The model: pieces end with `;`.
    Model,
    /// A block: its `}` ends a piece as well, and is left to be read.
    Block,
}

impl Parser<'_> {
    /// Goes behind the header's line, wherever that is.
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

    /// Goes behind the broken piece that began at `start`; its error was seen at `error`.
    ///
    /// That is behind the first `;` after the error outside of all parentheses and braces, or, when
    /// they do not balance, the next line that looks like a statement.
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

/// How far a string reaches behind its opening quote; nothing when it does not end on its line, for
/// then it is an apostrophe.
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
    let Some((targets, value)) = line.split_once('=') else {
        return false;
    };
    let is_target_char = |c| is_word_char(c) || "./*[],:- \t".contains(c);
    !targets.trim().is_empty() && targets.chars().all(is_target_char) && !value.starts_with('>')
}
