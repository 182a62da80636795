//! The fuzz target's body on stable: over its corpus, the transcripts, and over mutations of that.

use lookaside_testing::never_panics;
use lookaside_wire::mysql::fuzz_mysql;

use super::transcripts::Transcript;

/// Problematic numbers for lengths and counts.
const WORDS: [&[u8]; 6] = [
    b"\xff\xff\xff\xff",
    b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xfc\xff\xff",
    b"\xfb",
    b"\xff\xff\xff\0",
    b"\0\0\0",
];

#[test]
fn mutations_of_transcripts_never_panic() {
    let corpus: Vec<Vec<u8>> = Transcript::all()
        .iter()
        .map(|transcript| transcript.fuzz_input())
        .collect();
    never_panics(&corpus, &WORDS, 10_11, fuzz_mysql);
}
