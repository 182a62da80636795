//! Errors: of the protocol between client and server, and of requests by the caller.

use std::fmt;

/// Why a connection cannot continue: the server violated the protocol, exceeded a limit, or is not
/// one that the client may log in to.
///
/// The connection is unusable afterwards. An error that the server itself reports, such as a
/// mistake in SQL, is not a `ProtocolError` but an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolError {
    message: &'static str,
    offset: usize,
    reason: Reason,
}

/// The kind of a [`ProtocolError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A message contradicts itself: lengths, counts, texts.
    Malformed,
    /// A well-formed message was received where it is not allowed.
    Unexpected,
    /// The server exceeded one of the [`Limits`](crate::Limits).
    Limit,
    /// The log-in cannot be done as the server requires, or the server did not authenticate itself.
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

    /// Whether a MySQL server does not support TLS, which was required.
    pub fn is_tls_missing(&self) -> bool {
        matches!(self.reason, Reason::TlsMissing)
    }

    /// Whether a PostgreSQL server requires a password, and none was given.
    pub fn is_password_missing(&self) -> bool {
        matches!(self.reason, Reason::NoPassword)
    }

    /// Whether the supposed PostgreSQL server sent a greeting of MySQL or MariaDB.
    pub fn is_foreign_greeting(&self) -> bool {
        matches!(self.reason, Reason::ForeignGreeting)
    }

    /// Returns the kind of the error.
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
            | R::ColumnValue(_)
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

    /// The name of the protocol message with the error, as in the protocol's documentation.
    pub fn message(&self) -> &'static str {
        self.message
    }

    /// The offset of the error in the message's body, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }
}

/// The failures of decoding and of the dialogue, one per variant.
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
    ColumnValue(&'static str),
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
            Self::Trailing => write!(f, "bytes remain after the last field"),
            Self::NoNul => write!(f, "a text is not terminated"),
            Self::NegativeCount(count) => write!(f, "a count of {count}"),
            Self::NegativeLength(length) => write!(f, "a length of {length}"),
            Self::UnknownValue { what, value } => write!(f, "{value} is not a valid {what}"),
            Self::UnknownMessage(tag) => {
                write!(f, "unknown message type `{}`", tag.escape_ascii())
            }
            Self::Unexpected(waiting) => write!(f, "it is not allowed {waiting}"),
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
            // The server's text is not shown: a man in the middle could have written it
            // (CVE-2024-10977).
            Self::TlsError => write!(f, "the server answered the request for TLS with an error"),
            Self::Stuffed => write!(
                f,
                "bytes were received before TLS was set up; they may have been injected"
            ),
            Self::ForeignGreeting => {
                write!(f, "the server greets as MySQL and MariaDB do")
            }
            Self::NoPassword => write!(f, "the server requires a password, and none was given"),
            Self::MethodUnsupported(method) => write!(
                f,
                "the server requires {method}, which is not supported; use scram-sha-256 in \
                 pg_hba.conf"
            ),
            Self::MechanismsUnsupported => write!(
                f,
                "none of the mechanisms that the server offers is supported; \
                 let pg_hba.conf ask for scram-sha-256"
            ),
            Self::BindingRequired => write!(
                f,
                "channel binding is required, but the server does not offer it"
            ),
            Self::BindingWithoutTls => write!(
                f,
                "the server offers channel binding on a connection without TLS; \
                 it may have been removed by an attacker"
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
                    "packet number {found} was received instead of {expected}"
                )
            }
            Self::ColumnCount(count) => write!(f, "{count} is not a valid number of columns"),
            Self::MetadataMissing => {
                write!(
                    f,
                    "the server omitted column definitions that it had not sent before"
                )
            }
            Self::ColumnValue(column) => write!(f, "the row has no valid `{column}`"),
            Self::GreetingTooLong { size } => write!(
                f,
                "{size} bytes are too many before the log-in; is this a MySQL server?"
            ),
            Self::HandshakeVersion(version) => write!(
                f,
                "{version} is not a version of the handshake that is known; is this a MySQL server?"
            ),
            Self::ServerTooOld => {
                write!(
                    f,
                    "the server lacks features that MySQL has since 5.7 and MariaDB since 10.2"
                )
            }
            Self::TlsMissing => write!(
                f,
                "TLS is required, but the server does not offer it; configure its certificate, or \
                 use ssl-mode=PREFERRED"
            ),
            Self::PluginUnsupported(plugin) => write!(
                f,
                "the account uses {plugin}, which is not supported; change it to \
                 caching_sha2_password or ed25519"
            ),
            Self::AuthSwitches(count) => {
                write!(
                    f,
                    "the server requested more than {count} authentication methods"
                )
            }
            Self::ShortChallenge => write!(f, "the server's challenge is too short"),
            Self::ClearPassword => write!(
                f,
                "the server requests the password in clear text, which is sent only over TLS or a \
                 Unix socket, and only if this is allowed"
            ),
            Self::NoPublicKey => write!(
                f,
                "the password must be encrypted: use TLS, or give the server's public key \
                 (`server-public-key-path`), or allow requesting it \
                 (`get-server-public-key=true`)"
            ),
            Self::PublicKey(why) => write!(f, "the server's public key cannot be used: {why}"),
            Self::PasswordTooLong => {
                write!(f, "the password is too long for the server's public key")
            }
        }
    }
}

impl std::error::Error for ProtocolError {}

/// Why a request was not queued; the connection is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// A name or text contains a NUL byte, which the protocol cannot represent.
    Nul,
    /// The request is longer than a server accepts.
    TooLong,
    /// More than 65,535 parameters, types or formats.
    TooMany,
    /// [`Limits::request_count_max`](crate::Limits::request_count_max) requests are already
    /// pending.
    QueueFull,
    /// The number of written parameters differs from the number of types.
    ParameterCount,
    /// The server does not support it.
    Unsupported,
    /// The log-in is not complete.
    NotReady,
    /// A COPY that takes data from the client is open: only the data and its end can be sent.
    CopyOpen,
    /// No COPY that takes data from the client is open.
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
            Self::NotReady => "the log-in is not complete",
            Self::CopyOpen => "only data and the end may be sent during a COPY",
            Self::CopyClosed => "no COPY is in progress",
            Self::Closed => "the connection is closed",
        })
    }
}

impl std::error::Error for RequestError {}
