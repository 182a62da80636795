//! Reference data behind SQL lookups: KnowDB folders become sealed in-memory stores, statements
//! become native query plans, answers are cached by generation.
#![forbid(unsafe_code)]

mod bind;
mod config;
mod error;
mod functions;
mod load;
mod store;

pub use config::{
    CONFIG_FILE, CacheConfig, Columns, Config, ConfigOptions, CsvConfig, ExpectedRows,
    IntranetMode, IntranetNets, LoadConfig, OnError, TableConfig,
};
pub use error::{Error, ErrorKind};
pub use load::{
    LoadReport, NoProgress, Progress, SkippedRow, SqlText, TableReport, TableSql, table_sql,
    try_load,
};

/// The result of everything that can fail here.
pub type Result<T> = std::result::Result<T, Error>;
