//! The blocks of a transaction.

use std::sync::Arc;

use lookaside_stream::{Receipt, RefusedMessage};

use crate::postgres::Rows;

/// The rows of blocks that follow each other in the file, and the position after them.
pub(super) struct Batch {
    pub(super) rows: Rows,
    blocks: Vec<Block>,
    /// The position after the last block, as it is stored.
    pub(super) position: String,
    size: usize,
}

/// What a block takes without rows, roughly: also an empty one is under way until its position is
/// stored.
const BLOCK_SIZE: usize = 256;

struct Block {
    receipt: Arc<Receipt>,
    row_count: u32,
}

impl Batch {
    /// A block whose rows are `rows`.
    pub(super) fn of(rows: Rows, receipt: &Arc<Receipt>, position: String) -> Self {
        let block = Block {
            receipt: Arc::clone(receipt),
            row_count: u32::try_from(rows.len()).expect("a block has less than 4 GiB"),
        };
        Self {
            size: rows.size() + BLOCK_SIZE,
            rows,
            blocks: vec![block],
            position,
        }
    }

    /// Appends what follows.
    pub(super) fn append(&mut self, next: Self) {
        self.rows.append(next.rows);
        self.blocks.extend(next.blocks);
        self.position = next.position;
        self.size += next.size;
    }

    /// The size in bytes when the blocks were read.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Whether all results of the blocks but these rows are delivered.
    pub(super) fn is_rest_delivered(&self) -> bool {
        let mut blocks = self.blocks.iter();
        // A block of a file is one segment.
        blocks.all(|block| block.receipt.undelivered(0) == block.row_count)
    }

    /// Reports the rows as delivered.
    pub(super) fn deliver(&self) {
        self.rows.deliver(0..self.rows.len());
    }

    /// Removes a row that the server does not accept.
    pub(super) fn refuse(&mut self, index: usize, reason: String) -> RefusedMessage {
        let mut first = 0;
        for block in &mut self.blocks {
            first += block.row_count as usize;
            if index < first {
                block.row_count -= 1;
                break;
            }
        }
        let refused = self.rows.refused(index, reason);
        self.rows.remove(index);
        refused
    }
}
