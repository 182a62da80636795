//! A directory for a sorted array: the top bits of a key give the range of positions to search.
//!
//! A binary search over 400,000 keys takes nineteen dependent loads, most of them cache misses.
//! With the directory, a few loads within two or three cache lines of the array remain, and the
//! directory itself is small enough to stay in the core's cache.

use super::BLOCK_SIZE;

/// The average number of keys in a bucket, as a power of two: eight.
///
/// The steps that a larger bucket adds stay within loaded cache lines; a larger directory does not fit in
/// the cache.
pub(super) const BUCKET_SIZE_BITS: u32 = 3;

/// Steps up to this size are taken for all keys of a block: they suffice for buckets of less than twice as
/// many keys.
const SMALL_STEP: usize = BUCKET_SIZE / 2;
const BUCKET_SIZE: usize = 1 << BUCKET_SIZE_BITS;

/// Positions in one array of ascending `u64` keys that begins with zero.
#[derive(Debug)]
pub(super) struct Directory {
    shift: u32,
    /// The last key; greater keys are searched in its bucket.
    last: u64,
    /// `starts[bucket]` is how many keys belong to earlier buckets; the last one is the number of keys.
    starts: Box<[u32]>,
    /// A power of two; twice it is more than the largest bucket holds.
    first_step: usize,
}

impl Directory {
    /// Builds the directory of ascending keys, the first of which is zero, with 2^`bucket_size_bits` keys in
    /// a bucket on average.
    pub(super) fn new(
        keys: impl ExactSizeIterator<Item = u64> + DoubleEndedIterator + Clone,
        bucket_size_bits: u32,
    ) -> Self {
        let count = keys.len();
        assert!(count > 0 && u32::try_from(count).is_ok(), "{count} keys");
        let last = keys.clone().next_back().expect("there is a key");
        let key_bits = u64::BITS - last.leading_zeros();
        let count_bits = count.next_power_of_two().trailing_zeros();
        let bucket_bits = count_bits.saturating_sub(bucket_size_bits);
        let shift = key_bits.saturating_sub(bucket_bits).min(u64::BITS - 1);
        let bucket_count = (last >> shift) as usize + 1;
        let mut starts = vec![0_u32; bucket_count + 1];
        for key in keys {
            starts[(key >> shift) as usize + 1] += 1;
        }
        for bucket in 1..starts.len() {
            starts[bucket] += starts[bucket - 1];
        }
        let sizes = starts.windows(2).map(|pair| pair[1] - pair[0]);
        let size_max = sizes.max().unwrap_or(0) as usize;
        Self {
            shift,
            last,
            starts: starts.into_boxed_slice(),
            first_step: (size_max + 1).next_power_of_two() / 2,
        }
    }

    /// The number of keys before `key`; `is_before` returns it for the key at a position below
    /// `count`, the number of keys.
    ///
    /// Smaller keys must be before, greater ones not; the caller decides about equal ones.
    #[inline]
    pub(super) fn count_before(
        &self,
        key: u64,
        count: usize,
        is_before: impl Fn(usize) -> bool,
    ) -> usize {
        let (start, end) = self.bucket(key);
        search(start, end.min(count - 1), self.first_step, is_before).min(count)
    }

    /// The number of keys before each of up to [`BLOCK_SIZE`] keys, as [`Self::count_before`] finds it. Each
    /// step is done for all of them before the next one, so that their cache misses overlap.
    #[inline]
    pub(super) fn counts_before(
        &self,
        keys: &[u64],
        count: usize,
        counts: &mut [usize],
        is_before: impl Fn(u64, usize) -> bool,
    ) {
        // Most keys are in small buckets, which need no large steps.
        let (mut large, mut large_count) = ([0; BLOCK_SIZE], 0);
        let mut ends = [0; BLOCK_SIZE];
        let searches = keys.iter().zip(&mut *counts).zip(&mut ends);
        for (index, ((key, before), end)) in searches.enumerate() {
            (*before, *end) = self.bucket(*key);
            large[large_count] = index;
            large_count += usize::from(*end - *before >= 2 * SMALL_STEP);
            *end = (*end).min(count - 1);
        }
        let advance = |step: usize, key, before: &mut usize, end: usize| {
            *before += step * usize::from(is_before(key, (*before + step - 1).min(end)));
        };
        let mut step = self.first_step;
        while step > SMALL_STEP {
            for &index in &large[..large_count] {
                advance(step, keys[index], &mut counts[index], ends[index]);
            }
            step /= 2;
        }
        while step > 0 {
            for ((key, before), end) in keys.iter().zip(&mut *counts).zip(&ends) {
                advance(step, *key, before, *end);
            }
            step /= 2;
        }
        for before in counts {
            *before = (*before).min(count);
        }
    }

