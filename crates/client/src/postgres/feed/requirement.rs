//! What a server needs for a feed: which requirement an error means.

use std::time::Duration;

use lookaside_wire::postgres::ErrorResponse;

use super::SlotName;
use crate::{Error, Host};

/// The routine of the server that checks whether a role may replicate. The same code is used for
/// other rights, and messages are translated.
const REPLICATION_CHECK: &str = "InitPostgres";

/// The settings of a server that decide whether and how it streams.
#[derive(Debug, Default)]
pub(super) struct ServerSettings {
    pub(super) wal_level: String,
    /// Zero if it is off.
    pub(super) wal_sender_timeout: Duration,
    pub(super) is_standby: bool,
}

/// The error of a log-in.
pub(super) fn of_log_in(error: Error, user: &str, host: &Host) -> Error {
    let place = host.plain();
    if error.is_out_of_walsenders() {
        return Error::no_free_walsender(&place, error);
    }
    let routine = error.server().and_then(ErrorResponse::routine);
    // A proxy may leave the routine out.
    let is_of_role = routine.is_none_or(|routine| routine == REPLICATION_CHECK);
    if error.has_state(b"42501") && is_of_role {
        return Error::no_replication_right(user, &place, error);
    }
    // PgBouncer's answer to a parameter that it does not know.
    if error.has_state(b"08P01") {
        return Error::replication_not_understood(&place, error);
    }
    error
}

/// The error of the first command.
pub(super) fn of_identification(error: Error) -> Error {
    // An ordinary session takes only SQL.
    match error.has_state(b"42601") {
        true => Error::replication_not_understood("the server", error),
        false => error,
    }
}

/// The error of the creation of a slot.
pub(super) fn of_slot(
    error: Error,
    slot: &SlotName,
    settings: &ServerSettings,
    timeout: Duration,
) -> Error {
    if error.has_state(b"55P03") {
        return Error::writers_did_not_end(timeout, error);
    }
    // All are in use.
    if error.has_state(b"53400") {
        return Error::no_free_slot(error);
    }
    let is_refused = error.sqlstate().is_some();
    if is_refused && settings.is_standby {
        return Error::standby_without_slots(error);
    }
    if error.has_state(b"55000") {
        // There may be none at all.
        return match settings.wal_level.as_str() {
            "logical" => Error::no_free_slot(error),
            wal_level => Error::wal_level_too_low(wal_level, error),
        };
    }
    Error::slot_refused(slot, error)
}
