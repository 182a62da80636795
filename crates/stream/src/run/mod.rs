//! Runs: from a source through a transform to a sink, in order, on all cores.
//!
//! Blocks pass through the ring of `lookaside_pipeline`: the reading thread pushes them, the first
//! stage decodes, transforms and encodes on all cores, and the last stage writes in the order of
//! the input. The stages have workers of the pipeline but no separate threads. A worker of a run is
//! a thread that owns a pipeline worker of the first stage and does all the work for a block: it
//! reads when it is its turn, transforms a block, and writes the blocks that are next unless
//! another thread is doing so.
//!
//! So a block is not handed over between a reader, workers and a writer: it stays in the cache of
//! the core that read it, no thread is woken for each block, and in an idle run a single event is
//! processed by one thread without a wake-up. With separate threads for reading and writing, an
//! event costs more CPU time, in particular with a cheap transform.
//!
//! Memory: each worker holds one block (`block_size`, or one record of at most `line_size_max`) and
//! its records. A slot of the ring holds the output of one block; there are two slots for each worker,
//! rounded up to a power of two and no fewer than four. Until the first record has determined the
//! columns of a CSV output, a slot may hold records too. All of this memory is reused.
//!
//! All waiting threads are woken when a run ends early: a reader by the stop flag in its `poll`, a
//! thread that waits for a slot by the ring, and one that waits at the limit by the limit.

mod block_producer;
mod block_writer;
#[cfg(test)]
mod crash_tests;
mod encoding;
mod job;
mod limit;
mod messages;
mod results;
mod rotation;
mod routes;
mod shared;
mod split;
#[cfg(test)]
mod tests;
mod timer;
mod transform;
mod warning;
mod worker;
mod write;

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Instant;

use lookaside_pipeline::{Pipeline, StageOptions};
use lookaside_value::{Batch, NameTable};

pub use split::SplitPath;
pub use transform::{Identity, Report, Transform};
pub use warning::WarningCallback;

use self::block_producer::{BlockProducer, ProducerState};
use self::block_writer::{BlockWriter, Sinks, Totals};
use self::encoding::{Encoding, RejectEncoding};
use self::job::{KeptRejects, RunJob, Spares};
use self::limit::Limit;
use self::results::ResultEncoding;
use self::routes::{OUTPUT_COUNT_MAX, OutputNames};
use self::shared::{RunOutcome, Shared};
use self::worker::{Maker, Worker};
use crate::message::{MessageFraming, MetaNames, OnNull, Partition};
use crate::sink::Written;
use crate::source::{Block, Reader};
use crate::summary::cpu_time;
use crate::wake::Wake;
use crate::{
    Checkpoint, End, Error, InputFormat, OutputFormat, Progress, Reconnects, Result, Sink, Source,
    StopFlag, Summary,
};

/// Large enough that locks and system calls cost almost nothing per event, small enough that a
/// block, its records and its output stay in a core's second-level cache. From 64 to 512 KiB the
/// difference is within noise (`examples/run_rate.rs`); larger blocks are slower.
const BLOCK_SIZE: usize = 128 << 10;

/// The minimal number of blocks in flight per worker. One is being processed; the others balance
/// blocks of unequal cost and cover a slow write.
const SLOTS_PER_WORKER: usize = 2;

/// The minimal size of a ring with two stages.
const SLOT_COUNT_MIN: usize = 4;

// One slot is worked on and another is filled. The least number of slots is one that a ring can have.
const _: () = assert!(SLOTS_PER_WORKER >= 2);
const _: () = assert!(SLOT_COUNT_MIN.is_power_of_two());

/// The name of the first stage.
const TRANSFORM: &str = "transform";

/// The processing between source and sink: input format, transform and output format.
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
    named: Vec<(Box<str>, OutputFormat)>,
    takes_any_output: bool,
}

