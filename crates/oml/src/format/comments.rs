//! The comments between two tokens.

/// A comment, and the line breaks before it.
pub(super) struct Comment<'a> {
    pub(super) text: &'a str,
    pub(super) is_line: bool,
    pub(super) line_break_count: usize,
}

/// The comments in a text of blanks and comments, and the number of line breaks after the last.
pub(super) fn comments(mut text: &str) -> (Vec<Comment<'_>>, usize) {
    let mut comments = Vec::new();
    loop {
        let rest = text.trim_start();
        let line_break_count = line_breaks(&text[..text.len() - rest.len()]);
        let is_line = rest.starts_with("//");
        let length = match is_line {
            true => rest.find('\n').unwrap_or(rest.len()),
            false => rest.find("*/").map_or(rest.len(), |found| found + 2),
        };
        if length == 0 {
            return (comments, line_break_count);
        }
        comments.push(Comment {
            text: rest[..length].trim_end(),
            is_line,
            line_break_count,
        });
        text = &rest[length..];
    }
}

pub(super) fn line_breaks(blanks: &str) -> usize {
    blanks.bytes().filter(|byte| *byte == b'\n').count()
}
