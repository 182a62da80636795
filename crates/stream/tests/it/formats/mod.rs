//! The formats: what each reads and writes, and their handling of invalid bytes.

mod access;
mod allocation;
mod csv;
mod json;
mod kv;
mod options;
mod robust;
mod support;
mod syslog;
mod words;
