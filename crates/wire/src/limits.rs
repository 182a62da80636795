//! The limits of a connection.

/// The limits of a connection, and what happens when they are exceeded.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The maximal size of a message from the server, in bytes of its body.
    ///
    /// A longer one ends the connection with an [`ErrorKind::Limit`](crate::ErrorKind::Limit) as
    /// soon as its header is received. So does feeding more when this many bytes are already
    /// unread. The default of 256 MiB is a quarter of what a server can send as one row.
    pub message_size_max: usize,

    /// The maximal size of a request to a MySQL server, in bytes; a longer one is refused with
    /// [`RequestError::TooLong`](crate::RequestError::TooLong).
    ///
    /// The default of 1 GiB is the most that any of these servers accepts. A server with a lower
    /// `max_allowed_packet` closes the connection on a longer request; setting that number here
    /// avoids it.
    pub request_size_max: usize,

    /// The maximal number of pending requests.
    ///
    /// One more is refused with [`RequestError::QueueFull`](crate::RequestError::QueueFull). A
    /// pending request costs a few bytes; the default of 1,048,576 only stops a runaway loop.
    pub request_count_max: usize,

    /// The maximal number of hash iterations that a server may require in a SCRAM log-in.
    ///
    /// More end the connection, because a malicious server could keep a processor busy for minutes.
    /// PostgreSQL's default is 4,096; the default limit of 1,000,000 takes about half a second.
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
