//! `${NAME}` and `${NAME:default}` in the raw text of a configuration, before it is TOML.
//!
//! Any value can therefore be an expression, numbers and lists too. The context of the expression
//! decides how its value is inserted, so that the text remains valid TOML: inside `"…"`, quotes,
//! backslashes and control characters are escaped; in other places the value is inserted unchanged
//! and must fit on the line. No line is ever added, so line numbers in errors are those of the
//! file. Comments are not expanded.

use std::borrow::Cow;
use std::fmt::Write as _;

/// An expression that could not be replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExpandError {
    /// Line of the expression, counted from 1.
    pub(super) line: usize,
    /// The problem and a hint.
    pub(super) message: String,
}

/// The context of the scanner in a TOML text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TomlContext {
    Plain,
    Comment,
    Basic,
    BasicLines,
    Literal,
    LiteralLines,
}

/// Replaces all expressions by the values of `variable`, or by their defaults.
pub(super) fn expand<'a>(
    text: &'a str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Cow<'a, str>, ExpandError> {
    if !text.contains("${") {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut context = TomlContext::Plain;
    let mut line = 1;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if context != TomlContext::Comment && rest.starts_with("${") {
            let error = |message| ExpandError { line, message };
            let expression = parse(rest).map_err(error)?;
            match (variable(expression.name), expression.default) {
                (Some(value), _) => {
                    insert(&mut out, context, &value).map_err(|problem| {
                        error(format!("variable {} {problem}", expression.name))
                    })?;
                }
                (None, Some(default)) => out.push_str(default),
                (None, None) => {
                    let name = expression.name;
                    return Err(error(format!(
                        "variable {name} is not set; set it or write ${{{name}:default}}"
                    )));
                }
            }
            rest = &rest[expression.size..];
            continue;
        }
        let (size, next) = step(context, rest, first);
        line += usize::from(first == '\n');
        out.push_str(&rest[..size]);
        rest = &rest[size..];
        context = next;
    }
    Ok(Cow::Owned(out))
}

/// The size of the next token in bytes, and the context after it.
fn step(context: TomlContext, rest: &str, first: char) -> (usize, TomlContext) {
    let token =
        |mark: &str, next: TomlContext| rest.starts_with(mark).then_some((mark.len(), next));
    let found = match context {
        TomlContext::Plain => token("\"\"\"", TomlContext::BasicLines)
            .or_else(|| token("'''", TomlContext::LiteralLines))
            .or_else(|| token("\"", TomlContext::Basic))
            .or_else(|| token("'", TomlContext::Literal))
            .or_else(|| token("#", TomlContext::Comment)),
        TomlContext::Comment => token("\n", TomlContext::Plain),
        // A single-line string ends at the end of the line, so that broken TOML does not hide the
        // rest of the file.
        TomlContext::Basic => token("\\\\", context)
            .or_else(|| token("\\\"", context))
            .or_else(|| token("\"", TomlContext::Plain))
            .or_else(|| token("\n", TomlContext::Plain)),
        TomlContext::Literal => {
            token("'", TomlContext::Plain).or_else(|| token("\n", TomlContext::Plain))
        }
        TomlContext::BasicLines => token("\\\\", context)
            .or_else(|| token("\\\"", context))
            .or_else(|| token("\"\"\"", TomlContext::Plain)),
        TomlContext::LiteralLines => token("'''", TomlContext::Plain),
    };
    found.unwrap_or((first.len_utf8(), context))
}

struct Expression<'a> {
    name: &'a str,
    default: Option<&'a str>,
    size: usize,
}

/// Reads the expression that `text` begins with.
fn parse(text: &str) -> Result<Expression<'_>, String> {
    let line = text.lines().next().unwrap_or(text);
    let end = line.find('}').ok_or(
        "${ has no closing } on its line; write \\u0024{ in a string to mean the characters",
    )?;
    let inside = &line[2..end];
    let (name, default) = match inside.split_once(':') {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let mut bytes = name.bytes();
    let named = bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !named {
        return Err(format!(
            "${{{name}}} is not a variable: a name is letters, digits and _; write \\u0024{{ in a \
             string to mean the characters"
        ));
    }
    if default.is_some_and(|default| default.contains("${")) {
        return Err(format!(
            "the default of {name} contains ${{, and defaults cannot be nested"
        ));
    }
    Ok(Expression {
        name,
        default,
        size: end + 1,
    })
}

