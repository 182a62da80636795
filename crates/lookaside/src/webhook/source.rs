//! The end that the run reads, and the server behind it.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use lookaside_http::{Address, CaughtPanic, ErrorKind, Listen, Options, Server};
use lookaside_stream::{MessageRead, MessageSource, Messages, OnStop, StopFlag};

use super::answer;
use super::options::{READ_BY_CURL, WebhookOptions};
use super::queue::{Received, Taken};
use super::service::WebhookService;
use super::shared::Shared;
use crate::failure::Failure;

/// How many bytes are passed to the run at once: as a block of bytes, they stay in a core's
/// second-level cache.
const READ_SIZE: usize = 128 << 10;

/// How many events are passed at once, if they are small.
const READ_COUNT: usize = 4096;

/// From how many requests events are passed at once: the segments of a read are searched one by one.
const READ_REQUEST_COUNT: usize = 256;

/// The number of I/O threads: one receives while the other decodes a large body.
const THREAD_COUNT: usize = 2;

/// The number of connections of a thread: each may have a head of up to 32 KiB in memory.
const CONNECTION_COUNT_MAX: usize = 4096;

/// How many requests of a connection wait for their answers at once; clients rarely send more than
/// one.
const DEFERRED_COUNT_MAX: usize = 16;

/// How long clients have at the end to read their answers.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// An open source.
pub(crate) struct Webhook {
    pub(crate) source: Box<dyn MessageSource>,
    /// The address that it listens on.
    pub(crate) address: SocketAddr,
    pub(crate) end: WebhookEnd,
}

/// Ends the waiting of requests from another thread.
pub(crate) struct WebhookEnd(Arc<Shared>);

impl WebhookEnd {
    /// Answers all requests that wait for their delivery with 503, and drops those that the run has
    /// not read.
    pub(crate) fn answer_all(&self) {
        self.0.end();
    }
}

/// Begins to listen. Events are JSON if `is_json` is set; `stop` is raised when the run is to end.
///
/// # Errors
/// When the address is not available, or no thread can be started.
pub(crate) fn open(
    options: &WebhookOptions,
    is_json: bool,
    stop: StopFlag,
) -> Result<Webhook, Failure> {
    let address = options.address()?;
    let shared = Arc::new(Shared::new(options.clone(), is_json, stop));
    let server = Server::builder(Options {
        threads: THREAD_COUNT,
        connection_count_max: CONNECTION_COUNT_MAX,
        deferred_count_max: DEFERRED_COUNT_MAX,
        drain_timeout: END_TIMEOUT,
        on_panic: Some(log_panic),
        on_refusal: Some(answer::count_refusal),
        // All routes are streamed, and have their own limit.
        body_size_max: 0,
        ..Options::default()
    });
    let server = server.listen(Listen::tcp(address)).on_failure({
        let shared = Arc::clone(&shared);
        move || shared.queue.fail()
    });
    let server = server.start({
        let shared = Arc::clone(&shared);
        move |io| WebhookService::new(Arc::clone(&shared), io)
    });
    let server = server.map_err(|error| cannot_listen(options, &error))?;
    let address = match server.addresses() {
        [Address::Tcp(address)] => *address,
        other => unreachable!("it listens on one address, not on {other:?}"),
    };
    Ok(Webhook {
        source: Box::new(WebhookSource {
            shared: Arc::clone(&shared),
            server: Some(server),
            current: None,
        }),
        address,
        end: WebhookEnd(shared),
    })
}

/// Checks that the address can be listened on; returns one line on that.
///
/// # Errors
/// When it cannot.
pub(crate) fn check(options: &WebhookOptions) -> Result<String, Failure> {
    let address = options.address()?;
    match TcpListener::bind(address) {
        Ok(_) => Ok(format!("{}: the address can be bound", options.name())),
        Err(error) => Err(cannot_listen(options, &error)),
    }
}

fn cannot_listen(options: &WebhookOptions, error: &dyn std::error::Error) -> Failure {
    Failure::new(format!("input `{}`: cannot listen", options.name()))
        .because(error)
        .with_help(format!(
            "write an address of this machine and a port that no other program uses; \
             {READ_BY_CURL}"
        ))
}

/// Logs a panic that ended one connection.
fn log_panic(caught: &CaughtPanic<'_>) {
    let CaughtPanic { stage, peer, .. } = caught;
    // The message may quote what the client sent; the panic itself has put it on standard error.
    tracing::error!(?stage, ?peer, "a panic ended a connection");
}

struct WebhookSource {
    shared: Arc<Shared>,
    /// `None` after the end.
    server: Option<Server>,
    /// The request whose events are being read.
    current: Option<Received>,
}

impl WebhookSource {
    /// The request to read from; waits for one no longer than `timeout`.
    fn request(&mut self, timeout: Duration) -> io::Result<Result<&mut Received, MessageRead>> {
        if self.current.is_none() {
            self.current = match self.shared.queue.take(timeout)? {
                Taken::Request(request) => Some(request),
                Taken::Nothing => return Ok(Err(MessageRead::Idle)),
                Taken::End => return Ok(Err(MessageRead::End)),
            };
        }
        Ok(self.current.as_mut().ok_or(MessageRead::Idle))
    }
}

