//! The task that owns a socket: it moves bytes in both directions at once, so that neither side can
//! block the other by not reading.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep_until, timeout};

use super::activity::Activity;
use super::command_queue::{
    Caller, Command, CommandQueue, Detached, Order, QueueAction, Submission,
};
use crate::driver::Tickets;
use crate::driver::{Driver, Fitness, Protocol};
use crate::error::Sent;
use crate::net::{Address, CANCEL_TIMEOUT, IntoStream, MaybeTls, READ_SIZE};
use crate::poll;
use crate::{Error, Request, Result, TargetSession};

/// The maximum number of statements that restore a session: one ends a transaction, and one turns
/// autocommit on.
const RESTORE_COUNT_MAX: usize = 2;

/// The number of commands that are taken before their requests are sent and answers are read: the
/// capacity of the queue. Otherwise, callers that keep sending could prevent a pass from ending.
const COMMAND_COUNT_MAX: usize = 1024;

/// Why the connection ended, for late requests.
pub(super) type End = Arc<OnceLock<Error>>;

/// What the task shares with the handles.
pub(super) struct Report {
    pub(super) end: End,
    pub(super) activity: Arc<Activity>,
}

/// A caller that waits for answers.
struct Waiter {
    answers: Caller,
    order: Order,
}

impl Waiter {
    /// Whether the caller is gone, so that unsent requests are dropped. Statements that begin or
    /// end a transaction are sent nevertheless.
    fn is_unwanted(&self) -> bool {
        self.order == Order::Any && self.answers.is_closed()
    }
}

/// Lives as long as the connection.
pub(super) struct Task<S, D> {
    /// `None` once the connection was detached.
    exchange: Option<Exchange<S, D>>,
    /// The queue of requests after that.
    commands: Option<CommandQueue>,
}

/// A connection and its callers.
struct Exchange<S, D> {
    stream: S,
    address: Address,
    driver: MaybeTls<D>,
    /// The required session attributes.
    target: TargetSession,
    commands: CommandQueue,
    /// The number of statements that were sent to restore the session of a lock holder.
    restore_count: usize,
    /// The number of callers that got answers since requests were last dispatched.
    woken_count: usize,
    /// The callers that wait for answers.
    waiting: Tickets<Waiter>,
    /// Gets the result of the log-in.
    ready: Option<oneshot::Sender<Result<Fitness>>>,
    alarm: Option<(Instant, Pin<Box<Sleep>>)>,
    cancel: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    report: Report,
    /// Whether bytes were sent or received since that was reported.
    is_active: bool,
    /// The channel for the connection once nothing is in flight.
    detached: Option<Detached>,
}

/// How an exchange ends.
enum Over {
    /// The connection has ended.
    Ended,
    /// It was detached.
    Detached(Detached),
}

impl<S, D> Task<S, D> {
    pub(super) fn new(
        stream: S,
        address: Address,
        driver: MaybeTls<D>,
        target: TargetSession,
        commands: CommandQueue,
        ready: oneshot::Sender<Result<Fitness>>,
        report: Report,
    ) -> Self {
        let exchange = Exchange {
            stream,
            address,
            driver,
            target,
            commands,
            restore_count: 0,
            woken_count: 0,
            waiting: Tickets::default(),
            ready: Some(ready),
            alarm: None,
            cancel: None,
            report,
            is_active: false,
            detached: None,
        };
        Self {
            exchange: Some(exchange),
            commands: None,
        }
    }
}

