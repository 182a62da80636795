//! The check gives what a plain one gives, which looks at all writes and reads for each read.

use std::collections::BTreeMap;
use std::time::Duration;

use lookaside_verify::check::{CheckOptions, Rule, check};
use lookaside_verify::fault::{FaultPlan, PhaseId};
use lookaside_verify::history::{
    Contract, Contracts, History, Key, Layer, Position, Presence, Read, Recorder, RecorderLimits,
    SessionId, Source, State, Time, Version, Write, WriteOutcome,
};

const CONTRACTS: [Contract; 4] = [
    Contract::Any,
    Contract::Within(Duration::from_micros(10)),
    Contract::After,
    Contract::Now,
];

/// A few operations of one key within 100 µs, with little sense.
fn history(random: &mut fastrand::Rng) -> History {
    let contracts = Contracts::new(CONTRACTS).unwrap();
    let mut recorder = Recorder::new(RecorderLimits::default());
    let interval = |random: &mut fastrand::Rng| {
        let begin = random.u64(0..100_000);
        (begin, begin + random.u64(0..20_000))
    };
    let position = |random: &mut fastrand::Rng| random.u64(0..12).try_into().ok().map(Position);
    for version in 0..random.u32(1..10) {
        let (begin, end) = interval(random);
        let state = match random.u32(0..3) {
            0 => State::absent(version),
            _ => State::present(version),
        };
        let outcome = match random.u32(0..16) {
            0 => WriteOutcome::Aborted(Some(state)),
            1 => WriteOutcome::Unknown(Some(state)),
            2 if random.bool() => WriteOutcome::Unknown(None),
            _ => WriteOutcome::Acknowledged(state),
        };
        let write = Write {
            key: Key(1),
            begin: Time::from_nanos(begin),
            end: Time::from_nanos(end),
            outcome,
            position: position(random),
            writer: 0,
            phase: PhaseId::default(),
        };
        recorder.write(write).unwrap();
    }
    for _ in 0..random.u32(1..15) {
        let (begin, end) = interval(random);
        let contract = CONTRACTS[random.usize(0..CONTRACTS.len())];
        let claim = random.u64(0..100_000);
        let read = Read {
            key: Key(1),
            version: (!random.bool()).then(|| Version(random.u32(0..9))),
            begin: Time::from_nanos(begin),
            end: Time::from_nanos(end),
            contract: contracts.id(contract).unwrap(),
            token: position(random),
            layer: Layer::L0,
            session: SessionId(random.u16(0..3)),
            fresh_as_of: random.bool().then(|| Time::from_nanos(claim)),
            phase: PhaseId::default(),
            source: Source::Memory,
        };
        recorder.read(&read).unwrap();
    }
    let plan = FaultPlan::quiet(Duration::from_secs(1));
    History::merge(contracts, plan, PhaseId::default(), vec![recorder]).unwrap()
}

fn state(write: &&Write) -> Option<State> {
    write.outcome.state()
}

/// The newest version of the acknowledged writes that a condition selects.
fn newest(history: &History, is_selected: impl Fn(&Write) -> bool) -> Option<Version> {
    let writes = history.writes().iter();
    let acknowledged =
        writes.filter(|it| matches!(it.outcome, WriteOutcome::Acknowledged(_)) && is_selected(it));
    acknowledged
        .filter_map(|it| it.outcome.state())
        .map(|it| it.version)
        .max()
}

/// The versions that an answer can be, in ascending order. If there is none, the violated rule; no rule
/// if the answer has no row and a write without a known state may explain it.
fn candidates(history: &History, read: &Read) -> Result<Vec<Version>, Option<Rule>> {
    let attempts = history.writes().iter();
    let begun = |it: &&Write| it.begin <= read.end;
    let is_aborted = |it: &Write| matches!(it.outcome, WriteOutcome::Aborted(_));
    let may_be_any = (attempts.clone())
        .any(|it| it.outcome == WriteOutcome::Unknown(None) && it.begin <= read.end);
    let presence = match read.version {
        Some(_) => Presence::Present,
        None => Presence::Absent,
    };
    let of_presence = attempts.clone().filter(|it| {
        let is_version = |version| read.version.is_none_or(|read| read == version);
        state(it).is_some_and(|state| state.presence == presence && is_version(state.version))
    });
    let possible = of_presence
        .clone()
        .filter(|it| begun(it) && !is_aborted(it));
    let mut versions: Vec<_> = possible
        .filter_map(|it| state(&it))
        .map(|it| it.version)
        .collect();
    versions.sort_unstable();
    let acknowledged = newest(history, |it| {
        state(&it).map(|it| it.version) == read.version
    });
    match read.version {
        None if may_be_any => return Err(None),
        Some(version) if may_be_any && acknowledged.is_none() => return Ok(vec![version]),
        _ => {}
    }
    if !versions.is_empty() {
        return Ok(versions);
    }
    let rule = match read.version {
        None => Rule::Unwritten,
        Some(_) if of_presence.clone().any(|it| !is_aborted(it)) => Rule::Future,
        Some(_) if of_presence.clone().any(|it| begun(&it)) => Rule::Aborted,
        Some(_) => Rule::Unwritten,
    };
    Err(Some(rule))
}

