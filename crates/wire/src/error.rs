//! What goes wrong between us and a server, and what goes wrong between us and our caller.

use std::fmt;

/// Why a connection cannot go on: the server broke the protocol, passed a limit, or is not the
/// one that we may log in to.
///
/// The connection is useless afterwards. An error that the server itself reports, a mistake in SQL
/// say, is none of these but an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolError {
    message: &'static str,
    offset: usize,
    reason: Reason,
}

/// Whose fault a [`ProtocolError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A message contradicts itself: lengths, counts, texts.
    Malformed,
    /// A message that is well formed came where it may not.
    Unexpected,
    /// The server passed one of our [`Limits`](crate::Limits).
    Limit,
    /// The log-in cannot be done as the server asks, or the server did not prove what it must.
    Authentication,
}

impl ProtocolError {
    pub(crate) fn new(message: &'static str, offset: usize, reason: Reason) -> Self {
        Self {
            message,
            offset,
            reason,
        }
    }

    /// Whether a MySQL server has no TLS, which was asked for.
    pub fn is_tls_missing(&self) -> bool {
        matches!(self.reason, Reason::TlsMissing)
    }

    /// Whether a PostgreSQL server asks for a password, and there is none.
    pub fn is_password_missing(&self) -> bool {
        matches!(self.reason, Reason::NoPassword)
    }

    /// Whether what should be a PostgreSQL server greeted as MySQL and MariaDB do.
    pub fn is_foreign_greeting(&self) -> bool {
        matches!(self.reason, Reason::ForeignGreeting)
    }

    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        use Reason as R;
        match self.reason {
            R::Truncated
            | R::Trailing
            | R::NoNul
            | R::NegativeCount(_)
            | R::NegativeLength(_)
            | R::ColumnCount(_)
            | R::ShortChallenge
            | R::UnknownValue { .. } => ErrorKind::Malformed,
            R::UnknownMessage(_)
            | R::Unexpected(_)
            | R::TlsAnswer(_)
            | R::ForeignGreeting
            | R::Stuffed
            | R::Sequence { .. }
            | R::MetadataMissing => ErrorKind::Unexpected,
            R::TooLong { .. }
            | R::LoginTooLong { .. }
            | R::GreetingTooLong { .. }
            | R::Unread { .. }
            | R::ScramIterations { .. } => ErrorKind::Limit,
            R::TlsError
            | R::NoPassword
            | R::MethodUnsupported(_)
            | R::MechanismsUnsupported
            | R::BindingRequired
            | R::BindingWithoutTls
            | R::ScramMessage(_)
            | R::ScramNonce
            | R::ScramRefused
            | R::ScramSignature
            | R::HandshakeVersion(_)
            | R::ServerTooOld
            | R::TlsMissing
            | R::PluginUnsupported(_)
            | R::AuthSwitches(_)
            | R::ClearPassword
            | R::NoPublicKey
            | R::PublicKey(_)
            | R::PasswordTooLong => ErrorKind::Authentication,
        }
    }

    /// The message that the error is in, named as in the protocol's documentation.
    pub fn message(&self) -> &'static str {
        self.message
    }

    /// How many bytes of the message's body come before the place of the error.
    pub fn offset(&self) -> usize {
        self.offset
    }
}

