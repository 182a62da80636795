//! The task that owns a socket: it moves bytes both ways at once, so that neither side can block
//! the other by not reading.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Sleep, sleep_until, timeout};

use super::intake::{Ask, Caller, Command, Intake, Next, Order};
use crate::drive::{Drive, Fitness, Talk};
use crate::error::Sent;
use crate::net::{Address, CANCEL_TIMEOUT, Link, READ_SIZE};
use crate::tickets::Tickets;
use crate::transaction::ROLLBACK;
use crate::{Error, Request, Result, TargetSession};

/// Why a task ended, for those that come too late.
pub(super) type End = Arc<OnceLock<Error>>;

/// Lives as long as the connection.
pub(super) struct Task<S, D> {
    stream: S,
    address: Address,
    driver: Link<D>,
    /// What the session must be.
    target: TargetSession,
    intake: Intake,
    /// Whether a transaction that a holder left open was rolled back already.
    is_rolled_back: bool,
    /// How many callers got their answers since requests were last dispatched.
    woken_count: usize,
    /// Who waits for which answers.
    waiting: Tickets<Caller>,
    /// Hears of the log-in.
    ready: Option<oneshot::Sender<Result<Fitness>>>,
    alarm: Option<(Instant, Pin<Box<Sleep>>)>,
    cancel: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    end: End,
}

impl<S: AsyncRead + AsyncWrite + Unpin, D: Drive> Task<S, D> {
    pub(super) fn new(
        stream: S,
        address: Address,
        driver: Link<D>,
        target: TargetSession,
        inbox: mpsc::Receiver<Command>,
        ready: oneshot::Sender<Result<Fitness>>,
        end: End,
    ) -> Self {
        Self {
            stream,
            address,
            driver,
            target,
            intake: Intake::new(inbox),
            is_rolled_back: false,
            woken_count: 0,
            waiting: Tickets::default(),
            ready: Some(ready),
            alarm: None,
            cancel: None,
            end,
        }
    }

    /// Takes what was asked; says whether more is likely to be asked at once.
    fn take_commands(&mut self, cx: &mut Context<'_>) -> bool {
        let mut is_any = false;
        loop {
            match self.intake.next(cx, self.driver.is_idle()) {
                Next::Ask(ask) => {
                    is_any = true;
                    self.submit(*ask);
                }
                Next::Release => self.release(),
                Next::Nothing => break,
            }
        }
        is_any && std::mem::take(&mut self.woken_count) > 1
    }

    fn submit(&mut self, ask: Ask) {
        let answers = match ask.answers {
            // Who has gone in the meantime is asked nothing for.
            Some(answers) if answers.is_closed() && ask.order == Order::Any => return,
            answers => answers,
        };
        // Who was told that it was not sent is not lied to.
        if ask.turn.is_some_and(|turn| !turn.take()) {
            return;
        }
        match (self.driver.submit(ask.request), answers) {
            (Ok(ticket), Some(answers)) => {
                self.waiting.insert(ticket, answers);
            }
            // As below, nobody may be there to hear it.
            (Err(error), Some(answers)) => drop(answers.send(Err(error))),
            (_, None) => {}
        }
    }

    /// Lets everybody use the connection again, once no transaction is open.
    fn release(&mut self) {
        if !self.driver.is_in_transaction() {
            self.is_rolled_back = false;
            return self.intake.release();
        }
        let rollback = Request::new(ROLLBACK, &[]);
        if self.is_rolled_back || self.driver.submit(rollback).is_err() {
            self.driver.fail(Error::still_in_transaction());
            return self.intake.release();
        }
        self.is_rolled_back = true;
    }

    fn hand_out(&mut self) {
        while let Some(reply) = self.driver.next_reply() {
            if let Some(answers) = self.waiting.remove(reply.ticket) {
                self.woken_count += 1;
                drop(answers.send(Ok(reply.answers)));
            }
        }
        if self.driver.is_ready()
            && let Some(ready) = self.ready.take()
        {
            drop(ready.send(Ok(self.driver.fitness(self.target))));
        }
    }

