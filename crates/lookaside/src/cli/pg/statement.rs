//! Where a statement of SQL ends: at a `;` that is not part of a string, a quoted name or a
//! comment.

/// Splits lines into complete statements.
#[derive(Debug, Default)]
pub(crate) struct StatementReader {
    text: String,
    /// Everything before this offset has been scanned.
    at: usize,
    inside: Inside,
}

/// The lexical context at the current position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Code,
    /// `'…'`; in `E'…'` a backslash escapes the next character.
    Text { escapes: bool },
    /// `"…"`.
    Name,
    /// `$tag$…$tag$`, with its tag.
    Dollar(String),
    /// `--` up to the end of the line.
    Line,
    /// `/* … */`, which nest.
    Block { depth: u32 },
}

impl StatementReader {
    /// Adds text, such as a line with its end.
    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The next complete statement, without its `;`.
    pub(crate) fn next(&mut self) -> Option<String> {
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            if self.inside == Inside::Code && rest.starts_with(';') {
                let statement = self.text[..self.at].trim().to_owned();
                self.text.drain(..=self.at);
                self.at = 0;
                if !statement.is_empty() {
                    return Some(statement);
                }
                continue;
            }
            let (size, inside) = step(&self.inside, &self.text[..self.at], rest);
            self.at += size;
            if let Some(inside) = inside {
                self.inside = inside;
            }
        }
        None
    }

    /// Whether a statement has begun: there is more than white space and comments.
    pub(crate) fn is_begun(&self) -> bool {
        has_code(&self.text)
    }

    /// Whether the current position is within a string, a quoted name or a comment, so that a line
    /// with a backslash is not a command.
    pub(crate) fn is_inside(&self) -> bool {
        self.inside != Inside::Code
    }

    /// The rest at the end of the input, as a statement without `;`.
    pub(crate) fn finish(&mut self) -> Option<String> {
        let rest = std::mem::take(self).text;
        has_code(&rest).then(|| rest.trim().to_owned())
    }
}

/// The size of the token at the beginning of `rest`, and the context after it if it changes.
fn step(inside: &Inside, before: &str, rest: &str) -> (usize, Option<Inside>) {
    let char = rest.chars().next().expect("there is text left");
    let one = char.len_utf8();
    match inside {
        Inside::Code => match char {
            '\'' => {
                // `E'…'`, but `date'…'` is a name and a string.
                let e = before.strip_suffix(['e', 'E']);
                let escapes = e.is_some_and(|before| !before.ends_with(is_name));
                (1, Some(Inside::Text { escapes }))
            }
            '"' => (1, Some(Inside::Name)),
            '-' if rest.starts_with("--") => (2, Some(Inside::Line)),
            '/' if rest.starts_with("/*") => (2, Some(Inside::Block { depth: 1 })),
            // In `a$1$b` the dollars are part of a name.
            '$' if !before.ends_with(is_name) => match dollar_tag(rest) {
                Some(tag) => (tag.len(), Some(Inside::Dollar(tag.to_owned()))),
                None => (1, None),
            },
            _ => (one, None),
        },
        Inside::Text { escapes: true } if char == '\\' => {
            let next = rest[1..].chars().next().map_or(0, char::len_utf8);
            (1 + next, None)
        }
        // A doubled quote could be treated as the end of one string and the begin of the next, but
        // then the second half would lose the `escapes` flag.
        Inside::Text { .. } if rest.starts_with("''") => (2, None),
        Inside::Text { .. } if char == '\'' => (1, Some(Inside::Code)),
        Inside::Name if char == '"' => (1, Some(Inside::Code)),
        Inside::Dollar(tag) if rest.starts_with(tag.as_str()) => (tag.len(), Some(Inside::Code)),
        Inside::Line if char == '\n' => (1, Some(Inside::Code)),
        Inside::Block { depth } if rest.starts_with("/*") => {
            (2, Some(Inside::Block { depth: depth + 1 }))
        }
        Inside::Block { depth: 1 } if rest.starts_with("*/") => (2, Some(Inside::Code)),
        Inside::Block { depth } if rest.starts_with("*/") => {
            (2, Some(Inside::Block { depth: depth - 1 }))
        }
        _ => (one, None),
    }
}

