//! `knowdb.toml`: the tables, where their data is and how it is read.
//!
//! [`Config::open`] reads the whole file or returns what is wrong with it: file, line, key and a
//! hint. Nothing is ignored, so a misspelled key never falls back to a default.

mod expand;
mod feed;
mod first_of;
mod open;
mod provider;
mod reader;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;

pub use self::feed::FeedConfig;
pub use self::first_of::FirstOfConfig;
pub(crate) use self::provider::{DEFAULT_NAME, LOCAL_NAME};
pub use self::provider::{PostgresSession, ProviderConfig, ProviderKind, ProviderServer};
use crate::Result;
use crate::download::UrlFile;
use crate::file_pattern::FilePattern;
use crate::file_stamp::Watched;

/// The SQL file that creates a table in PostgreSQL.
pub(crate) const CREATE_FILE: &str = "create.postgres.sql";

/// The name of the configuration file, which a path may omit.
pub const CONFIG_FILE: &str = "knowdb.toml";

/// The default data file of a table.
const DATA_FILE: &str = "data.csv";

/// The path by which a column of a MaxMind database gets its network as text; no key of a record
/// begins with an at sign.
pub(crate) const NETWORK_PATH: &str = "@network";

/// How the address of a data file begins.
pub(crate) const URL_SCHEMES: [&str; 2] = ["http://", "https://"];

/// The columns of a MaxMind database with the first and the last address of a network.
pub(crate) const NETWORK_BOUNDS: [&str; 2] = ["first", "last"];

/// The default limit of a query: longer than any lookup, and shorter than a client waits.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);

/// The top-level sections of Lookaside's programs. They share one project folder with the engine,
/// which ignores these sections; [`Config::open`] takes its list as an argument.
pub(crate) const PRODUCT_SECTIONS: [&str; 3] = ["enrich", "server", "lookups"];

/// A complete configuration; see `docs/KNOWDB.md` for the keys.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The file that was read.
    pub file: PathBuf,
    /// How rows are inserted.
    pub load: LoadConfig,
    /// The folder of the compiled forms of tables; `None` if tables are not compiled.
    pub compiled: Option<PathBuf>,
    /// How CSV files are read; a table may override it.
    pub csv: CsvConfig,
    /// How answers are cached.
    pub cache: CacheConfig,
    /// How the folder's own tables are queried.
    pub local: LocalConfig,
    /// The tables in the order of the file, including disabled ones.
    pub tables: Vec<TableConfig>,
    /// The names for several tables, of which the first that has a row answers.
    pub first_of: Vec<FirstOfConfig>,
    /// The databases that are queried besides the tables, the default one first.
    pub providers: Vec<ProviderConfig>,
    /// Which addresses are internal, if the file defines it.
    pub intranet_nets: Option<IntranetNets>,
    base: PathBuf,
    sections: BTreeMap<String, toml::Table>,
    section_lines: BTreeMap<String, usize>,
}

/// The section `[default]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadConfig {
    /// Whether inserts are grouped into transactions.
    pub transaction: bool,
    /// The number of rows per transaction, at least 1.
    pub batch_size: u64,
    /// How a row that cannot be loaded is handled.
    pub on_error: OnError,
}

/// How a row that cannot be loaded is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// The load fails, and the current tables stay in use.
    Fail,
    /// The row is left out and reported.
    Skip,
}

/// The section `[csv]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CsvConfig {
    /// Whether the first record names the columns.
    pub has_header: bool,
    /// The byte between fields.
    pub delimiter: u8,
    /// The character encoding.
    pub encoding: &'static encoding_rs::Encoding,
    /// Whether white space around names and fields is trimmed.
    pub trim: bool,
}

/// The section `[cache]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheConfig {
    /// Whether answers are cached.
    pub enabled: bool,
    /// The number of answers, at least 1.
    pub capacity: usize,
    /// The size of all answers in bytes, at least 1.
    pub capacity_bytes: u64,
    /// The lifetime of an answer, at least a millisecond.
    pub ttl: Duration,
}

/// The section `[local]`: the folder's own tables, whose name among the providers is `local`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalConfig {
    /// The time limit of a query that SQLite answers; `None` for no limit.
    pub query_timeout: Option<Duration>,
    /// The limit of the memory of the compiled patterns of a column, in bytes; a larger column has
    /// no native plan.
    pub pattern_memory_max: usize,
    /// The limit of the memory of the rows of all tables that are loaded without SQLite, in bytes; `None`
    /// for no limit.
    pub table_memory_max: Option<u64>,
    /// When SQLite gets a copy of a table that was loaded without it.
    pub sqlite_copy: SqliteCopy,
}

