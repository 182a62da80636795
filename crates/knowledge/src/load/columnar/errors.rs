//! Errors of Parquet and Arrow files: each names the file, and its part where that is known.

use std::io;
use std::path::Path;

use super::Damage;
use crate::config::TableConfig;
use crate::error::{Error, ErrorKind};

impl Error {
    /// A file cannot be read.
    pub(super) fn columnar(table: &TableConfig, file: &Path, damage: Damage) -> Self {
        let named = |place: &str| match place {
            "" => file.display().to_string(),
            place => format!("{}: {place}", file.display()),
        };
        match damage {
            Damage::Unreadable { error, .. } if error.kind() == io::ErrorKind::NotFound => {
                Self::data_file(table, file, error)
            }
            Damage::Unreadable { place, error } => {
                let message = format!("{}: cannot be read to its end", named(&place));
                Self::with_source(ErrorKind::of_read(&error), message, error)
            }
            Damage::Broken { place, reason } => {
                let format = table.format.name();
                let message = format!(
                    "{}: cannot be read as {format}: {}; write or copy the file again",
                    named(&place),
                    reason.replace('\n', " ")
                );
                Self::new(ErrorKind::Data, message)
            }
            Damage::Limit(reason) => Self::new(
                ErrorKind::LimitReached,
                format!("{}: {reason}", file.display()),
            ),
        }
    }

    /// A file has too many columns.
    pub(super) fn column_limit(file: &Path, limit: usize) -> Self {
        let message = format!(
            "{}: the file has more than {limit} columns; name those of the table in \
             columns.by_header",
            file.display()
        );
        Self::new(ErrorKind::LimitReached, message)
    }

    /// A part of the path of a column is not in the schema of a file; `names` are beside it.
    pub(super) fn unknown_column(
        table: &TableConfig,
        file: &Path,
        (path, part): (&[String], &str),
        names: Vec<String>,
    ) -> Self {
        let (file, path) = (file.display(), path.join("."));
        let there = match names.is_empty() {
            true => "nothing is below that column".to_owned(),
            false => format!("there are: {}", names.join(", ")),
        };
        let message = format!(
            "{file}: there is no {part:?} of column {path:?}, which table {:?} requires; {there}",
            table.name
        );
        Self::new(ErrorKind::Data, message)
    }

    /// Two columns of a file have the name of a column of the table.
    pub(super) fn repeated_column(file: &Path, name: &str) -> Self {
        let message = format!(
            "{}: several columns have the name {name:?}; write the file with different names",
            file.display()
        );
        Self::new(ErrorKind::Data, message)
    }
}
