//! Servers: the start and the end of their threads.

use std::mem;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::counters::{Board, Unsent};
use crate::listener;
use crate::mailbox::{Mailbox, Message};
use crate::monitor::Ring;
use crate::serial_executor::SerialQueue;
use crate::worker::Worker;
use crate::{
    Address, Counters, Error, Io, Listen, Monitor, Options, Result, SerialPlace, SerialStage,
    Service,
};

/// A running server. Dropping it stops it and waits for its end.
pub struct Server {
    threads: Vec<JoinHandle<Result<()>>>,
    addresses: Vec<Address>,
    monitor: Monitor,
    ring: Arc<Ring>,
    ends: Arc<Ends>,
    stopper: Stopper,
}

/// Stops a server from any thread, for example one that handles signals.
#[derive(Clone)]
pub struct Stopper {
    mailboxes: Arc<[Arc<Mailbox>]>,
}

impl Stopper {
    /// Begins a graceful stop: no more connections are accepted, requests that have arrived are
    /// answered, and connections close once their replies are sent.
    pub fn stop(&self) {
        for mailbox in self.mailboxes.iter() {
            mailbox.send(Message::Stop);
        }
    }
}

/// A server that has not been started, see [`Server::builder`].
pub struct Builder {
    options: Options,
    listens: Vec<Listen>,
    serial: Option<Box<dyn SerialStage>>,
    on_failure: Option<OnFailure>,
}

/// The callback for an I/O thread that ends unexpectedly.
type OnFailure = Box<dyn Fn() + Send + Sync>;

/// Tracks the end of I/O threads, and stops the others if one fails.
struct Ends {
    ended_count: Mutex<usize>,
    changed: Condvar,
    stopper: Stopper,
    on_failure: Option<OnFailure>,
}

impl Ends {
    fn lock(&self) -> MutexGuard<'_, usize> {
        // Nothing can panic while it is held.
        self.ended_count
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `count` threads have ended, or until the timeout. Returns whether they have.
    fn wait(&self, count: usize, timeout: Duration) -> bool {
        let begun = Instant::now();
        let mut ended_count = self.lock();
        while *ended_count < count {
            let Some(left) = timeout.checked_sub(begun.elapsed()) else {
                return false;
            };
            let waited = self.changed.wait_timeout(ended_count, left);
            (ended_count, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        true
    }
}

/// Held by an I/O thread until it ends, so that its end is noticed even if it panics.
struct End {
    ends: Arc<Ends>,
    /// Whether it still serves, that is, was not stopped.
    is_serving: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        if self.is_serving {
            // Its listeners and connections are gone. A server that continues with a part of its
            // threads looks healthy from outside but is not, so all threads are stopped.
            self.ends.stopper.stop();
            if let Some(on_failure) = &self.ends.on_failure {
                on_failure();
            }
        }
        *self.ends.lock() += 1;
        self.ends.changed.notify_all();
    }
}

impl Builder {
    /// Adds a listener.
    pub fn listen(mut self, listen: Listen) -> Self {
        self.listens.push(listen);
        self
    }

    /// Answers the requests of [serial](crate::Route::serial) routes, by a stage, see
    /// [`Options::serial_place`].
    pub fn serial(mut self, stage: impl SerialStage) -> Self {
        self.serial = Some(Box::new(stage));
        self
    }

    /// Calls `on_failure` when an I/O thread ends without being asked to: because the poller
    /// failed, or because something panicked that is not contained to one connection. The other
    /// threads then stop as by [`Stopper::stop`], and [`Server::join`] returns the error. It is
    /// called on the thread that ends, and must not panic.
    pub fn on_failure(mut self, on_failure: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Box::new(on_failure));
        self
    }

    /// Starts the server, see [`Server::start`].
    ///
    /// # Errors
    ///
    /// When an option is invalid, an address is not available, or `make` panics.
    pub fn start<S: Service>(
        self,
        make: impl Fn(&mut Io) -> S + Send + Sync + 'static,
    ) -> Result<Server> {
        Server::begin(self, make)
    }
}

impl Server {
    /// Creates a builder of a server with options and no listener yet.
    pub fn builder(options: Options) -> Builder {
        Builder {
            options,
            listens: Vec::new(),
            serial: None,
            on_failure: None,
        }
    }

    /// Starts a server on `listens`, whose requests are answered by the services that `make`
    /// creates on each of the I/O threads. When it returns, all threads are ready.
    ///
    /// # Errors
    ///
    /// When an option is invalid, an address is not available, or `make` panics.
    pub fn start<S: Service>(
        options: Options,
        listens: Vec<Listen>,
        make: impl Fn(&mut Io) -> S + Send + Sync + 'static,
    ) -> Result<Self> {
        let builder = Self::builder(options);
        Builder { listens, ..builder }.start(make)
    }