/// When SQLite gets a copy of a table that was loaded without it, for statements that have no native plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqliteCopy {
    /// When the tables are loaded.
    Start,
    /// When a statement that needs it is prepared.
    Lazy,
    /// Never: such statements are refused.
    Never,
}

/// One `[[tables]]` entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableConfig {
    /// The table's name, which replaces `{table}` in its SQL files.
    pub name: String,
    /// The folder of its SQL files.
    pub folder: PathBuf,
    /// The file with its rows; a pattern if several files have them.
    pub data_file: PathBuf,
    /// The address of its file, if it is downloaded; then `data_file` is that address without its
    /// query.
    pub(crate) url: Option<UrlFile>,
    /// The pattern of its files, if there may be several.
    pub(crate) pattern: Option<FilePattern>,
    /// The format of its rows.
    pub format: TableFormat,
    /// The table or view of a SQLite database that has its rows.
    pub sqlite_table: String,
    /// How its data file is read, if it overrides [`Config::csv`].
    pub csv: Option<CsvConfig>,
    /// Which fields of a record are bound, in which order.
    pub columns: Columns,
    /// How many rows it should have.
    pub expected_rows: ExpectedRows,
    /// Whether it is loaded at all.
    pub enabled: bool,
    /// How often it is loaded again.
    pub refresh: Option<Duration>,
    /// The line of the entry in [`Config::file`].
    pub line: usize,
}

/// The format of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableFormat {
    /// Records of fields between delimiters.
    Csv,
    /// A JSON object a line.
    JsonLines,
    /// Networks of a MaxMind database, each with its values.
    Mmdb,
    /// Rows of a Parquet file.
    Parquet,
    /// Rows of an Arrow file or stream.
    Arrow,
    /// Rows of a table of another SQLite database.
    Sqlite,
}

/// Which fields of a record are bound, in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// All fields, in their order.
    All,
    /// The fields with these names in the header; for JSON lines, Parquet and Arrow the values of
    /// these keys, with dots between those of nested objects.
    ByHeader(Vec<String>),
    /// The fields at these positions, counted from 0.
    ByIndex(Vec<usize>),
    /// The values at these paths.
    ByPath(Vec<ColumnPath>),
}

/// A column and where its values are in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnPath {
    /// The name of the column.
    pub name: String,
    /// The keys of maps and the positions in arrays that lead to the value.
    pub path: Vec<String>,
}

/// How many rows a table should have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpectedRows {
    /// Fewer rows are an error.
    pub min: Option<u64>,
    /// More rows are a warning.
    pub max: Option<u64>,
}

/// The section `[intranet_nets]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IntranetNets {
    /// How the networks combine with the built-in ones.
    pub mode: IntranetMode,
    /// Internal networks.
    pub nets: Vec<IpNet>,
}

/// How configured networks combine with the built-in ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntranetMode {
    /// They are internal in addition to the built-in ones.
    Add,
    /// Only they are internal.
    Replace,
}

/// Options of [`Config::open_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ConfigOptions<'a> {
    /// Top-level sections that belong to the caller and are available by [`Config::section`]; any
    /// other unknown section is an error.
    pub foreign_sections: &'a [&'a str],
    /// Variables for `${NAME}`, which take precedence over the process environment; names are
    /// case-insensitive.
    pub variables: Option<&'a HashMap<String, String>>,
}

impl Config {
    /// Reads a `knowdb.toml`, given the path of the file or of its folder.
    ///
    /// # Errors
    /// When the file cannot be read, or with the first thing that is wrong in it.
    pub fn open(path: impl AsRef<Path>, foreign_sections: &[&str]) -> Result<Self> {
        let options = ConfigOptions {
            foreign_sections,
            ..ConfigOptions::default()
        };
        Self::open_with(path, &options)
    }

    /// Reads a `knowdb.toml`, given the path of the file or of its folder.
    ///
    /// # Errors
    /// When the file cannot be read, or with the first thing that is wrong in it.
    pub fn open_with(path: impl AsRef<Path>, options: &ConfigOptions<'_>) -> Result<Self> {
        open::open(path.as_ref(), options)
    }

    /// The folder that paths in the file are relative to.
    pub fn folder(&self) -> &Path {
        folder_of(&self.file)
    }

