//! Expands statements that read a name of `[[first_of]]`.
//!
//! Such a name is not a table of SQLite. The statement is written anew for each of its tables, and
//! once more for the default row; the native plans of these statements are tried in turn, and SQLite
//! answers all of them joined to one ([`Expansion::sql`]).

use std::fmt::Write as _;

use lookaside_value::Value;

use crate::Result;
use crate::config::FirstOfConfig;
use crate::error::Error;
use crate::scan::{Dialect, Relation, Scanner, Token, is_end_of_from, relations};
use crate::sql_name::quote_name;

/// A name of `[[first_of]]` with the row that answers if no table has one.
#[derive(Clone, Debug)]
pub(crate) struct FirstOf {
    config: FirstOfConfig,
    /// A query of the row in parentheses.
    default_row: Option<String>,
}

/// The statements that a statement is expanded into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expansion {
    /// The statement for each table, in the order in which they answer.
    pub(crate) members: Vec<String>,
    /// The statement that results in the default row, if there is one.
    pub(crate) on_miss: Option<String>,
    /// Whether the statements have a limit.
    is_limited: bool,
}

impl FirstOf {
    /// `columns` are those of the first table.
    ///
    /// # Errors
    /// The column of the default row that the table does not have.
    pub(crate) fn new<'c>(
        config: &'c FirstOfConfig,
        columns: &[String],
    ) -> std::result::Result<Self, &'c str> {
        let default_row = match &config.on_miss {
            Some(row) => Some(default_row(row, columns)?),
            None => None,
        };
        Ok(Self {
            config: config.clone(),
            default_row,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    /// Its tables, in the order in which they are looked up.
    pub(crate) fn tables(&self) -> &[String] {
        &self.config.tables
    }

    /// The statements that a statement is expanded into, if it reads this name.
    ///
    /// # Errors
    /// When it reads anything else, or reads the name in another place than the `from` of a plain
    /// `select`.
    pub(crate) fn expand(&self, sql: &str) -> Result<Option<Expansion>> {
        match Source::of(&self.config, sql) {
            None => Ok(None),
            Some(Err(NotPlain)) => Err(Error::first_of_not_plain(sql, self.name())),
            Some(Ok(source)) => Ok(Some(Expansion {
                members: source.members(&self.config),
                on_miss: self.default_row.as_ref().map(|row| source.with_row(row)),
                is_limited: source.is_limited,
            })),
        }
    }
}

/// The statement for each table, if it reads a name of `[[first_of]]` and can be expanded.
pub(crate) fn members(configs: &[FirstOfConfig], sql: &str) -> Option<Vec<String>> {
    let mut configs = configs.iter();
    configs.find_map(|config| Some(Source::of(config, sql)?.ok()?.members(config)))
}

impl Expansion {
    /// One statement with the rows of the first of the statements that has any.
    ///
    /// The limit keeps the order of each statement's rows: SQLite would otherwise be free to drop an
    /// `order by` that is not that of the whole statement.
    pub(crate) fn sql(&self) -> String {
        let limit = match self.is_limited {
            true => "",
            false => " limit -1",
        };
        let mut sql = String::new();
        for (index, statement) in self.members.iter().chain(&self.on_miss).enumerate() {
            if index > 0 {
                sql.push_str(" union all ");
            }
            // A line break ends a comment at the end of the statement.
            let limit = if index < self.members.len() {
                limit
            } else {
                ""
            };
            write!(sql, "select * from ({statement}\n{limit})").expect("a string takes any text");
            for (number, before) in self.members[..index].iter().enumerate() {
                let word = if number == 0 { "where" } else { "and" };
                write!(sql, " {word} not exists ({before}\n)").expect("a string takes any text");
            }
        }
        sql
    }
}

/// A query of the default row with all columns of the first table.
fn default_row<'c>(
    row: &'c [(String, Value)],
    columns: &[String],
) -> std::result::Result<String, &'c str> {
    let is = |column: &String, name: &str| column.eq_ignore_ascii_case(name);
    let unknown = row
        .iter()
        .find(|(name, _)| !columns.iter().any(|column| is(column, name)));
    if let Some((name, _)) = unknown {
        return Err(name);
    }
    let values = columns.iter().map(|column| {
        let value = row.iter().find(|(name, _)| is(column, name));
        let value = value.map_or("null".to_owned(), |(_, value)| literal(value));
        format!("{value} as {}", quote_name(column))
    });
    Ok(format!(
        "(select {})",
        values.collect::<Vec<_>>().join(", ")
    ))
}

