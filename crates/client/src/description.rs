//! What a statement takes and gives, without running it.

use std::sync::Arc;

use lookaside_value::{RowSet, Text, Value};

use crate::Request;

/// A statement's parameters and columns, as the server described them when it was prepared.
///
/// A change of the schema shows here once a query has met it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The names of its columns; none where it gives no rows.
    pub columns: Arc<[Text]>,
    /// Their types by the server's names, such as `int4` or `varchar`. PostgreSQL is asked once
    /// more for the names of an enum and of other types that a database defines itself; what is
    /// read from a [`Request::describe`] of one's own has their numbers, `type 16385`.
    pub column_types: Box<[Text]>,
    /// The types of its parameters, named alike.
    pub parameter_types: Box<[Text]>,
}

impl Description {
    /// What asks a PostgreSQL for the names of the types that are known by their numbers alone, if
    /// there are some: enums, domains, composites, and types of extensions.
    pub(crate) fn type_query(&self) -> Option<Request> {
        let names = self.column_types.iter().chain(&self.parameter_types);
        let oids: Vec<_> = names.filter_map(|name| number(name)).collect();
        let list = format!("{{{}}}", oids.join(","));
        (!oids.is_empty()).then(|| Request::new(TYPE_QUERY, &[Value::from(list)]))
    }

    /// The same with the names that the answer to [`type_query`](Self::type_query) has.
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

/// The number of a type that is known by nothing else.
fn number(name: &Text) -> Option<&str> {
    name.strip_prefix("type ")
}
