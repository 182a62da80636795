//! `[lookups.NAME]`: the lookups that are served, and their parameters.

use std::time::Duration;

use lookaside_knowledge::{Config, Contract};

use super::param_type::ParamType;
use super::reader::{Section, TextOrSection};
use crate::failure::Failure;
use crate::suggestion::did_you_mean;

/// The section's name.
pub(crate) const LOOKUPS: &str = "lookups";

/// A name is part of URLs, metrics and logs.
const NAME_LENGTH_MAX: usize = 64;

/// A day; answers that are valid for longer belong in a table.
const TTL_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// How many rows one answer may have by default: enough for a page of anything, and a few megabytes
/// at most.
const ROWS_MAX: u64 = 10_000;

/// The upper bound of `rows_max`: an answer is one contiguous buffer.
const ROWS_MAX_MAX: u64 = 10_000_000;

/// A feed that is further behind does not spare the database a query.
const WAIT_MS_MAX: u64 = 60_000;

const KEYS: [&str; 11] = [
    "sql",
    "params",
    "provider",
    "ttl_ms",
    "fresh",
    "on_behind",
    "wait_ms",
    "many",
    "rows_max",
    "description",
    "example",
];

/// What happens if the change feed is behind: there is a cached answer, and it does not include what is
/// required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnBehind {
    /// The database is queried.
    #[default]
    Ask,
    /// The request fails, so that a broken feed does not send its load to the database.
    Refuse,
    /// The cached answer is sent, and marked.
    Serve,
}

/// One lookup as the file declares it; nothing is prepared yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LookupConfig {
    pub(crate) name: String,
    pub(crate) sql: String,
    /// The parameters that the file declares, in its order.
    pub(crate) params: Vec<DeclaredParam>,
    /// The provider that must answer; a statement that is routed to another one is refused.
    pub(crate) provider: Option<String>,
    /// How old an answer may be; `None` uses the value of `[cache]`.
    pub(crate) ttl: Option<Duration>,
    /// Which changes of the provider's rows an answer has to include.
    pub(crate) contract: Contract,
    pub(crate) on_behind: OnBehind,
    /// How long a position is waited for that the change feed has not reached.
    pub(crate) wait: Duration,
    /// Whether the answer is all rows or only the first one.
    pub(crate) many: bool,
    /// How many rows an answer may have.
    pub(crate) rows_max: usize,
    pub(crate) description: Option<String>,
    /// Parameters for which there is an answer, as text of a URL.
    pub(crate) example: Vec<(String, String)>,
    /// Its position in the file: `knowdb.toml:12`.
    pub(crate) place: String,
}

/// A parameter as the file declares it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeclaredParam {
    pub(crate) name: String,
    pub(crate) kind: ParamType,
    pub(crate) is_nullable: bool,
}

/// Reads the section; a file without it has no lookups.
pub(crate) fn read_lookups(config: &Config) -> Result<Vec<LookupConfig>, Failure> {
    let Some(all) = Section::top(config, LOOKUPS) else {
        return Ok(Vec::new());
    };
    let mut lookups = Vec::new();
    for name in all.keys() {
        let wanted = "must be a table, written [lookups.NAME] with sql = \"…\"";
        let section = all.section(name).ok().flatten();
        let section = section.ok_or_else(|| all.bad(name, wanted))?;
        lookups.push(read_lookup(config, &all, name, &section)?);
    }
    Ok(lookups)
}

fn read_lookup(
    config: &Config,
    all: &Section<'_>,
    name: &str,
    section: &Section<'_>,
) -> Result<LookupConfig, Failure> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || name.len() > NAME_LENGTH_MAX || !name.bytes().all(is_plain) {
        let problem = format!(
            "is not a name for a lookup; write letters, digits, _ and -, {NAME_LENGTH_MAX} at most"
        );
        return Err(all.bad(name, &problem));
    }
    section.only(&KEYS)?;
    let sql = section.needed_string("sql", "sql = \"select … where … = :key\"")?;
    let many = section.bool("many")?.unwrap_or(false);
    let rows_max = section.number("rows_max", 1, ROWS_MAX_MAX)?;
    if rows_max.is_some() && !many {
        let problem = "requires many = true; this lookup returns only the first row";
        return Err(section.bad("rows_max", problem));
    }
    let ttl = section.millis("ttl_ms", 0, TTL_MS_MAX)?;
    if let Some(ttl) = ttl.filter(|ttl| *ttl > config.cache.ttl && config.cache.enabled) {
        let problem = format!(
            "is {} ms, but no answer is kept longer than cache.ttl_ms ({}); increase cache.ttl_ms, \
             and set a shorter ttl_ms for the other lookups",
            ttl.as_millis(),
            config.cache.ttl.as_millis()
        );
        return Err(section.bad("ttl_ms", &problem));
    }
    let line = config
        .section_line(&format!("{LOOKUPS}.{name}"))
        .unwrap_or(1);
    Ok(LookupConfig {
        name: name.to_owned(),
        sql: sql.to_owned(),
        params: read_params(section)?,
        provider: section.string("provider")?.map(str::to_owned),
        ttl,
        contract: section.contract("fresh")?.unwrap_or_default(),
        on_behind: read_on_behind(section)?,
        wait: section
            .millis("wait_ms", 0, WAIT_MS_MAX)?
            .unwrap_or_default(),
        many,
        // Bounded by `ROWS_MAX_MAX`; pointers have at least 32 bits wherever epoll exists.
        rows_max: rows_max.unwrap_or(ROWS_MAX) as usize,
        description: section.string("description")?.map(str::to_owned),
        example: match section.section("example")? {
            Some(example) => example.texts()?,
            None => Vec::new(),
        },
        place: format!("{}:{line}", config.file.display()),
    })
}

fn read_on_behind(section: &Section<'_>) -> Result<OnBehind, Failure> {
    let key = "on_behind";
    match section.string(key)? {
        None => Ok(OnBehind::default()),
        Some("ask") => Ok(OnBehind::Ask),
        Some("refuse") => Ok(OnBehind::Refuse),
        Some("serve") => Ok(OnBehind::Serve),
        Some(text) => {
            let problem = format!("is {text:?}, but must be \"ask\", \"refuse\" or \"serve\"");
            Err(section.bad(key, &problem))
        }
    }
}

fn read_params(lookup: &Section<'_>) -> Result<Vec<DeclaredParam>, Failure> {
    let Some(section) = lookup.section("params")? else {
        return Ok(Vec::new());
    };
    let mut params = Vec::new();
    for name in section.keys() {
        const WANTED: &str = "a type, or written { type = \"int\", nullable = true }";
        let (kind, is_nullable) = match section.text_or_section(name, WANTED)? {
            TextOrSection::Text(word) => (param_type(&section, name, word)?, false),
            TextOrSection::Section(own) => {
                own.only(&["type", "nullable"])?;
                let word = own.needed_string("type", "type = \"int\"")?;
                (
                    param_type(&own, "type", word)?,
                    own.bool("nullable")?.unwrap_or(false),
                )
            }
        };
        params.push(DeclaredParam {
            name: name.to_owned(),
            kind,
            is_nullable,
        });
    }
    Ok(params)
}

fn param_type(section: &Section<'_>, key: &str, word: &str) -> Result<ParamType, Failure> {
    ParamType::from_name(word).ok_or_else(|| {
        let names = ParamType::ALL.map(ParamType::name);
        let hint = did_you_mean(word, names);
        let problem = format!("has the unknown type {word:?}{hint}");
        let help = format!("the types are {}", names.join(", "));
        section.bad(key, &problem).with_help(help)
    })
}
