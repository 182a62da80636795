//! Each rule with histories made by hand: one that passes and one that fails.

use super::*;
use crate::fault::{FaultKind, FaultPlan, PhaseId, PlanOptions};
use crate::history::{
    Contracts, Layer, Position, QuietEnd, Recorder, RecorderLimits, Source, State, Write,
    WriteOutcome,
};

const KEY: Key = Key(1);
const SECOND: u64 = 1_000_000_000;
const CONTRACTS: [Contract; 4] = [
    Contract::Any,
    Contract::Within(Duration::from_nanos(50)),
    Contract::After,
    Contract::Now,
];

/// A history of one key. Moments are nanoseconds. Version 1 is there before the run.
struct Builder {
    recorder: Recorder,
    contracts: Contracts,
    plan: FaultPlan,
    phase: PhaseId,
    quiet_end: Option<QuietEnd>,
}

impl Builder {
    fn new() -> Self {
        let builder = Self {
            recorder: Recorder::new(RecorderLimits::default()),
            contracts: Contracts::new(CONTRACTS).unwrap(),
            plan: FaultPlan::quiet(Duration::from_secs(1)),
            phase: PhaseId::default(),
            quiet_end: None,
        };
        builder.write(0, 0, WriteOutcome::Acknowledged(State::present(1)))
    }

    fn write(self, begin: u64, end: u64, outcome: WriteOutcome) -> Self {
        self.write_at(begin, end, outcome, 0)
    }

    fn write_at(mut self, begin: u64, end: u64, outcome: WriteOutcome, position: u64) -> Self {
        let write = Write {
            key: KEY,
            begin: Time::from_nanos(begin),
            end: Time::from_nanos(end),
            outcome,
            position: position.try_into().ok().map(Position),
            writer: 0,
            phase: self.phase,
        };
        self.recorder.write(write).unwrap();
        self
    }

    fn ok(self, begin: u64, end: u64, version: u32) -> Self {
        self.write(
            begin,
            end,
            WriteOutcome::Acknowledged(State::present(version)),
        )
    }

    fn read(self, contract: Contract, begin: u64, end: u64, version: u32) -> Self {
        self.read_with(contract, begin, end, Some(version), |_| {})
    }

    fn read_with(
        mut self,
        contract: Contract,
        begin: u64,
        end: u64,
        version: Option<u32>,
        change: impl FnOnce(&mut Read),
    ) -> Self {
        let mut read = Read {
            key: KEY,
            version: version.map(Version),
            begin: Time::from_nanos(begin),
            end: Time::from_nanos(end),
            contract: self.contracts.id(contract).unwrap(),
            token: None,
            layer: Layer::Batch,
            // Each read has its own session, but for those of the rule of sessions.
            session: SessionId(begin as u16),
            fresh_as_of: None,
            phase: self.phase,
            source: Source::Memory,
        };
        change(&mut read);
        self.recorder.read(&read).unwrap();
        self
    }

    fn quiet_end(mut self, since: u64, state: State) -> Self {
        self.quiet_end = Some(QuietEnd {
            since: Time::from_nanos(since),
            states: [(KEY, state)].into(),
        });
        self
    }

    fn report(self) -> Report {
        let recorders = vec![self.recorder];
        let mut history = History::merge(self.contracts, self.plan, self.phase, recorders).unwrap();
        if let Some(quiet_end) = self.quiet_end {
            history.set_quiet_end(quiet_end);
        }
        check(&history, &CheckOptions::default())
    }

    #[track_caller]
    fn expect(self, rules: &[Rule]) {
        let report = self.report();
        let found: Vec<_> = report.violations.iter().map(|it| it.rule).collect();
        assert_eq!(found, rules, "{:#?}", report.violations);
    }
}

const WITHIN: Contract = CONTRACTS[1];

