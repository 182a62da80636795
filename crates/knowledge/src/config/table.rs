//! The entries of `[[tables]]` and how their files are read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::reader::Section;
use super::{
    ColumnPath, Columns, CsvConfig, DATA_FILE, ExpectedRows, NETWORK_BOUNDS, TableConfig,
    TableFormat, URL_SCHEMES,
};
use crate::Result;
use crate::download::{self, UrlFile};
use crate::file_pattern::FilePattern;

/// The size limit of the name of a copy in bytes; file systems allow 255, and it gets suffixes.
const COPY_NAME_SIZE_MAX: usize = 150;

pub(super) fn read_tables(
    root: &Section<'_>,
    base: &Path,
    csv: CsvConfig,
) -> Result<Vec<TableConfig>> {
    let mut tables: Vec<TableConfig> = Vec::new();
    for section in root.sections("tables")? {
        let table = read_table(&section, base, csv)?;
        // SQLite's table names are case-insensitive.
        let same = |other: &&TableConfig| {
            other.enabled && table.enabled && other.name.eq_ignore_ascii_case(&table.name)
        };
        if let Some(first) = tables.iter().find(same) {
            let problem = format!(
                "{:?} is already the name of the table in line {}; rename or disable one of them",
                table.name, first.line
            );
            return Err(section.bad("name", &problem));
        }
        tables.push(table);
    }
    Ok(tables)
}

fn read_table(section: &Section<'_>, base: &Path, csv: CsvConfig) -> Result<TableConfig> {
    section.only(&[
        "name",
        "dir",
        "data_file",
        "mmdb",
        "sqlite",
        "sqlite_table",
        "http",
        "csv",
        "columns",
        "expected_rows",
        "enabled",
        "refresh_ms",
    ])?;
    let name = section
        .str("name")?
        .ok_or_else(|| section.bad("name", "is missing; write name = \"…\""))?;
    // The name is inserted into SQL unchanged, between the user's quotes or without any.
    let breaks_sql = |c: char| c.is_control() || "\"'`[];".contains(c);
    if name.trim().is_empty() || name.contains(breaks_sql) {
        return Err(section.bad("name", &format!("{name:?} cannot be a table's name")));
    }
    let folder = base.join(section.str("dir")?.unwrap_or(name));
    let rows = read_data_file(section, name, &folder)?;
    let format = rows.format;
    let sqlite_table = section.str("sqlite_table")?;
    if sqlite_table.is_some() && format != TableFormat::Sqlite {
        return Err(section.bad(
            "sqlite_table",
            "applies to rows of a SQLite database; add sqlite = \"…\"",
        ));
    }
    let refresh = match section.u64("refresh_ms")? {
        Some(0) => return Err(section.bad("refresh_ms", "must be at least 1")),
        other => other.map(Duration::from_millis),
    };
    let own_csv = match section.section("csv")? {
        Some(_) if format != TableFormat::Csv => {
            return Err(section.bad("csv", "does not apply, as the rows are not CSV; remove it"));
        }
        Some(own) => Some(read_csv(Some(own), csv)?),
        None => None,
    };
    Ok(TableConfig {
        name: name.to_owned(),
        folder,
        data_file: rows.file,
        url: rows.url,
        pattern: rows.pattern,
        format,
        sqlite_table: sqlite_table.unwrap_or(name).to_owned(),
        csv: own_csv,
        columns: read_columns(section.section("columns")?, format, own_csv.unwrap_or(csv))?,
        expected_rows: read_expected_rows(section.section("expected_rows")?)?,
        enabled: section.bool("enabled")?.unwrap_or(true),
        refresh,
        line: section.line(),
    })
}

/// Where the rows of a table are.
struct RowsConfig {
    file: PathBuf,
    url: Option<UrlFile>,
    pattern: Option<FilePattern>,
    format: TableFormat,
}

fn read_data_file(section: &Section<'_>, table: &str, folder: &Path) -> Result<RowsConfig> {
    let mut found = ("data_file", DATA_FILE, None);
    let keys = [
        ("data_file", None),
        ("mmdb", Some(TableFormat::Mmdb)),
        ("sqlite", Some(TableFormat::Sqlite)),
    ];
    let mut set_key = None;
    for (key, format) in keys {
        let Some(name) = section.str(key)? else {
            continue;
        };
        if let Some(other) = set_key.replace(key) {
            let problem = format!("is set together with {other}; keep one of them");
            return Err(section.bad(key, &problem));
        }
        found = (key, name, format);
    }
    let (key, name, database) = found;
    let http = section.section("http")?;
    let url = match is_url(name) {
        true => Some(read_url(section, key, name, http, folder, table)?),
        false if http.is_some() => {
            let problem = format!("applies to a {key} that begins with https:// or http://");
            return Err(section.bad("http", &problem));
        }
        false => None,
    };
    let file = match &url {
        Some(url) => url.shown().to_owned(),
        None => folder.join(name),
    };
    // A question mark of another URL begins its query.
    let pattern = match database.is_some() || name.contains("://") {
        true => Ok(None),
        false => FilePattern::of(folder, name).transpose(),
    };
    Ok(RowsConfig {
        format: database.unwrap_or_else(|| TableFormat::of(&file)),
        url,
        pattern: pattern.map_err(|problem| section.bad(key, problem.message()))?,
        file,
    })
}