impl MessageSource for WebhookSource {
    fn read(&mut self, messages: &mut Messages, timeout: Duration) -> io::Result<MessageRead> {
        let shared = Arc::clone(&self.shared);
        let (mut size, mut request_count) = (0, 0);
        while size < READ_SIZE && messages.len() < READ_COUNT && request_count < READ_REQUEST_COUNT
        {
            let timeout = match messages.is_empty() {
                true => timeout,
                false => Duration::ZERO,
            };
            let request = match self.request(timeout) {
                Ok(Ok(request)) => request,
                // What was read is processed first.
                _ if !messages.is_empty() => break,
                Ok(Err(read)) => return Ok(read),
                Err(error) => return Err(error),
            };
            let Received {
                partition,
                events,
                metadata,
            } = request;
            let Some(event) = events.next() else {
                self.current = None;
                request_count += 1;
                continue;
            };
            size += event.len() + metadata.size();
            let (position, key) = (partition.read_end(), metadata.key.as_deref());
            messages.push(partition, position, Some(event), key);
            messages.set_timestamp(metadata.arrived_ms);
            for (index, value) in &metadata.headers {
                messages.push_header(&shared.options.headers[*index], Some(value));
            }
        }
        Ok(match messages.is_empty() {
            true => MessageRead::Idle,
            false => MessageRead::Messages,
        })
    }

    fn stop(&mut self) -> OnStop {
        self.shared.close();
        OnStop::Drain
    }

    fn close(&mut self) -> io::Result<()> {
        self.current = None;
        self.shared.end();
        let Some(server) = self.server.take() else {
            return Ok(());
        };
        server.stop();
        // Somewhat longer than the threads need to close the connections of slow clients.
        match server.join_within(END_TIMEOUT * 2) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Timeout => {
                tracing::warn!(%error, "some clients have not read their answers");
                Ok(())
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl Drop for WebhookSource {
    fn drop(&mut self) {
        // A run that ends closes it; otherwise the run has not begun, and reports its own error.
        let _ = self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpStream;

    use lookaside_stream::Receipt;

    use super::*;

    fn webhook(options: &str) -> Webhook {
        let url = format!("http://127.0.0.1:0/events?{options}");
        let options = WebhookOptions::new(&url.parse().unwrap()).unwrap();
        open(&options, true, StopFlag::new().unwrap()).unwrap()
    }

    /// Sends a request with lines, and returns its connection.
    fn send(webhook: &Webhook, body: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(webhook.address).unwrap();
        let size = body.len();
        let head = format!("POST /events HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n\r\n");
        stream.write_all((head + body).as_bytes()).unwrap();
        BufReader::new(stream)
    }

    /// The status of the next answer.
    fn status(stream: &mut BufReader<TcpStream>) -> u16 {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line[9..12].parse().unwrap()
    }

    /// The next messages, and their receipt.
    fn read(webhook: &mut Webhook) -> (Messages, Arc<Receipt>) {
        let mut messages = Messages::new();
        let minute = Duration::from_secs(60);
        let read = webhook.source.read(&mut messages, minute).unwrap();
        assert_eq!(read, MessageRead::Messages);
        let receipt = Receipt::of(&messages);
        (messages, receipt)
    }

    #[test]
    fn a_request_does_not_wait_for_the_delivery_of_those_before_it() {
        let mut webhook = webhook("");
        let mut first = send(&webhook, "{\"n\":1}\n");
        let (_, first_receipt) = read(&mut webhook);
        let mut second = send(&webhook, "{\"n\":2}\n");
        let (_, second_receipt) = read(&mut webhook);
        second_receipt.release();
        assert_eq!(status(&mut second), 200);
        first_receipt.release();
        assert_eq!(status(&mut first), 200);
    }

    #[test]
    fn a_request_waits_for_all_of_its_events() {
        let mut webhook = webhook("");
        let count = 3 * READ_COUNT;
        let mut stream = send(&webhook, &"{}\n".repeat(count));
        let mut receipts = Vec::new();
        let mut read_count = 0;
        while read_count < count {
            let (messages, receipt) = read(&mut webhook);
            assert!(messages.len() <= READ_COUNT);
            read_count += messages.len();
            receipts.push(receipt);
        }
        let last = receipts.pop().unwrap();
        receipts.iter().for_each(|receipt| receipt.release());
        // An answer at this place would be that of the events.
        webhook.end.answer_all();
        assert_eq!(status(&mut stream), 503);
        last.release();
    }

    #[test]
    fn what_is_delivered_before_the_end_is_answered_so() {
        // Repeated, since the threads race.
        for _ in 0..20 {
            let mut webhook = webhook("");
            let mut streams = [1, 2].map(|n| send(&webhook, &format!("{{\"n\":{n}}}\n")));
            let mut receipts = Vec::new();
            let mut read_count = 0;
            while read_count < 2 {
                let (messages, receipt) = read(&mut webhook);
                read_count += messages.len();
                receipts.push(receipt);
            }
            receipts.iter().for_each(|receipt| receipt.release());
            webhook.source.close().unwrap();
            for stream in &mut streams {
                assert_eq!(status(stream), 200);
                // The server is gone.
                let mut rest = String::new();
                stream.read_to_string(&mut rest).unwrap();
                assert!(rest.ends_with("{\"events\":1}\n"), "{rest}");
            }
        }
    }

    #[test]
    fn a_source_that_is_dropped_answers_what_waits() {
        let webhook = webhook("");
        let mut stream = send(&webhook, "{}\n");
        lookaside_testing::wait_until("the request is received", || {
            !webhook.end.0.buffer.has_room(webhook.end.0.buffer.max())
        });
        drop(webhook);
        assert_eq!(status(&mut stream), 503);
    }
}
