//! Runs of threads over a database in memory, simulations of caches with and without errors, and the
//! check beside a plain one.

mod memory;
mod model;
mod plain;
mod protocols;
