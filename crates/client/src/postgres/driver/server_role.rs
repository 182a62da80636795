//! What a server reports about itself: whether it accepts writes.

use std::ffi::CStr;

use crate::TargetSession;
use crate::driver::Fitness;

/// What the server has reported, which it does since PostgreSQL 14.
#[derive(Debug, Default)]
pub(in crate::postgres) struct ServerRole {
    is_standby: Option<bool>,
    is_read_only_by_default: Option<bool>,
}

impl ServerRole {
    /// Takes a setting that was reported.
    pub(in crate::postgres) fn report(&mut self, name: &CStr, value: &CStr) {
        let is_on = Some(value.to_bytes() == b"on");
        match name.to_bytes() {
            b"in_hot_standby" => self.is_standby = is_on,
            b"default_transaction_read_only" => self.is_read_only_by_default = is_on,
            _ => {}
        }
    }

    pub(in crate::postgres) fn fitness(&self, wanted: TargetSession) -> Fitness {
        let read_only = match (self.is_standby, self.is_read_only_by_default) {
            (Some(standby), Some(by_default)) => Some(standby || by_default),
            _ => None,
        };
        let (fits, sql) = match wanted {
            TargetSession::Any => return Fitness::Fit,
            TargetSession::ReadWrite => (
                read_only.map(|read_only| !read_only),
                "select not pg_catalog.current_setting('transaction_read_only')::bool",
            ),
            TargetSession::ReadOnly => (
                read_only,
                "select pg_catalog.current_setting('transaction_read_only')::bool",
            ),
            TargetSession::Primary => (
                self.is_standby.map(|standby| !standby),
                "select not pg_catalog.pg_is_in_recovery()",
            ),
            TargetSession::Standby | TargetSession::PreferStandby => {
                (self.is_standby, "select pg_catalog.pg_is_in_recovery()")
            }
        };
        match fits {
            Some(true) => Fitness::Fit,
            Some(false) => Fitness::Unfit,
            None => Fitness::Ask(sql),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reports: &[(&CStr, &CStr)], fit: &[TargetSession], unfit: &[TargetSession]) {
        let mut server_role = ServerRole::default();
        for (name, value) in reports {
            server_role.report(name, value);
        }
        for &wanted in fit {
            assert_eq!(server_role.fitness(wanted), Fitness::Fit, "{wanted:?}");
        }
        for &wanted in unfit {
            assert_eq!(server_role.fitness(wanted), Fitness::Unfit, "{wanted:?}");
        }
    }

    #[test]
    fn reports_decide() {
        use TargetSession::{Any, Primary, ReadOnly, ReadWrite, Standby};
        let standby = |value| (c"in_hot_standby", value);
        let read_only = |value| (c"default_transaction_read_only", value);
        check(
            &[standby(c"off"), read_only(c"off")],
            &[Any, ReadWrite, Primary],
            &[ReadOnly, Standby],
        );
        check(
            &[standby(c"off"), read_only(c"on")],
            &[Any, ReadOnly, Primary],
            &[ReadWrite, Standby],
        );
        check(
            &[standby(c"on"), read_only(c"off")],
            &[Any, ReadOnly, Standby],
            &[ReadWrite, Primary],
        );
        check(&[standby(c"on")], &[Any, Standby], &[Primary]);
    }

    #[test]
    fn a_server_that_does_not_report_its_role_is_queried() {
        use TargetSession::{Primary, ReadOnly, ReadWrite, Standby};
        for wanted in [Primary, ReadOnly, ReadWrite, Standby] {
            let fitness = ServerRole::default().fitness(wanted);
            assert!(matches!(fitness, Fitness::Ask(_)), "{wanted:?}");
        }
        assert_eq!(
            ServerRole::default().fitness(TargetSession::Any),
            Fitness::Fit
        );
    }
}
