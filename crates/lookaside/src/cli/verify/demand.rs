//! What of a contract the product is asked for. A new contract of the product is added here, and
//! nowhere else.

use std::time::Duration;

use lookaside_verify::history::{Contract, Layer};
use lookaside_verify::run::Request;

/// What a reader asks the product for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// An answer as caches keep it.
    Any,
    /// An answer that is not older.
    AgeMax(Duration),
}

/// The strongest demand that the product offers at the layer of a request and that its contract
/// includes. A contract that the product cannot promise yet is asked for as [`Demand::Any`]: the check
/// finds the answers that break it.
pub(super) fn demand(request: &Request) -> Demand {
    match (request.contract, request.layer) {
        // Only the interface for services takes an age.
        (Contract::Within(duration), Layer::L0 | Layer::L1) => Demand::AgeMax(duration),
        _ => Demand::Any,
    }
}