/// The failures of decoding and of the dialogue, one a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Truncated,
    Trailing,
    NoNul,
    NegativeCount(i32),
    NegativeLength(i32),
    UnknownValue { what: &'static str, value: i32 },
    UnknownMessage(u8),
    ForeignGreeting,
    Unexpected(&'static str),
    TooLong { size: usize, size_max: usize },
    LoginTooLong { size: usize },
    Unread { size_max: usize },
    TlsAnswer(u8),
    TlsError,
    Stuffed,
    NoPassword,
    MethodUnsupported(&'static str),
    MechanismsUnsupported,
    BindingRequired,
    BindingWithoutTls,
    ScramMessage(&'static str),
    ScramNonce,
    ScramIterations { count: u32, count_max: u32 },
    ScramRefused,
    ScramSignature,
    Sequence { found: u8, expected: u8 },
    ColumnCount(u64),
    MetadataMissing,
    GreetingTooLong { size: usize },
    HandshakeVersion(u8),
    ServerTooOld,
    TlsMissing,
    PluginUnsupported(&'static str),
    AuthSwitches(u32),
    ShortChallenge,
    ClearPassword,
    NoPublicKey,
    PublicKey(&'static str),
    PasswordTooLong,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at byte {}: {}",
            self.message, self.offset, self.reason
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated => write!(f, "the message ends in the middle of a field"),
            Self::Trailing => write!(f, "bytes are left over behind the last field"),
            Self::NoNul => write!(f, "a text without its end"),
            Self::NegativeCount(count) => write!(f, "a count of {count}"),
            Self::NegativeLength(length) => write!(f, "a length of {length}"),
            Self::UnknownValue { what, value } => write!(f, "{value} is not a valid {what}"),
            Self::UnknownMessage(tag) => {
                write!(f, "there is no message of type `{}`", tag.escape_ascii())
            }
            Self::Unexpected(waiting) => write!(f, "it may not come {waiting}"),
            Self::TooLong { size, size_max } => write!(
                f,
                "{size} bytes are more than the limit of {size_max}; raise `message_size_max`"
            ),
            Self::LoginTooLong { size } => write!(
                f,
                "{size} bytes are too many before the log-in; is this a PostgreSQL server?"
            ),
            Self::Unread { size_max } => write!(
                f,
                "more than {size_max} bytes wait unread; take the events between two feeds"
            ),
            Self::TlsAnswer(byte) => write!(
                f,
                "`{}` is not an answer to the request for TLS; is this a PostgreSQL server?",
                byte.escape_ascii()
            ),
            // What it says is not shown: anybody on the way could have written it (CVE-2024-10977).
            Self::TlsError => write!(f, "the server answered the request for TLS with an error"),
            Self::Stuffed => write!(
                f,
                "bytes came before TLS was set up; somebody on the way may have added them"
            ),
            Self::ForeignGreeting => {
                write!(f, "the server greets as MySQL and MariaDB do")
            }
            Self::NoPassword => write!(f, "the server asks for a password, and none was given"),
            Self::MethodUnsupported(method) => write!(
                f,
                "the server asks for {method}, which is not supported; \
                 let pg_hba.conf ask for scram-sha-256"
            ),
            Self::MechanismsUnsupported => write!(
                f,
                "none of the mechanisms that the server offers is supported; \
                 let pg_hba.conf ask for scram-sha-256"
            ),
            Self::BindingRequired => write!(
                f,
                "channel binding is required, and the server logs in without it"
            ),
            Self::BindingWithoutTls => write!(
                f,
                "the server offers channel binding on a connection without TLS; \
                 somebody on the way may have removed it"
            ),
            Self::ScramMessage(part) => write!(f, "the SCRAM message has no valid {part}"),
            Self::ScramNonce => write!(f, "the server's nonce does not continue ours"),
            Self::ScramIterations { count, count_max } => write!(
                f,
                "{count} SCRAM iterations are outside of 1 to {count_max}; \
                 see `scram_iteration_count_max`"
            ),
            Self::ScramRefused => write!(f, "the server refused the SCRAM proof"),
            Self::ScramSignature => write!(
                f,
                "the server does not know the password: its SCRAM signature is wrong"
            ),
            Self::Sequence { found, expected } => {
                write!(
                    f,
                    "packet number {found} came in place of number {expected}"
                )
            }
            Self::ColumnCount(count) => write!(f, "{count} is not a valid number of columns"),
            Self::MetadataMissing => {
                write!(
                    f,
                    "the server left out definitions of columns that it never sent"
                )
            }
            Self::GreetingTooLong { size } => write!(
                f,
                "{size} bytes are too many before the log-in; is this a MySQL server?"
            ),
            Self::HandshakeVersion(version) => write!(
                f,
                "{version} is not a version of the handshake that is known; is this a MySQL server?"
            ),
            Self::ServerTooOld => write!(
                f,
                "the server lacks what all have since MySQL 5.7 and MariaDB 10.2"
            ),
            Self::TlsMissing => write!(
                f,
                "TLS is required, and the server has none; set up its certificate, \
                 or do without by ssl-mode=PREFERRED"
            ),
            Self::PluginUnsupported(plugin) => write!(
                f,
                "the account logs in by {plugin}, which is not supported; \
                 let it be identified by caching_sha2_password or ed25519"
            ),
            Self::AuthSwitches(count) => {
                write!(f, "the server asked for more than {count} ways to log in")
            }
            Self::ShortChallenge => write!(f, "the server's challenge is too short"),
            Self::ClearPassword => write!(
                f,
                "the server asks for the password itself, which is given away only inside of TLS \
                 or on a Unix socket, and only where that was allowed"
            ),
            Self::NoPublicKey => write!(
                f,
                "the server asks for the password, which has to be hidden: \
                 use TLS, or give the server's public key, or allow to ask for it"
            ),
            Self::PublicKey(why) => write!(f, "the server's public key cannot be used: {why}"),
            Self::PasswordTooLong => {
                write!(f, "the password is too long for the server's public key")
            }
        }
    }
}

impl std::error::Error for ProtocolError {}

/// Why a request was not queued; the connection is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// A name or text holds a NUL byte, which the protocol cannot carry.
    Nul,
    /// The request is longer than a server accepts.
    TooLong,
    /// More than 65,535 parameters, types or formats.
    TooMany,
    /// [`Limits::request_count_max`](crate::Limits::request_count_max) requests wait already.
    QueueFull,
    /// Parameters were written that are not as many as there are types.
    ParameterCount,
    /// The server cannot do that.
    Unsupported,
    /// The log-in is not done.
    NotReady,
    /// A COPY from us is open: it takes data, and then its end.
    CopyOpen,
    /// No COPY from us is open, so nobody waits for its data.
    CopyClosed,
    /// The connection ends or has ended.
    Closed,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nul => "a name or text holds a NUL byte",
            Self::TooLong => "the request is longer than a server accepts",
            Self::TooMany => "a request cannot have more than 65,535 parameters, types or formats",
            Self::QueueFull => "too many requests wait for their answers",
            Self::ParameterCount => "the parameters are not as many as their types",
            Self::Unsupported => "the server cannot do that",
            Self::NotReady => "the log-in is not done",
            Self::CopyOpen => "an open COPY takes only its data and its end",
            Self::CopyClosed => "no COPY takes data",
            Self::Closed => "the connection is closed",
        })
    }
}

impl std::error::Error for RequestError {}
