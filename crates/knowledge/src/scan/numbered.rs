//! Translates `:name` parameters of a query to those of a server: `$1` in PostgreSQL, `?` in MySQL.

use lookaside_value::Text;

use super::{Dialect, Scanner, Token};

/// A query in the form of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    /// The text, in which only the parameters differ.
    pub(crate) sql: String,
    /// For each of the server's parameters, from its first, the position of the value to bind.
    pub(crate) binds: Vec<usize>,
    /// The position in `sql` of the terminating semicolon, or else the end of the last token.
    end: usize,
    is_limited: bool,
}

/// Words that limit the rows themselves, or that must come after a limit.
const LIMITING_WORDS: [&str; 6] = ["limit", "fetch", "offset", "for", "lock", "procedure"];

/// Numbers the parameters of a scanned query; `params` are the parameters that were found.
pub(crate) fn numbered(sql: &str, dialect: Dialect, params: &[Text]) -> Numbered {
    let mut numbered = Numbered {
        sql: String::with_capacity(sql.len()),
        binds: Vec::new(),
        end: 0,
        is_limited: false,
    };
    if dialect == Dialect::Postgres {
        // A value that occurs several times is sent once.
        numbered.binds = (0..params.len()).collect();
    }
    let mut scanner = Scanner::new(sql, dialect);
    let (mut copied, mut depth, mut before) = (0, 0_usize, Token::End);
    let mut has_ended = false;
    while let Some(token) = scanner.next_token() {
        match token {
            Token::Param(name) => {
                numbered.sql.push_str(&sql[copied..scanner.start()]);
                copied = scanner.at();
                let position = params.iter().position(|param| *param == name);
                let position = position.expect("the scanner found the same parameters");
                match dialect {
                    Dialect::Postgres => {
                        numbered.sql.push('$');
                        numbered.sql.push_str(&(position + 1).to_string());
                    }
                    Dialect::Mysql | Dialect::Sqlite => {
                        numbered.binds.push(position);
                        numbered.sql.push('?');
                    }
                }
            }
            Token::Open => depth += 1,
            Token::Close => depth = depth.saturating_sub(1),
            Token::Word(word) if depth == 0 && before != Token::Dot => {
                let is_limiting = LIMITING_WORDS
                    .iter()
                    .any(|limiting| limiting.eq_ignore_ascii_case(word));
                numbered.is_limited |= is_limiting;
            }
            _ => {}
        }
        if token == Token::End {
            has_ended = true;
        } else if !has_ended {
            numbered.end = numbered.sql.len() + scanner.at() - copied;
        }
        before = token;
    }
    numbered.sql.push_str(&sql[copied..]);
    numbered
}

impl Numbered {
    /// The query limited to its first row, unless it limits the rows itself: the server then plans
    /// for one row and sends only one.
    pub(crate) fn first_row_sql(&self) -> String {
        match self.is_limited {
            true => self.sql.clone(),
            // On a separate line, because it may follow a line comment.
            false => format!("{}\nlimit 1", &self.sql[..self.end]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan;
    use super::Dialect::{Mysql, Postgres};
    use super::*;

    fn check(dialect: Dialect, sql: &str, expected: &str, binds: &[usize]) {
        let params = scan(sql, dialect).unwrap();
        let numbered = numbered(sql, dialect, &params);
        assert_eq!(numbered.sql, expected, "{dialect:?}");
        assert_eq!(numbered.binds, binds, "{sql}");
    }

    #[test]
    fn only_parameters_change() {
        let sql = "select 'é:a', /* :b /* */ */ :a::int, \"ü\" from t where x=:b and y=:a -- :c";
        let expected =
            "select 'é:a', /* :b /* */ */ $1::int, \"ü\" from t where x=$2 and y=$1 -- :c";
        check(Postgres, sql, expected, &[0, 1]);
        check(
            Mysql,
            "select '\\':x', :a, 'é' from `t:y` where x=:b and y=:a # :c",
            "select '\\':x', ?, 'é' from `t:y` where x=? and y=? # :c",
            &[0, 1, 0],
        );
        check(Postgres, "select 1;", "select 1;", &[]);
        check(
            Postgres,
            "select a[1:2], :n - :n",
            "select a[1:2], $1 - $1",
            &[0],
        );
        // More than nine parameters, and names that are prefixes of each other.
        let names: Vec<String> = (0..12).map(|number| format!(":p{number}")).collect();
        let numbers: Vec<String> = (1..13).map(|number| format!("${number}")).collect();
        let all: Vec<usize> = (0..12).collect();
        let sql = format!("select {}", names.join(","));
        check(
            Postgres,
            &sql,
            &format!("select {}", numbers.join(",")),
            &all,
        );
    }

    #[test]
    fn one_row_is_asked_for_where_the_text_does_not_say() {
        for (dialect, sql, expected) in [
            (Postgres, "select a from t", "select a from t\nlimit 1"),
            (Postgres, "select a from t ; ", "select a from t\nlimit 1"),
            (Postgres, "select a from t -- x", "select a from t\nlimit 1"),
            (
                Postgres,
                "select a -- x\n from t",
                "select a -- x\n from t\nlimit 1",
            ),
            (Postgres, "select :a from t;", "select $1 from t\nlimit 1"),
            (Mysql, "select :a", "select ?\nlimit 1"),
            (
                Postgres,
                "select a from t LIMIT 5",
                "select a from t LIMIT 5",
            ),
            (
                Postgres,
                "select a from t fetch first 2 rows only",
                "select a from t fetch first 2 rows only",
            ),
            (
                Postgres,
                "select t.limit from (select 1 limit 3) as t",
                "select t.limit from (select 1 limit 3) as t\nlimit 1",
            ),
            (
                Postgres,
                "select a from t union select b from u order by 1",
                "select a from t union select b from u order by 1\nlimit 1",
            ),
        ] {
            let params = scan(sql, dialect).unwrap();
            assert_eq!(numbered(sql, dialect, &params).first_row_sql(), expected);
        }
    }
}
