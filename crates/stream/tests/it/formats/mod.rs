//! The formats: what each reads and writes, and what broken bytes do to them.

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