/// Options of a run.
#[derive(Debug, Default)]
pub struct RunOptions {
    /// The number of bytes that are read at once; by default 128 KiB.
    pub block_size: Option<NonZero<usize>>,
    /// Whether rejects and failures end the run.
    pub strictness: Strictness,
    /// The sink for the bytes of rejected lines; by default they are dropped.
    pub rejects: Option<Sink>,
    /// The sinks of the named outputs, in the order of [`Flow::with_named_output`].
    pub named_sinks: Vec<Sink>,
    /// A flag that ends the run early.
    pub stop: Option<StopFlag>,
    /// A flag that is raised when nothing is written any more, because the run failed, its output was
    /// closed or a batch was abandoned: a transform that waits can end then.
    pub over: Option<StopFlag>,
    /// Ends the run after this many events of the input, including rejected lines.
    pub event_limit: Option<NonZero<u64>>,
    /// The progress, which observers can read.
    pub progress: Progress,
    /// A checkpoint, which is updated after each batch with how far a followed file was read and
    /// written. Output files that have grown since it was stored are cut back to their size then.
    pub checkpoint: Option<Checkpoint>,
    /// Whose elements become events of their own if it is an array. Each has the other fields of the
    /// event, and the element in place of the array.
    pub split: Option<SplitPath>,
    /// How the payloads of messages are split into events.
    pub framing: MessageFraming,
    /// What is done with messages whose payload is null.
    pub on_null: OnNull,
    /// A flag that ends waits for sinks of messages that do not deliver. What is not delivered then
    /// is read again by the next run.
    pub give_up: Option<StopFlag>,
    /// What is called with warnings: an output was cut back to the checkpoint, or had an incomplete
    /// record at its end.
    pub on_warning: WarningCallback,
}

/// Whether a line that is not a record, or a failure that a transform reports, ends the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// It is counted, and the run continues.
    #[default]
    Lenient,
    /// It is an error; output files that appear when complete do not appear.
    Strict,
}

/// The number of workers that use all cores: the default for the number of transforms passed to
/// [`Flow::run`].
pub fn worker_count() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

