//! How a peer that vanished without a word is noticed on a connection that may be idle for long.

use std::time::Duration;

use crate::Keepalives;

/// How soon the system looks for the other side of an idle connection, how often, and after how
/// many silences it gives up; and how long it waits for an acknowledgement. A server that vanished
/// is noticed within half a minute, where systems by default take hours.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 3;
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(25);

/// Where the URL says nothing, has the system look for the other side.
pub(crate) fn watch_peer(keepalives: &mut Keepalives) {
    if !keepalives.enabled {
        return;
    }
    keepalives.idle.get_or_insert(KEEPALIVE_IDLE);
    keepalives.interval.get_or_insert(KEEPALIVE_INTERVAL);
    keepalives.count.get_or_insert(KEEPALIVE_COUNT);
    keepalives.user_timeout.get_or_insert(ACKNOWLEDGE_TIMEOUT);
}
