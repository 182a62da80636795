//! A connection that listens for notifications, and reports when it was interrupted.

mod queue;

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use super::back_off::BackOff;
use super::{Client, Hook, Notification, Options, Route};
use crate::net::watch_peer;
use crate::nonblocking::ConnectionWatch;
use crate::timer::Sleep;
use crate::{Error, PostgresConfig, Request, Result};

use queue::Queue;

/// The default limit for the log-in to a host, and then for LISTEN.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest name of a channel, in bytes: `NAMEDATALEN` with its NUL is 64.
const CHANNEL_SIZE_MAX: usize = 63;

/// Receives notifications that are sent with `NOTIFY`, over a dedicated connection that is
/// re-established when it is lost.
///
/// Notifications that are sent while there is no connection are lost: PostgreSQL does not store
/// them. So a program that keeps a copy of some data reads it again at each
/// [`Established`](ListenerEvent::Established), and gets each change from then on.
///
/// A vanished server is detected within half a minute, unless the URL sets other keepalives. There
/// is no reconnect while no task waits for [`next`](Self::next). When this is dropped, its
/// connection is closed.
///
/// ```no_run
/// # async fn example(config: &lookaside_client::PostgresConfig) -> lookaside_client::Result<()> {
/// use lookaside_client::postgres::{Listener, ListenerEvent, ListenerOptions};
///
/// let mut listener = Listener::connect(config, ListenerOptions::default(), ["goods"]).await?;
/// loop {
///     match listener.next().await {
///         ListenerEvent::Established => println!("read all goods"),
///         ListenerEvent::Notification(changed) => println!("read {}", changed.payload),
///         ListenerEvent::Missed(count) => println!("read all goods, for {count} changes"),
///         ListenerEvent::Lost(error) => eprintln!("what is known may be old: {error}"),
///         _ => {}
///     }
/// }
/// # }
/// ```
pub struct Listener {
    config: Arc<PostgresConfig>,
    options: ListenerOptions,
    channels: BTreeSet<String>,
    state: State,
    back_off: BackOff,
}

/// An event of a [`Listener`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ListenerEvent {
    /// From this event on, all notifications on all channels are received. It is the first event,
    /// and is repeated with each connection and after each [`Listener::listen`].
    Established,
    /// The connection was lost, or a reconnect has failed, which is tried again with the next
    /// event, after a pause. No notifications are received up to the next `Established`. Outside of
    /// a tokio runtime each attempt fails with [`ErrorKind::Misuse`](crate::ErrorKind::Misuse).
    Lost(Error),
    /// A notification was received.
    Notification(Notification),
    /// This many notifications were dropped, since the queue was full.
    Missed(u64),
}

/// The options of a [`Listener`].
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// The capacity of the queue of notifications. Those beyond are [missed](ListenerEvent::Missed),
    /// because a server whose notifications are not read has to keep them for all clients. One has up
    /// to 8,000 bytes; the default is 10,000.
    pub queue_count_max: usize,

    /// The options of the connection. Its `on_notification` is not called.
    pub connection: Options,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self {
            queue_count_max: 10_000,
            connection: Options::default(),
        }
    }
}

enum State {
    /// The connection is listening.
    Up(Session),
    /// The connection has ended with this error, but queued events remain.
    Ended(Arc<Queue>, Error),
    /// The next attempt is not due.
    Paused(Sleep),
    /// An attempt is running. It is stored here, so that it continues if the wait for an event is
    /// cancelled.
    Connecting(Pin<Box<dyn Future<Output = Result<Session>> + Send>>),
}

/// A connection that listens.
struct Session {
    client: Client,
    watch: ConnectionWatch,
    queue: Arc<Queue>,
}

impl Listener {
    /// Connects, and listens to these channels. Names are case-sensitive.
    ///
    /// # Errors
    ///
    /// When the connection fails, or a name is invalid. Later, the connection is re-established
    /// whatever happens.
    pub async fn connect<C: Into<String>>(
        config: &PostgresConfig,
        options: ListenerOptions,
        channels: impl IntoIterator<Item = C>,
    ) -> Result<Self> {
        if options.connection.route == Route::Pooler {
            return Err(Error::no_listening());
        }
        let mut config = config.clone();
        watch_peer(&mut config.keepalives);
        config.connect_timeout.get_or_insert(TIMEOUT);
        let config = Arc::new(config);
        let channels: BTreeSet<String> = channels.into_iter().map(Into::into).collect();
        for channel in &channels {
            check(channel)?;
        }
        let first = listen(Arc::clone(&config), options.clone(), script(&channels));
        Ok(Self {
            state: State::Up(first.await?),
            config,
            options,
            channels,
            back_off: BackOff::default(),
        })
    }

