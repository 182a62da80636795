//! The data of benchmarks: tables, keys and log lines, the same on every machine for one seed.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

/// SplitMix64 (Steele, Lea, Flood 2014): five lines, and every run draws the same numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`; the bias of the multiplication is below 2^-32 for the bounds
    /// here.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a random address.
    pub fn address(&mut self) -> Ipv4Addr {
        Ipv4Addr::from((self.next() >> 32) as u32)
    }
}

/// The distribution of the requested keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum KeyLaw {
    /// Key `k` with probability proportional to `1/k` (Zipf, exponent 1), the ranks shuffled.
    Zipf,
    /// All keys with equal probability.
    Uniform,
    /// 128 keys in turn, `(i * 17) mod 128`: the shape of the published figures of the original.
    Hotset,
}

/// Which keys of which table are asked for.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct KeyArguments {
    /// Rows of the key-value table.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub rows: u64,
    /// The distribution of the requested keys.
    #[arg(long, value_enum, default_value_t = KeyLaw::Zipf)]
    pub keys: KeyLaw,
}

impl KeyArguments {
    /// Draws `count` keys of the table, the same on each call.
    pub fn draw(self, count: usize) -> Vec<i64> {
        self.keys.keys(self.rows, count, &mut Random::new(7))
    }
}

impl KeyLaw {
    /// `count` keys from 1 to `key_max`.
    fn keys(self, key_max: u64, count: usize, random: &mut Random) -> Vec<i64> {
        assert!(key_max > 0, "there is a key to draw");
        match self {
            Self::Uniform => (0..count)
                .map(|_| 1 + random.below(key_max) as i64)
                .collect(),
            Self::Hotset => {
                let hotset = key_max.min(128);
                (0..count as u64)
                    .map(|index| (index * 17 % hotset) as i64 + 1)
                    .collect()
            }
            Self::Zipf => zipf(key_max, count, random),
        }
    }
}

fn zipf(key_max: u64, count: usize, random: &mut Random) -> Vec<i64> {
    let mut total = 0.0;
    let cumulated: Vec<f64> = (1..=key_max)
        .map(|rank| {
            total += 1.0 / rank as f64;
            total
        })
        .collect();
    // Hot keys must not be neighbours in the table, or its cache lines would be hot as well.
    let mut keys: Vec<i64> = (1..=key_max as i64).collect();
    for index in (1..keys.len()).rev() {
        keys.swap(index, random.below(index as u64 + 1) as usize);
    }
    (0..count)
        .map(|_| {
            let drawn = random.unit() * total;
            keys[cumulated
                .partition_point(|&sum| sum <= drawn)
                .min(keys.len() - 1)]
        })
        .collect()
}

/// A key-value table as CSV without a header: a number `id` from 1 and `value_<id>`.
pub fn key_value_csv(row_count: u64) -> String {
    let mut csv = String::new();
    for id in 1..=row_count {
        writeln!(csv, "{id},value_{id}").expect("a string takes any text");
    }
    csv
}

/// Address ranges with their networks as CSV without a header, in the shape of the public ASN table:
/// first and last address, number, organisation; ranges ascend and do not overlap, with a few gaps.
pub fn ranges_csv(range_count: u64, random: &mut Random) -> String {
    // The real table has 411,961 ranges of 84,159 networks.
    let organisation_count = (range_count / 5).max(1);
    let mut csv = String::new();
    let step = (u64::from(u32::MAX) + 1) / range_count.max(1);
    for index in 0..range_count {
        let first = index * step + random.below(step / 8 + 1);
        let last = (index + 1) * step - 1 - random.below(step / 8 + 1);
        let (first, last) = (Ipv4Addr::from(first as u32), Ipv4Addr::from(last as u32));
        let organisation = random.below(organisation_count);
        let name = [
            "Networks",
            "Telecom Holding, Inc.",
            "Cable and Broadband Services",
            "Cloud",
        ][organisation as usize % 4];
        writeln!(
            csv,
            "{first},{last},{},\"Org{organisation} {name}\"",
            64_512 + organisation
        )
        .expect("a string takes any text");
    }
    csv
}

/// Lines of a combined access log, some 240 bytes each, from addresses all over the IPv4 space.
pub fn access_log(line_count: u64, random: &mut Random) -> String {
    const METHODS: [&str; 4] = ["GET", "GET", "POST", "HEAD"];
    const STATUSES: [u16; 8] = [200, 200, 200, 200, 301, 304, 404, 500];
    const PATHS: [&str; 4] = [
        "/shop/cart",
        "/static/app.js",
        "/api/v2/orders",
        "/blog/archive",
    ];
    const AGENTS: [&str; 4] = [
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 \
         Safari/537.36",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_7) AppleWebKit/605.1.15 (KHTML, like Gecko) \
         Version/18.1 Safari/605.1.15",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:145.0) Gecko/20100101 Firefox/145.0",
        "curl/8.11.0",
    ];
    let mut log = String::with_capacity(line_count as usize * 256);
    for index in 0..line_count {
        let pick = random.next();
        let second = index / 50;
        writeln!(
            log,
            "{} - {} [{:02}/Mar/2026:{:02}:{:02}:{:02} +0100] \"{} {}?id={} HTTP/1.1\" {} {} \
             \"https://www.example.com/landing/{}\" \"{}\"",
            random.address(),
            if pick & 7 == 0 { "amy" } else { "-" },
            1 + second / 86_400 % 28,
            second / 3600 % 24,
            second / 60 % 60,
            second % 60,
            METHODS[(pick >> 3) as usize % 4],
            PATHS[(pick >> 5) as usize % 4],
            (pick >> 7) % 100_000,
            STATUSES[(pick >> 24) as usize % 8],
            (pick >> 27) % 50_000,
            (pick >> 43) % 1000,
            AGENTS[(pick >> 53) as usize % 4],
        )
        .expect("a string takes any text");
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_keys() {
        for law in [KeyLaw::Zipf, KeyLaw::Uniform, KeyLaw::Hotset] {
            let keys = law.keys(1000, 5000, &mut Random::new(7));
            assert_eq!(keys, law.keys(1000, 5000, &mut Random::new(7)));
            assert!(keys.iter().all(|key| (1..=1000).contains(key)), "{law:?}");
        }
    }

    #[test]
    fn zipf_draws_the_hottest_key_as_often_as_the_law_says() {
        let keys = KeyLaw::Zipf.keys(100, 100_000, &mut Random::new(1));
        let mut counts = [0_u32; 101];
        keys.iter().for_each(|&key| counts[key as usize] += 1);
        // 1 / H(100) = 0.1928
        let hottest = *counts.iter().max().expect("there are counts");
        assert!((18_500..20_500).contains(&hottest), "{hottest}");
    }

    #[test]
    fn ranges_ascend_without_overlap() {
        let csv = ranges_csv(1000, &mut Random::new(1));
        let mut before = None;
        for line in csv.lines() {
            let mut cells = line.split(',');
            let mut cell = || -> Ipv4Addr { cells.next().unwrap().parse().unwrap() };
            let (first, last) = (cell(), cell());
            assert!(before < Some(first) && first <= last, "{line}");
            before = Some(last);
        }
    }
}
