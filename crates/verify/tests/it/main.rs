//! Runs of threads over a database in memory, and simulations of caches with and without errors.

mod memory;
