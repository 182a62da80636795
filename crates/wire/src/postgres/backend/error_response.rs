//! ErrorResponse and NoticeResponse: errors and notices of the server, by field.
//!
//! <https://www.postgresql.org/docs/current/protocol-error-fields.html>

use std::borrow::Cow;
use std::ffi::CStr;
use std::fmt;

use crate::error::ProtocolError;
use crate::read::Reader;

/// An error as the server reports it.
///
/// It borrows from the receive buffer; [`into_owned`](Self::into_owned) copies it. Texts are in the
/// encoding and language of the session, and before log-in in those of the server.
#[derive(Clone, PartialEq, Eq)]
pub struct ErrorResponse<'a> {
    /// For each field its code, its text and a NUL, without the final NUL.
    fields: Cow<'a, [u8]>,
}

/// A warning or another notice, with the fields of an error.
pub type NoticeResponse<'a> = ErrorResponse<'a>;

/// The five characters that classify an error in any language.
///
/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState([u8; 5]);

impl SqlState {
    /// The state of these five characters.
    pub const fn new(code: &[u8; 5]) -> Self {
        Self(*code)
    }

    /// The five characters.
    pub fn as_bytes(&self) -> &[u8; 5] {
        &self.0
    }

    /// The first two characters, such as `23` for every violated constraint.
    pub fn class(&self) -> [u8; 2] {
        [self.0[0], self.0[1]]
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().fmt(f)
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<'a> ErrorResponse<'a> {
    pub(crate) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let body = reader.unread();
        while reader.u8()? != 0 {
            reader.c_str()?;
        }
        reader.finish()?;
        Ok(Self {
            fields: Cow::Borrowed(&body[..body.len() - 1]),
        })
    }

    /// An owned copy, independent of the connection.
    pub fn into_owned(self) -> ErrorResponse<'static> {
        ErrorResponse {
            fields: Cow::Owned(self.fields.into_owned()),
        }
    }

    /// All fields with their codes, unknown ones included.
    pub fn fields(&self) -> impl Iterator<Item = (u8, &CStr)> {
        let mut rest = &*self.fields;
        std::iter::from_fn(move || {
            let (&code, text) = rest.split_first()?;
            let text = CStr::from_bytes_until_nul(text).ok()?;
            rest = &rest[text.count_bytes() + 2..];
            Some((code, text))
        })
    }

    /// The field with this code.
    pub fn field(&self, code: u8) -> Option<&CStr> {
        self.fields()
            .find(|&(field, _)| field == code)
            .map(|(_, text)| text)
    }

    fn text(&self, code: u8) -> Option<Cow<'_, str>> {
        self.field(code).map(CStr::to_string_lossy)
    }

    fn number(&self, code: u8) -> Option<u32> {
        self.field(code)?.to_str().ok()?.parse().ok()
    }

    /// `ERROR`, `FATAL`, `PANIC`, or for notices `WARNING`, `NOTICE`, `DEBUG`, `INFO`, `LOG`.
    pub fn severity(&self) -> Option<Cow<'_, str>> {
        // Servers before 9.6 only send the translated severity.
        self.text(b'V').or_else(|| self.text(b'S'))
    }

    /// The error code for programs.
    pub fn sqlstate(&self) -> Option<SqlState> {
        let code = self.field(b'C')?.to_bytes();
        code.try_into().ok().map(SqlState)
    }

    /// The message for users, typically one line.
    pub fn message(&self) -> Option<Cow<'_, str>> {
        self.text(b'M')
    }

    /// Details about the error.
    pub fn detail(&self) -> Option<Cow<'_, str>> {
        self.text(b'D')
    }

    /// A suggestion what to do.
    pub fn hint(&self) -> Option<Cow<'_, str>> {
        self.text(b'H')
    }

    /// The position in the SQL: the number of a character, from 1.
    pub fn position(&self) -> Option<u32> {
        self.number(b'P')
    }

    /// The position in [`internal_query`](Self::internal_query).
    pub fn internal_position(&self) -> Option<u32> {
        self.number(b'p')
    }

    /// The SQL that a function ran, if the error is in it.
    pub fn internal_query(&self) -> Option<Cow<'_, str>> {
        self.text(b'q')
    }

    /// The call stack, one line for each call.
    pub fn context(&self) -> Option<Cow<'_, str>> {
        self.text(b'W')
    }

    /// The schema of the object that the error refers to.
    pub fn schema(&self) -> Option<Cow<'_, str>> {
        self.text(b's')
    }

    /// The table that it refers to.
    pub fn table(&self) -> Option<Cow<'_, str>> {
        self.text(b't')
    }

    /// The column that it refers to.
    pub fn column(&self) -> Option<Cow<'_, str>> {
        self.text(b'c')
    }

    /// The data type that it refers to.
    pub fn data_type(&self) -> Option<Cow<'_, str>> {
        self.text(b'd')
    }

    /// The constraint that it refers to.
    pub fn constraint(&self) -> Option<Cow<'_, str>> {
        self.text(b'n')
    }

    /// The file of the server's source that reports it.
    pub fn file(&self) -> Option<Cow<'_, str>> {
        self.text(b'F')
    }

    /// The line of the server's source that reports it.
    pub fn line(&self) -> Option<u32> {
        self.number(b'L')
    }

    /// The routine of the server's source that reports it.
    pub fn routine(&self) -> Option<Cow<'_, str>> {
        self.text(b'R')
    }

    /// Whether the server ends the session with it.
    pub fn is_fatal(&self) -> bool {
        let severity = self.field(b'V').or_else(|| self.field(b'S'));
        severity.is_some_and(|severity| matches!(severity.to_bytes(), b"FATAL" | b"PANIC"))
    }

    /// Whether a prepared statement no longer exists or its result type has changed: it must be
    /// parsed again, which outside of a transaction is sufficient.
    ///
    /// The state 0A000 alone only means that something is not supported. The text is translated, so
    /// it cannot be checked; the name of the routine has not changed since PostgreSQL 8.3.
    pub fn is_stale_statement(&self) -> bool {
        match self.sqlstate().as_ref().map(SqlState::as_bytes) {
            Some(b"26000") => true,
            Some(b"0A000") => self.field(b'R') == Some(c"RevalidateCachedQuery"),
            _ => false,
        }
    }
}

impl fmt::Display for ErrorResponse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.message();
        f.write_str(message.as_deref().unwrap_or("an error without a message"))?;
        if let Some(state) = self.sqlstate() {
            write!(f, " (SQLSTATE {state})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ErrorResponse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.fields();
        let fields = fields.map(|(code, text)| (char::from(code), text));
        f.debug_map().entries(fields).finish()
    }
}

impl std::error::Error for ErrorResponse<'_> {}
