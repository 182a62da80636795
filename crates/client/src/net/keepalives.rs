//! Detection of vanished peers on connections that may be idle for long.

use std::time::Duration;

use crate::Keepalives;

/// TCP keepalive of idle connections: the idle time, the interval and the number of probes; and the
/// limit for unacknowledged data. A vanished server is detected within half a minute; the systems'
/// defaults take hours.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 3;
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(25);

/// Sets the defaults of keepalives that the URL does not set.
pub(crate) fn watch_peer(keepalives: &mut Keepalives) {
    if !keepalives.enabled {
        return;
    }
    keepalives.idle.get_or_insert(KEEPALIVE_IDLE);
    keepalives.interval.get_or_insert(KEEPALIVE_INTERVAL);
    keepalives.count.get_or_insert(KEEPALIVE_COUNT);
    keepalives.user_timeout.get_or_insert(ACKNOWLEDGE_TIMEOUT);
}
