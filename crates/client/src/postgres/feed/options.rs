//! The options of a feed.

use std::time::Duration;

/// The options of a [`ChangeFeed`](super::ChangeFeed).
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// The beginning of the name of each slot, followed by the id of this process and a random
    /// number. `lookaside` by default, so that an administrator sees where a slot comes from.
    ///
    /// At most 35 of `a`–`z`, `0`–`9` and `_`.
    pub slot_prefix: String,

    /// The time limit for the log-in to a host, unless the URL has a `connect_timeout`. The default
    /// is 10 s, as that of a [`Listener`](crate::postgres::Listener).
    pub connect_timeout: Duration,

    /// The time limit for each command before the stream, except for the creation of the slot. The
    /// default of 10 s is only reached by a server that does not respond.
    pub command_timeout: Duration,

    /// The time limit for the creation of the slot, rounded to milliseconds.
    ///
    /// The server first waits for the end of all transactions that write. The limit also applies on
    /// the server (`lock_timeout`), so that an abandoned attempt does not occupy a walsender for
    /// longer. The default of 60 s is longer than transactions of an application are, and reports
    /// those of a batch.
    pub slot_timeout: Duration,

    /// How often the server is told what was [confirmed](super::ChangeFeed::confirm), at least 10
    /// ms.
    ///
    /// A third of the server's `wal_sender_timeout` is used if that is shorter. The default of 10 s
    /// is the `wal_receiver_status_interval` of PostgreSQL.
    pub status_interval: Duration,

    /// How long to wait for an answer to a status that requests one, before the connection is
    /// given up.
    ///
    /// One is requested after each `status_interval` in which nothing was received. The default of
    /// 60 s is the `wal_receiver_timeout` of PostgreSQL.
    pub reply_timeout: Duration,

    /// The maximal size of a message, in bytes: of a changed row with its old values.
    ///
    /// A larger one ends the connection with [`ErrorKind::Limit`](crate::ErrorKind::Limit), and the
    /// next one begins after it. Up to twice this size is buffered. The default of 64 MiB is much
    /// more than rows that are worth caching have.
    pub message_size_max: usize,
}

impl Default for FeedOptions {
    fn default() -> Self {
        Self {
            slot_prefix: "lookaside".to_owned(),
            connect_timeout: Duration::from_secs(10),
            command_timeout: Duration::from_secs(10),
            slot_timeout: Duration::from_secs(60),
            status_interval: Duration::from_secs(10),
            reply_timeout: Duration::from_secs(60),
            message_size_max: 64 << 20,
        }
    }
}