impl<S, D> Task<S, D> {
    /// Refuses requests after the connection was detached; ready when all handles are gone.
    fn poll_detached(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let commands = self.commands.as_mut();
        let commands = commands.expect("they are left when the connection is not");
        loop {
            match commands.next(cx, true) {
                // Dropping the answer channel signals that the connection is closed.
                QueueAction::Submit(_) | QueueAction::Detach(_) => {}
                QueueAction::Release => commands.release(),
                QueueAction::Nothing if commands.is_closed() => return Poll::Ready(()),
                QueueAction::Nothing => return Poll::Pending,
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, D: Driver> Exchange<S, D> {
    /// Takes commands, up to a limit; returns whether more are likely to arrive immediately.
    fn take_commands(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some(claim) = self.commands.next_cancel(cx) {
            if let Some(ticket) = claim.ticket() {
                self.driver.cancel(ticket);
            }
        }
        let mut is_any = false;
        for _ in 0..COMMAND_COUNT_MAX {
            match self.commands.next(cx, self.driver.is_idle()) {
                QueueAction::Submit(ask) => {
                    is_any = true;
                    self.submit(*ask);
                }
                QueueAction::Release => self.release(),
                QueueAction::Detach(detached) => {
                    self.detached = Some(detached);
                    return false;
                }
                QueueAction::Nothing => {
                    return is_any && std::mem::take(&mut self.woken_count) > 1;
                }
            }
        }
        // The rest is taken in the next pass.
        cx.waker().wake_by_ref();
        false
    }

    fn submit(&mut self, ask: Submission) {
        let answers = match ask.answers {
            // A caller that is gone needs no answer.
            Some(answers) if answers.is_closed() && ask.order == Order::Any => return,
            answers => answers,
        };
        // Requests already reported as unsent are dropped.
        if ask.claim.as_ref().is_some_and(|claim| !claim.take()) {
            return;
        }
        match (self.driver.submit(ask.request), answers) {
            (Ok(ticket), Some(answers)) => {
                if let Some(claim) = ask.claim {
                    claim.submitted(ticket);
                }
                let order = ask.order;
                self.waiting.insert(ticket, Waiter { answers, order });
            }
            // As below, the receiver may be gone.
            (Err(error), Some(answers)) => drop(answers.send(Err(error))),
            (_, None) => {}
        }
    }

    /// Restores the session, and then releases the lock.
    fn release(&mut self) {
        let Some(sql) = self.driver.restoring_statement() else {
            self.restore_count = 0;
            return self.commands.release();
        };
        let restore = Request::new(sql, &[]);
        if self.restore_count == RESTORE_COUNT_MAX || self.driver.submit(restore).is_err() {
            self.driver.fail(Error::still_in_transaction());
            return self.commands.release();
        }
        self.restore_count += 1;
    }

    /// Withdraws unsent requests of callers that are gone.
    fn withdraw_unwanted(&mut self) {
        let waiting = &mut self.waiting;
        self.driver.withdraw(|ticket| {
            let is_unwanted = waiting.get(ticket).is_some_and(Waiter::is_unwanted);
            if is_unwanted {
                waiting.forget(ticket);
            }
            is_unwanted
        });
    }

    /// Discards rows for a caller that is gone.
    fn discard_unwanted(&mut self) {
        if let Some(ticket) = self.driver.collecting()
            && let Some(waiter) = self.waiting.get(ticket)
            && waiter.answers.is_closed()
        {
            self.driver.discard(ticket);
        }
    }

    fn hand_out(&mut self) {
        while let Some(reply) = self.driver.next_reply() {
            if let Some(waiter) = self.waiting.remove(reply.ticket) {
                self.woken_count += 1;
                drop(waiter.answers.send(Ok(reply.answers)));
            }
        }
        if self.driver.is_ready()
            && let Some(ready) = self.ready.take()
        {
            drop(ready.send(Ok(self.driver.fitness(self.target))));
        }
    }

    fn poll_cancel(&mut self, cx: &mut Context<'_>) {
        if let Some(auxiliary) = self.driver.take_auxiliary() {
            let auxiliary = self.driver.pair(auxiliary);
            self.cancel = Some(Box::pin(run(self.address.clone(), auxiliary)));
        }
        if let Some(cancel) = &mut self.cancel
            && cancel.as_mut().poll(cx).is_ready()
        {
            self.cancel = None;
            self.driver.auxiliary_done();
            self.driver.advance(Instant::now());
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let output = self.driver.output();
            if output.is_empty() {
                return Pin::new(&mut self.stream).poll_flush(cx);
            }
            match ready!(Pin::new(&mut self.stream).poll_write(cx, output))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                size => {
                    self.is_active = true;
                    self.driver.written(size);
                }
            }
        }
    }

    /// Reads once.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.driver.poll_receive(cx));
        let mut space = ReadBuf::new(self.driver.receive_space(READ_SIZE));
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut space))?;
        match space.filled().len() {
            0 => self.driver.end_of_input(),
            size => {
                self.is_active = true;
                self.driver.received(size);
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when the next deadline has passed.
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadlines = [self.driver.deadline(), self.commands.release_until()];
        let Some(deadline) = deadlines.into_iter().flatten().min() else {
            return Poll::Pending;
        };
        let (set, sleep) = self.alarm.get_or_insert_with(|| {
            let sleep = Box::pin(sleep_until(deadline.into()));
            (deadline, sleep)
        });
        // Deadlines are mostly in order and most are met. An alarm that was set for a met deadline
        // fires once and is set again, which costs less than resetting it for each request.
        if deadline < *set {
            *set = deadline;
            sleep.as_mut().reset(deadline.into());
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if *set >= deadline {
                self.alarm = None;
                return Poll::Ready(());
            }
            *set = deadline;
            sleep.as_mut().reset(deadline.into());
        }
    }

    /// Sends and receives; ready when the connection has ended, or was detached.
    fn poll_exchange(&mut self, cx: &mut Context<'_>) -> Poll<Over> {
        // The task was woken by an answer or a request. Reading first, an answer takes only one
        // pass, like a request; and without input, no second read is needed to register the waker.
        let mut read = self.poll_read(cx);
        loop {
            if let Poll::Ready(Err(error)) = read {
                self.driver.fail(error.into());
                read = Poll::Ready(Ok(()));
            } else if self.take_commands(cx) {
                // Callers that were answered together send their next requests one after the other,
                // and the first of them wakes this task before the others have run. Yielding once
                // lets them run first, so that their requests form one batch and one write.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let now = Instant::now();
            if self
                .commands
                .release_until()
                .is_some_and(|until| until <= now)
            {
                self.driver.fail(Error::not_released());
            }
            self.withdraw_unwanted();
            self.driver.advance(now);
            self.discard_unwanted();
            self.poll_cancel(cx);
            if let Poll::Ready(Err(error)) = self.poll_write(cx) {
                // The server may have sent an error before it closed the connection.
                while self.driver.end().is_none()
                    && !self.driver.is_input_ended()
                    && matches!(self.poll_read(cx), Poll::Ready(Ok(())))
                {}
                self.driver.fail(error.into());
            }
            if std::mem::take(&mut self.is_active) {
                self.report.activity.mark(now);
            }
            self.hand_out();
            if self.driver.end().is_some() {
                // TLS may have an alert to send.
                let _ = self.poll_write(cx);
                return Poll::Ready(Over::Ended);
            }
            // While a cancel request is in flight, the connection is not idle.
            if let Some(detached) = self.detached.take_if(|_| self.cancel.is_none()) {
                return Poll::Ready(Over::Detached(detached));
            }
            if self.commands.is_held() && self.driver.is_idle() {
                continue;
            }
            if self.commands.is_closed() && self.driver.is_idle() {
                self.driver.close();
                // If the server does not receive the terminate message, it gets the end of the
                // stream instead.
                let _ = self.poll_write(cx);
                return Poll::Ready(Over::Ended);
            }
            if read.is_ready() {
                read = self.poll_read(cx);
            }
            if read.is_pending() && self.poll_alarm(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + IntoStream + Unpin, D: Driver> Future for Task<S, D> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let task = &mut *self;
        let Some(exchange) = &mut task.exchange else {
            return task.poll_detached(cx);
        };
        if let Over::Detached(detached) = ready!(exchange.poll_exchange(cx)) {
            let exchange = task.exchange.take().expect("it is here");
            task.commands = Some(exchange.commands);
            // If this fails, the lock holder gets no connection and releases its slot.
            if let Ok(stream) = exchange.stream.into_stream() {
                let connection = poll::Connection::open(stream, exchange.driver);
                drop(detached.send(Box::new(connection)));
            }
            return task.poll_detached(cx);
        }
        let error = exchange
            .driver
            .end()
            .expect("an exchange ends with its connection");
        // Nothing else sets it.
        exchange.report.end.get_or_init(|| error.clone());
        if let Some(ready) = exchange.ready.take() {
            drop(ready.send(Err(error.clone())));
        }
        for command in exchange.commands.close() {
            if let Command::Submit(ask) = command
                && let Some(answers) = ask.answers
            {
                drop(answers.send(Err(error.of_query(Sent::Nothing))));
            }
        }
        Poll::Ready(())
    }
}

/// Drives an auxiliary connection. If a cancel request fails, the server continues, and the answer
/// is awaited.
async fn run(address: Address, auxiliary: impl Protocol) {
    let run = async {
        match address {
            Address::Tcp(address) => exchange(TcpStream::connect(address).await?, auxiliary).await,
            Address::Unix(path) => exchange(UnixStream::connect(path).await?, auxiliary).await,
        }
    };
    let _: Result<io::Result<()>, _> = timeout(CANCEL_TIMEOUT, run).await;
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    mut auxiliary: impl Protocol,
) -> io::Result<()> {
    loop {
        auxiliary.advance(Instant::now());
        loop {
            let output = auxiliary.output();
            if output.is_empty() {
                break;
            }
            let size = stream.write(output).await?;
            auxiliary.written(size);
        }
        if auxiliary.is_over() {
            return Ok(());
        }
        match stream.read(auxiliary.receive_space(READ_SIZE)).await? {
            0 => auxiliary.end_of_input(),
            size => auxiliary.received(size),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use lookaside_wire::postgres::{Credentials, Startup};

    use super::super::inbox::inbox;
    use super::*;
    use crate::postgres::{Options, PostgresDriver};

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The rest is taken in the next pass, for which the task wakes itself.
    #[test]
    fn a_pass_takes_so_many_commands() {
        let (sender, receiver) = inbox(usize::MAX);
        let (_cancels, canceled) = inbox(usize::MAX);
        let commands = CommandQueue::new(receiver, canceled, Arc::default());
        let driver = PostgresDriver::new(
            &Startup::new("amy"),
            Credentials::new([7; 18]),
            Options::default(),
        );
        let (stream, _server) = tokio::io::duplex(1024);
        let (ready, _is_ready) = oneshot::channel();
        let mut task = Task::new(
            stream,
            Address::Unix("socket".into()),
            MaybeTls::new(driver.unwrap(), None),
            TargetSession::Any,
            commands,
            ready,
            Report {
                end: Arc::default(),
                activity: Arc::new(Activity::new()),
            },
        );
        let ask = || {
            let (answers, received) = oneshot::channel();
            let ask = Submission {
                request: Request::new("select 1", &[]),
                answers: Some(answers),
                order: Order::Any,
                claim: None,
            };
            assert!(sender.push(Command::Submit(Box::new(ask))).is_ok());
            received
        };
        let _received: Vec<_> = (0..2 * COMMAND_COUNT_MAX + 1).map(|_| ask()).collect();
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        for (taken_count, woken_count) in [
            (COMMAND_COUNT_MAX, 1),
            (2 * COMMAND_COUNT_MAX, 2),
            (2 * COMMAND_COUNT_MAX + 1, 2),
        ] {
            let exchange = task.exchange.as_mut().unwrap();
            exchange.take_commands(&mut cx);
            assert_eq!(exchange.driver.query_count(), taken_count);
            assert_eq!(count.0.load(Ordering::Relaxed), woken_count);
        }
    }
}
