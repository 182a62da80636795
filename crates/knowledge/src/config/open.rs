//! From the file's bytes to a [`Config`]: read, expand, parse, then section by section.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use toml::de::DeTable;

use super::expand::expand;
use super::first_of::read_first_of;
use super::provider::read_providers;
use super::reader::{Section, Source};
use super::table::{read_csv, read_tables};
use super::{
    CONFIG_FILE, CacheConfig, Config, ConfigOptions, CsvConfig, DATA_FILE, IntranetMode,
    IntranetNets, LoadConfig, LocalConfig, OnError, SqliteCopy, folder_of,
};
use crate::Result;
use crate::compiled::FOLDER;
use crate::error::Error;

/// The size limit of a configuration file in bytes; a larger file is certainly the wrong one.
const CONFIG_SIZE_MAX: u64 = 16 << 20;

/// The most folders that the message about a missing file names.
const FOLDER_HINT_COUNT_MAX: usize = 3;

/// The sections of the format, without those of the caller.
const SECTIONS: [&str; 10] = [
    "version",
    "base_dir",
    "default",
    "csv",
    "cache",
    "local",
    "tables",
    "first_of",
    "provider",
    "intranet_nets",
];

/// The parser's message for a key that occurs twice in one table.
const DUPLICATE: &str = "duplicate key";

pub(super) fn open(path: &Path, options: &ConfigOptions<'_>) -> Result<Config> {
    let file = config_file(path)?;
    let text = read(&file)?;
    let variable = |name: &str| {
        let own = options.variables.and_then(|variables| {
            let named = |(key, _): &(&String, &String)| key.eq_ignore_ascii_case(name);
            variables.iter().find(named).map(|(_, value)| value.clone())
        });
        own.or_else(|| std::env::var(name).ok())
    };
    let text = expand(&text, &variable)
        .map_err(|error| Error::config(&file, error.line, &error.message))?;
    let source = Source {
        file: &file,
        text: &text,
    };
    let document = DeTable::parse(&text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        let mut message = error.message().lines().collect::<Vec<&str>>().join("; ");
        // The parser gives the position of the key, but not its name.
        if let Some(key) = text.get(span.clone()).filter(|_| message == DUPLICATE) {
            message = format!("{message} {:?}", key.trim_matches(['"', '\'']));
        }
        source.error(span.start, message)
    })?;
    read_document(
        Section::root(source, document.get_ref()),
        &file,
        &text,
        options,
    )
}

/// The file that `path` refers to; if there is none, an error with a hint how to write one.
fn config_file(path: &Path) -> Result<PathBuf> {
    let meta = fs::metadata(path).map_err(|source| Error::file(path, source))?;
    if !meta.is_dir() {
        let is_toml = path
            .extension()
            .is_some_and(|extension| extension == "toml");
        return if is_toml {
            Ok(path.to_owned())
        } else {
            Err(Error::no_config(path, folder_of(path), &[]))
        };
    }
    let file = path.join(CONFIG_FILE);
    if file.exists() {
        return Ok(file);
    }
    let mut tables: Vec<String> = fs::read_dir(path)
        .map_err(|source| Error::file(path, source))?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let holds_data = entry.path().join(DATA_FILE).exists();
            holds_data.then(|| entry.file_name().to_string_lossy().into_owned())
        })
        .collect();
    tables.sort();
    tables.truncate(FOLDER_HINT_COUNT_MAX);
    Err(Error::no_config(path, path, &tables))
}

fn read(file: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    fs::File::open(file)
        .and_then(|open| open.take(CONFIG_SIZE_MAX + 1).read_to_end(&mut bytes))
        .map_err(|source| Error::file(file, source))?;
    if bytes.len() as u64 > CONFIG_SIZE_MAX {
        return Err(Error::config(
            file,
            1,
            &format!("is larger than {CONFIG_SIZE_MAX} bytes, the limit for a configuration"),
        ));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
        Error::config(file, line, "not UTF-8; save the file in this encoding")
    })?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(text) => text.to_owned(),
        None => text,
    })
}

fn read_document(
    root: Section<'_>,
    file: &Path,
    text: &str,
    options: &ConfigOptions<'_>,
) -> Result<Config> {
    refuse_unsupported(&root)?;
    let mut known = SECTIONS.to_vec();
    known.extend(options.foreign_sections);
    root.only(&known)?;
    match root.u64("version")? {
        Some(2) => {}
        Some(other) => {
            return Err(root.bad("version", &format!("must be 2, not {other}")));
        }
        None => return Err(root.bad("version", "is missing; write version = 2")),
    }
    let base = folder_of(file).join(root.str("base_dir")?.unwrap_or("."));
    // Without the `.` of the default path, which every message would show.
    let base: PathBuf = base.components().collect();
    let csv = read_csv(root.section("csv")?, CsvConfig::default())?;
    let tables = read_tables(&root, &base, csv)?;
    let mut config = Config {
        file: file.to_owned(),
        load: read_load(root.section("default")?)?,
        compiled: read_compiled(root.section("default")?, folder_of(file))?,
        csv,
        cache: read_cache(root.section("cache")?)?,
        local: read_local(root.section("local")?)?,
        first_of: read_first_of(&root, &tables)?,
        tables,
        providers: read_providers(&root)?,
        base,
        intranet_nets: read_intranet(root.section("intranet_nets")?)?,
        sections: BTreeMap::new(),
        section_lines: BTreeMap::new(),
    };
    if options.foreign_sections.iter().any(|name| root.has(name)) {
        let mut all: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let at = error.span().unwrap_or_default().start;
            let line = 1 + text[..at].matches('\n').count();
            // The document was parsed successfully before, so only an integer may be too large.
            match error.message().starts_with("invalid type: integer") {
                true => {
                    let (min, max) = (i64::MIN, i64::MAX);
                    Error::config(file, line, &format!("integers are from {min} to {max}"))
                }
                false => Error::config(file, line, error.message()),
            }
        })?;
        for &name in options.foreign_sections {
            let Some(section) = root.section(name)? else {
                continue;
            };
            section.collect_lines(&mut config.section_lines);
            if let Some(toml::Value::Table(table)) = all.remove(name) {
                config.sections.insert(name.to_owned(), table);
            }
        }
    }
    Ok(config)
}

