//! Commands of the client: one file per family of commands, each written directly into the output.

mod bulk;
mod execute;
mod request;
mod startup;

pub use bulk::BulkWriter;
pub(crate) use bulk::bulk;
pub(crate) use execute::execute;
pub use execute::{Cursor, Execute, ParameterType, ParameterWriter};
pub use request::Request;
pub(crate) use request::quit;
pub(crate) use startup::{HandshakeResponse, StartupOwned};
pub use startup::{Startup, TlsMode};

/// The first bytes of commands.
mod command {
    pub(super) const QUIT: u8 = 0x01;
    pub(super) const QUERY: u8 = 0x03;
    pub(super) const PING: u8 = 0x0e;
    pub(super) const STMT_PREPARE: u8 = 0x16;
    pub(super) const STMT_EXECUTE: u8 = 0x17;
    pub(super) const STMT_CLOSE: u8 = 0x19;
    pub(super) const STMT_RESET: u8 = 0x1a;
    pub(super) const STMT_FETCH: u8 = 0x1c;
    pub(super) const RESET_CONNECTION: u8 = 0x1f;
    pub(super) const STMT_BULK_EXECUTE: u8 = 0xfa;
}
