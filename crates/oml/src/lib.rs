//! OML, a language for transforming records: parses text to a checked model, or returns errors with
//! positions.
//!
//! A model is a list of statements; each appends fields to a result, from the fields of the
//! source record, from constants, or from a SQL lookup. This crate parses and checks models and
//! runs them over batches of records. It does not use files, threads, networks or databases: rows
//! are queried through [`lookaside_value::Lookup`].
#![forbid(unsafe_code)]

pub mod ast;
mod condition;
mod diagnostic;
mod eval;
mod format;
mod functions;
mod lexer;
mod model;
mod parse;
mod wildcard;

pub use condition::Condition;
pub use diagnostic::{Diagnostic, Diagnostics, Report, Severity};
pub use eval::{
    Conditions, Evaluator, FAILURE_KEPT_MAX, LookupFailure, Options, Program, RunReport,
};
pub use format::{LINE_WIDTH_MAX, format};
pub use functions::Intranet;
pub use model::{Model, ModelSet, fuzz_parse};
pub use parse::MODEL_SIZE_MAX;
pub use wildcard::Wildcard;
