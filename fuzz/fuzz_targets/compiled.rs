#![no_main]

use libfuzzer_sys::fuzz_target;

// The body is a library function, so that the ordinary tests run it too, on stable.
fuzz_target!(|data: &[u8]| lookaside_knowledge::compiled_fuzz(data));
