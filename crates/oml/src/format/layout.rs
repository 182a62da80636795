//! Decides where lines are broken, and writes them.

use std::ops::Range;

use super::LINE_WIDTH_MAX;
use super::token::{Break, Gap, Kind, Token};

/// The indentation of one level, in blanks.
const INDENT: usize = 4;

/// Brackets nested deeper than this have the same rank as places for line breaks, so that their number
/// does not determine the time.
const RANKED_DEPTH_MAX: usize = 15;

/// A block whose items are on separate lines.
const BROKEN: Kind = Kind::Open { is_broken: true };

/// The formatted text of the tokens.
pub(super) fn text_of(mut tokens: Vec<Token<'_>>) -> String {
    loop {
        mark_broken_blocks(&mut tokens);
        let mut laid_out = tokens.clone();
        break_blocks(&mut laid_out);
        let too_long = break_lines(&mut laid_out);
        if too_long.is_empty() {
            return write(&laid_out);
        }
        // Breaking the line before a block has indented it further, so that it does not fit any more.
        for block in too_long {
            tokens[block].kind = BROKEN;
        }
    }
}

/// A block that contains a line break is broken itself.
fn mark_broken_blocks(tokens: &mut [Token<'_>]) {
    let mut open: Vec<usize> = Vec::new();
    for index in 0..tokens.len() {
        let token = &tokens[index];
        if token.gap.is_line() || token.text.contains('\n') || token.kind == BROKEN {
            for outer in &open {
                tokens[*outer].kind = BROKEN;
            }
        }
        match tokens[index].kind {
            Kind::Open { .. } => open.push(index),
            Kind::Close => drop(open.pop()),
            Kind::Plain | Kind::LineComment => {}
        }
    }
}

/// Breaks the blocks that are too long for a line into items, and determines the indentation of all
/// items.
fn break_blocks(tokens: &mut [Token<'_>]) {
    // Of the model and each open block, whether its items are on separate lines, and their indentation.
    let mut levels = vec![(true, 0)];
    let mut column = 0;
    for index in 0..tokens.len() {
        let (is_broken, mut indent) = levels[levels.len() - 1];
        if tokens[index].kind == Kind::Close {
            levels.pop();
            indent = levels[levels.len() - 1].1;
        }
        let token = &mut tokens[index];
        token.item_indent = indent;
        token.gap = match token.gap {
            Gap::Item { .. } if !is_broken => Gap::Blank,
            Gap::Item { is_apart: true } => Gap::EmptyLine,
            Gap::Item { is_apart: false } => Gap::Line,
            gap => gap,
        };
        let starts_line = token.gap.is_line();
        tokens[index].line_indent = match starts_line || index == 0 {
            true => line_indent(tokens, index),
            false => tokens[index - 1].line_indent,
        };
        let token = &tokens[index];
        column = match starts_line {
            true => token.line_indent,
            false => column + token.gap_width(),
        };
        column = token.last_width().unwrap_or(column + token.first_width());
        if let Kind::Open {
            is_broken: is_marked,
        } = token.kind
        {
            let (is_broken, indent) = levels[levels.len() - 1];
            let breaks = is_broken
                && !is_empty_block(tokens, index)
                && (is_marked || !fits(&tokens[index + 1..], column));
            tokens[index].kind = Kind::Open { is_broken: breaks };
            levels.push((breaks, indent + if breaks { INDENT } else { 0 }));
        }
    }
}

fn is_empty_block(tokens: &[Token<'_>], open: usize) -> bool {
    let inner = tokens.get(open + 1);
    inner.is_some_and(|token| token.kind == Kind::Close)
}

/// The indentation of a line that begins with a token: that of its item; in brackets, one level more
/// than the line of the bracket.
fn line_indent(tokens: &[Token<'_>], index: usize) -> usize {
    let token = &tokens[index];
    let opener = token.opener.map(|opener| &tokens[opener]);
    match opener {
        _ if token.begins_item => token.item_indent,
        Some(opener) if opener.kind == Kind::Plain && token.text == ")" => opener.line_indent,
        Some(opener) if opener.kind == Kind::Plain => opener.line_indent + INDENT,
        _ => token.item_indent + INDENT,
    }
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
        column += token.gap_width() + token.first_width();
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

/// Breaks lines that are too long. Returns the blocks on such a line that could be broken instead.
fn break_lines(tokens: &mut [Token<'_>]) -> Vec<usize> {
    let mut too_long = Vec::new();
    let mut start = 0;
    // The end of a token of several lines, after which the line continues.
    let mut continued = None;
    for index in 1..=tokens.len() {
        let last_width = tokens[index - 1].last_width();
        let is_end = index == tokens.len() || tokens[index].gap.is_line();
        if !is_end && last_width.is_none() {
            continue;
        }
        let (column, indent) = match continued {
            Some(column) => (
                column + tokens[start].gap_width(),
                tokens[start - 1].line_indent,
            ),
            None => {
                let indent = line_indent(tokens, start);
                (indent, indent)
            }
        };
        break_line(tokens, start..index, column, indent, &mut too_long);
        start = index;
        continued = last_width.filter(|_| !is_end);
    }
    too_long
}

/// Breaks a line at its best places if it is too long, and then the lines that this gives. Its first
/// token is at `column`.
fn break_line(
    tokens: &mut [Token<'_>],
    line: Range<usize>,
    column: usize,
    indent: usize,
    too_long: &mut Vec<usize>,
) {
    let is_too_long = end_of(&tokens[line.clone()], column) > LINE_WIDTH_MAX;
    let block = line.clone().find(|index| {
        tokens[*index].kind == Kind::Open { is_broken: false } && !is_empty_block(tokens, *index)
    });
    let block = block.filter(|_| is_too_long);
    let places = best_places(tokens, line.clone()).filter(|_| is_too_long);
    let Some(mut ends) = places.filter(|_| block.is_none()) else {
        for token in &mut tokens[line] {
            token.line_indent = indent;
        }
        too_long.extend(block);
        return;
    };
    ends.push(line.end);
    let (mut start, mut column, mut indent) = (line.start, column, indent);
    for pair in ends.windows(2) {
        // The next part stays in this line if it fits.
        if end_of(&tokens[start..pair[1]], column) > LINE_WIDTH_MAX {
            break_line(tokens, start..pair[0], column, indent, too_long);
            tokens[pair[0]].gap = Gap::Line;
            start = pair[0];
            indent = line_indent(tokens, start);
            column = indent;
        }
    }
    break_line(tokens, start..line.end, column, indent, too_long);
}

/// The places of the best rank where a line may be broken; `None` if there are none.
fn best_places(tokens: &[Token<'_>], line: Range<usize>) -> Option<Vec<usize>> {
    let least = tokens[line.clone()].iter().map(|token| token.depth).min()?;
    let rank = |index: &usize| -> Option<(usize, Break)> {
        let token = &tokens[*index];
        let depth = (token.depth - least).min(RANKED_DEPTH_MAX);
        Some((depth, token.may_break?))
    };
    let places = line.start + 1..line.end;
    let places = places.filter(|index| tokens[*index].gap == Gap::Blank);
    let best = places.clone().filter_map(|index| rank(&index)).min()?;
    Some(places.filter(|index| rank(index) == Some(best)).collect())
}

/// The column at the end of a line whose first token is at `column`, without a comment at its end.
fn end_of(line: &[Token<'_>], column: usize) -> usize {
    let mut end = column;
    for (index, token) in line.iter().enumerate() {
        if token.kind != Kind::LineComment {
            let gap = if index == 0 { 0 } else { token.gap_width() };
            end += gap + token.first_width();
        }
    }
    end
}

fn write(tokens: &[Token<'_>]) -> String {
    let mut text = String::new();
    for (index, token) in tokens.iter().enumerate() {
        let follows_open = index > 0 && matches!(tokens[index - 1].kind, Kind::Open { .. });
        match token.gap {
            _ if index == 0 => {}
            Gap::None => {}
            Gap::Blank | Gap::Item { .. } => text.push(' '),
            Gap::Line | Gap::EmptyLine => {
                let is_apart = token.gap == Gap::EmptyLine;
                let is_inner = !follows_open && token.kind != Kind::Close;
                text.push_str(if is_apart && is_inner { "\n\n" } else { "\n" });
                text.extend(std::iter::repeat_n(' ', token.line_indent));
            }
        }
        text.push_str(token.text);
    }
    text.push('\n');
    text
}
