//! Tests of the language through the public API.

mod all_rows;
mod docs;
mod drops;
mod evaluation;
mod format;
mod fuzz;
mod harness;
mod lookups;
mod original;
mod parse;
mod random;
mod refusals;
mod robustness;
mod script;
mod set;
mod sql;
mod times;
