//! The table with the positions in followed files.

use std::path::Path;

use lookaside_client::blocking::Queryable;
use lookaside_client::params;
use lookaside_stream::Mark;

use crate::postgres::{Client, Failure, Table, create_missing, unavailable};
use crate::{Error, Result};

/// The name of the table, which is in the schema of the table with the rows.
const TABLE: &str = "lookaside_file_positions";

const COLUMNS: &str =
    "(\"source\" text not null, \"position\" text not null, primary key (\"source\"))";

/// Between the numbers of a mark, the identifier of the run and the name of the file.
const RUN: &str = " run ";
const FILE: &str = " file ";

/// A followed file in a run.
#[derive(Clone)]
pub(super) struct Followed {
    /// Its name without the folder, in quotes.
    name: String,
    /// A random number of the run: what another run has stored is never taken for its own.
    run: u64,
}

impl Followed {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            name: format!("{:?}", path.file_name().unwrap_or_default()),
            run: fastrand::u64(..),
        }
    }

    /// The text that is stored for a position in the file.
    pub(super) fn position(&self, mark: &Mark) -> String {
        format!("{mark}{RUN}{:016x}{FILE}{}", self.run, self.name)
    }
}

/// The position of a followed file that is stored under a name.
pub(super) struct Positions {
    /// The table in SQL.
    table: String,
    /// The name of the followed file in the table.
    source: String,
    followed: Followed,
    /// The position that was stored last as far as this process knows; `None` if none was.
    stored: Option<String>,
}

impl Positions {
    /// Creates the table if it does not exist.
    pub(super) fn open(
        client: &mut Client,
        name: &str,
        rows: &Table,
        source: &str,
        followed: &Followed,
    ) -> Result<Self> {
        let table = rows.sibling(TABLE);
        create_missing(client, name, &table, COLUMNS)?;
        Ok(Self {
            table,
            source: source.to_owned(),
            followed: followed.clone(),
            stored: None,
        })
    }

    /// Reads the position at which the run begins. If there is none, it is the first one, which is
    /// stored with its text: from here on, a rename of the file loses no event, whatever ends the run.
    pub(super) fn begin(
        &mut self,
        client: &mut Client,
        name: &str,
        first: Option<(Mark, String)>,
    ) -> Result<Option<Mark>> {
        let read = self.read(client);
        self.stored = read.map_err(|failure| unavailable(name, failure))?;
        let Some(stored) = &self.stored else {
            let Some((mark, text)) = first else {
                return Ok(None);
            };
            let stored = client.run(|connection| self.store(connection, &text));
            return match stored.map_err(|failure| unavailable(name, failure))? {
                true => {
                    self.stored = Some(text);
                    Ok(Some(mark))
                }
                false => Err(Error::unavailable(name, &self.moved(), "start it again")),
            };
        };
        let (table, source) = (&self.table, &self.source);
        let hint = format!(
            "use another name, or delete the row of {source} in {table} to read the file from its \
             start"
        );
        let refused = |reason: &str| Err(Error::refused(name, reason, Some(&hint)));
        let parts = stored.split_once(FILE);
        let mark_of = |text: &str| text.split_once(RUN)?.0.parse().ok();
        let mark = parts.and_then(|(text, file)| Some((mark_of(text)?, file)));
        match mark {
            None => refused(&format!(
                "the position of `{source}` in {table} is not one of this version"
            )),
            Some((_, file)) if file != self.followed.name => refused(&format!(
                "the position of `{source}` in {table} belongs to {file}, not to {}",
                self.followed.name
            )),
            Some((mark, _)) => Ok(Some(mark)),
        }
    }

    /// The stored position, if there is one.
    pub(super) fn read(&self, client: &mut Client) -> std::result::Result<Option<String>, Failure> {
        let sql = format!(
            "select \"position\" from {} where \"source\" = $1",
            self.table
        );
        let answer = client.run(|connection| connection.query(sql, params![&*self.source]))?;
        let positions = answer.map(|row| row.get::<String>(0));
        let positions = positions.map_err(|error| Failure::of(&error))?;
        Ok(positions.into_iter().next())
    }

    /// Moves the position; returns whether it was the expected one.
    pub(super) fn store(
        &self,
        db: &mut impl Queryable,
        position: &str,
    ) -> lookaside_client::Result<bool> {
        let (table, source) = (&self.table, &*self.source);
        let count = match &self.stored {
            Some(expected) => db.execute(
                format!(
                    "update {table} set \"position\" = $3 where \"source\" = $1 and \"position\" = $2"
                ),
                params![source, &**expected, position],
            ),
            None => db.execute(
                format!(
                    "insert into {table} (\"source\", \"position\") values ($1, $2) \
                     on conflict do nothing"
                ),
                params![source, position],
            ),
        }?;
        Ok(count == 1)
    }

    /// Records what a transaction has stored.
    pub(super) fn set_stored(&mut self, position: String) {
        self.stored = Some(position);
    }

    /// Why a run ends whose position is not the expected one.
    pub(super) fn moved(&self) -> String {
        format!(
            "another run has moved the position of `{}` in {}: each followed file needs a `source` of \
             its own, and is followed by one run at a time",
            self.source, self.table
        )
    }
}
