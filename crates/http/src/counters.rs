//! The counters of a server.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Totals of a server, over all its threads.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The counters of a thread, readable by other threads.
        #[derive(Default)]
        struct Published {
            $($name: AtomicU64,)*
        }

        impl Published {
            // Relaxed: the counters are independent, and only their thread writes them.
            fn store(&self, counters: &Counters) {
                $(self.$name.store(counters.$name, Ordering::Relaxed);)*
            }

            // Relaxed, as above: a snapshot may be taken in the middle of a batch.
            fn add_to(&self, sum: &mut Counters) {
                $(sum.$name += self.$name.load(Ordering::Relaxed);)*
            }
        }
    };
}

counters! {
    /// Accepted connections.
    accepted,
    /// Connections that have ended.
    closed,
    /// Requests whose head was received completely.
    requests,
    /// Replies with a status of 2xx.
    replies_2xx,
    /// Replies with a status of 3xx.
    replies_3xx,
    /// Replies with a status of 4xx.
    replies_4xx,
    /// Replies with a status of 5xx.
    replies_5xx,
    /// Malformed or slow requests; their replies count as 4xx or 5xx.
    refused,
    /// Connections closed because the client did not read.
    write_timeouts,
    /// Panics that ended one connection or one request, whether of TLS, the parser or the service.
    panics,
    /// Received bytes.
    bytes_in,
    /// Sent bytes.
    bytes_out,
    /// Batches of events; the requests of one share their system calls.
    batches,
}

impl Counters {
    /// Adds what another thread has counted on behalf of this one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.replies_2xx += other.replies_2xx;
        self.replies_3xx += other.replies_3xx;
        self.replies_4xx += other.replies_4xx;
        self.replies_5xx += other.replies_5xx;
        self.panics += other.panics;
    }

    pub(crate) fn reply(&mut self, status: u16) {
        match status {
            ..300 => self.replies_2xx += 1,
            300..400 => self.replies_3xx += 1,
            400..500 => self.replies_4xx += 1,
            _ => self.replies_5xx += 1,
        }
    }

    /// Connections that are open.
    pub fn open(&self) -> u64 {
        self.accepted.saturating_sub(self.closed)
    }
}

/// Bytes of replies that have not been sent yet, on all threads together. The number is exact, but
/// rarely updated, since most replies are sent completely at once.
#[derive(Default)]
pub(crate) struct Unsent(AtomicU64);

impl Unsent {
    /// Replaces the unsent size of a connection.
    // Relaxed: the number synchronizes nothing.
    pub(crate) fn change(&self, before: usize, now: usize) {
        if now > before {
            self.0.fetch_add((now - before) as u64, Ordering::Relaxed);
        } else if now < before {
            self.0.fetch_sub((before - now) as u64, Ordering::Relaxed);
        }
    }

    /// The current number.
    pub(crate) fn size(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The published counters of one thread.
#[derive(Default)]
// Threads write their counters often: two boards must not share a cache line, nor a pair of lines
// that the processor fetches together.
#[repr(align(128))]
pub(crate) struct Board {
    published: Published,
}

impl Board {
    pub(crate) fn show(&self, counters: &Counters) {
        self.published.store(counters);
    }

    /// Adds the last published counters.
    pub(crate) fn add_to(&self, sum: &mut Counters) {
        self.published.add_to(sum);
    }
}
