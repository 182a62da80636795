//! Finds the parameters of a SQL text and refuses everything but a single query.
//!
//! This is a scanner, not a parser: it recognises where quotes, comments, identifiers and casts
//! end, and little else. The database decides whether the text is valid, and [`crate::provider`]
//! compares the parameters that the database found with those found here.

mod numbered;
mod relations;
mod scanner;

use lookaside_value::Text;

pub(crate) use self::numbered::{Numbered, numbered};
pub(crate) use self::relations::{Part, Relation, is_end_of_from, relations};
pub(crate) use self::scanner::{Dialect, Scanner, Token};

use crate::Result;
use crate::error::Error;

/// The words that a query can begin with.
const FIRST_WORDS: [&str; 3] = ["select", "with", "values"];

/// The first words of statements that are not queries, in SQLite or other databases.
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

/// The similarity (Jaro-Winkler, 1.0 is equal) from which a first word counts as a misspelling of
/// another.
const MEANT_SIMILARITY_MIN: f64 = 0.8;

/// The words that begin a change of data or the creation of a table, also within a query.
const CHANGING_WORDS: [&str; 5] = ["insert", "update", "delete", "merge", "into"];

/// The parameters (`:name`) of a query in the order of their first appearance.
pub(crate) fn scan(sql: &str, dialect: Dialect) -> Result<Vec<Text>> {
    let mut scanner = Scanner::new(sql, dialect);
    let mut params: Vec<Text> = Vec::new();
    let mut first_word = None;
    let mut ended = false;
    let mut before = Token::End;
    let mut before_that = Token::End;
    while let Some(token) = scanner.next_token() {
        if ended && token != Token::End {
            return Err(Error::several_statements(sql, scanner.at()));
        }
        match token {
            Token::Word(word) => {
                first_word.get_or_insert(word);
                if dialect != Dialect::Sqlite && is_changing(before, word) {
                    return Err(Error::not_a_query(sql, dialect));
                }
                if dialect != Dialect::Sqlite && is_locking(before_that, before, word) {
                    return Err(Error::locking_query(sql));
                }
            }
            // In databases other than SQLite a query may be in parentheses.
            Token::Open if first_word.is_none() && dialect != Dialect::Sqlite => {}
            Token::End => ended = first_word.is_some(),
            Token::Param(name) => {
                if !params.iter().any(|param| *param == name) {
                    params.push(Text::from(name));
                }
            }
            Token::OtherParam(text) => return Err(Error::parameter_form(sql, text)),
            Token::Quoted(_)
            | Token::Dot
            | Token::Comma
            | Token::Open
            | Token::Close
            | Token::Other => {
                first_word.get_or_insert("");
            }
        }
        before_that = std::mem::replace(&mut before, token);
    }
    match first_word {
        None => Err(Error::empty_statement()),
        Some(word) if is_one_of(word, &FIRST_WORDS) => Ok(params),
        // A statement that begins with a quote or a parenthesis has no misspelled word.
        Some(word) if word.is_empty() || is_one_of(word, &OTHER_FIRST_WORDS) => {
            Err(Error::not_a_query(sql, dialect))
        }
        Some(word) => Err(Error::unknown_beginning(sql, word, meant(word))),
    }
}

/// Whether a word makes a query change data. SQLite reports this itself; for other servers such
/// queries are refused, because a change would not happen if a cache answered.
fn is_changing(before: Token<'_>, word: &str) -> bool {
    match before {
        // Such a query is in parentheses: `with x as (delete …)`.
        Token::Open => is_one_of(word, &CHANGING_WORDS),
        Token::Dot => false,
        // `select … into t` and `select … into outfile`; no bare name may be `into`.
        _ => word.eq_ignore_ascii_case("into"),
    }
}

/// Whether a query locks the rows that it finds: `for update`, `for no key update`, `for share`,
/// `for key share`, and MySQL's `lock in share mode`. Rows from a cache would not be locked, and
/// rows from the server only for the duration of the query, as a lookup has no transaction.
fn is_locking(before_that: Token<'_>, before: Token<'_>, word: &str) -> bool {
    let is =
        |token, word: &str| matches!(token, Token::Word(other) if word.eq_ignore_ascii_case(other));
    let locks_for = is(before, "for") && is_one_of(word, &["update", "share", "no", "key"]);
    let locks_in = is(before_that, "lock") && is(before, "in");
    locks_for || locks_in && word.eq_ignore_ascii_case("share")
}

