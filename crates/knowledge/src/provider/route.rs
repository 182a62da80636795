//! Routing: the database that answers a statement, and the statement in its form.
//!
//! `select t.v from assets.t` reads table `t` of the provider `assets`, to which `select t.v from
//! t` is sent. Only bare names count: quoted names belong to the database. Without such a name, the
//! folder answers statements that read its tables, and the default provider those that read none of
//! them.

use std::collections::HashSet;

use super::hint::list;
use super::names::{Names, RouteTarget, prefix_of};
use crate::Result;
use crate::error::Error;
use crate::scan::{Dialect, Relation, Scanner, Token, relations};

/// The schemas that SQLite itself has.
const SCHEMAS: [&str; 2] = ["main", "temp"];

/// The table-valued functions of SQLite; other databases may have them too.
const SQLITE_FUNCTIONS: [&str; 2] = ["json_each", "json_tree"];

/// The folder's own tables and views.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalTables(HashSet<String>);

impl LocalTables {
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().map(|name| name.to_lowercase()).collect())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A hint about a table that a provider does not have, if only its name selected the provider:
    /// it may be a misspelled table of the folder.
    pub(crate) fn instead_of(&self, sql: &str, names: &Names, dialect: Dialect) -> Option<String> {
        let is_bare = |it: &Relation<'_>| it.parts.len() == 1 && !it.is_function;
        let has_bare = relations(sql, dialect).iter().any(is_bare);
        if self.is_empty() || !has_bare || !names.named(sql).is_empty() {
            return None;
        }
        let mut tables: Vec<String> = self.0.iter().cloned().collect();
        tables.sort_unstable();
        let (local, tables) = (names.name(RouteTarget::Local), list(&tables));
        Some(format!(
            "`{local}` does not have it either; there is {tables}"
        ))
    }

    fn locate(&self, relation: &Relation<'_>) -> RelationLocation {
        let name = relation.parts.last().map(|part| part.name().to_lowercase());
        let name = name.unwrap_or_default();
        if relation.is_function {
            let is_sqlite =
                SQLITE_FUNCTIONS.contains(&name.as_str()) || name.starts_with("pragma_");
            return if is_sqlite {
                RelationLocation::Anywhere
            } else {
                RelationLocation::Elsewhere
            };
        }
        let is_qualified = match relation.parts.as_slice() {
            [_] => false,
            [schema, _] if is_one_of_schemas(schema.name()) => true,
            _ => return RelationLocation::Elsewhere,
        };
        match is_qualified || self.0.contains(&name) || name.starts_with("sqlite_") {
            true => RelationLocation::Here,
            false => RelationLocation::Elsewhere,
        }
    }
}

fn is_one_of_schemas(name: &str) -> bool {
    SCHEMAS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The location of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RelationLocation {
    Here,
    Elsewhere,
    /// A function that any database may have.
    Anywhere,
}

/// The route of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderRoute {
    pub(crate) target: RouteTarget,
    /// The statement without the name of the database, if it has one.
    pub(crate) sql: Option<Box<str>>,
}

/// The route of a statement. A statement that reads several databases is refused.
pub(crate) fn route(sql: &str, names: &Names, tables: &LocalTables) -> Result<ProviderRoute> {
    match *names.named(sql) {
        [] => {}
        [named] => {
            let dialect = names.dialect(named.target);
            let before = relations(sql, dialect);
            let before = before
                .iter()
                .take_while(|it| prefix_of(it) != Some(named.prefix));
            if named.target != RouteTarget::Local
                && let Some(local) = before
                    .into_iter()
                    .find(|it| tables.locate(it) == RelationLocation::Here)
            {
                let known = (local.text, names.name(RouteTarget::Local));
                return Err(Error::mixed(sql, known, (named.table, named.prefix)));
            }
            return Ok(ProviderRoute {
                target: named.target,
                sql: Some(without_prefix(sql, named.prefix, dialect).into()),
            });
        }
        [first, second, ..] => {
            let (first, second) = ((first.table, first.prefix), (second.table, second.prefix));
            return Err(Error::mixed(sql, first, second));
        }
    }
    Ok(ProviderRoute {
        target: unnamed(sql, names, tables)?,
        sql: None,
    })
}

