//! The caller's code that fills a database, such as a migrator.

use std::fmt;
use std::panic;
use std::sync::Arc;
use std::thread;

use crate::admin::literal;
use crate::cluster::{Cluster, is_owner_role};
use crate::endpoint::Endpoint;
use crate::names::{ADMIN_DATABASE, USER};
use crate::{Error, Result};

/// The error type of the caller's code.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The caller's code; it gets a URL.
type Make = dyn Fn(&str) -> Result<(), BoxError> + Send + Sync;

/// The caller's code, and the key of its contents.
#[derive(Clone)]
pub(crate) struct Initializer {
    pub(crate) key: String,
    pub(crate) make: Arc<Make>,
}

impl fmt::Debug for Initializer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initializer")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Initializer {
    /// Runs the code on a database, and closes the sessions that it leaves open, such as a pool's.
    ///
    /// It runs on a new thread, so that it may start an asynchronous runtime also where the caller
    /// is on a thread of one.
    pub(crate) fn run(&self, cluster: &Cluster, database: &str) -> Result<()> {
        let url = url_of(cluster, database);
        let made = thread::scope(|scope| {
            let thread = thread::Builder::new().name("lookaside-pg-template".to_owned());
            let thread = thread.spawn_scoped(scope, || (self.make)(&url));
            thread.map(|thread| thread.join())
        });
        made.map_err(Error::cannot_spawn)?
            .unwrap_or_else(|panic| panic::resume_unwind(panic))
            .map_err(|error| Error::template_failed(&self.key, error))?;
        let doing = "ending the sessions on a template";
        let sql = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {}",
            literal(database)
        );
        let mut session = (cluster.open(ADMIN_DATABASE, doing)).map_err(|error| {
            match error.sqlstate() {
                // The server stops or starts, or a limit is reached (classes 57P and 53).
                Some(state) if state.starts_with("57P") || state.starts_with("53") => error,
                // Before the code ran, the server did not refuse it.
                Some(_) => Error::template_without_admin_database(&self.key, error),
                None => error,
            }
        })?;
        let found = session.query(&format!(
            "SELECT 1 FROM pg_database WHERE datname = {}",
            literal(database)
        ));
        if found.is_ok_and(|found| found.is_empty()) {
            return Err(Error::template_without_database(&self.key, database));
        }
        let ended = session.query(&sql);
        ended.map_err(|failure| cluster.explain(failure, doing))?;
        cluster.wait_until_unused(database, &mut session)
    }
}

/// The URL for the code: over TCP if the caller uses that for its databases.
fn url_of(cluster: &Cluster, database: &str) -> String {
    let endpoint = Endpoint {
        socket_folder: &cluster.socket_folder,
        port: cluster.port,
        user: match is_owner_role(database) && cluster.has_role(database).unwrap_or_default() {
            true => database,
            false => USER,
        },
        password: cluster.password.as_deref(),
        database,
    };
    endpoint.tcp_url().unwrap_or_else(|| endpoint.url())
}