/// Refuses sections of the format that are not supported; ignoring them would give wrong answers.
fn refuse_unsupported(root: &Section<'_>) -> Result<()> {
    if root.has("fun") {
        return Err(root.bad(
            "fun",
            "is not supported; remove [fun], and look the values up in a table",
        ));
    }
    Ok(())
}

fn read_load(section: Option<Section<'_>>) -> Result<LoadConfig> {
    let default = LoadConfig::default();
    let Some(section) = section else {
        return Ok(default);
    };
    section.only(&["transaction", "batch_size", "on_error", "compiled"])?;
    let words = [("fail", OnError::Fail), ("skip", OnError::Skip)];
    Ok(LoadConfig {
        transaction: section.bool("transaction")?.unwrap_or(default.transaction),
        batch_size: section
            .u64("batch_size")?
            .unwrap_or(default.batch_size)
            .max(1),
        on_error: section
            .word("on_error", &words)?
            .unwrap_or(default.on_error),
    })
}

/// The folder of the compiled forms of tables, if they are not switched off.
fn read_compiled(section: Option<Section<'_>>, folder: &Path) -> Result<Option<PathBuf>> {
    const KEY: &str = "compiled";
    const PROBLEM: &str =
        "must be true or false, without quotes, or the path of a folder in quotes";
    let Some(section) = section else {
        return Ok(Some(folder.join(FOLDER)));
    };
    Ok(match section.bool(KEY) {
        Ok(None | Some(true)) => Some(folder.join(FOLDER)),
        Ok(Some(false)) => None,
        Err(_) => match section.str(KEY) {
            Ok(Some(path)) if !["", "true", "false"].contains(&path) => Some(folder.join(path)),
            _ => return Err(section.bad(KEY, PROBLEM)),
        },
    })
}

fn read_cache(section: Option<Section<'_>>) -> Result<CacheConfig> {
    let default = CacheConfig::default();
    let Some(section) = section else {
        return Ok(default);
    };
    section.only(&["enabled", "capacity", "capacity_bytes", "ttl_ms"])?;
    let capacity = match section.u64("capacity")? {
        None => default.capacity,
        Some(capacity) => usize::try_from(capacity)
            .map_err(|_| section.bad("capacity", "is larger than the address space"))?
            .max(1),
    };
    let ttl_ms = section.u64("ttl_ms")?;
    let capacity_bytes = section.u64("capacity_bytes")?;
    Ok(CacheConfig {
        enabled: section.bool("enabled")?.unwrap_or(default.enabled),
        capacity,
        capacity_bytes: capacity_bytes.unwrap_or(default.capacity_bytes).max(1),
        ttl: ttl_ms.map_or(default.ttl, |ms| Duration::from_millis(ms.max(1))),
    })
}

fn read_local(section: Option<Section<'_>>) -> Result<LocalConfig> {
    let default = LocalConfig::default();
    let Some(section) = section else {
        return Ok(default);
    };
    section.only(&[
        "pattern_memory_max",
        "query_timeout_ms",
        "sqlite_copy",
        "table_memory_max",
    ])?;
    let copies = [
        ("start", SqliteCopy::Start),
        ("lazy", SqliteCopy::Lazy),
        ("never", SqliteCopy::Never),
    ];
    let pattern_memory_max = section.u64("pattern_memory_max")?;
    Ok(LocalConfig {
        pattern_memory_max: pattern_memory_max.map_or(default.pattern_memory_max, |size| {
            usize::try_from(size).unwrap_or(usize::MAX)
        }),
        table_memory_max: section.u64("table_memory_max")?.filter(|size| *size > 0),
        sqlite_copy: section
            .word("sqlite_copy", &copies)?
            .unwrap_or(default.sqlite_copy),
        query_timeout: match section.u64("query_timeout_ms")? {
            None => default.query_timeout,
            Some(0) => None,
            Some(ms) => Some(Duration::from_millis(ms)),
        },
    })
}

fn read_intranet(section: Option<Section<'_>>) -> Result<Option<IntranetNets>> {
    let Some(section) = section else {
        return Ok(None);
    };
    section.only(&["enabled", "enable", "mode", "nets"])?;
    if section.has("enabled") && section.has("enable") {
        let problem = "is set together with enabled, which has the same meaning; keep one of them";
        return Err(section.bad("enable", problem));
    }
    let enabled = section.bool("enabled")?.or(section.bool("enable")?);
    let words = [
        ("add", IntranetMode::Add),
        ("replace", IntranetMode::Replace),
    ];
    let mode = section.word("mode", &words)?.unwrap_or(IntranetMode::Add);
    let mut nets = Vec::new();
    for net in section.strs("nets")? {
        let problem = || format!("contains {net:?}, which is not a network; write \"10.0.0.0/8\"");
        let net: IpNet = net.parse().map_err(|_| section.bad("nets", &problem()))?;
        nets.push(net.trunc());
    }
    Ok(enabled
        .unwrap_or(true)
        .then_some(IntranetNets { mode, nets }))
}
