//! One database as SQL, by PostgreSQL's own `pg_dump`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cluster::Cluster;
use crate::identity::clear_postgres_variables;
use crate::{Error, Result, archive, digest};

/// Rows per INSERT. COPY would load faster, but only in psql: no statement may follow it in the
/// same message.
const ROWS_PER_INSERT: &str = "--rows-per-insert=1000";

/// Writes a database as SQL into a file, which is renamed into place when complete.
pub(crate) fn write(cluster: &Cluster, user: &str, database: &str, file: &Path) -> Result<()> {
    let major = cluster.binaries.version().major;
    let program = cluster
        .binaries
        .tool("pg_dump")
        .ok_or_else(|| Error::no_pg_dump(major))?;
    let partial = file.with_extension(format!("partial-{}", digest::random(4)));
    let text =
        archive::create_private(&partial).map_err(|error| Error::file("write", &partial, error))?;
    let mut command = Command::new(&program);
    clear_postgres_variables(&mut command);
    let output = command
        .arg("--host")
        .arg(&cluster.socket_folder)
        .args([
            "--port",
            &cluster.port.to_string(),
            "--username",
            user,
            "--no-password",
            ROWS_PER_INSERT,
            "--dbname",
            &connection_string(database),
        ])
        .stdin(Stdio::null())
        .stdout(text)
        .output()
        .map_err(|error| {
            let _ = fs::remove_file(&partial);
            Error::cannot_spawn(error)
        })?;
    if !output.status.success() {
        let _ = fs::remove_file(&partial);
        return Err(Error::pg_dump_failed(
            String::from_utf8_lossy(&output.stderr).trim(),
        ));
    }
    fs::rename(&partial, file).map_err(|error| Error::file("write", file, error))
}

/// A connection string for a database, quoted so that its name cannot add parameters.
fn connection_string(database: &str) -> String {
    let database = database.replace('\\', r"\\").replace('\'', r"\'");
    format!("dbname='{database}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_named_whatever_it_is_called() {
        for (name, expected) in [
            ("main", "dbname='main'"),
            ("host=elsewhere", "dbname='host=elsewhere'"),
            (r"it's a \ b", r"dbname='it\'s a \\ b'"),
        ] {
            assert_eq!(connection_string(name), expected);
        }
    }
}
