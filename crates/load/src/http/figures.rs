//! The figures of a run: answers, latencies and faults.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

/// A latency past this counts as this much.
const LATENCY_NS_MAX: u64 = 3600 * 1_000_000_000;
/// Significant digits of latencies: one in a thousand is far below the noise.
const LATENCY_DIGITS: u8 = 3;

/// A status has three digits, of which the first is not a zero.
const STATUS_FIRST: u16 = 100;
const STATUS_COUNT: usize = 900;

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// No connection.
    Connect,
    /// The connection ended before the answer did.
    Lost,
    /// The answer breaks the rules of HTTP.
    Malformed,
    /// Its status is not among those that were expected.
    Status,
    /// Its body is not the expected one.
    Body,
    /// It took longer than it may.
    Timeout,
}

impl Fault {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "not connected",
            Self::Lost => "lost connections",
            Self::Malformed => "malformed answers",
            Self::Status => "unexpected statuses",
            Self::Body => "unexpected bodies",
            Self::Timeout => "timeouts",
        }
    }
}

/// The requests that failed in one way.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Requests.
    pub count: u64,
    /// The description of the first failure.
    pub first: String,
}

/// The answers to one template.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// By the first digit of their status, of which the first is 1.
    pub classes: [u64; 9],
}

impl Answers {
    /// Of any status.
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }
}

/// The figures of a run.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Answers that came within the run, by template.
    pub answers: Vec<Answers>,
    /// Those by status, from 100 on.
    statuses: Vec<u64>,
    /// Bytes that came within the run, heads included.
    pub bytes: u64,
    /// In nanoseconds: of answers within the run, or, at a fixed rate, to requests due within it.
    latencies: Histogram<u64>,
    /// At any time, including the warm-up.
    pub faults: BTreeMap<Fault, Faults>,
    /// Connections that were opened, at any time.
    pub connections: u64,
    /// Requests without an answer at the end.
    pub unanswered: u64,
    /// At a fixed rate, the largest number of due requests without a free connection.
    pub late_max: u64,
}

impl Figures {
    pub(super) fn new(template_count: usize) -> Self {
        Self {
            answers: vec![Answers::default(); template_count],
            statuses: vec![0; STATUS_COUNT],
            bytes: 0,
            latencies: Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS)
                .expect("the bounds are in order and the digits are few"),
            faults: BTreeMap::new(),
            connections: 0,
            unanswered: 0,
            late_max: 0,
        }
    }

    pub(super) fn answer(&mut self, template: usize, status: u16) {
        self.answers[template].classes[usize::from(status / 100) - 1] += 1;
        self.statuses[usize::from(status - STATUS_FIRST)] += 1;
    }

    pub(super) fn latency(&mut self, ns: u64) {
        self.latencies.saturating_record(ns.max(1));
    }

    pub(super) fn fault(&mut self, fault: Fault, count: u64, text: impl FnOnce() -> String) {
        if count == 0 {
            return;
        }
        let faults = self.faults.entry(fault).or_default();
        if faults.count == 0 {
            faults.first = text();
        }
        faults.count += count;
    }

    /// Adds what another thread counted.
    pub(super) fn add(&mut self, other: Self) {
        for (all, answers) in self.answers.iter_mut().zip(other.answers) {
            for (sum, count) in all.classes.iter_mut().zip(answers.classes) {
                *sum += count;
            }
        }
        for (sum, count) in self.statuses.iter_mut().zip(other.statuses) {
            *sum += count;
        }
        for (fault, faults) in other.faults {
            self.fault(fault, faults.count, || faults.first);
        }
        self.bytes += other.bytes;
        self.latencies
            .add(other.latencies)
            .expect("both have the same bounds");
        self.connections += other.connections;
        self.unanswered += other.unanswered;
        // The threads have separate schedules, which may or may not be late at the same time.
        self.late_max += other.late_max;
    }

    /// Answers that came within the run.
    pub fn answer_count(&self) -> u64 {
        self.answers.iter().map(Answers::count).sum()
    }

    /// The statuses of those, and how often each came.
    pub fn statuses(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let all = (STATUS_FIRST..).zip(self.statuses.iter().copied());
        all.filter(|&(_, count)| count > 0)
    }

    /// Requests that failed, at any time.
    pub fn fault_count(&self) -> u64 {
        self.faults.values().map(|faults| faults.count).sum()
    }

    /// A percentile of the latencies in nanoseconds; 0 without any.
    pub fn latency_ns(&self, percentile: f64) -> u64 {
        self.latencies.value_at_percentile(percentile)
    }

    /// The mean of the latencies in nanoseconds; 0 without any.
    pub fn latency_ns_mean(&self) -> f64 {
        self.latencies.mean()
    }

    /// The largest latency in nanoseconds; 0 without any.
    pub fn latency_ns_max(&self) -> u64 {
        self.latencies.max()
    }
}
