//! What of a contract the product is asked for. A new contract of the product is added here, and
//! nowhere else.

use lookaside_knowledge::{Contract as ProductContract, Freshness, LogPosition, Position};
use lookaside_verify::history::Contract;
use lookaside_verify::run::Request;

/// The cluster that positions of its log belong to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cluster {
    pub(super) system_id: u64,
    pub(super) timeline: u32,
}

/// What the product is asked for. A read after a position is one of `any` as long as no writer of the
/// key has passed one on.
pub(super) fn demand(request: &Request) -> Freshness {
    let contract = match (request.contract, request.token) {
        (Contract::Within(duration), _) => ProductContract::Within(duration),
        (Contract::Now, _) => ProductContract::Now,
        (Contract::After, Some(token)) => ProductContract::After(Position(token.0.get())),
        _ => ProductContract::Any,
    };
    contract.into()
}

/// The header that asks the product's HTTP service for the same, with its line end.
pub(super) fn header(freshness: Freshness, cluster: Cluster) -> String {
    match freshness.contract {
        ProductContract::Within(duration) => {
            format!("Lookaside-Max-Staleness: {}ms\r\n", duration.as_millis())
        }
        ProductContract::Now => "Cache-Control: no-cache\r\n".to_owned(),
        ProductContract::After(position) => {
            let position = LogPosition {
                system_id: cluster.system_id,
                timeline: cluster.timeline,
                position,
            };
            format!("Lookaside-Min-Position: {position}\r\n")
        }
        _ => String::new(),
    }
}
