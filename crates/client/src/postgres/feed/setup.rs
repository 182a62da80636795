//! From the log-in to the stream: the commands that begin a session.

use std::sync::Arc;
use std::time::Duration;

use lookaside_wire::postgres::DataRow;
use lookaside_wire::postgres::replication::{
    CreatedSlot, IDENTIFY_SYSTEM, SlotLifetime, SlotName, SlotSnapshot, StreamOptions,
    SystemIdentity, create_replication_slot, start_replication,
};
use tokio::time::timeout;

use super::connection::{Answered, FeedConnection};
use super::protocol::FeedProtocol;
use super::requirement::{self, ServerSettings};
use super::session::FeedSession;
use super::{FeedOptions, FeedStart, Lsn, SystemId, Timeline};
use crate::driver::Fitness;
use crate::net::Attempt;
use crate::nonblocking::{dial, first_session};
use crate::{Error, PostgresConfig, Result};

/// What a feed is of.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) config: PostgresConfig,
    pub(super) publications: Vec<String>,
    pub(super) options: FeedOptions,
}

/// Logs in, creates a slot, and starts the stream.
pub(super) async fn start(source: Arc<Source>, slot: SlotName) -> Result<(FeedSession, FeedStart)> {
    let options = &source.options;
    let size_max = options.message_size_max;
    let connecting = first_session(&source.config, |config, attempt| {
        log_in(config, attempt, size_max)
    });
    let mut connection = connecting.await?;
    let (system_id, timeline) = identify(&mut connection, options)
        .await
        .map_err(requirement::of_identification)?;
    let settings = settings(&mut connection, options).await?;
    // PostgreSQL 15 reports a missing publication as late as with the first change, and
    // PostgreSQL 18 only warns then. An error in the session would drop the slot, so this is first.
    check_publications(&mut connection, &source).await?;

    let create = create_replication_slot(&slot, SlotLifetime::Temporary, SlotSnapshot::Nothing);
    let mut consistent_point = None;
    let created = connection.command(&create, |row| {
        let created = CreatedSlot::decode(row).map_err(Error::protocol)?;
        consistent_point = Some(created.consistent_point);
        Ok(())
    });
    // The server's own limit comes first, unless it waits for several transactions.
    let timeout = options.slot_timeout.saturating_add(options.command_timeout);
    answer("CREATE_REPLICATION_SLOT", timeout, created)
        .await
        .map_err(|error| requirement::of_slot(error, &slot, &settings, options.slot_timeout))?;
    let consistent_point = consistent_point.ok_or_else(Error::stream_ended)?;

    let publications: Vec<_> = source.publications.iter().map(String::as_str).collect();
    let start = start_replication(
        &slot,
        Lsn::INVALID,
        &publications,
        &StreamOptions::default(),
    );
    let started = connection.command(&start, |_| Ok(()));
    let started = answer("START_REPLICATION", options.command_timeout, started).await;
    if started.map_err(Error::stream_refused)? != Answered::Streaming {
        return Err(Error::stream_ended());
    }

    let start = FeedStart {
        system_id,
        timeline,
        slot,
        consistent_point,
        server_version: connection.protocol().server_version.clone(),
    };
    let session = FeedSession::new(
        connection,
        consistent_point,
        options,
        settings.wal_sender_timeout,
    );
    Ok((session, start))
}

/// Attempts one host.
async fn log_in(
    config: Arc<PostgresConfig>,
    attempt: Attempt,
    message_size_max: usize,
) -> Result<FeedConnection> {
    let protocol = FeedProtocol::begin(&config, &attempt, message_size_max)?;
    let dialed = dial(&config, &attempt).await?;
    let mut connection = FeedConnection::new(dialed, protocol);
    let logged_in = connection.log_in().await;
    logged_in.map_err(|error| requirement::of_log_in(error, &config.user, &attempt.host))?;
    let is_fit = match connection.protocol().server_role.fitness(attempt.target) {
        Fitness::Fit => true,
        Fitness::Unfit => false,
        Fitness::Ask(sql) => {
            let mut is_fit = false;
            let asked = connection.command(sql, |row| {
                is_fit = row.fields().next().flatten() == Some(b"t");
                Ok(())
            });
            asked.await?;
            is_fit
        }
    };
    match is_fit {
        true => Ok(connection),
        false => Err(Error::unfit_session(attempt.target)),
    }
}

