//! How much more does a hit of a cache cost behind a change feed?
//!
//! An engine with a feed and two without answer blocks of lookups in turn, forwards and backwards, so that a
//! drift of the machine affects all. The difference of the two without a feed is that of their memory, and
//! the base case.

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lookaside_knowledge::{Contract, Extent, Freshness, Session};
use lookaside_load::measure::Spread;
use lookaside_value::Value;

use super::Result;
use super::cpu::thread_cpu;
use super::report::{Aim, Report};
use super::server::{Engine, EngineOptions, FeedServer};

/// Keys in turn: few enough that both engines' caches stay in the core's.
const KEY_COUNT: i64 = 256;

/// Lookups between two clock readings.
const BLOCK: usize = 8192;

/// A cache, and its contract.
#[derive(Clone, Copy, Debug)]
enum Layer {
    Session(Contract),
    Shared,
}

pub(super) fn run(server: &FeedServer, duration: Duration) -> Result<Report> {
    server.fill("registers", KEY_COUNT.unsigned_abs())?;
    let open = |has_feed| {
        server.engine(EngineOptions {
            has_feed,
            ttl: Duration::from_secs(3600),
            key_count: KEY_COUNT.unsigned_abs(),
        })
    };
    let engines = [open(true)?, open(false)?, open(false)?];
    let keys: Vec<[Value; 1]> = (0..KEY_COUNT)
        // A prime that does not divide their number.
        .map(|index| [Value::Int(index * 101 % KEY_COUNT + 1)])
        .collect();
    let mut report = Report::new("hit", &server.note);
    report.parameter("keys", KEY_COUNT);
    report.parameter("block", BLOCK);
    report.parameter("seconds", duration.as_secs_f64());
    let within = Contract::within(Duration::from_millis(50));
    let aims = [Aim::AtMost("median", 2.0)];
    for (name, layer, aims) in [
        ("session, any", Layer::Session(Contract::ANY), &aims[..]),
        ("shared cache, any", Layer::Shared, &aims[..]),
        // Without a feed, an answer would have to be younger.
        ("session, within 50 ms", Layer::Session(within), &[]),
    ] {
        let figures = measure(&engines, layer, &keys, duration / 3)?;
        report.figure(format!("{name}: feed on"), "ns", figures.on, &[]);
        report.figure(format!("{name}: feed off"), "ns", figures.off, &[]);
        report.figure(
            format!("{name}: difference"),
            "ns",
            figures.difference,
            aims,
        );
        let base = format!("{name}: difference of two without");
        report.figure(base, "ns", figures.base, &[]);
    }
    report.note(
        "CPU time of the thread, an operation; the difference is that of two neighbouring blocks each, \
         between the quartiles; session, within 50 ms is compared with any without a feed",
    );
    Ok(report)
}

struct HitFigures {
    on: Spread,
    off: Spread,
    /// The median, between the first and the third quartile.
    difference: Spread,
    /// The same between the two engines without a feed.
    base: Spread,
}

fn measure(
    engines: &[Engine; 3],
    layer: Layer,
    keys: &[[Value; 1]],
    duration: Duration,
) -> Result<HitFigures> {
    let mut sessions = Vec::new();
    for (index, engine) in engines.iter().enumerate() {
        let mut session = engine.warm_session(KEY_COUNT.unsigned_abs())?;
        if let (Layer::Session(contract), 0) = (layer, index) {
            session.set_freshness(contract.into());
        }
        sessions.push(session);
    }
    let mut block = |index: usize| -> Result<f64> {
        let (engine, session) = (&engines[index], &mut sessions[index]);
        let before = thread_cpu();
        match layer {
            Layer::Session(_) => look_up(engine, session, keys)?,
            Layer::Shared => look_up_shared(engine, keys)?,
        }
        Ok((thread_cpu() - before).as_nanos() as f64 / BLOCK as f64)
    };
    for index in [0, 1, 2, 2, 1, 0] {
        block(index)?;
    }
    let (mut on, mut off) = (Vec::new(), Vec::new());
    let (mut differences, mut bases) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    while on.is_empty() || begin.elapsed() < duration {
        for order in [[0, 1, 2], [2, 1, 0]] {
            let mut nanos = [0.0; 3];
            for index in order {
                nanos[index] = block(index)?;
            }
            on.push(nanos[0]);
            off.push(nanos[1]);
            differences.push(nanos[0] - nanos[1]);
            bases.push(nanos[2] - nanos[1]);
        }
    }
    Ok(HitFigures {
        on: Spread::new(on),
        off: Spread::new(off),
        difference: quartiles(differences),
        base: quartiles(bases),
    })
}

fn look_up(engine: &Engine, session: &mut Session, keys: &[[Value; 1]]) -> Result<()> {
    for key in keys.iter().cycle().take(BLOCK) {
        let row = session.first(&engine.statement, key)?;
        black_box(row.ok_or("a row is missing")?);
    }
    Ok(())
}

/// Asks the shared cache alone, as asynchronous callers do.
fn look_up_shared(engine: &Engine, keys: &[[Value; 1]]) -> Result<()> {
    let mut context = Context::from_waker(Waker::noop());
    for key in keys.iter().cycle().take(BLOCK) {
        let (statement, freshness) = (&engine.statement, Freshness::default());
        let asking = engine
            .knowledge
            .answer_async(statement, key, Extent::First, freshness);
        match pin!(asking).poll(&mut context) {
            Poll::Ready(answer) => {
                black_box(answer?);
            }
            Poll::Pending => return Err("a key is not in the shared cache".into()),
        }
    }
    Ok(())
}

fn quartiles(mut samples: Vec<f64>) -> Spread {
    samples.sort_by(f64::total_cmp);
    let quartile = |number: usize| samples[(samples.len() - 1) * number / 4];
    Spread {
        min: quartile(1),
        median: quartile(2),
        max: quartile(3),
    }
}
