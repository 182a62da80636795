//! Errors of templates made by the caller's code or SQL.

use super::{Error, ErrorKind};

impl Error {
    pub(crate) fn template_failed(
        key: &str,
        source: Box<dyn std::error::Error + Send + Sync>,
    ) -> Self {
        let error = Self::new(
            ErrorKind::Misuse,
            format!("making the template `{key}` failed; no database was created"),
        );
        error.because(source)
    }

    pub(crate) fn template_without_database(key: &str, database: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "the code that fills the template `{key}` has dropped or renamed the database \
                 `{database}`, which it should fill; keep that database, and create tables and \
                 schemas in it"
            ),
        )
    }

    pub(crate) fn template_without_admin_database(key: &str, source: Self) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "the code that fills the template `{key}` has changed the database or the role `postgres` \
                 so that no session can be opened, but the server is administered through them; do \
                 not change them"
            ),
        )
        .because(source)
    }

    pub(crate) fn template_is_unusable(label: &str, source: Self) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "no server can be used with the contents that {label} created, so the template is \
                 not kept; check for `ALTER SYSTEM`, and for changes of the server's configuration \
                 and of the role `postgres`"
            ),
        )
        .because(source)
    }

    pub(crate) fn template_refuses_sessions(label: &str, source: Self) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "no session can be opened in a copy of the contents that {label} created, so the \
                 template is not kept; check for event triggers on `login`, and for settings of \
                 the database"
            ),
        )
        .because(source)
    }

    pub(crate) fn template_delays_sessions(label: &str, setting: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "{label} has set `{setting}`, which delays the start of each session, so the \
                 template is not kept; omit it, or end with `ALTER SYSTEM RESET {setting}`"
            ),
        )
    }
}
