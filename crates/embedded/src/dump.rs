//! One database as SQL, by PostgreSQL's own `pg_dump`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cluster::Cluster;
use crate::{Error, Result, archive, digest};

/// Writes a database as SQL into a file, which appears when it is whole.
pub(crate) fn write(cluster: &Cluster, user: &str, database: &str, file: &Path) -> Result<()> {
    let version = cluster.binaries.version();
    let program = cluster
        .binaries
        .tool("pg_dump")
        .ok_or_else(|| Error::no_pg_dump(version))?;
    let partial = file.with_extension(format!("partial-{}", digest::random(4)));
    // `pg_dump` writes into what is there.
    archive::create_private(&partial).map_err(|error| Error::file("write", &partial, error))?;
    let output = Command::new(&program)
        .arg("--file")
        .arg(&partial)
        .arg("--host")
        .arg(&cluster.socket_folder)
        .args([
            "--port",
            &cluster.port.to_string(),
            "--username",
            user,
            "--no-password",
            "--dbname",
            database,
        ])
        .stdin(Stdio::null())
        .output()
        .map_err(Error::cannot_spawn)?;
    if !output.status.success() {
        let _ = fs::remove_file(&partial);
        return Err(Error::pg_dump_failed(
            String::from_utf8_lossy(&output.stderr).trim(),
        ));
    }
    fs::rename(&partial, file).map_err(|error| Error::file("write", file, error))
}
