//! The fuzz targets' bodies on stable: over their corpus, the transcripts, and over its mutations.

use lookaside_testing::never_panics;
use lookaside_wire::postgres::fuzz_postgres;
use lookaside_wire::postgres::replication::fuzz_replication;

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

#[test]
fn mutations_of_replication_streams_never_panic() {
    let corpus: Vec<Vec<u8>> = Transcript::all()
        .iter()
        .flat_map(|transcript| {
            // A few messages each, so that a mutation often hits another one.
            let messages: Vec<Vec<u8>> = transcript.streamed().collect();
            let chunks = messages.chunks(4).map(|messages| {
                let sized = messages.iter().flat_map(|message| {
                    let size = u16::try_from(message.len()).unwrap();
                    [&size.to_be_bytes(), &message[..]].concat()
                });
                sized.collect()
            });
            chunks.collect::<Vec<Vec<u8>>>()
        })
        .chain([b"16/B374D848".to_vec()])
        .collect();
    never_panics(&corpus, &WORDS, 15_18, fuzz_replication);
}