/// Inserts the value of a variable, or returns why it is not valid in this context.
fn insert(out: &mut String, context: TomlContext, value: &str) -> Result<(), &'static str> {
    match context {
        TomlContext::Basic | TomlContext::BasicLines => {
            for c in value.chars() {
                match c {
                    '"' | '\\' => out.extend(['\\', c]),
                    c if c.is_control() => {
                        write!(out, "\\u{:04X}", u32::from(c)).expect("a string takes any text");
                    }
                    c => out.push(c),
                }
            }
            return Ok(());
        }
        TomlContext::Literal | TomlContext::LiteralLines if value.contains('\'') => {
            return Err("holds a ', which a '…' string cannot; write \"…\"");
        }
        _ if value.contains(['\n', '\r']) => {
            return Err("contains a line break; write the expression in a \"…\" string");
        }
        _ => out.push_str(value),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Option<String> {
        let value = match name {
            "HOST" => "db.example",
            "PORT" => "5432",
            "EMPTY" => "",
            "QUOTES" => "a\"b\\c\nd",
            "TICK" => "a'b",
            "LINES" => "a\nb",
            _ => return None,
        };
        Some(value.into())
    }

    fn check(text: &str, expected: &str) {
        let seen = expand(text, &variable).map(Cow::into_owned);
        let seen = seen.unwrap_or_else(|error| format!("{}: {}", error.line, error.message));
        assert_eq!(seen, expected, "{text}");
    }

    #[test]
    fn values_and_defaults() {
        check("a = 1", "a = 1");
        check("a = \"${HOST}:${PORT}\"", "a = \"db.example:5432\"");
        check("a = ${PORT}", "a = 5432");
        check("a = ${NONE:7}", "a = 7");
        check("a = \"${NONE:}\"", "a = \"\"");
        check("a = \"${NONE:x:y}\"", "a = \"x:y\"");
        check("a = \"${EMPTY:x}\"", "a = \"\"");
        check("a = '$ {x} $x'", "a = '$ {x} $x'");
        check(
            "a = \"\\u0024{NONE}\" ${PORT}",
            "a = \"\\u0024{NONE}\" 5432",
        );
    }

    #[test]
    fn values_stay_inside_their_strings() {
        check("a = \"${QUOTES}\"", "a = \"a\\\"b\\\\c\\u000Ad\"");
        check(
            "a = \"\"\"\n${QUOTES}\"\"\"",
            "a = \"\"\"\na\\\"b\\\\c\\u000Ad\"\"\"",
        );
        check("a = '${HOST}'", "a = 'db.example'");
        check(
            "\na = '${TICK}'",
            "2: variable TICK holds a ', which a '…' string cannot; write \"…\"",
        );
        check(
            "\n\na = ${LINES}",
            "3: variable LINES contains a line break; write the expression in a \"…\" string",
        );
    }

    #[test]
    fn comments_are_left_alone() {
        check("# ${NONE}\na = ${PORT} # ${", "# ${NONE}\na = 5432 # ${");
        check("a = \"#${PORT}\"", "a = \"#5432\"");
        check("a = '\\' # ${NONE}", "a = '\\' # ${NONE}");
        check("a = \"\\\"#${PORT}\"", "a = \"\\\"#5432\"");
        check("a = \"\\\\\" # ${NONE}", "a = \"\\\\\" # ${NONE}");
        check(
            "a = '''\n'#${PORT}''' # ${NONE}",
            "a = '''\n'#5432''' # ${NONE}",
        );
        check(
            "a = \"\"\"\n\"#${PORT}\"\"\" # ${NONE}",
            "a = \"\"\"\n\"#5432\"\"\" # ${NONE}",
        );
    }

    #[test]
    fn what_cannot_be_replaced() {
        check(
            "\n\na = ${NONE}",
            "3: variable NONE is not set; set it or write ${NONE:default}",
        );
        check(
            "a = \"${a-b}\"",
            "1: ${a-b} is not a variable: a name is letters, digits and _; write \\u0024{ in a string \
             to mean the characters",
        );
        check(
            "a = \"${X\"",
            "1: ${ has no closing } on its line; write \\u0024{ in a string to mean the characters",
        );
        check(
            "a = ${X:${Y}}",
            "1: the default of X contains ${, and defaults cannot be nested",
        );
    }
}
