//! A run over a database in memory: a correct reader passes, and one with a cache that knows only an
//! age does not.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lookaside_verify::check::{CheckOptions, Evidence, Report, Rule, check};
use lookaside_verify::excerpt::excerpt;
use lookaside_verify::fault::{FaultKind, FaultPlan, PhaseSignal, PlanOptions};
use lookaside_verify::history::{
    Contract, History, Key, Layer, Position, Presence, RecorderLimits, Source, State, Version,
    WriteOutcome,
};
use lookaside_verify::run::{
    Answer, KeyDistribution, KeyLaw, Reader, Request, RunOptions, WriteConnection, Written, run,
};
use lookaside_verify::{Cause, ErrorKind};

const KEY_COUNT: u32 = 64;
const WITHIN: Contract = Contract::Within(Duration::from_millis(50));

/// Every fourth key is inserted and deleted in turn.
struct Database {
    states: Vec<Mutex<State>>,
    log_position: AtomicU64,
}

impl Database {
    fn new() -> Arc<Self> {
        let states = (0..KEY_COUNT).map(|_| Mutex::new(State::present(1)));
        Arc::new(Self {
            states: states.collect(),
            log_position: AtomicU64::new(1),
        })
    }

    fn state(&self, key: Key) -> State {
        *self.states[key.0 as usize].lock().unwrap()
    }

    fn row(&self, key: Key) -> Option<Version> {
        let state = self.state(key);
        (state.presence == Presence::Present).then_some(state.version)
    }
}

struct Connection(Arc<Database>);

impl WriteConnection for Connection {
    fn write(&mut self, key: Key) -> Written {
        let mut state = self.0.states[key.0 as usize].lock().unwrap();
        state.version.0 += 1;
        if key.0.is_multiple_of(4) {
            state.presence = match state.presence {
                Presence::Present => Presence::Absent,
                Presence::Absent => Presence::Present,
            };
        }
        let position = self.0.log_position.fetch_add(1, Ordering::SeqCst);
        Written {
            position: position.try_into().ok().map(Position),
            ..Written::new(WriteOutcome::Acknowledged(*state))
        }
    }

    fn states(&mut self, keys: &[Key]) -> Result<Vec<(Key, State)>, Cause> {
        Ok(keys.iter().map(|key| (*key, self.0.state(*key))).collect())
    }
}

/// A session with a cache whose entries are used for a time to live.
struct CachedReader {
    database: Arc<Database>,
    cache: HashMap<Key, Answer>,
    ttl: Duration,
}

impl Reader for CachedReader {
    fn read(&mut self, request: &Request) -> Result<Answer, Cause> {
        if request.layer == Layer::Http {
            return Err("connection refused".into());
        }
        let asked = Instant::now();
        if let Some(answer) = self.cache.get(&request.key)
            && answer.fresh_as_of.is_some_and(|it| asked - it < self.ttl)
        {
            return Ok(Answer {
                source: Source::Memory,
                ..*answer
            });
        }
        let answer = Answer {
            version: self.database.row(request.key),
            fresh_as_of: Some(asked),
            source: Source::Database,
        };
        self.cache.insert(request.key, answer);
        Ok(answer)
    }
}

fn options(reads: Vec<(Contract, Layer)>) -> RunOptions {
    let plan = PlanOptions {
        fault_length: Duration::from_millis(20)..=Duration::from_millis(40),
        ..PlanOptions::default()
    };
    let kinds = [FaultKind::Truncate, FaultKind::Reload];
    RunOptions {
        plan: FaultPlan::new(&kinds, Duration::from_millis(600), &plan).unwrap(),
        quiet: Duration::from_millis(300),
        keys: KeyDistribution {
            law: KeyLaw::Zipf,
            count: KEY_COUNT,
        },
        reads,
        write_pause: Duration::from_micros(500),
        read_pause: Duration::from_micros(50),
        seed: 1,
        limits: RecorderLimits::default(),
    }
}

fn run_with(options: &RunOptions, ttl: Duration) -> (History, Report) {
    let database = Database::new();
    let connections = (0..2).map(|_| Connection(Arc::clone(&database))).collect();
    let reader = || CachedReader {
        database: Arc::clone(&database),
        cache: HashMap::new(),
        ttl,
    };
    let signal = PhaseSignal::new();
    let history = run(options, connections, vec![reader(), reader()], &signal).unwrap();
    assert_eq!(signal.current(), history.announced());
    let report = check(&history, &CheckOptions::default());
    (history, report)
}

