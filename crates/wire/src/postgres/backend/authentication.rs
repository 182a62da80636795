//! Authentication messages, with which the server requests the steps of the log-in.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>,
//! from `AuthenticationOk` to `AuthenticationSASLFinal`

use std::ffi::CStr;
use std::fmt;

use crate::error::{ProtocolError, Reason};
use crate::read::Reader;

/// A step of the log-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Authentication<'a> {
    /// The log-in is done.
    Ok,
    /// The password in clear text.
    CleartextPassword,
    /// The password, hashed with this salt.
    Md5Password {
        /// Chosen by the server for this connection.
        salt: [u8; 4],
    },
    /// The start of a SASL exchange by one of these mechanisms.
    Sasl(Mechanisms<'a>),
    /// The server's part of the exchange.
    SaslContinue(&'a [u8]),
    /// The server's proof.
    SaslFinal(&'a [u8]),
    /// The name of an unsupported method.
    Unsupported(&'static str),
}

impl<'a> Authentication<'a> {
    pub(crate) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let before = reader;
        let step = match reader.u32_be()? {
            0 => Self::Ok,
            2 => Self::Unsupported("Kerberos V5"),
            3 => Self::CleartextPassword,
            5 => Self::Md5Password {
                salt: reader.u32_be()?.to_be_bytes(),
            },
            6 => Self::Unsupported("SCM credentials"),
            7 => Self::Unsupported("GSSAPI"),
            9 => Self::Unsupported("SSPI"),
            10 => Self::Sasl(Mechanisms::decode(&mut reader)?),
            11 => Self::SaslContinue(reader.rest()),
            12 => Self::SaslFinal(reader.rest()),
            value => {
                return Err(before.error(Reason::UnknownValue {
                    what: "authentication method",
                    value: value.cast_signed(),
                }));
            }
        };
        reader.finish()?;
        Ok(step)
    }
}

/// The SASL mechanisms that a server offers, in order of its preference.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mechanisms<'a>(&'a [u8]);

impl<'a> Mechanisms<'a> {
    /// Reads the list and the empty name at its end.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, ProtocolError> {
        let list = reader.unread();
        while !reader.c_str()?.is_empty() {}
        Ok(Self(&list[..list.len() - reader.unread().len() - 1]))
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'a CStr> {
        Texts(self.0)
    }

    /// Whether the mechanism of this name is offered.
    pub fn offers(self, mechanism: &CStr) -> bool {
        self.names().any(|offered| offered == mechanism)
    }
}

impl fmt::Debug for Mechanisms<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Consecutive texts, each with its NUL.
pub(super) struct Texts<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Texts<'a> {
    type Item = &'a CStr;

    fn next(&mut self) -> Option<&'a CStr> {
        let text = CStr::from_bytes_until_nul(self.0).ok()?;
        self.0 = &self.0[text.count_bytes() + 1..];
        Some(text)
    }
}
