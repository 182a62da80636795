//! The checker finds what is wrong with a protocol, and nothing in the right one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lookaside_verify::check::{CheckOptions, Figures, Report, Rule, check};
use lookaside_verify::history::{Contract, History};

use crate::model::{Mutant, Protocol, Switches, WITHIN, simulate};

/// A simulation is the same for the same seed, so that a test that passes does so always.
const SEEDS: [u64; 3] = [1, 2, 3];

/// Simulated time with writers: some 60,000 reads.
const DURATION: Duration = Duration::from_secs(12);

fn checked(switches: Switches, seed: u64, duration: Duration) -> (History, Report) {
    let history = simulate(switches, seed, duration);
    let report = check(&history, &CheckOptions::default());
    (history, report)
}

fn violation_count(report: &Report, contract: Contract) -> u64 {
    let cells = report.cells.iter();
    let cells = cells.filter(|(cell, _)| cell.contract == contract);
    cells.map(|(_, figures)| figures.violation_count).sum()
}

#[test]
fn the_right_protocol_passes() {
    for seed in SEEDS {
        let switches = Protocol::GateWithLeases.switches();
        let (history, report) = checked(switches, seed, DURATION);
        let texts: Vec<_> = report.violations.iter().map(ToString::to_string).collect();
        assert!(report.is_clean(), "seed {seed}: {texts:#?}");
        assert!(report.quiet_count > 1000 && history.read_count() > 50_000);
        // It keeps its contracts not only by asking the database for everything.
        for (cell, figures) in &report.cells {
            let min = match cell.contract {
                Contract::Now => 0,
                _ => figures.read_count / 20,
            };
            assert!(figures.memory_count >= min, "seed {seed}: {cell:?}");
            assert!(figures.recent_count > 1000, "seed {seed}: {cell:?}");
        }
    }
}

#[test]
fn a_time_to_live_keeps_any_and_breaks_within() {
    for seed in SEEDS {
        let (_, report) = checked(Protocol::TtlOnly.switches(), seed, DURATION);
        assert_eq!(violation_count(&report, Contract::Any), 0, "seed {seed}");
        assert!(violation_count(&report, WITHIN) > 1000, "seed {seed}");
        // Its claims are true, and it ends with the database's state.
        let rules: Vec<_> = report.violation_counts.keys().copied().collect();
        assert_eq!(rules, [Rule::Within, Rule::After, Rule::Now], "seed {seed}");
    }
}

#[test]
fn invalidation_on_arrival_is_found() {
    for protocol in [Protocol::InvalidateOnArrival, Protocol::ArrivalWithLeases] {
        for seed in SEEDS {
            let (_, report) = checked(protocol.switches(), seed, DURATION);
            let is_found = report.violation_counts.contains_key(&Rule::Within);
            assert!(is_found, "{protocol:?}, seed {seed}");
        }
    }
}

#[test]
fn notifications_without_leases_leave_outdated_answers() {
    for seed in SEEDS {
        let (_, report) = checked(Protocol::ListenNotify.switches(), seed, DURATION);
        assert!(violation_count(&report, WITHIN) > 0, "seed {seed}");
    }
}

/// The table of each protocol; `--nocapture` shows it.
#[test]
#[expect(clippy::print_stdout, reason = "the table is what it is for")]
fn protocols_are_compared() {
    println!("| protocol | contract | reads | from memory | outdated | p99 | max | violations |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for protocol in Protocol::ALL {
        let mut contracts: BTreeMap<Contract, Figures> = BTreeMap::new();
        for seed in SEEDS {
            let (_, report) = checked(protocol.switches(), seed, DURATION);
            for (cell, figures) in &report.cells {
                contracts.entry(cell.contract).or_default().add(figures);
            }
        }
        for (contract, figures) in &contracts {
            let share = 100 * figures.memory_count / figures.read_count.max(1);
            let staleness = &figures.staleness;
            println!(
                "| {protocol:?} | {contract} | {} | {share} % | {} | {:.1?} | {:.1?} | {} |",
                figures.read_count,
                staleness.stale_count(),
                staleness.quantile(0.99),
                staleness.max(),
                figures.violation_count
            );
        }
        let is_right = contracts.values().all(|it| it.violation_count == 0);
        assert_eq!(
            is_right,
            protocol == Protocol::GateWithLeases,
            "{protocol:?}"
        );
    }
}

#[test]
fn every_mutant_is_found() {
    let of_stale_entries = [Rule::Claim, Rule::Within, Rule::After, Rule::Session];
    for mutant in Mutant::ALL {
        let (duration, rules) = match mutant {
            // One event of a thousand is one in a second.
            Mutant::EventsDropped => (Duration::from_secs(20), &of_stale_entries[..]),
            Mutant::AfterJoinsFlights => (DURATION, &[Rule::After][..]),
            Mutant::SessionTakesAnyFlight => (DURATION, &[Rule::Session][..]),
            _ => (DURATION, &of_stale_entries[..]),
        };
        for seed in SEEDS {
            let (_, report) = checked(mutant.switches(), seed, duration);
            let found: BTreeSet<_> = report.violation_counts.keys().copied().collect();
            assert!(
                !found.is_empty(),
                "{mutant:?} is not found with seed {seed}"
            );
            let is_expected = found.iter().all(|rule| rules.contains(rule));
            assert!(is_expected, "{mutant:?}, seed {seed}: {found:?}");
        }
    }
}
