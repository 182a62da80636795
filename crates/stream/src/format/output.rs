//! The output formats by name, with their options.

use std::sync::{Arc, OnceLock};

use lookaside_value::NameTable;

use super::csv_out::{CsvEncoder, CsvOut, Extra};
use super::json_out::JsonEncoder;
use super::kv::KvEncoder;
use super::options::OptionReader;
use super::raw::{RAW, RawEncoder};
use super::times::{Rfc3339Encoder, Times};
use super::{Encoder, FormatOptions};
use crate::sink::RecordEnds;
use crate::{Error, Result};

/// How records become text: a format's name and its options.
///
/// `docs/FORMATS.md` describes the formats and their options.
#[derive(Clone, Debug)]
pub struct OutputFormat {
    kind: Kind,
    times: Times,
}

#[derive(Clone, Debug)]
enum Kind {
    Json,
    Csv(Arc<CsvOut>),
    Kv {
        pair_separator: u8,
        value_separator: u8,
    },
    Raw,
}

impl OutputFormat {
    /// The names of the formats.
    pub const NAMES: [&'static str; 4] = ["json", "csv", "kv", "raw"];

    /// Creates the format with this name.
    ///
    /// # Errors
    /// When there is no such format, or an option is unknown to it or has an invalid value.
    pub fn new(name: &str, options: &FormatOptions) -> Result<Self> {
        let Some(format) = Self::NAMES.into_iter().find(|&known| known == name) else {
            return Err(Error::unknown_format("output", name, &Self::NAMES));
        };
        let options = options.of(format, Self::option_names(format))?;
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
            _ => Kind::Raw,
        };
        let times = Times::of(options)?;
        Ok(Self { kind, times })
    }

    /// The names of the options of the format with this name.
    pub fn option_names(name: &str) -> &'static [&'static str] {
        match name {
            "json" => &["times"],
            "csv" => &["delimiter", "header", "columns", "extra", "times"],
            "kv" => &["pair_separator", "value_separator", "times"],
            _ => &[],
        }
    }

    /// The format's name.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Json => "json",
            Kind::Csv(_) => "csv",
            Kind::Kv { .. } => "kv",
            Kind::Raw => "raw",
        }
    }

    /// Adds the names that the format always uses.
    pub fn intern(&self, names: &mut NameTable) {
        match &self.kind {
            Kind::Csv(csv) => {
                for column in csv.columns.get().into_iter().flatten() {
                    names.intern(column);
                }
            }
            Kind::Raw => {
                names.intern(RAW);
            }
            Kind::Json | Kind::Kv { .. } => {}
        }
    }

    /// The text before the first record of an output, if it is already known.
    ///
    /// Empty if there is none, or if the encoder of the first record writes it; so call it once,
    /// before the first batch is encoded.
    pub fn prologue(&self) -> String {
        match &self.kind {
            Kind::Csv(csv) if !csv.is_continued => csv.header(),
            _ => String::new(),
        }
    }

    /// The text with which each file, or connection, of an output begins; empty if there is none, or
    /// if the first record is to determine the columns.
    pub(crate) fn header(&self) -> String {
        match &self.kind {
            Kind::Csv(csv) => csv.header(),
            _ => String::new(),
        }
    }

    /// How its records end.
    pub(crate) fn record_ends(&self) -> RecordEnds {
        match self.kind {
            Kind::Csv(_) => RecordEnds::QuotedLines,
            Kind::Json | Kind::Kv { .. } | Kind::Raw => RecordEnds::Lines,
        }
    }

    /// The format for appending to an output that begins with `bytes`: a CSV header is not written
    /// again, and its columns are used.
    ///
    /// # Errors
    /// When columns were set that differ from those of the header.
    pub(crate) fn continuing(&self, bytes: &[u8], output: &str) -> Result<Self> {
        let kind = match &self.kind {
            Kind::Csv(csv) => Kind::Csv(Arc::new(csv.continuing(bytes, output)?)),
            kind => kind.clone(),
        };
        let times = self.times;
        Ok(Self { kind, times })
    }

    /// Whether batches may be encoded in any order; false until the first record of an output has
    /// determined its columns, if no option set them. Clones of a format share this state.
    pub fn is_ready(&self) -> bool {
        match &self.kind {
            Kind::Csv(csv) => csv.columns.get().is_some(),
            _ => true,
        }
    }

    /// An encoder for one worker. `names` must have been passed to [`Self::intern`], and is the
    /// table that the worker's batches start from.
    pub fn encoder(&self, names: &NameTable) -> Box<dyn Encoder> {
        let encoder: Box<dyn Encoder> = match &self.kind {
            Kind::Json => Box::new(JsonEncoder::new(names)),
            Kind::Csv(csv) => Box::new(CsvEncoder::new(csv.clone())),
            &Kind::Kv {
                pair_separator,
                value_separator,
            } => Box::new(KvEncoder::new(names, pair_separator, value_separator)),
            Kind::Raw => Box::new(RawEncoder {
                raw: names.name(RAW).expect("the format's names are interned"),
            }),
        };
        match self.times {
            Times::Civil => encoder,
            Times::Rfc3339 => Box::new(Rfc3339Encoder(encoder)),
        }
    }
}

fn csv(options: OptionReader<'_>) -> Result<CsvOut> {
    let columns = OnceLock::new();
    if let Some(named) = options.columns("columns")? {
        columns.get_or_init(|| named.into_iter().map(Into::into).collect());
    }
    Ok(CsvOut {
        delimiter: options.separator("delimiter", b',')?,
        has_header: options.parse("header", true, "`true` or `false`")?,
        is_continued: false,
        extra: match options.text("extra") {
            None | Some("reject") => Extra::Reject,
            Some("ignore") => Extra::Ignore,
            Some(other) => return Err(options.bad("extra", other, "`reject` or `ignore`")),
        },
        columns,
        advice: options.prefix(),
    })
}
