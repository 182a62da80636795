//! Which tables a query reads.
//!
//! Names follow `from`, `join` and the commas between; queries that a `with` defines are not tables
//! where they are visible, and the `from` in `extract(year from x)` does not precede a table.

use super::scanner::unquoted;
use super::{Dialect, Scanner, Token};

/// What a query reads: a table, a view, or the rows of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Relation<'a> {
    /// The name as written, with its qualifiers.
    pub(crate) text: &'a str,
    /// Its position in the query, in bytes.
    pub(crate) start: usize,
    /// The names between the dots.
    pub(crate) parts: Vec<Part<'a>>,
    /// Whether it is a function call.
    pub(crate) is_function: bool,
}

/// One of the names between dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Bare(&'a str),
    Quoted(String),
}

impl Part<'_> {
    /// The name itself.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Bare(name) => name,
            Self::Quoted(name) => name,
        }
    }
}

/// The words that end the list after a `from`.
const FROM_ENDS: [&str; 15] = [
    "where",
    "group",
    "having",
    "order",
    "limit",
    "union",
    "intersect",
    "except",
    "minus",
    "window",
    "fetch",
    "offset",
    "for",
    "into",
    "procedure",
];

/// Whether a word after a table ends the list of tables, so that it is not another name of the table.
pub(crate) fn is_end_of_from(word: &str) -> bool {
    FROM_ENDS.iter().any(|end| word.eq_ignore_ascii_case(end))
}

/// All relations that a query reads, in the order of the text, with duplicates.
pub(crate) fn relations(sql: &str, dialect: Dialect) -> Vec<Relation<'_>> {
    let mut scanner = Scanner::new(sql, dialect);
    let mut tokens = Vec::new();
    while let Some(token) = scanner.next_token() {
        tokens.push((token, scanner.start(), scanner.at()));
    }
    let mut reader = Reader {
        sql,
        dialect,
        tokens,
        at: 0,
        levels: vec![Level::default()],
        visible: Vec::new(),
        found: Vec::new(),
    };
    while reader.at < reader.tokens.len() {
        reader.step();
    }
    reader.found
}

/// The state within a pair of parentheses, or of the whole text.
#[derive(Debug, Default)]
struct Level {
    /// Whether a token was read in it.
    is_begun: bool,
    /// Whether a `from` in it belongs to a query.
    is_query: bool,
    /// Whether a comma separates tables.
    in_from: bool,
    /// Whether a table comes next.
    wants_table: bool,
    with: With,
    /// The name of the query that this level is, if a `with` gave it one.
    named: Option<String>,
    /// How many named queries were visible before it.
    visible_count: usize,
}

/// The state of a level within a `with`.
#[derive(Debug, Default)]
enum With {
    /// Not in a `with`.
    #[default]
    Absent,
    /// A name comes next.
    Name { is_recursive: bool },
    /// The query of that name comes next, perhaps after its columns.
    Query { name: String, is_recursive: bool },
    /// A comma and another name may come.
    Done { is_recursive: bool },
}

struct Reader<'a> {
    sql: &'a str,
    dialect: Dialect,
    tokens: Vec<(Token<'a>, usize, usize)>,
    at: usize,
    /// Never empty.
    levels: Vec<Level>,
    /// The names of queries that can be read.
    visible: Vec<String>,
    found: Vec<Relation<'a>>,
}

impl<'a> Reader<'a> {
    fn step(&mut self) {
        let token = self.token(0);
        let before = match self.at {
            0 => Token::End,
            at => self.tokens[at - 1].0,
        };
        let is_first = !std::mem::replace(&mut self.level().is_begun, true);
        match token {
            Token::Open => self.open(before),
            Token::Close => self.close(),
            Token::Comma => self.comma(),
            Token::Word(_) | Token::Quoted(_) if before == Token::Dot => self.at += 1,
            Token::Word(word) => self.word(word, is_first, before),
            Token::Quoted(_) => self.name(),
            _ => {
                self.level().wants_table = false;
                self.at += 1;
            }
        }
    }