/// A value of the configuration in SQL.
fn literal(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
        // With a decimal point or an exponent, which make it a float in SQL too.
        Value::Float(float) => format!("{float:?}"),
        Value::Bool(bool) => u8::from(*bool).to_string(),
        other => other.to_string(),
    }
}

/// The statement is not a plain `select` of one table.
struct NotPlain;

/// Where a statement reads its only table.
struct Source<'a> {
    /// Up to the table.
    before: &'a str,
    /// ` as NAME`, if the statement has no other name for the table.
    name: String,
    /// The other name of the table, if it has one.
    alias: &'a str,
    /// After the table and its other name.
    rest: &'a str,
    is_limited: bool,
}

impl<'a> Source<'a> {
    /// `None` if the statement does not read the name.
    fn of(config: &FirstOfConfig, sql: &'a str) -> Option<std::result::Result<Self, NotPlain>> {
        let relations = relations(sql, Dialect::Sqlite);
        let is_name = |it: &&Relation<'_>| match &it.parts[..] {
            [part] => !it.is_function && part.name().eq_ignore_ascii_case(&config.name),
            _ => false,
        };
        let found = relations.iter().find(is_name)?;
        if relations.len() > 1 {
            return Some(Err(NotPlain));
        }
        Some(Self::at(
            sql,
            found.start,
            found.start + found.text.len(),
            config,
        ))
    }

    fn at(
        sql: &'a str,
        start: usize,
        end: usize,
        config: &FirstOfConfig,
    ) -> std::result::Result<Self, NotPlain> {
        const NOT_PLAIN: [&str; 5] = ["with", "values", "union", "intersect", "except"];
        let mut scanner = Scanner::new(sql, Dialect::Sqlite);
        let (mut select_count, mut is_limited, mut sql_end) = (0, false, sql.len());
        // The end of the alias, and whether the last token was `as`, from the table on.
        let (mut alias_end, mut is_alias_possible) = (end, false);
        while let Some(token) = scanner.next_token() {
            if scanner.start() < start || scanner.start() >= end {
                match token {
                    Token::Word(word) if word.eq_ignore_ascii_case("select") => select_count += 1,
                    Token::Word(word) if word.eq_ignore_ascii_case("limit") => is_limited = true,
                    Token::Word(word)
                        if NOT_PLAIN.iter().any(|it| word.eq_ignore_ascii_case(it)) =>
                    {
                        return Err(NotPlain);
                    }
                    Token::End => {
                        sql_end = scanner.start();
                        break;
                    }
                    _ => {}
                }
            }
            if scanner.at() == end {
                is_alias_possible = true;
            } else if is_alias_possible {
                is_alias_possible = match token {
                    Token::Word(word) if word.eq_ignore_ascii_case("as") => true,
                    Token::Word(word) if is_end_of_from(word) => false,
                    Token::Word(_) | Token::Quoted(_) => {
                        alias_end = scanner.at();
                        false
                    }
                    _ => false,
                };
            }
        }
        if select_count != 1 {
            return Err(NotPlain);
        }
        let name = match alias_end == end {
            true => format!(" as {}", quote_name(&config.name)),
            false => String::new(),
        };
        Ok(Self {
            before: &sql[..start],
            name,
            alias: &sql[end..alias_end],
            rest: &sql[alias_end..sql_end],
            is_limited,
        })
    }

    fn members(&self, config: &FirstOfConfig) -> Vec<String> {
        let Self {
            before,
            name,
            alias,
            rest,
            ..
        } = self;
        let tables = config.tables.iter();
        let member = |table: &String| {
            let table = quote_name(table);
            format!("{before}{table}{name}{alias}{rest}")
        };
        tables.map(member).collect()
    }

    /// The columns of the statement for a row, whatever its conditions.
    fn with_row(&self, row: &str) -> String {
        format!("{}{row}{}{}", self.before, self.name, self.alias)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_of() -> FirstOf {
        let config = FirstOfConfig {
            name: "owner".to_owned(),
            tables: vec!["a".to_owned(), "b c".to_owned()],
            on_miss: Some(vec![
                ("Team".to_owned(), "it's".into()),
                ("n".to_owned(), Value::Float(2.0)),
            ]),
            line: 7,
        };
        FirstOf::new(&config, &["host", "team", "n"].map(str::to_owned)).unwrap()
    }

    #[test]
    fn a_statement_is_written_for_each_table_and_the_default_row() {
        let row = "(select null as \"host\", 'it''s' as \"team\", 2.0 as \"n\")";
        for (sql, before, name, alias, rest) in [
            (
                "select team from owner where host = :h",
                "select team from ",
                " as \"owner\"",
                "",
                " where host = :h",
            ),
            (
                "select o.team from OWNER as o order by o.n -- x\n;",
                "select o.team from ",
                "",
                " as o",
                " order by o.n -- x\n",
            ),
            (
                "select team from \"owner\" o",
                "select team from ",
                "",
                " o",
                "",
            ),
            (
                "select team, ' from owner' from owner 'o' limit 1",
                "select team, ' from owner' from ",
                " as \"owner\"",
                "",
                " 'o' limit 1",
            ),
            (
                "select owner.team from owner group by team",
                "select owner.team from ",
                " as \"owner\"",
                "",
                " group by team",
            ),
        ] {
            let expansion = first_of().expand(sql).unwrap().unwrap();
            let members = ["\"a\"", "\"b c\""].map(|it| format!("{before}{it}{name}{alias}{rest}"));
            assert_eq!(expansion.members, members, "{sql}");
            let on_miss = format!("{before}{row}{name}{alias}");
            assert_eq!(expansion.on_miss, Some(on_miss), "{sql}");
            let found = super::members(&[first_of().config], sql);
            assert_eq!(found.as_deref(), Some(&members[..]), "{sql}");
        }
    }

    #[test]
    fn other_statements_are_left_alone() {
        for sql in [
            "select team from owners",
            "select owner from team where owner.x = 1",
            "select team from main.owner",
            "with owner as (select 1) select * from owner",
            "select * from owner(1)",
            "select 1",
        ] {
            assert_eq!(first_of().expand(sql).unwrap(), None, "{sql}");
        }
    }

    #[test]
    fn statements_that_are_not_plain_are_refused() {
        for sql in [
            "select team from owner join x using (n)",
            "select team from owner, owner",
            "select team from owner union all select team from owner",
            "select team from owner where n in (select 1)",
            "select team from owner where n in x",
            "select (select team from owner)",
            "with x as (select 1) select team from owner",
            "select team from owner union values (1)",
        ] {
            let error = first_of().expand(sql).unwrap_err().to_string();
            assert!(
                error.contains("`owner` is defined by [[first_of]]"),
                "{error}"
            );
            assert_eq!(super::members(&[first_of().config], sql), None);
        }
    }

    #[test]
    fn the_default_row_has_only_columns_of_the_table() {
        let config = first_of().config;
        let found = FirstOf::new(&config, &["host".to_owned(), "n".to_owned()]);
        assert_eq!(found.unwrap_err(), "Team");
    }
}
