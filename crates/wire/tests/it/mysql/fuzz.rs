//! The fuzz target's body on stable: over its corpus, the transcripts, and over mutations of that.

use lookaside_wire::mysql::fuzz_mysql;

use super::transcripts::Transcript;

const MUTATION_COUNT: usize = 100_000;

/// Makes these tests another hundred thousand when it is changed.
const SEED: u64 = 10_11;

#[test]
fn mutations_of_transcripts_never_panic() {
    let corpus: Vec<Vec<u8>> = Transcript::all()
        .iter()
        .map(|transcript| transcript.fuzz_input())
        .collect();
    for input in &corpus {
        fuzz_mysql(input);
    }
    let mut random = fastrand::Rng::with_seed(SEED);
    for number in 0..MUTATION_COUNT {
        let mut input = random.choice(&corpus).unwrap().clone();
        for _ in 0..random.usize(1..4) {
            mutate(&mut input, &corpus, &mut random);
        }
        let caught = std::panic::catch_unwind(|| fuzz_mysql(&input));
        assert!(
            caught.is_ok(),
            "seed {SEED}, mutation {number}: {}",
            input.escape_ascii()
        );
    }
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut fastrand::Rng) {
    if input.is_empty() {
        return;
    }
    let index = random.usize(..input.len());
    let end = input.len().min(index + random.usize(..40));
    match random.u8(..7) {
        0 => input[index] = random.u8(..),
        1 => input[index] ^= 1 << random.u8(..8),
        // Numbers that lengths and counts are afraid of.
        2 => {
            let number: &[u8] = random
                .choice([
                    &b"\xff\xff\xff\xff"[..],
                    b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff",
                    b"\xfc\xff\xff",
                    b"\xfb",
                    b"\xff\xff\xff\0",
                    b"\0\0\0",
                ])
                .unwrap();
            let size = number.len().min(input.len() - index);
            input[index..index + size].copy_from_slice(&number[..size]);
        }
        3 => drop(input.drain(index..end)),
        4 => {
            let piece = input[index..end].to_vec();
            let place = random.usize(..=input.len());
            input.splice(place..place, piece);
        }
        5 => {
            let other = random.choice(corpus).unwrap();
            let start = random.usize(..other.len());
            let end = other.len().min(start + random.usize(..200));
            input.splice(index..index, other[start..end].iter().copied());
        }
        _ => input.truncate(index),
    }
}
