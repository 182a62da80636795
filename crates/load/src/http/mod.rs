//! A load generator for HTTP/1.1 servers, over TCP and Unix sockets.
//!
//! Each thread has its connections and an epoll instance. Answers are parsed strictly by RFC 9112.
//! At a fixed rate, requests are due at times that do not depend on answers, and a latency begins
//! when its request was due: so if a server stalls, the wait of every request that became due
//! meanwhile is counted.
//!
//! ```
//! use std::io::{BufRead as _, BufReader, Write as _};
//! use std::net::TcpListener;
//! use std::sync::atomic::AtomicBool;
//! use std::time::Duration;
//!
//! use lookaside_load::http::{HttpTarget, LoadPlan, Options, Template, Watched, run};
//!
//! // A server that answers each request of its only connection alike.
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?.to_string();
//! std::thread::spawn(move || {
//!     // The first connection only asks whether a server is there.
//!     let mut stream = listener.incoming().nth(1).unwrap().unwrap();
//!     let lines = BufReader::new(stream.try_clone().unwrap()).lines();
//!     for line in lines.map_while(Result::ok).filter(|line| line.is_empty()) {
//!         let _ = stream.write_all(format!("HTTP/1.1 204 No Content\r\n\r\n{line}").as_bytes());
//!     }
//! });
//!
//! let target = HttpTarget::parse(&address)?;
//! let template = Template::new("GET", "/rows/{RAND:1:9}", target.host(), &[], None)?;
//! let options = Options {
//!     connection_count: 1,
//!     warm_up: Duration::ZERO,
//!     duration: Duration::from_millis(100),
//!     ..Options::default()
//! };
//! let plan = LoadPlan::new(target, vec![template], options)?;
//! let stop = AtomicBool::new(false);
//! let (figures, used) = run(&plan, Watched::default(), &stop, |_elapsed, _answers| {})?;
//! assert_eq!(figures.fault_count(), 0);
//! assert!(used.wall > Duration::ZERO);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod connection;
mod figures;
mod head;
mod plan;
mod response;
mod schedule;
mod send;
mod target;
mod template;
mod watch;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub use self::figures::{Answers, Fault, Faults, Figures};
use self::plan::Clock;
pub use self::plan::{LoadPlan, Options};
pub use self::target::HttpTarget;
pub use self::template::Template;
use self::watch::watch;
pub use self::watch::{Used, Watched};
use self::worker::Worker;
use crate::{Error, ErrorKind, Result};

/// Descriptors in addition to those of connections, with a margin.
const OTHER_DESCRIPTORS: u64 = 64;

/// Runs a plan to its end, or until `stop` is set: returns the figures and the resources used.
///
/// `progress` is called on this thread some twenty times a second, with the time since the start,
/// including the warm-up, and the answers so far. The process's limit of open descriptors is raised
/// if the connections need more.
///
/// # Errors
///
/// When the first connection to the server fails, the descriptor limit cannot be raised far enough,
/// or threads or epoll instances cannot be created. Later failures are counted in
/// [`Figures::faults`].
pub fn run(
    plan: &LoadPlan,
    watched: Watched,
    stop: &AtomicBool,
    progress: impl FnMut(Duration, u64),
) -> Result<(Figures, Used)> {
    raise_descriptor_limit(plan.options.connection_count)?;
    plan.target.probe()?;
    let thread_count = plan.options.thread_count;
    let live: Vec<AtomicU64> = (0..thread_count).map(|_| AtomicU64::new(0)).collect();
    let clock = Clock::start(plan.options.warm_up, plan.options.duration);
    let refused = |error: std::io::Error| Error::environment("send", error);
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(thread_count);
        for (index, live) in live.iter().enumerate() {
            let (plan, clock) = (&*plan, &clock);
            let thread = thread::Builder::new().name(format!("load-{index}"));
            let work = move || Worker::new(plan, clock, index, live)?.run();
            threads.push(thread.spawn_scoped(scope, work).map_err(refused)?);
        }
        let used = watch(&clock, watched, &live, stop, progress);
        let mut figures = Figures::new(plan.templates.len());
        for thread in threads {
            // A panic there is a bug, and is resumed here.
            let counted = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            figures.add(counted.map_err(|error| refused(error.into()))?);
        }
        Ok((figures, used))
    })
}

/// Raises the descriptor limit for this number of connections, as far as it is allowed.
fn raise_descriptor_limit(connection_count: usize) -> Result<()> {
    let needed = connection_count as u64 + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    // No limit means unlimited.
    let (current, maximum) = (
        limit.current.unwrap_or(u64::MAX),
        limit.maximum.unwrap_or(u64::MAX),
    );
    if current >= needed {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    if maximum < needed || setrlimit(Resource::Nofile, raised).is_err() {
        let text = format!(
            "{connection_count} connections need {needed} descriptors, and {maximum} are allowed"
        );
        return Err(Error::new(ErrorKind::Limit, text)
            .with_hint("use fewer connections, or raise the limit by ulimit -Hn"));
    }
    Ok(())
}
