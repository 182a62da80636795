//! A server that is stopped and started again.

use std::env;
use std::path::{Path, PathBuf};

use lookaside_embedded::Postgres;

/// A server that can be stopped and started again in the same place.
pub(crate) struct Server {
    version: &'static str,
    folder: PathBuf,
    postgres: Option<Postgres>,
}

impl Server {
    pub(crate) fn start(version: &'static str, name: &str) -> Self {
        let folder = format!("lookaside-{name}-{version}-{}", std::process::id());
        let folder = env::temp_dir().join(folder);
        let postgres = Some(start(version, &folder));
        Self {
            version,
            folder,
            postgres,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.postgres.as_ref().unwrap().url()
    }

    pub(crate) async fn stop(&mut self) {
        let postgres = self.postgres.take().unwrap();
        let closed = tokio::task::spawn_blocking(|| postgres.close());
        closed.await.unwrap().unwrap();
    }

    pub(crate) async fn start_again(&mut self) {
        let (version, folder) = (self.version, self.folder.clone());
        let started = tokio::task::spawn_blocking(move || start(version, &folder)).await;
        self.postgres = Some(started.unwrap());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.postgres.take());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn start(version: &str, folder: &Path) -> Postgres {
    let builder = Postgres::builder().version(version.parse().unwrap());
    builder.path(folder).start().unwrap()
}
