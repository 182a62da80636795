//! The answer that is coming in.

use std::sync::Arc;

use lookaside_value::{RowSetBuilder, Text};
use lookaside_wire::mysql::Row;

use super::plan::Plan;
use crate::{Answer, Error, Result};

/// What has come of the answer to a query. A procedure may give several results; the first with
/// rows is the answer, and the rest is read and left out.
#[derive(Default)]
pub(super) struct Incoming {
    stage: Stage,
    row_count: Option<u64>,
}

#[derive(Default)]
enum Stage {
    /// No rows came.
    #[default]
    Empty,
    Rows {
        plan: Arc<Plan>,
        rows: RowSetBuilder,
        size: usize,
    },
    /// The rows are here.
    Complete(RowSetBuilder),
    /// The rest is of no use.
    Failed(Error),
    /// Nobody waits for it.
    Discarded,
}

impl Incoming {
    /// Whether rows that follow are to be read.
    pub(super) fn wants_rows(&self) -> bool {
        matches!(self.stage, Stage::Empty)
    }

    pub(super) fn begin(&mut self, plan: Arc<Plan>) {
        let rows = RowSetBuilder::with_columns(Arc::clone(&plan.names));
        self.stage = Stage::Rows {
            plan,
            rows,
            size: 0,
        };
    }

    /// Nobody waits for the answer.
    pub(super) fn discard(&mut self) {
        self.stage = Stage::Discarded;
    }

    pub(super) fn fail(&mut self, error: Error) {
        self.stage = Stage::Failed(error);
    }

    pub(super) fn row(&mut self, row: Row<'_>, size_max: usize) {
        let Stage::Rows { plan, rows, size } = &mut self.stage else {
            return;
        };
        match plan.read(row, rows) {
            Ok(row_size) => *size += row_size,
            Err(error) => return self.fail(error),
        }
        if *size > size_max {
            self.fail(Error::result_too_large(size_max));
        }
    }

    /// All rows of a result came.
    pub(super) fn end_rows(&mut self) {
        match std::mem::take(&mut self.stage) {
            Stage::Rows { rows, .. } => {
                self.row_count = Some(rows.len() as u64);
                self.stage = Stage::Complete(rows);
            }
            stage => self.stage = stage,
        }
    }

    /// A statement without rows was done.
    pub(super) fn end_changes(&mut self, row_count: u64) {
        if matches!(self.stage, Stage::Empty) {
            self.row_count = Some(row_count);
        }
    }

    /// Another result, or none, comes in place of what came.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// The answer, now that all of it is here, unless nobody waits for it.
    pub(super) fn finish(&mut self) -> Option<Result<Answer>> {
        let Self { stage, row_count } = std::mem::take(self);
        let rows = match stage {
            Stage::Empty => RowSetBuilder::new(std::iter::empty::<Text>()),
            Stage::Complete(rows) => rows,
            Stage::Failed(error) => return Some(Err(error)),
            Stage::Discarded => return None,
            Stage::Rows { .. } => panic!("rows come to an end before their answer does"),
        };
        Some(Ok(Answer {
            rows: rows.build(),
            row_count,
            description: None,
            raw: None,
            script: None,
        }))
    }
}
