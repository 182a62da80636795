//! How fresh an answer has to be: what the configuration and the client require, and what the answer
//! then says.

use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime};

use lookaside_http::{Reply, Request};
use lookaside_knowledge::{Contract, Coverage, Freshness, LogPosition, Session};

use super::super::answers::Expiry;
use super::super::lookup::{Lookup, Prepared};
use super::super::problem::Problem;
use crate::config::{ClientFreshness, OnBehind};

/// The request header with the longest time since which changes may be missing in the answer.
const MAX_STALENESS: &str = "Lookaside-Max-Staleness";

/// The request header with a position whose commits the answer has to include.
const MIN_POSITION: &str = "Lookaside-Min-Position";

/// The response headers.
const FRESH_AS_OF: &str = "Lookaside-Fresh-As-Of";
const POSITION: &str = "Lookaside-Position";

/// What an answer of a provider with a change feed includes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// All changes that were visible in the database then. A moment, not an age: the answer may be
    /// written later than it was found.
    pub(super) fresh_as_of: Instant,
    pub(super) position: Option<LogPosition>,
    /// Whether the change feed tells it.
    is_live: bool,
}

impl Claim {
    /// What an answer includes; `None` if its provider has no change feed. `coverage` is that of
    /// before the answer was found to be valid.
    pub(super) fn of(coverage: &Coverage, expiry: &Expiry) -> Option<Self> {
        let asked = expiry.fresh_as_of.filter(|_| coverage.is_followed)?;
        // A feed that has just begun has no position yet.
        let is_live = expiry.version.is_tracked() && coverage.position.is_some();
        let horizon = coverage.horizon.filter(|_| is_live);
        Some(Self {
            fresh_as_of: horizon.map_or(asked, |at| at.max(asked)),
            position: coverage.position.filter(|_| horizon.is_some()),
            is_live: horizon.is_some(),
        })
    }

    /// Whether the change feed tells it, for `X-Cache`.
    pub(super) fn is_live(&self) -> bool {
        self.is_live
    }

    /// Writes the headers.
    pub(super) fn write<'a>(&self, reply: Reply<'a>, text: &mut String) -> Reply<'a> {
        // In this order, so that a pause between the two makes the answer older.
        let now = SystemTime::now();
        let age = self.fresh_as_of.elapsed();
        let at = now.checked_sub(age);
        let at = at.and_then(|at| jiff::Timestamp::try_from(at).ok());
        text.clear();
        if let Some(at) = at {
            write!(text, "{at:.3}; ").expect("a string takes any text");
        }
        let millis = age.as_nanos().div_ceil(1_000_000);
        write!(text, "within={millis}").expect("a string takes any text");
        let reply = reply.header(FRESH_AS_OF, text.as_str());
        let Some(position) = self.position else {
            return reply;
        };
        text.clear();
        write!(text, "{position}").expect("a string takes any text");
        reply.header(POSITION, text.as_str())
    }
}

/// What an answer has to be like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requirement {
    pub(super) freshness: Freshness,
    /// A position that the client demands and that is not known to be in the server's log: the server
    /// is asked before it is queried. No cached answer includes it.
    pub(super) unconfirmed: Option<LogPosition>,
}

/// What the configuration and the client require of an answer.
pub(super) fn required(
    lookup: &Lookup,
    coverage: &Coverage,
    limit: ClientFreshness,
    request: &Request<'_>,
) -> Result<Requirement, Problem> {
    let mut requirement = Requirement {
        freshness: lookup.freshness(),
        unconfirmed: None,
    };
    if !lookup.is_remote() || limit == ClientFreshness::Off {
        return Ok(requirement);
    }
    let mut demanded = demanded_time(limit, request)?;
    let mut positions = request.header_values(MIN_POSITION);
    if let Some(value) = positions.next() {
        if positions.next().is_some() {
            let detail = format!("{MIN_POSITION} is sent twice; send the greater one");
            return Err(Problem::new(400, "a header cannot be read").detail(detail));
        }
        let position = min_position(value)?;
        if let Some(end) = coverage.log_end {
            check_server(position, end)?;
        }
        let is_known = |end: LogPosition| position.position <= end.position;
        requirement.unconfirmed = (!coverage.log_end.is_some_and(is_known)).then_some(position);
        demanded = demanded.and(Contract::after(position.position));
    }
    let contract = &mut requirement.freshness.contract;
    *contract = contract.and(demanded);
    Ok(requirement)
}

/// What a cached answer has to be like that may be used, or cause a refusal, while the change feed of
/// its provider is behind; `None` if the database is queried then. An answer that includes what the
/// database shows now is always queried, and so is any answer while the feed is not behind: the next
/// horizon is only some milliseconds away.
pub(super) fn behind(
    lookup: &Lookup,
    prepared: &Prepared,
    session: &Session,
    required: Freshness,
) -> Option<Freshness> {
    let contract = required.contract;
    let is_for_feed = lookup.config.on_behind != OnBehind::Ask
        && contract != Contract::ANY
        && contract.within != Some(Duration::ZERO);
    (is_for_feed && session.is_feed_behind(&prepared.statement)).then_some(Freshness {
        contract: Contract::ANY,
        ..required
    })
}

