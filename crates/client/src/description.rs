//! The parameters and columns of a statement, without running it.

use std::sync::Arc;

use lookaside_value::{RowSet, Text, Value};

use crate::Request;

/// A statement's parameters and columns, as the server described them when it was prepared.
///
/// After a schema change, it is updated once a query has noticed the change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The names of its columns; none if it returns no rows.
    pub columns: Arc<[Text]>,
    /// Their types by the server's names, such as `int4` or `varchar`. The names of enums and other
    /// user-defined types take another query on PostgreSQL, which `describe` runs; the answer to a
    /// plain [`Request::describe`] has their numbers instead, such as `type 16385`.
    pub column_types: Box<[Text]>,
    /// The types of its parameters, named the same way.
    pub parameter_types: Box<[Text]>,
}

impl Description {
    /// The request for the names of types that are only known by number, if there are any: enums,
    /// domains, composites, and types of extensions. For PostgreSQL.
    pub(crate) fn type_query(&self) -> Option<Request> {
        let names = self.column_types.iter().chain(&self.parameter_types);
        let oids: Vec<_> = names.filter_map(|name| number(name)).collect();
        let list = format!("{{{}}}", oids.join(","));
        (!oids.is_empty()).then(|| Request::new(TYPE_QUERY, &[Value::from(list)]))
    }

    /// Fills in the names from the answer to [`type_query`](Self::type_query).
    pub(crate) fn named(&self, names: &RowSet) -> Self {
        let named = |types: &[Text]| {
            types
                .iter()
                .map(|name| {
                    let mut rows = names.iter();
                    let row = rows.find(|row| number(name) == row[0].as_str());
                    row.and_then(|row| row[1].as_str())
                        .map_or_else(|| name.clone(), Text::from)
                })
                .collect()
        };
        Self {
            columns: Arc::clone(&self.columns),
            column_types: named(&self.column_types),
            parameter_types: named(&self.parameter_types),
        }
    }
}

/// The numbers and names of the types with these numbers.
const TYPE_QUERY: &str = "select oid::text, pg_catalog.format_type(oid, null) \
                          from pg_catalog.pg_type where oid = any($1::text::oid[])";

/// The number of a type that is only known by number.
fn number(name: &Text) -> Option<&str> {
    name.strip_prefix("type ")
}
