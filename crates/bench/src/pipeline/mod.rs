//! What does it cost to pass an item from thread to thread in a ring, how much of a serial stage's
//! time is left for its own work, and what does an idle pipeline cost?

mod headroom;
mod line;

use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use lookaside_load::measure::{AnswerHash, Measured, Rounds, Spread, cpu_time, measure};
use lookaside_load::report;
use lookaside_pipeline::Wait;

use self::line::{Line, Shape};
use super::Result;
use super::progress::bar;

/// Pass items between threads through a ring buffer
///
/// One producer and its stages, each with its own thread. Hand-over (one-stage, two-stages): wall and
/// CPU time of an item, from the first push until the last item is at the last stage, when the
/// producer hands over 1, 8 or 64 at once. Headroom: how many ns of its own work the first stage can
/// do for each item before throughput drops below 97 % of what it is without ("work ns"); what is
/// left of the time between two items ("period ns") is the pipeline's ("overhead ns"). Idle: CPU
/// time of a pipeline without items, in percent of one core.
///
/// With the defaults, it takes half a minute. Threads that spin need a core each: if there are fewer
/// cores than threads, the cases of two stages with such a wait are omitted, and headroom is measured
/// for a single stage. Name the wait to measure these cases nevertheless.
#[derive(Debug, Args)]
pub(crate) struct PipelineArguments {
    /// The case to run; by default, all of them in turn.
    #[arg(long, value_enum)]
    case: Option<Case>,
    /// How threads without items wait; by default, all ways in turn.
    #[arg(long, value_enum)]
    wait: Option<WaitArgument>,
    /// Items that the producer hands over at once; by default, 1, 8 and 64 in turn, and 1 for
    /// headroom.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: Option<u16>,
    /// Items that a stage takes at once, at most.
    #[arg(long, default_value_t = 64, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    batch_max: u16,
    /// The logarithm of the number of slots.
    #[arg(long, default_value_t = 10, value_name = "LOG2", value_parser = clap::value_parser!(u8).range(2..=24))]
    lg_size: u8,
    /// What the producer itself does for an item when headroom is measured: an I/O thread's share of a
    /// request.
    #[arg(long, default_value_t = 700.0, value_name = "NS")]
    producer_work: f64,
    #[command(flatten)]
    rounds: Rounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// One producer and one stage, on two threads.
    OneStage,
    /// One producer and two stages, on three threads.
    TwoStages,
    /// How long the first stage may work on each item before throughput drops.
    Headroom,
    /// Two stages without items.
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WaitArgument {
    Spin,
    UpstreamIdle,
    StageEmpty,
}

impl WaitArgument {
    fn wait(self) -> Wait {
        match self {
            Self::Spin => Wait::Spin,
            Self::UpstreamIdle => Wait::UpstreamIdle,
            Self::StageEmpty => Wait::StageEmpty,
        }
    }

