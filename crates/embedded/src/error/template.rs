//! Errors of templates made by the caller's code or SQL.

use super::{Error, ErrorKind};

impl Error {
    pub(crate) fn template_failed(
        key: &str,
        source: Box<dyn std::error::Error + Send + Sync>,
    ) -> Self {
        let error = Self::new(
            ErrorKind::Misuse,
            format!("making the template `{key}` failed; no database is made without it"),
        );
        error.because(source)
    }

    pub(crate) fn template_without_database(key: &str, database: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "what fills the template `{key}` has dropped or renamed the database `{database}`, which \
                 is the one to be filled; keep it, and make tables and schemas in it"
            ),
        )
    }

    pub(crate) fn template_without_admin_database(key: &str, source: Self) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "what fills the template `{key}` has changed the database or the role `postgres` so that no \
                 session is possible there, and the server is administered through it; leave both as they \
                 are"
            ),
        )
        .because(source)
    }

    pub(crate) fn template_is_unusable(label: &str, source: Self) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "no server can be used with what {label} has made, so the template is not kept; look for \
                 `ALTER SYSTEM`, and for changes of the server's configuration and of the role `postgres`"
            ),
        )
        .because(source)
    }

    pub(crate) fn template_refuses_sessions(label: &str, source: Self) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "no session can be opened on a copy of what {label} has made, so the template is not kept; \
                 look for event triggers on `login`, and for settings of the database"
            ),
        )
        .because(source)
    }

    pub(crate) fn template_delays_sessions(label: &str, setting: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "{label} has set `{setting}`, by which each session waits when it begins, so the template is \
                 not kept; leave it out, or end with `ALTER SYSTEM RESET {setting}`"
            ),
        )
    }
}
