//! What does a live feed cost while nothing happens?

use std::thread;
use std::time::{Duration, Instant};

use lookaside_load::measure::cpu_time;
use lookaside_value::Value;

use super::Result;
use super::cpu::process_cpu;
use super::report::{Aim, Report};
use super::server::{EngineOptions, FeedServer};
use super::statements::TransactionCount;

/// The connections of feeds: the walsenders of the server, and the backends whose last statement asked
/// for a snapshot.
const BACKENDS: &str = "\
select pid::bigint, backend_type = 'walsender'
from pg_stat_activity
where backend_type = 'walsender'
   or (pid <> pg_backend_pid() and query like 'select pg_current_snapshot()%')";

pub(super) fn run(server: &FeedServer, duration: Duration) -> Result<Report> {
    server.fill("registers", 1000)?;
    let engine = server.engine(EngineOptions {
        has_feed: true,
        ttl: Duration::from_secs(1800),
        key_count: 1000,
    })?;
    let session = engine.warm_session(1000)?;
    let mut report = Report::new("idle", &server.note);
    let backends = backends(server)?;
    let transactions = TransactionCount::begin(server, &engine)?;
    let cpu_of = |is_walsender: bool| -> Option<Duration> {
        let mut chosen = backends.iter().filter(|it| it.1 == is_walsender).peekable();
        chosen.peek()?;
        chosen.map(|it| process_cpu(it.0)).sum()
    };
    let (walsender_before, backend_before) = (cpu_of(true), cpu_of(false));
    let probes_before = engine.feed()?.probe_count;
    let (begin, cpu_before) = (Instant::now(), cpu_time());
    thread::sleep(duration);
    let (elapsed, cpu) = (begin.elapsed().as_secs_f64(), cpu_time() - cpu_before);
    let probes = engine.feed()?.probe_count - probes_before;
    let (walsender, backend) = (cpu_of(true), cpu_of(false));
    let share = |cpu: Duration| 100.0 * cpu.as_secs_f64() / elapsed;

    report.parameter("seconds", duration.as_secs_f64());
    let statements = probes as f64 / elapsed;
    report.figure("statements", "/s", statements, &[Aim::AtMost("value", 4.0)]);
    let counted = transactions.per_second(&engine)?;
    report.figure("transactions of the database", "/s", counted, &[]);
    let aims = [Aim::AtMost("value", 0.1)];
    report.figure("CPU of this process", "% of a core", share(cpu), &aims);
    for (name, before, after) in [
        ("CPU of the walsender", walsender_before, walsender),
        ("CPU of the feed's backend", backend_before, backend),
    ] {
        match (before, after) {
            (Some(before), Some(after)) => {
                let used = share(after.saturating_sub(before));
                report.figure(name, "% of a core", used, &[]);
            }
            _ => report.note(format!(
                "{name} is not known: the server runs on another machine"
            )),
        }
    }
    drop(session);
    Ok(report)
}

/// The processes of the feed at the server, and whether each is a walsender.
fn backends(server: &FeedServer) -> Result<Vec<(i64, bool)>> {
    let answer = server.connect()?.query(BACKENDS, &[])?;
    let rows = answer.rows.iter().map(|row| match row {
        [Value::Int(pid), Value::Bool(is_walsender)] => Ok((*pid, *is_walsender)),
        other => Err(format!("not a backend: {other:?}").into()),
    });
    rows.collect()
}
