//! Statements, their registry, and parameters by name or position.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lookaside_value::{StatementId, Text, Value};

use crate::Result;
use crate::error::Error;

/// The most statements of one engine; each has a plan and perhaps an index.
const STATEMENT_COUNT_MAX: usize = 65_536;

/// The most SQL texts that are registered because they were queried as text, without being
/// prepared; further texts are answered without plan and cache, so that a service can accept any
/// number of them.
const AD_HOC_COUNT_MAX: usize = 1024;

/// A prepared statement of one [`Knowledge`](crate::Knowledge); a clone is one increment of a
/// reference counter.
///
/// It is valid in all sessions and stays valid over reloads.
#[derive(Clone, Debug)]
pub struct Statement(pub(crate) Arc<StatementInfo>);

#[derive(Debug)]
pub(crate) struct StatementInfo {
    /// The engine that prepared it.
    pub(crate) engine: u64,
    pub(crate) id: StatementId,
    pub(crate) sql: Box<str>,
    pub(crate) params: Box<[Text]>,
    /// Whether the parameters are numbered by their first appearance in the text.
    is_natural: bool,
    /// The number of users of the statement; a reload may only drop it if there are none. A reload
    /// that misses a change sees it next time, so `Relaxed` is enough.
    pins: AtomicU64,
}

impl Statement {
    /// The position in the engine's registry.
    pub fn id(&self) -> StatementId {
        self.0.id
    }

    /// The text as it was prepared.
    pub fn sql(&self) -> &str {
        &self.0.sql
    }

    /// The names of the parameters, in the order in which values are given by position.
    pub fn params(&self) -> &[Text] {
        &self.0.params
    }
}

impl StatementInfo {
    /// An unregistered statement; its parameters are those that the scanner found.
    pub(crate) fn unregistered(engine: u64, sql: &str, params: Vec<Text>) -> Self {
        Self {
            engine,
            id: StatementId::from_index(STATEMENT_COUNT_MAX),
            sql: sql.into(),
            params: params.into(),
            is_natural: true,
            pins: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn pin(&self) {
        self.pins.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unpin(&self) {
        let step = |pins: u64| Some(pins.saturating_sub(1));
        // The closure never returns `None`.
        let _ = self
            .pins
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
    }

    /// Checks that there is one value for each parameter.
    #[inline]
    pub(crate) fn check_count(&self, count: usize) -> Result<()> {
        if count == self.params.len() {
            Ok(())
        } else {
            Err(Error::value_count(&self.sql, &self.params, count))
        }
    }

    /// Puts the parameters in the order of the statement.
    pub(crate) fn to_positional<'p>(&self, params: Params<'p>) -> Result<Cow<'p, [Value]>> {
        let named = match params {
            Params::Positional(values) => {
                self.check_count(values.len())?;
                return Ok(Cow::Borrowed(values));
            }
            Params::Named(named) => named,
        };
        let mut values: Vec<Option<&Value>> = vec![None; self.params.len()];
        for (name, value) in named {
            let bare = name.strip_prefix(':').unwrap_or(name);
            let Some(index) = self.params.iter().position(|param| *param == bare) else {
                return Err(Error::parameter_unknown(&self.sql, bare, &self.params));
            };
            if values[index].replace(value).is_some() {
                return Err(Error::parameter_twice(&self.sql, bare));
            }
        }
        let missing: Vec<&Text> = (self.params.iter().zip(&values))
            .filter_map(|(param, value)| value.is_none().then_some(param))
            .collect();
        if !missing.is_empty() {
            return Err(Error::parameter_missing(&self.sql, &missing));
        }
        Ok(Cow::Owned(values.into_iter().flatten().cloned().collect()))
    }
}

/// The parameters of one query: by position in the order of [`Statement::params`], or by name.
///
/// Names may be written with or without their colon. A missing, unknown or repeated name is an
/// error.
#[derive(Clone, Copy, Debug)]
pub enum Params<'a> {
    /// A value for each parameter, in order.
    Positional(&'a [Value]),
    /// A name and a value for each parameter, in any order.
    Named(&'a [(&'a str, Value)]),
}

