//! The fuzz target's body on stable: over its corpus, the transcripts, and over mutations of that.

use lookaside_testing::never_panics;
use lookaside_wire::postgres::fuzz_postgres;

use crate::transcripts::Transcript;

/// Problematic numbers for lengths and counts.
const WORDS: [&[u8]; 4] = [
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\0\0\0\0",
    b"\0\0\0\x04",
];

#[test]
fn mutations_of_transcripts_never_panic() {
    let corpus: Vec<Vec<u8>> = Transcript::all()
        .iter()
        .map(|transcript| transcript.fuzz_input(0x7f))
        .collect();
    never_panics(&corpus, &WORDS, 15_18, fuzz_postgres);
}
