//! Tests of the language as its users see it.

mod evaluation;
mod fuzz;
mod parse;
mod set;
mod sql;