fn all_contracts() -> Vec<(Contract, Layer)> {
    let contracts = [Contract::Any, WITHIN, Contract::After, Contract::Now];
    contracts.map(|contract| (contract, Layer::L0)).into()
}

#[test]
fn a_reader_that_always_asks_keeps_every_contract() {
    let (history, report) = run_with(&options(all_contracts()), Duration::ZERO);
    let texts: Vec<_> = report.violations.iter().map(ToString::to_string).collect();
    assert!(report.is_clean(), "{texts:#?}");
    assert!(history.read_count() > 100 && history.writes().len() > KEY_COUNT as usize + 10);
    // Two sessions read each key under each contract at the end.
    assert!(report.quiet_count >= u64::from(2 * 4 * KEY_COUNT));
    let last = history.announced();
    assert_eq!(last.index() + 1, history.plan().phases().len());
    assert!(history.plan().injection_count(FaultKind::Reload, last) > 0);
}

#[test]
fn a_cache_that_knows_only_an_age_breaks_all_but_any() {
    let (_, report) = run_with(&options(all_contracts()), Duration::from_millis(200));
    for rule in [Rule::Within, Rule::After, Rule::Now] {
        assert!(report.violation_counts.contains_key(&rule), "{report:#?}");
    }
    let broken = |contract| {
        let cells = report.cells.iter();
        let cells = cells.filter(|(cell, _)| cell.contract == contract);
        cells
            .map(|(_, figures)| figures.violation_count)
            .sum::<u64>()
    };
    assert_eq!(broken(Contract::Any), 0);
    assert!(broken(WITHIN) > 0);
}

#[test]
fn a_layer_that_keeps_an_old_answer_is_found_at_the_quiet_end() {
    let reads = vec![(Contract::Any, Layer::L0)];
    let (_, report) = run_with(&options(reads), Duration::from_secs(3600));
    assert!(
        report.violation_counts.contains_key(&Rule::Quiet),
        "{report:#?}"
    );
}

#[test]
fn failed_reads_are_counted() {
    let reads = vec![(Contract::Any, Layer::Http), (Contract::Now, Layer::L0)];
    let (history, report) = run_with(&options(reads), Duration::ZERO);
    assert!(report.is_clean());
    assert_eq!(history.first_failure(), Some("connection refused"));
    let of_http = report
        .cells
        .iter()
        .filter(|(cell, _)| cell.layer == Layer::Http);
    for (_, figures) in of_http {
        assert!(figures.failed_count > 0 && figures.read_count == 0);
    }
}

#[test]
fn a_run_ends_when_a_thread_has_no_room() {
    let mut options = options(all_contracts());
    options.plan = FaultPlan::quiet(Duration::from_secs(3600));
    options.limits.write_count_max = 10;
    let (history, report) = run_with(&options, Duration::ZERO);
    assert!(report.is_clean());
    assert!(history.writes().len() <= 2 * 10 + KEY_COUNT as usize);
}

#[test]
fn a_run_that_is_full_in_a_fault_ends_without_it() {
    let mut options = options(all_contracts());
    let hour = Duration::from_secs(3600);
    let plan = PlanOptions {
        fault_length: hour..=hour,
        ..PlanOptions::default()
    };
    options.plan = FaultPlan::new(&[FaultKind::Reload], 3 * hour, &plan).unwrap();
    // More than the writers manage in the quiet phase before the fault.
    options.limits.write_count_max = 1_000;
    let (history, report) = run_with(&options, Duration::ZERO);
    assert!(report.is_clean());
    let announced = history.announced();
    assert!(history.plan().injection_count(FaultKind::Reload, announced) > 0);
    assert_eq!(history.plan().fault(announced), None);
}

/// A connection that does not tell the state of one key.
struct Forgetful(Connection);

impl WriteConnection for Forgetful {
    fn write(&mut self, key: Key) -> Written {
        self.0.write(key)
    }

    fn states(&mut self, keys: &[Key]) -> Result<Vec<(Key, State)>, Cause> {
        self.0.states(&keys[1..])
    }
}

