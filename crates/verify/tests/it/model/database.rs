//! A database whose log runs ahead of visibility: a transaction is in the log when it commits, and its
//! rows are visible later, as with PostgreSQL's walsenders and `ProcArrayEndTransaction`.

use std::collections::BTreeSet;

use lookaside_verify::history::{Presence, State};

/// The number of a transaction, in the order of their begins.
pub(crate) type Xid = u64;

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Updates a row, or inserts it.
    Update(u32),
    /// Deletes a row, or inserts it.
    Toggle(u32),
    /// Changes the key of a row, from the one of two keys that has a row to the other.
    Move(u32, u32),
    /// Deletes all rows without a row event.
    Truncate,
    /// Changes all rows by DDL, of which the log has nothing.
    Rewrite,
}

impl Operation {
    /// Whether it locks the whole table.
    pub(crate) fn is_of_table(self) -> bool {
        matches!(self, Self::Truncate | Self::Rewrite)
    }
}

/// What the log says of a row or a table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LogChange {
    /// The key of a changed row, or its new key.
    Row(u32),
    /// The key that a row had before.
    OldKey(u32),
    /// All rows were deleted.
    Truncate,
}

/// A committed transaction in the log.
#[derive(Clone, Debug)]
pub(crate) struct LogRecord {
    pub(crate) xid: Xid,
    pub(crate) position: u64,
    pub(crate) changes: Vec<LogChange>,
}

/// A transaction that holds its locks.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) xid: Xid,
    operation: Operation,
    /// What is visible when it has ended.
    pub(crate) states: Vec<(u32, State)>,
    changes: Vec<LogChange>,
}

/// Which transactions are visible, and how far the log is.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The first transaction that had not begun.
    pub(crate) xid_end: Xid,
    in_progress: BTreeSet<Xid>,
    /// The last position of the log.
    pub(crate) position: u64,
    /// Changes with each visible DDL.
    pub(crate) fingerprint: u32,
}

impl Snapshot {
    pub(crate) fn shows(&self, xid: Xid) -> bool {
        xid < self.xid_end && !self.in_progress.contains(&xid)
    }

    /// Whether all transactions before one have ended.
    pub(crate) fn is_past(&self, xid: Xid) -> bool {
        self.in_progress.first().is_none_or(|first| *first >= xid)
    }
}

#[derive(Clone, Copy, Debug)]
struct Row {
    state: State,
    is_locked: bool,
}

pub(crate) struct Database {
    rows: Vec<Row>,
    xid_end: Xid,
    in_progress: BTreeSet<Xid>,
    position: u64,
    fingerprint: u32,
}

impl Database {
    pub(crate) fn new(states: &[State]) -> Self {
        let row = |state: &State| Row {
            state: *state,
            is_locked: false,
        };
        Self {
            rows: states.iter().map(row).collect(),
            xid_end: 1,
            in_progress: BTreeSet::new(),
            position: 1,
            fingerprint: 0,
        }
    }

    pub(crate) fn states(&self) -> impl Iterator<Item = (u32, State)> {
        (0..).zip(self.rows.iter().map(|row| row.state))
    }

    /// The visible row of a key.
    pub(crate) fn row(&self, key: u32) -> Option<u32> {
        let state = self.rows[key as usize].state;
        (state.presence == Presence::Present).then_some(state.version.0)
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            xid_end: self.xid_end,
            in_progress: self.in_progress.clone(),
            position: self.position,
            fingerprint: self.fingerprint,
        }
    }

    /// Begins a transaction and locks its rows; `None` if one of them is locked.
    pub(crate) fn begin(&mut self, operation: Operation) -> Option<Transaction> {
        let (keys, changes) = self.plan(operation);
        if keys
            .iter()
            .any(|(key, _)| self.rows[*key as usize].is_locked)
        {
            return None;
        }
        let states = keys.into_iter().map(|(key, presence)| {
            let row = &mut self.rows[key as usize];
            row.is_locked = true;
            let version = row.state.version.0 + 1;
            let state = match presence {
                Presence::Present => State::present(version),
                Presence::Absent => State::absent(version),
            };
            (key, state)
        });
        let transaction = Transaction {
            xid: self.xid_end,
            operation,
            states: states.collect(),
            changes,
        };
        self.in_progress.insert(self.xid_end);
        self.xid_end += 1;
        Some(transaction)
    }

    /// What an operation makes of which keys, and what the log says of it.
    fn plan(&self, operation: Operation) -> (Vec<(u32, Presence)>, Vec<LogChange>) {
        use Presence::{Absent, Present};
        let all = 0..self.rows.len() as u32;
        match operation {
            Operation::Update(key) => (vec![(key, Present)], vec![LogChange::Row(key)]),
            Operation::Toggle(key) => {
                let presence = match self.row(key) {
                    Some(_) => Absent,
                    None => Present,
                };
                (vec![(key, presence)], vec![LogChange::Row(key)])
            }
            Operation::Move(first, second) => {
                let (from, to) = match self.row(first) {
                    Some(_) => (first, second),
                    None => (second, first),
                };
                match self.row(from) {
                    Some(_) => (
                        vec![(from, Absent), (to, Present)],
                        vec![LogChange::OldKey(from), LogChange::Row(to)],
                    ),
                    None => (vec![(first, Present)], vec![LogChange::Row(first)]),
                }
            }
            Operation::Truncate => (
                all.map(|key| (key, Absent)).collect(),
                vec![LogChange::Truncate],
            ),
            Operation::Rewrite => {
                let present = all.filter(|key| self.row(*key).is_some());
                (present.map(|key| (key, Present)).collect(), Vec::new())
            }
        }
    }

    /// Writes the commit to the log. Nothing of it is visible yet.
    pub(crate) fn commit(&mut self, transaction: &Transaction) -> LogRecord {
        self.position += 1;
        LogRecord {
            xid: transaction.xid,
            position: self.position,
            changes: transaction.changes.clone(),
        }
    }

    /// Makes a committed transaction visible, and unlocks its rows.
    pub(crate) fn show(&mut self, transaction: &Transaction) {
        for (key, state) in &transaction.states {
            self.rows[*key as usize].state = *state;
        }
        self.fingerprint += u32::from(transaction.operation == Operation::Rewrite);
        self.end(transaction);
    }

    /// Aborts a transaction, or ends a visible one.
    pub(crate) fn end(&mut self, transaction: &Transaction) {
        for (key, _) in &transaction.states {
            self.rows[*key as usize].is_locked = false;
        }
        self.in_progress.remove(&transaction.xid);
    }
}
