//! ErrorResponse and NoticeResponse: what the server has to say, field by field.
//!
//! <https://www.postgresql.org/docs/current/protocol-error-fields.html>

use std::borrow::Cow;
use std::ffi::CStr;
use std::fmt;

use crate::error::ProtocolError;
use crate::read::Reader;

/// An error as the server reports it.
///
/// Borrowed from the receive buffer at first; [`into_owned`](Self::into_owned) keeps it. Texts are
/// in the encoding and language of the session, and before log-in in those of the server.
#[derive(Clone, PartialEq, Eq)]
pub struct ErrorResponse<'a> {
    /// For each field its code, its text and a NUL; without the NUL at the very end.
    fields: Cow<'a, [u8]>,
}

/// A warning or other remark, which has the fields of an error.
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

    /// The first two of them: `23` for every violated constraint, say.
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

    /// The same, independent of the connection.
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

    /// The field of this code.
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
        // Servers before 9.6 have only the translated one.
        self.text(b'V').or_else(|| self.text(b'S'))
    }

    /// The code that programs decide by.
    pub fn sqlstate(&self) -> Option<SqlState> {
        let code = self.field(b'C')?.to_bytes();
        code.try_into().ok().map(SqlState)
    }

    /// What happened, for people, typically a line.
    pub fn message(&self) -> Option<Cow<'_, str>> {
        self.text(b'M')
    }

    /// More about it.
    pub fn detail(&self) -> Option<Cow<'_, str>> {
        self.text(b'D')
    }

    /// What could be done about it.
    pub fn hint(&self) -> Option<Cow<'_, str>> {
        self.text(b'H')
    }

    /// Where in the SQL it is: the number of a character, from 1.
    pub fn position(&self) -> Option<u32> {
        self.number(b'P')
    }

    /// Where it is in [`internal_query`](Self::internal_query).
    pub fn internal_position(&self) -> Option<u32> {
        self.number(b'p')
    }

    /// SQL that a function ran, if the error is in there.
    pub fn internal_query(&self) -> Option<Cow<'_, str>> {
        self.text(b'q')
    }

    /// What led to it, one line for each call.
    pub fn context(&self) -> Option<Cow<'_, str>> {
        self.text(b'W')
    }

    /// The schema of what the error is about.
    pub fn schema(&self) -> Option<Cow<'_, str>> {
        self.text(b's')
    }

    /// The table that it is about.
    pub fn table(&self) -> Option<Cow<'_, str>> {
        self.text(b't')
    }

    /// The column that it is about.
    pub fn column(&self) -> Option<Cow<'_, str>> {
        self.text(b'c')
    }

    /// The data type that it is about.
    pub fn data_type(&self) -> Option<Cow<'_, str>> {
        self.text(b'd')
    }

    /// The constraint that it is about.
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

    /// Whether a prepared statement is gone or its result has another shape: it has to be parsed
    /// again, and outside of a transaction that is all it takes.
    ///
    /// The state 0A000 alone says only that something is not supported. Its text cannot be relied
    /// on, because it is translated; the name of the routine is the same since PostgreSQL 8.3.
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