    /// How many keys are before the bucket of this key, and before the next bucket.
    #[inline]
    fn bucket(&self, key: u64) -> (usize, usize) {
        let bucket = (key.min(self.last) >> self.shift) as usize;
        (
            self.starts[bucket] as usize,
            self.starts[bucket + 1] as usize,
        )
    }

    pub(super) fn size(&self) -> usize {
        size_of_val(&*self.starts)
    }
}

/// The number of keys before one, from the start of its bucket on. It is too large if all keys up to the
/// one at `end` are before it.
///
/// The search always takes as many steps as the largest bucket needs, and adds instead of branching:
/// a probe cannot be predicted, and one branch misprediction costs more than all the steps. Steps
/// beyond the bucket read the key at `end`, which is not before: a small bucket is one cache line.
#[inline]
fn search(start: usize, end: usize, first_step: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut before, mut step) = (start, first_step);
    while step > 0 {
        before += step * usize::from(is_before((before + step - 1).min(end)));
        step /= 2;
    }
    before
}

/// The most top bits by which [`TieredDirectory`] divides the keys first.
const TOP_BITS_MAX: u32 = 16;

/// A directory of two levels, for keys that are dense in a few regions, as IPv6 networks are: each
/// region of equal top bits has a directory of its own, with buckets as small as its keys require.
#[derive(Debug)]
pub(super) struct TieredDirectory {
    /// The bits below the top ones.
    shift: u32,
    regions: Box<[Region]>,
    /// The positions at which the buckets of all regions begin, relative to their region.
    starts: Box<[u32]>,
}

/// The keys of equal top bits, without these bits.
#[derive(Clone, Copy, Debug, Default)]
struct Region {
    min: u64,
    max: u64,
    /// How many keys belong to earlier regions.
    start: u32,
    /// The first bucket in [`TieredDirectory::starts`].
    bucket_at: u32,
    shift: u8,
    /// The binary logarithm of the first step, or [`NO_STEP`].
    step_bits: u8,
}

/// A region without keys.
const NO_STEP: u8 = u8::MAX;

impl TieredDirectory {
    /// Builds the directory of ascending keys.
    pub(super) fn new(keys: &[u64]) -> Self {
        assert!(!keys.is_empty() && u32::try_from(keys.len()).is_ok());
        let last = keys[keys.len() - 1];
        let key_bits = u64::BITS - last.leading_zeros();
        let count_bits = keys.len().next_power_of_two().trailing_zeros();
        let top_bits = count_bits
            .saturating_sub(BUCKET_SIZE_BITS)
            .min(TOP_BITS_MAX);
        let shift = key_bits.saturating_sub(top_bits).min(u64::BITS - 1);
        let mask = (1 << shift) - 1;
        let mut regions = Vec::with_capacity((last >> shift) as usize + 1);
        // The bucket of empty regions.
        let mut starts = vec![0];
        let mut at = 0;
        for top in 0..=last >> shift {
            let count = keys[at..].partition_point(|key| key >> shift == top);
            let local: Vec<u64> = keys[at..at + count].iter().map(|key| key & mask).collect();
            regions.push(Region::new(&local, at as u32, &mut starts));
            at += count;
        }
        Self {
            shift,
            regions: regions.into(),
            starts: starts.into(),
        }
    }

