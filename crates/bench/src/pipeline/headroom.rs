//! How much of a serial stage's time is left for its own work.

use std::time::{Duration, Instant};

use lookaside_load::measure::{Measured, Spread, cpu_time};

use super::line::{Line, Work};
use super::{BLOCK, Bench};
use crate::Result;

/// A throughput of at least this share of the unloaded one counts as equal.
const SAME: f64 = 0.97;

/// The number of steps of the bisection.
const STEP_COUNT: usize = 8;

/// The upper bound of the work, as a share of the time between two items: apart from noise, a stage
/// cannot work longer.
const WORK_SHARE_MAX: f64 = 1.25;

/// Windows are short, so that more of them are undisturbed by other processes.
const WINDOWS_A_ROUND: f64 = 4.0;

/// Items a window, wall and CPU time an item.
type Window = (u64, f64, f64);

impl Bench<'_> {
    /// Measures the largest amount of work in the first stage that does not reduce the throughput.
    /// The rest of the time between two items is the cost of the pipeline itself.
    pub(super) fn headroom(&self) -> Result<Measured> {
        let mut warm = self.warm(BLOCK)?;
        let step_ns = Work::step_ns();
        let producer_work = Work::of_ns(self.arguments.producer_work, step_ns);
        warm.line.set_producer_work(producer_work);
        self.window(&mut warm.line)?;
        let (mut low, mut high) = (0.0, 0.0);
        let mut best = None;
        for step in 0..=STEP_COUNT {
            let work = if step == 0 { 0.0 } else { (low + high) / 2.0 };
            // Alternates both, since the speed of a machine varies over time.
            let (mut ops, mut cpu) = (0, Vec::new());
            let (mut unloaded, mut loaded) = (Vec::new(), Vec::new());
            for _ in 0..self.arguments.rounds.rounds.max(1) {
                for (ns, periods) in [(0.0, &mut unloaded), (work, &mut loaded)] {
                    warm.line.set_work(Work::of_ns(ns, step_ns));
                    let (count, wall_ns, cpu_ns) = self.window(&mut warm.line)?;
                    periods.push(wall_ns);
                    cpu.push(cpu_ns);
                    ops += count;
                }
            }
            let (unloaded, loaded) = (Spread::new(unloaded), Spread::new(loaded));
            if step == 0 {
                high = WORK_SHARE_MAX * loaded.median;
            }
            // Without work the two are the same but for noise.
            if step == 0 || unloaded.median >= SAME * loaded.median {
                low = work;
                best = Some((work, unloaded.median, (ops, Spread::new(cpu), loaded)));
            } else {
                high = work;
            }
        }
        let (work, period, measured) = best.expect("the step without work always counts");
        let notes = vec![
            ("work ns", format!("{work:.0}")),
            ("period ns", format!("{period:.0}")),
            ("overhead ns", format!("{:.0}", period - work)),
        ];
        self.measured(warm, measured, notes)
    }

    fn window(&self, line: &mut Line) -> Result<Window> {
        let length = Duration::try_from_secs_f64(self.arguments.rounds.seconds / WINDOWS_A_ROUND);
        let length = length.unwrap_or_default();
        let (started, cpu_before, mut count) = (Instant::now(), cpu_time(), 0);
        while count == 0 || started.elapsed() < length {
            line.push(BLOCK, self.plan.batch)?;
            count += BLOCK;
        }
        let (cpu, wall) = (cpu_time() - cpu_before, started.elapsed());
        let an_item = |time: Duration| time.as_nanos() as f64 / count as f64;
        Ok((count, an_item(wall), an_item(cpu)))
    }
}
