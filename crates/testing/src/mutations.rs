//! Mutated inputs for decoders: runs a fuzz target's body on stable.

use std::env;
use std::panic::{RefUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use fastrand::Rng;

/// The number of inputs in addition to the corpus.
const MUTATION_COUNT: usize = 100_000;

/// The variable with the number of seconds for each fuzz target, instead of a number of mutations.
const SECONDS: &str = "LOOKASIDE_FUZZ_SECONDS";

/// The numbers of the mutations to make: `count` of them, or as many as fit into the seconds of the
/// variable `LOOKASIDE_FUZZ_SECONDS`.
///
/// # Panics
///
/// If the variable is not a whole number.
pub fn mutation_numbers(count: usize) -> impl Iterator<Item = usize> {
    let limit = env::var(SECONDS).ok().map(|text| {
        let seconds = text.parse();
        Duration::from_secs(
            seconds.unwrap_or_else(|_| panic!("{SECONDS} is not a number: `{text}`")),
        )
    });
    numbers(count, limit)
}

fn numbers(count: usize, limit: Option<Duration>) -> impl Iterator<Item = usize> {
    let begin = Instant::now();
    (0..).take_while(move |number| match limit {
        None => *number < count,
        Some(limit) => begin.elapsed() < limit,
    })
}

/// Calls `body` with each input of `corpus`, and with a hundred thousand mutations of them, which
/// insert `words`, the critical tokens of the format. Another `seed` makes other mutations.
///
/// # Panics
///
/// If `body` panics; the message has the seed, the mutation's number and the input.
pub fn never_panics(
    corpus: &[Vec<u8>],
    words: &[&[u8]],
    seed: u64,
    body: impl Fn(&[u8]) + RefUnwindSafe,
) {
    mutations_never_panic(MUTATION_COUNT, corpus, words, seed, body);
}

/// As [`never_panics`], with `count` mutations: for a body that takes as long as a TLS handshake.
///
/// # Panics
///
/// If `body` panics.
pub fn mutations_never_panic(
    count: usize,
    corpus: &[Vec<u8>],
    words: &[&[u8]],
    seed: u64,
    body: impl Fn(&[u8]) + RefUnwindSafe,
) {
    for input in corpus {
        body(input);
    }
    let mut random = Rng::with_seed(seed);
    for number in mutation_numbers(count) {
        let mut input = random.choice(corpus).expect("a corpus").clone();
        for _ in 0..random.usize(1..4) {
            mutate(&mut input, corpus, words, &mut random);
        }
        let caught = catch_unwind(|| body(&input));
        assert!(
            caught.is_ok(),
            "seed {seed}, mutation {number}: {}",
            input.escape_ascii()
        );
    }
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[&[u8]], random: &mut Rng) {
    if input.is_empty() {
        return;
    }
    let index = random.usize(..input.len());
    let end = input.len().min(index + random.usize(..40));
    match random.u8(..9) {
        0 => input[index] = random.u8(..),
        1 => input[index] ^= 1 << random.u8(..8),
        // A word that overwrites bytes, or is inserted.
        kind @ (2 | 3) => {
            let word = *random.choice(words).expect("words");
            let size = match kind {
                2 => word.len().min(input.len() - index),
                _ => 0,
            };
            input.splice(index..index + size, word.iter().copied());
        }
        4 => drop(input.drain(index..end)),
        5 => {
            let piece = input[index..end].to_vec();
            let place = random.usize(..=input.len());
            input.splice(place..place, piece);
        }
        6 => {
            let other = random.choice(corpus).expect("a corpus");
            let start = random.usize(..other.len());
            let end = other.len().min(start + random.usize(..200));
            input.splice(index..index, other[start..end].iter().copied());
        }
        7 => {
            let filler = vec![random.u8(b'!'..b'~'); random.usize(..500)];
            input.splice(index..index, filler);
        }
        _ => input.truncate(index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_replaces_the_number_of_mutations() {
        let hour = Duration::from_secs(3600);
        assert_eq!(numbers(3, None).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(numbers(3, Some(hour)).take(5).count(), 5);
        assert_eq!(numbers(3, Some(Duration::ZERO)).count(), 0);
    }

    #[test]
    fn a_body_that_panics_is_told_with_its_input() {
        let corpus = [b"abc".to_vec()];
        never_panics(&corpus, &[b"word"], 1, |_| {});
        let caught = catch_unwind(|| {
            never_panics(&corpus, &[b"word"], 1, |input| {
                assert!(!input.windows(4).any(|found| found == b"word"));
            });
        });
        let message = caught.unwrap_err();
        let message = message.downcast_ref::<String>().unwrap();
        assert!(message.contains("seed 1, mutation ") && message.contains("word"));
    }
}