    /// Whether this wait occupies a core.
    fn wants_own_core(self) -> bool {
        self != Self::StageEmpty
    }
}

/// The number of items between two clock readings.
const BLOCK: u64 = 20_000;

/// The bounds that the total time is clamped to for an idle pipeline.
const IDLE_LENGTH_MIN: Duration = Duration::from_millis(1);
const IDLE_LENGTH_MAX: Duration = Duration::from_secs(3600);

/// One line of the report.
#[derive(Clone, Copy)]
struct PipelinePlan {
    case: Case,
    wait: WaitArgument,
    batch: usize,
    stage_count: usize,
}

impl PipelinePlan {
    fn text(&self) -> String {
        let how = match self.case {
            Case::OneStage | Case::TwoStages => format!("batch {}", self.batch),
            Case::Headroom if self.stage_count == 1 => {
                format!("one stage, batch {}", self.batch)
            }
            Case::Headroom => format!("two stages, batch {}", self.batch),
            Case::Idle => "1 ms".into(),
        };
        format!("{}, {}, {how}", name(self.case), name(self.wait))
    }
}

/// Runs the selected cases in turn.
fn plans(arguments: &PipelineArguments) -> Vec<PipelinePlan> {
    let cases = arguments
        .case
        .map_or(Case::value_variants().to_vec(), |case| vec![case]);
    let waits = arguments
        .wait
        .map_or(WaitArgument::value_variants().to_vec(), |wait| vec![wait]);
    let batches = arguments
        .batch
        .map_or(vec![1, 8, 64], |batch| vec![usize::from(batch)]);
    let core_count = available_parallelism().map_or(1, usize::from);
    let mut plans = Vec::new();
    for &case in &cases {
        for &wait in &waits {
            // With the producer they are three.
            let is_crowded = arguments.wait.is_none() && wait.wants_own_core() && core_count < 3;
            let stage_count = match case {
                Case::OneStage => 1,
                Case::TwoStages if is_crowded => continue,
                Case::Headroom if is_crowded => 1,
                Case::TwoStages | Case::Headroom | Case::Idle => 2,
            };
            let batches = match case {
                Case::OneStage | Case::TwoStages => &batches[..],
                Case::Headroom | Case::Idle => &batches[..1],
            };
            plans.extend(batches.iter().map(|&batch| PipelinePlan {
                case,
                wait,
                batch,
                stage_count,
            }));
        }
    }
    plans
}

pub(super) fn run(arguments: &PipelineArguments) -> Result<()> {
    let plans = plans(arguments);
    let bar = bar("[{pos} of {len}, {elapsed}] {msg}");
    bar.set_length(plans.len() as u64);
    for plan in plans {
        bar.set_message(plan.text());
        let bench = Bench { arguments, plan };
        let measured = match plan.case {
            Case::OneStage | Case::TwoStages => bench.handoff()?,
            Case::Headroom => bench.headroom()?,
            Case::Idle => bench.idle()?,
        };
        bar.suspend(|| report::print(&measured, arguments.rounds.json))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

struct Bench<'a> {
    arguments: &'a PipelineArguments,
    plan: PipelinePlan,
}

/// A warmed-up line of stages, and the hash of its first results.
struct Warm {
    line: Line,
    hash: AnswerHash,
}

impl Bench<'_> {
    fn warm(&self, count: u64) -> Result<Warm> {
        let mut line = Line::start(Shape {
            lg_size: u32::from(self.arguments.lg_size),
            stage_count: self.plan.stage_count,
            batch_max: u32::from(self.arguments.batch_max),
            wait: self.plan.wait.wait(),
        })?;
        let mut hash = AnswerHash::new();
        hash.add(line.push(count, self.plan.batch)?.to_string().as_bytes());
        Ok(Warm { line, hash })
    }

    fn handoff(&self) -> Result<Measured> {
        let mut warm = self.warm(BLOCK)?;
        let measured = measure(self.arguments.rounds, || {
            warm.line.push(BLOCK, self.plan.batch).map(|_| BLOCK)
        })?;
        self.measured(warm, measured, Vec::new())
    }

    /// An operation is a millisecond.
    fn idle(&self) -> Result<Measured> {
        let warm = self.warm(1)?;
        let Rounds {
            seconds, rounds, ..
        } = self.arguments.rounds;
        let length = Duration::try_from_secs_f64(seconds * rounds as f64).unwrap_or_default();
        let length = length.clamp(IDLE_LENGTH_MIN, IDLE_LENGTH_MAX);
        // Waits until threads that still poll for items have gone to sleep.
        thread::sleep(length / 10);
        let (started, before) = (Instant::now(), cpu_time());
        thread::sleep(length);
        let (used, wall) = (cpu_time() - before, started.elapsed());
        let ops = wall.as_millis() as u64;
        let an_ms = |time: Duration| Spread::new(vec![time.as_nanos() as f64 / ops as f64]);
        let share = used.as_secs_f64() / wall.as_secs_f64();
        let notes = vec![("CPU %", format!("{:.2}", share * 100.0))];
        self.measured(warm, (ops, an_ms(used), an_ms(wall)), notes)
    }

    fn measured(
        &self,
        Warm { line, hash }: Warm,
        (ops, cpu_ns_per_op, wall_ns_per_op): (u64, Spread, Spread),
        mut notes: Vec<(&'static str, String)>,
    ) -> Result<Measured> {
        notes.extend(line.notes());
        line.finish()?;
        Ok(Measured {
            engine: concat!("lookaside ", env!("CARGO_PKG_VERSION")).into(),
            bench: "pipeline",
            case: self.plan.text(),
            ops,
            cpu_ns_per_op,
            wall_ns_per_op,
            hash: hash.text(),
            notes,
        })
    }
}

/// Its name on the command line.
fn name(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or(String::new(), |value| value.get_name().to_owned())
}
