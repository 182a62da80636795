//! Brotli, RFC 7932.

use std::fmt;

use brotli::enc::encode::{
    BrotliEncoderDestroyInstance, BrotliEncoderOperation as Operation, BrotliEncoderParameter,
    BrotliEncoderStateStruct,
};

use super::recycler::Recycler;

/// Bits of the window. Generated bodies are rarely larger than 256 KiB, and a larger window costs
/// memory for every stream.
const WINDOW_BITS: u32 = 18;

/// How much space the output is given at a time.
const SPACE_SIZE: usize = 4 * 1024;

/// An encoder of one body.
pub(super) struct Encoder {
    state: Box<BrotliEncoderStateStruct<Recycler>>,
}

impl Encoder {
    /// `size_hint` is how large the body will be, 0 if unknown.
    pub(super) fn new(quality: u8, size_hint: usize) -> Self {
        let mut state = Box::new(BrotliEncoderStateStruct::new(Recycler));
        let size_hint = u32::try_from(size_hint).unwrap_or(u32::MAX);
        for (parameter, value) in [
            (BrotliEncoderParameter::BROTLI_PARAM_QUALITY, quality.into()),
            (BrotliEncoderParameter::BROTLI_PARAM_LGWIN, WINDOW_BITS),
            (BrotliEncoderParameter::BROTLI_PARAM_SIZE_HINT, size_hint),
        ] {
            state.set_parameter(parameter, value);
        }
        Self { state }
    }

    pub(super) fn write(&mut self, body: &[u8], output: &mut Vec<u8>) {
        self.run(Operation::BROTLI_OPERATION_PROCESS, body, output);
    }

    pub(super) fn flush(&mut self, output: &mut Vec<u8>) {
        self.run(Operation::BROTLI_OPERATION_FLUSH, b"", output);
    }

    /// Encodes the last part of the body, and ends it.
    pub(super) fn finish(&mut self, body: &[u8], output: &mut Vec<u8>) {
        self.run(Operation::BROTLI_OPERATION_FINISH, body, output);
    }

    fn run(&mut self, operation: Operation, body: &[u8], output: &mut Vec<u8>) {
        let mut left = body.len();
        let mut read = 0;
        loop {
            let mut written = output.len();
            output.resize(written + SPACE_SIZE, 0);
            let mut space = SPACE_SIZE;
            let done = self.state.compress_stream(
                operation,
                &mut left,
                body,
                &mut read,
                &mut space,
                output,
                &mut written,
                &mut None,
                &mut |_, _, _, _| (),
            );
            assert!(done, "the encoder refuses what it may be asked");
            output.truncate(written);
            let is_last = operation == Operation::BROTLI_OPERATION_FINISH;
            if left == 0 && !self.state.has_more_output() && (!is_last || self.state.is_finished())
            {
                return;
            }
        }
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        BrotliEncoderDestroyInstance(&mut self.state);
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Encoder").finish_non_exhaustive()
    }
}
