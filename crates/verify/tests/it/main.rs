//! Runs of threads over a database in memory, and the check beside a plain one.

mod memory;
mod plain;
