//! The output formats by name, with their options.

use lookaside_value::NameTable;

use super::json_out::JsonEncoder;
use super::raw::{RAW, RawEncoder};
use super::{Encoder, FormatOptions};
use crate::{Error, Result};

const NAMES: &[&str] = &["json", "raw"];

/// How records become text: a format's name and its options.
#[derive(Clone, Debug)]
pub struct OutputFormat {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Json,
    Raw,
}

impl OutputFormat {
    /// The format of that name.
    ///
    /// # Errors
    /// When there is no such format, or an option is unknown to it or does not hold what it should.
    pub fn new(name: &str, options: &FormatOptions) -> Result<Self> {
        let kind = match name {
            "json" => {
                options.of("json", &[])?;
                Kind::Json
            }
            "raw" => {
                options.of("raw", &[])?;
                Kind::Raw
            }
            _ => return Err(Error::unknown_format("output", name, NAMES)),
        };
        Ok(Self { kind })
    }

    /// The format's name.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Json => "json",
            Kind::Raw => "raw",
        }
    }

    /// Adds the names that the format always uses.
    pub fn intern(&self, names: &mut NameTable) {
        if matches!(self.kind, Kind::Raw) {
            names.intern(RAW);
        }
    }

    /// What stands before the first record of an output, if that is known already.
    ///
    /// Empty when there is nothing, or when the encoder of the first record writes it.
    pub fn prologue(&self) -> String {
        String::new()
    }

    /// Whether batches may be encoded in any order; false until the first record of an output has
    /// decided its columns, where nobody named them. Copies of a format decide together.
    pub fn is_ready(&self) -> bool {
        true
    }

    /// An encoder for one worker. `names` has seen [`Self::intern`] and is the table that the
    /// worker's batches start from.
    pub fn encoder(&self, names: &NameTable) -> Box<dyn Encoder> {
        match self.kind {
            Kind::Json => Box::new(JsonEncoder::new(names)),
            Kind::Raw => Box::new(RawEncoder {
                raw: names.name(RAW).expect("the format's names are interned"),
            }),
        }
    }
}