/// The database that answers a statement without the name of one.
fn unnamed(sql: &str, names: &Names, tables: &LocalTables) -> Result<RouteTarget> {
    let default = names.fallback();
    if default == RouteTarget::Local {
        return Ok(RouteTarget::Local);
    }
    let ours = relations(sql, Dialect::Sqlite);
    let theirs = relations(sql, names.dialect(default));
    let locate = |relation: &&Relation<'_>| tables.locate(relation);
    let here = theirs
        .iter()
        .find(|it| locate(it) == RelationLocation::Here);
    let elsewhere = ours
        .iter()
        .find(|it| locate(it) == RelationLocation::Elsewhere);
    match (here, elsewhere) {
        (Some(_), None) => Ok(RouteTarget::Local),
        (None, Some(_)) => Ok(default),
        // A statement that reads no table is cheapest in SQLite, if the folder has tables.
        (None, None) if tables.is_empty() => Ok(default),
        (None, None) => Ok(RouteTarget::Local),
        (Some(here), Some(elsewhere)) => {
            let here = (here.text, names.name(RouteTarget::Local));
            Err(Error::mixed(
                sql,
                here,
                (elsewhere.text, names.name(default)),
            ))
        }
    }
}

/// The database that qualifies the first table of a statement, and the statement without its name.
pub(crate) fn named<'a>(sql: &str, names: &'a Names) -> Option<(&'a str, String)> {
    let named = names.named(sql);
    let first = named.first()?;
    let dialect = names.dialect(first.target);
    if prefix_of(relations(sql, dialect).first()?) != Some(first.prefix) {
        return None;
    }
    let routed = without_prefix(sql, first.prefix, dialect);
    Some((names.name(first.target), routed))
}

/// The prefix of the first table with one, if neither a provider nor SQLite has that name.
pub(crate) fn unknown_prefix<'a>(sql: &'a str, names: &Names, dialect: Dialect) -> Option<&'a str> {
    let relations = relations(sql, dialect);
    let prefix = relations.iter().find_map(prefix_of)?;
    (!is_one_of_schemas(prefix) && names.target(prefix).is_none()).then_some(prefix)
}

