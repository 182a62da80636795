//! `kv`: words of the form `name=value` or `name="value"`.

use lookaside_value::{Batch, NameTable, Names, Record, Text, Value};
use memchr::{memchr, memchr2};

use super::Encoder;
use super::lines::{ParseLine, Reason};
use super::options::OptionReader;
use super::prefix::Prefixes;
use super::seen::Seen;
use crate::Error;

/// Parses pairs; a value in double quotes may contain separators, and `\"`, `\\`, `\n`, `\r`, `\t`.
pub(crate) struct KvLine {
    /// The separator of pairs; a blank means any run of blanks and tabs.
    pub(crate) pair_separator: u8,
    pub(crate) value_separator: u8,
    seen: Seen,
}

impl KvLine {
    pub(crate) fn new(pair_separator: u8, value_separator: u8) -> Self {
        Self {
            pair_separator,
            value_separator,
            seen: Seen::default(),
        }
    }

    /// The end of a plain value, or of a name without a value.
    fn pair_end(&self, text: &str) -> usize {
        let bytes = text.as_bytes();
        let end = if self.pair_separator == b' ' {
            memchr2(b' ', b'\t', bytes)
        } else {
            memchr(self.pair_separator, bytes)
        };
        end.unwrap_or(text.len())
    }

    /// The text without leading blanks and tabs; a tab that separates pairs is kept.
    fn skip_blanks<'a>(&self, text: &'a str) -> &'a str {
        let tab_parts = self.pair_separator == b'\t';
        text.trim_start_matches(|char| char == ' ' || (char == '\t' && !tab_parts))
    }

    /// The rest after the separator that follows a quoted value.
    fn after_quote<'a>(&self, after: &'a str) -> Result<&'a str, Reason> {
        let rest = self.skip_blanks(after);
        if rest.is_empty() {
            return Ok(rest);
        }
        if self.pair_separator == b' ' {
            return match rest.len() < after.len() {
                true => Ok(rest),
                false => {
                    Err(format!("missing blank after a quoted value: `{}`", excerpt(rest)).into())
                }
            };
        }
        let separator = self.pair_separator as char;
        match rest.strip_prefix(separator) {
            Some(rest) => Ok(self.skip_blanks(rest)),
            None => Err(format!("missing `{separator}` after a quoted value").into()),
        }
    }
}

impl ParseLine for KvLine {
    fn parse(&mut self, line: &str, names: &mut Names, record: &mut Record) -> Result<(), Reason> {
        self.seen.begin();
        let mut rest = self.skip_blanks(line);
        while !rest.is_empty() {
            let pair_end = self.pair_end(rest);
            let Some(name_end) = memchr(self.value_separator, &rest.as_bytes()[..pair_end]) else {
                let word = excerpt(&rest[..pair_end]);
                let separator = self.value_separator as char;
                return Err(format!("missing `{separator}` in `{word}`").into());
            };
            let name = rest[..name_end].trim_ascii();
            if name.is_empty() {
                return Err(format!("a value without a name: `{}`", excerpt(rest)).into());
            }
            let name = names.intern(name);
            let after = &rest[name_end + 1..];
            let after = match self.pair_separator {
                b' ' => after,
                _ => self.skip_blanks(after),
            };
            let value;
            (value, rest) = match after.strip_prefix('"') {
                Some(quoted) => {
                    let (value, after) = unquote(quoted)?;
                    (value, self.after_quote(after)?)
                }
                None => {
                    let end = self.pair_end(after);
                    let behind = after.get(end + 1..).unwrap_or_default();
                    (
                        after[..end].trim_ascii_end().into(),
                        self.skip_blanks(behind),
                    )
                }
            };
            self.seen.push(record, name, Value::Text(value));
        }
        Ok(())
    }
}

/// The text up to the closing quote, and the rest after it.
fn unquote(quoted: &str) -> Result<(Text, &str), Reason> {
    const NO_END: Reason = Reason::Borrowed("a quoted value has no closing quote");
    let plain = memchr2(b'"', b'\\', quoted.as_bytes()).ok_or(NO_END)?;
    if quoted.as_bytes()[plain] == b'"' {
        return Ok((quoted[..plain].into(), &quoted[plain + 1..]));
    }
    let mut text = String::from(&quoted[..plain]);
    let mut rest = &quoted[plain..];
    loop {
        let end = memchr2(b'"', b'\\', rest.as_bytes()).ok_or(NO_END)?;
        text.push_str(&rest[..end]);
        if rest.as_bytes()[end] == b'"' {
            return Ok((text.into(), &rest[end + 1..]));
        }
        let mut escaped = rest[end + 1..].chars();
        match escaped.next().ok_or(NO_END)? {
            'n' => text.push('\n'),
            'r' => text.push('\r'),
            't' => text.push('\t'),
            plain @ ('"' | '\\') => text.push(plain),
            other => {
                // Not an escape: for example in a Windows path.
                text.push('\\');
                text.push(other);
            }
        }
        rest = escaped.as_str();
    }
}