    fn token(&self, ahead: usize) -> Token<'a> {
        let token = self.tokens.get(self.at + ahead);
        token.map_or(Token::End, |(token, ..)| *token)
    }

    fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("the text itself is a level")
    }

    fn open(&mut self, before: Token<'a>) {
        let visible_count = self.visible.len();
        let outer = self.level();
        let mut level = Level {
            visible_count,
            ..Level::default()
        };
        match &outer.with {
            // Before `as`, these are the columns.
            With::Query { name, is_recursive }
                if is(before, "as") || is(before, "materialized") =>
            {
                let (name, is_recursive) = (name.clone(), *is_recursive);
                outer.with = With::Done { is_recursive };
                level.named = Some(name.clone());
                if is_recursive {
                    self.visible.push(name);
                }
            }
            _ if outer.wants_table => {
                // A query, or tables that are joined in parentheses.
                outer.wants_table = false;
                level.in_from = true;
                level.wants_table = true;
            }
            _ => {}
        }
        self.levels.push(level);
        self.at += 1;
    }

    fn close(&mut self) {
        self.at += 1;
        if self.levels.len() == 1 {
            return;
        }
        let level = self.levels.pop().expect("there are two");
        self.visible.truncate(level.visible_count);
        self.visible.extend(level.named);
    }

    fn comma(&mut self) {
        self.at += 1;
        let level = self.level();
        if let With::Done { is_recursive } = level.with {
            level.with = With::Name { is_recursive };
        } else if level.in_from {
            level.wants_table = true;
        }
    }

    fn word(&mut self, word: &'a str, is_first: bool, before: Token<'a>) {
        let is = |other: &str| word.eq_ignore_ascii_case(other);
        let next = self.token(1);
        let dialect = self.dialect;
        let level = self.level();
        if is_first && is("with") {
            level.with = With::Name {
                is_recursive: false,
            };
            level.wants_table = false;
        } else if let With::Name { is_recursive } = &mut level.with
            && is("recursive")
            && matches!(next, Token::Word(_) | Token::Quoted(_))
        {
            *is_recursive = true;
        } else if is("select") || is("values") || is("delete") {
            level.with = With::Absent;
            level.is_query = true;
            level.in_from = false;
            level.wants_table = false;
        } else if is("table") && (is_first || matches!(level.with, With::Done { .. })) {
            level.with = With::Absent;
            level.wants_table = true;
        } else if is("from") && level.is_query && !self::is(before, "distinct") {
            level.in_from = true;
            level.wants_table = true;
        } else if level.in_from && (is("join") || is("straight_join")) {
            level.wants_table = true;
        } else if level.in_from && is_end_of_from(word) {
            level.in_from = false;
            level.wants_table = false;
        } else if is("in") && dialect == Dialect::Sqlite && matches!(next, Token::Word(_)) {
            // `x in t` reads a table.
            level.wants_table = true;
        } else if level.wants_table && self.is_before_table(word, next) {
            // A word that modifies the following table.
        } else {
            return self.name();
        }
        self.at += 1;
    }

    /// Whether a word precedes a table and is not a table itself: `only t`, `lateral (…)`, `rows
    /// from (f())`.
    fn is_before_table(&self, word: &str, next: Token<'_>) -> bool {
        let is = |other: &str| word.eq_ignore_ascii_case(other);
        match next {
            Token::Word(next) => {
                is("only") && !next.eq_ignore_ascii_case("as")
                    || is("lateral")
                    || is("rows") && next.eq_ignore_ascii_case("from")
                    || is("from")
            }
            Token::Quoted(_) => is("only") || is("lateral"),
            Token::Open => is("only") || is("lateral") || is("from"),
            _ => false,
        }
    }

    /// Processes a name that may be that of a table, or a word without meaning here.
    fn name(&mut self) {
        let level = self.level();
        let wants_table = std::mem::take(&mut level.wants_table);
        if let With::Name { is_recursive } = level.with {
            let name = self.part().name().to_owned();
            self.at += 1;
            self.level().with = With::Query { name, is_recursive };
            return;
        }
        if !wants_table {
            self.at += 1;
            return;
        }
        let start = self.tokens[self.at].1;
        let mut parts = vec![self.part()];
        let mut end = self.tokens[self.at].2;
        self.at += 1;
        while self.token(0) == Token::Dot
            && matches!(self.token(1), Token::Word(_) | Token::Quoted(_))
        {
            self.at += 1;
            parts.push(self.part());
            end = self.tokens[self.at].2;
            self.at += 1;
        }
        let is_visible = |name: &str| {
            let mut visible = self.visible.iter();
            visible.any(|visible| visible.eq_ignore_ascii_case(name))
        };
        let is_dual = |part: &Part<'_>| {
            self.dialect == Dialect::Mysql && part.name().eq_ignore_ascii_case("dual")
        };
        if let [part] = &*parts
            && (is_visible(part.name()) || is_dual(part))
        {
            return;
        }
        self.found.push(Relation {
            text: &self.sql[start..end],
            start,
            parts,
            is_function: self.token(0) == Token::Open,
        });
    }

    /// The name at the current token.
    fn part(&self) -> Part<'a> {
        match self.token(0) {
            Token::Word(word) => Part::Bare(word),
            Token::Quoted(quoted) => Part::Quoted(unquoted(quoted)),
            other => unreachable!("{other:?} is not a name"),
        }
    }
}

