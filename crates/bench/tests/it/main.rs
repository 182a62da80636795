//! Tests of the program from the outside.

mod documents;
mod http;
mod pg;
mod program;
mod programs;
