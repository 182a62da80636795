//! A sealed SQLite database in memory, read by many connections.
//!
//! One generation of the tables is one store. It is in SQLite's `memdb` file system under a name
//! that is unique in this process: every connection of the process that opens the name sees the
//! same pages, nothing is copied per thread, and the pages are freed when the last connection
//! closes. The store's own connection stays open as long as the store exists.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, OpenFlags};

use crate::error::Error;
use crate::{Result, functions};

/// The page cache of a reader in KiB. The database itself is in memory, so a miss is a copy of one
/// page; the cache holds the upper levels of the indexes, which every lookup traverses.
const READER_CACHE_SIZE_KIB: i64 = 8 * 1024;

/// The number of prepared statements that a reader keeps for [`Connection::prepare_cached`].
const READER_STATEMENT_COUNT_MAX: usize = 256;

/// Numbers the stores of this process; the numbers only have to be unique, so `Relaxed` is enough.
static STORE_COUNTER: AtomicU64 = AtomicU64::new(0);

/// The page size in bytes. Larger pages load faster, but a reader copies a whole page on a cache
/// miss.
const PAGE_SIZE: i64 = 4096;

/// Page cache of the loading connection in KiB: the pages that a batch of inserts touches.
const LOADING_CACHE_SIZE_KIB: i64 = 64 * 1024;

/// Whether a failed statement can be rolled back while a store is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    /// No: the first failure discards the store.
    Never,
    /// Yes, because the load continues after it.
    Statement,
}

/// A database that is still being filled by one connection.
pub(crate) struct StoreBuilder {
    uri: String,
    connection: Connection,
}

/// A sealed database, which is read-only.
pub(crate) struct Store {
    uri: String,
    /// Keeps the database alive; it is locked when pages are counted, never to answer lookups.
    connection: Mutex<Connection>,
}

impl StoreBuilder {
    /// An empty database.
    pub(crate) fn new() -> Result<Self> {
        let number = STORE_COUNTER.fetch_add(1, Ordering::Relaxed);
        let uri = format!("file:/lookaside-{}-{number}?vfs=memdb", std::process::id());
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open_with_flags(
                &uri,
                OpenFlags::SQLITE_OPEN_READ_WRITE
                    | OpenFlags::SQLITE_OPEN_CREATE
                    | OpenFlags::SQLITE_OPEN_URI
                    | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            )?;
            functions::register(&connection)?;
            Ok(connection)
        };
        let connection = open().map_err(|source| Error::sqlite("opening a store", source))?;
        Ok(Self { uri, connection })
    }

    /// Tunes the connection for fast inserts; nothing has to survive a crash.
    pub(crate) fn tune_for_loading(&self, undo: Undo) -> Result<()> {
        // Without a journal, a failed statement may leave partial changes.
        let journal_mode = match undo {
            Undo::Never => "off",
            Undo::Statement => "memory",
        };
        self.connection
            .execute_batch(&format!(
                "pragma page_size = {PAGE_SIZE};
                 pragma journal_mode = {journal_mode};
                 pragma synchronous = off;
                 pragma temp_store = memory;
                 pragma cache_size = -{LOADING_CACHE_SIZE_KIB};"
            ))
            .map_err(|source| Error::sqlite("preparing a store for loading", source))
    }

    /// The connection that fills the database.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Ends the filling; the database is read-only from now on.
    pub(crate) fn seal(self) -> Result<Store> {
        let Self { uri, connection } = self;
        // The page cache only held copies of pages of the database.
        connection
            .execute_batch("pragma shrink_memory")
            .map_err(|source| Error::sqlite("sealing a store", source))?;
        Ok(Store {
            uri,
            connection: Mutex::new(connection),
        })
    }
}

impl Store {
    /// A copy of the current state of a SQLite database file.
    pub(crate) fn copy_of_sqlite_file(path: &Path) -> Result<Self> {
        let builder = StoreBuilder::new()?;
        let doing = || format!("{}: copying the SQLite database", path.display());
        let source = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .map_err(|source| Error::sqlite(doing(), source))?;
        functions::register(&source).map_err(|source| Error::sqlite(doing(), source))?;
        source
            .execute("vacuum into ?1", [&builder.uri])
            .map_err(|source| Error::sqlite(doing(), source))?;
        builder.seal()
    }

    /// A connection that can only read this store, with the engine's functions.
    ///
    /// It keeps a read transaction open: the store never changes, and acquiring and releasing the
    /// lock for each statement would be most of the cost of a lookup. Do not end it.
    pub(crate) fn reader(&self) -> Result<Connection> {
        self.open_reader()
            .map_err(|source| Error::sqlite("opening a reader of the store", source))
    }

