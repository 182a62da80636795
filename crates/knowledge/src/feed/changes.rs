//! From the messages of a change feed to the versions that its transactions touch.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::Arc;

use lookaside_client::postgres::feed::{
    LogicalReplicationMessage as Message, Relation, Tuple, TupleField,
};
use lookaside_value::Position;

use super::gate::Transaction;
use super::tracked::{Change, TrackedStatement};
use crate::depends::{Field, KeyColumn};
use crate::mutant::Mutant;
use crate::versions::TouchedSlots;

/// The statements by the tables that they depend on, and the transaction that is being received.
#[derive(Debug, Default)]
pub(super) struct Changes {
    statements: HashMap<u32, Vec<Arc<TrackedStatement>>>,
    /// What the stream has said about tables that statements depend on, and about others.
    tables: HashMap<u32, Table>,
    current: Option<Transaction>,
    /// Rows that touched a statement, for the metrics.
    pub(super) row_count: u64,
    /// All such rows of the stream.
    total_count: u64,
}

/// A table as the stream describes it.
#[derive(Debug)]
struct Table {
    /// Names and types of the columns, in the order of the values of a row.
    columns: Vec<(Box<str>, u32)>,
}

/// The stream is not what the protocol says.
#[derive(Debug)]
pub(super) struct Unexpected(pub(super) &'static str);

impl Changes {
    /// Adds a statement, for the changes that are received from now on.
    pub(super) fn add(&mut self, statement: &Arc<TrackedStatement>, relations: &[u32]) {
        for relation in relations {
            let statements = self.statements.entry(*relation).or_default();
            if !statements.iter().any(|other| other.id == statement.id) {
                statements.push(Arc::clone(statement));
            }
        }
    }

    /// Removes all statements, whose dependencies have become doubtful.
    pub(super) fn clear_statements(&mut self) {
        self.statements.clear();
    }

    /// Whether a transaction has begun and not ended.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.current.is_some()
    }

    /// Takes a message; returns the transaction that it completes, and the position after it.
    pub(super) fn take(
        &mut self,
        message: Message<'_>,
    ) -> Result<Option<(Transaction, Position)>, Unexpected> {
        match message {
            Message::Begin(begin) => {
                let transaction = Transaction {
                    xid: begin.xid.0,
                    commit: Position(begin.final_lsn.0),
                    touched: TouchedSlots::default(),
                };
                if self.current.replace(transaction).is_some() {
                    return Err(Unexpected("a transaction began within another one"));
                }
            }
            Message::Relation(relation) => {
                self.tables.insert(relation.oid.0, Table::of(&relation));
            }
            Message::Insert(insert) => self.row(insert.relation.0, Some(insert.new), None)?,
            Message::Update(update) => {
                let old = update.old.map(|old| old.tuple());
                self.row(update.relation.0, Some(update.new), old)?;
            }
            Message::Delete(delete) => {
                self.row(delete.relation.0, None, Some(delete.old.tuple()))?;
            }
            Message::Truncate(truncate) => {
                for relation in truncate.relations() {
                    self.truncate(relation.0)?;
                }
            }
            Message::Commit(commit) => {
                let transaction = self.current.take();
                let transaction = transaction.ok_or(OUTSIDE)?;
                return Ok(Some((transaction, Position(commit.end.0))));
            }
            // Origins, types and messages of applications change no answer.
            _ => {}
        }
        Ok(None)
    }

    /// Touches what depends on a row, in its versions that the stream has.
    fn row(
        &mut self,
        relation: u32,
        new: Option<Tuple<'_>>,
        old: Option<Tuple<'_>>,
    ) -> Result<(), Unexpected> {
        let current = self.current.as_mut().ok_or(OUTSIDE)?;
        let Some(statements) = self.statements.get(&relation) else {
            return Ok(());
        };
        let table = self.tables.get(&relation).ok_or(UNDESCRIBED)?;
        self.row_count += 1;
        self.total_count += 1;
        if Mutant::DropRows.is_active() && self.total_count.is_multiple_of(100) {
            return Ok(());
        }
        let old = old.filter(|_| new.is_none() || !Mutant::IgnoreOldKey.is_active());
        let old = old.map(|old| table.fields(old)).transpose()?;
        let mut new = new.map(|new| table.fields(new)).transpose()?;
        if let (Some(new), Some(old)) = (&mut new, &old) {
            for (new, old) in new.iter_mut().zip(old) {
                if matches!(new, TupleField::UnchangedToast) {
                    *new = *old;
                }
            }
        }
        for fields in [new, old].into_iter().flatten() {
            let field = |column: &KeyColumn| table.field(&fields, column);
            for statement in statements {
                statement.touch(Change::Row(&field), &mut current.touched);
            }
        }
        Ok(())
    }

    fn truncate(&mut self, relation: u32) -> Result<(), Unexpected> {
        let current = self.current.as_mut().ok_or(OUTSIDE)?;
        for statement in self.statements.get(&relation).into_iter().flatten() {
            statement.touch(Change::All, &mut current.touched);
        }
        Ok(())
    }
}

const OUTSIDE: Unexpected = Unexpected("a change came outside of a transaction");
const UNDESCRIBED: Unexpected = Unexpected("a row came before the description of its table");

impl Table {
    fn of(relation: &Relation<'_>) -> Self {
        let text = |name: &CStr| name.to_string_lossy().into_owned().into_boxed_str();
        let columns = relation.columns();
        Self {
            columns: columns
                .map(|column| (text(column.name), column.type_oid.0))
                .collect(),
        }
    }

    /// The values of a row, in the order of the columns.
    fn fields<'a>(&self, tuple: Tuple<'a>) -> Result<Vec<TupleField<'a>>, Unexpected> {
        match tuple.len() == self.columns.len() {
            true => Ok(tuple.fields().collect()),
            false => Err(Unexpected("a row does not have the columns of its table")),
        }
    }

    /// The value of a column; if the table does not have it, its key is unknown.
    fn field<'a>(&self, fields: &[TupleField<'a>], column: &KeyColumn) -> Field<'a> {
        let is_it = |(name, type_oid): &(Box<str>, u32)| {
            **name == *column.name && *type_oid == column.type_oid
        };
        let position = self.columns.iter().position(is_it);
        match position.and_then(|position| fields.get(position)) {
            Some(TupleField::Binary(bytes)) => Field::Binary(bytes),
            Some(TupleField::Text(bytes)) => Field::Text(bytes),
            Some(TupleField::Null) => Field::Null,
            Some(TupleField::UnchangedToast) | None => Field::Unchanged,
        }
    }
}
