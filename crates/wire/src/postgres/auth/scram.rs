//! SCRAM-SHA-256 and SCRAM-SHA-256-PLUS: both sides prove that they know the password, without
//! sending it.
//!
//! ```text
//!   client:  n,,n=,r=NONCE                       header, user, the client's nonce
//!   server:  r=NONCE+,s=SALT,i=4096              both nonces, salt, iterations
//!   client:  c=HEADER,r=NONCE+,p=PROOF           the header again, the client's proof
//!   server:  v=SIGNATURE                         the server's proof
//! ```
//!
//! <https://www.rfc-editor.org/rfc/rfc5802>, <https://www.rfc-editor.org/rfc/rfc7677>,
//! <https://www.postgresql.org/docs/current/sasl-authentication.html>

use std::borrow::Cow;
use std::ffi::CStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::error;
use crate::error::{ProtocolError, Reason};

pub(super) const SHA_256: &CStr = c"SCRAM-SHA-256";
pub(super) const SHA_256_PLUS: &CStr = c"SCRAM-SHA-256-PLUS";

type Key = [u8; 32];

/// The client's statement about channel binding: RFC 5802, section 6.
pub(super) enum Gs2Header {
    /// The client does not support it, or it is disabled.
    Unsupported,
    /// The client supports it, but the server did not offer it.
    NotOffered,
    /// The client uses it: the hash of the server's certificate in TLS.
    TlsServerEndPoint(Box<[u8]>),
}

impl Gs2Header {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Unsupported => "n,,",
            Self::NotOffered => "y,,",
            Self::TlsServerEndPoint(_) => "p=tls-server-end-point,,",
        }
    }

    /// `c=`: the header again, with the channel binding data.
    fn channel_binding(&self) -> String {
        let mut bytes = self.as_str().as_bytes().to_vec();
        if let Self::TlsServerEndPoint(hash) = self {
            bytes.extend_from_slice(hash);
        }
        STANDARD.encode(bytes)
    }
}

/// The client's side, which waits for the server's nonce.
pub(super) struct ScramClient {
    header: Gs2Header,
    first_bare: String,
    nonce: Box<str>,
}

impl ScramClient {
    pub(super) fn new(header: Gs2Header, user: &str, nonce: &str) -> Self {
        Self {
            header,
            first_bare: format!("n={user},r={nonce}"),
            nonce: nonce.into(),
        }
    }

    /// client-first-message
    pub(super) fn first(&self) -> String {
        format!("{}{}", self.header.as_str(), self.first_bare)
    }

    /// client-final-message, and the expected answer of the server.
    pub(super) fn prove(
        self,
        password: &[u8],
        server_first: &[u8],
        iteration_count_max: u32,
    ) -> Result<(String, ServerProof), ProtocolError> {
        let server_first =
            std::str::from_utf8(server_first).map_err(|_| error(Reason::ScramMessage("text")))?;
        let ServerFirst {
            nonce,
            salt,
            iteration_count,
        } = ServerFirst::parse(server_first)?;
        if !nonce.starts_with(&*self.nonce) || nonce.len() == self.nonce.len() {
            return Err(error(Reason::ScramNonce));
        }
        if iteration_count == 0 || iteration_count > iteration_count_max {
            return Err(error(Reason::ScramIterations {
                count: iteration_count,
                count_max: iteration_count_max,
            }));
        }

        let without_proof = format!("c={},r={nonce}", self.header.channel_binding());
        let auth_message = format!("{},{server_first},{without_proof}", self.first_bare);
        let salted_password = salted_password(&normalized(password), &salt, iteration_count);
        let client_key = hmac(&salted_password, &[b"Client Key"]);
        let stored_key: Key = Sha256::digest(client_key).into();
        let client_signature = hmac(&stored_key, &[auth_message.as_bytes()]);
        let client_proof = xor(client_key, client_signature);
        let proof = ServerProof {
            server_key: hmac(&salted_password, &[b"Server Key"]),
            auth_message,
        };
        Ok((
            format!("{without_proof},p={}", STANDARD.encode(client_proof)),
            proof,
        ))
    }
}

/// The expected signature, which only a server that knows the password can create.
pub(super) struct ServerProof {
    server_key: Key,
    auth_message: String,
}