impl Flow {
    /// A flow from one format to another, with only the names of the formats.
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
            named: Vec::new(),
            takes_any_output: false,
        }
    }

    /// Writes records whose `@meta/output` names an unknown output to the default one, instead of
    /// rejecting them: for a run with one output of models that are made for several.
    #[must_use]
    pub fn with_any_output(mut self) -> Self {
        self.takes_any_output = true;
        self
    }

    /// Adds an output beside the default one. Records that have its name as `@meta/output` are
    /// written to it; a list there names several outputs. `default` means the default output,
    /// and `none` drops the record, so that neither can be a name.
    ///
    /// # Errors
    /// When an output has this name, there are 64 outputs, or the format is CSV without columns, which
    /// only the default output takes from its first record.
    pub fn with_named_output(mut self, name: &str, format: OutputFormat) -> Result<Self> {
        let is_taken = self.named.iter().any(|(known, _)| **known == *name);
        if is_taken || !OutputNames::is_free(name) {
            return Err(Error::output_name(name));
        }
        if self.named.len() + 1 == OUTPUT_COUNT_MAX {
            return Err(Error::too_many_outputs(OUTPUT_COUNT_MAX));
        }
        if !format.is_ready() {
            return Err(Error::unknown_columns(name));
        }
        format.intern(Arc::make_mut(&mut self.names));
        self.named.push((name.into(), format));
        Ok(self)
    }

    /// The names that all batches start from.
    pub fn names(&self) -> &Arc<NameTable> {
        &self.names
    }

    /// Runs until the source ends, the limit is reached, the stop flag is raised or the reader of
    /// standard output is gone, with one worker for each transform.
    ///
    /// A CSV output that appends to a file with a header does not write a second one and uses the
    /// file's columns.
    ///
    /// A file that is appended to begins, with a checkpoint, at the size that this records; without one,
    /// after its last complete record, if a run that was killed has left an incomplete one.
    ///
    /// # Errors
    /// When the source cannot be read, the sink cannot be written, an output is also an input or
    /// another output, an output file is not as the checkpoint records it, a header is invalid, a
    /// worker panics, or, in a strict run, at the first
    /// reject or failure. Events that were read before a read error are still written, but a sink
    /// whose file appears when complete leaves no file. [`Error::summary`] has what was done until
    /// then.
    ///
    /// # Panics
    /// When there are no transforms, or the number of sinks differs from that of the named outputs.
    pub fn run<T: Transform>(
        &self,
        source: Source,
        transforms: Vec<T>,
        sink: Sink,
        mut options: RunOptions,
    ) -> Result<Summary> {
        assert!(!transforms.is_empty(), "a run has a worker");
        assert_eq!(
            options.named_sinks.len(),
            self.named.len(),
            "each output has a sink"
        );
        let mut outputs = vec![sink];
        outputs.append(&mut options.named_sinks);
        check_places(&source, &outputs, options.rejects.as_ref())?;
        let (started, cpu_started) = (Instant::now(), cpu_time());
        let abort = StopFlag::new().map_err(Error::no_descriptor)?;
        let stop = match options.stop {
            Some(stop) => stop,
            None => StopFlag::new().map_err(Error::no_descriptor)?,
        };

        let give_up = match options.give_up {
            Some(give_up) => give_up,
            None => StopFlag::new().map_err(Error::no_descriptor)?,
        };
        self.check_formats(&source, &outputs)?;
        // The blocks of sources of messages have receipts anyway.
        let all = || outputs.iter().chain(&options.rejects);
        let takes_messages = all().any(Sink::takes_messages);
        let blocks = takes_messages.then(|| Partition::new(outputs[0].name(), 0));
        let meta = MetaNames::of(&self.names);
        let rotates = all().any(Sink::rotates);

        options.progress.begin(outputs.len());
        let output_names = OutputNames::new(
            self.named.iter().map(|(name, _)| &**name),
            self.takes_any_output,
        );
        let mut sinks = Sinks {
            outputs,
            output_names: output_names.clone(),
            rejects: options.rejects,
            inputs: source.paths(),
            checkpoint: options.checkpoint,
            blocks: blocks.clone(),
            marks: VecDeque::new(),
            rotates,
            is_stored: true,
            strictness: options.strictness,
            progress: options.progress.clone(),
            warning: options.on_warning,
        };
        sinks.begin(source.first_mark(), self.formats())?;
        let formats = self.formats().zip(&mut sinks.outputs);
        let formats = formats.map(|(format, sink)| match sink.first_bytes()? {
            Some(bytes) => {
                let format = format.continuing(&bytes, sink.name())?;
                if bytes == format.header().as_bytes() {
                    sink.set_without_events();
                }
                Ok(format)
            }
            None => Ok(format.clone()),
        });
        let formats = formats.collect::<Result<Vec<_>>>()?;
        let mut pipeline = start_pipeline(transforms.len())?;
        let mut workers = pipeline
            .workers(TRANSFORM)
            .into_iter()
            .zip(transforms)
            .map(|(hand, transform)| {
                let results = formats.iter().zip(&sinks.outputs).enumerate();
                let results = results.map(|(index, (format, sink))| {
                    ResultEncoding::new(output_names.named(index), format, &self.names, sink)
                });
                let encoding = Encoding {
                    results: results.collect::<Result<Vec<_>>>()?,
                    output_names: output_names.clone(),
                    rejects: RejectEncoding::new(sinks.rejects.as_ref())?,
                    meta: meta.clone(),
                    on_null: options.on_null,
                };
                Ok(self.worker(hand, transform, encoding))
            })
            .collect::<Result<Vec<_>>>()?;
        let last = pipeline.last_workers().pop();
        let mut prologue = 0;
        for (format, sink) in formats.iter().zip(&mut sinks.outputs) {
            prologue += write_prologue(format, sink)?;
        }
        let block_size = options.block_size.map_or(BLOCK_SIZE, NonZero::get);
        let wake = Wake {
            stop,
            abort: abort.clone(),
        };
        let mut reconnects = Vec::new();
        for sink in sinks.outputs.iter_mut().chain(&mut sinks.rejects) {
            sink.attach(&wake, &give_up);
            reconnects.push(sink.reconnects());
        }
        let progress = options.progress.clone();
        let shared = Shared {
            block_producer: Mutex::new(BlockProducer {
                reader: Reader::new(source, &self.input, block_size, wake, &options.progress),
                producer: pipeline.producer(),
                number: 0,
                state: ProducerState::Open,
                blocks,
                progress: options.progress.clone(),
                error: None,
            }),
            passed: AtomicU64::new(0),
            pipeline,
            spares: Spares::new(
                match &sinks.rejects {
                    None => KeptRejects::First,
                    Some(rejects) if rejects.takes_messages() => KeptRejects::Each,
                    Some(_) => KeptRejects::Bytes,
                },
                sinks.outputs.len(),
            ),
            limit: options.event_limit.map(Limit::new),
            over: OnceLock::new(),
            over_flag: options.over,
            is_abandoned: AtomicBool::new(false),
            abort,
            block_writer: Mutex::new(BlockWriter {
                hand: last.expect("the last stage has a thread, which was not given out before"),
                totals: Totals {
                    events_out: vec![0; sinks.outputs.len()],
                    ..Totals::default()
                },
                sinks,
            }),
            input_format: self.input.clone(),
            output_format: formats
                .into_iter()
                .next()
                .expect("the default output is first"),
            strictness: options.strictness,
            framing: options.framing,
            split: options.split,
            meta,
            progress: options.progress,
        };
        work(&mut workers, &shared, rotates || takes_messages);
        // Not before all are done: dropping a pipeline worker early fails the others.
        drop(workers);

        let RunOutcome {
            mut totals,
            limit_reached,
            mut stopped,
            read_error,
            reader,
            sinks,
        } = shared.into_outcome();
        let mut end = End::Failed;
        let mut is_undelivered = takes_messages;
        let finished = sinks.and_then(|mut sinks| {
            is_undelivered = sinks.flush(&mut totals)? == Written::GivenUp;
            stopped |= is_undelivered;
            let may_end = match (sinks.is_closed(), limit_reached, stopped) {
                (true, ..) => End::BrokenPipe,
                (false, true, _) => End::Limit,
                (false, false, true) => End::Stopped,
                (false, false, false) => End::Whole,
            };
            // A read error after the last event of the limit does not matter.
            if let (End::Whole, Some(error)) = (may_end, read_error) {
                return Err(error);
            }
            let parts = sinks.finish(may_end)?;
            end = may_end;
            Ok(parts)
        });
        // Also after an error: what was delivered until then is acknowledged.
        let closed = reader.close();
        let finished = finished.and_then(|parts| closed.map(|()| parts));
        let summary = |parts| Summary {
            events_in: totals.counts.events_in,
            events_out: totals.counts.events_out,
            events_dropped: totals.counts.events_dropped,
            named_events_out: totals.events_out[1..].to_vec(),
            rejects: totals.rejects,
            rejects_refused: totals.rejects_refused,
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
            datagrams_lost: progress.figures().datagrams_lost,
            elapsed: started.elapsed(),
            cpu: cpu_time().saturating_sub(cpu_started),
            end,
            is_undelivered,
            parts,
        };
        match finished {
            Ok(parts) => Ok(summary(parts)),
            Err(error) => Err(error.after(summary(Vec::new()))),
        }
    }

    /// The formats of the default output and the named ones.
    fn formats(&self) -> impl Iterator<Item = &OutputFormat> {
        let named = self.named.iter().map(|(_, format)| format);
        std::iter::once(&self.output).chain(named)
    }

    fn worker<T>(
        &self,
        hand: lookaside_pipeline::Worker<RunJob>,
        transform: T,
        encoding: Encoding,
    ) -> Worker<T> {
        Worker {
            hand,
            block: Block::default(),
            maker: Maker {
                decoder: self.input.decoder(&self.names),
                transform,
                names: self.names.clone(),
                batch: Batch::new(self.names.clone()),
            },
            encoding,
        }
    }

    /// Refuses formats that need lines before the first one, since a message stands alone.
    fn check_formats(&self, source: &Source, sinks: &[Sink]) -> Result<()> {
        if source.has_messages() && self.input.has_header() {
            return Err(Error::header_in_messages());
        }
        for (format, sink) in self.formats().zip(sinks) {
            let is_alone = source.has_messages() || sink.takes_messages();
            if is_alone && !format.is_ready() {
                return Err(Error::unknown_columns(sink.name()));
            }
        }
        Ok(())
    }
}

