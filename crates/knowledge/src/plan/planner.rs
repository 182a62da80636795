//! Finds the native plan of a statement, if its table and SQLite's own plan allow one.

use lookaside_value::Text;
use rusqlite::Connection;
use sqlparser::ast::Ident;

use super::build::{
    Class, Interval, IntervalColumns, KEY_COLUMN_COUNT_MAX, KeyPart, Rules, Stored,
};
use super::first_row;
use super::key::Affinity;
use super::operand::Operand;
use super::reason::Reason;
use super::schema::Table;
use super::shape::{Condition, KeyColumn, Order, OrderFunction, Projected, Relation, Shape};
use super::table_rows::Numbering;
use super::tables::TableCache;
use super::{Compared, Native, NativeProbe};
use crate::functions::Function;
use crate::index::{Bound, ListOrder};

/// Finds the native plan of a shape, if the table and SQLite's own plan allow one.
pub(super) fn plan(
    sql: &str,
    params: &[Text],
    shape: Shape,
    tables: &mut TableCache,
) -> Result<Native, Reason> {
    let table = tables.table(&shape.table)?;
    let projection = resolve_projection(&table, &shape.projection)?;
    let seen = SeenBySqlite::prepare(&tables.connection, sql)?;
    seen.check(&table, &projection, &shape, params)?;
    let has_samples = first_row::has_samples(&tables.connection)?;
    let mut has_call = false;
    shape
        .condition
        .visit_operands(&mut |operand| has_call |= operand.is_call());
    if has_samples && has_call {
        return Err(Reason::fixed(
            "it calls a function, and there are samples of `analyze`",
        ));
    }
    // SQLite's sorter is stable: it returns equal rows in the order in which it reads them.
    let (details, is_sorted) = match seen.details.as_slice() {
        [read, sorted] if sorted == SORTED => (std::slice::from_ref(read), true),
        details => (details, false),
    };
    let in_scan_order = !has_samples
        && first_row::is_scan_order(
            &tables.connection,
            &table,
            shape.table_alias.as_deref(),
            details,
        )?;
    let order = shape.order.as_ref();
    let mut invalid_keys = None;
    let (probe, key_columns) = match shape.condition {
        Condition::Equal(_) if matches!(order, Some(Order::Descending { .. })) => {
            return Err(Reason::fixed(
                "it is ordered, and its condition is not an interval",
            ));
        }
        Condition::Equal(terms) => {
            let mut columns: Vec<KeyPart> = Vec::new();
            let mut parts = Vec::new();
            for (key, operand) in terms {
                let (column, affinity) = key_part(&table, &key)?;
                if columns.iter().any(|it| it.column == column.column) {
                    return Err(Reason::fixed("it compares one column twice"));
                }
                columns.push(column);
                let operand = match (operand, table.column(column.column).words) {
                    (Operand::Param(position), Some(words)) if column.function.is_none() => {
                        Operand::Bool(position, words)
                    }
                    (operand, _) => operand,
                };
                parts.push(Compared { operand, affinity });
            }
            if columns.len() > KEY_COLUMN_COUNT_MAX {
                return Err(Reason::fixed("it compares very many columns"));
            }
            let names = columns.iter().map(|part| part.column).collect();
            let index = tables.hash(&table, columns)?;
            (NativeProbe::Hash { index, parts }, names)
        }
        Condition::Within { low, high } => {
            let (low_column, low_affinity) = key_column(&table, &low.column)?;
            let (high_column, high_affinity) = key_column(&table, &high.column)?;
            let has_words = |column| table.column(column).words.is_some();
            if has_words(low_column) || has_words(high_column) {
                return Err(Reason::fixed("a bound is a column of booleans"));
            }
            check_order(&table, order, low_column, None)?;
            let interval = tables.interval(
                &table,
                IntervalColumns {
                    low: (low_column, low.bound),
                    high: (high_column, high.bound),
                    rules: Rules::Comparison,
                },
            )?;
            if interval.class == Class::Text {
                for column in [low_column, high_column] {
                    if tables.census(&table, column)?.holds_addresses() {
                        return Err(ADDRESS_TEXT);
                    }
                }
            }
            let sides = [(low.operand, low_affinity), (high.operand, high_affinity)];
            let [low, high] = sides.map(|(operand, affinity)| Compared { operand, affinity });
            let probe = within(interval, low, high)?;
            (probe, vec![low_column, high_column])
        }
        Condition::WithinKeys { low, high } => {
            // The result of a function has no affinity and no collation.
            let (low_column, _) = column(&table, &low.column)?;
            let (high_column, _) = column(&table, &high.column)?;
            let function = OrderFunction::Own(Function::IpKey);
            check_order(&table, order, low_column, Some(function))?;
            let interval = tables.interval(
                &table,
                IntervalColumns {
                    low: (low_column, low.bound),
                    high: (high_column, high.bound),
                    rules: Rules::IpKeys,
                },
            )?;
            let affinity = Affinity::Blob;
            let [low, high] = [low, high].map(|side| Compared {
                operand: side.operand,
                affinity,
            });
            let probe = within(interval, low, high)?;
            (probe, vec![low_column, high_column])
        }
        Condition::Ip4Between { ip, low, high } => {
            // The function gets the values unchanged: no affinity, no collation.
            let (low_column, _) = column(&table, &low)?;
            let (high_column, _) = column(&table, &high)?;
            let interval = tables.interval(
                &table,
                IntervalColumns {
                    low: (low_column, Bound::Inclusive),
                    high: (high_column, Bound::Inclusive),
                    rules: Rules::Ip4Between,
                },
            )?;
            if let Some(Order::Descending { function, .. }) = order {
                check_order(&table, order, low_column, *function)?;
                check_address_order(*function, &interval)?;
            }
            let probe = NativeProbe::Ip4Between { interval, ip };
            (probe, vec![low_column, high_column])
        }
        Condition::Related {
            relation,
            operand,
            column: name,
        } => {
            // The function gets the values unchanged: no affinity, no collation.
            let (position, _) = column(&table, &name)?;
            match relation {
                Relation::Network => {
                    let function = OrderFunction::Own(Function::CidrLen);
                    check_order(&table, order, position, Some(function))?;
                }
                Relation::Host | Relation::Path => {
                    check_order(&table, order, position, Some(OrderFunction::Length))?;
                }
                Relation::Pattern if matches!(order, Some(Order::Descending { .. })) => {
                    return Err(Reason::fixed("patterns are ordered by `rowid` only"));
                }
                Relation::Pattern => {}
            }
            let related = tables.relation(&table, position, relation)?;
            invalid_keys = related.invalid_keys;
            let index = related.index;
            (NativeProbe::Related { index, operand }, vec![position])
        }
    };
    let columns = projection.iter().map(|(column, _)| *column).collect();
    let numbering = match probe {
        NativeProbe::Hash { .. } => Numbering::Packed,
        _ => Numbering::Scan,
    };
    let rows = tables.snapshot(&table, columns, seen.columns, numbering)?;
    let is_by_row_id = |row_id: &Ident| -> Result<bool, Reason> {
        let (position, _) = column(&table, row_id)?;
        Ok(table.is_rowid(position))
    };
    let (list_order, is_total) = match order {
        None => (ListOrder::Scan, false),
        Some(Order::RowId(row_id)) if is_by_row_id(row_id)? => (ListOrder::Scan, true),
        Some(Order::Descending { row_id: None, .. }) => (ListOrder::LowDescending, false),
        Some(Order::Descending {
            row_id: Some(row_id),
            ..
        }) if is_by_row_id(row_id)? => (ListOrder::LowDescending, true),
        _ => return Err(OTHER_ORDER),
    };
    let is_first_known = in_scan_order || order.is_some();
    if !is_first_known && probe.has_several() {
        return Err(UNKNOWN_FIRST);
    }
    let are_ties_known = is_total || is_sorted && in_scan_order;
    if list_order == ListOrder::LowDescending && !are_ties_known && probe.has_ties() {
        return Err(UNKNOWN_TIES);
    }
    Ok(Native {
        probe,
        rows,
        row_count: tables.row_count(&table)? as u32,
        is_first_known,
        list_order,
        is_limited: shape.is_limited,
        key_columns: key_columns
            .into_iter()
            .map(|column| table.column(column).name.clone())
            .collect(),
        table: table.name.as_str().into(),
        invalid_keys,
    })
}