impl ServerProof {
    /// Checks server-final-message.
    pub(super) fn verify(self, server_final: &[u8]) -> Result<(), ProtocolError> {
        let malformed = || error(Reason::ScramMessage("signature"));
        let first = server_final.split(|&byte| byte == b',').next();
        let signature = match first.and_then(|attribute| attribute.split_first_chunk::<2>()) {
            Some((b"v=", signature)) => signature,
            Some((b"e=", _)) => return Err(error(Reason::ScramRefused)),
            _ => return Err(malformed()),
        };
        let signature = STANDARD.decode(signature).map_err(|_| malformed())?;
        let mut mac = mac(&self.server_key);
        mac.update(self.auth_message.as_bytes());
        // Compares in constant time.
        mac.verify_slice(&signature)
            .map_err(|_| error(Reason::ScramSignature))
    }
}

/// server-first-message
struct ServerFirst<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iteration_count: u32,
}

impl<'a> ServerFirst<'a> {
    fn parse(message: &'a str) -> Result<Self, ProtocolError> {
        // Attributes after these three are extensions, which must be ignored; a mandatory one would
        // precede them, as `m=`.
        let mut attributes = message.split(',');
        let mut attribute = |name: &str, what| {
            attributes
                .next()
                .and_then(|attribute| attribute.strip_prefix(name))
                .ok_or_else(|| error(Reason::ScramMessage(what)))
        };
        let nonce = attribute("r=", "nonce")?;
        let salt = attribute("s=", "salt")?;
        let iteration_count = attribute("i=", "iteration count")?;
        Ok(Self {
            nonce,
            salt: STANDARD
                .decode(salt)
                .map_err(|_| error(Reason::ScramMessage("salt")))?,
            iteration_count: iteration_count
                .parse()
                .map_err(|_| error(Reason::ScramMessage("iteration count")))?,
        })
    }
}

/// A password normalised by SASLprep. One that is not UTF-8 or contains characters that SASLprep
/// prohibits is unchanged, as on the server.
fn normalized(password: &[u8]) -> Cow<'_, [u8]> {
    let prepared = std::str::from_utf8(password)
        .ok()
        .and_then(|password| stringprep::saslprep(password).ok());
    match prepared {
        Some(Cow::Owned(prepared)) => Cow::Owned(prepared.into_bytes()),
        Some(Cow::Borrowed(_)) | None => Cow::Borrowed(password),
    }
}