    fn open_reader(&self) -> rusqlite::Result<Connection> {
        let mut connection = Connection::open_with_flags(
            &self.uri,
            OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_URI
                | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        functions::register(&connection)?;
        connection.set_prepared_statement_cache_capacity(READER_STATEMENT_COUNT_MAX);
        connection.pragma_update(None, "cache_size", -READER_CACHE_SIZE_KIB)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.execute_batch("begin; select count(*) from sqlite_schema;")?;
        connection.authorizer(Some(only_reading))?;
        Ok(connection)
    }

    /// Copies all tables into an empty database.
    pub(crate) fn copy_into(&self, builder: &StoreBuilder) -> Result<()> {
        let connection = self.lock();
        let copied = connection.execute("vacuum into ?1", [&builder.uri]);
        copied
            .map(drop)
            .map_err(|source| Error::sqlite("copying a store", source))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .expect("no one panics while holding it")
    }

    /// The size of the database in bytes.
    pub(crate) fn size(&self) -> Result<u64> {
        let connection = self.lock();
        connection
            .query_row(
                "select page_count * page_size from pragma_page_count, pragma_page_size",
                [],
                |row| row.get::<_, i64>(0),
            )
            .map(i64::unsigned_abs)
            .map_err(|source| Error::sqlite("counting the pages of the store", source))
    }
}

/// Lets a reader prepare read-only statements and refuses all others: attaching files, ending the
/// transaction, changing settings. SQLite calls it when a statement is prepared, not when it runs.
fn only_reading(context: AuthContext<'_>) -> Authorization {
    match context.action {
        // It reveals memory addresses of the process.
        AuthAction::Function { function_name }
            if function_name.eq_ignore_ascii_case("fts3_tokenizer") =>
        {
            Authorization::Deny
        }
        AuthAction::Select
        | AuthAction::Read { .. }
        | AuthAction::Function { .. }
        | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Pragma { pragma_name, .. } if describes(pragma_name) => Authorization::Allow,
        _ => Authorization::Deny,
    }
}

/// The pragmas that describe the schema and change nothing, whatever their argument.
fn describes(pragma: &str) -> bool {
    [
        "table_info",
        "table_xinfo",
        "table_list",
        "index_list",
        "index_info",
        "index_xinfo",
        "foreign_key_list",
        "function_list",
        "collation_list",
    ]
    .iter()
    .any(|name| name.eq_ignore_ascii_case(pragma))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(sql: &str) -> Store {
        let builder = StoreBuilder::new().unwrap();
        builder.connection().execute_batch(sql).unwrap();
        builder.seal().unwrap()
    }

    fn text(connection: &Connection, sql: &str) -> rusqlite::Result<String> {
        connection.query_row(sql, [], |row| row.get(0))
    }

    #[test]
    fn readers_share_the_rows_and_stores_do_not() {
        let old = store("create table t(v); insert into t values ('old')");
        let new = store("create table t(v); insert into t values ('new')");
        let readers = [old.reader().unwrap(), old.reader().unwrap()];
        for reader in &readers {
            assert_eq!(text(reader, "select v from t").unwrap(), "old");
        }
        let reader = new.reader().unwrap();
        assert_eq!(text(&reader, "select v from t").unwrap(), "new");
        assert!(new.size().unwrap() >= 4096);
    }

    #[test]
    fn a_reader_outlives_its_store() {
        let old = store("create table t(v); insert into t values ('old')");
        let reader = old.reader().unwrap();
        drop(old);
        assert_eq!(text(&reader, "select v from t").unwrap(), "old");
    }

    #[test]
    fn a_reader_only_reads() {
        let store = store("create table t(v); insert into t values ('1.2.3.4')");
        let reader = store.reader().unwrap();
        for sql in [
            "insert into t values (1)",
            "delete from t",
            "create table u(v)",
            "create temp table u(v)",
            "drop table t",
            "attach ':memory:' as other",
            "commit",
            "rollback",
            "savepoint s",
            "pragma query_only = 0",
            "pragma journal_mode",
            "vacuum",
        ] {
            assert!(reader.execute_batch(sql).is_err(), "{sql}");
        }
        for sql in [
            "select fts3_tokenizer('simple')",
            "select FTS3_Tokenizer('simple', x'00')",
        ] {
            let error = reader.prepare(sql).map(drop).unwrap_err().to_string();
            assert!(error.contains("not authorized"), "{sql}: {error}");
        }
        let seen = text(
            &reader,
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 3)
             select max(i) || ':' || ip4_int(v) || ':' || (select name from pragma_table_info('t'))
             from n, t",
        );
        assert_eq!(seen.unwrap(), "3:16909060:v");
    }

    #[test]
    fn sqlite_files_are_copied_in_both_journal_modes() {
        let folder = tempfile::tempdir().unwrap();
        for mode in ["delete", "wal"] {
            let path = folder.path().join(mode);
            let file = Connection::open(&path).unwrap();
            file.execute_batch(&format!(
                "pragma journal_mode={mode}; create table t(v text); insert into t values ('{mode}')"
            ))
            .unwrap();
            let store = Store::copy_of_sqlite_file(&path).unwrap();
            file.execute_batch("delete from t").unwrap();
            let reader = store.reader().unwrap();
            assert_eq!(text(&reader, "select v from t").unwrap(), mode);
        }
        let missing = Store::copy_of_sqlite_file(&folder.path().join("missing"));
        assert_eq!(missing.err().unwrap().kind(), crate::ErrorKind::Environment);
    }
}
