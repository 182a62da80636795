//! The tokens of a SQL text, as far as names, parameters and parentheses need it.
//!
//! The dialects differ in where strings, names and comments end; scanning with the wrong dialect
//! finds parameters within strings, or misses those after them.

/// The SQL dialect of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
    /// The dialect of MySQL and MariaDB, in their default `sql_mode`.
    Mysql,
}

/// A piece of a SQL text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// A bare name, keyword or number.
    Word(&'a str),
    /// A name in the dialect's quotes, including the quotes.
    Quoted(&'a str),
    /// `:name`, without the colon.
    Param(&'a str),
    /// A parameter that is not written `:name`: `?`, `?1`, `@x`, `$x`, `:1`, if it is one in the
    /// dialect.
    OtherParam(&'a str),
    /// A semicolon.
    End,
    /// The dot between a qualifier and a name.
    Dot,
    Comma,
    /// An opening parenthesis.
    Open,
    /// A closing parenthesis.
    Close,
    /// A string, a cast, or one character.
    Other,
}

/// Reads a SQL text token by token. Any text is read to its end; errors in it are left to the
/// database.
pub(crate) struct Scanner<'a> {
    sql: &'a str,
    dialect: Dialect,
    at: usize,
    /// Where the last token began.
    start: usize,
    /// The number of open `[` in PostgreSQL, where a colon may separate two bounds.
    bracket_count: usize,
    before: Before,
}

/// The token before a colon in PostgreSQL, where a colon may separate two bounds or a key and a
/// value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A token that does not end an operand, or a word followed by a space, which may be a keyword.
    Other,
    /// A word or number.
    Word,
    /// A token that ends an operand and is not a word.
    Operand,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(sql: &'a str, dialect: Dialect) -> Self {
        Self {
            sql,
            dialect,
            at: 0,
            start: 0,
            bracket_count: 0,
            before: Before::Other,
        }
    }

    /// Where the last token began.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Where the last token ended.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next token, after white space and comments.
    pub(crate) fn next_token(&mut self) -> Option<Token<'a>> {
        let end = self.at;
        self.skip_blank();
        self.start = self.at;
        if self.before == Before::Word && self.start > end {
            self.before = Before::Other;
        }
        let token = match self.dialect {
            Dialect::Sqlite => self.sqlite_token(),
            Dialect::Postgres => self.postgres_token(),
            Dialect::Mysql => self.mysql_token(),
        };
        let token = match token {
            Some(token) => token,
            None => self.common_token()?,
        };
        self.before = match token {
            Token::Word(_) => Before::Word,
            Token::Quoted(_) | Token::Param(_) | Token::OtherParam(_) | Token::Close => {
                Before::Operand
            }
            Token::Other if matches!(self.sql.as_bytes()[self.at - 1], b']' | b'\'') => {
                Before::Operand
            }
            _ => Before::Other,
        };
        Some(token)
    }

    /// Tokens that are specific to SQLite.
    fn sqlite_token(&mut self) -> Option<Token<'a>> {
        Some(match *self.rest() {
            [quote @ (b'"' | b'`'), ..] => self.name_past(quote),
            [b'[', ..] => {
                self.skip_past(1, "]");
                Token::Quoted(&self.sql[self.start..self.at])
            }
            [b'?' | b'@' | b'$' | b'#', ..] => Token::OtherParam(self.word(1)),
            [b':', first, ..] if first.is_ascii_digit() || first == b'$' => {
                Token::OtherParam(self.word(1))
            }
            _ => return None,
        })
    }

    /// Tokens that are specific to PostgreSQL.
    fn postgres_token(&mut self) -> Option<Token<'a>> {
        Some(match *self.rest() {
            [b'"', ..] => self.name_past(b'"'),
            [b'e' | b'E', b'\'', ..] => {
                self.at += 1;
                self.string_past(b'\'', Backslash::Escapes)
            }
            [b'$', first, ..] if first.is_ascii_digit() => Token::OtherParam(self.word(1)),
            [b'$', ..] => {
                self.skip_dollar_quoted();
                Token::Other
            }
            [b'[', ..] => {
                self.bracket_count += 1;
                self.one_byte(Token::Other)
            }
            [b']', ..] => {
                self.bracket_count = self.bracket_count.saturating_sub(1);
                self.one_byte(Token::Other)
            }
            // `a[i:j]` and `json_object('k': v)`, but `a[:i]` and `select:i` have a parameter.
            [b':', next, ..] if !matches!(next, b':' | b'=') && self.is_parted() => {
                self.one_byte(Token::Other)
            }
            _ => return None,
        })
    }

    /// Tokens that are specific to MySQL.
    fn mysql_token(&mut self) -> Option<Token<'a>> {
        Some(match *self.rest() {
            [b'`', ..] => self.name_past(b'`'),
            [quote @ (b'\'' | b'"'), ..] => self.string_past(quote, Backslash::Escapes),
            [b'?', ..] => self.one_byte(Token::OtherParam("?")),
            // Variables, which are not parameters of the query.
            [b'@', ..] => {
                self.word(1);
                Token::Other
            }
            _ => return None,
        })
    }

    /// Whether a colon here separates two operands.
    fn is_parted(&self) -> bool {
        match self.before {
            Before::Other => false,
            Before::Word => self.bracket_count > 0,
            Before::Operand => true,
        }
    }

    fn common_token(&mut self) -> Option<Token<'a>> {
        Some(match *self.rest() {
            [] => return None,
            [b'\'', ..] => self.string_past(b'\'', Backslash::IsItself),
            [b';', ..] => self.one_byte(Token::End),
            [b'.', ..] => self.one_byte(Token::Dot),
            [b',', ..] => self.one_byte(Token::Comma),
            [b'(', ..] => self.one_byte(Token::Open),
            [b')', ..] => self.one_byte(Token::Close),
            [b':', b':' | b'=', ..] => {
                self.at += 2;
                Token::Other
            }
            [b':', first, ..] if is_word(first) && !first.is_ascii_digit() && first != b'$' => {
                Token::Param(&self.word(1)[1..])
            }
            [first, ..] if is_word(first) => Token::Word(self.word(0)),
            _ => self.one_byte(Token::Other),
        })
    }

    fn rest(&self) -> &'a [u8] {
        &self.sql.as_bytes()[self.at..]
    }

    fn one_byte(&mut self, token: Token<'a>) -> Token<'a> {
        self.at += 1;
        token
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) {
        loop {
            match *self.rest() {
                [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, ..] => self.at += 1,
                [b'-', b'-', ..] if self.begins_dash_comment() => self.skip_line(),
                [b'#', ..] if self.dialect == Dialect::Mysql => self.skip_line(),
                // The content is executed, so it is not a comment.
                [b'/', b'*', b'!', ..] if self.dialect == Dialect::Mysql => {
                    self.at += 3;
                    let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit());
                    self.at += digits.count();
                }
                [b'/', b'*', b'M', b'!', ..] if self.dialect == Dialect::Mysql => {
                    self.at += 4;
                    let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit());
                    self.at += digits.count();
                }
                [b'*', b'/', ..] if self.dialect == Dialect::Mysql => self.at += 2,
                [b'/', b'*', ..] if self.dialect == Dialect::Postgres => self.skip_nested_comment(),
                [b'/', b'*', ..] => self.skip_past(2, "*/"),
                _ => return,
            }
        }
    }

    /// MySQL reads `5--1` as arithmetic.
    fn begins_dash_comment(&self) -> bool {
        let third = self.rest().get(2);
        self.dialect != Dialect::Mysql || third.is_none_or(|byte| *byte <= b' ')
    }

    fn skip_line(&mut self) {
        let ends =
            |byte: &u8| *byte == b'\n' || *byte == b'\r' && self.dialect == Dialect::Postgres;
        let size = self.rest().iter().position(ends);
        self.at = size.map_or(self.sql.len(), |size| self.at + size);
    }

    fn skip_nested_comment(&mut self) {
        let mut depth = 0;
        loop {
            match *self.rest() {
                [] => return,
                [b'/', b'*', ..] => {
                    depth += 1;
                    self.at += 2;
                }
                [b'*', b'/', ..] => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return;
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    /// `$tag$ … $tag$`, or the dollar alone.
    fn skip_dollar_quoted(&mut self) {
        let rest = &self.sql[self.at..];
        let is_tag = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | 0x80..);
        let size = 1 + rest.as_bytes()[1..]
            .iter()
            .take_while(|byte| is_tag(byte))
            .count();
        if rest.as_bytes().get(size) != Some(&b'$') {
            self.at += 1;
            return;
        }
        let tag = &rest[..=size];
        self.skip_past(tag.len(), tag);
    }

    fn name_past(&mut self, quote: u8) -> Token<'a> {
        self.string_past(quote, Backslash::IsItself);
        Token::Quoted(&self.sql[self.start..self.at])
    }

    /// Skips a string that begins here; a doubled quote is a quote in the string.
    fn string_past(&mut self, quote: u8, backslash: Backslash) -> Token<'a> {
        self.at += 1;
        loop {
            match *self.rest() {
                [] => break,
                // A backslash may precede a character of several bytes, none of which is a quote.
                [b'\\', _, ..] if backslash == Backslash::Escapes => self.at += 2,
                [first, second, ..] if first == quote && second == quote => self.at += 2,
                [first, ..] => {
                    self.at += 1;
                    if first == quote {
                        break;
                    }
                }
            }
        }
        Token::Other
    }

    /// Skips past the first `end` after the opening, or to the end of the text if there is none;
    /// SQLite then refuses the text or, for a comment, accepts it.
    fn skip_past(&mut self, opening_size: usize, end: &str) {
        let from = self.at + opening_size;
        self.at = match self.sql[from..].find(end) {
            Some(found) => from + found + end.len(),
            None => self.sql.len(),
        };
    }

    /// The word that begins `skip` bytes later, including the skipped bytes.
    fn word(&mut self, skip: usize) -> &'a str {
        let from = self.at;
        let rest = &self.sql.as_bytes()[from + skip..];
        let size = rest.iter().take_while(|&&byte| is_word(byte)).count();
        self.at = from + skip + size;
        &self.sql[from..self.at]
    }
}

