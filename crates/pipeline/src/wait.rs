//! How a thread waits for items, and for how long it spins first.

use std::sync::OnceLock;
use std::thread::available_parallelism;
use std::time::Instant;

/// What a stage's thread does while it has no items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Spins. The quickest to notice an item, at the price of a core that is never idle; with fewer
    /// cores than threads it takes the core from the thread it waits for.
    Spin,
    /// Sleeps when no item is upstream of this stage, and spins while there is one: under load, no
    /// thread of the pipeline has to wake another one. It also needs a core per thread; past its
    /// spin limit a thread yields its core in each round.
    UpstreamIdle,
    /// Sleeps when its own input is empty, after a short spin. Suitable for any machine, and for
    /// items that take long.
    #[default]
    StageEmpty,
}

/// How long to spin if each thread has a core: longer than going to sleep and being woken takes (an
/// estimate), so that a thread never sleeps for less than that.
const SPIN_NS_OWN_CORE: u32 = 20_000;

/// How long to spin if threads share cores: some dozens of pauses. Longer spins cost throughput
/// there, as the awaited thread may not run meanwhile.
const SPIN_NS_SHARED_CORE: u32 = 700;

/// A few times the round trip of a cache line to another core, an estimate.
const PAUSE_NS: u32 = 1_000;

/// The most rounds that a thread pauses so that it does not take a cache line from another core too
/// often.
pub(crate) fn pause_count_max() -> u32 {
    PAUSE_NS / round_ns()
}

/// How many rounds the threads of a pipeline with `thread_count` threads spin; one more thread is
/// assumed for a producer.
pub(crate) fn spin_count_max(thread_count: usize) -> u32 {
    // It respects the affinity mask and the CPU quota of the control group.
    let core_count = available_parallelism().map_or(1, usize::from);
    let spin_ns = if core_count > thread_count {
        SPIN_NS_OWN_CORE
    } else {
        SPIN_NS_SHARED_CORE
    };
    spin_ns / round_ns()
}

/// The duration of one round of spinning: a pause is 4 to 140 cycles, depending on the processor.
fn round_ns() -> u32 {
    static ROUND_NS: OnceLock<u32> = OnceLock::new();
    *ROUND_NS.get_or_init(|| {
        const ROUND_COUNT: u32 = 256;
        // The minimum of a few samples: a thread that is preempted during a sample measures too
        // much.
        let sample = || {
            let start = Instant::now();
            (0..ROUND_COUNT).for_each(|_| std::hint::spin_loop());
            start.elapsed().as_nanos() as u32 / ROUND_COUNT
        };
        (0..5).map(|_| sample()).min().unwrap_or(1).max(1)
    })
}