/// Removes `prefix` and its dot wherever they begin a name.
fn without_prefix(sql: &str, prefix: &str, dialect: Dialect) -> String {
    let mut routed = String::with_capacity(sql.len());
    let mut copied = 0;
    let mut scanner = Scanner::new(sql, dialect);
    let mut before = Token::Other;
    // The position of the prefix, if it was the last token.
    let mut prefix_at = None;
    while let Some(token) = scanner.next_token() {
        if token == Token::Dot
            && let Some(at) = prefix_at
        {
            routed.push_str(&sql[copied..at]);
            copied = scanner.at();
        }
        let is_prefix = token == Token::Word(prefix) && before != Token::Dot;
        prefix_at = is_prefix.then(|| scanner.start());
        before = token;
    }
    routed.push_str(&sql[copied..]);
    routed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ProviderKind;

    fn names() -> Names {
        Names::new([
            ("pg_1", ProviderKind::Postgres),
            ("my", ProviderKind::Mysql),
        ])
    }

    fn tables() -> LocalTables {
        LocalTables::new(["t".to_owned(), "Users".to_owned()])
    }

    /// `expected` is the name of the database and its statement, or a part of the error.
    fn check_with(
        names: &Names,
        tables: &LocalTables,
        sql: &str,
        expected: std::result::Result<(&str, &str), &str>,
    ) {
        match (route(sql, names, tables), expected) {
            (Ok(route), Ok((name, text))) => {
                assert_eq!(names.name(route.target), name, "{sql}");
                assert_eq!(route.sql.as_deref().unwrap_or(sql), text, "{sql}");
            }
            (Err(error), Err(text)) => {
                assert!(error.to_string().contains(text), "{sql}: {error}");
            }
            (seen, _) => panic!("{sql}: {seen:?}, expected {expected:?}"),
        }
    }

    fn check(sql: &str, name: &str, text: &str) {
        check_with(&names(), &tables(), sql, Ok((name, text)));
    }

    fn goes_to(sql: &str, name: &str) {
        check(sql, name, sql);
    }

    fn refused(sql: &str, text: &str) {
        check_with(&names(), &tables(), sql, Err(text));
    }

    #[test]
    fn a_name_before_a_table_says_who() {
        check("select a from pg_1.u", "pg_1", "select a from u");
        check("select a from my.`u`", "my", "select a from `u`");
        check("select a from local.t", "local", "select a from t");
        check("select a from default.u", "pg_1", "select a from u");
        check("select a from pg_1.t", "pg_1", "select a from t");
        check(
            "SELECT pg_1.u.a, u.b FROM pg_1 . u WHERE pg_1.u.a = :a",
            "pg_1",
            "SELECT u.a, u.b FROM  u WHERE u.a = :a",
        );
        check(
            "select * from pg_1.public.u as x join pg_1.v on x.a = v.a",
            "pg_1",
            "select * from public.u as x join v on x.a = v.a",
        );
        check(
            "select * from u join pg_1.v using (a)",
            "pg_1",
            "select * from u join v using (a)",
        );
        check(
            "select * from pg_1.f(:a) as g",
            "pg_1",
            "select * from f(:a) as g",
        );
        check(
            "with x as (select a from my.u) select * from x",
            "my",
            "with x as (select a from u) select * from x",
        );
        check(
            "select a is not distinct from b, t.from from pg_1.u",
            "pg_1",
            "select a is not distinct from b, t.from from u",
        );
        check(
            "select 'from my.u', \"my.x\" /* from my.t /* */ */ from -- my.\n pg_1.u where e'pg_1.\\'x' = $$pg_1.u$$ or x.pg_1.y = 1",
            "pg_1",
            "select 'from my.u', \"my.x\" /* from my.t /* */ */ from -- my.\n u where e'pg_1.\\'x' = $$pg_1.u$$ or x.pg_1.y = 1",
        );
        check(
            "select é.a from pg_1.é where é.a = 'é'",
            "pg_1",
            "select é.a from é where é.a = 'é'",
        );
    }

    #[test]
    fn without_a_name_the_tables_say_who() {
        goes_to("select a from t", "local");
        goes_to("select a from T join users using (a)", "local");
        goes_to("select a from main.t", "local");
        goes_to("select a from \"t\"", "local");
        goes_to("select name from sqlite_schema", "local");
        goes_to("select a from t, json_each(t.b)", "local");
        goes_to("select a from u", "pg_1");
        goes_to("select a from public.t", "pg_1");
        goes_to("select a from \"pg_1\".u", "pg_1");
        goes_to("select a from f(:a)", "pg_1");
        goes_to("select a from u, jsonb_each(u.b)", "pg_1");
        goes_to("with t as (select a from u) select * from t", "pg_1");
        goes_to("with u as (select a from t) select * from u", "local");
        goes_to("select 1", "local");
        goes_to("select a from other.t", "pg_1");
    }

    #[test]
    fn without_tables_of_its_own_the_folder_answers_nothing() {
        let none = LocalTables::default();
        for sql in ["select 1", "select a from t", "select * from json_each(:x)"] {
            check_with(&names(), &none, sql, Ok(("pg_1", sql)));
        }
        check_with(
            &names(),
            &none,
            "select 1 from my.dual",
            Ok(("my", "select 1 from dual")),
        );
    }

    #[test]
    fn several_databases_in_one_statement_are_refused_by_name() {
        refused(
            "select * from t join u using (a)",
            "`t` is in `local` and `u` in `pg_1`",
        );
        refused(
            "select * from u join t using (a)",
            "`t` is in `local` and `u` in `pg_1`",
        );
        refused(
            "select * from t join public.t as o on true",
            "`public.t` in `pg_1`",
        );
        refused(
            "select * from t join pg_1.u using (a)",
            "`t` is in `local` and `pg_1.u` in `pg_1`",
        );
        refused(
            "select * from pg_1.u join my.v using (a)",
            "`pg_1.u` is in `pg_1` and `my.v` in `my`",
        );
        refused(
            "select * from pg_1.u join local.t using (a)",
            "`local.t` in `local`",
        );
        refused(
            "select * from pg_1.u where a in (select a from my.v)",
            "`my.v` in `my`",
        );
    }

    #[test]
    fn without_providers_everything_is_here() {
        let names = Names::default();
        let check = |sql, text| check_with(&names, &tables(), sql, Ok(("default", text)));
        check("select a from u", "select a from u");
        check("select a from default.t", "select a from t");
        check("select a from local.t", "select a from t");
        check("select 1", "select 1");
        check("select a from other.t", "select a from other.t");
        check("select a from DEFAULT.t", "select a from DEFAULT.t");
        check("select a from 'default'.t", "select a from 'default'.t");
    }

    #[test]
    fn the_first_table_names_who_is_asked_for() {
        for (sql, expected) in [
            ("select a from t", None),
            ("select * from u join pg_1.v using (a)", None),
            (
                "select * from pg_1.u join my.v using (a)",
                Some(("pg_1", "select * from u join my.v using (a)")),
            ),
            (
                "select a from (select b from my.u) x",
                Some(("my", "select a from (select b from u) x")),
            ),
        ] {
            let names = names();
            let seen = named(sql, &names);
            assert_eq!(
                seen.as_ref().map(|(name, sql)| (*name, &**sql)),
                expected,
                "{sql}"
            );
        }
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
            let seen = unknown_prefix(sql, &names(), Dialect::Sqlite);
            assert_eq!(seen, expected, "{sql}");
        }
    }
}