    fn poll_cancel(&mut self, cx: &mut Context<'_>) {
        if let Some(errand) = self.driver.take_cancel() {
            let errand = self.driver.pair(errand);
            self.cancel = Some(Box::pin(run(self.address.clone(), errand)));
        }
        if let Some(cancel) = &mut self.cancel
            && cancel.as_mut().poll(cx).is_ready()
        {
            self.cancel = None;
            self.driver.cancel_done();
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
                size => self.driver.written(size),
            }
        }
    }

    /// Reads once.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut space = ReadBuf::new(self.driver.receive_space(READ_SIZE));
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut space))?;
        match space.filled().len() {
            0 => self.driver.end_of_input(),
            size => self.driver.received(size),
        }
        Poll::Ready(Ok(()))
    }

    /// Whether it is time to look at the clock again.
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.driver.deadline() else {
            self.alarm = None;
            return Poll::Pending;
        };
        let is_set = matches!(&self.alarm, Some((set, _)) if *set == deadline);
        if !is_set {
            self.alarm = Some((deadline, Box::pin(sleep_until(deadline.into()))));
        }
        let (_, sleep) = self.alarm.as_mut().expect("the alarm was just set");
        sleep.as_mut().poll(cx)
    }

    /// Moves what can be moved; is done when the connection is at its end.
    fn poll_exchange(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // What woke the task is an answer or a request. Read first, an answer costs one pass as a
        // request does; and where nothing came, no second look is needed to be woken when it does.
        let mut read = self.poll_read(cx);
        loop {
            if let Poll::Ready(Err(error)) = read {
                self.driver.fail(error.into());
                read = Poll::Ready(Ok(()));
            } else if self.take_commands(cx) {
                // Those who were answered together ask again one after the other, and the first of
                // them wakes this task before the others have run. It goes behind them in the
                // line, so that what they ask makes one flight and one write.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.driver.advance(Instant::now());
            self.poll_cancel(cx);
            if let Poll::Ready(Err(error)) = self.poll_write(cx) {
                // The server may have said why it does not listen.
                while self.driver.end().is_none()
                    && !self.driver.is_input_ended()
                    && matches!(self.poll_read(cx), Poll::Ready(Ok(())))
                {}
                self.driver.fail(error.into());
            }
            self.hand_out();
            if self.driver.end().is_some() {
                // TLS may have something to say to that.
                let _ = self.poll_write(cx);
                return Poll::Ready(());
            }
            if self.intake.is_held() && self.driver.is_idle() {
                continue;
            }
            if self.intake.is_closed() && self.driver.is_idle() {
                self.driver.close();
                // A server that does not take the farewell finds the end of the stream instead.
                let _ = self.poll_write(cx);
                return Poll::Ready(());
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

impl<S: AsyncRead + AsyncWrite + Unpin, D: Drive> Future for Task<S, D> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let task = &mut *self;
        ready!(task.poll_exchange(cx));
        let error = task
            .driver
            .end()
            .expect("an exchange ends with its connection");
        // Nobody else sets it.
        task.end.get_or_init(|| error.clone());
        if let Some(ready) = task.ready.take() {
            drop(ready.send(Err(error.clone())));
        }
        for command in task.intake.close() {
            if let Command::Ask(ask) = command
                && let Some(answers) = ask.answers
            {
                drop(answers.send(Err(error.of_query(Sent::Nothing))));
            }
        }
        Poll::Ready(())
    }
}

/// Runs an errand on a connection of its own. A server that cannot be asked to cancel something
/// goes on, and is waited for.
async fn run(address: Address, errand: impl Talk) {
    let run = async {
        match address {
            Address::Tcp(address) => talk(TcpStream::connect(address).await?, errand).await,
            Address::Unix(path) => talk(UnixStream::connect(path).await?, errand).await,
        }
    };
    let _: Result<io::Result<()>, _> = timeout(CANCEL_TIMEOUT, run).await;
}

async fn talk(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    mut errand: impl Talk,
) -> io::Result<()> {
    loop {
        errand.advance(Instant::now());
        loop {
            let output = errand.output();
            if output.is_empty() {
                break;
            }
            let size = stream.write(output).await?;
            errand.written(size);
        }
        if errand.is_over() {
            return Ok(());
        }
        match stream.read(errand.receive_space(READ_SIZE)).await? {
            0 => errand.end_of_input(),
            size => errand.received(size),
        }
    }
}