/// The ring of a run and its stages: the transform with one pipeline worker for each worker, and
/// the last stage with one. Blocks are taken one by one, so that they are spread over the workers
/// and each slot is free as soon as it is written.
fn start_pipeline(worker_count: usize) -> Result<Pipeline<RunJob>> {
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

/// Refuses outputs that would overwrite an input or another output, as data would be lost silently.
fn check_places(source: &Source, outputs: &[Sink], rejects: Option<&Sink>) -> Result<()> {
    let sinks: Vec<_> = outputs.iter().chain(rejects).collect();
    for (index, sink) in sinks.iter().enumerate() {
        if let Some(input) = sink
            .identity()
            .and_then(|identity| source.input_at(identity))
        {
            return Err(Error::output_is_input(sink.name(), &input));
        }
        if let Some(other) = sinks[..index].iter().find(|other| other.clashes_with(sink)) {
            return Err(Error::outputs_are_one(other.name(), sink.name()));
        }
    }
    Ok(())
}

/// Writes the text before the first record, and returns its size.
fn write_prologue(format: &OutputFormat, sink: &mut Sink) -> Result<u64> {
    if sink.takes_messages() {
        return Ok(0);
    }
    let header = format.header();
    if !header.is_empty() {
        sink.set_header(&header)?;
    }
    let mut bytes = format.prologue().into_bytes();
    let size = bytes.len() as u64;
    sink.compression()
        .compressor()
        .and_then(|mut compressor| compressor.compress(&mut bytes))
        .map_err(Error::compress)?;
    sink.write(&bytes)?;
    Ok(size)
}

/// Runs the workers to their end: the first on this thread, each of the others on a new thread. With
/// `has_timer`, another thread does what is due at times until then.
fn work<T: Transform>(workers: &mut [Worker<T>], shared: &Shared, has_timer: bool) {
    let (first, others) = workers.split_first_mut().expect("a run has a worker");
    // Disconnected when no worker has the sender any more.
    let (working, end) = mpsc::channel();
    thread::scope(|scope| {
        if has_timer {
            let thread = thread::Builder::new().name("stream-timer".to_owned());
            if let Err(error) = thread.spawn_scoped(scope, move || shared.work_at_times(&end)) {
                return shared.end(Some(Error::no_thread(error)));
            }
        }
        for (index, worker) in (1..).zip(others) {
            let thread = thread::Builder::new().name(format!("stream-{index}"));
            let working = working.clone();
            let work = move || {
                worker.work(shared);
                drop(working);
            };
            if let Err(error) = thread.spawn_scoped(scope, work) {
                // Threads that already run see it and stop; the scope waits for them.
                shared.end(Some(Error::no_thread(error)));
                return;
            }
        }
        first.work(shared);
        drop(working);
    });
}
