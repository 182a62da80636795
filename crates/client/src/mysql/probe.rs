//! Detects whether a server that does not send a greeting is a PostgreSQL.
//!
//! MySQL and MariaDB send first; PostgreSQL waits for the client, for a minute by default. So a
//! MySQL client and a PostgreSQL server wait for each other. If nothing is received for a while, a
//! second connection sends an `SSLRequest`, which only a PostgreSQL answers. The first connection
//! is kept, since a MySQL may be slow, for example because it resolves the client's name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lookaside_wire::postgres::SSL_REQUEST;

use crate::Error;
use crate::driver::{Protocol, Sealed, Upgrade};

/// How long to wait for a greeting before the server is probed. A greeting takes one round trip,
/// and the probe costs a slow MySQL no more than a short connection.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Room for more than the one byte of the answer shows who says more.
const ANSWER_SIZE_MAX: usize = 16;

/// The wait for the greeting.
#[derive(Default)]
pub(super) struct Silence {
    stage: Stage,
}

#[derive(Default)]
enum Stage {
    /// The connection begins.
    #[default]
    Begun,
    /// The server is probed then.
    Waiting(Instant),
    /// The owner shall see to it.
    Asked,
    /// The owner sees to it.
    UnderWay(Arc<AtomicBool>),
    /// The server has said something, or was probed.
    Over,
}

impl Silence {
    /// Whether a probe is under way.
    pub(super) fn is_probing(&self) -> bool {
        matches!(self.stage, Stage::UnderWay(_))
    }

    /// The server has said something.
    pub(super) fn end(&mut self) {
        if !matches!(self.stage, Stage::UnderWay(_)) {
            self.stage = Stage::Over;
        }
    }

    pub(super) fn advance(&mut self, now: Instant) {
        match self.stage {
            Stage::Begun => self.stage = Stage::Waiting(now + SILENCE_MAX),
            Stage::Waiting(until) if until <= now => self.stage = Stage::Asked,
            _ => {}
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::Waiting(until) => Some(until),
            _ => None,
        }
    }

    /// The probe, if one is wanted.
    pub(super) fn take_probe(&mut self) -> Option<Probe> {
        if !matches!(self.stage, Stage::Asked) {
            return None;
        }
        let is_postgres = Arc::new(AtomicBool::new(false));
        self.stage = Stage::UnderWay(Arc::clone(&is_postgres));
        Some(Probe {
            question: &SSL_REQUEST,
            answer: [0; ANSWER_SIZE_MAX],
            is_postgres,
            is_over: false,
        })
    }

    /// Whether the server is a PostgreSQL, once the probe that was under way is done.
    pub(super) fn probed(&mut self) -> Option<bool> {
        let Stage::UnderWay(is_postgres) = &self.stage else {
            return None;
        };
        // Relaxed, because the owner of both hands the probe over and back.
        let is_postgres = is_postgres.load(Ordering::Relaxed);
        self.stage = Stage::Over;
        Some(is_postgres)
    }
}

/// Asks whether there is TLS, as a client of PostgreSQL does.
pub struct Probe {
    /// What is not written of it.
    question: &'static [u8],
    answer: [u8; ANSWER_SIZE_MAX],
    is_postgres: Arc<AtomicBool>,
    is_over: bool,
}

impl Sealed for Probe {}

impl Protocol for Probe {
    fn output(&mut self) -> &[u8] {
        self.question
    }

    fn written(&mut self, size: usize) {
        self.question = &self.question[size..];
    }

    fn receive_space(&mut self, _size: usize) -> &mut [u8] {
        match self.is_over {
            true => &mut [],
            false => &mut self.answer,
        }
    }

    fn received(&mut self, size: usize) {
        let is_postgres = matches!(self.answer[..size], [b'S' | b'N']);
        // Relaxed, as in `Silence::probed`.
        self.is_postgres.store(is_postgres, Ordering::Relaxed);
        self.is_over = true;
    }

    fn end_of_input(&mut self) {
        self.is_over = true;
    }

    fn is_input_ended(&self) -> bool {
        self.is_over
    }

    fn fail(&mut self, _error: Error) {
        self.is_over = true;
    }

    fn advance(&mut self, _now: Instant) {}

    fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Upgrade for Probe {
    fn wants_tls(&self) -> bool {
        false
    }

    fn tls_started(&mut self, _server_end_point: Option<&[u8]>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probed(answer: &[u8]) -> Option<bool> {
        let mut silence = Silence::default();
        let now = Instant::now();
        silence.advance(now);
        assert!(silence.take_probe().is_none());
        silence.advance(silence.deadline().unwrap());
        let mut probe = silence.take_probe().unwrap();
        assert_eq!(probe.output(), SSL_REQUEST);
        probe.written(SSL_REQUEST.len());
        probe.receive_space(1)[..answer.len()].copy_from_slice(answer);
        probe.received(answer.len());
        assert!(probe.is_over());
        silence.probed()
    }

    #[test]
    fn only_a_postgres_answers_with_a_letter() {
        for (answer, expected) in [
            (&b"S"[..], true),
            (b"N", true),
            (b"S\0\0\0\x0a8.0", false),
            (b"H", false),
        ] {
            assert_eq!(probed(answer), Some(expected), "{answer:?}");
        }
    }

    #[test]
    fn a_server_that_greets_is_not_probed() {
        let mut silence = Silence::default();
        let now = Instant::now();
        silence.advance(now);
        silence.end();
        silence.advance(now + 2 * SILENCE_MAX);
        assert!(silence.take_probe().is_none());
        assert_eq!(silence.deadline(), None);
        assert_eq!(silence.probed(), None);
    }
}
