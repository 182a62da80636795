//! The keys that are asked for, drawn as `lookaside bench` draws them.

use std::sync::Arc;

use anyhow::Result;

use crate::arguments::Arguments;

/// Keys drawn for a run; it goes through them again and again.
const DRAWN_COUNT: usize = 1 << 20;
/// The published figures of the original ask for so many keys in turn.
const HOTSET: u64 = 128;

/// Rows of the table, and keys of `--keys hotset|zipf`.
pub struct Keys {
    pub rows: u64,
    pub drawn: Arc<[i64]>,
    pub law: &'static str,
}

impl Keys {
    pub const OPTIONS: [&str; 2] = ["--rows", "--keys"];

    pub fn read(arguments: &Arguments) -> Result<Self> {
        let rows = arguments.count("--rows", 10_000)? as u64;
        let law = arguments.word("--keys", &["hotset", "zipf"])?;
        let drawn = match law {
            "zipf" => zipf(rows, DRAWN_COUNT),
            _ => hotset(rows, DRAWN_COUNT),
        };
        Ok(Self {
            rows,
            drawn: drawn.into(),
            law,
        })
    }
}

fn hotset(rows: u64, count: usize) -> Vec<i64> {
    let hotset = rows.min(HOTSET);
    (0..count as u64)
        .map(|index| (index * 17 % hotset) as i64 + 1)
        .collect()
}

/// Key `k` with probability proportional to `1/k`, the ranks shuffled over the table.
fn zipf(rows: u64, count: usize) -> Vec<i64> {
    let mut random = Random(7);
    let mut total = 0.0;
    let cumulated: Vec<f64> = (1..=rows)
        .map(|rank| {
            total += 1.0 / rank as f64;
            total
        })
        .collect();
    let mut keys: Vec<i64> = (1..=rows as i64).collect();
    for index in (1..keys.len()).rev() {
        keys.swap(index, random.below(index as u64 + 1) as usize);
    }
    (0..count)
        .map(|_| {
            let drawn = random.unit() * total;
            let rank = cumulated.partition_point(|&sum| sum <= drawn);
            keys[rank.min(keys.len() - 1)]
        })
        .collect()
}

/// SplitMix64 (Steele, Lea, Flood 2014), seeded as in our benchmark.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
