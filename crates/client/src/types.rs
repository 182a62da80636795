//! What a server's types become here, and what our values become there.
//!
//! `docs/TYPES.md` has the table.

pub mod postgres;
