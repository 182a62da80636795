//! Sockets, for blocking, nonblocking and polled connections.

mod keepalives;
mod maybe_tls;
mod search;
mod stream;
mod tls;

use std::time::{Duration, Instant};

use crate::{Error, Result};

pub(crate) use keepalives::watch_peer;
pub(crate) use maybe_tls::MaybeTls;
pub(crate) use search::{Attempt, Search};
pub(crate) use stream::{Address, IntoStream, Stream, tune_tcp};
pub(crate) use tls::Peer;

/// The minimum size of a read: hundreds of short answers.
pub(crate) const READ_SIZE: usize = 16 * 1024;

/// The time limit for a cancel request. Nothing else is sent meanwhile.
pub(crate) const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// The deadline for one of the remaining addresses of a host, so that there is time for each.
pub(crate) fn part(deadline: Option<Instant>, left_count: usize, now: Instant) -> Option<Instant> {
    let left_count = u32::try_from(left_count).unwrap_or(u32::MAX);
    deadline.map(|deadline| now + deadline.saturating_duration_since(now) / left_count)
}

/// Shuffles items.
fn shuffle<T>(things: &mut [T]) -> Result<()> {
    for end in (1..things.len()).rev() {
        let random = getrandom::u64().map_err(Error::no_random_bytes)?;
        // The modulo bias is negligible for a few hosts.
        let index = random % (end as u64 + 1);
        things.swap(end, usize::try_from(index).expect("it is an index"));
    }
    Ok(())
}