    /// The next event. If it is dropped before it is done, none is lost.
    pub async fn next(&mut self) -> ListenerEvent {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<ListenerEvent> {
        loop {
            match &mut self.state {
                State::Up(session) => {
                    if let Some(event) = session.queue.pop(cx) {
                        return Poll::Ready(event);
                    }
                    ready!(session.watch.poll_ended(cx));
                    let error = session.watch.error().unwrap_or_else(Error::closed);
                    self.state = State::Ended(Arc::clone(&session.queue), error);
                }
                State::Ended(queue, error) => {
                    if let Some(event) = queue.pop(cx) {
                        return Poll::Ready(event);
                    }
                    let error = error.clone();
                    return Poll::Ready(self.pause(error));
                }
                State::Paused(sleep) => {
                    ready!(Pin::new(sleep).poll(cx));
                    self.state = self.connecting();
                }
                State::Connecting(connecting) => match ready!(connecting.as_mut().poll(cx)) {
                    Ok(session) => {
                        self.back_off.reset();
                        self.state = State::Up(session);
                    }
                    Err(error) => return Poll::Ready(self.pause(error)),
                },
            }
        }
    }

    fn pause(&mut self, error: Error) -> ListenerEvent {
        self.state = State::Paused(self.back_off.pause());
        ListenerEvent::Lost(error)
    }

    fn connecting(&self) -> State {
        State::Connecting(Box::pin(listen(
            Arc::clone(&self.config),
            self.options.clone(),
            script(&self.channels),
        )))
    }

    /// Listens to one more channel. It is in effect when this returns, and
    /// [`Established`](ListenerEvent::Established) is queued again; without a connection, only that
    /// event signals it.
    ///
    /// # Errors
    ///
    /// When the name is invalid, or the server refuses.
    pub async fn listen(&mut self, channel: impl Into<String>) -> Result<()> {
        let channel = channel.into();
        check(&channel)?;
        if let State::Up(session) = &self.state {
            let listen = format!("listen {}", quoted(&channel));
            if ask(&session.client, listen).await? == ListenOutcome::Done {
                session.queue.extend();
            }
        }
        self.channels.insert(channel);
        self.start_over();
        Ok(())
    }

    /// Stops listening to a channel. Earlier notifications may still be returned.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub async fn unlisten(&mut self, channel: &str) -> Result<()> {
        if !self.channels.remove(channel) {
            return Ok(());
        }
        self.start_over();
        if let State::Up(session) = &self.state {
            ask(&session.client, format!("unlisten {}", quoted(channel))).await?;
        }
        Ok(())
    }

    /// A running attempt is for other channels.
    fn start_over(&mut self) {
        if let State::Connecting(_) = self.state {
            self.state = self.connecting();
        }
    }
}

/// Checks the result of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListenOutcome {
    Done,
    /// The connection is lost, and the next one will use the new channels.
    Lost,
}

async fn ask(client: &Client, sql: String) -> Result<ListenOutcome> {
    let answers = client.script(sql, 0).await;
    let refused = match answers {
        Ok(answers) => answers.into_iter().find_map(Result::err),
        Err(error) => Some(error),
    };
    match refused {
        None => Ok(ListenOutcome::Done),
        Some(error) if error.is_connection_lost() => Ok(ListenOutcome::Lost),
        Some(error) => Err(error),
    }
}

/// A connection that listens to the channels of the script.
async fn listen(
    config: Arc<PostgresConfig>,
    options: ListenerOptions,
    script: String,
) -> Result<Session> {
    let queue = Arc::new(Queue::new(options.queue_count_max));
    let hook = {
        let queue = Arc::clone(&queue);
        Hook::new(move |notification| queue.push(notification))
    };
    let connection = Options {
        on_notification: Some(hook),
        ..options.connection
    };
    let (client, watch) = Client::connect_watched(&config, connection).await?;
    let script = Request::script(script, 0).deadline(Instant::now() + TIMEOUT);
    for answer in client.request(script).await? {
        answer?;
    }
    queue.establish();
    Ok(Session {
        client,
        watch,
        queue,
    })
}

fn script(channels: &BTreeSet<String>) -> String {
    let listens = channels.iter().map(|channel| quoted(channel));
    let listens = listens.map(|channel| format!("listen {channel};"));
    listens.collect()
}

fn check(channel: &str) -> Result<()> {
    if channel.is_empty() || channel.len() > CHANNEL_SIZE_MAX || channel.contains('\0') {
        return Err(Error::no_channel(channel));
    }
    Ok(())
}

fn quoted(channel: &str) -> String {
    format!("\"{}\"", channel.replace('"', "\"\""))
}