/// `Hi()` of RFC 5802: PBKDF2 with one block of output.
fn salted_password(password: &[u8], salt: &[u8], iteration_count: u32) -> Key {
    // The key blocks are hashed once and not in every iteration, which halves the work.
    let keyed = mac(password);
    let sign = |parts: &[&[u8]]| -> Key {
        let mut mac = keyed.clone();
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    };
    let mut block = sign(&[salt, &1_u32.to_be_bytes()]);
    let mut sum = block;
    for _ in 1..iteration_count {
        block = sign(&[&block]);
        sum = xor(sum, block);
    }
    sum
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Key {
    let mut mac = mac(key);
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

fn xor(mut left: Key, right: Key) -> Key {
    for (left, right) in left.iter_mut().zip(right) {
        *left ^= right;
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677, section 3.
    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                                s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const SERVER_FINAL: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn client() -> ScramClient {
        ScramClient::new(Gs2Header::Unsupported, "user", NONCE)
    }

    fn refusal(server_first: &str) -> String {
        let proven = client().prove(b"pencil", server_first.as_bytes(), 10_000);
        proven.err().expect("refused").to_string()
    }

    #[test]
    fn the_exchange_of_rfc_7677() {
        assert_eq!(client().first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let (client_final, proof) = client()
            .prove(b"pencil", SERVER_FIRST.as_bytes(), 4096)
            .unwrap();
        assert_eq!(
            client_final,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(proof.verify(SERVER_FINAL.as_bytes()), Ok(()));
    }

    /// <https://www.rfc-editor.org/rfc/rfc7914#section-11>, the first block of its first vector.
    #[test]
    fn hi_is_pbkdf2() {
        let hash = salted_password(b"passwd", b"salt", 1);
        assert_eq!(
            hash[..16],
            [
                0x55, 0xac, 0x04, 0x6e, 0x56, 0xe3, 0x08, 0x9f, 0xec, 0x16, 0x91, 0xc2, 0x25, 0x44,
                0xb6, 0x05
            ]
        );
    }

    #[test]
    fn a_server_must_prove_the_password() {
        for (server_final, expected) in [
            (
                "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=",
                "signature is",
            ),
            (
                "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95GA=",
                "does not know the password",
            ),
            ("v=6rriTRA=", "does not know the password"),
            ("v=", "does not know the password"),
            ("v=!", "no valid signature"),
            ("e=other-error", "refused the SCRAM proof"),
            ("", "no valid signature"),
            ("x", "no valid signature"),
        ] {
            let (_, proof) = client()
                .prove(b"pencil", SERVER_FIRST.as_bytes(), 4096)
                .unwrap();
            let error = proof
                .verify(server_final.as_bytes())
                .unwrap_err()
                .to_string();
            // Base64 with trailing bits is invalid.
            let expected = expected.replace("signature is", "no valid signature");
            assert!(error.contains(&expected), "{server_final}: {error}");
        }
    }

    #[test]
    fn a_false_first_message_is_refused() {
        for (server_first, expected) in [
            ("", "no valid nonce"),
            ("m=x,r=rOprNGfwEbeRWgbNEkqOx,s=AA==,i=1", "no valid nonce"),
            (
                "r=rOprNGfwEbeRWgbNEkqO,s=AA==,i=1",
                "does not continue ours",
            ),
            ("r=somebody's,s=AA==,i=1", "does not continue ours"),
            ("r=rOprNGfwEbeRWgbNEkqOx", "no valid salt"),
            ("r=rOprNGfwEbeRWgbNEkqOx,s=A,i=1", "no valid salt"),
            ("r=rOprNGfwEbeRWgbNEkqOx,s=AA==", "no valid iteration count"),
            (
                "r=rOprNGfwEbeRWgbNEkqOx,s=AA==,i=",
                "no valid iteration count",
            ),
            (
                "r=rOprNGfwEbeRWgbNEkqOx,s=AA==,i=-1",
                "no valid iteration count",
            ),
            (
                "r=rOprNGfwEbeRWgbNEkqOx,s=AA==,i=0",
                "outside of 1 to 10000",
            ),
            (
                "r=rOprNGfwEbeRWgbNEkqOx,s=AA==,i=10001",
                "outside of 1 to 10000",
            ),
            (
                "r=rOprNGfwEbeRWgbNEkqOx,s=AA==,i=4294967296",
                "no valid iteration count",
            ),
        ] {
            let error = refusal(server_first);
            assert!(error.contains(expected), "{server_first}: {error}");
        }
        assert!(client().prove(b"pencil", b"r=\xff", 1).is_err());
    }

    #[test]
    fn extensions_behind_the_first_message_are_ignored() {
        let message = "r=rOprNGfwEbeRWgbNEkqOx,s=AA==,i=1,x=y";
        assert!(client().prove(b"pencil", message.as_bytes(), 1).is_ok());
    }

    #[test]
    fn headers_say_what_the_connection_is() {
        let hash = Gs2Header::TlsServerEndPoint([0xab; 3].into());
        for (header, first, binding) in [
            (Gs2Header::Unsupported, "n,,n=,r=N", "biws"),
            (Gs2Header::NotOffered, "y,,n=,r=N", "eSws"),
            (
                hash,
                "p=tls-server-end-point,,n=,r=N",
                "cD10bHMtc2VydmVyLWVuZC1wb2ludCwsq6ur",
            ),
        ] {
            let client = ScramClient::new(header, "", "N");
            assert_eq!(client.first(), first);
            assert_eq!(client.header.channel_binding(), binding);
        }
    }

    #[test]
    fn passwords_are_prepared_where_they_can_be() {
        for (password, expected) in [
            (&b"pencil"[..], &b"pencil"[..]),
            // Examples of RFC 4013: a soft hyphen is removed, a Roman nine becomes letters.
            ("I\u{ad}X".as_bytes(), b"IX"),
            ("\u{2168}".as_bytes(), b"IX"),
            // A control character is prohibited, so the password is unchanged.
            (b"a\x07", b"a\x07"),
            (b"\xff\xfe", b"\xff\xfe"),
        ] {
            assert_eq!(*normalized(password), *expected);
        }
    }
}
