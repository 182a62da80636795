//! Encoding of records.

use std::mem;

use lookaside_value::Batch;

use super::job::Output;
use crate::compression::Compressor;
use crate::format::Encoder;
use crate::{Error, Result};

/// The encoder and compressors of a worker.
pub(super) struct Encoding {
    pub(super) encoder: Box<dyn Encoder>,
    pub(super) compressor: Compressor,
    pub(super) reject_compressor: Option<Compressor>,
}

impl Encoding {
    /// Produces the bytes of an output: those of its records, and those of its rejects.
    pub(super) fn encode(&mut self, batch: &Batch, output: &mut Output) -> Result<()> {
        let rejects_before = output.rejects.count();
        let mut text = String::from_utf8(mem::take(&mut output.bytes))
            .expect("an output has no bytes before it is encoded");
        self.encoder.encode(batch, &mut text, &mut output.rejects);
        output.counts.bytes_out = text.len() as u64;
        output.counts.events_out = batch.len() as u64 - (output.rejects.count() - rejects_before);

        output.bytes = text.into_bytes();
        self.compressor
            .compress(&mut output.bytes)
            .map_err(Error::compress)?;
        if let Some(compressor) = &mut self.reject_compressor {
            output.reject_bytes.extend_from_slice(output.rejects.raw());
            output.rejects.clear_raw();
            compressor
                .compress(&mut output.reject_bytes)
                .map_err(Error::compress)?;
        }
        Ok(())
    }
}
