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

/// The least that is read at once: hundreds of short answers.
pub(crate) const READ_SIZE: usize = 16 * 1024;

/// How long a server may take for a request to cancel. As long nothing else is sent.
pub(crate) const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// Until when to try one of the addresses of a host that are left, so that there is time for each.
pub(crate) fn part(deadline: Option<Instant>, left_count: usize, now: Instant) -> Option<Instant> {
    let left_count = u32::try_from(left_count).unwrap_or(u32::MAX);
    deadline.map(|deadline| now + deadline.saturating_duration_since(now) / left_count)
}

/// Puts things in another order each time.
fn shuffle<T>(things: &mut [T]) -> Result<()> {
    for end in (1..things.len()).rev() {
        let random = getrandom::u64().map_err(Error::no_random_bytes)?;
        // That the first places are a little more likely is of no matter with a few hosts.
        let index = random % (end as u64 + 1);
        things.swap(end, usize::try_from(index).expect("it is an index"));
    }
    Ok(())
}