const UNKNOWN_FIRST: Reason = Reason::fixed(
    "several of its rows may match, and SQLite's own order of them is not the table's; add `order by rowid`",
);

const UNKNOWN_TIES: Reason = Reason::fixed(
    "its order leaves some rows equal, and SQLite's own order of them is not the table's; add `rowid` to `order by`",
);

/// The probe of an interval, if both bounds may be compared with the same value.
fn within(interval: Interval, low: Compared, high: Compared) -> Result<NativeProbe, Reason> {
    let is_literal = |it: &Compared| matches!(it.operand, Operand::Literal(_));
    let high = (high != low).then_some(high);
    let is_other =
        |high: &Compared| is_literal(&low) || is_literal(high) || low.operand == high.operand;
    if high.as_ref().is_some_and(is_other) {
        return Err(Reason::fixed(
            "the bounds of its interval are compared with two values",
        ));
    }
    Ok(NativeProbe::Interval {
        interval,
        key: low,
        high: high.map(Box::new),
    })
}

/// How SQLite's plan says that it sorts rows.
const SORTED: &str = "USE TEMP B-TREE FOR ORDER BY";

/// SQLite answers such a statement as written, and a warning suggests the intended form
/// ([`super::warnings`]): a wrong statement gets no native plan.
const ADDRESS_TEXT: Reason =
    Reason::fixed("its bounds are addresses in text, and text does not sort as addresses do");

