//! The plan of a run, and its clock.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::target::HttpTarget;
use super::template::Template;
use crate::{Error, Result};

/// A request still unanswered this long after the end of a run at a fixed rate counts as unanswered.
pub(super) const DRAIN_NS_MAX: u64 = 1_000_000_000;

/// How requests are sent, and which answers are correct.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections at once, at least 1; 64 by default, which keeps a server of some cores busy.
    pub connection_count: usize,
    /// Requests in flight per connection, at least 1, which is the default: most clients do not
    /// pipeline.
    pub depth: usize,
    /// Close a connection after this many answers, at least 1, and open another; by default,
    /// connections are kept.
    pub requests_per_connection: Option<u64>,
    /// Threads that send, at least 1; 1 by default, which is faster than most servers. At most one
    /// per connection is started.
    pub thread_count: usize,
    /// Whether each request takes the next template, not each connection, as by default: constant
    /// requests are sent without being rebuilt only if a connection keeps its template.
    pub rotates: bool,
    /// Requests a second of all threads, at least 1. By default the next request of a connection is
    /// sent once one is answered.
    pub rate: Option<u64>,
    /// The time before the measurement; 1 s by default, in which connections are opened.
    pub warm_up: Duration,
    /// The measured time; 10 s by default, long enough for a stable 99.9th percentile.
    pub duration: Duration,
    /// The timeout of a request; 10 s by default, after which a real client would have given up.
    pub timeout: Duration,
    /// The statuses that are not faults; 200 to 299 by default.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// The required body of each answer; any by default.
    pub expected_body: Option<Vec<u8>>,
    /// The seed of the random numbers of templates; 7 by default, as for the keys of other
    /// benchmarks.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connection_count: 64,
            depth: 1,
            requests_per_connection: None,
            thread_count: 1,
            rotates: false,
            rate: None,
            warm_up: Duration::from_secs(1),
            duration: Duration::from_secs(10),
            timeout: Duration::from_secs(10),
            statuses: vec![200..=299],
            expected_body: None,
            seed: 7,
        }
    }
}

/// The target, the requests and the options of a run.
#[derive(Debug)]
pub struct LoadPlan {
    pub(super) target: HttpTarget,
    pub(super) templates: Vec<Template>,
    pub(super) options: Options,
}

impl LoadPlan {
    /// Creates a plan.
    ///
    /// # Errors
    ///
    /// If there is no template, or an option is 0 that must be at least 1.
    pub fn new(target: HttpTarget, templates: Vec<Template>, mut options: Options) -> Result<Self> {
        if templates.is_empty() {
            return Err(Error::usage("there is no request to send"));
        }
        for (name, is_zero) in [
            ("connection_count", options.connection_count == 0),
            ("depth", options.depth == 0),
            (
                "requests_per_connection",
                options.requests_per_connection == Some(0),
            ),
            ("thread_count", options.thread_count == 0),
            ("rate", options.rate == Some(0)),
        ] {
            if is_zero {
                return Err(Error::usage(format!(
                    "{name} is 0; it has to be at least 1"
                )));
            }
        }
        // A thread without a connection would have nothing to do.
        options.thread_count = options.thread_count.min(options.connection_count);
        Ok(Self {
            target,
            templates,
            options,
        })
    }

    /// The target of the requests.
    pub fn target(&self) -> &HttpTarget {
        &self.target
    }

    /// The requests.
    pub fn templates(&self) -> &[Template] {
        &self.templates
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn expects(&self, status: u16) -> bool {
        let mut expected = self.options.statuses.iter();
        expected.any(|range| range.contains(&status))
    }
}

/// The time of a run, in nanoseconds since it began, and the part of it that counts.
#[derive(Debug)]
pub(super) struct Clock {
    begin: Instant,
    /// The end of the warm-up.
    pub(super) from_ns: u64,
    end_ns: AtomicU64,
}

impl Clock {
    pub(super) fn start(warm_up: Duration, length: Duration) -> Self {
        let from_ns = nanoseconds(warm_up);
        Self {
            begin: Instant::now(),
            from_ns,
            end_ns: AtomicU64::new(from_ns.saturating_add(nanoseconds(length))),
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        nanoseconds(self.begin.elapsed())
    }

    /// Relaxed, here and below: nothing else is published with it, and a thread that sees it late
    /// ends late by the one batch of events that it is at.
    pub(super) fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    /// Ends the run now, if it would last longer.
    pub(super) fn stop(&self) {
        self.end_ns.fetch_min(self.now_ns(), Ordering::Relaxed);
    }

    pub(super) fn counts(&self, at_ns: u64) -> bool {
        at_ns >= self.from_ns && at_ns < self.end_ns()
    }
}

/// Saturates at 584 years.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_cannot_be_run_is_refused() {
        let plan = |options: Options, template_count: usize| {
            let target = HttpTarget::parse("127.0.0.1:1").unwrap();
            let templates = (0..template_count)
                .map(|_| Template::new("GET", "/", "a", &[], None).unwrap())
                .collect();
            LoadPlan::new(target, templates, options).map_err(|error| error.to_string())
        };
        let options = Options::default;
        assert!(plan(options(), 1).is_ok());
        assert!(plan(options(), 0).unwrap_err().contains("no request"));
        let mut zeros: [(&str, Options); 5] = [
            ("connection_count", options()),
            ("depth", options()),
            ("requests_per_connection", options()),
            ("thread_count", options()),
            ("rate", options()),
        ];
        zeros[0].1.connection_count = 0;
        zeros[1].1.depth = 0;
        zeros[2].1.requests_per_connection = Some(0);
        zeros[3].1.thread_count = 0;
        zeros[4].1.rate = Some(0);
        for (name, options) in zeros {
            let error = plan(options, 1).unwrap_err();
            assert!(error.starts_with(name), "{error}");
        }
    }

    #[test]
    fn a_thread_has_a_connection() {
        let target = HttpTarget::parse("127.0.0.1:1").unwrap();
        let template = Template::new("GET", "/", "a", &[], None).unwrap();
        let options = Options {
            connection_count: 2,
            thread_count: 8,
            ..Options::default()
        };
        let plan = LoadPlan::new(target, vec![template], options).unwrap();
        assert_eq!(plan.options().thread_count, 2);
    }
}