#[test]
fn a_read_shows_what_a_write_made() {
    let written = || Builder::new().ok(10, 20, 2);
    written().read(Contract::Any, 30, 31, 2).expect(&[]);
    // Whatever is visible before its acknowledgement may be read.
    written().read(Contract::Any, 11, 12, 2).expect(&[]);
    written().read(Contract::Any, 30, 31, 1).expect(&[]);
    written()
        .read(Contract::Any, 30, 31, 3)
        .expect(&[Rule::Unwritten]);
    written()
        .read(Contract::Any, 8, 9, 2)
        .expect(&[Rule::Future]);
}

#[test]
fn aborted_writes_are_not_read() {
    let aborted = WriteOutcome::Aborted(Some(State::present(2)));
    let written = || Builder::new().write(10, 20, aborted);
    written().read(Contract::Any, 30, 31, 1).expect(&[]);
    written()
        .read(Contract::Any, 30, 31, 2)
        .expect(&[Rule::Aborted]);
    // The next attempt gets the same version.
    let again = || written().ok(40, 50, 2);
    again().read(Contract::Any, 45, 46, 2).expect(&[]);
    again()
        .read(Contract::Any, 30, 31, 2)
        .expect(&[Rule::Future]);
}

#[test]
fn unknown_writes_may_have_happened() {
    for state in [Some(State::present(2)), None] {
        let written = || Builder::new().write(10, 20, WriteOutcome::Unknown(state));
        for version in [1, 2] {
            written().read(Contract::Now, 30, 31, version).expect(&[]);
        }
        let again = written().read(Contract::Now, 30, 31, 2);
        again.read(Contract::Now, 40, 41, 1).expect(&[Rule::Now]);
        let early = written().read(Contract::Any, 5, 6, 2).report();
        assert!(!early.is_clean());
    }
    // A version that was acknowledged is not that of the unknown write.
    let unknown = Builder::new().write(10, 20, WriteOutcome::Unknown(None));
    let both = unknown.ok(40, 50, 2);
    both.read(Contract::Any, 30, 31, 2).expect(&[Rule::Future]);
}

#[test]
fn within_bounds_the_age() {
    let written = || Builder::new().ok(10, 20, 2).ok(30, 40, 3);
    // Acknowledged 50 ns before, and 51.
    written().read(WITHIN, 70, 71, 1).expect(&[]);
    written().read(WITHIN, 71, 72, 1).expect(&[Rule::Within]);
    written().read(WITHIN, 90, 91, 2).expect(&[]);
    written().read(WITHIN, 91, 92, 2).expect(&[Rule::Within]);
    written().read(WITHIN, 2000, 2001, 3).expect(&[]);
}

#[test]
fn acknowledgements_may_come_out_of_order() {
    let written = || Builder::new().ok(10, 90, 2).ok(30, 40, 3);
    written()
        .read(Contract::Now, 50, 51, 2)
        .expect(&[Rule::Now]);
    written()
        .read(Contract::Now, 95, 96, 2)
        .expect(&[Rule::Now]);
    written().read(Contract::Now, 95, 96, 3).expect(&[]);
}

#[test]
fn a_claim_is_kept_whatever_the_contract() {
    let claimed = |claim: u64, version| {
        let written = Builder::new().ok(10, 2000, 2);
        written.read_with(Contract::Any, 9000, 9500, Some(version), |read| {
            read.fresh_as_of = Some(Time::from_nanos(claim));
        })
    };
    claimed(1500, 1).expect(&[]);
    claimed(5500, 1).expect(&[Rule::Claim]);
    claimed(5500, 2).expect(&[]);
    claimed(9501, 2).expect(&[Rule::FutureClaim]);
}

