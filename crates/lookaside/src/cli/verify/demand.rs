//! What of a contract the product is asked for. A new contract of the product is added here, and
//! nowhere else.

use std::time::Duration;

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
/// key has passed one on; of every second key, a second contract is combined with it.
pub(super) fn demand(request: &Request) -> Freshness {
    let contract = match (request.contract, request.token) {
        (Contract::Within(duration), _) => ProductContract::within(duration),
        (Contract::Now, _) => ProductContract::NOW,
        (Contract::After, Some(token)) => {
            let after = ProductContract::after(Position(token.0.get()));
            match request.key.0 % 2 {
                0 => after,
                _ => after.and(ProductContract::within(Duration::from_secs(1))),
            }
        }
        _ => ProductContract::ANY,
    };
    contract.into()
}

/// The header that asks the product's HTTP service for the same, with its line end.
pub(super) fn header(freshness: Freshness, cluster: Cluster) -> String {
    let ProductContract { within, after } = freshness.contract;
    let mut lines = match within {
        None => String::new(),
        Some(Duration::ZERO) => "Cache-Control: no-cache\r\n".to_owned(),
        Some(time) => format!("Lookaside-Max-Staleness: {}ms\r\n", time.as_millis()),
    };
    if let Some(position) = after {
        let position = LogPosition {
            system_id: cluster.system_id,
            timeline: cluster.timeline,
            position,
        };
        lines.push_str(&format!("Lookaside-Min-Position: {position}\r\n"));
    }
    lines
}
