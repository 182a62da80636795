//! Tests of the language as its users see it.

mod docs;
mod evaluation;
mod fuzz;
mod harness;
mod original;
mod parse;
mod random;
mod set;
mod sql;
