//! What does it cost to hand an item from thread to thread, and how much of a serial stage's time is
//! left for its own work? Other people's rings and channels beside ours, in one program.
//!
//! `rival-pipeline MODE [options]` prints a line of JSON for each measured round, engines in turn.
//!
//! - `handoff`: one producer, `--stages` (1) threads behind it, `--batch` (1) items at once. Wall and
//!   CPU time of an item, from the first push to the last item at the last stage.
//! - `headroom`: the same, with `--work` ns of arithmetic an item in the first stage: what the stage
//!   takes longer than that is overhead. `--producer-work` ns are spent by the producer.
//!
//! Rounds have `--items` (1,000,000) items and there are `--rounds` (5) after one that warms up. Items
//! are numbers of 64 bits, `--lg-size` (10) is the size of rings and channels. `--engines` picks some.
//!
//! Engines: `lookaside-spin`, `lookaside-sleep`, `lookaside-idle` (its three ways to wait, a sole
//! producer), `lookaside-multi` (as sleep, for several producers), `disruptor-spin` and
//! `disruptor-hint` (its two that never sleep, a single producer), `crossbeam` (a bounded channel for each
//! hop; it has no batches, and sleeps).

mod engines;
mod work;

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use rival_common::arguments::Arguments;
use rival_common::measure::process_cpu;
use serde_json::json;

use crate::engines::{ENGINES, Line, Shape};
use crate::work::{Arrival, Work};

fn main() -> Result<()> {
    let arguments = Arguments::read(&[
        "--engines",
        "--stages",
        "--batch",
        "--work",
        "--producer-work",
        "--items",
        "--rounds",
        "--lg-size",
    ])?;
    let stage_count = arguments.count("--stages", 1)?.clamp(1, 2);
    let batch = arguments.count("--batch", 1)?;
    let work_ns = arguments.number("--work")?.unwrap_or(0.0);
    let producer_work_ns = arguments.number("--producer-work")?.unwrap_or(0.0);
    let item_count = arguments.count("--items", 1_000_000)? as u64;
    let round_count = arguments.count("--rounds", 5)?;
    let picked = arguments.value("--engines").unwrap_or("");
    let shape = Shape {
        lg_size: arguments.count("--lg-size", 10)? as u32,
        stage_count,
        work: Work::of_ns(work_ns),
        producer_work: Work::of_ns(producer_work_ns),
    };
    let arrival = Arc::new(Arrival::default());
    for round in 0..=round_count {
        for (name, make) in ENGINES {
            if !picked.is_empty() && !picked.split(',').any(|word| word == *name) {
                continue;
            }
            let mut line = make(&shape, &arrival);
            // A first few wake the threads.
            push(&mut *line, &arrival, 1_000, batch);
            let (wall, cpu) = (Instant::now(), process_cpu());
            let serial_before = arrival.serial_cpu();
            let sum = push(&mut *line, &arrival, item_count, batch);
            let (wall, cpu) = (wall.elapsed(), process_cpu() - cpu);
            let serial = arrival.serial_cpu() - serial_before;
            line.finish();
            if round == 0 {
                continue;
            }
            let an_item = |ns: u128| (ns as f64 / item_count as f64 * 100.0).round() / 100.0;
            let report = json!({
                "engine": name,
                "bench": arguments.mode,
                "stages": stage_count,
                "batch": batch,
                "work_ns": work_ns,
                "producer_work_ns": producer_work_ns,
                "wall_ns": an_item(wall.as_nanos()),
                "cpu_ns": an_item(cpu.as_nanos()),
                "serial_cpu_ns": an_item(u128::from(serial)),
                "hash": sum,
            });
            println!("{report}");
        }
    }
    Ok(())
}

/// Pushes `count` items and waits until the last has arrived; says what arrived.
fn push(line: &mut dyn Line, arrival: &Arrival, count: u64, batch: usize) -> u64 {
    arrival.expect(count);
    line.push(count, batch);
    arrival.wait()
}
