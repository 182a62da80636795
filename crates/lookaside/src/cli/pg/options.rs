//! Options of a new database, for the commands that create one.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use lookaside_embedded::{Builder, Error, Postgres, VersionRequirement};

use super::{Setting, failure, read_setting};
use crate::failure::Failure;
use crate::progress::download::DownloadBar;

/// The name of the SQL of `Builder::sql` in the library's errors, before the line.
const SQL_LABEL: &str = "the initial SQL";

#[derive(Debug, Args)]
pub(super) struct DatabaseOptions {
    /// The version of PostgreSQL: a major version such as 17, or an exact one such as 17.11
    #[arg(long, value_name = "VERSION")]
    pg_version: Option<VersionRequirement>,

    /// A file with SQL that initializes a new database; not the SQL itself
    #[arg(long, value_name = "FILE")]
    sql: Option<PathBuf>,

    /// A folder with migrations, applied to a new database in the order of their numbers
    #[arg(long, value_name = "DIR")]
    migrations: Option<PathBuf>,

    /// An extension that is created in a new database; can be repeated
    #[arg(long, value_name = "NAME")]
    extension: Vec<String>,

    /// A setting of the server, as in postgresql.conf; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = read_setting)]
    set: Vec<Setting>,
}

impl DatabaseOptions {
    /// A builder with these options that shows the progress of downloads.
    pub(super) fn builder(&self) -> Result<Builder, Failure> {
        let mut builder = Postgres::builder().progress(Arc::new(DownloadBar::new()));
        if let Some(version) = self.pg_version {
            builder = builder.version(version);
        }
        if let Some(file) = &self.sql {
            let text = fs::read_to_string(file).map_err(|error| {
                Failure::new(format!("cannot read `{}`", file.display()))
                    .because(&error)
                    .with_help("--sql takes the name of a file that contains the SQL")
            })?;
            builder = builder.sql(&text);
        }
        if let Some(folder) = &self.migrations {
            builder = builder.migrations(folder);
        }
        for name in &self.extension {
            builder = builder.extension(name);
        }
        for (name, value) in &self.set {
            builder = builder.setting(name, value);
        }
        Ok(builder)
    }

    /// Converts an error of a start, naming the file of the SQL.
    pub(super) fn failure(&self, error: &Error) -> Failure {
        let failure = failure(error);
        match &self.sql {
            None => failure,
            // The library only has the text and does not know its file.
            Some(file) => failure.rename(SQL_LABEL, &format!("`{}`", file.display())),
        }
    }
}