impl<'a> From<&'a [Value]> for Params<'a> {
    fn from(values: &'a [Value]) -> Self {
        Self::Positional(values)
    }
}

impl<'a, const COUNT: usize> From<&'a [Value; COUNT]> for Params<'a> {
    fn from(values: &'a [Value; COUNT]) -> Self {
        Self::Positional(values)
    }
}

impl<'a> From<&'a Vec<Value>> for Params<'a> {
    fn from(values: &'a Vec<Value>) -> Self {
        Self::Positional(values)
    }
}

impl<'a> From<&'a [(&'a str, Value)]> for Params<'a> {
    fn from(named: &'a [(&'a str, Value)]) -> Self {
        Self::Named(named)
    }
}

impl<'a, const COUNT: usize> From<&'a [(&'a str, Value); COUNT]> for Params<'a> {
    fn from(named: &'a [(&'a str, Value); COUNT]) -> Self {
        Self::Named(named)
    }
}

impl From<()> for Params<'_> {
    fn from((): ()) -> Self {
        Self::Positional(&[])
    }
}

/// Parameters by name: `params! {"id" => 5, "name" => "x"}`.
///
/// ```
/// use lookaside_knowledge::{Params, params};
///
/// let named = params! {"id" => 5, "name" => "x"};
/// assert!(matches!(Params::from(&named), Params::Named([_, ("name", _)])));
/// // `()` means no parameters, as does this.
/// assert!(matches!(Params::from(&params! {}), Params::Named([])));
/// ```
#[macro_export]
macro_rules! params {
    () => {{
        // The type annotation is needed for an empty list.
        let none: [(&'static str, $crate::Value); 0] = [];
        none
    }};
    ($($name:expr => $value:expr),+ $(,)?) => {
        [$(($name, $crate::Value::from($value))),+]
    };
}

/// The statement of a query: prepared, or a SQL text that is prepared on first use.
#[derive(Clone, Copy, Debug)]
pub enum Query<'a> {
    /// SQL text.
    Text(&'a str),
    /// A prepared statement.
    Statement(&'a Statement),
}

impl<'a> Query<'a> {
    pub(crate) fn sql(self) -> &'a str {
        match self {
            Self::Text(sql) => sql,
            Self::Statement(statement) => statement.sql(),
        }
    }
}

impl<'a> From<&'a str> for Query<'a> {
    fn from(sql: &'a str) -> Self {
        Self::Text(sql)
    }
}

impl<'a> From<&'a String> for Query<'a> {
    fn from(sql: &'a String) -> Self {
        Self::Text(sql)
    }
}

impl<'a> From<&'a Statement> for Query<'a> {
    fn from(statement: &'a Statement) -> Self {
        Self::Statement(statement)
    }
}

/// All statements of an engine, by position and by text.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    statements: Vec<Statement>,
    /// The same text may have several statements, with different orders of its parameters.
    by_text: HashMap<Box<str>, Vec<StatementId>>,
    /// Statements that were queried as text.
    ad_hoc_count: usize,
}

/// How a statement was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Prepared,
    /// Queried as text.
    AdHoc,
}

/// Whether the registry admits a new text.
pub(crate) enum Admission {
    /// There is room for it.
    Room,
    /// No more texts are admitted without being prepared.
    AdHocFull,
}

impl Registry {
    /// The statement with this text and its parameters in this order.
    pub(crate) fn find(&self, sql: &str, params: &[Text]) -> Option<&Statement> {
        self.of_text(sql)
            .find(|statement| statement.params() == params)
    }

    /// The statement with this text and its parameters in the order of their first appearance, as
    /// used for values by position.
    pub(crate) fn find_text(&self, sql: &str) -> Option<&Statement> {
        self.of_text(sql).find(|statement| statement.0.is_natural)
    }

    fn of_text(&self, sql: &str) -> impl Iterator<Item = &Statement> {
        let ids = self.by_text.get(sql).into_iter().flatten();
        ids.map(|id| &self.statements[id.index()])
    }