/// `$$` or `$tag$` at the beginning of `rest`; a tag is a name, so `$1` does not begin one.
fn dollar_tag(rest: &str) -> Option<&str> {
    let end = rest[1..].find(|char| !is_name(char))? + 1;
    let tag = &rest[1..end];
    let is_tag =
        rest[end..].starts_with('$') && !tag.starts_with(|char: char| char.is_ascii_digit());
    is_tag.then(|| &rest[..=end])
}

fn is_name(char: char) -> bool {
    char.is_alphanumeric() || char == '_' || !char.is_ascii()
}

fn has_code(text: &str) -> bool {
    let (mut inside, mut at) = (Inside::Code, 0);
    while at < text.len() {
        let rest = &text[at..];
        let (size, next) = step(&inside, &text[..at], rest);
        let after = next.as_ref().unwrap_or(&inside);
        let is_comment = matches!(after, Inside::Line | Inside::Block { .. })
            || matches!(inside, Inside::Line | Inside::Block { .. });
        if !is_comment && !rest.starts_with(char::is_whitespace) {
            return true;
        }
        at += size;
        inside = next.unwrap_or(inside);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the statements and the rest, with the input split at every position.
    fn check(sql: &str, statements: &[&str], left: Option<&str>) {
        let whole = [sql];
        let lines: Vec<_> = sql.split_inclusive('\n').collect();
        for pieces in [&whole[..], &lines] {
            let mut reader = StatementReader::default();
            let mut found = Vec::new();
            for piece in pieces {
                reader.push(piece);
                found.extend(std::iter::from_fn(|| reader.next()));
            }
            assert_eq!(found, statements, "{sql}");
            assert_eq!(reader.is_begun(), left.is_some(), "{sql}");
            assert_eq!(reader.finish().as_deref(), left, "{sql}");
        }
    }

    #[test]
    fn statements_end_at_a_semicolon_that_is_one() {
        check("select 1;", &["select 1"], None);
        check("select 1; select 2", &["select 1"], Some("select 2"));
        check(";; ;\n;", &[], None);
        check("select ';', 'it''s;';", &["select ';', 'it''s;'"], None);
        check("select \"a;b\";", &["select \"a;b\""], None);
        check(r"select E'\';'; x", &[r"select E'\';'"], Some("x"));
        check(r"select '\'; x", &[r"select '\'"], Some("x"));
        check(r"select e'a''\';';", &[r"select e'a''\';'"], None);
        check(r"select date'\'; x", &[r"select date'\'"], Some("x"));
        check("select 1 -- a;b\n;", &["select 1 -- a;b"], None);
        check(
            "select /* ; /* ; */ ; */ 1;",
            &["select /* ; /* ; */ ; */ 1"],
            None,
        );
        check("do $$ a; $b$; $$; x", &["do $$ a; $b$; $$"], Some("x"));
        check("do $b$ a; $$; $b$;", &["do $b$ a; $$; $b$"], None);
        check(
            "select $1; select a$b$c;",
            &["select $1", "select a$b$c"],
            None,
        );
        check("select 'é;' || ü; x", &["select 'é;' || ü"], Some("x"));
        check("select 'a\nb;\n';", &["select 'a\nb;\n'"], None);
    }

    #[test]
    fn comments_alone_are_no_statement() {
        check("-- nothing", &[], None);
        check("/* ; */ -- ;\n", &[], None);
        check("select 1; -- done\n", &["select 1"], None);
        check("/* a */ x", &[], Some("/* a */ x"));
        check("'", &[], Some("'"));
    }
}
