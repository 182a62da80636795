//! A connection of a feed: its socket, and the events of the server.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use lookaside_wire::postgres::{DataRow, Event, Request};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::protocol::FeedProtocol;
use crate::driver::Protocol as _;
use crate::net::{MaybeTls, READ_SIZE};
use crate::nonblocking::{Dialed, Socket};
use crate::{Error, Result};

/// What is read and written, whatever it is.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A session for replication. When it is dropped, the session ends.
pub(super) struct FeedConnection {
    socket: Box<dyn ByteStream>,
    protocol: MaybeTls<FeedProtocol>,
    /// Why nothing is written any more. The server may have said before why it closes.
    write_error: Option<Error>,
}

/// How the answer to a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// It is complete.
    Complete,
    /// The stream follows.
    Streaming,
}

impl FeedConnection {
    pub(super) fn new(dialed: Dialed, protocol: FeedProtocol) -> Self {
        let socket: Box<dyn ByteStream> = match dialed.socket {
            Socket::Tcp(stream) => Box::new(stream),
            Socket::Unix(stream) => Box::new(stream),
        };
        Self {
            socket,
            protocol: MaybeTls::new(protocol, dialed.peer),
            write_error: None,
        }
    }

    pub(super) fn protocol(&self) -> &FeedProtocol {
        &self.protocol
    }

    /// Completes the log-in.
    pub(super) async fn log_in(&mut self) -> Result<()> {
        let is_ready = |event: Event<'_>| matches!(event, Event::Ready { .. }).then_some(Ok(()));
        self.event(is_ready).await?;
        self.protocol.is_logged_in = true;
        Ok(())
    }

    /// Sends a command, and passes the rows of its answer to `on_row`.
    pub(super) async fn command(
        &mut self,
        sql: &str,
        mut on_row: impl FnMut(DataRow<'_>) -> Result<()>,
    ) -> Result<Answered> {
        let queued = self.protocol.connection.queue(Request::Query(sql));
        queued.map_err(Error::request)?;
        let mut refused = None;
        self.event(|event| match event {
            Event::DataRow { row, .. } => on_row(row).err().map(Err),
            Event::Failed { error, .. } => {
                refused = Some(Error::refused(error.into_owned()));
                None
            }
            Event::Ready { .. } => Some(refused.take().map_or(Ok(Answered::Complete), Err)),
            Event::CopyBoth { .. } => Some(Ok(Answered::Streaming)),
            _ => None,
        })
        .await
    }

    /// Waits until `take` has a result for an event.
    async fn event<T>(
        &mut self,
        mut take: impl FnMut(Event<'_>) -> Option<Result<T>>,
    ) -> Result<T> {
        poll_fn(|cx| {
            loop {
                if let Some(result) = self.take_events(&mut take) {
                    return Poll::Ready(result);
                }
                self.write(cx);
                if let Err(error) = ready!(self.poll_read(cx)) {
                    return Poll::Ready(Err(error));
                }
            }
        })
        .await
    }

    /// Passes received events to `take` until it has a result, or the connection has ended.
    pub(super) fn take_events<T>(
        &mut self,
        mut take: impl FnMut(Event<'_>) -> Option<Result<T>>,
    ) -> Option<Result<T>> {
        let protocol = &mut *self.protocol;
        loop {
            let event = match protocol.connection.next_event() {
                Ok(Some(event)) => event,
                Ok(None) => return protocol.end.clone().map(Err),
                Err(error) => {
                    let error = Error::feed_protocol(error, protocol.message_size_max);
                    return Some(Err(error));
                }
            };
            let taken = match event {
                Event::ParameterStatus(status) => {
                    protocol.server_role.report(status.name, status.value);
                    if status.name == c"server_version" {
                        protocol.server_version = status.value.to_string_lossy().into_owned();
                    }
                    None
                }
                Event::Fatal { error } => {
                    let error = error.into_owned();
                    Some(Err(match protocol.is_logged_in {
                        true => Error::session_ended(error),
                        false => Error::log_in_refused(error),
                    }))
                }
                Event::Closed => {
                    let error = protocol.end.clone().or_else(|| self.write_error.take());
                    Some(Err(error.unwrap_or_else(Error::end_of_stream)))
                }
                event => take(event),
            };
            if taken.is_some() {
                return taken;
            }
        }
    }

    /// Queues a message of the stream. After the end of the connection, nothing is sent.
    pub(super) fn copy_data(&mut self, data: &[u8]) {
        // The next event is the reason.
        let _ = self.protocol.connection.copy_data(data);
    }

    /// Writes what there is room for; returns whether that was all. A failure is reported once
    /// there is nothing to read.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) -> bool {
        if self.write_error.is_some() {
            return true;
        }
        loop {
            let output = self.protocol.output();
            if output.is_empty() {
                return true;
            }
            match Pin::new(&mut self.socket).poll_write(cx, output) {
                Poll::Ready(Ok(0)) => {
                    let error = io::Error::from(io::ErrorKind::WriteZero);
                    self.write_error = Some(error.into());
                    return true;
                }
                Poll::Ready(Ok(size)) => self.protocol.written(size),
                Poll::Ready(Err(error)) => {
                    self.write_error = Some(error.into());
                    return true;
                }
                Poll::Pending => return false,
            }
        }
    }

    /// Reads once.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut space = ReadBuf::new(self.protocol.receive_space(READ_SIZE));
        match Pin::new(&mut self.socket).poll_read(cx, &mut space) {
            Poll::Ready(Ok(())) => match space.filled().len() {
                0 => self.protocol.end_of_input(),
                size => self.protocol.received(size),
            },
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
            Poll::Pending => {
                return match self.write_error.take() {
                    Some(error) => Poll::Ready(Err(error)),
                    None => Poll::Pending,
                };
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The server then drops the temporary slot at once, and does not log an unexpected end. If there
/// is no room for the message, the end of the stream has the same effect.
impl Drop for FeedConnection {
    fn drop(&mut self) {
        self.protocol.connection.terminate();
        self.write(&mut Context::from_waker(Waker::noop()));
    }
}
