//! Random numbers that keep many clients of one server apart.

/// A random number, so that many clients of one server do not act at the same moment. Where there
/// is no randomness, they do.
pub(crate) fn jitter() -> u32 {
    getrandom::u32().unwrap_or_default()
}
