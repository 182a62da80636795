//! The requests of one I/O thread that wait for the delivery of their events.
//!
//! A partition reports its delivery on another thread. It sends the ticket of the request to this
//! one, which holds all of them, so that the first of delivery, time-out and end determines the
//! answer.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use lookaside_http::{Io, Reply, Ticket, Timer, Waker};
use lookaside_stream::Partition;

use super::answer;
use super::buffer::Reservation;
use super::events::Events;
use super::queue::{Metadata, Received};
use super::shared::Shared;

/// What a request counts for beside its body: the entries in the queue and here, the partition with
/// its name, and the deferred reply.
pub(super) const REQUEST_SIZE: usize = 1 << 10;

pub(super) struct PendingRequests {
    pub(super) shared: Arc<Shared>,
    /// By ticket.
    requests: RefCell<HashMap<u64, Pending>>,
    delivered: Receiver<u64>,
    sender: Sender<u64>,
    /// Wakes the thread after a ticket was sent.
    waker: Waker,
}

struct Pending {
    timer: Timer,
    event_count: u64,
}

impl PendingRequests {
    pub(super) fn new(shared: Arc<Shared>, waker: Waker) -> Self {
        let (sender, delivered) = unbounded();
        shared.add_waker(waker.clone());
        Self {
            shared,
            requests: RefCell::default(),
            delivered,
            sender,
            waker,
        }
    }

    /// Passes the events of a request to the run; it is answered when they are delivered.
    pub(super) fn submit(
        &self,
        events: Events,
        metadata: Metadata,
        mut reservation: Reservation,
        reply: Reply<'_>,
    ) {
        let shared = &self.shared;
        let event_count = events.count();
        if event_count == 0 {
            return answer::delivered(reply, 0);
        }
        let Some(queue) = shared.queue.open() else {
            return answer::refuse_at_end(reply);
        };
        reservation.shrink_to(REQUEST_SIZE + metadata.size() + events.size());
        let deadline = reply.now() + shared.options.timeout;
        let (ticket, timer) = reply.defer_until(deadline);
        let ticket = u64::from(ticket);
        let pending = Pending { timer, event_count };
        self.requests.borrow_mut().insert(ticket, pending);
        let (sender, waker) = (self.sender.clone(), self.waker.clone());
        let notify = move |position| {
            // The positions of the events are counted from 0.
            if position == event_count {
                // Before the answer, so that the client's next request has room.
                reservation.release();
                // The thread may have ended with its server.
                let _ = sender.send(ticket);
                waker.wake();
            }
        };
        let topic = Arc::clone(&shared.topic);
        queue.push(Received {
            partition: Partition::with_notification(topic, shared.next_number(), notify),
            events,
            metadata,
        });
    }

    /// Answers a request whose time is over.
    pub(super) fn time_out(&self, io: &mut Io, ticket: u64) {
        if self.requests.borrow_mut().remove(&ticket).is_some()
            && let Some(reply) = io.reply(Ticket::from_u64(ticket))
        {
            answer::refuse(reply, &answer::not_delivered(self.shared.options.timeout));
        }
    }

    /// Answers the requests that are delivered, and at the end of the run all others.
    pub(super) fn answer(&self, io: &mut Io) {
        // Before the channel is emptied: what was delivered before the end is answered as such.
        let is_ended = self.shared.is_ended();
        let mut requests = self.requests.borrow_mut();
        while let Ok(ticket) = self.delivered.try_recv() {
            // Otherwise its time was over before.
            let Some(Pending { timer, event_count }) = requests.remove(&ticket) else {
                continue;
            };
            io.cancel(timer);
            // The client may have disconnected.
            if let Some(reply) = io.reply(Ticket::from_u64(ticket)) {
                answer::delivered(reply, event_count);
            }
        }
        drop(requests);
        if self.shared.is_ending() {
            // Those that are not complete get their answer now.
            io.end_unwanted_bodies();
        }
        if !is_ended {
            return;
        }
        for (ticket, Pending { timer, .. }) in self.requests.take() {
            io.cancel(timer);
            if let Some(reply) = io.reply(Ticket::from_u64(ticket)) {
                answer::refuse(reply.close(), &answer::not_delivered_at_end());
            }
        }
    }
}