fn is_url(name: &str) -> bool {
    let begins = |scheme: &str| {
        let begin = name.get(..scheme.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
    };
    URL_SCHEMES.iter().any(|scheme| begins(scheme))
}

fn read_url(
    section: &Section<'_>,
    key: &str,
    url: &str,
    http: Option<Section<'_>>,
    folder: &Path,
    table: &str,
) -> Result<UrlFile> {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() || url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(section.bad(key, "is not an address such as \"https://host/geo.csv\""));
    }
    // It would be shown in messages.
    if host.contains('@') {
        let problem = "has a user in its address; write http.headers = { Authorization = \"…\" }";
        return Err(section.bad(key, problem));
    }
    let mut file = UrlFile {
        url: url.to_owned(),
        headers: Vec::new(),
        size_max: download::SIZE_MAX,
        timeout: download::TIMEOUT,
        copy: PathBuf::new(),
    };
    let name = file.shown().file_name().unwrap_or_default();
    let name = format!(".download-{table}-{}", name.to_string_lossy());
    let is_safe = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let name: String = name
        .chars()
        .map(|c| if is_safe(c) { c } else { '_' })
        .collect();
    // The end has the suffix.
    let cut = name.len().saturating_sub(COPY_NAME_SIZE_MAX);
    file.copy = folder.join(format!(".{}", &name[cut..].trim_start_matches('.')));
    let Some(http) = http else {
        return Ok(file);
    };
    http.only(&["headers", "size_max", "timeout_ms"])?;
    if let Some(headers) = http.section("headers")? {
        for name in headers.keys() {
            let value = headers.str(name)?.unwrap_or_default();
            let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            if name.is_empty() || !name.chars().all(is_token) {
                return Err(headers.bad(name, "is not the name of a header"));
            }
            // The value is not shown, as it may be secret.
            if value.is_empty() || value.contains(|c: char| c.is_control() || !c.is_ascii()) {
                let problem = "must be a text of ASCII characters in one line";
                return Err(headers.bad(name, problem));
            }
            file.headers.push((name.to_owned(), value.to_owned()));
        }
    }
    file.size_max = match http.u64("size_max")? {
        Some(0) => return Err(http.bad("size_max", "must be at least 1")),
        size => size.unwrap_or(file.size_max),
    };
    file.timeout = match http.u64("timeout_ms")? {
        Some(0) => return Err(http.bad("timeout_ms", "must be at least 1")),
        ms => ms.map_or(file.timeout, Duration::from_millis),
    };
    Ok(file)
}

impl TableFormat {
    /// The format of a data file or pattern, by its name without the suffix of a compression.
    pub(crate) fn of(file: &Path) -> Self {
        let suffix_of = |file: &Path| {
            let suffix = file.extension()?.to_str()?.to_ascii_lowercase();
            Some(suffix.trim_end_matches(['*', '?']).to_owned())
        };
        let suffix = match suffix_of(file).as_deref() {
            Some("gz" | "zst" | "") => file.file_stem().and_then(|stem| suffix_of(stem.as_ref())),
            _ => suffix_of(file),
        };
        match suffix.as_deref() {
            Some("jsonl" | "ndjson") => Self::JsonLines,
            Some("parquet") => Self::Parquet,
            Some("arrow" | "arrows" | "feather" | "ipc") => Self::Arrow,
            _ => Self::Csv,
        }
    }

    /// The format in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Csv => "CSV",
            Self::JsonLines => "JSON lines",
            Self::Mmdb => "a MaxMind database",
            Self::Parquet => "Parquet",
            Self::Arrow => "Arrow",
            Self::Sqlite => "a SQLite database",
        }
    }
}

