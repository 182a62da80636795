//! Exactly once from a followed file to PostgreSQL: rows, and the position up to which they were
//! read, in one transaction of the database.
//!
//! A transaction has the rows of whole blocks of the file, in their order, and the position after
//! the last one. It begins only when all other results of these blocks, such as those of named
//! outputs and dead letters, are delivered. A run that begins reads the stored position, and each
//! transaction moves it only from where the run has it: of two runs that follow a file under one name,
//! the second one to commit ends with an error.
//!
//! A result that the server does not accept becomes a dead letter. The rest of its transaction is
//! written after that is delivered, so that no position covers an event that is nowhere.

mod batch;
mod positions;
mod sink;
mod writer;

use std::fs;
use std::path::Path;

use lookaside_stream::{Mark, ResultMeta};

use self::positions::{Followed, Positions};
use self::sink::FollowedSink;
use crate::postgres::{self, SinkOptions};
use crate::{ConnectUrl, Error, OpenedSink, Result};

/// Opens a sink for the results of a file that is followed under the path `path`. With
/// exactly-once delivery, the position in the file at which the run begins is in the database, and
/// returned if there is one.
pub(crate) fn open_sink(url: &ConnectUrl, path: &Path) -> Result<(OpenedSink, Option<Mark>)> {
    let options = SinkOptions::new(url)?;
    if !options.is_exactly_once {
        return Ok((postgres::open_sink(url)?, None));
    }
    let name = &options.name;
    let Some(source) = &options.source else {
        let hint = "name the file for the table of positions, as in `source=web1-access`; each \
                    followed file needs a name of its own";
        return Err(Error::missing_option(name, "source", hint));
    };
    let (mut client, table) = postgres::open_table(&options)?;
    let followed = Followed::new(path);
    let mut positions = Positions::open(&mut client, name, &table, source, &followed)?;
    let first = fs::metadata(path).ok().as_ref().and_then(Mark::at_start);
    let mark = positions.begin(
        &mut client,
        name,
        first.map(|mark| (mark, followed.position(&mark))),
    )?;
    let sink = FollowedSink::open(client, table, followed, positions, &options)?;
    let sink = OpenedSink {
        sink: Box::new(sink),
        meta: ResultMeta::default(),
    };
    Ok((sink, mark))
}
