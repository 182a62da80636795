//! The run: from a source through a transform to a sink, in order, on all cores.
//!
//! Blocks travel in the ring of `lookaside_pipeline`: whoever reads puts them in, the first stage
//! decodes, transforms and encodes on all cores, the last one writes in the order of the input. The
//! stages have places and no threads of their own. A worker is a thread with a place in the first
//! stage that does the whole way of a block: it takes its turn to read, takes a block to the
//! transform, and writes whatever is next if nobody else is about to.
//!
//! So no block changes hands between a reader, workers and a writer: it stays in the cache of the core
//! that read it, no thread is woken for each block, and a single event passes a quiet run in one go.
//! With a thread of its own for the reader and one for the writer an event costs more CPU time, most
//! where the transform does least.
//!
//! Memory: each worker holds one block (`block_size`, or one record of at most `line_size_max`) and
//! its records. A slot of the ring holds the output of one block; there are two slots for each worker,
//! rounded up to a power of two and no fewer than four. Until the first record has decided the columns
//! of a csv output, a slot may hold records too. All of it is used again.
//!
//! Whoever waits for something is woken when a run ends early: a reader by the flag that its `poll`
//! hears, who waits for a slot by the ring, and who waits at the limit by that.

mod encoding;
mod entry;
mod exit;
mod job;
mod limit;
mod shared;
#[cfg(test)]
mod tests;
mod transform;
mod worker;
mod write;

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Instant;

use lookaside_pipeline::{Pipeline, StageOptions};
use lookaside_value::{Batch, NameTable};

pub use transform::{Identity, Report, Transform};

use self::encoding::Encoding;
use self::entry::{Entry, EntryState};
use self::exit::{Exit, Sinks, Totals};
use self::job::{Job, Spares};
use self::limit::Limit;
use self::shared::{Outcome, Shared};
use self::worker::{Maker, Worker};
use crate::source::{Block, Reader};
use crate::summary::cpu_time;
use crate::wake::Wake;
use crate::{
    Checkpoint, End, Error, InputFormat, OutputFormat, Progress, Reconnects, Result, Sink, Source,
    StopFlag, Summary,
};

/// Large enough that turns, locks and system calls cost nothing per event, small enough that a
/// block, its records and its output stay in a core's second-level cache. From 64 to 512 KiB the
/// difference drowns in noise (`examples/run_rate.rs`); from there on it gets slower.
const BLOCK_SIZE: usize = 128 << 10;

/// Blocks under way for each worker, at least. One is being worked on; the others even out blocks of
/// unequal cost and cover a write that takes a moment.
const SLOTS_PER_WORKER: usize = 2;

/// What a ring of two stages needs.
const SLOT_COUNT_MIN: usize = 4;

/// The name of the first stage.
const TRANSFORM: &str = "transform";

/// What happens to the bytes between source and sink.
///
/// ```
/// use lookaside_stream::{
///     Extent, Flow, FormatOptions, Identity, InputFormat, OutputFormat, RunOptions, Sink, Source,
/// };
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("out.json");
/// let flow = Flow::new(
///     InputFormat::new("kv", &FormatOptions::new())?,
///     OutputFormat::new("json", &FormatOptions::new())?,
/// );
/// let source = Source::new().with_reader("words", &b"a=1 b=2\n"[..]);
/// let sink = Sink::file(&path, source.extent())?;
/// let summary = flow.run(source, vec![Identity, Identity], sink, RunOptions::default())?;
/// assert_eq!(summary.events_out, 1);
/// assert_eq!(std::fs::read_to_string(&path)?, "{\"a\":\"1\",\"b\":\"2\"}\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Flow {
    names: Arc<NameTable>,
    input: InputFormat,
    output: OutputFormat,
}

/// How a run behaves.
#[derive(Debug, Default)]
pub struct RunOptions {
    /// Bytes that are read at once; by default 128 KiB.
    pub block_size: Option<NonZero<usize>>,
    /// Whether rejects and failures end the run.
    pub strictness: Strictness,
    /// Where the bytes of rejected lines go; by default nowhere.
    pub rejects: Option<Sink>,
    /// What asks the run to end early.
    pub stop: Option<StopFlag>,
    /// Ends the run after the first so many events of the input, rejected lines among them.
    pub event_limit: Option<NonZero<u64>>,
    /// What shows others how far the run is.
    pub progress: Progress,
    /// What is told how far a followed file was read and written, behind each batch.
    pub checkpoint: Option<Checkpoint>,
}

/// Whether a line that is not a record, or a failure that a transform reports, ends the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// It is counted, and the run goes on.
    #[default]
    Lenient,
    /// It is an error; no output file that was to appear when whole appears.
    Strict,
}