    fn begin<S: Service>(
        builder: Builder,
        make: impl Fn(&mut Io) -> S + Send + Sync + 'static,
    ) -> Result<Self> {
        let Builder {
            options,
            listens,
            serial,
            on_failure,
        } = builder;
        options.check()?;
        let thread_count = match options.threads {
            0 => processor_count()?,
            count => count,
        };
        let mut shares: Vec<Vec<_>> = (0..thread_count).map(|_| Vec::new()).collect();
        let mut addresses = Vec::with_capacity(listens.len());
        for (place, listen) in listens.iter().enumerate() {
            let (address, listeners) = listener::open(listen, place, thread_count)?;
            addresses.push(address);
            for (thread, listener) in listeners {
                shares[thread].push(listener);
            }
        }
        let tls: Arc<[_]> = listens.into_iter().map(|listen| listen.tls).collect();
        let mailboxes: Arc<[Arc<Mailbox>]> = (0..thread_count)
            .map(|_| Mailbox::new().map(Arc::new))
            .collect::<std::io::Result<_>>()
            .map_err(|error| Error::environment("make an event descriptor", error))?;
        let boards: Arc<[Board]> = (0..thread_count).map(|_| Board::default()).collect();
        let (ring, submitters) = match serial {
            Some(stage) => {
                let server_name = options.server_name.as_deref();
                let place = options.serial_place.unwrap_or(
                    // A thread that shares its processor has to be woken for each request.
                    match processor_count()? > thread_count {
                        true => SerialPlace::Thread,
                        false => SerialPlace::IoThreads,
                    },
                );
                let (queue, submitters) =
                    SerialQueue::start(stage, place, &mailboxes, server_name)?;
                (Some(queue), submitters)
            }
            None => (None, Vec::new()),
        };
        let mut submitters = submitters.into_iter();
        let ring = Arc::new(Mutex::new(ring));
        let stopper = Stopper {
            mailboxes: Arc::clone(&mailboxes),
        };
        let ends = Arc::new(Ends {
            ended_count: Mutex::new(0),
            changed: Condvar::new(),
            stopper: stopper.clone(),
            on_failure,
        });
        let unsent = Arc::<Unsent>::default();
        let mut server = Self {
            threads: Vec::with_capacity(thread_count),
            addresses,
            monitor: Monitor::new(Arc::clone(&boards), Arc::clone(&ring), Arc::clone(&unsent)),
            ring,
            ends: Arc::clone(&ends),
            stopper,
        };
        let (options, make) = (Arc::new(options), Arc::new(make));
        let (ready, readiness) = mpsc::channel();
        for (index, listeners) in shares.into_iter().enumerate() {
            let (options, tls) = (Arc::clone(&options), Arc::clone(&tls));
            let (mailboxes, unsent) = (Arc::clone(&mailboxes), Arc::clone(&unsent));
            let submitter = submitters.next();
            let (make, boards, ready) = (Arc::clone(&make), Arc::clone(&boards), ready.clone());
            let ends = Arc::clone(&ends);
            let begin = move || {
                let mut end = End {
                    ends,
                    is_serving: false,
                };
                let mut io = Io::new(index, options, listeners, tls, mailboxes, unsent)
                    .map_err(|error| Error::environment("make a poller", error))?;
                io.submissions.submitter = submitter;
                let service = make(&mut io);
                drop(make);
                // The receiver is gone if another thread has failed.
                let _ = ready.send(());
                drop(ready);
                end.is_serving = true;
                // The worker is dropped before `end`, also on a panic.
                let run = Worker { io, service }.run(&boards[index]);
                end.is_serving = run.is_err();
                run.map_err(|error| Error::environment("poll", error))
            };
            let thread = thread::Builder::new()
                .name(thread_name(index))
                .spawn(begin)
                .map_err(|error| Error::environment("start a thread", error))?;
            server.threads.push(thread);
        }
        drop(ready);
        if readiness.iter().count() < thread_count {
            // The thread's own error is more specific, if it did not panic.
            server.stop();
            server.join()?;
            return Err(Error::panicked(&thread_name(0)));
        }
        Ok(server)
    }

    /// The addresses of the listeners, in the order in which they were added.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The current counters.
    pub fn counters(&self) -> Counters {
        self.monitor.counters()
    }

    /// A view of the counters for other threads, and for handlers that show them.
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// Returns a handle that stops it from any thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Begins a graceful stop, see [`Stopper::stop`].
    pub fn stop(&self) {
        self.stopper.stop();
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    ///
    /// When a thread failed: its poller failed, or it panicked outside of a single connection or
    /// request. That ends the other threads, too.
    pub fn join(mut self) -> Result<()> {
        self.join_threads()
    }

    /// As [`join`](Self::join), but waits for the I/O threads at most for `timeout`. Those that
    /// have not ended by then are detached, with their connections; this is meant for a process
    /// that is about to exit. A [`SerialStage`] is joined only if they have ended.
    ///
    /// # Errors
    ///
    /// When a thread failed, or the service still blocks one, with
    /// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout).
    pub fn join_within(mut self, timeout: Duration) -> Result<()> {
        let count = self.threads.len();
        if self.ends.wait(count, timeout) {
            return self.join_threads();
        }
        let ended_count = *self.ends.lock();
        // Nothing that waits for them is dropped: the ring would.
        self.threads.clear();
        let ring = self
            .ring
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        mem::forget(ring);
        Err(Error::busy(count - ended_count))
    }

    fn join_threads(&mut self) -> Result<()> {
        let mut result = Ok(());
        for (index, thread) in self.threads.drain(..).enumerate() {
            let ended = match thread.join() {
                Ok(ended) => ended,
                Err(_) => Err(Error::panicked(&thread_name(index))),
            };
            result = result.and(ended);
        }
        // The threads were its producers, so it ends now.
        let ring = self
            .ring
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match ring.map(SerialQueue::join) {
            Some(ended) => result.and(ended),
            None => result,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        // To get the error, call `join`.
        let _ = self.join_threads();
    }
}

fn thread_name(index: usize) -> String {
    format!("http-{index}")
}

/// The number of processors that the process may run on, which is less than all in a container or a
/// cpuset.
fn processor_count() -> Result<usize> {
    let set = rustix::thread::sched_getaffinity(None)
        .map_err(|error| Error::environment("read the affinity mask", error.into()))?;
    Ok((set.count() as usize).max(1))
}
