//! Random numbers that spread the actions of many clients over time.

/// A random number, so that many clients of one server do not act at the same moment. 0 if no
/// randomness is available.
pub(crate) fn jitter() -> u32 {
    getrandom::u32().unwrap_or_default()
}
