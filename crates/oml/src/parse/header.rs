//! `name`, `rule`, `enable`, `fresh` and `on_lookup_failure`, up to the `---`.

use lookaside_value::Text;

use super::lookup_settings::{FRESH, LookupSettings, ON_LOOKUP_FAILURE};
use super::{Parsed, Parser};
use crate::Wildcard;
use crate::ast::{Span, Statement};
use crate::diagnostic::Diagnostic;
use crate::lexer::Cursor;

pub(super) struct Header {
    pub(super) name: Text,
    pub(super) name_span: Span,
    pub(super) rules: Vec<Wildcard>,
    pub(super) enabled: bool,
    /// Of all lookups.
    pub(super) lookups: LookupSettings,
}

impl Default for Header {
    fn default() -> Self {
        Self {
            name: Text::EMPTY,
            name_span: Span::default(),
            rules: Vec::new(),
            enabled: true,
            lookups: LookupSettings::default(),
        }
    }
}

/// All header words.
const WORDS: [&str; 5] = ["name", "rule", "enable", FRESH, ON_LOOKUP_FAILURE];

/// What files of some editors begin with; it is ignored.
pub(crate) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The line that separates the header from the statements, and ends the model.
pub(crate) const LINE: &str = "---";

impl Parser<'_> {
    /// A whole model.
    pub(super) fn model(&mut self) -> (Header, Vec<Statement>) {
        self.cursor.eat_here(BYTE_ORDER_MARK);
        let mut header = Header::default();
        if let Err(fault) = self.header(&mut header) {
            self.report(fault);
            // Without the line, the beginning of the statements is unknown.
            if !self.skip_to_statements() {
                return (header, Vec::new());
            }
        }
        let statements = self.statements();
        (header, statements)
    }

    fn header(&mut self, header: &mut Header) -> Parsed<()> {
        if self.cursor.peek_word() != "name" {
            return Err(self
                .unexpected("`name :` at the beginning")
                .help("a model begins with `name : <name>`, then `---`, then its statements"));
        }
        let mut named = false;
        while !self.line() {
            let (word, span) =
                self.word("`rule`, `enable`, `fresh`, `on_lookup_failure` or `---`")?;
            self.expect(":", &format!("after `{word}`"))?;
            match word {
                "name" if named => {
                    return Err(Diagnostic::error(span, "a model has one name"));
                }
                "name" => {
                    named = true;
                    self.cursor.skip_blanks();
                    let start = self.cursor.at();
                    header.name = Text::from(model_name(&mut self.cursor));
                    header.name_span = self.cursor.span_from(start);
                    if header.name.is_empty() {
                        return Err(self.unexpected("the model's name"));
                    }
                    // Models are served at URL paths, in which such segments refer to folders.
                    if header
                        .name
                        .split('/')
                        .any(|part| matches!(part, "." | ".."))
                    {
                        let message = "the name of a model cannot have a part `.` or `..`";
                        return Err(Diagnostic::error(header.name_span, message)
                            .help("clients remove such parts from a URL; choose another name"));
                    }
                }
                "rule" => self.rules(&mut header.rules)?,
                "enable" => header.enabled = self.enable()?,
                FRESH => self.fresh(&mut header.lookups)?,
                ON_LOOKUP_FAILURE => self.on_lookup_failure(&mut header.lookups)?,
                _ => {
                    return Err(Diagnostic::error(span, format!("unknown header `{word}`"))
                        .help(
                            "the header has `name`, `rule`, `enable`, `fresh` and `on_lookup_failure`",
                        )
                        .nearest(word, WORDS));
                }
            }
        }
        Ok(())
    }

    /// Three dashes or more.
    pub(super) fn line(&mut self) -> bool {
        let found = self.cursor.eat(LINE);
        if found {
            self.cursor.take_while(|c| c == '-');
        }
        found
    }

    fn enable(&mut self) -> Parsed<bool> {
        let (word, span) = self.word("`true` or `false`")?;
        match word {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(Diagnostic::error(
                span,
                format!("`{word}` is neither `true` nor `false`"),
            )),
        }
    }

    fn rules(&mut self, rules: &mut Vec<Wildcard>) -> Parsed<()> {
        let count = rules.len();
        let last_comment_end = self.cursor.text().rfind("*/").unwrap_or(0);
        while let Some(rule) = next_rule(&mut self.cursor, last_comment_end) {
            rules.push(Wildcard::new(rule));
        }
        if rules.len() == count {
            return Err(self.unexpected("a rule such as `/web/*`"));
        }
        Ok(())
    }
}

/// The next pattern of a rule list. A word before `:` is the next header.
///
/// `/*` opens patterns more often than comments here: it is a comment only where it begins a line,
/// no `/` comes next, and `*/` follows.
pub(crate) fn next_rule<'a>(cursor: &mut Cursor<'a>, last_comment_end: usize) -> Option<&'a str> {
    loop {
        cursor.skip_whitespace();
        let line_start = cursor.text()[..cursor.at()]
            .trim_end_matches([' ', '\t'])
            .ends_with('\n');
        let opens_comment = cursor.rest().starts_with("/*") && !cursor.rest().starts_with("/*/");
        let is_comment = cursor.rest().starts_with("//")
            || line_start && opens_comment && cursor.at() + 2 <= last_comment_end;
        if !is_comment {
            break;
        }
        cursor.skip_blanks();
    }
    let mut ahead = *cursor;
    let rule = path(&mut ahead, |c| is_name_char(c) || c == '*');
    if rule.is_empty() || WORDS.contains(&rule) && ahead.sees(":") {
        return None;
    }
    *cursor = ahead;
    Some(rule)
}

/// The name of a model, possibly empty.
pub(crate) fn model_name<'a>(cursor: &mut Cursor<'a>) -> &'a str {
    path(cursor, is_name_char)
}

/// The characters for which `matches` returns true, up to the line, which may follow without a
/// blank.
fn path<'a>(cursor: &mut Cursor<'a>, matches: impl FnMut(char) -> bool) -> &'a str {
    let start = cursor.at();
    let path = cursor.take_while(matches);
    let path = &path[..path.find(LINE).unwrap_or(path.len())];
    cursor.set_at(start + path.len());
    path
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '/' | '.' | '-')
}
