//! Decides where lines are broken, and writes them.

use std::ops::Range;

use super::LINE_WIDTH_MAX;
use super::token::{Break, Gap, Kind, Token};

/// The indentation of one level, in blanks.
const INDENT: usize = 4;

/// Brackets nested deeper than this have the same rank as places for line breaks, so that their number
/// does not determine the time.
const RANKED_DEPTH_MAX: usize = 15;

/// The formatted text of the tokens.
pub(super) fn text_of(mut tokens: Vec<Token<'_>>) -> String {
    mark_broken_blocks(&mut tokens);
    break_blocks(&mut tokens);
    break_lines(&mut tokens);
    write(&tokens)
}

/// A block that contains a line break is broken itself.
fn mark_broken_blocks(tokens: &mut [Token<'_>]) {
    let is_broken = Kind::Open { is_broken: true };
    let mut open: Vec<usize> = Vec::new();
    for index in 0..tokens.len() {
        let token = &tokens[index];
        if token.gap.is_line() || token.text.contains('\n') || token.kind == is_broken {
            for outer in &open {
                tokens[*outer].kind = is_broken;
            }
        }
        match tokens[index].kind {
            Kind::Open { .. } => open.push(index),
            Kind::Close => drop(open.pop()),
            _ => {}
        }
    }
}

/// A block or the whole model, while blocks are broken.
struct Level {
    is_broken: bool,
    indent: usize,
    /// The depth of the current item.
    item_depth: usize,
}

/// Breaks the blocks that are too long for a line into items, and determines the indentation of all
/// tokens.
fn break_blocks(tokens: &mut [Token<'_>]) {
    let mut levels = vec![Level {
        is_broken: true,
        indent: 0,
        item_depth: 0,
    }];
    let mut column = 0;
    for index in 0..tokens.len() {
        if tokens[index].kind == Kind::Close && levels.len() > 1 {
            let closed = levels.pop().expect("there are several");
            if closed.is_broken {
                tokens[index].indent = closed.indent - INDENT;
            }
            resolve_item(&mut tokens[index], closed.is_broken);
        } else {
            let level = levels.last_mut().expect("the first one stays");
            let token = &mut tokens[index];
            if token.begins_item {
                level.item_depth = token.depth;
                token.indent = level.indent;
            } else {
                let depth = token.depth.saturating_sub(level.item_depth);
                // A closing parenthesis is below the line of its opening one.
                let depth_min = if token.text == ")" { 0 } else { 1 };
                token.indent = level.indent + INDENT * depth.max(depth_min);
            }
            resolve_item(token, level.is_broken);
        }
        let token = &tokens[index];
        column = end_column(token, column);
        if let Kind::Open { is_broken } = token.kind {
            let level = levels.last().expect("the first one stays");
            let is_empty = tokens
                .get(index + 1)
                .is_some_and(|it| it.kind == Kind::Close);
            let is_broken =
                level.is_broken && !is_empty && (is_broken || !fits(&tokens[index + 1..], column));
            let indent = level.indent + if is_broken { INDENT } else { 0 };
            levels.push(Level {
                is_broken,
                indent,
                item_depth: 0,
            });
        }
    }
}

fn resolve_item(token: &mut Token<'_>, is_broken: bool) {
    token.gap = match token.gap {
        Gap::Item { .. } if !is_broken => Gap::Blank,
        Gap::Item { is_apart: true } => Gap::EmptyLine,
        Gap::Item { is_apart: false } => Gap::Line,
        gap => gap,
    };
}

/// The column behind a token, if the token before it ends at `column`.
fn end_column(token: &Token<'_>, column: usize) -> usize {
    let start = match token.gap {
        Gap::Line | Gap::EmptyLine => token.indent,
        Gap::None => column,
        Gap::Blank | Gap::Item { .. } => column + 1,
    };
    token.last_width().unwrap_or(start + token.first_width())
}

/// Whether the rest of a block fits into the line, with what follows it up to the next place where the
/// line can be broken.
fn fits(tokens: &[Token<'_>], mut column: usize) -> bool {
    let mut depth = 1_usize;
    for token in tokens {
        let may_end = depth == 0 && matches!(token.gap, Gap::Item { .. });
        if may_end || token.gap.is_line() || token.kind == Kind::LineComment {
            return true;
        }
        column += usize::from(token.gap != Gap::None) + token.first_width();
        if column > LINE_WIDTH_MAX {
            return false;
        }
        match token.kind {
            Kind::Open { .. } if depth == 0 => return true,
            Kind::Open { .. } => depth += 1,
            Kind::Close if depth > 0 => depth -= 1,
            _ if token.text.contains('\n') => return true,
            _ => {}
        }
    }
    true
}

/// Breaks lines that are too long.
fn break_lines(tokens: &mut [Token<'_>]) {
    let mut start = 0;
    let mut column = 0;
    for index in 1..=tokens.len() {
        let last_width = tokens[index - 1].last_width();
        let is_end = index == tokens.len() || tokens[index].gap.is_line();
        if is_end || last_width.is_some() {
            break_line(tokens, start..index, column);
            (start, column) = (index, last_width.unwrap_or(0));
        }
    }
}

/// Breaks a line at its best places if it is too long, and then the lines that this gives. `column` is
/// where it begins if no line break is before it.
fn break_line(tokens: &mut [Token<'_>], line: Range<usize>, column: usize) {
    if end_of(&tokens[line.clone()], column) <= LINE_WIDTH_MAX {
        return;
    }
    let places = || (line.start + 1..line.end).filter(|index| tokens[*index].gap == Gap::Blank);
    let depth = tokens[line.clone()].iter().map(|token| token.depth).min();
    let rank = |index: usize| -> Option<(usize, Break)> {
        let token = &tokens[index];
        let depth = token.depth - depth.unwrap_or(0);
        Some((depth.min(RANKED_DEPTH_MAX), token.may_break?))
    };
    let Some(best) = places().filter_map(rank).min() else {
        return;
    };
    let mut ends: Vec<usize> = places().filter(|it| rank(*it) == Some(best)).collect();
    ends.push(line.end);
    let mut start = line.start;
    let mut column = column;
    for pair in ends.windows(2) {
        // The next part stays in this line if it fits.
        if end_of(&tokens[start..pair[1]], column) > LINE_WIDTH_MAX {
            tokens[pair[0]].gap = Gap::Line;
            break_line(tokens, start..pair[0], column);
            (start, column) = (pair[0], 0);
        }
    }
    break_line(tokens, start..line.end, column);
}

/// The column at the end of a line, without a comment at its end.
fn end_of(line: &[Token<'_>], column: usize) -> usize {
    let mut end = column;
    for token in line.iter().filter(|it| it.kind != Kind::LineComment) {
        end = match token.gap {
            Gap::Line | Gap::EmptyLine => token.indent,
            Gap::None => end,
            Gap::Blank | Gap::Item { .. } => end + 1,
        };
        end += token.first_width();
    }
    end
}

fn write(tokens: &[Token<'_>]) -> String {
    let mut text = String::new();
    let mut before: Option<&Token<'_>> = None;
    for token in tokens {
        let follows_open = before.is_some_and(|it| matches!(it.kind, Kind::Open { .. }));
        let is_empty_line =
            token.gap == Gap::EmptyLine && !follows_open && token.kind != Kind::Close;
        match token.gap {
            _ if before.is_none() => {}
            Gap::None => {}
            Gap::Blank | Gap::Item { .. } => text.push(' '),
            Gap::Line | Gap::EmptyLine => {
                text.push_str(if is_empty_line { "\n\n" } else { "\n" });
                text.extend(std::iter::repeat_n(' ', token.indent));
            }
        }
        text.push_str(token.text);
        before = Some(token);
    }
    text.push('\n');
    text
}