/// The problem of an answer that is not used because the change feed is behind.
pub(super) fn refused() -> Problem {
    let detail = "the cached answer does not include what is required, and on_behind of the lookup is \
                  \"refuse\"; retry, or allow older answers";
    Problem::new(503, "the change feed is behind")
        .detail(detail)
        .retry_after(1)
}

/// What the client requires of all lookups of a model.
pub(super) fn required_of_model(
    limit: ClientFreshness,
    request: &Request<'_>,
) -> Result<Contract, Problem> {
    if limit == ClientFreshness::Off {
        return Ok(Contract::ANY);
    }
    if request.header(MIN_POSITION).is_some() {
        let detail = format!(
            "{MIN_POSITION} is the position of one server, and the lookups of a model may query \
             several; send {MAX_STALENESS} instead"
        );
        return Err(Problem::new(400, "a header cannot be used here").detail(detail));
    }
    demanded_time(limit, request)
}

/// How long before the request a change may have become visible without being in the answer.
fn demanded_time(limit: ClientFreshness, request: &Request<'_>) -> Result<Contract, Problem> {
    let mut demanded = Contract::ANY;
    for value in request.header_values("Cache-Control") {
        demanded = demanded.and(cache_control(value));
    }
    for value in request.header_values(MAX_STALENESS) {
        let text = std::str::from_utf8(value).unwrap_or_default();
        let contract = text.trim().parse::<Contract>().map_err(|error| {
            Problem::new(400, "a header cannot be read").detail(format!("{MAX_STALENESS} {error}"))
        })?;
        demanded = demanded.and(contract);
    }
    Ok(limit.bounded(demanded))
}

/// The directives of RFC 9111 for requests; others do not concern this cache. As that recommends for
/// responses, a time that cannot be read counts as 0.
fn cache_control(value: &[u8]) -> Contract {
    let mut contract = Contract::ANY;
    for part in value.split(|byte| *byte == b',') {
        let part = part.trim_ascii().to_ascii_lowercase();
        let part = std::str::from_utf8(&part).unwrap_or_default();
        let directive = match part.split_once('=') {
            None if matches!(part, "no-cache" | "max-age") => Contract::NOW,
            Some(("no-cache", _)) => Contract::NOW,
            Some(("max-age", seconds)) => match seconds.trim_matches('"') {
                "" => Contract::NOW,
                seconds if seconds.bytes().all(|it| it.is_ascii_digit()) => {
                    // So many seconds that they are not a number are no limit.
                    let time = seconds.parse().map_or(Duration::MAX, Duration::from_secs);
                    Contract::within(time)
                }
                _ => Contract::NOW,
            },
            _ => Contract::ANY,
        };
        contract = contract.and(directive);
    }
    contract
}

fn min_position(value: &[u8]) -> Result<LogPosition, Problem> {
    let text = std::str::from_utf8(value).unwrap_or_default().trim();
    text.parse::<LogPosition>().map_err(|()| {
        Problem::new(400, "a header cannot be read").detail(format!(
            "{MIN_POSITION} must be written pg:SYSTEM:TIMELINE:POSITION, as {POSITION} is"
        ))
    })
}

/// Refuses a position of another server or timeline than that of the log which ends at `end`.
fn check_server(position: LogPosition, end: LogPosition) -> Result<(), Problem> {
    if (end.system_id, end.timeline) == (position.system_id, position.timeline) {
        return Ok(());
    }
    let detail = format!(
        "this server has the system identifier {} and the timeline {}",
        end.system_id, end.timeline
    );
    Err(Problem::new(412, "the position is of another server").detail(detail))
}

/// Refuses a position that is not in the log which ends at `end`.
pub(super) fn check_position(position: LogPosition, end: LogPosition) -> Result<(), Problem> {
    check_server(position, end)?;
    if position.position <= end.position {
        return Ok(());
    }
    let detail = format!(
        "the log of this server ends at {end}; read a position after the commit that it stands for, \
         on the server that answers queries"
    );
    Err(Problem::new(412, "the position is not in the log of the server").detail(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_of_requests_are_read() {
        let within = |seconds| Contract::within(Duration::from_secs(seconds));
        for (value, expected) in [
            ("no-cache", Contract::NOW),
            ("No-Cache", Contract::NOW),
            ("max-age=0", Contract::NOW),
            ("max-age=5", within(5)),
            ("max-age=\"5\"", within(5)),
            ("no-store, max-age=7", within(7)),
            ("max-age=7, max-age=3", within(3)),
            (
                "max-age=99999999999999999999",
                Contract::within(Duration::MAX),
            ),
            ("max-age=x", Contract::NOW),
            ("max-age=-1", Contract::NOW),
            ("max-age=0.5", Contract::NOW),
            ("max-age=", Contract::NOW),
            ("max-age", Contract::NOW),
            ("no-cache=\"set-cookie, x\"", Contract::NOW),
            ("max-ages=5", Contract::ANY),
            ("", Contract::ANY),
            (",,", Contract::ANY),
            ("only-if-cached", Contract::ANY),
        ] {
            assert_eq!(cache_control(value.as_bytes()), expected, "{value}");
        }
    }
}