/// Positions of the projected columns, each with its alias.
fn resolve_projection(
    table: &Table,
    projection: &[Projected],
) -> Result<Vec<(usize, Option<String>)>, Reason> {
    let mut resolved = Vec::new();
    for projected in projection {
        match projected {
            Projected::All => resolved.extend((0..table.declared_count).map(|index| (index, None))),
            Projected::Column { name, alias } => {
                let (position, _) = column(table, name)?;
                resolved.push((position, alias.as_ref().map(|alias| alias.value.clone())));
            }
        }
    }
    Ok(resolved)
}

fn column(table: &Table, name: &Ident) -> Result<(usize, Affinity), Reason> {
    // A name that no column has may still be valid in SQLite: a text in double quotes.
    let unknown = || Reason::new(format!("`{}` has no column `{}`", table.name, name.value));
    let position = table.position(&name.value).ok_or_else(unknown)?;
    if table.is_rowid(position) && name.quote_style.is_some() {
        return Err(unknown());
    }
    Ok((position, table.column(position).affinity))
}

/// A column that is compared by `=`, or a function of it, whose result has no affinity and no
/// collation.
fn key_part(table: &Table, key: &KeyColumn) -> Result<(KeyPart, Affinity), Reason> {
    let (column, affinity) = match key.function {
        Some(_) => (column(table, &key.column)?.0, Affinity::Blob),
        None => key_column(table, &key.column)?,
    };
    let function = key.function;
    Ok((KeyPart { column, function }, affinity))
}

/// A column that is compared by SQL's operators.
fn key_column(table: &Table, name: &Ident) -> Result<(usize, Affinity), Reason> {
    let (position, affinity) = column(table, name)?;
    if !table.column(position).is_binary {
        let name = &name.value;
        return Err(Reason::new(format!(
            "column `{name}` has a collation other than BINARY"
        )));
    }
    Ok((position, affinity))
}

const OTHER_ORDER: Reason = Reason::fixed("it has an order that native plans do not support");

/// Checks that the order is absent, or by the row id, or by a column in this form.
fn check_order(
    table: &Table,
    order: Option<&Order>,
    low_column: usize,
    expected: Option<OrderFunction>,
) -> Result<(), Reason> {
    let Some(Order::Descending {
        column: name,
        function,
        ..
    }) = order
    else {
        return Ok(());
    };
    match column(table, name)?.0 == low_column && *function == expected {
        true => Ok(()),
        false => Err(OTHER_ORDER),
    }
}

/// The index sorts the lower bounds of `ip4_between` as addresses. SQLite does the same if they are
/// stored as integers; if they are text, `order by ip4_int(…)` does, which is an error for
/// integers.
fn check_address_order(function: Option<OrderFunction>, interval: &Interval) -> Result<(), Reason> {
    const IP4_INT: Option<OrderFunction> = Some(OrderFunction::Own(Function::Ip4Int));
    match (function, interval.low) {
        (_, Stored::None) | (None, Stored::Int) | (IP4_INT, Stored::Text) => Ok(()),
        (None, Stored::Text) => Err(Reason::fixed(
            "it is ordered by addresses in text, and text does not sort as addresses do",
        )),
        _ => Err(OTHER_ORDER),
    }
}

/// SQLite's interpretation of the statement, to be compared with that of the parser.
struct SeenBySqlite {
    columns: Vec<Text>,
    params: Vec<String>,
    /// The lines of SQLite's plan.
    details: Vec<String>,
}

impl SeenBySqlite {
    fn prepare(connection: &Connection, sql: &str) -> Result<Self, Reason> {
        let statement = connection.prepare(sql)?;
        let columns = statement.column_names().map(Text::from).collect();
        let params = (1..=statement.parameter_count())
            .map(|index| statement.parameter_name(index).unwrap_or("?").to_string())
            .collect();
        let mut explain = connection.prepare(&format!("explain query plan {sql}"))?;
        let details = explain
            .raw_query()
            .mapped(|row| row.get("detail"))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            columns,
            params,
            details,
        })
    }

    fn check(
        &self,
        table: &Table,
        projection: &[(usize, Option<String>)],
        shape: &Shape,
        params: &[Text],
    ) -> Result<(), Reason> {
        let differs = Reason::fixed("SQLite reads it differently");
        let mut used: Vec<String> = Vec::new();
        shape.condition.visit_operands(&mut |operand| {
            operand.visit_params(&mut |position| used.push(format!(":{}", params[position])));
        });
        let same_params = used.iter().all(|name| self.params.contains(name))
            && self.params.iter().all(|name| used.contains(name));
        let same_columns = self.columns.len() == projection.len()
            && self
                .columns
                .iter()
                .zip(projection)
                .all(|(seen, (position, alias))| {
                    match alias {
                        Some(alias) => seen.as_str() == alias,
                        // SQLite reports the row id by the name of a column that is an alias of it.
                        None if table.is_rowid(*position) => true,
                        None => *seen == table.column(*position).name,
                    }
                });
        if same_params && same_columns {
            Ok(())
        } else {
            Err(differs)
        }
    }
}
