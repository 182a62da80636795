//! The input formats by name, with their options.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::tz::TimeZone;
use lookaside_value::NameTable;
use regex::Regex;

use super::access::{self, AccessLine};
use super::csv::{Csv, CsvDecoder};
use super::frame::{Newline, Quoted};
use super::json::JsonLine;
use super::kv::KvLine;
use super::lines::{LineDecoder, ParseLine};
use super::options::OptionReader;
use super::raw::{RAW, RawLine};
use super::regex::RegexLine;
use super::syslog::{self, SyslogLine, YearSource};
use super::typed::{FieldType, FieldTypes, TypedLine};
use super::{Decoder, FormatOptions, Framing, Header};
use crate::{Error, Result};

/// The default of the option `line_size_max`, above which lines are rejected: far above any event,
/// far below the memory of a small machine.
const LINE_SIZE_MAX: usize = 16 << 20;

const LINE_SIZE_OPTION: &str = "line_size_max";

/// How bytes become records: a format's name and its options.
///
/// `docs/FORMATS.md` describes the formats, their fields and their options.
#[derive(Clone, Debug)]
pub struct InputFormat {
    kind: Kind,
    line_size_max: usize,
    /// The prefix of an option in hints of messages.
    advice_prefix: &'static str,
    warning_hook: Option<WarningHook>,
    types: Option<FieldTypes>,
}

/// A callback for a likely mistake in the options; called at most once, also across clones.
#[derive(Clone)]
struct WarningHook {
    callback: Arc<dyn Fn(&str) + Send + Sync>,
    was_called: Arc<AtomicBool>,
}

impl fmt::Debug for WarningHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WarningHook").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
enum Kind {
    Json,
    Csv(Arc<Csv>),
    Kv {
        pair_separator: u8,
        value_separator: u8,
    },
    Access,
    Syslog(YearSource),
    Regex(Regex),
    Raw,
}

