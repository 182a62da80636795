//! The data of a COPY between a caller and a connection: a bounded pipe of bytes.
//!
//! ```text
//!   CopyIn   push() ──►┌──────┐──► take()  connection      waits: who pushes into a full one
//!   CopyOut  pop()  ◄──│ Pipe │◄── give()  connection      reads nothing while it is full
//!                      └──────┘
//! ```
//!
//! One side belongs to the caller, the other one to the driver; each is notified when the other is
//! dropped.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// The capacity of a pipe in bytes: a few reads of a socket. A larger piece is accepted if the pipe
/// is empty.
const SIZE_MAX: usize = 256 * 1024;

/// The state that both sides share.
#[derive(Debug, Default)]
struct State {
    data: Vec<u8>,
    /// The state of the caller's side.
    caller: Caller,
    is_driver_gone: bool,
    /// The driver found nothing, and its task does not wait yet.
    is_starved: bool,
    waiting_caller: Option<Waker>,
    waiting_driver: Option<Waker>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Caller {
    #[default]
    Open,
    /// All data is in the pipe.
    Finished,
    /// The caller has given up.
    Gone,
}

/// The direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the server.
    In,
    /// From the server.
    Out,
}

/// The driver's side. Dropping the last clone ends the pipe.
#[derive(Debug)]
pub(crate) struct CopyEnd {
    direction: Direction,
    state: Arc<Mutex<State>>,
}

/// The caller's side.
#[derive(Debug)]
pub(crate) struct Pipe {
    state: Arc<Mutex<State>>,
}

/// The result of taking data for the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Data(Vec<u8>),
    /// No data yet.
    Nothing,
    /// No more data.
    End,
    /// The caller has given up; the COPY must fail.
    GivenUp,
}

/// The driver's side was dropped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DriverGone;

/// Creates both sides of a pipe.
pub(crate) fn pipe(direction: Direction) -> (Pipe, CopyEnd) {
    let state = Arc::<Mutex<State>>::default();
    let pipe = Pipe {
        state: Arc::clone(&state),
    };
    (pipe, CopyEnd { direction, state })
}

fn with<R>(state: &Mutex<State>, change: impl FnOnce(&mut State) -> (R, Option<Waker>)) -> R {
    // No panic leaves the state inconsistent.
    let (result, waker) = change(&mut state.lock().unwrap_or_else(PoisonError::into_inner));
    // Woken after the lock is released, for which the other side would wait.
    if let Some(waker) = waker {
        waker.wake();
    }
    result
}

impl CopyEnd {
    /// Whether data goes to the server.
    pub(crate) fn sends(&self) -> bool {
        self.direction == Direction::In
    }

    /// Takes data for the server.
    pub(crate) fn take(&self) -> Taken {
        with(&self.state, |state| {
            if state.caller == Caller::Gone {
                return (Taken::GivenUp, None);
            }
            if !state.data.is_empty() {
                let data = std::mem::take(&mut state.data);
                return (Taken::Data(data), state.waiting_caller.take());
            }
            match state.caller {
                Caller::Finished => (Taken::End, None),
                _ => {
                    state.is_starved = true;
                    (Taken::Nothing, None)
                }
            }
        })
    }

    /// Stores data from the server.
    pub(crate) fn give(&self, data: &[u8]) {
        with(&self.state, |state| {
            if state.caller == Caller::Gone {
                return ((), None);
            }
            state.data.extend_from_slice(data);
            ((), state.waiting_caller.take())
        });
    }

    /// Whether more may be read from the server; also registers the task of `cx` to be woken by the
    /// caller.
    pub(crate) fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<()> {
        with(&self.state, |state| {
            // What the caller did since the driver found no data has woken no task.
            if std::mem::take(&mut state.is_starved)
                && (!state.data.is_empty() || state.caller != Caller::Open)
            {
                cx.waker().wake_by_ref();
            }
            state.waiting_driver = Some(cx.waker().clone());
            let is_full = state.data.len() >= SIZE_MAX && state.caller != Caller::Gone;
            // What a server sends while it receives data has to be read in any case.
            let waits = self.direction == Direction::Out && is_full;
            (
                if waits {
                    Poll::Pending
                } else {
                    Poll::Ready(())
                },
                None,
            )
        })
    }
}

impl Drop for CopyEnd {
    fn drop(&mut self) {
        with(&self.state, |state| {
            state.is_driver_gone = true;
            ((), state.waiting_caller.take())
        });
    }
}

impl Pipe {
    /// Passes data to the connection as soon as there is room; then `data` is empty.
    pub(crate) fn poll_push(
        &self,
        data: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), DriverGone>> {
        with(&self.state, |state| {
            if state.is_driver_gone {
                return (Poll::Ready(Err(DriverGone)), None);
            }
            if !state.data.is_empty() && state.data.len() + data.len() > SIZE_MAX {
                state.waiting_caller = Some(cx.waker().clone());
                return (Poll::Pending, None);
            }
            if state.data.is_empty() {
                state.data = std::mem::take(data);
            } else {
                state.data.append(data);
            }
            (Poll::Ready(Ok(())), state.waiting_driver.take())
        })
    }

