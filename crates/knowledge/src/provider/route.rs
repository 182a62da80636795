//! Which provider a statement names before its table, and the statement without that name.
//!
//! `select t.v from assets.t` reads table `t` of the provider `assets`, and `assets` itself wants to
//! read `select t.v from t`. Only bare names count: what is quoted belongs to the database.

use crate::scan::{Scanner, Token};

/// The schemas that SQLite itself has.
const SCHEMAS: [&str; 2] = ["main", "temp"];

/// The provider that stands before the first table that the statement reads, and the statement
/// without its name.
pub(crate) fn route<'a>(sql: &str, providers: &[&'a str]) -> Option<(&'a str, String)> {
    let prefix = prefix_of(sql)?;
    let provider = providers.iter().find(|name| **name == prefix)?;
    Some((provider, without_prefix(sql, prefix)))
}

/// The prefix of the first table, if neither a provider nor SQLite has that name.
pub(super) fn unknown_prefix<'a>(sql: &'a str, providers: &[&str]) -> Option<&'a str> {
    let prefix = prefix_of(sql)?;
    let is_schema = SCHEMAS.iter().any(|name| name.eq_ignore_ascii_case(prefix));
    (!is_schema && !providers.contains(&prefix)).then_some(prefix)
}

/// What stands before the dot of the table after the first `from`; if that is a query in
/// parentheses, of the first one in there.
fn prefix_of(sql: &str) -> Option<&str> {
    let mut scanner = Scanner::new(sql);
    let mut before = Token::Other;
    while let Some(token) = scanner.next_token() {
        let is_from = is_word(token, "from")
            && before != Token::Dot
            // `a is distinct from b` is a comparison.
            && !is_word(before, "distinct");
        before = token;
        if !is_from {
            continue;
        }
        let mut table = scanner.next_token()?;
        while table == Token::Open {
            table = scanner.next_token()?;
        }
        let Token::Word(word) = table else {
            return None;
        };
        let is_query = ["select", "values", "with"]
            .iter()
            .any(|first| is_word(table, first));
        if !is_query {
            return (scanner.next_token()? == Token::Dot).then_some(word);
        }
        before = table;
    }
    None
}

fn is_word(token: Token<'_>, word: &str) -> bool {
    matches!(token, Token::Word(seen) if seen.eq_ignore_ascii_case(word))
}

/// The statement without `prefix` and its dot, wherever they begin a name.
fn without_prefix(sql: &str, prefix: &str) -> String {
    let mut routed = String::with_capacity(sql.len());
    let mut copied = 0;
    let mut scanner = Scanner::new(sql);
    let mut before = Token::Other;
    // Where the prefix begins that was the last token, if it was one.
    let mut prefix_at = None;
    while let Some(token) = scanner.next_token() {
        if token == Token::Dot
            && let Some(at) = prefix_at
        {
            routed.push_str(&sql[copied..at]);
            copied = scanner.at();
        }
        let is_prefix = token == Token::Word(prefix) && before != Token::Dot;
        prefix_at = is_prefix.then(|| scanner.at() - prefix.len());
        before = token;
    }
    routed.push_str(&sql[copied..]);
    routed
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROVIDERS: [&str; 2] = ["default", "pg_1"];

    fn check(sql: &str, expected: Option<(&str, &str)>) {
        let seen = route(sql, &PROVIDERS);
        let seen = seen.as_ref().map(|(name, sql)| (*name, sql.as_str()));
        assert_eq!(seen, expected, "{sql}");
    }

    #[test]
    fn the_first_table_names_the_provider() {
        check("select 1", None);
        check("select a from t", None);
        check("select a from main.t", None);
        check("select a from other.t", None);
        check(
            "select a from default.t1",
            Some(("default", "select a from t1")),
        );
        check(
            "SELECT pg_1.t.a, t.b FROM pg_1 . t WHERE pg_1.t.a = :a",
            Some(("pg_1", "SELECT t.a, t.b FROM  t WHERE t.a = :a")),
        );
        check(
            "select * from pg_1.t join pg_1.u on t.a = u.a, default.v",
            Some(("pg_1", "select * from t join u on t.a = u.a, default.v")),
        );
        check(
            "select * from t join pg_1.u using (a)",
            None, // The first table decides.
        );
        check(
            "select * from ((select a from pg_1.t) as x)",
            Some(("pg_1", "select * from ((select a from t) as x)")),
        );
        check(
            "with x as (select a from pg_1.t) select * from x",
            Some(("pg_1", "with x as (select a from t) select * from x")),
        );
        check(
            "select a is not distinct from b from default.t",
            Some(("default", "select a is not distinct from b from t")),
        );
        check(
            "select t.from from default.t",
            Some(("default", "select t.from from t")),
        );
        check("select a from DEFAULT.t", None);
        check("select a from", None);
        check("select a from (", None);
        check("select a from default", None);
        check("select a from ('default').t", None);
    }

    #[test]
    fn quotes_and_comments_stay_as_they_are() {
        check(
            "select 'from default.u', \"default.x\" /* from main.t */ from -- default.\n default.t \
             where a = 'default.t' and [default.b] = `default.` or x.default.y = 1",
            Some((
                "default",
                "select 'from default.u', \"default.x\" /* from main.t */ from -- default.\n t \
                 where a = 'default.t' and [default.b] = `default.` or x.default.y = 1",
            )),
        );
        check("select a from \"default\".t", None);
        check("select a from 'default'.t", None);
        check(
            "select é.a from default.é where é.a = 'é'",
            Some(("default", "select é.a from é where é.a = 'é'")),
        );
    }

    #[test]
    fn only_unknown_prefixes_are_unknown() {
        for (sql, expected) in [
            ("select a from t", None),
            ("select a from main.t", None),
            ("select a from Temp.t", None),
            ("select a from default.t", None),
            ("select a from pg_2.t", Some("pg_2")),
            ("select a from (select b from mysql.t)", Some("mysql")),
        ] {
            assert_eq!(unknown_prefix(sql, &PROVIDERS), expected, "{sql}");
        }
    }
}
