//! COPY piece by piece, over a locked connection.

use std::future::poll_fn;
use std::sync::Arc;

use super::PostgresDriver;
use crate::copy::{Direction, DriverGone, Pipe, pipe};
use crate::nonblocking::{Lock, PendingAnswers, StepTimeout, Transaction};
use crate::{Answer, Error, Request, Result};

impl Lock<PostgresDriver> {
    /// A `COPY … FROM STDIN` whose data is written piece by piece, in the format that the statement
    /// specifies.
    ///
    /// It may take as long as its caller has data. On a connection of a pool, a call of [`CopyIn`] waits for
    /// [`PoolOptions::query_timeout`](crate::PoolOptions::query_timeout) while no bytes are sent or
    /// received; then the copy is canceled.
    ///
    /// ```no_run
    /// # async fn example(client: &lookaside_client::postgres::Client) -> lookaside_client::Result<()> {
    /// let mut lock = client.lock().await?;
    /// let mut copy = lock.copy_in("copy goods from stdin");
    /// for id in 0..1_000_000 {
    ///     copy.send(format!("{id}\\tTea\\n")).await?;
    /// }
    /// println!("{} rows", copy.finish().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_in(&mut self, sql: impl Into<Arc<str>>) -> CopyIn<'_> {
        CopyIn::begin(self, sql.into(), false)
    }

    /// A `COPY … TO STDOUT` whose data is read piece by piece, in the format that the statement
    /// specifies.
    ///
    /// It may take as long as its caller needs for the data. On a connection of a pool, a call of
    /// [`CopyOut`] waits for [`PoolOptions::query_timeout`](crate::PoolOptions::query_timeout)
    /// while no bytes are sent or received; then the copy is canceled.
    ///
    /// ```no_run
    /// # async fn example(client: &lookaside_client::postgres::Client) -> lookaside_client::Result<()> {
    /// let mut lock = client.lock().await?;
    /// let mut copy = lock.copy_out("copy goods to stdout (format csv)");
    /// while let Some(data) = copy.next_chunk().await? {
    ///     println!("{} bytes", data.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_out(&mut self, sql: impl Into<Arc<str>>) -> CopyOut<'_> {
        CopyOut::begin(self, sql.into(), false)
    }
}

impl Transaction<'_, PostgresDriver> {
    /// As [`Lock::copy_in`], as a part of the transaction.
    pub fn copy_in(&mut self, sql: impl Into<Arc<str>>) -> CopyIn<'_> {
        CopyIn::begin(self.lock(), sql.into(), true)
    }

    /// As [`Lock::copy_out`], as a part of the transaction.
    pub fn copy_out(&mut self, sql: impl Into<Arc<str>>) -> CopyOut<'_> {
        CopyOut::begin(self.lock(), sql.into(), true)
    }
}

fn begin(
    lock: &Lock<PostgresDriver>,
    sql: Arc<str>,
    direction: Direction,
    is_within: bool,
) -> (
    Pipe,
    PendingAnswers<PostgresDriver>,
    StepTimeout<PostgresDriver>,
) {
    let (pipe, end) = pipe(direction);
    let request = Request::copy_stream(sql, end);
    let request = match is_within {
        true => request.of_transaction(),
        false => request,
    };
    let (waiting, step_timeout) = lock.send_with_step_timeout(request);
    (pipe, waiting, step_timeout)
}

/// The data for a table. About 256 KiB of it are in memory at a time.
///
/// It takes effect when [`finish`](Self::finish) succeeds. If this is dropped before, the server
/// rolls it back.
pub struct CopyIn<'l> {
    // Keeps others from asking meanwhile.
    _lock: &'l Lock<PostgresDriver>,
    pipe: Pipe,
    waiting: PendingAnswers<PostgresDriver>,
    step_timeout: StepTimeout<PostgresDriver>,
    /// Why it has failed.
    error: Option<Error>,
}

impl<'l> CopyIn<'l> {
    fn begin(lock: &'l Lock<PostgresDriver>, sql: Arc<str>, is_within: bool) -> Self {
        let (pipe, waiting, step_timeout) = begin(lock, sql, Direction::In, is_within);
        Self {
            _lock: lock,
            pipe,
            waiting,
            step_timeout,
            error: None,
        }
    }

    /// Writes data, split anywhere, and waits until there is room for it. If the future is dropped
    /// while it waits, nothing was written.
    ///
    /// # Errors
    ///
    /// When the server has refused the statement or data that was sent before, takes too long to
    /// take data, or the connection is lost. Each further call returns the same error.
    pub async fn send(&mut self, data: impl Into<Vec<u8>>) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let mut data = data.into();
        if data.is_empty() {
            return Ok(());
        }
        let pushed = poll_fn(|cx| self.pipe.poll_push(&mut data, cx));
        let error = match self.step_timeout.step(pushed).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(DriverGone)) => match self.answer().await {
                Ok(_) => Error::copy_direction("COPY … FROM STDIN"),
                Err(error) => error,
            },
            Err(error) => error,
        };
        self.pipe.give_up();
        self.error = Some(error.clone());
        Err(error)
    }

    async fn answer(&mut self) -> Result<Answer> {
        self.step_timeout
            .step(self.waiting.wait())
            .await??
            .into_one()
    }

    /// Ends the data, and returns how many rows were copied.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send); then nothing was copied.
    pub async fn finish(mut self) -> Result<u64> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.pipe.finish();
        let answer = self.answer().await?;
        Ok(answer.row_count.unwrap_or_default())
    }
}

/// The data from a table or a query. About 256 KiB of it are in memory at a time; while the caller
/// does not read, the server waits.
///
/// If this is dropped before the end, the rest is received and discarded, which keeps the
/// connection busy.
pub struct CopyOut<'l> {
    // Keeps others from asking meanwhile.
    _lock: &'l Lock<PostgresDriver>,
    pipe: Pipe,
    /// None once the answer came.
    waiting: Option<PendingAnswers<PostgresDriver>>,
    step_timeout: StepTimeout<PostgresDriver>,
    error: Option<Error>,
}

impl<'l> CopyOut<'l> {
    fn begin(lock: &'l Lock<PostgresDriver>, sql: Arc<str>, is_within: bool) -> Self {
        let (pipe, waiting, step_timeout) = begin(lock, sql, Direction::Out, is_within);
        Self {
            _lock: lock,
            pipe,
            waiting: Some(waiting),
            step_timeout,
            error: None,
        }
    }

    /// Returns the next data: in the text formats, any number of complete rows; `None` at the end.
    /// If the future is dropped while it waits, no data is lost.
    ///
    /// # Errors
    ///
    /// When the server refuses the statement or fails half-way, sends nothing for too long, or the
    /// connection is lost. The data before is then incomplete. Each further call returns the same
    /// error.
    pub async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let next = self.next().await;
        if let Err(error) = &next {
            self.pipe.give_up();
            self.error = Some(error.clone());
        }
        next
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let popped = poll_fn(|cx| self.pipe.poll_pop(cx));
        if let Some(data) = self.step_timeout.step(popped).await? {
            return Ok(Some(data));
        }
        let Some(waiting) = &mut self.waiting else {
            return Ok(None);
        };
        let answer = self.step_timeout.step(waiting.wait()).await?;
        self.waiting = None;
        answer?.into_one()?;
        Ok(None)
    }
}
