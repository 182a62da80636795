//! Items of the database: the queries, and the conversion of rows to JSON.

use lookaside_client::postgres::{RawRow, RawRows};
use serde::Deserialize;

use super::json::{push_number, push_text};

/// The columns that make an item. Tags are JSON already, and are returned as text.
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
pub(super) fn write_range(rows: &RawRows, out: &mut Vec<u8>) {
    write_all(rows, out);
    out.extend_from_slice(b",\"count\":");
    push_number(out, rows.len());
    out.push(b'}');
}

/// Appends `{"items":[…],"total":n,"page":p,"limit":l}`, where the total is that of the page.
pub(super) fn write_page(rows: &RawRows, page: i64, limit: i64, out: &mut Vec<u8>) {
    write_all(rows, out);
    out.extend_from_slice(b",\"total\":");
    push_number(out, rows.len());
    out.extend_from_slice(b",\"page\":");
    push_number(out, page);
    out.extend_from_slice(b",\"limit\":");
    push_number(out, limit);
    out.push(b'}');
}

/// The size that JSON adds to a row, beyond the lengths of its fields.
const ITEM_SIZE: usize = 100;

fn write_all(rows: &RawRows, out: &mut Vec<u8>) {
    out.reserve(rows.size() + rows.len() * ITEM_SIZE + ITEM_SIZE);
    out.extend_from_slice(b"{\"items\":[");
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_item(row, out);
    }
    out.push(b']');
}

/// The output of [`write_range`] without rows.
pub(super) const NO_ITEMS: &[u8] = b"{\"items\":[],\"count\":0}";

/// Appends one item.
pub(super) fn write_item(row: RawRow<'_>, out: &mut Vec<u8>) {
    // The tables contain no NULL, and exactly these columns were selected.
    let Some(
        [
            id,
            name,
            category,
            price,
            quantity,
            active,
            tags,
            score,
            count,
        ],
    ) = row.fields()
    else {
        return out.extend_from_slice(b"null");
    };
    out.extend_from_slice(b"{\"id\":");
    push_number(out, id.int().unwrap_or_default());
    out.extend_from_slice(b",\"name\":");
    push_text(out, name.text().unwrap_or_default());
    out.extend_from_slice(b",\"category\":");
    push_text(out, category.text().unwrap_or_default());
    out.extend_from_slice(b",\"price\":");
    push_number(out, price.int().unwrap_or_default());
    out.extend_from_slice(b",\"quantity\":");
    push_number(out, quantity.int().unwrap_or_default());
    out.extend_from_slice(match active.bool() {
        Some(true) => b",\"active\":true,\"tags\":".as_slice(),
        _ => b",\"active\":false,\"tags\":",
    });
    out.extend_from_slice(tags.text().unwrap_or("[]").as_bytes());
    out.extend_from_slice(b",\"rating\":{\"score\":");
    push_number(out, score.int().unwrap_or_default());
    out.extend_from_slice(b",\"count\":");
    push_number(out, count.int().unwrap_or_default());
    out.extend_from_slice(b"}}");
}
