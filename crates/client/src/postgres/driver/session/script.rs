//! Scripts: any number of statements in one message, whose answers are text.
//!
//! A script is alone on the wire. It may open a transaction that no other query must become a part
//! of, and if it waits for COPY data, all messages after it would be lost.

use std::ops::ControlFlow;
use std::sync::Arc;

use lookaside_value::{RowSetBuilder, Text, Value};
use lookaside_wire::postgres::{CommandTag, DataRow, Event, RowDescription, TransactionStatus};

use super::ServerSession;
use crate::answers::AnswerSlots;
use crate::postgres::driver::in_flight::InFlight;
use crate::postgres::driver::statement::{MESSAGE_SIZE, row_size};
use crate::types::postgres::PgType;
use crate::{Answer, Description, Error, Reply, Result, ScriptPart, Ticket};

/// The answers to a script, as far as they have come.
pub(in crate::postgres::driver) struct Script {
    answers: Vec<Result<Answer>>,
    row_count_max: usize,
    /// Of the statement that is being answered.
    rows: Option<RowSetBuilder>,
    description: Option<Arc<Description>>,
    part: Box<ScriptPart>,
    failed: Option<Error>,
    /// Of all that was kept.
    size: usize,
    size_max: usize,
}

impl ServerSession {
    /// A script was queued.
    pub(in crate::postgres::driver) fn begin_script(
        &mut self,
        ticket: Ticket,
        row_count_max: usize,
        chunk: u64,
    ) {
        let sequence = self.next_sequence();
        self.script = Some(Script::new(row_count_max, self.result_size_max));
        self.in_flight.push_back(InFlight::Script {
            ticket,
            sequence,
            chunk,
        });
    }

    /// Takes an event if it belongs to the script that is under way, and says whether the server
    /// waits for the data of a COPY; or gives it back.
    #[cold]
    pub(super) fn take_of_script<'a>(
        &mut self,
        ticket: Ticket,
        event: Event<'a>,
    ) -> ControlFlow<bool, Event<'a>> {
        if !self.requests.contains(ticket) {
            self.script = None;
        }
        let mut copies = false;
        match (event, &mut self.script) {
            (Event::Ready { status, .. }, _) => self.end_script(ticket, status),
            (Event::CopyIn { .. }, script) => {
                if let Some(script) = script {
                    script.failed = Some(Error::copy_in_refused());
                }
                copies = true;
            }
            (event @ (Event::ParameterStatus(_) | Event::Notice(_)), _)
            | (event @ (Event::Notification(_) | Event::Fatal { .. } | Event::Closed), _) => {
                return ControlFlow::Continue(event);
            }
            (Event::RowDescription { description, .. }, Some(script)) => script.begin(description),
            (Event::DataRow { row, .. }, Some(script)) => script.row(row),
            (Event::CopyData { data, .. }, Some(script)) => script.copy(data),
            (Event::CommandComplete { tag, .. }, Some(script)) => script.complete(tag),
            (Event::Failed { error, .. }, Some(script)) => {
                let error = Error::refused(error.into_owned());
                script.failed.get_or_insert(error);
                script.end(None);
            }
            // An empty script has no answer, nor has one whose caller is gone.
            _ => {}
        }
        ControlFlow::Break(copies)
    }

    fn end_script(&mut self, ticket: Ticket, status: TransactionStatus) {
        self.in_flight.pop_front();
        // What was in it is not known.
        self.settings_changed = true;
        let is_idle = status == TransactionStatus::Idle;
        self.is_in_transaction = !is_idle;
        self.settle_settings(is_idle);
        if is_idle {
            self.portals.clear();
        }
        if let Some(script) = self.script.take()
            && self.requests.remove(ticket).is_some()
        {
            let answers = script.answers.into();
            self.requests.replies.push_back(Reply { ticket, answers });
        }
    }
}

impl Script {
    fn new(row_count_max: usize, size_max: usize) -> Self {
        Self {
            answers: Vec::new(),
            row_count_max,
            rows: None,
            description: None,
            part: Box::default(),
            failed: None,
            size: 0,
            size_max,
        }
    }

    /// The answers that were complete when the caller gave up, and why there are no more.
    pub(in crate::postgres::driver) fn cut(script: Option<Self>, error: Error) -> AnswerSlots {
        let answers = script.map(|script| script.answers).unwrap_or_default();
        let answers = answers.into_iter().chain([Err(error)]);
        AnswerSlots::Many(answers.map(Some).collect())
    }

    fn begin(&mut self, description: RowDescription<'_>) {
        let name = |name: &std::ffi::CStr| Text::from(&*name.to_string_lossy());
        let columns: Arc<[Text]> = description
            .columns()
            .map(|column| name(column.name))
            .collect();
        let types = description.columns().map(|column| {
            let pg_type = PgType::of(column.type_oid.0);
            Text::from(pg_type.name())
        });
        self.description = Some(Arc::new(Description {
            columns: Arc::clone(&columns),
            column_types: types.collect(),
            parameter_types: Box::default(),
        }));
        self.rows = Some(RowSetBuilder::with_columns(columns));
    }

    fn row(&mut self, row: DataRow<'_>) {
        // It failed, and the rows are gone.
        let (Some(rows), Some(description)) = (&mut self.rows, &self.description) else {
            return;
        };
        if row.len() != description.columns.len() {
            let error = Error::bad_width(row.len(), description.columns.len());
            return self.fail(error);
        }
        if rows.len() == self.row_count_max {
            self.part.left_out_count += 1;
            return;
        }
        let mut size = row_size(row);
        rows.push(row.fields().map(|field| {
            let Some(field) = field else {
                return Value::Null;
            };
            size += field.len();
            match std::str::from_utf8(field) {
                Ok(text) => Value::from(text),
                Err(_) => Value::from(field.to_vec()),
            }
        }));
        self.keep(size);
    }

    fn copy(&mut self, data: &[u8]) {
        if self.failed.is_none() {
            self.part.copied.extend_from_slice(data);
            self.keep(MESSAGE_SIZE + data.len());
        }
    }

    /// Counts what was kept, and lets go of what is too much.
    fn keep(&mut self, size: usize) {
        self.size += size;
        if self.size > self.size_max {
            self.fail(Error::result_too_large(self.size_max));
        }
    }

    /// What has come of the statement's answer is of no use, nor is the rest.
    fn fail(&mut self, error: Error) {
        self.failed = Some(error);
        self.rows = None;
        self.part.copied = Vec::new();
    }

    fn complete(&mut self, tag: CommandTag<'_>) {
        self.part.tag = Text::from(&*String::from_utf8_lossy(tag.as_bytes()));
        self.end(tag.row_count());
    }

    /// A statement has its answer.
    fn end(&mut self, row_count: Option<u64>) {
        let rows = self.rows.take();
        let rows = rows.unwrap_or_else(|| RowSetBuilder::with_columns(Arc::default()));
        let description = self.description.take();
        let part = std::mem::take(&mut self.part);
        self.answers.push(match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(Answer {
                row_count,
                description,
                script: Some(part),
                ..Answer::of_rows(rows.build())
            }),
        });
    }
}
