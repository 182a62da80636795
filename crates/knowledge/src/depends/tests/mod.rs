//! Tests against statements.

mod statements;

/// The seed of this run, which `LOOKASIDE_SEED` repeats.
fn seed() -> u64 {
    match std::env::var("LOOKASIDE_SEED") {
        Ok(seed) => seed.parse().expect("LOOKASIDE_SEED is a number"),
        Err(_) => fastrand::u64(..),
    }
}
