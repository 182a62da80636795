//! Items of the database: what is asked, and how rows become JSON.

use lookaside_value::Value;
use serde::Deserialize;

use super::json::{push_number, push_text};

/// The columns that make an item. Tags are JSON already, and come as their text.
macro_rules! columns {
    () => {
        "id, name, category, price, quantity, active, tags::text, rating_score, rating_count"
    };
}

pub(super) const RANGE: &str = concat!(
    "select ",
    columns!(),
    " from items where price between $1 and $2 limit $3"
);

pub(super) const ONE: &str = concat!("select ", columns!(), " from items where id = $1");

pub(super) const LIST: &str = concat!(
    "select ",
    columns!(),
    " from items where category = $1 order by id limit $2 offset $3"
);

pub(super) const CREATE: &str = concat!(
    "insert into items (id, name, category, price, quantity, active, tags, rating_score, \
     rating_count) values ($1, $2, $3, $4, $5, true, '[]', 0, 0) on conflict (id) do update set \
     name = excluded.name, category = excluded.category, price = excluded.price, \
     quantity = excluded.quantity returning ",
    columns!()
);

pub(super) const UPDATE: &str = concat!(
    "update items set name = $2, category = coalesce($3, category), price = $4, quantity = $5 \
     where id = $1 returning ",
    columns!()
);

/// The body of a creation.
#[derive(Debug, Deserialize)]
pub(super) struct Created {
    pub(super) id: i32,
    pub(super) name: String,
    pub(super) category: String,
    pub(super) price: i32,
    pub(super) quantity: i32,
}

/// The body of a change.
#[derive(Debug, Deserialize)]
pub(super) struct Changed {
    pub(super) name: String,
    pub(super) category: Option<String>,
    pub(super) price: i32,
    pub(super) quantity: i32,
}

/// Appends `{"items":[…],"count":n}`.
pub(super) fn write_range<'a>(rows: impl ExactSizeIterator<Item = &'a [Value]>, out: &mut Vec<u8>) {
    let count = rows.len();
    write_all(rows, out);
    out.extend_from_slice(b",\"count\":");
    push_number(out, count);
    out.push(b'}');
}

/// Appends `{"items":[…],"total":n,"page":p,"limit":l}`, where the total is that of the page.
pub(super) fn write_page<'a>(
    rows: impl ExactSizeIterator<Item = &'a [Value]>,
    page: i64,
    limit: i64,
    out: &mut Vec<u8>,
) {
    let count = rows.len();
    write_all(rows, out);
    out.extend_from_slice(b",\"total\":");
    push_number(out, count);
    out.extend_from_slice(b",\"page\":");
    push_number(out, page);
    out.extend_from_slice(b",\"limit\":");
    push_number(out, limit);
    out.push(b'}');
}

fn write_all<'a>(rows: impl Iterator<Item = &'a [Value]>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"items\":[");
    for (index, row) in rows.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_item(row, out);
    }
    out.push(b']');
}

/// Appends one item.
pub(super) fn write_item(row: &[Value], out: &mut Vec<u8>) {
    const NAMES: [&[u8]; 9] = [
        b"{\"id\":",
        b",\"name\":",
        b",\"category\":",
        b",\"price\":",
        b",\"quantity\":",
        b",\"active\":",
        b",\"tags\":",
        b",\"rating\":{\"score\":",
        b",\"count\":",
    ];
    const TAGS: usize = 6;
    for (index, (name, value)) in NAMES.iter().zip(row).enumerate() {
        out.extend_from_slice(name);
        match value {
            Value::Int(number) => push_number(out, *number),
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Text(text) if index == TAGS => out.extend_from_slice(text.as_bytes()),
            Value::Text(text) => push_text(out, text),
            // The table has no other types.
            _ => out.extend_from_slice(b"null"),
        }
    }
    out.extend_from_slice(b"}}");
}
