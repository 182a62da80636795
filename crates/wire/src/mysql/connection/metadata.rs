//! The columns of results: where they are stored, and the packets before the first row.
//!
//! ```text
//!   COM_STMT_PREPARE   OK   parameters … [EOF]   columns … [EOF]
//!   a result           count [1]   columns … [EOF]   rows …
//!                      count [0]   [EOF]             rows …     as they were the last time
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use super::event::Prepared;
use super::queue::RequestKind;
use crate::error::{ProtocolError, Reason};
use crate::mysql::packets::{Columns, ColumnsReader, Definitions, Eof, PrepareOk, ResultHeader};
use crate::mysql::{Capabilities, StatementId};
use crate::read::Reader;

/// The known columns.
#[derive(Default)]
pub(super) struct Metadata {
    /// For each statement, the columns of its last result or else those that it was prepared with.
    statements: BTreeMap<StatementId, Arc<Columns>>,
    last_prepared: Option<StatementId>,
    /// The parameters of the statement that is being prepared.
    parameters: Option<Arc<Columns>>,
    /// The columns of the last query, so that those of an equal one need not be decoded again.
    query: Option<Arc<Columns>>,
    /// The columns of the result that is being read.
    current: Option<Arc<Columns>>,
    reader: ColumnsReader,
}

/// A list of definitions that a server sends.
#[derive(Clone, Copy, Debug)]
pub(super) enum List {
    Parameters(PrepareOk),
    PreparedColumns(PrepareOk),
    Columns(Owner),
}

/// The progress of a description.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// `left` definitions are missing.
    Definitions { list: List, left: u16 },
    /// Only the EOF is missing.
    End { list: List, state: ColumnsState },
}

/// Whose columns they are, and where they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Query,
    Statement(StatementId),
    /// A result of a request other than the first.
    Further,
}

/// The state at the end of a result's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnsState {
    Same,
    Changed,
    /// They were left out, and are known from before.
    LeftOut,
    /// They were left out, and are unknown.
    Unknown,
}

/// The result of a packet of a description.
pub(super) enum Described {
    /// Another packet follows.
    More(Step),
    /// A statement is prepared.
    Prepared(PrepareOk),
    /// Rows follow.
    Columns(ColumnsState, Option<Eof>),
}

impl Metadata {
    /// The columns of the result that is being read.
    pub(super) fn current(&self) -> Option<&Arc<Columns>> {
        self.current.as_ref()
    }

    /// The statement that a request refers to.
    pub(super) fn resolve(&self, statement: StatementId) -> Option<StatementId> {
        match statement {
            StatementId::LAST => self.last_prepared,
            statement => Some(statement),
        }
    }

    /// The owner of the columns of a request's first result.
    pub(super) fn owner(&self, kind: RequestKind, statement: StatementId) -> Owner {
        match (kind, self.resolve(statement)) {
            (RequestKind::Execute, Some(statement)) => Owner::Statement(statement),
            (RequestKind::Query, _) => Owner::Query,
            _ => Owner::Further,
        }
    }

    /// Makes the columns of a statement current, whose cursor gives rows.
    pub(super) fn fetch(&mut self, statement: StatementId) -> bool {
        let statement = self.resolve(statement);
        self.current = statement.and_then(|statement| self.statements.get(&statement).cloned());
        self.current.is_some()
    }

    pub(super) fn forget(&mut self, statement: StatementId) {
        if let Some(statement) = self.resolve(statement) {
            self.statements.remove(&statement);
        }
    }

    pub(super) fn close(&mut self, statement: StatementId) {
        let statement = self.resolve(statement);
        if let Some(statement) = statement {
            self.statements.remove(&statement);
        }
        if self.last_prepared == statement {
            self.last_prepared = None;
        }
    }

    pub(super) fn prepare_failed(&mut self) {
        self.last_prepared = None;
    }

    /// Drops all known columns, so that the next ones are decoded again.
    pub(super) fn forget_all(&mut self) {
        self.statements.clear();
        self.query = None;
    }

    /// Drops all statements after a reset of the session.
    pub(super) fn reset(&mut self) {
        self.statements.clear();
        self.last_prepared = None;
        self.query = None;
    }

    /// Processes the first packet of the answer to COM_STMT_PREPARE.
    pub(super) fn prepared(
        &mut self,
        body: Reader<'_>,
        capabilities: Capabilities,
    ) -> Result<Described, ProtocolError> {
        let ok = PrepareOk::decode(body, capabilities)?;
        self.statements.remove(&ok.statement);
        self.last_prepared = Some(ok.statement);
        self.parameters = None;
        let list = List::Parameters(ok);
        let step = self.prepared_list(list, ok.parameter_count, ok, capabilities);
        Ok(step.unwrap_or_else(|| self.prepared_columns(ok, capabilities)))
    }

    /// Continues with the columns after the parameters.
    fn prepared_columns(&mut self, ok: PrepareOk, capabilities: Capabilities) -> Described {
        let list = List::PreparedColumns(ok);
        let step = self.prepared_list(list, ok.column_count, ok, capabilities);
        step.unwrap_or(Described::Prepared(ok))
    }