fn read_columns(
    section: Option<Section<'_>>,
    format: TableFormat,
    csv: CsvConfig,
) -> Result<Columns> {
    let Some(section) = section else {
        return Ok(Columns::All);
    };
    section.only(&["by_header", "by_index", "by_path"])?;
    let ways = ["by_header", "by_index", "by_path"].map(|way| (way, section.has(way)));
    let applies = |way: &str| match format {
        TableFormat::Csv => way != "by_path",
        TableFormat::JsonLines | TableFormat::Parquet | TableFormat::Arrow => way != "by_index",
        TableFormat::Mmdb => way == "by_path",
        TableFormat::Sqlite => way == "by_header",
    };
    if let Some((way, _)) = ways.iter().find(|(way, is_set)| *is_set && !applies(way)) {
        let instead = match format {
            TableFormat::Csv => "by_header or by_index",
            TableFormat::JsonLines | TableFormat::Parquet | TableFormat::Arrow => {
                "by_header or by_path"
            }
            TableFormat::Mmdb => "by_path",
            TableFormat::Sqlite => "by_header",
        };
        let problem = format!("does not apply to {}; use {instead}", format.name());
        return Err(section.bad(way, &problem));
    }
    if section.has("by_header") && section.has("by_path") {
        let problem = "is set together with by_header; keep one of them";
        return Err(section.bad("by_path", problem));
    }
    if let Some(paths) = section.section("by_path")? {
        let taken: &[&str] = match format {
            TableFormat::Mmdb => &NETWORK_BOUNDS,
            _ => &[],
        };
        return read_paths(&paths, taken).map(Columns::ByPath);
    }
    let by_header = section.strs("by_header")?;
    if !matches!(format, TableFormat::Csv | TableFormat::Sqlite)
        && let Some(name) = by_header.iter().find(|it| it.split('.').any(str::is_empty))
    {
        let problem = format!(
            "has {name:?}, which is not a path of keys such as \"owner.name\"; use by_path for a key \
             with a dot or without a name"
        );
        return Err(section.bad("by_header", &problem));
    }
    let by_index = section.usizes("by_index")?;
    let is_csv = format == TableFormat::Csv;
    if !by_header.is_empty() && is_csv && !csv.has_header {
        let problem = "needs a header, and csv.has_header is false; use by_index";
        return Err(section.bad("by_header", problem));
    }
    match (by_header.is_empty(), by_index.is_empty()) {
        (false, true) => {
            let trim = |name: &str| match csv.trim && is_csv {
                true => name.trim_ascii().to_owned(),
                false => name.to_owned(),
            };
            Ok(Columns::ByHeader(by_header.into_iter().map(trim).collect()))
        }
        (true, false) => Ok(Columns::ByIndex(by_index)),
        (false, false) => Err(section.bad(
            "by_index",
            "is set together with by_header; keep one of them",
        )),
        (true, true) if is_csv => Err(section.bad(
            "by_header",
            "and columns.by_index are both empty; omit columns to use all of them",
        )),
        (true, true) => {
            let problem = "is empty; omit columns to use all keys";
            Err(section.bad("by_header", problem))
        }
    }
}

/// Columns by path: `country = "country.iso_code"`, or a list of its parts where a key has a dot.
/// The names `taken` are those of other columns.
fn read_paths(section: &Section<'_>, taken: &[&str]) -> Result<Vec<ColumnPath>> {
    let mut columns: Vec<ColumnPath> = Vec::new();
    for name in section.keys() {
        let path: Vec<String> = match section.is_list(name) {
            true => section.strs(name)?.into_iter().map(str::to_owned).collect(),
            false => {
                let path = section.str(name)?.unwrap_or_default();
                path.split('.').map(str::to_owned).collect()
            }
        };
        if path.is_empty() || path.iter().any(String::is_empty) {
            let problem = "must be a path such as \"country.iso_code\", or a list of its parts";
            return Err(section.bad(name, problem));
        }
        // SQLite's column names are case-insensitive.
        let others = columns.iter().map(|column| column.name.as_str());
        let mut others = others.chain(taken.iter().copied());
        if name.is_empty() || others.any(|other| other.eq_ignore_ascii_case(name)) {
            return Err(section.bad(name, "must be a name that no other column has"));
        }
        columns.push(ColumnPath {
            name: name.to_owned(),
            path,
        });
    }
    Ok(columns)
}

fn read_expected_rows(section: Option<Section<'_>>) -> Result<ExpectedRows> {
    let Some(section) = section else {
        return Ok(ExpectedRows::default());
    };
    section.only(&["min", "max"])?;
    let (min, max) = (section.u64("min")?, section.u64("max")?);
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        return Err(section.bad("min", &format!("is {min}, above max, which is {max}")));
    }
    Ok(ExpectedRows { min, max })
}

/// `default` has the values for keys that the section does not have.
pub(super) fn read_csv(section: Option<Section<'_>>, default: CsvConfig) -> Result<CsvConfig> {
    let Some(section) = section else {
        return Ok(default);
    };
    section.only(&["has_header", "delimiter", "encoding", "trim"])?;
    let delimiter = match section.str("delimiter")?.map(str::as_bytes) {
        None => default.delimiter,
        Some([b'"' | b'\r' | b'\n']) => {
            return Err(section.bad("delimiter", "must not be a quote or a line break"));
        }
        Some([byte]) if byte.is_ascii() => *byte,
        Some(_) => {
            let problem = "must be one ASCII character, such as \",\", \";\", \"|\" or \"\\t\"";
            return Err(section.bad("delimiter", problem));
        }
    };
    let encoding = match section.str("encoding")? {
        None => default.encoding,
        Some(label) => encoding_rs::Encoding::for_label_no_replacement(label.as_bytes())
            .ok_or_else(|| {
                let problem = format!(
                    "{label:?} is unknown; use a label of the WHATWG encoding standard, such as \
                     \"utf-8\", \"windows-1252\", \"gbk\" or \"utf-16le\""
                );
                section.bad("encoding", &problem)
            })?,
    };
    Ok(CsvConfig {
        has_header: section.bool("has_header")?.unwrap_or(default.has_header),
        delimiter,
        encoding,
        trim: section.bool("trim")?.unwrap_or(default.trim),
    })
}
