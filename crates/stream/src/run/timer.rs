//! What a run does at times, also while no events arrive: rotates files, writes what sinks refused
//! to the rejects, stores the checkpoint of what they have delivered, and ends when one of them has
//! failed.

use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use super::block_writer::BlockWriter;
use super::shared::Shared;
use crate::{Result, Sink};

/// How long the thread sleeps at most, because the clock may be set, and a file without events becomes
/// due with its first ones.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// How long it sleeps at most if there are sinks of messages, which report later what they have
/// delivered and refused.
const REPORTS_SLEEP_MAX: Duration = Duration::from_millis(100);

/// How long it sleeps at least, if a file is due and waits for the checkpoint.
const SLEEP_MIN: Duration = Duration::from_millis(10);

impl Shared {
    /// Works at times until `end` is disconnected or the run is over.
    pub(super) fn work_at_times(&self, end: &Receiver<()>) {
        let mut pause = Duration::ZERO;
        while end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) && !self.is_over() {
            let mut block_writer = self
                .block_writer
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if self.is_over() {
                return;
            }
            match work_now(&mut block_writer) {
                Ok(next) => pause = next,
                Err(error) => {
                    drop(block_writer);
                    return self.end(Some(error));
                }
            }
        }
    }
}

/// Does what is due; returns how long to wait for more.
fn work_now(block_writer: &mut BlockWriter) -> Result<Duration> {
    let BlockWriter { sinks, totals, .. } = block_writer;
    for sink in sinks.outputs.iter_mut().chain(&mut sinks.rejects) {
        sink.check()?;
    }
    sinks.process_refused(totals)?;
    sinks.store_mark()?;
    if sinks.rotates {
        sinks.rotate_due(None)?;
    }
    let next = sinks.next_rotation();
    let next = next.map(|next| next.duration_since(SystemTime::now()).unwrap_or_default());
    let mut all = sinks.outputs.iter().chain(&sinks.rejects);
    let sleep_max = match all.any(Sink::takes_messages) {
        true => REPORTS_SLEEP_MAX,
        false => SLEEP_MAX,
    };
    Ok(next.map_or(sleep_max, |next| next.clamp(SLEEP_MIN, sleep_max)))
}