    /// Begins a list of a statement's description, unless none of it is sent. A list whose
    /// definitions are left out still has its EOF.
    fn prepared_list(
        &mut self,
        list: List,
        left: u16,
        ok: PrepareOk,
        capabilities: Capabilities,
    ) -> Option<Described> {
        if left == 0 {
            return None;
        }
        if ok.has_definitions {
            self.reader.begin(None, left.into());
            return Some(Described::More(Step::Definitions { list, left }));
        }
        let state = ColumnsState::Unknown;
        let has_eof = !capabilities.contains(Capabilities::DEPRECATE_EOF);
        has_eof.then_some(Described::More(Step::End { list, state }))
    }

    /// The description of a prepared statement for the owner.
    pub(super) fn take_prepared(&mut self, ok: PrepareOk) -> Prepared {
        Prepared {
            statement: ok.statement,
            parameter_count: ok.parameter_count,
            column_count: ok.column_count,
            warning_count: ok.warning_count,
            parameters: self.parameters.take(),
            columns: self.statements.get(&ok.statement).cloned(),
        }
    }

    /// Processes the first packet of a result with rows.
    pub(super) fn result(
        &mut self,
        body: Reader<'_>,
        owner: Owner,
        capabilities: Capabilities,
    ) -> Result<Described, ProtocolError> {
        let header = ResultHeader::decode(body, capabilities)?;
        let count = usize::from(header.column_count);
        let known = match owner {
            Owner::Query => self.query.clone(),
            Owner::Statement(statement) => self.statements.get(&statement).cloned(),
            Owner::Further => None,
        };
        if header.has_definitions {
            self.reader.begin(known, count);
            let (list, left) = (List::Columns(owner), header.column_count);
            return Ok(Described::More(Step::Definitions { list, left }));
        }
        // The columns of another query do not apply to this one.
        self.current =
            known.filter(|known| matches!(owner, Owner::Statement(_)) && known.len() == count);
        let state = match &self.current {
            Some(_) => ColumnsState::LeftOut,
            // A server that may only leave out definitions that it has sent before violates the
            // protocol.
            None if !capabilities.contains(Capabilities::OPTIONAL_RESULTSET_METADATA) => {
                return Err(body.error(Reason::MetadataMissing));
            }
            None => ColumnsState::Unknown,
        };
        Ok(if capabilities.contains(Capabilities::DEPRECATE_EOF) {
            Described::Columns(state, None)
        } else {
            let list = List::Columns(owner);
            Described::More(Step::End { list, state })
        })
    }

    /// The expected packets right after the first packet of a result, if the columns are unchanged.
    pub(super) fn known_packets(&self, step: Step) -> Option<&[u8]> {
        match step {
            Step::Definitions {
                list: List::Columns(_),
                ..
            } => self.reader.known_packets(),
            _ => None,
        }
    }

    /// All definitions were received, and are unchanged.
    pub(super) fn all_known(
        &mut self,
        step: Step,
        capabilities: Capabilities,
    ) -> Result<Described, ProtocolError> {
        match step {
            Step::Definitions { list, .. } => self.definitions_ended(list, capabilities),
            Step::End { .. } => panic!("definitions come before their end"),
        }
    }

    /// Processes a further packet of a description.
    pub(super) fn step(
        &mut self,
        step: Step,
        mut body: Reader<'_>,
        capabilities: Capabilities,
        size_max: usize,
    ) -> Result<Described, ProtocolError> {
        match step {
            Step::Definitions { list, left } => {
                self.reader.push(body.rest(), size_max)?;
                if left > 1 {
                    let left = left - 1;
                    return Ok(Described::More(Step::Definitions { list, left }));
                }
                self.definitions_ended(list, capabilities)
            }
            Step::End { list, state } => {
                let eof = Eof::decode(body)?;
                Ok(self.list_ended(list, state, Some(eof), capabilities))
            }
        }
    }

    fn definitions_ended(
        &mut self,
        list: List,
        capabilities: Capabilities,
    ) -> Result<Described, ProtocolError> {
        let definitions = self.reader.finish(capabilities)?;
        let state = self.remember(list, definitions);
        if capabilities.contains(Capabilities::DEPRECATE_EOF) {
            Ok(self.list_ended(list, state, None, capabilities))
        } else {
            Ok(Described::More(Step::End { list, state }))
        }
    }

    fn remember(&mut self, list: List, definitions: Definitions) -> ColumnsState {
        let Definitions {
            columns,
            is_changed,
        } = definitions;
        match list {
            List::Parameters(_) => self.parameters = Some(columns),
            List::PreparedColumns(ok) => drop(self.statements.insert(ok.statement, columns)),
            List::Columns(owner) => {
                if is_changed {
                    let columns = Arc::clone(&columns);
                    match owner {
                        Owner::Query => self.query = Some(columns),
                        Owner::Statement(id) => drop(self.statements.insert(id, columns)),
                        Owner::Further => {}
                    }
                }
                self.current = Some(columns);
            }
        }
        if is_changed {
            ColumnsState::Changed
        } else {
            ColumnsState::Same
        }
    }

    fn list_ended(
        &mut self,
        list: List,
        state: ColumnsState,
        eof: Option<Eof>,
        capabilities: Capabilities,
    ) -> Described {
        match list {
            List::Parameters(ok) => self.prepared_columns(ok, capabilities),
            List::PreparedColumns(ok) => Described::Prepared(ok),
            List::Columns(_) => Described::Columns(state, eof),
        }
    }
}