/// How many workers use all cores: the length that the transforms given to [`Flow::run`] should
/// have where nobody asked for another.
pub fn worker_count() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

impl Flow {
    /// A flow from one format to another, with only the names that the formats know.
    pub fn new(input: InputFormat, output: OutputFormat) -> Self {
        Self::with_names(NameTable::new(), input, output)
    }

    /// A flow whose batches start from `names`, to which the names of the formats are added.
    pub fn with_names(mut names: NameTable, input: InputFormat, output: OutputFormat) -> Self {
        input.intern(&mut names);
        output.intern(&mut names);
        Self {
            names: Arc::new(names),
            input,
            output,
        }
    }

    /// The names that all batches start from.
    pub fn names(&self) -> &Arc<NameTable> {
        &self.names
    }

    /// Runs until the source ends, the limit is reached, the stop flag is raised or standard output
    /// has no reader any more, with one worker for each transform.
    ///
    /// A csv output that continues a file with a header writes no second one: the file's columns
    /// are the columns.
    ///
    /// # Errors
    /// When the source cannot be read, the sink cannot be written, an output is also an input or
    /// another output, a header is none, a worker panics, or, in a strict run, at the first reject
    /// or failure. What was read before it could not be read any further is still written, but a
    /// sink that makes its file appear when it is whole leaves no file. [`Error::summary`] says what
    /// was done until then.
    ///
    /// # Panics
    /// When there is no transform.
    pub fn run<T: Transform>(
        &self,
        source: Source,
        transforms: Vec<T>,
        mut sink: Sink,
        mut options: RunOptions,
    ) -> Result<Summary> {
        assert!(!transforms.is_empty(), "a run has a worker");
        check_places(&source, &sink, options.rejects.as_ref())?;
        // From here on, a rename is not a loss, whatever ends this run.
        if let (Some(checkpoint), Some(mark)) = (&mut options.checkpoint, source.first_mark())
            && checkpoint.mark().is_none()
        {
            checkpoint.store(mark)?;
        }
        let (started, cpu_started) = (Instant::now(), cpu_time());
        let abort = StopFlag::new().map_err(Error::no_descriptor)?;
        let stop = match options.stop {
            Some(stop) => stop,
            None => StopFlag::new().map_err(Error::no_descriptor)?,
        };

        let output = match sink.first_bytes()? {
            Some(bytes) => self.output.continuing(&bytes, sink.name())?,
            None => self.output.clone(),
        };
        let mut pipeline = start_pipeline(transforms.len())?;
        let mut workers = pipeline
            .workers(TRANSFORM)
            .into_iter()
            .zip(transforms)
            .map(|(hand, transform)| {
                self.worker(hand, transform, &output, &sink, options.rejects.as_ref())
            })
            .collect::<Result<Vec<_>>>()?;
        let last = pipeline.last_workers().pop();
        let prologue = write_prologue(&output, &mut sink)?;
        let block_size = options.block_size.map_or(BLOCK_SIZE, NonZero::get);
        let wake = Wake {
            stop,
            abort: abort.clone(),
        };
        let mut reconnects = Vec::new();
        for sink in [Some(&mut sink), options.rejects.as_mut()]
            .into_iter()
            .flatten()
        {
            sink.attach(&wake);
            reconnects.push(sink.reconnects());
        }
        let progress = options.progress.clone();
        let shared = Shared {
            entry: Mutex::new(Entry {
                reader: Reader::new(source, &self.input, block_size, wake, &options.progress),
                producer: pipeline.producer(),
                number: 0,
                state: EntryState::Open,
                error: None,
            }),
            passed: AtomicU64::new(0),
            pipeline,
            spares: Spares::new(options.rejects.is_some()),
            limit: options.event_limit.map(Limit::new),
            over: OnceLock::new(),
            is_abandoned: AtomicBool::new(false),
            abort,
            exit: Mutex::new(Exit {
                hand: last.expect("the last stage has a thread, which was not given out before"),
                sinks: Sinks {
                    output: sink,
                    rejects: options.rejects,
                    checkpoint: options.checkpoint,
                },
                totals: Totals::default(),
            }),
            input_format: self.input.clone(),
            output_format: output,
            strictness: options.strictness,
            progress: options.progress,
        };
        work(&mut workers, &shared);
        // Not before all are through: a place in the ring that is given up fails the others.
        drop(workers);

        let Outcome {
            totals,
            limit_reached,
            stopped,
            read_error,
            sinks,
        } = shared.into_outcome();
        let mut end = End::Failed;
        let finished = sinks.and_then(|sinks| {
            let may_end = match (sinks.output.is_closed(), limit_reached, stopped) {
                (true, ..) => End::BrokenPipe,
                (false, true, _) => End::Limit,
                (false, false, true) => End::Stopped,
                (false, false, false) => End::Whole,
            };
            // A read that failed behind the last event that anybody wanted does not matter.
            if let (End::Whole, Some(error)) = (may_end, read_error) {
                return Err(error);
            }
            let parts = sinks.finish(may_end)?;
            end = may_end;
            Ok(parts)
        });
        let summary = |parts| Summary {
            events_in: totals.counts.events_in,
            events_out: totals.counts.events_out,
            rejects: totals.rejects,
            failures: totals.failures,
            bytes_in: totals.counts.bytes_in,
            bytes_out: totals.counts.bytes_out + prologue,
            reconnects: reconnects
                .iter()
                .fold(Reconnects::default(), |mut sum, reconnects| {
                    sum.add(reconnects());
                    sum
                }),
            truncations: progress.figures().truncations,
            bytes_unread: progress.figures().bytes_unread,
            elapsed: started.elapsed(),
            cpu: cpu_time().saturating_sub(cpu_started),
            end,
            parts,
        };
        match finished {
            Ok(parts) => Ok(summary(parts)),
            Err(error) => Err(error.after(summary(Vec::new()))),
        }
    }

