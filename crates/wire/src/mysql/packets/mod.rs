//! Packets of the server: one file per packet.

mod columns;
mod eof;
mod err;
mod greeting;
mod ok;
mod prepare_ok;
mod result_header;
mod row;
mod session_change;

pub use columns::{Column, Columns, ColumnsIter};
pub(crate) use columns::{ColumnsReader, Definitions, FIRST_SEQUENCE};
pub(crate) use eof::Eof;
pub use err::ErrPacket;
pub use greeting::Greeting;
pub(crate) use greeting::Handshake;
pub use ok::OkPacket;
pub(crate) use prepare_ok::PrepareOk;
pub(crate) use result_header::ResultHeader;
pub use row::{Cells, Row, RowFormat};
pub use session_change::{SessionChange, SessionChanges};

/// First bytes, which distinguish packets.
pub(crate) const OK: u8 = 0x00;
pub(crate) const MORE_DATA: u8 = 0x01;
pub(crate) const LOCAL_INFILE: u8 = 0xfb;
pub(crate) const EOF: u8 = 0xfe;
pub(crate) const ERR: u8 = 0xff;
