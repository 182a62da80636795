//! COPY piece by piece, on blocking connections.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::blocking::{Connection, Transaction};
use crate::copy::{Direction, Pipe, pipe};
use crate::driver::Driver as _;
use crate::postgres::PostgresDriver;
use crate::{Error, Request, Result, Ticket};

impl Connection<PostgresDriver> {
    /// A `COPY … FROM STDIN` whose data is written piece by piece, in the format that the statement
    /// specifies.
    ///
    /// ```no_run
    /// # fn example(connection: &mut lookaside_client::postgres::blocking::Connection) -> lookaside_client::Result<()> {
    /// let mut copy = connection.copy_in("copy goods from stdin")?;
    /// for id in 0..1_000_000 {
    ///     copy.send(format!("{id}\\tTea\\n"))?;
    /// }
    /// println!("{} rows", copy.finish()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When the connection has ended.
    pub fn copy_in(&mut self, sql: impl Into<Arc<str>>) -> Result<CopyIn<'_>> {
        let (pipe, end) = pipe(Direction::In);
        let ticket = self.driver_mut().submit(Request::copy_stream(sql, end))?;
        Ok(CopyIn {
            connection: self,
            ticket,
            pipe,
            answers: None,
        })
    }

    /// A `COPY … TO STDOUT` whose data is read piece by piece, in the format that the statement
    /// specifies.
    ///
    /// ```no_run
    /// # fn example(connection: &mut lookaside_client::postgres::blocking::Connection) -> lookaside_client::Result<()> {
    /// let mut copy = connection.copy_out("copy goods to stdout (format csv)")?;
    /// while let Some(data) = copy.next_chunk()? {
    ///     println!("{} bytes", data.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When the connection has ended.
    pub fn copy_out(&mut self, sql: impl Into<Arc<str>>) -> Result<CopyOut<'_>> {
        let (pipe, end) = pipe(Direction::Out);
        let ticket = self.driver_mut().submit(Request::copy_stream(sql, end))?;
        Ok(CopyOut {
            connection: self,
            ticket,
            pipe,
            answers: None,
        })
    }
}

impl Transaction<'_, PostgresDriver> {
    /// As [`Connection::copy_in`], as a part of the transaction.
    ///
    /// # Errors
    ///
    /// When the connection has ended.
    pub fn copy_in(&mut self, sql: impl Into<Arc<str>>) -> Result<CopyIn<'_>> {
        self.connection().copy_in(sql)
    }

    /// As [`Connection::copy_out`], as a part of the transaction.
    ///
    /// # Errors
    ///
    /// When the connection has ended.
    pub fn copy_out(&mut self, sql: impl Into<Arc<str>>) -> Result<CopyOut<'_>> {
        self.connection().copy_out(sql)
    }
}

/// The data for a table; see the [nonblocking one](crate::postgres::CopyIn).
pub struct CopyIn<'c> {
    connection: &'c mut Connection<PostgresDriver>,
    ticket: Ticket,
    pipe: Pipe,
    /// Set once the server has answered or the copy has ended: no more is sent then.
    answers: Option<Result<()>>,
}

impl CopyIn<'_> {
    /// Writes data, split anywhere, as the server accepts it.
    ///
    /// # Errors
    ///
    /// When the server has refused the statement or data that was sent before, or the connection is
    /// lost. Each further call returns the same error.
    pub fn send(&mut self, data: impl Into<Vec<u8>>) -> Result<()> {
        let mut cx = Context::from_waker(Waker::noop());
        let mut data = data.into();
        while !data.is_empty() {
            if let Some(answer) = &self.answers {
                let refused = || Err(Error::copy_direction("COPY … FROM STDIN"));
                return answer.clone().and_then(|()| refused());
            }
            match self.pipe.poll_push(&mut data, &mut cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    self.answers = Some(answer(self.connection, self.ticket).map(drop))
                }
                Poll::Pending => self.drain(),
            }
        }
        Ok(())
    }

    /// Moves data to the socket until the pipe is empty.
    fn drain(&mut self) {
        let pipe = &self.pipe;
        while !pipe.is_taken() && !self.connection.is_closed() {
            self.connection.step_until(None, || pipe.is_taken());
        }
        // What the server has said meanwhile, an error perhaps.
        self.connection.step(Some(Instant::now()));
    }

    /// Ends the data, and returns how many rows were copied.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send); then nothing was copied.
    pub fn finish(self) -> Result<u64> {
        let mut copy = self;
        if let Some(answer) = &copy.answers {
            let refused = || Err(Error::copy_direction("COPY … FROM STDIN"));
            return answer.clone().and_then(|()| refused());
        }
        copy.pipe.finish();
        copy.answers = Some(Ok(()));
        answer(copy.connection, copy.ticket)
    }
}

impl Drop for CopyIn<'_> {
    fn drop(&mut self) {
        if self.answers.is_none() {
            // The next request would wait for it.
            self.pipe.give_up();
            let _ = answer(self.connection, self.ticket);
        }
    }
}

/// The data from a table; see the [nonblocking one](crate::postgres::CopyOut).
pub struct CopyOut<'c> {
    connection: &'c mut Connection<PostgresDriver>,
    ticket: Ticket,
    pipe: Pipe,
    /// How it ended.
    answers: Option<Result<()>>,
}

impl CopyOut<'_> {
    /// Returns the next data: in the text formats, any number of complete rows; `None` at the end.
    ///
    /// # Errors
    ///
    /// When the server refuses the statement or fails half-way, or the connection is lost. The data
    /// before is then incomplete. Each further call returns the same error.
    pub fn next_chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            match self.pipe.poll_pop(&mut cx) {
                Poll::Ready(Some(data)) => return Ok(Some(data)),
                Poll::Ready(None) if self.answers.is_none() => {
                    self.answers = Some(answer(self.connection, self.ticket).map(drop));
                }
                Poll::Ready(None) => break,
                Poll::Pending => self.connection.step(None),
            }
        }
        let answer = self.answers.clone();
        answer.unwrap_or(Ok(())).map(|()| None)
    }
}

impl Drop for CopyOut<'_> {
    fn drop(&mut self) {
        if self.answers.is_none() {
            // The next request would wait for it.
            self.pipe.give_up();
            let _ = answer(self.connection, self.ticket);
        }
    }
}

/// Waits for the end of the copy, and says how many rows it has.
fn answer(connection: &mut Connection<PostgresDriver>, ticket: Ticket) -> Result<u64> {
    let answer = connection.reply(ticket).into_one()?;
    Ok(answer.row_count.unwrap_or_default())
}