impl InputFormat {
    /// The names of the formats.
    pub const NAMES: [&'static str; 7] = ["json", "csv", "kv", "access", "syslog", "regex", "raw"];

    /// Creates the format with this name.
    ///
    /// # Errors
    /// When there is no such format, or an option is unknown to it or has an invalid value.
    pub fn new(name: &str, options: &FormatOptions) -> Result<Self> {
        let Some(format) = Self::NAMES.into_iter().find(|&known| known == name) else {
            return Err(Error::unknown_format("input", name, &Self::NAMES));
        };
        let known: &[&str] = match format {
            "csv" => &["delimiter", "header", "columns", LINE_SIZE_OPTION],
            "kv" => &["pair_separator", "value_separator", LINE_SIZE_OPTION],
            "syslog" => &["year", LINE_SIZE_OPTION],
            "regex" => &["pattern", LINE_SIZE_OPTION],
            _ => &[LINE_SIZE_OPTION],
        };
        let options = options.of(format, known)?;
        let kind = match format {
            "json" => Kind::Json,
            "csv" => Kind::Csv(Arc::new(csv(options)?)),
            "kv" => {
                let (pair_separator, value_separator) = super::kv::separators(options)?;
                Kind::Kv {
                    pair_separator,
                    value_separator,
                }
            }
            "access" => Kind::Access,
            "syslog" => Kind::Syslog(year_source(options)?),
            "regex" => Kind::Regex(pattern(options)?),
            _ => Kind::Raw,
        };
        Ok(Self {
            kind,
            line_size_max: options.parse(LINE_SIZE_OPTION, LINE_SIZE_MAX, "a number of bytes")?,
            advice_prefix: options.prefix(),
            warning_hook: None,
            types: None,
        })
    }

    /// Sets a callback for a likely mistake in the options, for example a CSV header of one column
    /// that contains another delimiter. It is called at most once, also across clones.
    #[must_use]
    pub fn on_warning(mut self, callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.warning_hook = Some(WarningHook {
            callback: Arc::new(callback),
            was_called: Arc::default(),
        });
        self
    }

    /// Sets the types of fields. After a record was decoded, these fields are converted; null and
    /// empty ones are removed, and a record with a value that does not fit is rejected, as is one
    /// without a required field. Times without an offset are in `zone`, unless their type says
    /// another one. Without any type, this costs nothing.
    #[must_use]
    pub fn with_types(mut self, types: Vec<(String, FieldType)>, zone: &TimeZone) -> Self {
        self.types = FieldTypes::new(types, zone);
        self
    }

    /// The format's name.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Json => "json",
            Kind::Csv(_) => "csv",
            Kind::Kv { .. } => "kv",
            Kind::Access => "access",
            Kind::Syslog(_) => "syslog",
            Kind::Regex(_) => "regex",
            Kind::Raw => "raw",
        }
    }

    /// The maximal size of a record; a longer one is rejected, and should be skipped without
    /// buffering it.
    pub fn line_size_max(&self) -> usize {
        self.line_size_max
    }

    /// Whether each source begins with a record that must be passed to [`Self::header`].
    pub fn has_header(&self) -> bool {
        matches!(&self.kind, Kind::Csv(csv) if csv.has_header)
    }

    /// Reads the header from the first record of a source, for the chunks of that source.
    ///
    /// # Errors
    /// When the record cannot be a header, or the format has none.
    pub fn header(&self, record: &[u8]) -> Result<Header> {
        match &self.kind {
            Kind::Csv(csv) => {
                let header = csv.header(record)?;
                if let Some(hook) = &self.warning_hook
                    && let Some((shown, word)) = csv.likely_delimiter(record, &header)
                    // Relaxed: it only decides for which source the callback is called.
                    && !hook.was_called.swap(true, Ordering::Relaxed)
                {
                    let prefix = self.advice_prefix;
                    (hook.callback)(&format!(
                        "the header has a single column that contains {shown}; if {shown} is the \
                         delimiter, set `{prefix}delimiter={word}`"
                    ));
                }
                Ok(header)
            }
            _ => Err(Error::bad_header("belongs to no other format")),
        }
    }

    /// Adds the names that the format's records always use.
    pub fn intern(&self, names: &mut NameTable) {
        if let Some(types) = &self.types {
            types.intern(names);
        }
        match &self.kind {
            Kind::Csv(csv) => {
                for column in csv.columns.iter().flat_map(Header::columns) {
                    names.intern(column);
                }
            }
            Kind::Access => access::intern(names),
            Kind::Syslog(_) => syslog::intern(names),
            Kind::Regex(pattern) => super::regex::intern(pattern, names),
            Kind::Raw => {
                names.intern(RAW);
            }
            Kind::Json | Kind::Kv { .. } => {}
        }
    }

    /// The framing of records.
    pub fn framing(&self) -> Box<dyn Framing> {
        match &self.kind {
            Kind::Csv(csv) => Box::new(Quoted {
                delimiter: csv.delimiter,
            }),
            _ => Box::new(Newline),
        }
    }

    /// A decoder for one worker. `names` must have been passed to [`Self::intern`], and is the
    /// table that the worker's batches start from.
    pub fn decoder(&self, names: &NameTable) -> Box<dyn Decoder> {
        let name = |text: &str| names.name(text).expect("the format's names are interned");
        match &self.kind {
            Kind::Json => self.lines(JsonLine::default(), names),
            Kind::Csv(csv) => Box::new(CsvDecoder {
                csv: csv.clone(),
                line_size_max: self.line_size_max,
                columns: Vec::new(),
                types: self.types.as_ref().map(|types| types.bind(names)),
            }),
            &Kind::Kv {
                pair_separator,
                value_separator,
            } => self.lines(KvLine::new(pair_separator, value_separator), names),
            Kind::Access => self.lines(AccessLine::new(name), names),
            Kind::Syslog(year) => self.lines(SyslogLine::new(*year, name), names),
            Kind::Regex(pattern) => self.lines(RegexLine::new(pattern, name), names),
            Kind::Raw => self.lines(RawLine { raw: name(RAW) }, names),
        }
    }

    fn lines(&self, parser: impl ParseLine + 'static, names: &NameTable) -> Box<dyn Decoder> {
        let line_size_max = self.line_size_max;
        match &self.types {
            None => Box::new(LineDecoder {
                parser,
                line_size_max,
            }),
            Some(types) => Box::new(LineDecoder {
                parser: TypedLine {
                    parser,
                    types: types.bind(names),
                },
                line_size_max,
            }),
        }
    }
}

fn csv(options: OptionReader<'_>) -> Result<Csv> {
    let columns = options.columns("columns")?;
    let has_header = options.parse("header", columns.is_none(), "`true` or `false`")?;
    if columns.is_none() && !has_header {
        return Err(Error::missing_option(
            "csv",
            "columns",
            "without a header, `columns` must name the fields",
        ));
    }
    Ok(Csv {
        delimiter: options.separator("delimiter", b',')?,
        has_header,
        columns: columns.map(|columns| Header(columns.into_iter().map(Into::into).collect())),
    })
}

fn year_source(options: OptionReader<'_>) -> Result<YearSource> {
    match options.text("year") {
        None | Some("clock") => Ok(YearSource::Clock),
        Some(_) => {
            let year = options.parse("year", 0, "`clock` or a year")?;
            Ok(YearSource::Fixed(year))
        }
    }
}

fn pattern(options: OptionReader<'_>) -> Result<Regex> {
    let hint = "a regular expression with named groups, as in `^(?<ip>\\S+) (?<msg>.*)$`";
    let Some(text) = options.text("pattern") else {
        return Err(Error::missing_option("regex", "pattern", hint));
    };
    let pattern = Regex::new(text).map_err(Error::bad_pattern)?;
    if pattern.capture_names().flatten().next().is_none() {
        return Err(options.bad("pattern", text, hint));
    }
    Ok(pattern)
}
