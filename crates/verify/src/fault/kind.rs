//! The faults, by name, and what injecting one needs.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// What has to be under control for a fault to be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Control {
    /// An ordinary connection whose role may do it. Enough on a managed service.
    Sql,
    /// A relay between the process under test and the server.
    Link,
    /// Signals to the server's processes, or its configuration: the server runs on this machine.
    Server,
    /// The process under test.
    Process,
}

impl Control {
    /// Whether the fault needs a server that this machine runs.
    pub fn needs_server(self) -> bool {
        self == Self::Server
    }
}

/// A disturbance of the database, of the connection to it, or of the process under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// `pg_terminate_backend` of the process that sends the log.
    TerminateWalsender,
    /// SIGSTOP of the process that sends the log, then SIGCONT.
    StopWalsender,
    /// `pg_terminate_backend` of connections that read and write, and of the one that asks what is
    /// visible.
    KillBackend,
    /// `kill -9` of the server, which then recovers. Acknowledged writes survive it only where
    /// commits are synchronous: [`FaultPlan`](super::FaultPlan) never overlaps it with
    /// [`AsynchronousCommit`](Self::AsynchronousCommit).
    KillPostmaster,
    /// The connection is closed in the middle of a message.
    CutMessage,
    /// Bytes are accepted and not passed on, and the connection stays open.
    Blackhole,
    /// Bytes of the server are passed on late, by some milliseconds that are drawn each time.
    SlowAnswers,
    /// The replication slot is dropped.
    DropSlot,
    /// A table leaves the publication and comes back: its changes are silently missing meanwhile.
    AlterPublication,
    /// `alter table … add column … default`.
    AddColumn,
    /// `alter table … alter column … type … using`, which changes values without a row event.
    ChangeColumnType,
    /// `alter table … rename column`, and back.
    RenameColumn,
    /// `alter table … replica identity`, and back.
    ChangeReplicaIdentity,
    /// `vacuum full`, which gives the table another file.
    RewriteTable,
    /// `create or replace view` of a view that lookups use.
    ReplaceView,
    /// `truncate`.
    Truncate,
    /// A synchronous standby that does not answer: commits are in the log and not visible.
    StallStandby,
    /// The process that sends the log is terminated, and the new slot is created between commits that are
    /// in the log before it and not visible, because a synchronous standby does not answer.
    StalledReconnect,
    /// `synchronous_commit = off`: commits are visible before they are in the log.
    AsynchronousCommit,
    /// One transaction over so many rows that it is handled by table.
    LargeTransaction,
    /// One transaction over more than a thousand rows that is handled row by row, in which each row that
    /// is read in place has its next version.
    BulkUpdate,
    /// `prepare transaction`, and `commit prepared` later by another connection.
    PreparedTransaction,
    /// Writes in savepoints, part of which are rolled back.
    Savepoint,
    /// SIGSTOP of the process under test, then SIGCONT.
    StopProcess,
    /// More changes than the queue of the process under test may hold.
    OverflowQueue,
    /// A reload of the process under test.
    Reload,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 26] = [
        Self::TerminateWalsender,
        Self::StopWalsender,
        Self::KillBackend,
        Self::KillPostmaster,
        Self::CutMessage,
        Self::Blackhole,
        Self::SlowAnswers,
        Self::DropSlot,
        Self::AlterPublication,
        Self::AddColumn,
        Self::ChangeColumnType,
        Self::RenameColumn,
        Self::ChangeReplicaIdentity,
        Self::RewriteTable,
        Self::ReplaceView,
        Self::Truncate,
        Self::StallStandby,
        Self::StalledReconnect,
        Self::AsynchronousCommit,
        Self::LargeTransaction,
        Self::BulkUpdate,
        Self::PreparedTransaction,
        Self::Savepoint,
        Self::StopProcess,
        Self::OverflowQueue,
        Self::Reload,
    ];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::TerminateWalsender => "terminate-walsender",
            Self::StopWalsender => "stop-walsender",
            Self::KillBackend => "kill-backend",
            Self::KillPostmaster => "kill-postmaster",
            Self::CutMessage => "cut-message",
            Self::Blackhole => "blackhole",
            Self::SlowAnswers => "slow-answers",
            Self::DropSlot => "drop-slot",
            Self::AlterPublication => "alter-publication",
            Self::AddColumn => "add-column",
            Self::ChangeColumnType => "change-column-type",
            Self::RenameColumn => "rename-column",
            Self::ChangeReplicaIdentity => "change-replica-identity",
            Self::RewriteTable => "rewrite-table",
            Self::ReplaceView => "replace-view",
            Self::Truncate => "truncate",
            Self::StallStandby => "stall-standby",
            Self::StalledReconnect => "stalled-reconnect",
            Self::AsynchronousCommit => "asynchronous-commit",
            Self::LargeTransaction => "large-transaction",
            Self::BulkUpdate => "bulk-update",
            Self::PreparedTransaction => "prepared-transaction",
            Self::Savepoint => "savepoint",
            Self::StopProcess => "stop-process",
            Self::OverflowQueue => "overflow-queue",
            Self::Reload => "reload",
        }
    }

    /// What injecting it needs.
    pub fn control(self) -> Control {
        match self {
            Self::CutMessage | Self::Blackhole | Self::SlowAnswers => Control::Link,
            Self::StopWalsender
            | Self::KillPostmaster
            | Self::StallStandby
            | Self::StalledReconnect => Control::Server,
            Self::StopProcess | Self::Reload => Control::Process,
            Self::TerminateWalsender
            | Self::KillBackend
            | Self::DropSlot
            | Self::AlterPublication
            | Self::AddColumn
            | Self::ChangeColumnType
            | Self::RenameColumn
            | Self::ChangeReplicaIdentity
            | Self::RewriteTable
            | Self::ReplaceView
            | Self::Truncate
            | Self::AsynchronousCommit
            | Self::LargeTransaction
            | Self::BulkUpdate
            | Self::PreparedTransaction
            | Self::Savepoint
            | Self::OverflowQueue => Control::Sql,
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for FaultKind {
    type Err = Error;

    /// # Errors
    ///
    /// If no fault has this [name](FaultKind::name).
    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| Error::not_a_fault(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_found_by_its_name() {
        for kind in FaultKind::ALL {
            assert_eq!(kind.name().parse::<FaultKind>().unwrap(), kind);
        }
        let error = "reboot".parse::<FaultKind>().unwrap_err();
        assert_eq!(error.to_string(), "not a fault: \"reboot\"");
    }

    #[test]
    fn a_managed_service_allows_what_sql_and_a_relay_can_do() {
        let managed = |kind: &FaultKind| !kind.control().needs_server();
        let refused: Vec<_> = FaultKind::ALL
            .into_iter()
            .filter(|it| !managed(it))
            .collect();
        assert_eq!(
            refused,
            [
                FaultKind::StopWalsender,
                FaultKind::KillPostmaster,
                FaultKind::StallStandby,
                FaultKind::StalledReconnect
            ]
        );
    }
}
