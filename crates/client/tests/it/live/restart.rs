//! A server that is stopped and started again.

use std::env;
use std::path::{Path, PathBuf};

use lookaside_embedded::{Builder, Postgres};

/// A server that can be stopped and started again in the same place.
pub(crate) struct Server {
    version: &'static str,
    folder: PathBuf,
    with: fn(Builder) -> Builder,
    postgres: Option<Postgres>,
}

impl Server {
    pub(crate) fn start(version: &'static str, name: &str) -> Self {
        Self::start_with(version, name, |builder| builder)
    }

    pub(crate) fn start_with(
        version: &'static str,
        name: &str,
        with: fn(Builder) -> Builder,
    ) -> Self {
        let folder = format!("lookaside-{name}-{version}-{}", std::process::id());
        let folder = env::temp_dir().join(folder);
        let postgres = Some(start(version, &folder, with));
        Self {
            version,
            folder,
            with,
            postgres,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.postgres.as_ref().unwrap().url()
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.postgres.as_ref().unwrap().execute(sql).unwrap();
    }

    pub(crate) async fn stop(&mut self) {
        let postgres = self.postgres.take().unwrap();
        let closed = tokio::task::spawn_blocking(|| postgres.close());
        closed.await.unwrap().unwrap();
    }

    pub(crate) async fn start_again(&mut self) {
        let (version, folder, with) = (self.version, self.folder.clone(), self.with);
        let started = tokio::task::spawn_blocking(move || start(version, &folder, with)).await;
        self.postgres = Some(started.unwrap());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.postgres.take());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn start(version: &str, folder: &Path, with: fn(Builder) -> Builder) -> Postgres {
    let builder = Postgres::builder().version(version.parse().unwrap());
    with(builder.path(folder)).start().unwrap()
}
