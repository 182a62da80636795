//! The input formats by name, with their options.

use lookaside_value::NameTable;

use super::frame::Newline;
use super::lines::LineDecoder;
use super::raw::{RAW, RawLine};
use super::{Decoder, FormatOptions, Framing, Header};
use crate::{Error, Result};

/// Lines longer than this are rejected unless the option `line_size_max` says otherwise: far above
/// any event, far below the memory of a small machine.
const LINE_SIZE_MAX: usize = 16 << 20;

const LINE_SIZE_OPTION: &str = "line_size_max";

const NAMES: &[&str] = &["raw"];

/// How bytes become records: a format's name and its options.
#[derive(Clone, Debug)]
pub struct InputFormat {
    kind: Kind,
    line_size_max: usize,
}

#[derive(Clone, Debug)]
enum Kind {
    Raw,
}

impl InputFormat {
    /// The format of that name.
    ///
    /// # Errors
    /// When there is no such format, or an option is unknown to it or does not hold what it should.
    pub fn new(name: &str, options: &FormatOptions) -> Result<Self> {
        let (format, known): (&'static str, &[&str]) = match name {
            "raw" => ("raw", &[LINE_SIZE_OPTION]),
            _ => return Err(Error::unknown_format("input", name, NAMES)),
        };
        let options = options.of(format, known)?;
        let kind = match format {
            _ => Kind::Raw,
        };
        Ok(Self {
            kind,
            line_size_max: options.parse(LINE_SIZE_OPTION, LINE_SIZE_MAX, "a number of bytes")?,
        })
    }

    /// The format's name.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Raw => "raw",
        }
    }

    /// A record longer than this is a reject; whoever fills buffers skips it without holding it.
    pub fn line_size_max(&self) -> usize {
        self.line_size_max
    }

    /// Whether each source begins with a record that [`Self::header`] wants to see.
    pub fn has_header(&self) -> bool {
        false
    }

    /// Reads the header from the first record of a source, for the chunks of that source.
    ///
    /// # Errors
    /// When the record cannot be a header.
    pub fn header(&self, record: &[u8]) -> Result<Header> {
        let _ = record;
        Err(Error::bad_header("is none"))
    }

    /// Adds the names that the format's records always use.
    pub fn intern(&self, names: &mut NameTable) {
        match self.kind {
            Kind::Raw => names.intern(RAW),
        };
    }

    /// How records are cut.
    pub fn framing(&self) -> Box<dyn Framing> {
        Box::new(Newline)
    }

    /// A decoder for one worker. `names` has seen [`Self::intern`] and is the table that the
    /// worker's batches start from.
    pub fn decoder(&self, names: &NameTable) -> Box<dyn Decoder> {
        let line_size_max = self.line_size_max;
        let name = |text| names.name(text).expect("the format's names are interned");
        match self.kind {
            Kind::Raw => Box::new(LineDecoder {
                parser: RawLine { raw: name(RAW) },
                line_size_max,
            }),
        }
    }
}