/// The meaning of a backslash in a string.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backslash {
    IsItself,
    /// It escapes the next character.
    Escapes,
}

/// Whether all dialects accept a byte as part of a name; every byte beyond ASCII counts.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

/// The name without its quotes.
pub(crate) fn unquoted(quoted: &str) -> String {
    let Some(first) = quoted.chars().next() else {
        return String::new();
    };
    let last = if first == '[' { ']' } else { first };
    let inner = &quoted[1..];
    let inner = inner.strip_suffix(last).unwrap_or(inner);
    match first {
        '[' => inner.to_owned(),
        quote => inner.replace(&format!("{quote}{quote}"), &quote.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::Dialect::{Mysql, Postgres, Sqlite};
    use super::*;

    /// The parameters, both forms.
    fn params(sql: &str, dialect: Dialect) -> Vec<&str> {
        let mut scanner = Scanner::new(sql, dialect);
        let tokens = std::iter::from_fn(|| scanner.next_token());
        tokens
            .filter_map(|token| match token {
                Token::Param(name) | Token::OtherParam(name) => Some(name),
                _ => None,
            })
            .collect()
    }

    fn check(dialect: Dialect, sql: &str, expected: &[&str]) {
        assert_eq!(params(sql, dialect), expected, "{dialect:?}: {sql}");
    }

    #[test]
    fn postgres_strings_and_comments_hold_no_parameters() {
        let check = |sql, expected| check(Postgres, sql, expected);
        check("select ':no', 'it''s :no', :a", &["a"]);
        check(r"select 'a\', :a", &["a"]);
        check(r"select E'a\' :no', :a", &["a"]);
        check(r"select e'a\\', :a", &["a"]);
        check(r"select U&'\0041\', :a, B'01', X'1f'", &["a"]);
        check("select \"a:no\", \"b\"\":no\", :a", &["a"]);
        check("select $$:no$$, $t$:no $$ :no$t$, :a", &["a"]);
        check("select $é$:no$é$, a$b$c, :a", &["a"]);
        check("select /* :no /* :no */ :no */ :a", &["a"]);
        check("select -- :no\r :a, --:no\n :b", &["a", "b"]);
        check("select :a::text, :b :: int, x::y", &["a", "b"]);
        check("select f(a := :a, b => :b)", &["a", "b"]);
        check(
            "select a[1:2], a[i:j], a[:p], a[1: :q], a[f(x):j]",
            &["p", "q"],
        );
        check("select a[b[1]:c], '{1}'::int[], :x", &["x"]);
        check(
            "select a[case when b then :p end], a[(i):j], a[\"i\":j], a[:p:j]",
            &["p", "p"],
        );
        check(
            "select json_object('k':v, 'l' : :x, \"m\":n), json_object('a'::text: :y)",
            &["x", "y"],
        );
        check("select:a,b from t where c in:d limit:e", &["a", "d", "e"]);
        check("select a ? 'b', a @> b, a #>> '{x}', a ?| c, :x", &["x"]);
        check("select 'héé :no', :é, 'ü'", &["é"]);
        check("select $1, :a", &["$1", "a"]);
        check("select 'unended :no", &[]);
        check("select $x$ unended :no", &[]);
        check("select /* /* */ :no", &[]);
    }

    #[test]
    fn mysql_strings_and_comments_hold_no_parameters() {
        let check = |sql, expected| check(Mysql, sql, expected);
        check(r#"select 'a\' :no', "b\" :no", "c"":no", :a"#, &["a"]);
        check(r"select 'é\é', '\\', :a", &["a"]);
        check("select `a:no``:no`, :a", &["a"]);
        check("select 1 # :no\n, :a -- :no\n, 5--:b", &["a", "b"]);
        check("select :a --", &["a"]);
        check(
            "select /* :no */ /*+ hint(:no) */ :a /*!80000 , :b */",
            &["a", "b"],
        );
        check("select @x := :a, @@version, @`y`", &["a"]);
        check("select ?, :a", &["?", "a"]);
        check("select a[:a]", &["a"]);
    }

    #[test]
    fn sqlite_keeps_its_own_forms() {
        let check = |sql, expected| check(Sqlite, sql, expected);
        check("select [:no], `:no`, \":no\"\":no\", ':no', :a", &["a"]);
        check(r"select 'a\', :a", &["a"]);
        check(
            "select ?1, @x, $y, :1, a#b",
            &["?1", "@x", "$y", ":1", "#b"],
        );
        check("select /* /* */ :a", &["a"]);
    }

    #[test]
    fn quoted_names_are_read() {
        for (quoted, expected) in [
            ("\"a\"", "a"),
            ("\"a\"\"b\"", "a\"b"),
            ("`a``b`", "a`b"),
            ("[a]", "a"),
            ("\"open", "open"),
            ("\"", ""),
            ("\"é\"", "é"),
        ] {
            assert_eq!(unquoted(quoted), expected);
        }
    }
}
