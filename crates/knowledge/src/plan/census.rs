//! Detects whether the text of a column consists of addresses.
//!
//! SQL has no type for addresses, so the values decide. A column *holds addresses as text* if more
//! than half of its non-empty texts are IPv4 or IPv6 addresses. Half rather than all: despite a few
//! cells such as `n/a`, comparing the column as text is a mistake.

use rusqlite::types::ValueRef;

use super::reason::Reason;
use super::schema::Table;
use super::table_rows::TableRows;
use crate::bind::SqlValue;
use crate::functions;

/// The counts of texts of a column by their kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Census {
    /// Non-empty texts.
    text_count: usize,
    ip4_count: usize,
    /// IPv4 and IPv6 addresses.
    address_count: usize,
}

impl Census {
    /// Reads a column.
    pub(super) fn of(rows: TableRows<'_>, table: &Table, column: usize) -> Result<Self, Reason> {
        let mut census = Self::default();
        rows.each(table, &[column], |values| {
            if let ValueRef::Text(text) = values[0]
                && !text.trim_ascii().is_empty()
            {
                census.count(text);
            }
            Ok(())
        })?;
        Ok(census)
    }

    fn count(&mut self, text: &[u8]) {
        self.text_count += 1;
        let Ok(text) = std::str::from_utf8(text) else {
            return;
        };
        if functions::ip4_bound_of(SqlValue::Text(text)).is_some() {
            self.ip4_count += 1;
            self.address_count += 1;
        } else if functions::ip_key_of(text).is_some() {
            self.address_count += 1;
        }
    }

    /// Whether most of its texts are addresses.
    pub(super) fn holds_addresses(self) -> bool {
        self.address_count * 2 > self.text_count
    }

    /// Whether none of its addresses is an IPv6 address.
    pub(super) fn is_ip4(self) -> bool {
        self.ip4_count == self.address_count
    }
}
