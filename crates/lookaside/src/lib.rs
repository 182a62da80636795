//! Lookaside answers "for this key, which row?" at memory speed.
//!
//! This crate is the face of the workspace: its parts under one name, and the program `lookaside`.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`value`] | values, rows, records, and the trait through which rows are asked for |
//! | [`knowledge`] | reference tables behind SQL lookups: plans, indexes, caches, reload |
//! | [`oml`] | the language that says how one event becomes another |
//! | [`client`] | connections to PostgreSQL, MySQL and MariaDB |
//! | [`embedded`] | a PostgreSQL that starts inside a test or an app |
//! | [`stream`] | where events come from, how they are read and written, and the run between |
#![forbid(unsafe_code)]

mod databases;

pub use databases::embedded_databases;
pub use lookaside_client as client;
pub use lookaside_embedded as embedded;
pub use lookaside_knowledge as knowledge;
pub use lookaside_oml as oml;
pub use lookaside_stream as stream;
pub use lookaside_value as value;