/// The statements of a script for PostgreSQL.
pub(crate) fn statements(script: &str) -> Vec<&str> {
    let mut statements = Vec::new();
    let mut scanner = Scanner::new(script, Dialect::Postgres);
    let (mut start, mut is_begun) = (0, false);
    while let Some(token) = scanner.next_token() {
        if token != Token::End {
            is_begun = true;
            continue;
        }
        if std::mem::take(&mut is_begun) {
            statements.push(script[start..scanner.start()].trim());
        }
        start = scanner.at();
    }
    if is_begun {
        statements.push(script[start..].trim());
    }
    statements
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|other| other.eq_ignore_ascii_case(word))
}

/// The first word that was probably intended, if the given one is similar to it.
fn meant(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    FIRST_WORDS
        .into_iter()
        .map(|first| (strsim::jaro_winkler(&word, first), first))
        .filter(|(similarity, _)| *similarity >= MEANT_SIMILARITY_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, first)| first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, expected: std::result::Result<&[&str], &str>) {
        let seen = scan(sql, Dialect::Sqlite);
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
    fn what_locks_rows_is_refused_elsewhere() {
        for (sql, dialect) in [
            ("select a from t where k = :k for update", Dialect::Postgres),
            ("select a from t FOR NO KEY UPDATE", Dialect::Postgres),
            ("select a from t for share of t nowait", Dialect::Postgres),
            ("select a from t for /* */ key share", Dialect::Postgres),
            ("select a from t for update skip locked", Dialect::Mysql),
            ("select a from t lock in share mode", Dialect::Mysql),
        ] {
            let error = scan(sql, dialect).unwrap_err().to_string();
            assert!(error.contains("cannot lock rows"), "{sql}: {error}");
        }
        for (sql, dialect) in [
            ("select substring(a from 1 for 2) from t", Dialect::Postgres),
            ("select \"for\", update from t", Dialect::Postgres),
            ("select a from t where lock in (1, 2)", Dialect::Mysql),
            ("select a from t use index for join (k)", Dialect::Mysql),
        ] {
            assert!(scan(sql, dialect).is_ok(), "{sql}");
        }
    }

    #[test]
    fn scripts_are_cut_at_their_semicolons() {
        let script =
            "-- one;\ncreate table t (a text default ';');;\n create index on t (a) /* ; */;
            do $$ begin; end $$; -- the end";
        assert_eq!(
            statements(script),
            [
                "-- one;\ncreate table t (a text default ';')",
                "create index on t (a) /* ; */",
                "do $$ begin; end $$"
            ]
        );
        assert_eq!(statements(" ; -- nothing"), [""; 0]);
        assert_eq!(statements("select 1"), ["select 1"]);
    }

    #[test]
    fn elsewhere_queries_may_stand_in_parentheses_and_change_nothing() {
        for dialect in [Dialect::Postgres, Dialect::Mysql] {
            let params = |sql| scan(sql, dialect).map_err(|error| error.to_string());
            assert_eq!(
                params("(select :a) union ((select :b))").unwrap(),
                ["a", "b"]
            );
            for sql in [
                "with x as (delete from t returning a) select * from x",
                "with x as (insert into t values (1)) select 1",
                "with x as ( update t set a = 1) select 1",
                "select a into b from t",
                "select a from t into outfile 'x'",
                "(delete from t)",
            ] {
                assert!(params(sql).unwrap_err().contains("only queries"), "{sql}");
            }
            let fine = "select t.into, 'into', update_at, replace(a, 'b', 'c') from t";
            assert_eq!(params(fine).unwrap(), [""; 0]);
        }
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
            // The result does not matter, only that it does not panic.
            for dialect in [Dialect::Sqlite, Dialect::Postgres, Dialect::Mysql] {
                let text = format!("select {text} from t");
                if let Ok(params) = scan(&text, dialect) {
                    let numbered = numbered(&text, dialect, &params);
                    assert!(
                        numbered.sql.len() >= text.len() - 2 * text.len() / 3,
                        "{text}"
                    );
                }
                let _ = relations(&text, dialect);
            }
        }
    }
}
