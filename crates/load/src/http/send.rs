//! Sending: as many requests as connections have room for, or those that are due, and bytes that
//! the kernel did not accept at once.

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::connection::InFlight;
use super::figures::Fault;
use super::worker::{Worker, connect_error};

impl Worker<'_> {
    /// Fills a connection up, or queues it for due requests at a fixed rate.
    pub(super) fn send_more(&mut self, index: usize, now_ns: u64) {
        if self.schedule.is_none() {
            let count = self.connections[index].room(self.plan);
            if count > 0 {
                self.send_requests(index, count, now_ns, now_ns);
            }
            return;
        }
        let connection = &mut self.connections[index];
        if !connection.is_queued && connection.room(self.plan) > 0 {
            connection.is_queued = true;
            self.free.push_back(index);
        }
    }

    /// Sends the due requests, as far as connections are free.
    pub(super) fn send_due(&mut self) {
        if self.schedule.is_none() {
            return;
        }
        let now_ns = self.clock.now_ns();
        let due_by_ns = now_ns.min(self.clock.end_ns().saturating_sub(1));
        while let Some(schedule) = &mut self.schedule
            && schedule.due_ns() <= due_by_ns
        {
            let Some(index) = self.free.pop_front() else {
                self.figures.late_max = self.figures.late_max.max(schedule.late(due_by_ns));
                return;
            };
            let connection = &mut self.connections[index];
            connection.is_queued = false;
            // The connection may have been lost meanwhile.
            if connection.room(self.plan) == 0 {
                continue;
            }
            let due_ns = schedule.take();
            self.send_requests(index, 1, due_ns, now_ns);
            self.send_more(index, now_ns);
        }
    }

    /// Sends `count` requests on a connection that has room for them.
    fn send_requests(&mut self, index: usize, count: usize, due_ns: u64, now_ns: u64) {
        let plan = self.plan;
        let connection = &mut self.connections[index];
        let template = connection.template;
        let request = |template| InFlight {
            template,
            due_ns,
            sent_ns: now_ns,
        };
        connection.sent_count += count as u64;
        let copies = match plan.options.rotates {
            true => None,
            false => plan.templates[template].copies(count),
        };
        let bytes = match copies {
            Some(copies) => {
                connection
                    .in_flight
                    .extend((0..count).map(|_| request(template)));
                copies
            }
            None => {
                self.output.clear();
                for _ in 0..count {
                    let mut template = template;
                    if plan.options.rotates {
                        template = self.next_template;
                        self.next_template = (template + 1) % plan.templates.len();
                    }
                    let turn = self.turns[template];
                    self.turns[template] += self.turn_step;
                    plan.templates[template].fill(turn, &mut self.random, &mut self.output);
                    connection.in_flight.push_back(request(template));
                }
                &self.output[..]
            }
        };
        let socket = connection.socket().expect("a connection with room is open");
        let sent = match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => sent,
            // Also while it is being opened.
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(error) => return self.lost(index, now_ns, error),
        };
        if sent == bytes.len() {
            return;
        }
        match copies {
            Some(_) => connection.unsent.set_copies(template, count, sent),
            None => connection.unsent.set_bytes(&bytes[sent..]),
        }
        self.await_writable(index, true);
    }

    /// Sends bytes that the kernel did not accept before.
    pub(super) fn flush(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(socket) = connection.socket.as_ref() else {
            return;
        };
        let rest = connection.unsent.rest(self.plan);
        match send(socket, rest, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                let is_all = sent == rest.len();
                connection.unsent.advance(sent);
                if is_all {
                    connection.unsent.clear();
                    self.await_writable(index, false);
                    self.send_more(index, self.clock.now_ns());
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => {
                let now_ns = self.clock.now_ns();
                // It was refused, or it was lost.
                let fault = match self.connections[index].answered {
                    0 => Fault::Connect,
                    _ => Fault::Lost,
                };
                self.fail(index, now_ns, fault, || connect_error(error));
            }
        }
    }

    fn await_writable(&mut self, index: usize, awaits: bool) {
        let connection = &mut self.connections[index];
        let Some(socket) = connection.socket.as_ref() else {
            return;
        };
        if connection.awaits_writable == awaits {
            return;
        }
        connection.awaits_writable = awaits;
        let flags = match awaits {
            true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            false => epoll::EventFlags::IN,
        };
        let data = epoll::EventData::new_u64(index as u64);
        epoll::modify(&self.epoll, socket, data, flags).expect("an open socket can be changed");
    }
}
