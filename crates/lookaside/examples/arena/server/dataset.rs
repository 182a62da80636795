//! The things of `/json`, serialized for each request.

use serde::{Deserialize, Serialize};

use super::json::{push_number, push_text};

/// One thing, its fields in the order in which they are sent.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Thing {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) category: String,
    pub(crate) price: i64,
    pub(crate) quantity: i64,
    pub(crate) active: bool,
    pub(crate) tags: Vec<String>,
    pub(crate) rating: Rating,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Rating {
    pub(crate) score: i64,
    pub(crate) count: i64,
}

/// Appends the first of the things, each with the total for a factor.
pub(super) fn write(things: &[Thing], factor: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"items\":[");
    for (index, thing) in things.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        thing.write(factor, out);
    }
    out.extend_from_slice(b"],\"count\":");
    push_number(out, things.len());
    out.push(b'}');
}

impl Thing {
    fn write(&self, factor: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"id\":");
        push_number(out, self.id);
        out.extend_from_slice(b",\"name\":");
        push_text(out, &self.name);
        out.extend_from_slice(b",\"category\":");
        push_text(out, &self.category);
        out.extend_from_slice(b",\"price\":");
        push_number(out, self.price);
        out.extend_from_slice(b",\"quantity\":");
        push_number(out, self.quantity);
        out.extend_from_slice(match self.active {
            true => b",\"active\":true,\"tags\":[".as_slice(),
            false => b",\"active\":false,\"tags\":[",
        });
        for (index, tag) in self.tags.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            push_text(out, tag);
        }
        out.extend_from_slice(b"],\"rating\":{\"score\":");
        push_number(out, self.rating.score);
        out.extend_from_slice(b",\"count\":");
        push_number(out, self.rating.count);
        out.extend_from_slice(b"},\"total\":");
        let total = i128::from(self.price) * i128::from(self.quantity) * i128::from(factor);
        push_number(out, total);
        out.push(b'}');
    }
}
