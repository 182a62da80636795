//! The log-in: what we answer to what the server asks for, and what we insist on.
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

/// The log-in of one connection.
pub(crate) struct Login {
    user: Box<str>,
    credentials: Credentials,
    iteration_count_max: u32,
    state: State,
}

enum State {
    /// The server has not asked yet.
    Begun,
    /// It has our password or a hash of it.
    PasswordSent,
    /// It has our nonce.
    ScramBegun(ScramClient),
    /// It has our proof, and owes us its own.
    ScramProven(ServerProof),
    /// Both sides have proven that they know the password.
    ScramVerified,
    /// It let us in.
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

    /// Says that it happens inside of TLS.
    pub(crate) fn tls_started(&mut self, server_end_point: Option<&[u8]>) {
        self.credentials.transport = Transport::Tls {
            end_point: server_end_point.map(Into::into),
        };
    }

    /// Whether the server let us in.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Takes a step that the server asks for, and writes the answer to it.
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
            // An AuthenticationOk before the server's proof is here too: whoever says so need not
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
            // A server that would have offered it finds out here that somebody took it away.
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
        // The server takes the user from the start-up and wants none here.
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

/// Why a password can be written as a text.
const NO_NUL: &str = "a connection does not begin with a password that holds a NUL";

/// Why a message of the exchange can be written.
const SMALL: &str = "our part of the exchange is a few hundred bytes long";

fn error(reason: Reason) -> ProtocolError {
    ProtocolError::new(MESSAGE, 0, reason)
}
