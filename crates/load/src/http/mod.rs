//! A load generator for servers of HTTP/1.1, over TCP and Unix sockets.
//!
//! Each thread has its connections and an epoll instance. Answers are read strictly, as RFC 9112
//! writes them. At a fixed rate, requests are due at times that no answer moves, and a latency begins
//! when its request was due: a server that stalls is charged with every request that fell due
//! meanwhile.
//!
//! ```
//! use std::io::{BufRead as _, BufReader, Write as _};
//! use std::net::TcpListener;
//! use std::sync::atomic::AtomicBool;
//! use std::time::Duration;
//!
//! use lookaside_load::http::{Options, Plan, Target, Template, Watched, run};
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
//! let target = Target::parse(&address)?;
//! let template = Template::new("GET", "/rows/{RAND:1:9}", target.host(), &[], None)?;
//! let options = Options {
//!     connection_count: 1,
//!     warm_up: Duration::ZERO,
//!     duration: Duration::from_millis(100),
//!     ..Options::default()
//! };
//! let plan = Plan::new(target, vec![template], options)?;
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
pub use self::plan::{Options, Plan};
pub use self::target::Target;
pub use self::template::Template;
use self::watch::watch;
pub use self::watch::{Used, Watched};
use self::worker::Worker;
use crate::{Error, ErrorKind, Result};

/// Descriptors beside those of connections, with room to spare.
const OTHER_DESCRIPTORS: u64 = 64;

/// Runs a plan to its end, or until `stop` is set: what was answered, and what was used.
///
/// `progress` is called on this thread some twenty times a second, with the time since the start,
/// warm-up included, and the answers until then. The process's limit of open descriptors is raised
/// where the connections need more.
///
/// # Errors
///
/// When a first connection to the server fails, the connections need more descriptors than the
/// process may have, or the operating system refuses threads or epoll instances. Whatever fails after
/// that is counted in [`Figures::faults`].
pub fn run(
    plan: &Plan,
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
            // A panic there is a mistake of ours and goes on here.
            let counted = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            figures.add(counted.map_err(|error| refused(error.into()))?);
        }
        Ok((figures, used))
    })
}

/// Lets the process have as many connections as it is allowed to send_requests for.
fn raise_descriptor_limit(connection_count: usize) -> Result<()> {
    let needed = connection_count as u64 + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    // Without a limit, none is too small.
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