    fn worker<T>(
        &self,
        hand: lookaside_pipeline::Worker<Job>,
        transform: T,
        output: &OutputFormat,
        sink: &Sink,
        rejects: Option<&Sink>,
    ) -> Result<Worker<T>> {
        let compressor = |sink: &Sink| sink.compression().compressor().map_err(Error::compress);
        Ok(Worker {
            hand,
            block: Block::default(),
            maker: Maker {
                decoder: self.input.decoder(&self.names),
                transform,
                names: self.names.clone(),
                batch: Batch::new(self.names.clone()),
            },
            encoding: Encoding {
                encoder: output.encoder(&self.names),
                compressor: compressor(sink)?,
                reject_compressor: rejects.map(compressor).transpose()?,
            },
        })
    }
}

/// The ring of a run and its stages: the transform with a place for each worker, and the way out with
/// one. Blocks are taken one by one, so that they spread over the workers and each slot is free as soon
/// as it is written.
fn start_pipeline(worker_count: usize) -> Result<Pipeline<Job>> {
    let one_by_one = StageOptions {
        batch_max: NonZero::<u32>::MIN,
        ..StageOptions::default()
    };
    let slot_count = worker_count
        .saturating_mul(SLOTS_PER_WORKER)
        .max(SLOT_COUNT_MIN);
    let lg_size = slot_count
        .checked_next_power_of_two()
        .map_or(u32::MAX, usize::ilog2);
    Pipeline::builder(lg_size)
        .sole_producer()
        .stage_by_caller(TRANSFORM, worker_count, one_by_one)
        .last_by_caller("write", 1, one_by_one)
        .start()
        .map_err(Error::no_pipeline)
}

/// Refuses to write over what is read, or over what is written: the loss would be silent.
fn check_places(source: &Source, output: &Sink, rejects: Option<&Sink>) -> Result<()> {
    for sink in [Some(output), rejects].into_iter().flatten() {
        if let Some(input) = sink.place().and_then(|place| source.input_at(place)) {
            return Err(Error::output_is_input(sink.name(), &input));
        }
    }
    match rejects {
        Some(rejects) if output.clashes_with(rejects) => {
            Err(Error::outputs_are_one(output.name(), rejects.name()))
        }
        _ => Ok(()),
    }
}

/// Writes what stands before the first record, and says how much that was.
fn write_prologue(format: &OutputFormat, sink: &mut Sink) -> Result<u64> {
    let prologue = format.prologue();
    if !prologue.is_empty() {
        sink.set_header(&prologue);
    }
    let mut bytes = prologue.into_bytes();
    let size = bytes.len() as u64;
    sink.compression()
        .compressor()
        .and_then(|mut compressor| compressor.compress(&mut bytes))
        .map_err(Error::compress)?;
    sink.write(&bytes)?;
    Ok(size)
}

/// Runs the workers to their end: the first in this thread, the others each in one of its own.
fn work<T: Transform>(workers: &mut [Worker<T>], shared: &Shared) {
    let (first, others) = workers.split_first_mut().expect("a run has a worker");
    thread::scope(|scope| {
        for (index, worker) in (1..).zip(others) {
            let thread = thread::Builder::new().name(format!("stream-{index}"));
            if let Err(error) = thread.spawn_scoped(scope, || worker.work(shared)) {
                // Those that run already see it and stop; the scope waits for them.
                shared.end(Some(Error::no_thread(error)));
                return;
            }
        }
        first.work(shared);
    });
}
