//! The tables of a run, and the statements of its lookups.
//!
//! A plain key is updated in place, and has its version in its row. Every fourth key is inserted and
//! deleted in turn; its counter is in a second table. Some plain keys are read through a view.

use lookaside_verify::history::Key;

/// The schema of everything that a run creates.
pub(super) const SCHEMA: &str = "lookaside_verify";

/// The publication of the tables that lookups read.
pub(super) const PUBLICATION: &str = "lookaside_verify";

/// Publishes them, and one that no lookup reads, which needs the right to create publications and changes nothing else.
pub(super) const PUBLISH: &str = "create publication lookaside_verify for table lookaside_verify.registers, lookaside_verify.unread";

/// Creates the tables. `lookaside_verify` is written out: statements are easier to read so.
pub(super) const CREATE: &str = "\
create schema lookaside_verify;
create table lookaside_verify.registers (
    id bigint primary key,
    version bigint not null,
    note text not null default ''
);
create table lookaside_verify.counters (id bigint primary key, version bigint not null);
create table lookaside_verify.unread (id bigint primary key);
create table lookaside_verify.flushes (id bigint primary key, count bigint not null);
insert into lookaside_verify.flushes values (0, 0);";

/// The view that some keys are read through, with `create` or `create or replace` before it.
pub(super) const VIEW: &str = "\
view lookaside_verify.registers_view as
    select id, version from lookaside_verify.registers";

/// The rows before the run; the parameter is the number of keys. A key of [`is_toggled`] has its
/// counter, too.
pub(super) const FILL: [&str; 2] = [
    "insert into lookaside_verify.registers (id, version) select id, 1 from generate_series(0, $1 - 1) id",
    "insert into lookaside_verify.counters \
     select id, 1 from generate_series(0, $1 - 1) id where id % 4 = 3",
];

/// The states of all keys: id, version, whether there is a row. The parameter is the number of keys.
pub(super) const STATES: &str = "\
select id, coalesce(c.version, r.version), r.id is not null
from generate_series(0, $1 - 1) id
left join lookaside_verify.counters c using (id)
left join lookaside_verify.registers r using (id)";

/// Rows from here on belong to no key: large transactions write them.
pub(super) const FOREIGN_ID_MIN: i64 = 1_000_000_000;

/// The lookups that are served, by name, with their statements.
pub(super) const LOOKUPS: [(&str, &str); 2] = [
    (
        "register",
        "select version from verify.lookaside_verify.registers where id = :id",
    ),
    (
        "register_view",
        "select version from verify.lookaside_verify.registers_view where id = :id",
    ),
];

/// Whether a key is inserted and deleted in turn.
pub(super) fn is_toggled(key: Key) -> bool {
    key.0 % 4 == 3
}

/// The index in [`LOOKUPS`] of the lookup that reads a key.
pub(super) fn lookup_index(key: Key) -> usize {
    usize::from(key.0 % 8 == 5)
}
