//! The order of messages: changes come in transactions, one after the other.

use crate::postgres::feed::{LogicalReplicationMessage, Lsn};
use crate::{Error, Result};

/// Which message may come next.
#[derive(Debug, Default)]
pub(super) struct TransactionOrder {
    /// Where the current transaction will commit, as its Begin says.
    open: Option<Lsn>,
}

impl TransactionOrder {
    /// Checks that a message may come here, so that no owner of a feed has to.
    pub(super) fn check(&mut self, message: &LogicalReplicationMessage<'_>) -> Result<()> {
        use LogicalReplicationMessage as Message;
        match (message, self.open) {
            (Message::Begin(begin), None) => self.open = Some(begin.final_lsn),
            (Message::Begin(_), Some(_)) => {
                return Err(Error::stream_out_of_order(
                    "a Begin within a transaction of the change feed",
                ));
            }
            (Message::Commit(commit), Some(final_lsn)) => {
                if commit.lsn != final_lsn {
                    return Err(Error::stream_out_of_order(
                        "a Commit of another transaction of the change feed than the Begin before",
                    ));
                }
                self.open = None;
            }
            // Those that are not transactional come anywhere.
            (Message::Message(_), _) | (_, Some(_)) => {}
            (_, None) => {
                return Err(Error::stream_out_of_order(
                    "a change outside of a transaction of the change feed",
                ));
            }
        }
        Ok(())
    }
}
