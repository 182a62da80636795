//! A connection for oneself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lookaside_value::{ParamBatch, Value};
use tokio::sync::{mpsc, oneshot};

use super::Client;
use super::intake::{Ask, Caller, Command, Order};
use super::transaction::Transaction;
use super::turn::{Turn, in_time};
use crate::drive::Drive;
use crate::error::Sent;
use crate::request::Portal;
use crate::{Answer, Answers, Description, Request, Result, Syncs, TransactionOptions};

/// A shared connection that is one caller's for a while; what others ask waits.
///
/// It is everybody's again as soon as this is dropped and all that was asked is answered. A
/// transaction that is open then is rolled back. Other settings of the session stay as they are.
///
/// Whoever asks the [`Client`] that this came from while he holds it waits for himself.
pub struct Lock<D: Drive> {
    inbox: mpsc::UnboundedSender<Command>,
    /// How many portals had a name.
    portal_count: AtomicU64,
    /// Keeps the connection, and knows why it ended.
    client: Client<D>,
}

/// Answers on their way.
pub(super) struct Waiting<D: Drive> {
    received: oneshot::Receiver<Result<Answers>>,
    client: Client<D>,
}

impl<D: Drive> Lock<D> {
    pub(super) fn new(inbox: mpsc::UnboundedSender<Command>, client: Client<D>) -> Self {
        Self {
            inbox,
            portal_count: AtomicU64::new(0),
            client,
        }
    }

    /// Asks and waits for the answer; `$1`, `$2`, … stand for the values.
    ///
    /// # Errors
    ///
    /// When the server refuses, a value does not fit, or the connection is lost.
    pub async fn query(&self, sql: impl Into<Arc<str>>, params: &[Value]) -> Result<Answer> {
        let mut answers = self.request(Request::new(sql, params)).await?;
        answers.pop().expect("a query has an answer")
    }

    /// Asks the same with each parameter set, all in one flight.
    ///
    /// # Errors
    ///
    /// When nothing was sent. What happens to a query later is its own result.
    pub async fn query_many(
        &self,
        sql: impl Into<Arc<str>>,
        params: ParamBatch,
        syncs: Syncs,
    ) -> Result<Vec<Result<Answer>>> {
        self.request(Request::many(sql, params).syncs(syncs)).await
    }

    /// The names and types of a statement's columns and parameters.
    ///
    /// # Errors
    ///
    /// When the server refuses the statement, or the connection is lost.
    pub async fn describe(&self, sql: impl Into<Arc<str>>) -> Result<Arc<Description>> {
        let answers = self.request(Request::describe(sql)).await?;
        Answer::into_description(answers)
    }

    /// Sends a request and waits for its answers.
    ///
    /// # Errors
    ///
    /// As [`query_many`](Self::query_many).
    pub async fn request(&self, request: Request) -> Result<Vec<Result<Answer>>> {
        let turn = Turn::of(&request);
        let (answers, waiting) = self.waiting();
        self.send(request, Some(answers), Order::Any, turn.clone());
        let answers = match turn {
            None => waiting.answers().await,
            Some(turn) => in_time(turn, waiting.answers()).await,
        };
        Ok(answers?.into_vec())
    }

    /// Begins a transaction.
    ///
    /// # Errors
    ///
    /// When the server refuses, or the connection is lost.
    pub async fn begin(&mut self, options: TransactionOptions) -> Result<Transaction<'_, D>> {
        Transaction::begin(self, &options).await
    }

    /// Whether the connection can be used no more.
    pub fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    /// A name for a portal. It is free: those of who had the connection before were gone with the
    /// transaction.
    pub(super) fn new_portal(&self) -> Portal {
        // Relaxed, because nothing but the number is shared.
        Portal(self.portal_count.fetch_add(1, Ordering::Relaxed))
    }

    /// Sends a request; it is on its way when this returns.
    pub(super) fn ask(&self, request: Request, order: Order) -> Waiting<D> {
        let (answers, waiting) = self.waiting();
        self.send(request, Some(answers), order, None);
        waiting
    }

    fn waiting(&self) -> (Caller, Waiting<D>) {
        let (answers, received) = oneshot::channel();
        let client = self.client.clone();
        (answers, Waiting { received, client })
    }

    /// Sends what nobody waits for, when all before it is answered.
    pub(super) fn tell(&self, request: Request) {
        self.send(request, None, Order::Alone, None);
    }

    fn send(&self, request: Request, answers: Option<Caller>, order: Order, turn: Option<Turn>) {
        let ask = Box::new(Ask {
            request,
            answers,
            order,
            turn,
        });
        // Where nobody takes it, the connection has ended, as the one who waits will find.
        let _ = self.inbox.send(Command::Ask(ask));
    }
}

impl<D: Drive> Waiting<D> {
    pub(super) async fn answers(mut self) -> Result<Answers> {
        self.wait().await
    }

    /// Waits for the answers, once. If it is dropped before, it can be called again.
    pub(super) async fn wait(&mut self) -> Result<Answers> {
        let answers = (&mut self.received).await;
        answers.unwrap_or_else(|_| Err(self.client.ended().of_query(Sent::Something)))
    }

    pub(super) async fn answer(self) -> Result<Answer> {
        self.answers().await?.into_one()
    }
}
