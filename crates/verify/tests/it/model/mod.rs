//! A simulated database and cache, in one thread, with a virtual clock and a seed: the checker is
//! tested on histories whose errors are known.

mod cache;
mod database;
mod feed;
mod protocol;
mod simulation;

pub(crate) use protocol::{Mutant, Protocol, Switches};
pub(crate) use simulation::{WITHIN, simulate};