#[test]
fn a_key_without_a_state_ends_the_run() {
    let database = Database::new();
    let reader = CachedReader {
        database: Arc::clone(&database),
        cache: HashMap::new(),
        ttl: Duration::ZERO,
    };
    let connections = vec![Forgetful(Connection(database))];
    let signal = PhaseSignal::new();
    let error = run(
        &options(all_contracts()),
        connections,
        vec![reader],
        &signal,
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::States);
    let message = "63 states were read of 64 keys, one of each is needed";
    assert_eq!(error.to_string(), message);
}

#[test]
fn a_run_of_nothing_is_refused() {
    let signal = PhaseSignal::new();
    let connections = vec![Connection(Database::new())];
    let refused = run::<_, CachedReader>(&options(all_contracts()), connections, vec![], &signal);
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert_eq!(error.to_string(), "a run needs a reader");
}

#[test]
fn a_run_of_too_many_keys_is_refused() {
    let mut options = options(all_contracts());
    options.keys.count = u32::MAX;
    let reader = CachedReader {
        database: Database::new(),
        cache: HashMap::new(),
        ttl: Duration::ZERO,
    };
    let connections = vec![Connection(Database::new())];
    let signal = PhaseSignal::new();
    let error = run(&options, connections, vec![reader], &signal).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_eq!(error.to_string(), "a run has at most 1048576 keys");
    // An injector does not wait for a run that did not begin.
    assert_eq!(signal.injector().next_phase(), None);
}

/// A reader that panics.
struct Broken;

impl Reader for Broken {
    fn read(&mut self, _: &Request) -> Result<Answer, Cause> {
        panic!("a test wants it");
    }
}

#[test]
#[should_panic(expected = "a test wants it")]
fn a_thread_that_panics_ends_the_run_at_once() {
    let mut options = options(all_contracts());
    options.plan = FaultPlan::quiet(Duration::from_secs(3600));
    options.quiet = Duration::from_secs(3600);
    let connections = vec![Connection(Database::new())];
    let _ = run(&options, connections, vec![Broken], &PhaseSignal::new());
}

/// A connection that changes all keys in one transaction.
struct WholeTable(Arc<Database>);

impl WriteConnection for WholeTable {
    fn write(&mut self, key: Key) -> Written {
        let mut states: Vec<_> = self.0.states.iter().map(|it| it.lock().unwrap()).collect();
        let others = (0..)
            .map(Key)
            .zip(&mut states)
            .filter_map(|(other, state)| {
                state.version.0 += 1;
                (other != key).then_some((other, WriteOutcome::Acknowledged(**state)))
            });
        let others = others.collect();
        let state = *states[key.0 as usize];
        Written {
            ended: Some(Instant::now()),
            others,
            ..Written::new(WriteOutcome::Acknowledged(state))
        }
    }

    fn states(&mut self, keys: &[Key]) -> Result<Vec<(Key, State)>, Cause> {
        Connection(Arc::clone(&self.0)).states(keys)
    }
}

#[test]
fn a_transaction_over_several_keys_is_checked_for_each() {
    for (ttl, is_clean) in [(Duration::ZERO, true), (Duration::from_millis(200), false)] {
        let database = Database::new();
        let reader = CachedReader {
            database: Arc::clone(&database),
            cache: HashMap::new(),
            ttl,
        };
        let signal = PhaseSignal::new();
        let connections = vec![WholeTable(database)];
        let options = options(all_contracts());
        let history = run(&options, connections, vec![reader], &signal).unwrap();
        let report = check(&history, &CheckOptions::default());
        assert_eq!(report.is_clean(), is_clean, "{:?}", report.violation_counts);
        for violation in &report.violations {
            let lines = excerpt(&history, violation, 8);
            assert!(lines.len() <= 8 && !lines.is_empty());
            if let Evidence::Write(write) = violation.evidence {
                let version = format!("write {}", write.outcome.state().unwrap().version);
                let has = lines.iter().any(|line| line.starts_with(&version));
                assert!(has, "{lines:#?}");
            }
            let read = violation.witness.unwrap().read;
            let shown = format!("{}, from memory, through l0, {}", Version(1), read.begin);
            let is_old = read.version == Some(Version(1));
            assert!(
                !is_old || lines.iter().any(|line| line.contains(&shown)),
                "{lines:#?}"
            );
        }
    }
}
