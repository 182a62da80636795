//! Which keys are written and read how often.

use crate::history::Key;

/// How often which key is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLaw {
    /// Every key alike.
    Uniform,
    /// Key `k` with a probability proportional to `1/(k + 1)` (Zipf, exponent 1).
    Zipf,
}

/// The keys of a run, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyDistribution {
    /// How often which key is drawn.
    pub law: KeyLaw,
    /// How many keys there are.
    pub count: u32,
}

impl KeyDistribution {
    /// All keys.
    pub(super) fn keys(self) -> impl Iterator<Item = Key> {
        (0..self.count).map(Key)
    }
}

/// Draws keys: a table for all threads.
pub(super) struct KeyTable {
    count: u32,
    /// Sums of the probabilities, not normalized; empty if all keys are alike.
    sums: Vec<f64>,
}

impl KeyTable {
    /// Of at least one key.
    pub(super) fn new(distribution: KeyDistribution) -> Self {
        assert!(distribution.count > 0, "there is a key to draw");
        let mut sum = 0.0;
        let sums = match distribution.law {
            KeyLaw::Uniform => Vec::new(),
            KeyLaw::Zipf => (0..distribution.count)
                .map(|rank| {
                    sum += 1.0 / (f64::from(rank) + 1.0);
                    sum
                })
                .collect(),
        };
        Self {
            count: distribution.count,
            sums,
        }
    }

    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> Key {
        let Some(total) = self.sums.last() else {
            return Key(random.u32(0..self.count));
        };
        let drawn = random.f64() * total;
        let rank = self.sums.partition_point(|&sum| sum <= drawn);
        // The product may be rounded up to the total.
        Key((rank as u32).min(self.count - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_draws_the_first_key_as_often_as_the_law_says() {
        let table = |law| KeyTable::new(KeyDistribution { law, count: 100 });
        let share_of_first = |law| {
            let (table, mut random) = (table(law), fastrand::Rng::with_seed(1));
            let keys = (0..100_000).map(|_| table.draw(&mut random));
            keys.filter(|key| *key == Key(0)).count()
        };
        // 1 / H(100) = 0.1928
        assert!((18_500..20_500).contains(&share_of_first(KeyLaw::Zipf)));
        assert!((800..1_200).contains(&share_of_first(KeyLaw::Uniform)));
    }
}
