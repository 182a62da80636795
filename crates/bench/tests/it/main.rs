//! The program as developers run it.

mod documents;
mod http;
mod pg;
mod program;
mod programs;
