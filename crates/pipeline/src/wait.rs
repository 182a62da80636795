//! How a thread waits for items, and for how long it does so awake.

use std::sync::OnceLock;
use std::thread::available_parallelism;
use std::time::Instant;

/// What a stage's thread does while it has no items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Stays awake. The quickest to notice an item, at the price of a core that is never idle; with
    /// fewer cores than threads it takes the core from the thread it waits for.
    Spin,
    /// Sleeps when nothing is anywhere before this stage, and stays awake while an item is on its
    /// way: no thread of the pipeline has to wake another one under load. Wants a core per thread,
    /// too; past its spin limit a thread yields its core in each round.
    UpstreamIdle,
    /// Sleeps when its own input is empty, after a short spin. Right on any machine, and for items
    /// that take long.
    #[default]
    StageEmpty,
}

/// How long to stay awake where each thread has a core: more than sleeping and being woken costs, which
/// is an estimate, so that a thread never sleeps for less than that.
const SPIN_NS_OWN_CORE: u32 = 20_000;

/// The same where threads share cores: some dozens of pauses. Longer spins cost throughput there, as the
/// thread that is waited for does not run meanwhile.
const SPIN_NS_SHARED_CORE: u32 = 700;

/// A few times what a cache line takes to another core and back, an estimate.
const PAUSE_NS: u32 = 1_000;

/// How many rounds a thread pauses at most that would otherwise take a line from another one too often.
pub(crate) fn pause_count_max() -> u32 {
    PAUSE_NS / round_ns()
}

/// How many rounds of waiting `thread_count` threads of a pipeline stay awake for, of which another
/// one is a producer outside of it.
pub(crate) fn spin_count_max(thread_count: usize) -> u32 {
    // It heeds the affinity mask and the quota of a control group.
    let core_count = available_parallelism().map_or(1, usize::from);
    let spin_ns = if core_count > thread_count {
        SPIN_NS_OWN_CORE
    } else {
        SPIN_NS_SHARED_CORE
    };
    spin_ns / round_ns()
}

/// What one round of waiting takes: a pause is 4 to 140 cycles, depending on the processor.
fn round_ns() -> u32 {
    static ROUND_NS: OnceLock<u32> = OnceLock::new();
    *ROUND_NS.get_or_init(|| {
        const ROUND_COUNT: u32 = 256;
        // The least of a few: a thread that loses its core in between measures something else.
        let sample = || {
            let start = Instant::now();
            (0..ROUND_COUNT).for_each(|_| std::hint::spin_loop());
            start.elapsed().as_nanos() as u32 / ROUND_COUNT
        };
        (0..5).map(|_| sample()).min().unwrap_or(1).max(1)
    })
}
