//! The key of a statement that finds one row: the columns that it compares with parameters.

use lookaside_value::{Text, Value};
use rusqlite::types::Value as SqlValue;

use super::operand::Operand;
use super::shape::{Condition, shape_of};

/// The columns by which a statement looks up a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OneRowKey {
    pub(crate) table: String,
    /// The columns that equal parameters, sorted.
    pub(crate) columns: Vec<String>,
    /// The columns that equal constants.
    pub(crate) constants: Vec<(String, SqlValue)>,
}

/// The key of a statement whose parameters are `params`. `None` if it has another form, compares the
/// result of a function, or defines by `order by` or `limit` which of several rows it returns.
pub(crate) fn one_row_key(sql: &str, params: &[Text]) -> Option<OneRowKey> {
    let shape = shape_of(sql, params).ok()?;
    let Condition::Equal(terms) = shape.condition else {
        return None;
    };
    if shape.is_limited || shape.order.is_some() {
        return None;
    }
    let mut key = OneRowKey {
        table: shape.table,
        columns: Vec::new(),
        constants: Vec::new(),
    };
    for (term, operand) in terms {
        // The keys are counted by SQL over columns.
        if term.function.is_some() {
            return None;
        }
        let column = term.column;
        match operand {
            Operand::Literal(Value::Int(int)) => key.constants.push((column.value, int.into())),
            Operand::Literal(Value::Text(text)) => {
                key.constants.push((column.value, text.to_string().into()));
            }
            Operand::Literal(_) => return None,
            Operand::Param(_) | Operand::Bool(..) | Operand::Call(..) => {
                key.columns.push(column.value);
            }
        }
    }
    key.columns.sort_unstable();
    (!key.columns.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_statements_that_find_one_row() {
        let params: Vec<Text> = ["x", "y"].map(Text::from).into();
        for (sql, expected) in [
            ("select a from t where k = :x", Some((&["k"][..], 0))),
            ("select a from t where fold(k) = fold(:x)", None),
            ("select a from t as u where :x = u.k", Some((&["k"], 0))),
            (
                "select a from t where m = :x and k = trim_quotes(:y)",
                Some((&["k", "m"], 0)),
            ),
            (
                "select a from t where m = :x and k = 'c' and n = 7",
                Some((&["m"], 2)),
            ),
            ("select a from t where k = 'c'", None),
            ("select a from t where k = :x limit 1", None),
            ("select a from t where k = :x order by a desc", None),
            ("select a from t where k > :x", None),
            ("select a from t where k = :x or m = :y", None),
            ("select count(*) from t where k = :x", None),
            ("select a from t join u on t.k = u.k where t.k = :x", None),
            ("select", None),
        ] {
            let found = one_row_key(sql, &params);
            let found = found.map(|key| (key.columns, key.constants.len()));
            let expected = expected.map(|(columns, constant_count)| {
                let columns: Vec<String> = columns.iter().map(|it| (*it).to_owned()).collect();
                (columns, constant_count)
            });
            assert_eq!(found, expected, "{sql}");
        }
    }
}
