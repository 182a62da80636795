//! Pipelines on real threads.

mod ends;
mod items;
mod order;
mod waiting;

use std::num::NonZeroU32;

use lookaside_pipeline::{StageOptions, Wait};

/// Small batches, so that there are many.
fn options(batch_max: u32, wait: Wait) -> StageOptions {
    let batch_max = NonZeroU32::new(batch_max).unwrap();
    StageOptions { batch_max, wait }
}
