//! SQL: tokens keep their spelling, and blanks stay where they are in the original, with the line breaks
//! of its author.

use super::comments::line_breaks;
use super::reader::{Read, Reader};
use super::token::{Break, Gap, Kind};
use crate::lexer::{Cursor, is_word_char};
use crate::parse::sql::{Embedded, Escapes, dollar_tag, embedded, quoted_length};

/// The words that clauses begin with.
const CLAUSES: [&str; 14] = [
    "from",
    "where",
    "join",
    "group",
    "order",
    "having",
    "limit",
    "offset",
    "union",
    "intersect",
    "except",
    "window",
    "values",
    "returning",
];

/// The words that may be before `join`.
const JOIN_KINDS: [&str; 7] = [
    "left", "right", "full", "inner", "outer", "cross", "natural",
];

/// What is known about the SQL before a word.
#[derive(Default)]
struct Context {
    /// The last word, in lower case, if it is the last token.
    last_word: String,
    /// The depths of `between` whose `and` has not been read.
    betweens: Vec<usize>,
}

impl Reader<'_> {
    /// A statement up to its `;`.
    pub(super) fn sql(&mut self) -> Read<()> {
        self.skip_blanks();
        let mut context = Context::default();
        let mut is_first = true;
        while self.cursor.peek().is_some_and(|c| c != ';') {
            let blanks = self.cursor.take_while(char::is_whitespace);
            if self.cursor.peek() == Some(';') {
                break;
            }
            if !is_first {
                self.set_gap(match (blanks, line_breaks(blanks)) {
                    ("", _) => Gap::None,
                    (_, 0) => Gap::Blank,
                    (_, count) => Gap::of_lines(count),
                });
            }
            self.sql_token(&mut context)?;
            is_first = false;
        }
        self.set_gap(Gap::Blank);
        Ok(())
    }

    fn sql_token(&mut self, context: &mut Context) -> Read<()> {
        let rest = self.cursor.rest();
        let c = self.cursor.peek().ok_or(self.cursor.at())?;
        if rest.starts_with("--") || rest.starts_with("//") {
            let comment = self.cursor.take_while(|c| c != '\n');
            self.push(comment.trim_end(), Kind::LineComment);
            return Ok(());
        }
        if rest.starts_with("/*") && !rest.starts_with("/*+") && !rest.starts_with("/*!") {
            let length = rest.find("*/").ok_or(self.cursor.at())? + "*/".len();
            self.push_sql(length);
            return Ok(());
        }
        if is_word_char(c) || c == '@' {
            let follows_as = context.last_word == "as";
            if let Some(form) = embedded(self.cursor, follows_as) {
                context.last_word.clear();
                return match form {
                    Embedded::Access => self.access(),
                    Embedded::Now => self.now(),
                    Embedded::Literal => self.literal(),
                };
            }
        }
        if is_word_char(c) {
            return self.sql_word(context);
        }
        context.last_word.clear();
        let length = match c {
            '\'' | '"' | '`' => quoted_length(rest, c as u8, Escapes::Doubled),
            '$' => dollar_length(rest, self.cursor.before()),
            _ => Some(c.len_utf8()),
        };
        let length = length.ok_or(self.cursor.at())?;
        if self.follows_comma() {
            self.allow_break(Break::Comma);
        }
        if c == ')' {
            return self.close_bracket(|reader| {
                reader.push_sql(length);
                Ok(())
            });
        }
        self.push_sql(length);
        if c == '(' {
            self.open_bracket();
        }
        Ok(())
    }

    fn sql_word(&mut self, context: &mut Context) -> Read<()> {
        let mut ahead = self.cursor;
        let word = ahead.take_while(is_word_char).to_ascii_lowercase();
        if let Some(place) = self.sql_break(&word, ahead, context) {
            self.allow_break(place);
        } else if self.follows_comma() {
            self.allow_break(Break::Comma);
        }
        let mut length = word.len();
        if word == "e" && ahead.peek() == Some('\'') {
            let quoted = quoted_length(ahead.rest(), b'\'', Escapes::Backslash);
            length += quoted.ok_or(ahead.at())?;
        }
        self.push_sql(length);
        context.last_word = word;
        Ok(())
    }

    /// Whether a line may be broken before a word; `behind` is the position behind it.
    fn sql_break(
        &self,
        word: &str,
        mut behind: Cursor<'_>,
        context: &mut Context,
    ) -> Option<Break> {
        let last = context.last_word.as_str();
        let is_break = match word {
            "between" => {
                context.betweens.push(self.depth());
                return None;
            }
            "and" if context.betweens.last() == Some(&self.depth()) => {
                context.betweens.pop();
                return None;
            }
            "and" | "or" | "on" => return Some(Break::Operator),
            "join" => !JOIN_KINDS.contains(&last),
            "from" => last != "distinct",
            "group" | "order" => next_word(&mut behind) == "by",
            "select" => matches!(last, "union" | "all" | "intersect" | "except"),
            word if JOIN_KINDS.contains(&word) => {
                let mut following = next_word(&mut behind);
                if JOIN_KINDS.contains(&following.as_str()) {
                    following = next_word(&mut behind);
                }
                following == "join" && !JOIN_KINDS.contains(&last)
            }
            word => CLAUSES.contains(&word),
        };
        is_break.then_some(Break::Clause)
    }

    fn follows_comma(&self) -> bool {
        self.tokens.last().is_some_and(|it| it.text == ",")
    }

    fn push_sql(&mut self, length: usize) {
        let text = &self.cursor.rest()[..length];
        self.cursor.set_at(self.cursor.at() + length);
        self.push(text, Kind::Plain);
    }
}

/// The word after blanks, in lower case.
fn next_word(cursor: &mut Cursor<'_>) -> String {
    cursor.skip_whitespace();
    cursor.take_while(is_word_char).to_ascii_lowercase()
}

/// The length of a string in dollar quotes, or of `$` alone.
fn dollar_length(rest: &str, before: Option<char>) -> Option<usize> {
    let Some(tag) = dollar_tag(rest, before) else {
        return Some("$".len());
    };
    let inner = rest[tag.len()..].find(tag)?;
    Some(2 * tag.len() + inner)
}