async fn identify(
    connection: &mut FeedConnection,
    options: &FeedOptions,
) -> Result<(SystemId, Timeline)> {
    let mut identity = None;
    let identified = connection.command(IDENTIFY_SYSTEM, |row| {
        let system = SystemIdentity::decode(row).map_err(Error::protocol)?;
        identity = Some((system.system_id, system.timeline));
        Ok(())
    });
    answer(IDENTIFY_SYSTEM, options.command_timeout, identified).await?;
    identity.ok_or_else(Error::stream_ended)
}

/// Sets what the session needs, and reads what the server has.
async fn settings(
    connection: &mut FeedConnection,
    options: &FeedOptions,
) -> Result<ServerSettings> {
    // 0 would mean no limit.
    let slot_timeout_ms = options.slot_timeout.as_millis();
    let slot_timeout_ms = slot_timeout_ms.clamp(1, i32::MAX.unsigned_abs().into());
    // A warning is how PostgreSQL 18 reports a publication that was dropped. A server that waits for
    // transactions before it creates a slot notices only by the last setting, which it refuses on some
    // systems, that its client has ended; otherwise the slot and the session would remain.
    let sql = format!(
        "set lock_timeout = {slot_timeout_ms}; \
         set client_min_messages = warning; \
         select pg_catalog.current_setting('wal_level'), \
         (select setting from pg_catalog.pg_settings where name = 'wal_sender_timeout'), \
         pg_catalog.pg_is_in_recovery(), \
         case when pg_catalog.version() ~ 'linux' then \
           pg_catalog.set_config('client_connection_check_interval', '1s', false) end"
    );
    let mut settings = ServerSettings::default();
    let asked = connection.command(&sql, |row| {
        let mut texts = texts(row);
        settings.wal_level = texts.next().unwrap_or_default();
        let timeout_ms = texts.next().and_then(|text| text.parse().ok());
        settings.wal_sender_timeout = Duration::from_millis(timeout_ms.unwrap_or_default());
        settings.is_standby = texts.next().as_deref() == Some("t");
        Ok(())
    });
    answer("SHOW wal_level", options.command_timeout, asked).await?;
    Ok(settings)
}

async fn check_publications(connection: &mut FeedConnection, source: &Source) -> Result<()> {
    let wanted: Vec<_> = source
        .publications
        .iter()
        .map(|name| literal(name))
        .collect();
    let sql = format!(
        "select wanted.name from pg_catalog.unnest(array[{}]::pg_catalog.text[]) as wanted(name) \
         where not exists (select from pg_catalog.pg_publication where pubname = wanted.name)",
        wanted.join(", ")
    );
    let mut missing = Vec::new();
    let asked = connection.command(&sql, |row| {
        // Not more than there are, whatever the server sends.
        if missing.len() < source.publications.len() {
            missing.extend(texts(row).next());
        }
        Ok(())
    });
    answer(
        "SELECT … FROM pg_publication",
        source.options.command_timeout,
        asked,
    )
    .await?;
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::publications_missing(
            &missing,
            &source.config.database,
        )),
    }
}

/// The answer to a command within a time limit.
async fn answer(
    command: &str,
    limit: Duration,
    answered: impl Future<Output = Result<Answered>>,
) -> Result<Answered> {
    let answered = timeout(limit, answered).await;
    answered.unwrap_or_else(|_| Err(Error::no_answer_to(command, limit)))
}

/// The values of a row; NULL is empty.
fn texts(row: DataRow<'_>) -> impl Iterator<Item = String> {
    row.fields()
        .map(|field| String::from_utf8_lossy(field.unwrap_or_default()).into_owned())
}

/// A literal of SQL, whatever `standard_conforming_strings` is.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
