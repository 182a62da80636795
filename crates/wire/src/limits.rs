//! The sizes that a machine does not pass.

/// What a connection takes at most, and what happens there.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest message taken from the server, in bytes of its body.
    ///
    /// A longer one ends the connection with an [`ErrorKind::Limit`](crate::ErrorKind::Limit) as
    /// soon as its header is here. So does feeding more when so many bytes already wait unread.
    /// The default of 256 MiB is a quarter of what a server can send as one row.
    pub message_size_max: usize,

    /// The longest request to a MySQL server, in bytes; a longer one is refused with
    /// [`RequestError::TooLong`](crate::RequestError::TooLong).
    ///
    /// The default of 1 GiB is the most that any of these servers takes. One that takes less, as
    /// its `max_allowed_packet` says, closes the connection over it; that number here avoids it.
    pub request_size_max: usize,

    /// How many requests may wait for their answers.
    ///
    /// One more is refused with [`RequestError::QueueFull`](crate::RequestError::QueueFull). A
    /// request that waits costs a few bytes here; the default of 1,048,576 only stops a runaway loop.
    pub request_count_max: usize,

    /// How many rounds of hashing a server may ask for in a SCRAM log-in.
    ///
    /// More end the connection, because a false server could keep a processor busy for minutes.
    /// PostgreSQL's default is 4,096; ours of 1,000,000 takes about half a second.
    pub scram_iteration_count_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_size_max: 256 << 20,
            request_size_max: 1 << 30,
            request_count_max: 1 << 20,
            scram_iteration_count_max: 1_000_000,
        }
    }
}
