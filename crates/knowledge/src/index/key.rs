//! Keys of rows, and their hashes.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

/// The hash needs no secret seed: the stored keys come from the owner of the tables only.
const HASHER: FixedState = FixedState::with_seed(0x6c6f_6f6b_6173_6964);

/// One column's part of a key. Two keys are the same if SQLite's `=` is true for them, which is
/// when they are equal here: numbers are already normalised, and NULL is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key<'a> {
    /// An integer, or a real number that is one.
    Int(i64),
    /// The bits of any other real number.
    Real(u64),
    /// Text in UTF-8, as it is stored, valid or not.
    Text(&'a [u8]),
    /// A blob.
    Blob(&'a [u8]),
}

impl Key<'_> {
    /// The key of a real number: whole ones equal integers.
    pub(crate) fn of_real(float: f64) -> Self {
        const INT_END: f64 = 9_223_372_036_854_775_808.0;
        if float.fract() == 0.0 && (-INT_END..INT_END).contains(&float) {
            // In range and whole, so the cast is exact; it makes -0.0 the same as 0.
            Self::Int(float as i64)
        } else {
            Self::Real(float.to_bits())
        }
    }
}

/// The half of a hash that is stored with a key; places are chosen by the other one.
#[inline]
pub(super) fn upper(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[inline]
pub(super) fn hash_int(key: i64) -> u64 {
    HASHER.hash_one(key)
}

#[inline]
pub(super) fn hash_parts(parts: &[Key<'_>]) -> u64 {
    // One part, the common case, is hashed in one go.
    parts.iter().fold(0, |hash, part| hash_with(hash, *part))
}

/// The hash of a key with one more part than that of `hash`. It ignores the types of parts; the comparison
/// distinguishes them.
#[inline]
pub(super) fn hash_with(hash: u64, part: Key<'_>) -> u64 {
    let part = match part {
        Key::Int(int) => hash_int(int),
        Key::Real(bits) => hash_int(bits as i64),
        Key::Text(bytes) | Key::Blob(bytes) => hash_bytes(bytes),
    };
    hash.rotate_left(5) ^ part
}

#[inline]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    use std::hash::Hasher as _;
    let mut hasher = HASHER.build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// Hashes of some keys, which differ if keys are hashed otherwise, as in another version of foldhash.
pub(crate) fn hash_probe() -> [u64; 4] {
    let texts: [&[u8]; 3] = [b"probe", b"a probe of 20 bytes.", &[7; 100]];
    let [short, middle, long] = texts.map(hash_bytes);
    [hash_int(0x0123_4567_89ab_cdef), short, middle, long]
}
