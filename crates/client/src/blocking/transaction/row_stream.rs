//! Large results, a part at a time, on blocking connections.

use std::sync::Arc;

use lookaside_value::{RowSet, Value};

use super::Transaction;
use crate::blocking::Queryable as _;
use crate::driver::Driver;
use crate::request::{Fetch, Portal, ROW_COUNT_MAX};
use crate::{Answer, Error, Request, Result};

/// The rows of a large result, of which a chunk is in memory at a time.
///
/// See the [nonblocking one](crate::nonblocking::RowStream).
pub struct RowStream<'t, 'c, D: Driver> {
    transaction: &'t mut Transaction<'c, D>,
    fetch: Fetch,
    next: Next,
    is_begun: bool,
}

/// How to get the next chunk.
enum Next {
    /// The whole query.
    Open(Box<Request>),
    /// Fetch it.
    Fetch,
    /// There are no more.
    End,
    /// The stream has failed with this error.
    Failed(Error),
}

impl<'t, 'c, D: Driver> RowStream<'t, 'c, D> {
    pub(super) fn new(
        transaction: &'t mut Transaction<'c, D>,
        sql: Arc<str>,
        params: &[Value],
        chunk_row_count: u32,
    ) -> Self {
        let portal_count = &mut transaction.connection.portal_count;
        *portal_count += 1;
        let fetch = Fetch {
            portal: Portal(*portal_count),
            row_count: chunk_row_count.clamp(1, ROW_COUNT_MAX),
        };
        Self {
            transaction,
            fetch,
            next: Next::Open(Box::new(Request::open(sql, params, fetch))),
            is_begun: false,
        }
    }

    /// Returns the next chunk of rows; `None` after the last one.
    ///
    /// # Errors
    ///
    /// When the server refuses, a value does not fit, a chunk is larger than a result may be, or
    /// the connection is lost. Each further call returns the same error.
    pub fn next_chunk(&mut self) -> Result<Option<RowSet>> {
        let request = match &self.next {
            Next::Open(request) => (**request).clone(),
            Next::Fetch => Request::fetch(self.fetch),
            Next::End => return Ok(None),
            Next::Failed(error) => return Err(error.clone()),
        };
        self.is_begun = true;
        let answer = self.ask(request);
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

    /// The transaction, for other queries between two chunks.
    pub fn transaction(&mut self) -> &mut Transaction<'c, D> {
        self.transaction
    }

    fn ask(&mut self, request: Request) -> Result<Answer> {
        self.transaction.answers(request)?.into_one()
    }
}

impl<D: Driver> Drop for RowStream<'_, '_, D> {
    fn drop(&mut self) {
        if self.is_begun {
            // The server keeps an exhausted portal, too, until the end of the transaction. If the
            // request cannot be sent, the transaction has ended.
            let _ = self.ask(Request::close(self.fetch.portal));
        }
    }
}
