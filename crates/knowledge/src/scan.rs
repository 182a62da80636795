//! Finds the parameters of a SQL text and refuses what is no single query.
//!
//! This is a scanner, not a parser: it knows where quotes, comments, identifiers and casts end, and
//! nothing else. SQLite has the last word on the text, and [`crate::provider`] compares the
//! parameters that it found with those found here.

use lookaside_value::Text;

use crate::Result;
use crate::error::Error;

/// The words that a query can begin with.
const FIRST_WORDS: [&str; 3] = ["select", "with", "values"];

/// The words with which statements begin that are no queries, in SQLite or elsewhere.
const OTHER_FIRST_WORDS: [&str; 21] = [
    "alter",
    "analyze",
    "attach",
    "begin",
    "commit",
    "create",
    "delete",
    "detach",
    "drop",
    "end",
    "explain",
    "insert",
    "pragma",
    "reindex",
    "release",
    "replace",
    "rollback",
    "savepoint",
    "truncate",
    "update",
    "vacuum",
];

/// First words this similar (Jaro-Winkler, 1.0 is equal) are typing errors of one another.
const MEANT_SIMILARITY_MIN: f64 = 0.8;

/// The parameters (`:name`) of a query in the order of their first appearance.
pub(crate) fn scan(sql: &str) -> Result<Vec<Text>> {
    let mut scanner = Scanner::new(sql);
    let mut params: Vec<Text> = Vec::new();
    let mut first_word = None;
    let mut ended = false;
    while let Some(token) = scanner.next_token() {
        if ended && token != Token::End {
            return Err(Error::several_statements(sql, scanner.at));
        }
        match token {
            Token::Word(word) if first_word.is_none() => first_word = Some(word),
            Token::Word(_) | Token::Dot | Token::Open | Token::Other => {
                first_word.get_or_insert("");
            }
            Token::End => ended = first_word.is_some(),
            Token::Param(name) => {
                if !params.iter().any(|param| *param == name) {
                    params.push(Text::from(name));
                }
            }
            Token::OtherParam(text) => return Err(Error::parameter_form(sql, text)),
        }
    }
    match first_word {
        None => Err(Error::empty_statement()),
        Some(word) if is_one_of(word, &FIRST_WORDS) => Ok(params),
        // What begins with a quote or a parenthesis has no word that could be meant otherwise.
        Some(word) if word.is_empty() || is_one_of(word, &OTHER_FIRST_WORDS) => {
            Err(Error::not_a_query(sql))
        }
        Some(word) => Err(Error::unknown_beginning(sql, word, meant(word))),
    }
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|other| other.eq_ignore_ascii_case(word))
}

/// The first word of a query that was meant, as far as a typing error still shows it.
fn meant(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    FIRST_WORDS
        .into_iter()
        .map(|first| (strsim::jaro_winkler(&word, first), first))
        .filter(|(similarity, _)| *similarity >= MEANT_SIMILARITY_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, first)| first)
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// A keyword, a bare identifier or a number.
    Word(&'a str),
    /// `:name`, without the colon.
    Param(&'a str),
    /// A parameter in a form that has no name of its own: `?`, `?1`, `@x`, `$x`, `:1`.
    OtherParam(&'a str),
    /// A semicolon.
    End,
    /// What parts a name from its qualifier.
    Dot,
    /// An opening parenthesis.
    Open,
    /// A quoted text or identifier, a cast, or one character.
    Other,
}

/// Reads a SQL text token by token.
pub(crate) struct Scanner<'a> {
    sql: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(sql: &'a str) -> Self {
        Self { sql, at: 0 }
    }

    /// Where the last token ended.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next token, after white space and comments.
    pub(crate) fn next_token(&mut self) -> Option<Token<'a>> {
        let bytes = self.sql.as_bytes();
        loop {
            let rest = &bytes[self.at..];
            return Some(match *rest {
                [] => return None,
                [b' ' | b'\t' | b'\n' | b'\r' | 0x0c, ..] => {
                    self.at += 1;
                    continue;
                }
                [b'-', b'-', ..] => {
                    self.skip_past(2, "\n");
                    continue;
                }
                [b'/', b'*', ..] => {
                    self.skip_past(2, "*/");
                    continue;
                }
                // A doubled quote reads as two quoted pieces side by side, which ends at the same place.
                [b'\'', ..] => self.other_past("'"),
                [b'"', ..] => self.other_past("\""),
                [b'`', ..] => self.other_past("`"),
                [b'[', ..] => self.other_past("]"),
                [b';', ..] => {
                    self.at += 1;
                    Token::End
                }
                [b'.', ..] => {
                    self.at += 1;
                    Token::Dot
                }
                [b'(', ..] => {
                    self.at += 1;
                    Token::Open
                }
                [b':', b':', ..] => {
                    self.at += 2;
                    Token::Other
                }
                [b':', first, ..] if is_word(first) => {
                    let text = self.word(1);
                    let name = &text[1..];
                    if first.is_ascii_digit() || first == b'$' {
                        Token::OtherParam(text)
                    } else {
                        Token::Param(name)
                    }
                }
                [b'?' | b'@' | b'$' | b'#', ..] => Token::OtherParam(self.word(1)),
                [first, ..] if is_word(first) => Token::Word(self.word(0)),
                _ => {
                    self.at += 1;
                    Token::Other
                }
            });
        }
    }

    fn other_past(&mut self, end: &str) -> Token<'a> {
        self.skip_past(1, end);
        Token::Other
    }

    /// Moves behind the first `end` after the opening; to the end of the text if there is none,
    /// which SQLite then refuses or, after a comment, accepts.
    fn skip_past(&mut self, opening_size: usize, end: &str) {
        let from = self.at + opening_size;
        self.at = match self.sql[from..].find(end) {
            Some(found) => from + found + end.len(),
            None => self.sql.len(),
        };
    }

    /// The word that begins `skip` bytes further on, with what was skipped.
    fn word(&mut self, skip: usize) -> &'a str {
        let from = self.at;
        let rest = &self.sql.as_bytes()[from + skip..];
        let size = rest.iter().take_while(|&&byte| is_word(byte)).count();
        self.at = from + skip + size;
        &self.sql[from..self.at]
    }
}

