//! Errors of change feeds: what the server lacks, and the command that adds it.

use std::time::Duration;

use lookaside_wire::postgres::ErrorResponse;
use lookaside_wire::postgres::replication::{SlotName, SlotNameError};
use lookaside_wire::{ErrorKind as WireErrorKind, ProtocolError};

use super::{Cause, Error, ErrorKind, Sent};

impl Error {
    pub(crate) fn no_publications() -> Self {
        let message = "a change feed needs the name of a publication; `create publication NAME for \
                       table TABLE, …` creates one";
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn bad_publication(name: &str) -> Self {
        let message = format!("{name:?} is not the name of a publication: it contains a NUL");
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn bad_slot_prefix(prefix: &str, error: SlotNameError) -> Self {
        let message = format!(
            "slots cannot have names that begin with {prefix:?}; see `FeedOptions::slot_prefix`"
        );
        let cause = Cause::Other(error.into());
        Self::because(ErrorKind::Misuse, Sent::Nothing, message, cause)
    }

    /// Adds what is missing to the error of an attempt, whose kind is kept.
    fn missing(message: String, error: Self) -> Self {
        let (kind, sent) = (error.0.kind, error.0.sent);
        Self::because(kind, sent, message, Cause::Step(error))
    }

    pub(crate) fn no_replication_right(user: &str, place: &str, error: Self) -> Self {
        let role = user.replace('"', "\"\"");
        let message = format!(
            "the user `{user}` may not replicate at {place}; a superuser permits it with `alter \
             role \"{role}\" replication`"
        );
        Self::missing(message, error)
    }

    pub(crate) fn no_free_walsender(place: &str, error: Self) -> Self {
        let message = format!(
            "{place} has no free walsender; increase `max_wal_senders` (`alter system set \
             max_wal_senders = 20`, then restart the server), or end other replication"
        );
        Self::missing(message, error)
    }

    /// Whether the server refused a log-in because all walsenders are in use.
    ///
    /// It uses the code of too many connections for that. Messages are translated, but the names of
    /// settings in them are not.
    pub(crate) fn is_out_of_walsenders(&self) -> bool {
        let message = self.server().and_then(ErrorResponse::message);
        message.is_some_and(|message| message.contains("max_wal_senders"))
    }

    pub(crate) fn replication_not_understood(place: &str, error: Self) -> Self {
        let message = format!(
            "{place} does not take the parameter `replication`, so it is probably a pooler; connect \
             to the server itself"
        );
        Self::missing(message, error)
    }

    pub(crate) fn wal_level_too_low(wal_level: &str, error: Self) -> Self {
        let message = format!(
            "a change feed needs `wal_level = logical`, and the server has `{wal_level}`; `alter \
             system set wal_level = logical`, then restart the server"
        );
        Self::missing(message, error)
    }

    pub(crate) fn no_free_slot(error: Self) -> Self {
        let message = "the server has no free replication slot; increase `max_replication_slots` \
                       (`alter system set max_replication_slots = 20`, then restart the server), \
                       or drop an unused one (`select slot_name from pg_replication_slots where \
                       not active`, `select pg_drop_replication_slot('NAME')`)";
        Self::missing(message.to_owned(), error)
    }

    pub(crate) fn writers_did_not_end(timeout: Duration, error: Self) -> Self {
        let message = format!(
            "the slot was not created within {timeout:?}, because the server first waits for the \
             transactions that write, which `select pid, xact_start, query from pg_stat_activity \
             where backend_xid is not null order by xact_start` lists, and for those that are \
             prepared, which `select gid, prepared from pg_prepared_xacts` lists; end them"
        );
        Self::missing(message, error)
    }

    pub(crate) fn standby_without_slots(error: Self) -> Self {
        let message = "the server is a standby, which can be the source of a change feed from \
                       PostgreSQL 16 on, if the primary has `wal_level = logical`; or connect to \
                       the primary (`target_session_attrs=primary`)";
        Self::missing(message.to_owned(), error)
    }

    pub(crate) fn slot_refused(slot: &SlotName, error: Self) -> Self {
        let message = format!("the replication slot `{slot}` cannot be created");
        Self::missing(message, error)
    }

    pub(crate) fn stream_refused(error: Self) -> Self {
        let message = "the server did not start the stream, whose options need PostgreSQL 14";
        Self::missing(message.to_owned(), error)
    }

    pub(crate) fn publications_missing(names: &[String], database: &str) -> Self {
        let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        let quoted = quoted.join(", ");
        let first = names.first().map_or("", |name| name);
        let first = first.replace('"', "\"\"");
        let message = format!(
            "the database `{database}` does not have the publication {quoted}; `create publication \
             \"{first}\" for table TABLE, …` there creates it"
        );
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    /// A publication that was dropped, which a server reports as late as with the next change.
    pub(crate) fn publication_dropped(warning: ErrorResponse<'static>) -> Self {
        let message = "a publication of the change feed no longer exists, so changes are missing";
        let cause = Cause::Server(warning);
        Self::because(ErrorKind::Refused, Sent::Something, message, cause)
    }

    pub(crate) fn no_answer_to(command: &str, timeout: Duration) -> Self {
        let message = format!("the server did not answer `{command}` within {timeout:?}");
        Self::new(ErrorKind::Connection, Sent::Something, message)
    }

    pub(crate) fn stream_failed(error: ErrorResponse<'static>) -> Self {
        let message = "the server cannot continue the stream of changes";
        let cause = Cause::Server(error);
        Self::because(ErrorKind::Refused, Sent::Something, message, cause)
    }

    pub(crate) fn stream_ended() -> Self {
        let message = "the server ended the stream of changes";
        Self::new(ErrorKind::Connection, Sent::Something, message)
    }

    pub(crate) fn stream_silent(timeout: Duration) -> Self {
        let message =
            format!("the server has not answered a status of the change feed for {timeout:?}");
        Self::new(ErrorKind::Connection, Sent::Something, message)
    }

    pub(crate) fn stream_out_of_order(what: &'static str) -> Self {
        let message = format!("the server sent {what}");
        Self::new(ErrorKind::Protocol, Sent::Something, message)
    }

    /// An error of the bytes of a feed.
    pub(crate) fn feed_protocol(error: ProtocolError, message_size_max: usize) -> Self {
        if error.kind() != WireErrorKind::Limit {
            return Self::protocol(error);
        }
        let message = format!(
            "a message is larger than {message_size_max} bytes; see \
             `FeedOptions::message_size_max`"
        );
        let cause = Cause::Other(error.into());
        Self::because(ErrorKind::Limit, Sent::Something, message, cause)
    }

    /// Whether it is the server's error with this code.
    pub(crate) fn has_state(&self, state: &[u8; 5]) -> bool {
        let found = self.sqlstate();
        found.is_some_and(|found| found.as_bytes() == state)
    }
}
