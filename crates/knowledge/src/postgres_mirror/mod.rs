//! The folder's tables in an embedded PostgreSQL.
//!
//! They are loaded into SQLite as usual and copied from there into a separate schema, which the
//! connections of one generation use. So a reload builds a new schema while the current one is in
//! use, and a failed reload drops the new schema.

mod declared;
mod errors;
mod source;

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lookaside_client::{Answer, Pool, PoolLock, Request};
use lookaside_value::Value;

use self::source::{Source, Table};
use crate::Result;
use crate::config::{CREATE_FILE, Config, TableConfig};
use crate::databases::Databases;
use crate::error::Error;
use crate::runtime::Runtime;
use crate::scan::statements;
use crate::sql_name::quote_name;
use crate::wait::block_on;

/// The size of the rows that are sent in one COPY, in bytes: large enough that the round trip is
/// negligible.
const CHUNK_SIZE: usize = 1 << 20;

/// Numbers the schemas of this process; the numbers only have to be unique, so `Relaxed` is enough.
static SCHEMA_COUNTER: AtomicU64 = AtomicU64::new(0);

/// A unique name for a new schema.
pub(crate) fn new_schema() -> String {
    let number = SCHEMA_COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("lookaside_{}_{number}", process::id())
}

/// The SQL that each connection of a generation runs first.
pub(crate) fn session(schema: &str) -> String {
    format!("set search_path to {}, public", quote_name(schema))
}

/// The SQL that drops a schema that is no longer used.
pub(crate) fn drop_sql(schema: &str) -> String {
    format!("drop schema if exists {} cascade", quote_name(schema))
}

/// Makes the schema and copies all tables into it.
pub(crate) fn copy(
    pool: &Pool,
    runtime: &Runtime,
    schema: &str,
    extensions: &[String],
    config: &Config,
    databases: &Databases,
) -> Result<()> {
    let mut target = Target::open(pool, runtime)?;
    // Extensions belong to the database and outlive the schema, so they are not in the transaction.
    for extension in extensions {
        let sql = format!(
            "create extension if not exists {} schema public",
            quote_name(extension)
        );
        target
            .run(&sql)
            .map_err(|error| Error::extension(extension, &error))?;
    }
    let begin = [
        "begin".to_owned(),
        format!("create schema {}", quote_name(schema)),
        session(schema),
    ];
    for sql in &begin {
        target.run(sql).map_err(|error| Error::copying(&error))?;
    }
    let source = Source::open(databases)?;
    for table in config.enabled_tables() {
        copy_table(&mut target, &source, table)?;
    }
    target.run("commit").map_err(|error| Error::copying(&error))
}

fn copy_table(target: &mut Target<'_>, source: &Source<'_>, config: &TableConfig) -> Result<()> {
    let Some(table) = source.table(&config.name)? else {
        // Its `create.sql` creates tables with other names, which are unknown.
        return Ok(());
    };
    let file = config.folder.join(CREATE_FILE);
    let own = source::read_file(&file)?.map(|text| text.replace("{table}", &config.name));
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error| Error::copying_table(config, &what, &error)
    };
    match &own {
        Some(text) => {
            for sql in statements(text) {
                target
                    .run(sql)
                    .map_err(failed(&file.display().to_string()))?;
            }
        }
        None => {
            let sql = table.create_sql();
            target
                .run(&sql)
                .map_err(failed(&format!("derived `{sql}`")))?;
        }
    }
    let columns = target
        .columns(&table)
        .map_err(failed("reading its columns"))?;
    let copy: Arc<str> = table.copy_sql(&columns)?.into();
    source.each_chunk(&table, CHUNK_SIZE, |first_row, chunk| {
        // The line that the server reports is relative to the chunk.
        let what = match first_row {
            1 => "its rows".to_owned(),
            row => format!("its rows, as counted from row {row} on"),
        };
        let request = Request::copy_in(Arc::clone(&copy), chunk);
        target.request(request).map(drop).map_err(failed(&what))
    })?;
    if own.is_none() {
        for sql in table.index_sqls() {
            target
                .run(&sql)
                .map_err(failed(&format!("derived `{sql}`")))?;
        }
    }
    let analyze = format!("analyze {}", quote_name(&table.name));
    target.run(&analyze).map_err(failed("counting its rows"))
}

/// The connection that copies.
struct Target<'a> {
    runtime: &'a Runtime,
    lock: PoolLock,
}

impl<'a> Target<'a> {
    fn open(pool: &Pool, runtime: &'a Runtime) -> Result<Self> {
        let locked = block_on(runtime.within(pool.lock()));
        Ok(Self {
            runtime,
            lock: locked.map_err(|error| Error::copying(&error))?,
        })
    }

    fn run(&mut self, sql: &str) -> lookaside_client::Result<()> {
        self.request(Request::new(sql, &[])).map(drop)
    }

    fn request(&mut self, request: Request) -> lookaside_client::Result<Answer> {
        let answers = block_on(self.runtime.within(self.lock.request(request)));
        answers?.pop().expect("one answer a query")
    }

    /// The columns of the table that rows can be copied into.
    fn columns(&mut self, table: &Table) -> lookaside_client::Result<Vec<String>> {
        let sql = "select attname::text from pg_attribute \
            where attrelid = to_regclass($1) and attnum > 0 \
            and not attisdropped and attgenerated = ''";
        let name = Value::from(quote_name(&table.name));
        let answer = self.request(Request::new(sql, &[name]))?;
        let rows = answer.rows.iter();
        Ok(rows.map(|row| row[0].to_text().to_string()).collect())
    }
}