    /// As [`Directory::count_before`].
    #[inline]
    pub(super) fn count_before(
        &self,
        key: u64,
        count: usize,
        is_before: impl Fn(usize) -> bool,
    ) -> usize {
        let Some(region) = self.regions.get((key >> self.shift) as usize) else {
            return count;
        };
        let local = key & ((1 << self.shift) - 1);
        let bucket = (local.clamp(region.min, region.max) - region.min) >> region.shift;
        let start = self.starts[region.bucket_at as usize + bucket as usize];
        let before = (region.start + start) as usize;
        if region.step_bits == NO_STEP {
            return before;
        }
        search(before, count - 1, 1 << region.step_bits, is_before).min(count)
    }

    pub(super) fn size(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.regions)
    }
}

impl Region {
    fn new(keys: &[u64], start: u32, starts: &mut Vec<u32>) -> Self {
        let (Some(min), Some(max)) = (keys.first(), keys.last()) else {
            let step_bits = NO_STEP;
            return Self {
                start,
                step_bits,
                ..Self::default()
            };
        };
        let key_bits = u64::BITS - (max - min).leading_zeros();
        let count_bits = keys.len().next_power_of_two().trailing_zeros();
        let bucket_bits = count_bits.saturating_sub(BUCKET_SIZE_BITS);
        let shift = key_bits.saturating_sub(bucket_bits).min(u64::BITS - 1);
        let bucket_count = ((max - min) >> shift) as usize + 1;
        let bucket_at = starts.len();
        let mut size_max = 0;
        let mut at = 0;
        for bucket in 0..bucket_count as u64 {
            starts.push(at as u32);
            let size = keys[at..].partition_point(|key| (key - min) >> shift == bucket);
            size_max = size_max.max(size);
            at += size;
        }
        Self {
            min: *min,
            max: *max,
            start,
            bucket_at: bucket_at as u32,
            shift: shift as u8,
            step_bits: ((size_max + 1).next_power_of_two() / 2).trailing_zeros() as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: &[u64]) {
        check_directory(keys, 0);
        check_directory(keys, BUCKET_SIZE_BITS);
    }

    fn check_directory(keys: &[u64], bucket_size_bits: u32) {
        let directory = Directory::new(keys.iter().copied(), bucket_size_bits);
        let mut probes = vec![0, 1, 2, u64::MAX];
        probes.extend(
            keys.iter()
                .flat_map(|key| [key.saturating_sub(1), *key, key.saturating_add(1)]),
        );
        for block in probes.chunks(BLOCK_SIZE) {
            let mut counts = vec![0; block.len()];
            let is_before = |key, at: usize| keys[at] <= key;
            directory.counts_before(block, keys.len(), &mut counts, is_before);
            let count = |probe| keys.iter().filter(|key| *key <= probe).count();
            let expected: Vec<usize> = block.iter().map(count).collect();
            assert_eq!(counts, expected, "{block:?} in {keys:?}");
        }
        for probe in probes {
            let count = directory.count_before(probe, keys.len(), |at| keys[at] <= probe);
            let expected = keys.iter().filter(|key| **key <= probe).count();
            assert_eq!(count, expected, "{probe} in {keys:?}");
            let tiered = TieredDirectory::new(keys);
            let count = tiered.count_before(probe, keys.len(), |at| keys[at] <= probe);
            assert_eq!(count, expected, "{probe} in {keys:?}");
        }
        assert!(directory.starts.len() <= 2 * keys.len().next_power_of_two());
    }

    #[test]
    fn the_directory_agrees_with_counting() {
        check(&[0]);
        check(&[0, 0, 0]);
        check(&[0, 1]);
        check(&[0, u64::MAX]);
        check(&[0, 5, 6, 7, 1 << 40]);
        check(&(0..1000).collect::<Vec<u64>>());
        check(&(0..1000).map(|key| key * key * key).collect::<Vec<u64>>());
        check(&(0..64).map(|bit| (1_u64 << bit) - 1).collect::<Vec<u64>>());
        let clustered: Vec<u64> = (0..50).chain(1 << 32..(1 << 32) + 50).collect();
        check(&clustered);
        // A bucket that needs many steps, among others of one key or none.
        let mut skewed: Vec<u64> = (0..200).map(|key| key << 32).collect();
        skewed.extend(1 << 20..(1 << 20) + 300);
        skewed.sort_unstable();
        check(&skewed);
    }
}