    /// Takes data from the server; `None` at the end.
    pub(crate) fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        with(&self.state, |state| {
            if !state.data.is_empty() {
                let data = std::mem::take(&mut state.data);
                return (Poll::Ready(Some(data)), state.waiting_driver.take());
            }
            if state.is_driver_gone {
                return (Poll::Ready(None), None);
            }
            state.waiting_caller = Some(cx.waker().clone());
            (Poll::Pending, None)
        })
    }

    /// Whether the connection has taken all data, or is gone.
    pub(crate) fn is_taken(&self) -> bool {
        with(&self.state, |state| {
            (state.data.is_empty() || state.is_driver_gone, None)
        })
    }

    /// Marks the data as complete.
    pub(crate) fn finish(&self) {
        self.end(Caller::Finished);
    }

    /// Discards the pipe's contents, now and later.
    pub(crate) fn give_up(&self) {
        self.end(Caller::Gone);
    }

    fn end(&self, caller: Caller) {
        with(&self.state, |state| {
            if state.caller == Caller::Open {
                state.caller = caller;
            }
            if state.caller == Caller::Gone {
                state.data = Vec::new();
            }
            ((), state.waiting_driver.take())
        });
    }
}

/// A pipe that was not finished is given up.
impl Drop for Pipe {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[test]
    fn a_full_pipe_makes_its_writer_wait() {
        let mut cx = Context::from_waker(Waker::noop());
        let (caller, driver) = pipe(Direction::In);
        let mut first = vec![1; SIZE_MAX + 1];
        assert_eq!(caller.poll_push(&mut first, &mut cx), Poll::Ready(Ok(())));
        assert!(first.is_empty());
        let mut more = vec![2];
        assert_eq!(caller.poll_push(&mut more, &mut cx), Poll::Pending);
        assert_eq!(more, [2]);
        assert_eq!(driver.take(), Taken::Data(vec![1; SIZE_MAX + 1]));
        assert_eq!(driver.take(), Taken::Nothing);
        assert_eq!(caller.poll_push(&mut more, &mut cx), Poll::Ready(Ok(())));
        caller.finish();
        drop(caller);
        assert_eq!(driver.take(), Taken::Data(vec![2]));
        assert_eq!(driver.take(), Taken::End);
    }

    /// Data that arrives between the driver's check and the registration of its task wakes the
    /// task.
    #[test]
    fn data_that_comes_before_the_task_waits_is_not_forgotten() {
        struct Count(AtomicUsize);
        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let acts: [fn(&Pipe); 3] = [
            |caller| {
                let pushed =
                    caller.poll_push(&mut vec![1], &mut Context::from_waker(Waker::noop()));
                assert_eq!(pushed, Poll::Ready(Ok(())));
            },
            Pipe::finish,
            Pipe::give_up,
        ];
        for act in acts {
            let (caller, driver) = pipe(Direction::In);
            let count = Arc::new(Count(AtomicUsize::new(0)));
            let waker = Waker::from(Arc::clone(&count));
            let mut cx = Context::from_waker(&waker);
            assert_eq!(driver.take(), Taken::Nothing);
            act(&caller);
            assert_eq!(driver.poll_receive(&mut cx), Poll::Ready(()));
            assert_eq!(count.0.load(Ordering::Relaxed), 1);
            assert_ne!(driver.take(), Taken::Nothing);
            // Once the task is registered, the action wakes it.
            let _ = driver.poll_receive(&mut cx);
            assert_eq!(count.0.load(Ordering::Relaxed), 1);
        }
    }

    #[test]
    fn a_full_pipe_stops_the_connection() {
        let mut cx = Context::from_waker(Waker::noop());
        let (caller, driver) = pipe(Direction::Out);
        driver.give(&vec![1; SIZE_MAX - 1]);
        assert_eq!(driver.poll_receive(&mut cx), Poll::Ready(()));
        driver.give(&[1]);
        assert_eq!(driver.poll_receive(&mut cx), Poll::Pending);
        assert_eq!(
            caller.poll_pop(&mut cx),
            Poll::Ready(Some(vec![1; SIZE_MAX]))
        );
        assert_eq!(driver.poll_receive(&mut cx), Poll::Ready(()));
        assert_eq!(caller.poll_pop(&mut cx), Poll::Pending);
        driver.give(&[2]);
        drop(driver);
        assert_eq!(caller.poll_pop(&mut cx), Poll::Ready(Some(vec![2])));
        assert_eq!(caller.poll_pop(&mut cx), Poll::Ready(None));
    }

    #[test]
    fn each_side_knows_when_the_other_is_gone() {
        let mut cx = Context::from_waker(Waker::noop());
        let (caller, driver) = pipe(Direction::In);
        let mut data = vec![1];
        assert_eq!(caller.poll_push(&mut data, &mut cx), Poll::Ready(Ok(())));
        drop(caller);
        assert_eq!(driver.take(), Taken::GivenUp);
        let (caller, driver) = pipe(Direction::In);
        drop(driver);
        let pushed = caller.poll_push(&mut data, &mut cx);
        assert_eq!(pushed, Poll::Ready(Err(DriverGone)));
        let (caller, driver) = pipe(Direction::Out);
        drop(caller);
        driver.give(&vec![1; 2 * SIZE_MAX]);
        assert_eq!(driver.poll_receive(&mut cx), Poll::Ready(()));
    }
}