    /// Whether there is a folder of that name that could be a table, but no entry for it.
    pub(crate) fn is_unlisted_table(&self, name: &str) -> bool {
        let is_listed = |table: &TableConfig| table.name.eq_ignore_ascii_case(name);
        let is_folder_name = !name.is_empty() && !name.contains(['/', '\\', '.']);
        is_folder_name
            && !self.tables.iter().any(is_listed)
            && self.base.join(name).join(DATA_FILE).is_file()
    }

    /// How the data file of a table is read.
    pub fn csv_of<'a>(&'a self, table: &'a TableConfig) -> &'a CsvConfig {
        table.csv.as_ref().unwrap_or(&self.csv)
    }

    /// The tables that are loaded.
    pub fn enabled_tables(&self) -> impl Iterator<Item = &TableConfig> {
        self.tables.iter().filter(|table| table.enabled)
    }

    /// A section that belongs to the caller, if the file has it.
    pub fn section(&self, name: &str) -> Option<&toml::Table> {
        self.sections.get(name)
    }

    /// The line of a caller's section (`enrich`), of a key in it (`enrich.output.path`), or of a
    /// key in an item of a list (`server.keys.0.name`).
    pub fn section_line(&self, path: &str) -> Option<usize> {
        self.section_lines.get(path).copied()
    }

    /// The files whose change requires that tables are loaded again, whether they exist or not.
    pub fn watched_files(&self) -> Vec<PathBuf> {
        let watched = self.watched().into_iter();
        watched.flat_map(Watched::files).collect()
    }

    /// The same, with patterns, so that new files are noticed.
    pub(crate) fn watched(&self) -> Vec<Watched> {
        let mut files = vec![Watched::File(self.file.clone())];
        for table in self.enabled_tables() {
            files.extend(table.watched());
        }
        let is_embedded = |it: &ProviderConfig| it.kind() == ProviderKind::Embedded;
        if self.providers.iter().any(is_embedded) {
            let tables = self.enabled_tables();
            files.extend(tables.map(|table| Watched::File(table.folder.join(CREATE_FILE))));
        }
        files
    }
}

/// The write-ahead log of a SQLite database, which changes before the database does.
pub(crate) fn wal_of(database: &Path) -> PathBuf {
    let mut wal = database.as_os_str().to_owned();
    wal.push("-wal");
    wal.into()
}

impl ColumnPath {
    /// A column whose path is separated by dots.
    pub(crate) fn dotted(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            path: name.split('.').map(str::to_owned).collect(),
        }
    }
}

impl TableConfig {
    /// The files that it is loaded from.
    pub(crate) fn watched(&self) -> Vec<Watched> {
        let sqls = ["create.sql", "clean.sql", "insert.sql"];
        let sqls = sqls.map(|sql| Watched::File(self.folder.join(sql)));
        let mut files = Vec::from(sqls);
        files.push(match (&self.url, &self.pattern) {
            (Some(url), _) => Watched::Url(url.clone()),
            (None, Some(pattern)) => Watched::Pattern(pattern.clone()),
            (None, None) => Watched::File(self.data_file.clone()),
        });
        if self.format == TableFormat::Sqlite && self.url.is_none() {
            files.push(Watched::SqliteLog(wal_of(&self.data_file)));
        }
        files
    }

    /// The path at which one of the files of the table is read: the copy of a file that is downloaded.
    pub(crate) fn readable<'a>(&'a self, file: &'a Path) -> &'a Path {
        self.url.as_ref().map_or(file, UrlFile::copy)
    }
}

impl Default for LoadConfig {
    fn default() -> Self {
        Self {
            transaction: true,
            batch_size: 2000,
            on_error: OnError::Fail,
        }
    }
}

impl Default for CsvConfig {
    fn default() -> Self {
        Self {
            has_header: true,
            delimiter: b',',
            encoding: encoding_rs::UTF_8,
            trim: true,
        }
    }
}

impl Default for LocalConfig {
    fn default() -> Self {
        Self {
            // The same limit as for a query of a provider.
            query_timeout: Some(QUERY_TIMEOUT),
            // Some ten thousand patterns.
            pattern_memory_max: 256 << 20,
            table_memory_max: None,
            sqlite_copy: SqliteCopy::Lazy,
        }
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            capacity: 1024,
            // A few hundred bytes per answer, for a hundred thousand answers.
            capacity_bytes: 64 << 20,
            ttl: Duration::from_secs(30),
        }
    }
}

/// The folder of a file; for a bare file name it is the current folder.
fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}