fn is(token: Token<'_>, word: &str) -> bool {
    matches!(token, Token::Word(seen) if seen.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::Dialect::{Mysql, Postgres, Sqlite};
    use super::*;

    fn check_in(dialect: Dialect, sql: &str, expected: &[&str]) {
        let found: Vec<String> = relations(sql, dialect)
            .iter()
            .map(|relation| {
                let call = if relation.is_function { "()" } else { "" };
                format!("{}{call}", relation.text)
            })
            .collect();
        assert_eq!(found, expected, "{dialect:?}: {sql}");
    }

    fn check(sql: &str, expected: &[&str]) {
        check_in(Postgres, sql, expected);
        check_in(Mysql, sql, expected);
        check_in(Sqlite, sql, expected);
    }

    #[test]
    fn tables_are_found() {
        check("select 1", &[]);
        check("select a from t", &["t"]);
        check(
            "SELECT a FROM t AS x, public.u y WHERE a = b",
            &["t", "public.u"],
        );
        check("select * from a.b.c", &["a.b.c"]);
        check("select a from t where b in (1, 2) order by c, d", &["t"]);
        check(
            "select * from t join u on f(t.a, u.b) = 1, v left join w using (a, b)",
            &["t", "u", "v", "w"],
        );
        check("select * from (t join u on true), v", &["t", "u", "v"]);
        check("select (select max(x) from u), y from t", &["u", "t"]);
        check("select * from (select * from t) as x, u", &["t", "u"]);
        check("select * from ((select * from t)) x", &["t"]);
        check(
            "select * from t where exists (select 1 from u where u.a = t.a)",
            &["t", "u"],
        );
        check(
            "select a from t union all select b from u order by 1",
            &["t", "u"],
        );
        check("select t.from, t.join from t", &["t"]);
        check("select * from (values (1), (2)) as v", &[]);
        check("select * from f(1, 'x') as g, t", &["f()", "t"]);
        check("select a from t group by a, b having count(*) > 1", &["t"]);
        check("select a from", &[]);
        check("select a from (", &[]);
        check("select a from t)) , u", &["t", "u"]);
        check("select a from :t", &[]);
        check(
            "select count(*) filter (where a) over (partition by b order by c) from t",
            &["t"],
        );
    }

    #[test]
    fn not_every_from_is_one() {
        check("select extract(year from at) from t", &["t"]);
        check(
            "select trim(both ' ' from a), substring(a from 2 for 3) from t",
            &["t"],
        );
        check(
            "select a is distinct from b, a is not distinct from c from t",
            &["t"],
        );
    }

    #[test]
    fn queries_with_names_are_no_tables() {
        check("with x as (select a from t) select * from x", &["t"]);
        check(
            "with x (a, b) as (select a from t), y as (select * from x) select * from y, u",
            &["t", "u"],
        );
        // Not visible in itself, unless it is recursive.
        check("with t as (select * from t) select * from t", &["t"]);
        check(
            "with recursive t as (select 1 union select n + 1 from t) select * from t",
            &[],
        );
        check(
            "select * from (with x as (select a from t) select * from x) z, x",
            &["t", "x"],
        );
        check("with x as (select 1) select * from s.x", &["s.x"]);
        check_in(
            Postgres,
            "with x as not materialized (select * from t) table x",
            &["t"],
        );
        check_in(
            Postgres,
            "with \"X\" as (select 1) select * from \"X\"",
            &[],
        );
        check("select a from t group by a with rollup", &["t"]);
    }

    #[test]
    fn dialects_have_their_own() {
        check_in(
            Postgres,
            "select * from only t, lateral f(t.a) x",
            &["t", "f()"],
        );
        check_in(Postgres, "select * from only (t)", &["t"]);
        check_in(
            Postgres,
            "select * from rows from (f(1), g(2)) as x",
            &["f()", "g()"],
        );
        check_in(Postgres, "(select a from t) union (table u)", &["t", "u"]);
        check_in(Postgres, "select a from t for update of t, u", &["t"]);
        check_in(
            Postgres,
            "select * from \"A b\".\"c\"\"d\" x",
            &["\"A b\".\"c\"\"d\""],
        );
        check_in(
            Postgres,
            "select * from f(1) with ordinality as x, t",
            &["f()", "t"],
        );
        check_in(
            Mysql,
            "select * from `a b`.`c` straight_join d",
            &["`a b`.`c`", "d"],
        );
        check_in(Mysql, "select 1 from dual", &[]);
        check_in(
            Mysql,
            "select * from t use index (a, b) where a limit 1, 2",
            &["t"],
        );
        check_in(Mysql, "select \"x from u\" from t", &["t"]);
        check_in(Sqlite, "select * from [a b] where x in t", &["[a b]", "t"]);
        check_in(
            Sqlite,
            "select * from t, json_each(t.a)",
            &["t", "json_each()"],
        );
    }

    #[test]
    fn parts_lose_their_quotes() {
        let found = relations("select * from s.\"A\"\"b\"", Postgres);
        assert_eq!(
            found[0].parts,
            [Part::Bare("s"), Part::Quoted("A\"b".into())]
        );
    }
}