#[test]
fn after_covers_the_position() {
    let ok = |version| WriteOutcome::Acknowledged(State::present(version));
    let read = |token: u64, begin, version| {
        let written = Builder::new().write_at(10, 20, ok(2), 100);
        let written = written.write_at(30, 40, ok(3), 200);
        written.read_with(Contract::After, begin, begin + 1, Some(version), |read| {
            read.token = token.try_into().ok().map(Position);
        })
    };
    read(99, 90, 1).expect(&[]);
    read(100, 90, 2).expect(&[]);
    read(100, 90, 1).expect(&[Rule::After]);
    read(250, 90, 3).expect(&[]);
    read(250, 90, 2).expect(&[Rule::After]);
    // Version 3 was not acknowledged yet.
    read(250, 35, 2).expect(&[]);
    // Without a token nothing is demanded.
    read(0, 90, 1).expect(&[]);
}

#[test]
fn now_is_linearizable() {
    let written = || Builder::new().ok(10, 20, 2).ok(30, 60, 3);
    written().read(Contract::Now, 25, 26, 2).expect(&[]);
    written()
        .read(Contract::Now, 25, 26, 1)
        .expect(&[Rule::Now]);
    // During a write both versions are right, until one read has shown the new one.
    let shown = || written().read(Contract::Now, 40, 45, 3);
    shown().read(Contract::Now, 44, 46, 2).expect(&[]);
    shown().read(Contract::Now, 45, 46, 2).expect(&[]);
    shown().read(Contract::Now, 46, 47, 2).expect(&[Rule::Now]);
    shown().read(Contract::Any, 46, 47, 2).expect(&[]);
    written()
        .read(Contract::Now, 15, 29, 3)
        .expect(&[Rule::Future]);
}

#[test]
fn a_session_never_goes_back() {
    let read = |begin, version, session| {
        move |builder: Builder| {
            builder.read_with(Contract::Any, begin, begin + 2, Some(version), |read| {
                read.session = SessionId(session);
            })
        }
    };
    let written = || read(30, 2, 1)(Builder::new().ok(10, 20, 2));
    read(40, 2, 1)(written()).expect(&[]);
    read(40, 1, 1)(written()).expect(&[Rule::Session]);
    // Another session may, and so may a read that overlaps.
    read(40, 1, 2)(written()).expect(&[]);
    read(31, 1, 1)(written()).expect(&[]);
    read(32, 1, 1)(written()).expect(&[Rule::Session]);
}

#[test]
fn after_a_quiet_period_each_layer_shows_the_final_state() {
    let written = || Builder::new().ok(10, 20, 2);
    let quiet = || written().quiet_end(100, State::present(2));
    quiet().read(Contract::Any, 120, 121, 2).expect(&[]);
    quiet()
        .read(Contract::Any, 120, 121, 1)
        .expect(&[Rule::Quiet]);
    quiet().read(Contract::Any, 99, 121, 1).expect(&[]);
    let absent = || {
        let deleted = written().write(30, 40, WriteOutcome::Acknowledged(State::absent(3)));
        deleted.quiet_end(100, State::absent(3))
    };
    absent()
        .read_with(Contract::Any, 120, 121, None, |_| {})
        .expect(&[]);
    absent()
        .read(Contract::Any, 120, 121, 2)
        .expect(&[Rule::Quiet]);
    written()
        .quiet_end(100, State::present(1))
        .expect(&[Rule::Lost]);
}

#[test]
fn an_acknowledged_version_that_is_made_again_was_lost() {
    let builder = Builder::new().ok(10, 20, 2).ok(30, 40, 3).ok(50, 60, 3);
    builder
        .quiet_end(100, State::present(3))
        .expect(&[Rule::Lost]);
    // Without an acknowledgement it may be the same write.
    let builder =
        Builder::new()
            .ok(10, 20, 2)
            .write(30, 40, WriteOutcome::Unknown(Some(State::present(3))));
    builder
        .ok(50, 60, 3)
        .quiet_end(100, State::present(3))
        .expect(&[]);
}

