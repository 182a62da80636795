//! `read(…)`, `take(…)` and `@name`.

use lookaside_value::Text;

use super::{Parsed, Parser};
use crate::Wildcard;
use crate::ast::{Access, AccessMode, Expr, Span};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Cursor, METADATA, is_word_start, span};

/// The arguments of an access.
#[derive(Default)]
struct Arguments {
    key: Option<Text>,
    options: Vec<Text>,
    patterns: Vec<(Wildcard, Span)>,
}

/// The metadata of messages beside their headers.
const METADATA_NAMES: [&str; 6] = ["key", "topic", "partition", "offset", "timestamp", "output"];

/// The words that are followed by a colon and a list or a name.
const WORDS: [&str; 4] = ["get", "option", "keys", "in"];

/// Whether `read(`, `take(` or `@name` comes next.
pub(crate) fn variable_begins(mut ahead: Cursor<'_>) -> bool {
    ahead.skip_blanks();
    if ahead.eat_here("@") {
        return true;
    }
    matches!(ahead.word(), "read" | "take") && ahead.sees("(")
}

/// The position behind `{ _ :` if that comes next.
pub(crate) fn default_begins(mut ahead: Cursor<'_>) -> Option<Cursor<'_>> {
    (ahead.eat("{") && ahead.eat("_") && ahead.eat(":")).then_some(ahead)
}

impl Parser<'_> {
    pub(super) fn variable_begins(&self) -> bool {
        variable_begins(self.cursor)
    }

    /// An access to one field. Without a key, it gets the implied one.
    pub(super) fn variable(&mut self, implied: Option<&str>) -> Parsed<Access> {
        if !self.variable_begins() {
            return Err(self.unexpected("`read(…)`, `take(…)` or `@name`"));
        }
        if self.cursor.sees("@") {
            return self.at_access(implied);
        }
        let (access, patterns) = self.gathering_access(implied)?;
        match patterns.first() {
            None => Ok(access),
            Some((_, span)) => Err(Diagnostic::error(
                *span,
                "a list of patterns does not select a single field",
            )
            .help("write `collect` before it, or give alternatives as `option:[…]`")),
        }
    }

    fn at_access(&mut self, implied: Option<&str>) -> Parsed<Access> {
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        self.expect("@", "")?;
        if !self.cursor.peek().is_some_and(is_word_start) {
            return Err(self.unexpected("the name of a field after `@`"));
        }
        let key = match self.cursor.rest().starts_with(&METADATA[1..]) {
            true => {
                let name = format!("@{}", self.cursor.at_name());
                self.check_metadata(&name, start)?;
                Text::from(name)
            }
            false => Text::from(self.cursor.at_name()),
        };
        let default = self.optional_default(implied)?;
        Ok(Access {
            mode: AccessMode::Read,
            key,
            options: Vec::new(),
            default,
            span: self.cursor.span_from(start),
        })
    }

    /// `read(…)` or `take(…)`, which may have patterns; with patterns, it needs no key.
    pub(super) fn gathering_access(
        &mut self,
        implied: Option<&str>,
    ) -> Parsed<(Access, Vec<(Wildcard, Span)>)> {
        let (word, word_span) = self.word("`read` or `take`")?;
        let mode = match word {
            "read" => AccessMode::Read,
            _ => AccessMode::Take,
        };
        self.expect("(", &format!("after `{word}`"))?;
        let arguments = self.access_arguments(word)?;
        let start = word_span.start as usize;
        let key = match (arguments.key, implied) {
            (Some(key), _) => key,
            (None, Some(implied)) => Text::from(implied),
            (None, None) if !(arguments.patterns.is_empty() && arguments.options.is_empty()) => {
                Text::EMPTY
            }
            (None, None) => {
                let message = format!("there is no target that names the field of this `{word}()`");
                return Err(Diagnostic::error(self.cursor.span_from(start), message)
                    .help(format!("name the field: `{word}(x)`")));
            }
        };
        let default = self.optional_default(implied)?;
        let access = Access {
            mode,
            key,
            options: arguments.options,
            default,
            span: self.cursor.span_from(start),
        };
        Ok((access, arguments.patterns))
    }

    /// Everything up to and past the `)`. Commas may be left out, as in many models.
    fn access_arguments(&mut self, access: &str) -> Parsed<Arguments> {
        let mut arguments = Arguments::default();
        while !self.cursor.eat(")") {
            self.cursor.skip_blanks();
            let start = self.cursor.at();
            let name = self.field_name("the name of a field, or `)`")?;
            if self.cursor.eat(":") {
                self.named_argument(&name, self.cursor.span_from(start), &mut arguments)?;
            } else {
                let span = span(start, start + name.len());
                self.set_key(access, name, span, &mut arguments)?;
            }
            if !self.cursor.eat(",") && !self.access_argument_follows() {
                return Err(self.unexpected(&format!("`)` or another argument of `{access}`")));
            }
        }
        Ok(arguments)
    }

    fn access_argument_follows(&self) -> bool {
        let mut ahead = self.cursor;
        ahead.skip_blanks();
        let quoted = ahead.peek().is_some_and(|c| matches!(c, '\'' | '"' | ')'));
        quoted || !ahead.key().is_empty()
    }

    fn named_argument(&mut self, word: &str, span: Span, arguments: &mut Arguments) -> Parsed<()> {
        match word {
            "get" => {
                self.cursor.skip_blanks();
                let start = self.cursor.at();
                let key = self.field_name("the name of a field")?;
                self.set_key("get", key, self.cursor.span_from(start), arguments)?;
            }
            "option" => {
                let names = self.name_list()?;
                arguments
                    .options
                    .extend(names.into_iter().map(|(name, _)| name));
            }
            "keys" | "in" => {
                let patterns = self.name_list()?.into_iter();
                arguments
                    .patterns
                    .extend(patterns.map(|(name, span)| (Wildcard::new(name), span)));
            }
            _ => {
                return Err(
                    Diagnostic::error(span, format!("unknown argument `{word}`"))
                        .help("an access takes a name, `get:`, `option:[…]` and `keys:[…]`")
                        .nearest(word, WORDS),
                );
            }
        }
        Ok(())
    }

    fn set_key(
        &mut self,
        access: &str,
        key: Text,
        span: Span,
        arguments: &mut Arguments,
    ) -> Parsed<()> {
        if key.contains('*') {
            return Err(Diagnostic::error(span, "one field has no `*` in its name")
                .help("collect several fields with `collect read(keys:[…])`"));
        }
        if arguments.key.is_some() {
            return Err(
                Diagnostic::error(span, format!("a second name in `{access}`"))
                    .help("give alternatives as `option:[a, b]`"),
            );
        }
        arguments.key = Some(key);
        Ok(())
    }

    /// `[a, b]`
    fn name_list(&mut self) -> Parsed<Vec<(Text, Span)>> {
        self.expect("[", "before the list of names")?;
        let mut names = Vec::new();
        while !self.cursor.eat("]") {
            self.count_expressions(1)?;
            self.cursor.skip_blanks();
            let start = self.cursor.at();
            let name = self.field_name("the name of a field, or `]`")?;
            names.push((name, self.cursor.span_from(start)));
            if !self.cursor.eat(",") && !self.cursor.sees("]") {
                return Err(self.unexpected("`,` or `]` in the list of names"));
            }
        }
        if names.is_empty() {
            return Err(self.unexpected("a name in the list"));
        }
        Ok(names)
    }

    /// A name, in quotes if it has characters that are not allowed in names.
    fn field_name(&mut self, expected: &str) -> Parsed<Text> {
        self.cursor.skip_blanks();
        let start = self.cursor.at();
        let quote = self.cursor.peek().filter(|c| matches!(c, '\'' | '"'));
        let Some(quote) = quote else {
            return match self.cursor.key() {
                "" => Err(self.unexpected(expected)),
                name => {
                    self.check_metadata(name, start)?;
                    Ok(Text::from(name))
                }
            };
        };
        self.cursor.set_at(start + 1);
        let name = self.cursor.take_while(|c| c != quote && c != '\n');
        if !self.cursor.eat_here(quote.encode_utf8(&mut [0; 4])) || name.is_empty() {
            let message = "this quoted name is not terminated or empty";
            return Err(Diagnostic::error(span(start, start + 1), message));
        }
        Ok(Text::from(name))
    }

    /// Refuses a name that looks like metadata of messages and is not.
    pub(super) fn check_metadata(&self, name: &str, start: usize) -> Parsed<()> {
        let Some(rest) = name.strip_prefix(METADATA) else {
            return Ok(());
        };
        let header = rest.strip_prefix("headers/");
        if METADATA_NAMES.contains(&rest) || header.is_some_and(|header| !header.is_empty()) {
            return Ok(());
        }
        let message = format!("messages have no metadata `{name}`");
        let known = METADATA_NAMES.join("`, `@meta/");
        Err(
            Diagnostic::error(span(start, start + name.len()), message).help(format!(
                "there are `@meta/{known}` and `@meta/headers/NAME`"
            )),
        )
    }

    /// `{ _ : value }`, if there is one; braces without `_ :` belong to what follows.
    fn optional_default(&mut self, implied: Option<&str>) -> Parsed<Option<Box<Expr>>> {
        let Some(value) = default_begins(self.cursor) else {
            return Ok(None);
        };
        self.cursor = value;
        let default = self.expression(implied)?;
        self.cursor.eat(";");
        self.expect("}", "behind the default")?;
        Ok(Some(Box::new(default)))
    }
}
