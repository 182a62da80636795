//! Decides where lines are broken, and writes them.

use std::ops::Range;

use super::LINE_WIDTH_MAX;
use super::token::{Break, Gap, Kind, Token};

/// The indentation of one level, in blanks.
const INDENT: usize = 4;

/// Brackets nested deeper than this have the same rank as places for line breaks, so that their number
/// does not determine the time.
const RANKED_DEPTH_MAX: usize = 15;

/// How far lines in brackets are indented at most: SQL has no limit of their depth, and with it the
/// indentation of all lines would grow quadratically.
const BRACKET_INDENT_MAX: usize = 60;

/// A block whose items are on separate lines.
const BROKEN: Kind = Kind::Open { is_broken: true };

/// The formatted text of the tokens.
pub(super) fn text_of(mut tokens: Vec<Token<'_>>) -> String {
    loop {
        mark_broken_blocks(&mut tokens);
        let mut laid_out = tokens.clone();
        separate_items(&mut laid_out);
        // Blocks are broken from outside to inside, as the inner ones may fit then.
        let too_long = break_lines(&mut laid_out);
        if too_long.is_empty() {
            return write(&laid_out);
        }
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

/// Puts the items of broken blocks on separate lines, and determines the indentation of all items.
fn separate_items(tokens: &mut [Token<'_>]) {
    // Of the model and each open block, whether its items are on separate lines, and their indentation.
    let mut levels = vec![(true, 0)];
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
        if let Kind::Open { is_broken } = token.kind {
            let is_broken = is_broken && !is_empty_block(tokens, index);
            levels.push((is_broken, indent + if is_broken { INDENT } else { 0 }));
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
        Some(opener) if opener.kind == Kind::Plain && is_closing(token) => opener.line_indent,
        Some(opener) if opener.kind == Kind::Plain => {
            (opener.line_indent + INDENT).min(token.item_indent + BRACKET_INDENT_MAX)
        }
        _ => token.item_indent + INDENT,
    }
}

fn is_closing(token: &Token<'_>) -> bool {
    matches!(token.text, ")" | "]" | "}")
}

/// Breaks lines that are too long. Returns the blocks on such a line, which are to be broken first.
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
        let indent = match continued {
            Some(_) => tokens[start - 1].line_indent,
            None => line_indent(tokens, start),
        };
        let column = match continued {
            Some(column) => column + tokens[start].gap_width(),
            None => indent,
        };
        let blocks = blocks_to_break(tokens, start..index, column);
        if blocks.is_empty() {
            break_line(tokens, start..index, column, indent);
        }
        too_long.extend(blocks);
        start = index;
        continued = last_width.filter(|_| !is_end);
    }
    too_long
}

/// The blocks that have to be broken for a line to fit. The rest of the line is then behind the `}` of
/// such a block.
fn blocks_to_break(tokens: &[Token<'_>], mut line: Range<usize>, mut column: usize) -> Vec<usize> {
    let mut blocks = Vec::new();
    while !fits(&tokens[line.clone()], column) {
        let block = line.clone().find(|index| {
            tokens[*index].kind == Kind::Open { is_broken: false }
                && !is_empty_block(tokens, *index)
        });
        let Some(open) = block else {
            break;
        };
        blocks.push(open);
        let depth = tokens[open].depth;
        let close = (open + 1..line.end)
            .find(|index| tokens[*index].kind == Kind::Close && tokens[*index].depth == depth);
        line.start = close.unwrap_or(line.end);
        column = tokens[open].item_indent;
    }
    blocks
}

/// Breaks a line at its best places if it is too long, and then the lines that this gives. Its first
/// token is at `column`.
fn break_line(tokens: &mut [Token<'_>], line: Range<usize>, column: usize, indent: usize) {
    let places = match fits(&tokens[line.clone()], column) {
        true => None,
        false => best_places(tokens, line.clone()),
    };
    let Some(mut ends) = places else {
        for token in &mut tokens[line] {
            token.line_indent = indent;
        }
        return;
    };
    ends.push(line.end);
    let (mut start, mut column, mut indent) = (line.start, column, indent);
    for pair in ends.windows(2) {
        // The next part stays in this line if it fits.
        if !fits(&tokens[start..pair[1]], column) {
            break_line(tokens, start..pair[0], column, indent);
            tokens[pair[0]].gap = Gap::Line;
            start = pair[0];
            indent = line_indent(tokens, start);
            column = indent;
        }
    }
    break_line(tokens, start..line.end, column, indent);
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

/// Whether a line whose first token is at `column` is not too long; a comment at its end does not count.
fn fits(line: &[Token<'_>], column: usize) -> bool {
    let mut end = column;
    line.iter().enumerate().all(|(index, token)| {
        let gap = if index == 0 { 0 } else { token.gap_width() };
        end += gap + token.first_width();
        end <= LINE_WIDTH_MAX || token.kind == Kind::LineComment
    })
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