#[test]
fn an_answer_without_a_row_is_the_oldest_version_that_explains_it() {
    let gone = |version| WriteOutcome::Acknowledged(State::absent(version));
    // Present 1, absent 2, present 3, absent 4, present 5.
    let written = || {
        let builder = Builder::new().write(10, 20, gone(2)).ok(30, 40, 3);
        builder.write(110, 120, gone(4)).ok(130, 140, 5)
    };
    let none = |builder: Builder, contract, begin: u64| {
        builder.read_with(contract, begin, begin + 1, None, |read| {
            read.session = SessionId(1)
        })
    };
    none(written(), Contract::Any, 5).expect(&[Rule::Unwritten]);
    none(written(), WITHIN, 85).expect(&[]);
    none(written(), WITHIN, 95).expect(&[Rule::Within]);
    // While version 4 is being written, the answer may be that.
    none(written(), WITHIN, 112).expect(&[]);
    none(written(), Contract::Now, 150).expect(&[Rule::Now]);
    // A session: no row (2), then version 3, then no row again (4), but not 3 any more.
    let session = |builder: Builder, begin: u64, version| {
        builder.read_with(Contract::Any, begin, begin + 1, Some(version), |read| {
            read.session = SessionId(1);
        })
    };
    let going = none(
        session(none(written(), Contract::Any, 25), 45, 3),
        Contract::Any,
        125,
    );
    session(going, 150, 3).expect(&[Rule::Session]);
    // A row of a version that has none.
    written()
        .read(Contract::Any, 25, 26, 2)
        .expect(&[Rule::Unwritten]);
}

#[test]
fn staleness_is_the_time_since_the_first_write_that_is_missing() {
    let written = Builder::new()
        .ok(10, SECOND, 2)
        .ok(2 * SECOND, 3 * SECOND, 3);
    let read =
        |builder: Builder, version| builder.read(Contract::Any, 5 * SECOND, 6 * SECOND, version);
    let report = read(read(read(written, 1), 2), 3).report();
    let (cell, figures) = report.cells.first_key_value().unwrap();
    assert_eq!(cell.layer, Layer::Batch);
    let staleness = &figures.staleness;
    assert_eq!(staleness.stale_count(), 2);
    assert_eq!(staleness.quantile(0.0), Duration::ZERO);
    assert_eq!(staleness.quantile(0.5).as_millis() / 100, 20);
    assert_eq!(staleness.max().as_millis() / 100, 40);
}

#[test]
fn counts_are_by_contract_layer_and_fault() {
    let options = PlanOptions::default();
    let plan = FaultPlan::new(&[FaultKind::Truncate], Duration::from_secs(1), &options).unwrap();
    let (fault, _) = plan.iter().nth(1).unwrap();
    let mut builder = Builder::new().ok(10, 20, 2).read(Contract::Any, 30, 31, 2);
    (builder.plan, builder.phase) = (plan, fault);
    // 50 ms after a change is recent, later is not.
    let builder = builder.read(Contract::Any, 20 + 50_000_000, 60_000_000, 2);
    let report = builder
        .read(Contract::Any, 21 + 50_000_000, 60_000_000, 2)
        .report();
    let counts = report.cells.iter().map(|(cell, figures)| {
        (
            cell.fault,
            figures.read_count,
            figures.recent_count,
            figures.memory_count,
        )
    });
    let counts: Vec<_> = counts.collect();
    assert_eq!(
        counts,
        [(None, 1, 1, 1), (Some(FaultKind::Truncate), 2, 1, 2)]
    );
}

#[test]
fn a_violation_is_a_paragraph() {
    let milli = 1_000_000;
    let written = Builder::new().ok(9 * milli, 10 * milli, 2);
    let report = written
        .read(Contract::Now, 75 * milli, 76 * milli, 1)
        .report();
    assert_eq!(
        report.violations[0].to_string(),
        "now: session 26816 read version 1 of key 1 through batch under now, from memory, from \
         0.075000 s to 0.076000 s, before any fault. It does not show the write of version 2 by \
         writer 0, begun at 0.009000 s and acknowledged at 0.010000 s, 65.0ms before the read \
         began. Expected: version 2 or newer."
    );
}
