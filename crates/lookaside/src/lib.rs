//! SQL lookups in reference tables (CSV files, SQLite, PostgreSQL, MySQL, MariaDB), answered from
//! indexes in memory and from caches.
//!
//! ```no_run
//! use lookaside::{Knowledge, params};
//!
//! let knowledge = Knowledge::open("tables")?;
//! let row = knowledge.query_first("select name from users where id = :id", &params! {"id" => 5})?;
//! println!("{:?}", row.and_then(|row| row.value("name").cloned()));
//! # Ok::<(), lookaside::Error>(())
//! ```
//!
//! The root has the types with which a program opens tables and queries them, and
//! `docs/LIBRARY.md` is their guide. The other parts of the workspace are modules:
//!
//! | module | contents |
//! | --- | --- |
//! | [`value`] | values, rows, records, and the trait for querying rows |
//! | [`knowledge`] | reference tables for SQL lookups: plans, indexes, caches, reload |
//! | [`oml`] | the language of models, which map one event to another |
//! | [`client`] | connections to PostgreSQL, MySQL and MariaDB |
//! | [`embedded`] | a PostgreSQL that starts inside a test or an application |
//! | [`stream`] | sources, formats and sinks of events, and the run that connects them |
//!
//! The program `lookaside` needs the feature `cli`; a library does not (`default-features = false`).
#![forbid(unsafe_code)]

mod databases;

pub use databases::embedded_databases;
pub use lookaside_client as client;
pub use lookaside_embedded as embedded;
pub use lookaside_knowledge as knowledge;
pub use lookaside_oml as oml;
pub use lookaside_stream as stream;
pub use lookaside_value as value;

// Tables, their queries, answers and errors.
pub use lookaside_knowledge::{
    AnsweredBy, Builder, CacheOutcome, CallCache, CancelHandle, Contract, Counts, Coverage, Error,
    ErrorKind, Explanation, Extent, FeedStatus, Freshness, Knowledge, Layer, LoadReport,
    LogPosition, MetricsTelemetry, Outcome, Params, PlanKind, Policy, Position, Provenance, Query,
    QueryKind, Result, Rows, Served, Session, Snapshot, Statement, Telemetry, params,
};

// Parameters, rows and batches.
pub use lookaside_value::{
    Answers, BatchQuery, Decimal, FromValue, Lookup, LookupError, LookupErrorKind, OnLookupFailure,
    ParamBatch, Row, RowError, RowRef, RowSet, StatementId, Text, Time, Type, Value,
};

/// The examples of the first page and of the guide are compiled with the tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/LIBRARY.md")]
    struct Library;
}
