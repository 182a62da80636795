//! What the rivals of our drivers have in common: command line, keys, clocks, workers, one line of
//! JSON a run.

pub mod arguments;
pub mod keys;
pub mod measure;
pub mod server;
pub mod work;

/// The allocator that our own program uses, so that it is no difference between the two.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
