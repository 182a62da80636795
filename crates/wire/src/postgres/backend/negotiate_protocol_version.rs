//! NegotiateProtocolVersion: the server does not support the requested protocol version.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>,
//! `NegotiateProtocolVersion`

use std::ffi::CStr;
use std::fmt;

use super::authentication::Texts;
use crate::error::{ProtocolError, Reason};
use crate::postgres::version::ProtocolVersion;
use crate::read::Reader;

/// The version and options that the server supports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NegotiateProtocolVersion<'a> {
    version: ProtocolVersion,
    options: &'a [u8],
}

impl<'a> NegotiateProtocolVersion<'a> {
    /// Decodes the answer to a request for the version `asked`, which it may only lower.
    pub(crate) fn decode(
        mut reader: Reader<'a>,
        asked: ProtocolVersion,
    ) -> Result<Self, ProtocolError> {
        let before = reader;
        // Documented as a minor version, but sent as a full version by all known servers.
        let value = reader.u32_be()?;
        let version = [ProtocolVersion::V3_0, ProtocolVersion::V3_2]
            .into_iter()
            .find(|known| known.code() == value && *known <= asked)
            .ok_or_else(|| {
                before.error(Reason::UnknownValue {
                    what: "answer to our protocol version",
                    value: value.cast_signed(),
                })
            })?;
        let before = reader;
        let count = reader.i32_be()?;
        if count < 0 {
            return Err(before.error(Reason::NegativeCount(count)));
        }
        let options = reader.unread();
        for _ in 0..count {
            reader.c_str()?;
        }
        reader.finish()?;
        Ok(Self { version, options })
    }

    /// The version that is used from here on.
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// The requested protocol options that the server does not support.
    pub fn unknown_options(&self) -> impl Iterator<Item = &'a CStr> {
        Texts(self.options)
    }
}

impl fmt::Debug for NegotiateProtocolVersion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, unknown options ", self.version)?;
        f.debug_list().entries(self.unknown_options()).finish()
    }
}
