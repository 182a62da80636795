//! Large results, a part at a time.

use std::sync::Arc;

use lookaside_value::{RowSet, Value};

use crate::driver::Driver;
use crate::nonblocking::command_queue::Order;
use crate::nonblocking::lock::{Lock, PendingAnswers};
use crate::request::{Fetch, ROW_COUNT_MAX};
use crate::{Answers, Error, Request, Result};

/// The rows of a large result, of which a chunk is in memory at a time.
///
/// They are a snapshot of the moment when the first ones were requested. PostgreSQL computes them
/// on demand; MySQL and MariaDB compute all first, and store them in a temporary table. When this
/// is dropped, the rest is not fetched, and the transaction continues.
///
/// ```no_run
/// # use lookaside_client::{Result, TransactionOptions, postgres::Client};
/// # async fn example(client: &Client) -> Result<()> {
/// let mut lock = client.lock().await?;
/// let transaction = lock.begin(TransactionOptions::default()).await?;
/// let mut goods = transaction.stream("select * from goods", &[], 10_000);
/// while let Some(rows) = goods.next_chunk().await? {
///     println!("{} more", rows.len());
/// }
/// # Ok(())
/// # }
/// ```
pub struct RowStream<'t, D: Driver> {
    lock: &'t Lock<D>,
    fetch: Fetch,
    next: Next<D>,
    is_begun: bool,
}

/// How to get the next chunk.
enum Next<D: Driver> {
    /// The whole query.
    Open(Box<Request>),
    /// Fetch it.
    Fetch,
    /// Wait for it.
    Wait(PendingAnswers<D>),
    /// There are no more.
    End,
    /// The stream has failed with this error.
    Failed(Error),
}

impl<'t, D: Driver> RowStream<'t, D> {
    pub(super) fn new(
        lock: &'t Lock<D>,
        sql: Arc<str>,
        params: &[Value],
        chunk_row_count: u32,
    ) -> Self {
        let fetch = Fetch {
            portal: lock.new_portal(),
            row_count: chunk_row_count.clamp(1, ROW_COUNT_MAX),
        };
        Self {
            lock,
            fetch,
            next: Next::Open(Box::new(Request::open(sql, params, fetch))),
            is_begun: false,
        }
    }

    /// Returns the next chunk of rows; `None` after the last one.
    ///
    /// If it is dropped before it is done, the next call waits for the same rows.
    ///
    /// # Errors
    ///
    /// When the server refuses, a value does not fit, a chunk is larger than a result may be, or
    /// the connection is lost. Each further call returns the same error.
    pub async fn next_chunk(&mut self) -> Result<Option<RowSet>> {
        let request = match &mut self.next {
            Next::Open(request) => Some((**request).clone()),
            Next::Fetch => Some(Request::fetch(self.fetch)),
            Next::Wait(_) => None,
            Next::End => return Ok(None),
            Next::Failed(error) => return Err(error.clone()),
        };
        if let Some(request) = request {
            self.is_begun = true;
            self.next = Next::Wait(self.lock.ask(request, Order::Any));
        }
        let Next::Wait(waiting) = &mut self.next else {
            panic!("what was asked is waited for");
        };
        let answers = waiting.wait().await;
        let answer = answers.and_then(Answers::into_one);
        match answer {
            Ok(answer) => {
                let is_last = answer.rows.len() < self.fetch.row_count as usize;
                self.next = if is_last { Next::End } else { Next::Fetch };
                Ok((!answer.rows.is_empty()).then_some(answer.rows))
            }
            Err(error) => {
                self.next = Next::Failed(error.clone());
                Err(error)
            }
        }
    }
}

impl<D: Driver> Drop for RowStream<'_, D> {
    fn drop(&mut self) {
        if self.is_begun {
            // The server keeps an exhausted portal, too, until the end of the transaction.
            self.lock.send_detached(Request::close(self.fetch.portal));
        }
    }
}