fn plain_check(history: &History) -> BTreeMap<Rule, u64> {
    let mut counts = BTreeMap::new();
    let mut count = |rule| *counts.entry(rule).or_default() += 1;
    // Each read with the oldest version that it can have shown under `now`, and to its session.
    let mut shown: Vec<(Read, Version, Version)> = Vec::new();
    for read in history.reads() {
        let versions = match candidates(history, &read) {
            Ok(versions) => versions,
            Err(rule) => {
                rule.into_iter().for_each(&mut count);
                if rule.is_none() && read.fresh_as_of.is_some_and(|claim| claim > read.end) {
                    count(Rule::FutureClaim);
                }
                continue;
            }
        };
        let contract = history.contracts().contract(read.contract).unwrap();
        let claimed = read
            .fresh_as_of
            .and_then(|claim| newest(history, |it| it.end < claim));
        let mut bounds = vec![(Rule::Claim, claimed)];
        match contract {
            Contract::Within(duration) => {
                let from = read.begin.before(duration);
                bounds.push((Rule::Within, newest(history, |it| it.end < from)));
            }
            Contract::After => {
                let covers = |it: &Write| it.position.is_some() && it.position <= read.token;
                let newest = newest(history, |it| covers(it) && it.end < read.begin);
                bounds.push((Rule::After, newest));
            }
            Contract::Now => {
                let acknowledged = newest(history, |it| it.end < read.begin);
                let is_earlier = |it: &Read| it.contract == read.contract && it.end < read.begin;
                let earlier = shown.iter().filter(|it| is_earlier(&it.0));
                let earlier = earlier.map(|(_, now, _)| *now).max();
                bounds.push((Rule::Now, acknowledged.max(earlier)));
            }
            _ => {}
        }
        let is_earlier =
            |it: &Read| it.session == read.session && it.end <= read.begin && it.begin < read.begin;
        let earlier = shown.iter().filter(|it| is_earlier(&it.0));
        bounds.push((Rule::Session, earlier.map(|(_, _, session)| *session).max()));
        if read.fresh_as_of.is_some_and(|claim| claim > read.end) {
            count(Rule::FutureClaim);
        }
        let (mut of_now, mut of_session) = (Version::default(), Version::default());
        for (rule, bound) in bounds {
            let Some(bound) = bound else { continue };
            match (versions.iter().any(|it| *it >= bound), rule) {
                (false, _) => count(rule),
                (true, Rule::Now) => of_now = bound,
                (true, Rule::Session) => of_session = bound,
                (true, _) => {}
            }
        }
        let oldest = |bound| {
            let candidates = versions.iter().copied();
            let mut possible = candidates.filter(|it| *it >= bound || read.version.is_some());
            possible.next().expect("a satisfied bound has a version")
        };
        shown.push((read, oldest(of_now), oldest(of_session)));
    }
    counts
}

#[test]
fn the_check_agrees_with_a_plain_one() {
    let mut totals: BTreeMap<Rule, u64> = BTreeMap::new();
    for seed in 0..20_000 {
        let history = history(&mut fastrand::Rng::with_seed(seed));
        let report = check(&history, &CheckOptions::default());
        let expected = plain_check(&history);
        assert_eq!(
            report.violation_counts, expected,
            "seed {seed}: {history:#?}"
        );
        for (rule, count) in expected {
            *totals.entry(rule).or_default() += count;
        }
    }
    // All rules but those of the quiet end.
    assert_eq!(totals.len(), 9, "{totals:?}");
    assert!(totals.values().all(|count| *count > 500), "{totals:?}");
}
