//! Authentication: the client's answers to the server's requests, and its requirements.
//!
//! <https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-START-UP>

mod credentials;
mod md5;
mod scram;

use super::backend::{Authentication, Mechanisms};
use super::frontend;
use crate::error::{ProtocolError, Reason};

use credentials::Transport;
pub use credentials::{ChannelBinding, Credentials};
use scram::{Gs2Header, ScramClient, ServerProof};

const MESSAGE: &str = "Authentication";

/// The authentication of one connection.
pub(crate) struct Login {
    user: Box<str>,
    credentials: Credentials,
    iteration_count_max: u32,
    state: State,
}

enum State {
    /// The server has not requested authentication yet.
    Begun,
    /// The password or a hash of it was sent.
    PasswordSent,
    /// The client's nonce was sent.
    ScramBegun(ScramClient),
    /// The client's proof was sent; that of the server is expected.
    ScramProven(ServerProof),
    /// Both sides have proven knowledge of the password.
    ScramVerified,
    /// The log-in is complete.
    Done,
}

impl Login {
    pub(crate) fn new(user: &str, credentials: Credentials, iteration_count_max: u32) -> Self {
        Self {
            user: user.into(),
            credentials,
            iteration_count_max,
            state: State::Begun,
        }
    }

    /// Records that the log-in happens within TLS.
    pub(crate) fn tls_started(&mut self, server_end_point: Option<&[u8]>) {
        self.credentials.transport = Transport::Tls {
            end_point: server_end_point.map(Into::into),
        };
    }

    /// Whether the log-in is complete.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Processes a step that the server requests, and writes the answer.
    pub(crate) fn step(
        &mut self,
        step: Authentication<'_>,
        output: &mut Vec<u8>,
    ) -> Result<(), ProtocolError> {
        use Authentication as A;
        let state = std::mem::replace(&mut self.state, State::Begun);
        self.state = match (state, step) {
            (State::Begun, A::Ok | A::CleartextPassword | A::Md5Password { .. })
                if self.credentials.channel_binding == ChannelBinding::Require =>
            {
                return Err(error(Reason::BindingRequired));
            }
            (State::Begun | State::PasswordSent | State::ScramVerified, A::Ok) => State::Done,
            (State::Begun, A::CleartextPassword) => {
                let password = self.password()?;
                frontend::password(output, password).expect(NO_NUL);
                State::PasswordSent
            }
            (State::Begun, A::Md5Password { salt }) => {
                let hash = md5::response(self.user.as_bytes(), self.password()?, salt);
                frontend::password(output, hash.as_bytes()).expect(NO_NUL);
                State::PasswordSent
            }
            (State::Begun, A::Sasl(mechanisms)) => self.scram_begin(mechanisms, output)?,
            (State::ScramBegun(client), A::SaslContinue(server_first)) => {
                let password = self.password()?;
                let (client_final, proof) =
                    client.prove(password, server_first, self.iteration_count_max)?;
                frontend::sasl_response(output, client_final.as_bytes()).expect(SMALL);
                State::ScramProven(proof)
            }
            (State::ScramProven(proof), A::SaslFinal(server_final)) => {
                proof.verify(server_final)?;
                State::ScramVerified
            }
            (State::Begun, A::Unsupported(method)) => {
                return Err(error(Reason::MethodUnsupported(method)));
            }
            // This includes an AuthenticationOk before the server's proof, as its sender need not
            // know the password.
            _ => return Err(error(Reason::Unexpected("at this point of the log-in"))),
        };
        Ok(())
    }

    /// Chooses a mechanism as libpq does, and begins.
    fn scram_begin(
        &self,
        mechanisms: Mechanisms<'_>,
        output: &mut Vec<u8>,
    ) -> Result<State, ProtocolError> {
        let Credentials {
            channel_binding,
            transport,
            nonce,
            ..
        } = &self.credentials;
        let plus = mechanisms.offers(scram::SHA_256_PLUS);
        if plus && matches!(transport, Transport::Plain) {
            return Err(error(Reason::BindingWithoutTls));
        }
        let header = match (channel_binding, transport) {
            (ChannelBinding::Disable, _) | (_, Transport::Plain) => Gs2Header::Unsupported,
            (_, Transport::Tls { end_point: None }) => Gs2Header::Unsupported,
            (
                _,
                Transport::Tls {
                    end_point: Some(hash),
                },
            ) if plus => Gs2Header::TlsServerEndPoint(hash.clone()),
            // If the server offered channel binding, it detects here that the offer was removed.
            (_, Transport::Tls { .. }) => Gs2Header::NotOffered,
        };
        let bound = matches!(header, Gs2Header::TlsServerEndPoint(_));
        if !bound && !mechanisms.offers(scram::SHA_256) {
            return Err(error(Reason::MechanismsUnsupported));
        }
        if !bound && *channel_binding == ChannelBinding::Require {
            return Err(error(Reason::BindingRequired));
        }
        self.password()?;
        let mechanism = if bound {
            scram::SHA_256_PLUS
        } else {
            scram::SHA_256
        };
        // The server uses the user of the start-up message and expects none here.
        let client = ScramClient::new(header, "", nonce);
        let mechanism = mechanism.to_str().expect("both names are ASCII");
        let first = client.first();
        frontend::sasl_initial_response(output, mechanism, first.as_bytes()).expect(SMALL);
        Ok(State::ScramBegun(client))
    }

    fn password(&self) -> Result<&[u8], ProtocolError> {
        let password = self.credentials.password.as_deref();
        password.ok_or_else(|| error(Reason::NoPassword))
    }
}

/// Why writing a password as text cannot fail.
const NO_NUL: &str = "a connection does not begin with a password that holds a NUL";

/// Why writing a message of the exchange cannot fail.
const SMALL: &str = "our part of the exchange is a few hundred bytes long";

fn error(reason: Reason) -> ProtocolError {
    ProtocolError::new(MESSAGE, 0, reason)
}