/// What SQLite takes as part of a name: every byte beyond ASCII counts.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, expected: std::result::Result<&[&str], &str>) {
        let seen = scan(sql);
        match (&seen, expected) {
            (Ok(params), Ok(expected)) => assert_eq!(params, expected, "{sql}"),
            (Err(error), Err(expected)) => {
                let text = error.to_string();
                assert!(text.contains(expected), "{sql}: {text}");
            }
            _ => panic!("{sql}: {seen:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn parameters_are_found() {
        check("select 1", Ok(&[]));
        check(
            "select * from t where a = :a and b=:b_2 or c = :a",
            Ok(&["a", "b_2"]),
        );
        check("with x as (select :é) select * from x", Ok(&["é"]));
        check("  VALUES (:x);  -- the end ;\n /* ; */ ; ", Ok(&["x"]));
        check(
            "select ':no', \":no\", `:no`, [:no], 'it''s :no', :yes",
            Ok(&["yes"]),
        );
        check("select 1 -- :no\n, :a /* :no */", Ok(&["a"]));
        check("select a::text, :b :: int", Ok(&["b"]));
        check("select a$b, 'unended :no", Ok(&[]));
        check("select 1 /* unended :no", Ok(&[]));
        check("-- comment first\nselect :p", Ok(&["p"]));
    }

    #[test]
    fn what_is_no_single_query_is_refused() {
        check("", Err("empty"));
        check(" ; -- nothing", Err("empty"));
        check("select 1; select 2", Err("one statement"));
        check("select 1; 'x'", Err("one statement"));
        check("delete from t", Err("only queries"));
        check("insert into t values (1)", Err("only queries"));
        check("pragma cache_size = 1", Err("only queries"));
        check("attach 'x' as y", Err("only queries"));
        check("truncate table t", Err("only queries"));
        check("'select'", Err("only queries"));
        check("(select 1)", Err("only queries"));
        check(
            "selct 1",
            Err("near \"selct\": syntax error; did you mean `select`?"),
        );
        check("SELETC :x", Err("did you mean `select`?"));
        check("users", Err("near \"users\": syntax error; a query begins"));
        check("select ?", Err("`?`"));
        check("select ?1", Err("`?1`"));
        check("select @x", Err("`@x`"));
        check("select $x", Err("`$x`"));
        check("select :1", Err("`:1`"));
    }

    #[test]
    fn any_text_is_scanned_to_its_end() {
        let parts = [
            "'", "\"", "`", "[", "]", ":", ";", "--", "/*", "*/", "é", "a", "?", "\n", "$",
        ];
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let count = random.usize(0..12);
            let text: String = (0..count)
                .map(|_| parts[random.usize(0..parts.len())])
                .collect();
            // Whether it is accepted does not matter here, only that it ends without a panic.
            let _ = scan(&format!("select {text}"));
        }
    }
}