/// The beginning of a text, short enough for a message.
fn excerpt(text: &str) -> &str {
    const CHARS_MAX: usize = 32;
    let end = text.char_indices().nth(CHARS_MAX);
    end.map_or(text, |(end, _)| &text[..end])
}

/// Writes pairs; names and values that could not be parsed again are changed as little as needed.
pub(crate) struct KvEncoder {
    prefixes: Prefixes,
    pair_separator: u8,
    value_separator: u8,
    /// Whether numbers and addresses are quoted too, because they can contain the separator of
    /// pairs.
    quotes_all: bool,
    /// An object or array as JSON, before it is quoted.
    nested: String,
}

impl KvEncoder {
    pub(crate) fn new(names: &NameTable, pair_separator: u8, value_separator: u8) -> Self {
        let render = move |name: &str, out: &mut String| {
            out.push(pair_separator as char);
            out.extend(name.chars().map(|char| {
                let breaks = char <= ' '
                    || char == '"'
                    || char == pair_separator as char
                    || char == value_separator as char;
                if breaks { '_' } else { char }
            }));
            out.push(value_separator as char);
        };
        Self {
            prefixes: Prefixes::new(names.len(), render),
            pair_separator,
            value_separator,
            quotes_all: pair_separator.is_ascii_alphanumeric()
                || b".:/+-".contains(&pair_separator),
            nested: String::new(),
        }
    }

    fn write(&mut self, value: &Value, out: &mut String) {
        match value {
            Value::Text(text) => self.write_text(text, out),
            Value::Object(_) | Value::Array(_) => {
                let mut nested = std::mem::take(&mut self.nested);
                value.write_json(&mut nested);
                self.write_text(&nested, out);
                nested.clear();
                self.nested = nested;
            }
            // A time contains a blank between date and clock.
            Value::Time(_) => write_plain_quoted(value, out),
            Value::Null => {}
            _ => match value.as_str() {
                Some(text) => self.write_text(text, out),
                None if self.quotes_all => write_plain_quoted(value, out),
                None => value.write_raw(out),
            },
        }
    }

    fn write_text(&self, text: &str, out: &mut String) {
        // Without an early exit the loop is vectorised.
        let breaks = text.bytes().fold(text.is_empty(), |breaks, byte| {
            breaks
                | (byte <= b' ')
                | (byte == b'"')
                | (byte == self.pair_separator)
                | (byte == self.value_separator)
        });
        if breaks {
            write_quoted(text, out);
        } else {
            out.push_str(text);
        }
    }
}

/// A value whose text has nothing to escape.
fn write_plain_quoted(value: &Value, out: &mut String) {
    out.push('"');
    value.write_raw(out);
    out.push('"');
}

fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            _ => continue,
        };
        out.push_str(&text[copied..at]);
        out.push_str(escape);
        copied = at + 1;
    }
    out.push_str(&text[copied..]);
    out.push('"');
}

impl Encoder for KvEncoder {
    fn begin(&mut self, _: &Batch, _: Option<&Record>, _: &mut String) {
        self.prefixes.forget_own();
    }

    #[inline]
    fn encode_record(
        &mut self,
        record: &Record,
        names: &Names,
        out: &mut String,
    ) -> Result<(), String> {
        let start = out.len();
        for field in record.visible() {
            let prefix = self.prefixes.prefix(field.name, names);
            // The first pair has no separator before it.
            out.push_str(if out.len() == start {
                &prefix[1..]
            } else {
                prefix
            });
            self.write(&field.value, out);
        }
        out.push('\n');
        Ok(())
    }
}

/// The options of `kv` input and output: the separator of pairs, and the one between a name and its
/// value.
pub(crate) fn separators(options: OptionReader<'_>) -> Result<(u8, u8), Error> {
    let pair_separator = options.separator("pair_separator", b' ')?;
    let value_separator = options.separator("value_separator", b'=')?;
    if pair_separator == value_separator || value_separator == b' ' {
        let wanted = "a character other than `pair_separator` and the blank";
        let text = (value_separator as char).to_string();
        return Err(options.bad("value_separator", &text, wanted));
    }
    Ok((pair_separator, value_separator))
}
