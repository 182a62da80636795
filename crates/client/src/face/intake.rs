//! Which request is next: everybody's, or those of one who has the connection for himself.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use tokio::sync::{mpsc, oneshot};

use super::turn::Turn;
use crate::{Answers, Request, Result};

/// How many requests are taken from a channel at once.
const COMMAND_COUNT_MAX: usize = 256;

/// Where answers go.
pub(super) type Caller = oneshot::Sender<Result<Answers>>;

/// What the owner of the socket is asked for.
pub(super) enum Command {
    /// Boxed, because it is moved several times between the caller and the driver.
    Ask(Box<Ask>),
    /// Lets only those requests pass that come through the channel which is sent back.
    Lock(oneshot::Sender<mpsc::UnboundedSender<Command>>),
}

/// A request from somewhere.
pub(super) struct Ask {
    pub(super) request: Request,
    /// None where nobody waits for them.
    pub(super) answers: Option<Caller>,
    pub(super) order: Order,
    /// None where it is submitted whenever it can be.
    pub(super) turn: Option<Turn>,
}

/// Whether a request minds what is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// No.
    Any,
    /// It is sent when all before it are answered, and others when it is. What begins or ends a
    /// transaction must not overtake a query whose statement is still being prepared.
    Alone,
}

/// The requests that were not submitted yet.
pub(super) struct Intake {
    everybody: Line<mpsc::Receiver<Command>>,
    holder: Option<Line<mpsc::UnboundedReceiver<Command>>>,
    /// What was submitted last is to be answered before anything else is submitted.
    is_alone: bool,
    /// The next request waits until all before it are answered.
    is_held: bool,
}

/// What is next.
pub(super) enum Next {
    /// To submit this.
    Ask(Box<Ask>),
    /// Whoever had the connection for himself is gone, and all that he asked is answered. The
    /// connection is to be left as it was found, and then [`Intake::release`]d.
    Release,
    /// To wait.
    Nothing,
}

impl Intake {
    pub(super) fn new(everybody: mpsc::Receiver<Command>) -> Self {
        Self {
            everybody: Line::new(everybody),
            holder: None,
            is_alone: false,
            is_held: false,
        }
    }

    /// The next request. `is_idle` says whether all that was submitted is answered.
    pub(super) fn next(&mut self, cx: &mut Context<'_>, is_idle: bool) -> Next {
        self.is_held = false;
        if self.is_alone && !is_idle {
            return self.hold();
        }
        self.is_alone = false;
        loop {
            let command = match &mut self.holder {
                Some(line) => match line.pop(cx) {
                    None if line.is_closed && is_idle => return Next::Release,
                    None if line.is_closed => return self.hold(),
                    command => command,
                },
                None => self.everybody.pop(cx),
            };
            match command {
                None => return Next::Nothing,
                Some(Command::Ask(ask)) if ask.order == Order::Any => return Next::Ask(ask),
                Some(Command::Ask(ask)) if is_idle => {
                    self.is_alone = true;
                    return Next::Ask(ask);
                }
                Some(Command::Lock(granted)) if is_idle => {
                    assert!(self.holder.is_none(), "a holder does not lock again");
                    let (sender, receiver) = mpsc::unbounded_channel();
                    if granted.send(sender).is_ok() {
                        self.holder = Some(Line::new(receiver));
                    }
                }
                Some(command) => {
                    match &mut self.holder {
                        Some(line) => line.taken.push_front(command),
                        None => self.everybody.taken.push_front(command),
                    }
                    return self.hold();
                }
            }
        }
    }

    fn hold(&mut self) -> Next {
        self.is_held = true;
        Next::Nothing
    }

    /// Whether something waits until all before it are answered.
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    /// The connection is everybody's again.
    pub(super) fn release(&mut self) {
        self.holder = None;
    }

    /// Whether nobody is left who could ask.
    pub(super) fn is_closed(&self) -> bool {
        self.holder.is_none() && self.everybody.is_closed && self.everybody.taken.is_empty()
    }

    /// Takes nothing more; what is here is handed out.
    pub(super) fn close(&mut self) -> impl Iterator<Item = Command> {
        let mut rest = self.everybody.close();
        rest.extend(
            self.holder
                .take()
                .into_iter()
                .flat_map(|mut line| line.close()),
        );
        rest.into_iter()
    }
}

/// A channel and what was taken from it.
struct Line<R> {
    receiver: R,
    taken: VecDeque<Command>,
    buffer: Vec<Command>,
    /// Nobody is left at the other end.
    is_closed: bool,
}

impl<R: Receive> Line<R> {
    fn new(receiver: R) -> Self {
        Self {
            receiver,
            taken: VecDeque::new(),
            buffer: Vec::new(),
            is_closed: false,
        }
    }

    fn pop(&mut self, cx: &mut Context<'_>) -> Option<Command> {
        if self.taken.is_empty() && !self.is_closed {
            match self.receiver.poll_many(cx, &mut self.buffer) {
                Poll::Ready(0) => self.is_closed = true,
                Poll::Ready(1) => return self.buffer.pop(),
                Poll::Ready(_) => self.taken.extend(self.buffer.drain(..)),
                Poll::Pending => {}
            }
        }
        self.taken.pop_front()
    }

    fn close(&mut self) -> Vec<Command> {
        self.receiver.end();
        let mut rest: Vec<_> = self.taken.drain(..).collect();
        rest.extend(std::iter::from_fn(|| self.receiver.try_one()));
        rest
    }
}

/// What the two kinds of channels have in common.
trait Receive {
    fn poll_many(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<Command>) -> Poll<usize>;
    fn try_one(&mut self) -> Option<Command>;
    fn end(&mut self);
}

impl Receive for mpsc::Receiver<Command> {
    fn poll_many(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<Command>) -> Poll<usize> {
        self.poll_recv_many(cx, buffer, COMMAND_COUNT_MAX)
    }

    fn try_one(&mut self) -> Option<Command> {
        self.try_recv().ok()
    }

    fn end(&mut self) {
        self.close();
    }
}

impl Receive for mpsc::UnboundedReceiver<Command> {
    fn poll_many(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<Command>) -> Poll<usize> {
        self.poll_recv_many(cx, buffer, COMMAND_COUNT_MAX)
    }

    fn try_one(&mut self) -> Option<Command> {
        self.try_recv().ok()
    }

    fn end(&mut self) {
        self.close();
    }
}
