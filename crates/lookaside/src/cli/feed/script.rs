//! Statements that change a server, with what each needs: run in one transaction, or written for a
//! database administrator.

use std::io;

use lookaside_client::Error;

use super::server::FeedServer;
use crate::cli::output::printable;
use crate::failure::Failure;

/// How long a statement waits for a lock. Others that use the table wait behind it meanwhile.
const LOCK_TIMEOUT_SQL: &str = "set local lock_timeout = '5s'";

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) sql: String,
    /// The right that it needs.
    pub(super) needs: String,
    /// What it costs.
    pub(super) cost: Option<&'static str>,
}

/// Writes a comment of SQL, which names with line breaks do not end.
pub(super) fn write_comment(out: &mut dyn io::Write, text: &str) -> io::Result<()> {
    writeln!(out, "-- {}", printable(text))
}

/// Statements that are run together or not at all.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) steps: Vec<Step>,
}

impl Script {
    pub(super) fn add(&mut self, sql: impl Into<String>, needs: impl Into<String>) {
        self.steps.push(Step {
            sql: sql.into(),
            needs: needs.into(),
            cost: None,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The whole as a file of SQL.
    pub(super) fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.is_empty() {
            return writeln!(out, "-- nothing to do");
        }
        writeln!(out, "begin;\n{LOCK_TIMEOUT_SQL};")?;
        for Step { sql, needs, cost } in &self.steps {
            writeln!(out)?;
            write_comment(out, &format!("needs: {needs}"))?;
            if let Some(cost) = cost {
                write_comment(out, &format!("cost: {cost}"))?;
            }
            writeln!(out, "{sql};")?;
        }
        writeln!(out, "\ncommit;")
    }

    fn text(&self) -> String {
        let mut text = Vec::new();
        self.write(&mut text).expect("memory can be written");
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Runs the statements in one transaction.
    pub(super) fn run(&self, server: &mut FeedServer) -> Result<(), Failure> {
        if self.is_empty() {
            return Ok(());
        }
        let begin = format!("begin; {LOCK_TIMEOUT_SQL}");
        let begun = server.execute(&begin);
        begun.map_err(|error| self.failure(server, "begin", &error))?;
        for step in &self.steps {
            if let Err(error) = server.execute(&step.sql) {
                // If this fails as well, the end of the connection has the same effect.
                let _ = server.execute("rollback");
                return Err(self.failure(server, &step.sql, &error));
            }
        }
        let committed = server.execute("commit");
        committed.map_err(|error| self.failure(server, "commit", &error))
    }

    /// The error of a statement. All were rolled back.
    fn failure(&self, server: &FeedServer, sql: &str, error: &Error) -> Failure {
        let state = error.sqlstate();
        let has_state = |wanted: &[u8]| state.is_some_and(|state| state.as_bytes() == wanted);
        if has_state(b"42501") {
            let (user, text) = (&server.user, self.text());
            let reason = error
                .server()
                .map_or_else(|| error.to_string(), ToString::to_string);
            return Failure::new(format!("the user {user} may not run `{sql}`"))
                .with_excerpt(format!(
                    "  the server: {reason}\nNothing was changed. The statements for a database \
                     administrator:\n\n{text}"
                ))
                .with_help("let an administrator run these, or pass --url with the URL of one");
        }
        let failure = Failure::new(format!("nothing was changed: `{sql}` failed")).because(error);
        match has_state(b"55P03") {
            true => failure.with_help(
                "a transaction that uses the table has not ended; run this again when it has",
            ),
            false => failure,
        }
    }
}