    /// Whether a statement that is not prepared may be added.
    pub(crate) fn admission(&self) -> Admission {
        if self.ad_hoc_count < AD_HOC_COUNT_MAX {
            Admission::Room
        } else {
            Admission::AdHocFull
        }
    }

    /// The statement with this text and parameters, added if it is missing; `natural` are its
    /// parameters in the order of their first appearance.
    pub(crate) fn add(
        &mut self,
        engine: u64,
        sql: &str,
        params: &[Text],
        natural: &[Text],
        origin: Origin,
    ) -> Result<Statement> {
        let is_natural = natural == params;
        if let Some(statement) = self.find(sql, params) {
            return Ok(statement.clone());
        }
        if self.statements.len() >= STATEMENT_COUNT_MAX {
            return Err(Error::too_many_statements(STATEMENT_COUNT_MAX));
        }
        let id = StatementId::from_index(self.statements.len());
        let statement = Statement(Arc::new(StatementInfo {
            engine,
            id,
            sql: sql.into(),
            params: params.into(),
            is_natural,
            pins: AtomicU64::new(0),
        }));
        self.ad_hoc_count += usize::from(origin == Origin::AdHoc);
        self.statements.push(statement.clone());
        self.by_text.entry(sql.into()).or_default().push(id);
        Ok(statement)
    }

    /// The statement at a position.
    pub(crate) fn statement(&self, id: StatementId) -> Option<&Statement> {
        self.statements.get(id.index())
    }

    /// How many statements there are.
    pub(crate) fn len(&self) -> usize {
        self.statements.len()
    }

    /// The statements that a reload must not drop.
    pub(crate) fn pinned(&self) -> Vec<Statement> {
        let statements = self.statements.iter();
        statements
            .filter(|statement| statement.0.is_pinned())
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(params: &[&str]) -> StatementInfo {
        let params = params.iter().map(|&param| Text::from(param)).collect();
        StatementInfo::unregistered(1, "select 1", params)
    }

    fn check(
        params: &[&str],
        given: &[(&str, Value)],
        expected: std::result::Result<&[i64], &str>,
    ) {
        match (info(params).to_positional(given.into()), expected) {
            (Ok(values), Ok(expected)) => {
                let expected: Vec<Value> = expected.iter().map(|&int| Value::Int(int)).collect();
                assert_eq!(values, expected);
            }
            (Err(error), Err(expected)) => {
                assert!(error.to_string().contains(expected), "{error}");
            }
            (seen, expected) => panic!("{seen:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn named_parameters_find_their_places() {
        check(&["a", "b"], &params! {"b" => 2, ":a" => 1}, Ok(&[1, 2]));
        check(&[], &[], Ok(&[]));
        check(&[], &params! {}, Ok(&[]));
        check(&["a", "b"], &params! {"a" => 1}, Err("`b`"));
        check(&["a"], &params! {"a" => 1, "c" => 2}, Err("`c`"));
        check(&["a"], &params! {"a" => 1, ":a" => 2}, Err("twice"));
    }

    #[test]
    fn positions_are_counted() {
        let error = info(&["a", "b"])
            .to_positional((&[Value::Null]).into())
            .unwrap_err();
        assert!(error.to_string().contains("2 parameters"), "{error}");
    }

    #[test]
    fn the_same_text_is_the_same_statement() {
        let mut registry = Registry::default();
        let params = [Text::from("a"), Text::from("b")];
        let turned = [Text::from("b"), Text::from("a")];
        let sql = "select :a, :b";
        let other = registry
            .add(1, sql, &turned, &params, Origin::Prepared)
            .unwrap();
        let first = registry
            .add(1, sql, &params, &params, Origin::AdHoc)
            .unwrap();
        let again = registry
            .add(1, sql, &params, &params, Origin::AdHoc)
            .unwrap();
        assert_eq!(first.id(), again.id());
        assert_ne!(first.id(), other.id());
        assert_eq!(
            registry.find("select :a, :b", &turned).unwrap().id(),
            other.id()
        );
        let natural = registry.find_text("select :a, :b").unwrap();
        assert_eq!(natural.id(), first.id());
        assert!(registry.find_text("select 1").is_none());
        assert_eq!(registry.ad_hoc_count, 1);
    }
}
