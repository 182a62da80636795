//! Looks up rows of reference tables by key, in tens of nanoseconds.
//!
//! Tables are CSV files in a folder with a `knowdb.toml`, or a SQLite database. They are loaded into
//! memory as a *generation*; lookups are written in SQL. A statement is prepared once: if an index
//! of the engine can answer it exactly as SQLite would, the index answers (a *native plan*); all
//! other statements run in SQLite, with answers cached per session (L0) and for all sessions (L1).
//! A reload builds the next generation while the current one is in use; it becomes visible
//! atomically, or fails and changes nothing.
//!
//! ```
//! use lookaside_knowledge::{Knowledge, Value, params};
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! # std::fs::create_dir(folder.join("users"))?;
//! std::fs::write(
//!     folder.join("knowdb.toml"),
//!     r#"
//!         version = 2
//!         [[tables]]
//!         name = "users"
//!         columns.by_header = ["id", "name"]
//!     "#,
//! )?;
//! std::fs::write(
//!     folder.join("users/create.sql"),
//!     "create table {table} (id integer primary key, name text)",
//! )?;
//! std::fs::write(folder.join("users/insert.sql"), "insert into {table} values (?1, ?2)")?;
//! std::fs::write(folder.join("users/data.csv"), "id,name\n1,ada\n2,grace\n")?;
//!
//! let knowledge = Knowledge::open(folder)?;
//!
//! // For occasional queries: SQL text and named parameters.
//! let row = knowledge.query_first("select name from users where id = :id", &params! {"id" => 2})?;
//! assert_eq!(row.unwrap().value("name"), Some(&Value::from("grace")));
//! assert_eq!(knowledge.query_all("select id from users", ())?.len(), 2);
//! # assert_eq!(knowledge.query_all("select id from users", &params! {})?.len(), 2);
//!
//! // For each event, in a worker: a statement prepared once, and the worker's own session.
//! let by_id = knowledge.prepare("select name from users where id = :id")?;
//! let mut session = knowledge.session();
//! assert_eq!(session.first(&by_id, &[Value::Int(1)])?, Some(&[Value::from("ada")][..]));
//! assert_eq!(session.first(&by_id, &[Value::Int(9)])?, None);
//! assert_eq!(knowledge.snapshot().counts.native_hits, 2);
//!
//! // The data changed: after the reload, all sessions see the new rows from their next call on.
//! std::fs::write(folder.join("users/data.csv"), "id,name\n1,ada lovelace\n")?;
//! assert_eq!(knowledge.reload()?, 2);
//! assert_eq!(session.first(&by_id, &[Value::Int(2)])?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The guide to all of this is `docs/LIBRARY.md`, the file format is in `docs/KNOWDB.md`.
#![forbid(unsafe_code)]

mod async_api;
mod bind;
mod builder;
mod cache;
mod cancel;
mod clock;
mod compiled;
mod config;
mod counters;
mod databases;
mod depends;
mod description;
mod download;
mod engine;
mod error;
mod event;
mod event_loop;
mod feed;
mod file_pattern;
mod file_stamp;
mod first_of;
mod freshness;
mod functions;
mod generation;
mod idle;
mod index;
mod knowledge;
mod le_bytes;
mod load;
mod lock;
mod metrics_telemetry;
mod mutant;
mod pattern;
mod plan;
mod policy;
mod postgres_mirror;
mod provenance;
mod provider;
mod reloader;
mod remote;
mod resolver;
mod row_bits;
mod rows;
mod runtime;
mod scan;
mod session;
mod snapshot;
mod source;
mod sql_name;
mod sqlite_error;
mod statement;
mod statement_errors;
mod store;
mod table;
mod telemetry;
mod threads;
mod versions;
mod wait;

pub use builder::Builder;
pub use cache::CallCache;
pub use cancel::CancelHandle;
#[doc(hidden)]
pub use compiled::compiled_fuzz;
pub use config::{
    CONFIG_FILE, CacheConfig, ColumnPath, Columns, Config, ConfigOptions, CsvConfig, ExpectedRows,
    FeedConfig, FirstOfConfig, IntranetMode, IntranetNets, LoadConfig, LocalConfig, OnError,
    PostgresSession, ProviderConfig, ProviderKind, ProviderServer, SqliteCopy, TableConfig,
    TableFormat,
};
pub use counters::Counts;
pub use depends::{DependencyClass, StatementDependency};
pub use error::{Error, ErrorKind};
pub use event::{CacheOutcome, Layer, Outcome, QueryKind};
pub use event_loop::{EventLoop, QueryResult};
#[cfg(feature = "replay")]
pub use feed::ChangeReplay;
pub use feed::{FeedResetReason, FeedState, FeedStatus, LogPosition};
pub use freshness::Freshness;
pub use knowledge::Knowledge;
pub use load::{
    Compiled, LoadProgress, LoadReport, NoProgress, Progress, RowChanges, SkippedRow, SqlText,
    TableReport, TableSql, UsedStatement, compile, table_sql, try_load,
};
#[doc(hidden)]
pub use load::{csv_mapping_fuzz, json_lines_fuzz, mmdb_fuzz};
pub use metrics_telemetry::MetricsTelemetry;
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use plan::{
    ColumnInfo, Explanation, PlanKind, ProviderPlan, ReadKind, StatementWarning, TableInfo,
    TableRead, WarningKind,
};
pub use policy::Policy;
pub use provenance::{AnsweredBy, Provenance, StaleAnswers};
pub use remote::{ProviderStatus, ResolveError};
pub use rows::Rows;
pub use session::{Coverage, Served, Session};
pub use snapshot::Snapshot;
pub use statement::{Params, Query, Statement};
pub use telemetry::Telemetry;
pub use versions::DataVersion;

/// The types of parameters and answers, re-exported so that a program needs no second dependency.
pub use lookaside_value::{
    Answers, BatchQuery, Contract, Extent, Lookup, LookupError, LookupErrorKind, ParamBatch,
    ParseContractError, Position, Row, RowSet, StatementId, Text, Type, Value,
};

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
