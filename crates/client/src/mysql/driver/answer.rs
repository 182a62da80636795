//! The answer that is being received.

use std::sync::Arc;

use lookaside_value::{RowSetBuilder, Text};
use lookaside_wire::mysql::{OkPacket, Row};

use super::row_layout::RowLayout;
use crate::{Answer, Error, Result};

/// The estimated overhead of a result beside its rows and column names, so that empty ones count
/// for the limit as well.
const RESULT_SIZE: usize = size_of::<Answer>();

/// The received part of an answer. A procedure may return several results; the first with rows is
/// the answer, and the rest is read and dropped, unless all are requested.
#[derive(Default)]
pub(super) struct Incoming {
    stage: Stage,
    row_count: Option<u64>,
    last_insert_id: Option<u64>,
    warning_count: u16,
    /// The earlier results, if all are requested.
    results: Vec<Answer>,
    /// The size of those, including the names of their columns.
    size: usize,
}

#[derive(Default)]
enum Stage {
    /// No rows have been received.
    #[default]
    Empty,
    Rows {
        layout: Arc<RowLayout>,
        rows: RowSetBuilder,
        size: usize,
    },
    /// All rows have been received.
    Complete(RowSetBuilder, usize),
    /// The rest is discarded, because of an error.
    Failed(Error),
    /// Its caller is gone.
    Discarded,
}

impl Incoming {
    /// Whether following rows have to be decoded.
    pub(super) fn wants_rows(&self) -> bool {
        matches!(self.stage, Stage::Empty)
    }

    pub(super) fn begin(&mut self, layout: Arc<RowLayout>) {
        let rows = RowSetBuilder::with_columns(Arc::clone(&layout.names));
        self.stage = Stage::Rows {
            layout,
            rows,
            size: 0,
        };
    }

    /// The caller of the query is gone.
    pub(super) fn discard(&mut self) {
        self.stage = Stage::Discarded;
    }

    /// Drops the received part of the answer, since the caller is gone.
    pub(super) fn give_up(&mut self) {
        self.results = Vec::new();
        if !self.wants_rows() {
            self.discard();
        }
    }

    /// Whether rows or results of an incomplete answer are kept.
    pub(super) fn is_kept(&self) -> bool {
        let has_rows = matches!(self.stage, Stage::Rows { .. } | Stage::Complete(..));
        has_rows || !self.results.is_empty()
    }

    pub(super) fn fail(&mut self, error: Error) {
        self.results = Vec::new();
        self.stage = Stage::Failed(error);
    }

    pub(super) fn row(&mut self, row: Row<'_>, size_max: usize) {
        let Stage::Rows { layout, rows, size } = &mut self.stage else {
            return;
        };
        match layout.read(row, rows) {
            Ok(row_size) => *size += row_size,
            Err(error) => return self.fail(error),
        }
        if *size + self.size > size_max {
            self.fail(Error::result_too_large(size_max));
        }
    }

    /// Handles the end of the rows of a result.
    pub(super) fn end_rows(&mut self) {
        match std::mem::take(&mut self.stage) {
            Stage::Rows { rows, size, .. } => {
                self.row_count = Some(rows.len() as u64);
                self.stage = Stage::Complete(rows, size);
            }
            stage => self.stage = stage,
        }
    }

    /// Handles the end of a statement without rows.
    pub(super) fn end_changes(&mut self, row_count: u64) {
        if matches!(self.stage, Stage::Empty) {
            self.row_count = Some(row_count);
        }
    }

    /// Stores the additional information at the end of a result.
    pub(super) fn end_result(&mut self, ok: &OkPacket<'_>) {
        self.last_insert_id = (ok.last_insert_id > 0).then_some(ok.last_insert_id);
        self.warning_count = ok.warning_count;
    }

    /// Stores a result, since another one follows and all are requested.
    pub(super) fn next_result(&mut self, size_max: usize) {
        let rows = match &mut self.stage {
            Stage::Empty => RowSetBuilder::new(std::iter::empty::<Text>()),
            Stage::Complete(..) => {
                let Stage::Complete(rows, size) = std::mem::take(&mut self.stage) else {
                    unreachable!("the stage was just looked at");
                };
                self.size += size;
                rows
            }
            // A failed or discarded result stays so.
            _ => return,
        };
        let result = self.result(rows);
        let names = result.rows.columns().iter();
        let names_size: usize = names.map(|name| size_of::<Text>() + name.len()).sum();
        self.size += RESULT_SIZE + names_size;
        if self.size > size_max {
            return self.fail(Error::result_too_large(size_max));
        }
        self.results.push(result);
    }

    /// The result that has ended, of these rows.
    fn result(&mut self, rows: RowSetBuilder) -> Answer {
        Answer {
            row_count: self.row_count.take(),
            last_insert_id: self.last_insert_id.take(),
            warning_count: std::mem::take(&mut self.warning_count),
            ..Answer::of_rows(rows.build())
        }
    }

    /// Discards what was received.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// The complete answer, unless its caller is gone.
    pub(super) fn finish(&mut self) -> Option<Result<Answer>> {
        let rows = match std::mem::take(&mut self.stage) {
            Stage::Empty => RowSetBuilder::new(std::iter::empty::<Text>()),
            Stage::Complete(rows, _) => rows,
            Stage::Failed(error) => {
                self.reset();
                return Some(Err(error));
            }
            Stage::Discarded => {
                self.reset();
                return None;
            }
            Stage::Rows { .. } => panic!("rows come to an end before their answer does"),
        };
        let last = self.result(rows);
        self.size = 0;
        let mut results = std::mem::take(&mut self.results).into_iter();
        let Some(mut first) = results.next() else {
            return Some(Ok(last));
        };
        first.further_results = results.chain([last]).collect();
        Some(Ok(first))
    }
}
