//! What does it cost to hand an item from thread to thread in a ring, how much of a serial stage's time
//! is left for its own work, and what does a pipeline cost that has nothing to do?

mod line;

use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use lookaside_pipeline::Wait;

use self::line::{Line, Shape, Work};
use super::Result;
use super::measure::{AnswerHash, Measured, Rounds, Spread, cpu_time, measure};
use super::report;

/// Handing items from thread to thread in a ring
#[derive(Debug, Args)]
pub(crate) struct PipelineArguments {
    /// What is measured; all cases in turn when it is left out.
    #[arg(long, value_enum)]
    case: Option<Case>,
    /// How threads without items wait; all ways in turn when it is left out.
    #[arg(long, value_enum)]
    wait: Option<WaitArgument>,
    /// Items that the producer hands over at once; 1, 8 and 64 in turn when it is left out.
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
    /// How long the first of two stages may work on each item before throughput drops.
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
}

/// Items between two looks at the clock.
const BLOCK: u64 = 20_000;

pub(super) fn run(arguments: &PipelineArguments) -> Result<()> {
    let cases = arguments
        .case
        .map_or(Case::value_variants().to_vec(), |case| vec![case]);
    let waits = arguments
        .wait
        .map_or(WaitArgument::value_variants().to_vec(), |wait| vec![wait]);
    let batches = arguments
        .batch
        .map_or(vec![1, 8, 64], |batch| vec![usize::from(batch)]);
    for case in cases {
        for &wait in &waits {
            let bench = Bench { arguments, wait };
            match case {
                Case::OneStage | Case::TwoStages => {
                    for &batch in &batches {
                        bench.handoff(case, batch)?;
                    }
                }
                Case::Headroom => bench.headroom(batches[0])?,
                Case::Idle => bench.idle()?,
            }
        }
    }
    Ok(())
}

struct Bench<'a> {
    arguments: &'a PipelineArguments,
    wait: WaitArgument,
}

impl Bench<'_> {
    fn shape(&self, stage_count: usize) -> Shape {
        Shape {
            lg_size: u32::from(self.arguments.lg_size),
            stage_count,
            batch_max: u32::from(self.arguments.batch_max),
            wait: self.wait.wait(),
        }
    }

    fn handoff(&self, case: Case, batch: usize) -> Result<()> {
        let mut line = Line::start(self.shape(1 + usize::from(case == Case::TwoStages)))?;
        let mut hash = AnswerHash::new();
        hash.add(line.push(BLOCK, batch)?.to_string().as_bytes());
        let measured = measure(self.arguments.rounds, || {
            line.push(BLOCK, batch).map(|_| BLOCK)
        })?;
        let notes = line.notes();
        line.finish()?;
        self.report(case, &format!("batch {batch}"), measured, hash, notes)
    }

    /// The most work in the first stage for which throughput is still what it is without any. What is left
    /// of the time between two items then is the pipeline's own.
    fn headroom(&self, batch: usize) -> Result<()> {
        /// A throughput of so much of the unloaded one counts as the same.
        const SAME: f64 = 0.97;
        const STEP_COUNT: usize = 8;
        let mut line = Line::start(self.shape(2))?;
        let mut hash = AnswerHash::new();
        hash.add(line.push(BLOCK, batch)?.to_string().as_bytes());
        let step_ns = Work::step_ns();
        line.set_producer_work(Work::of_ns(self.arguments.producer_work, step_ns));
        let (mut low, mut high) = (0.0, 0.0);
        let mut best = None;
        for step in 0..=STEP_COUNT {
            let work = if step == 0 { 0.0 } else { (low + high) / 2.0 };
            // Both in turn, as a machine is not the same from one second to the next.
            let (mut unloaded, mut loaded) = (Vec::new(), Vec::new());
            let rounds = Rounds {
                rounds: 1,
                ..self.arguments.rounds
            };
            let (mut ops, mut cpu) = (0, Vec::new());
            for _ in 0..self.arguments.rounds.rounds.max(1) {
                for (ns, periods) in [(0.0, &mut unloaded), (work, &mut loaded)] {
                    line.set_work(Work::of_ns(ns, step_ns));
                    let (count, cpu_spread, wall) =
                        measure(rounds, || line.push(BLOCK, batch).map(|_| BLOCK))?;
                    periods.push(wall.median);
                    cpu.push(cpu_spread.median);
                    ops += count;
                }
            }
            let (unloaded, loaded) = (Spread::new(unloaded), Spread::new(loaded));
            if step == 0 {
                high = 2.0 * loaded.median;
            }
            // Without work the two are the same but for noise.
            if step == 0 || unloaded.median >= SAME * loaded.median {
                low = work;
                best = Some((work, unloaded.median, (ops, Spread::new(cpu), loaded)));
            } else {
                high = work;
            }
        }
        let (work, period, measured) = best.expect("the step without work always counts");
        let mut notes = vec![
            ("work ns", format!("{work:.0}")),
            ("period ns", format!("{period:.0}")),
            ("overhead ns", format!("{:.0}", period - work)),
        ];
        notes.extend(line.notes());
        line.finish()?;
        self.report(
            Case::Headroom,
            &format!("batch {batch}"),
            measured,
            hash,
            notes,
        )
    }

    fn idle(&self) -> Result<()> {
        let mut line = Line::start(self.shape(2))?;
        let mut hash = AnswerHash::new();
        hash.add(line.push(1, 1)?.to_string().as_bytes());
        // An operation is a millisecond.
        let length = Duration::from_millis(1);
        let used = cpu_time();
        let started = Instant::now();
        let measured = measure(self.arguments.rounds, || -> Result<u64> {
            let started = Instant::now();
            thread::sleep(20 * length);
            Ok(started.elapsed().as_millis() as u64)
        })?;
        let share = (cpu_time() - used).as_secs_f64() / started.elapsed().as_secs_f64();
        let mut notes = vec![("CPU %", format!("{:.1}", share * 100.0))];
        notes.extend(line.notes());
        line.finish()?;
        self.report(Case::Idle, "1 ms", measured, hash, notes)
    }

    fn report(
        &self,
        case: Case,
        how: &str,
        (ops, cpu_ns_per_op, wall_ns_per_op): (u64, Spread, Spread),
        hash: AnswerHash,
        notes: Vec<(&'static str, String)>,
    ) -> Result<()> {
        let measured = Measured {
            engine: concat!("lookaside ", env!("CARGO_PKG_VERSION")).into(),
            bench: "pipeline",
            case: format!("{}, {}, {how}", name(case), name(self.wait)),
            ops,
            cpu_ns_per_op,
            wall_ns_per_op,
            hash: hash.text(),
            notes,
        };
        report::print(&measured, self.arguments.rounds.json)
    }
}

/// As the command line has it.
fn name(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or(String::new(), |value| value.get_name().to_owned())
}
