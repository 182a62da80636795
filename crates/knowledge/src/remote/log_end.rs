//! The end of the log of a provider's server, asked for when a position has to be compared with it.

use lookaside_value::{Position, RowSet, Value};

use super::Remote;
use crate::config::ProviderKind;
use crate::feed::LogPosition;

/// A standby shows no more than it has replayed. The names of files of the log begin with the timeline;
/// the control file has an older one until the first checkpoint after a promotion. Every user may call
/// these functions.
const SQL: &str = "select system_identifier, \
                   case when pg_is_in_recovery() then \
                     (select timeline_id from pg_control_checkpoint()) \
                   else ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int \
                   end, \
                   (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() \
                   else pg_current_wal_insert_lsn() end)::text \
                   from pg_control_system()";

impl Remote {
    /// Up to where the server that answers queries has written its log; for a standby, replayed it.
    /// `None` if it is not PostgreSQL, or does not answer this.
    pub(crate) async fn log_end(&self) -> Option<LogPosition> {
        if self.config.kind() != ProviderKind::Postgres {
            return None;
        }
        let asking = async {
            let asking = self.pool.query(SQL, &[]);
            match self.timeouts().timeout {
                Some(timeout) => tokio::time::timeout(timeout, asking).await.ok(),
                None => Some(asking.await),
            }
        };
        let answer = self.runtime.within(asking).await?.ok()?;
        log_end_of(&answer.rows)
    }
}

fn log_end_of(rows: &RowSet) -> Option<LogPosition> {
    match &*rows.first()? {
        [
            Value::Int(system_id),
            Value::Int(timeline),
            Value::Text(position),
        ] => Some(LogPosition {
            system_id: system_id.cast_unsigned(),
            timeline: u32::try_from(*timeline).ok()?,
            position: position.parse::<Position>().ok()?,
        }),
        _ => None,
    }
}
