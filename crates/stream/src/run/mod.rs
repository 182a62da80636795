//! The run: from a source through a transform to a sink, in order, on all cores.
//!
//! Every worker does the whole way of a block by itself: it takes its turn at the source, decodes,
//! transforms and encodes on its own, and leaves the output at its place in the order. No block
//! changes hands, so there is no queue to fill between a reader, workers and a writer, and no
//! thread to wake for each block.
//!
//! Memory: each worker holds one block (`block_size`, or one record of at most `line_size_max`),
//! its records and its output; at most two outputs for each worker wait for an earlier one.

mod gate;
mod progress;
mod stop;
mod summary;
mod transform;
mod worker;

use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use lookaside_value::{Batch, NameTable};

pub use progress::{Figures, Progress};
pub use stop::StopFlag;
pub use summary::{End, Summary};
pub use transform::{Identity, Report, Transform};

use self::gate::{Gate, Outcome, Sinks};
use self::worker::{Entry, EntryState, Shared, Worker};
use crate::source::{Block, Reader, Wake};
use crate::{Error, InputFormat, OutputFormat, Result, Sink, Source};

/// Large enough that turns, locks and system calls cost nothing per event, small enough that a
/// block, its records and its output stay in a core's second-level cache. From 64 to 512 KiB the
/// difference drowns in noise (`examples/run_rate.rs`); from there on it gets slower.
const BLOCK_SIZE: usize = 128 << 10;

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
}

/// Whether a line that is no record, or a failure that a transform reports, ends the run.
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
        options: RunOptions,
    ) -> Result<Summary> {
        assert!(!transforms.is_empty(), "a run has a worker");
        check_places(&source, &sink, options.rejects.as_ref())?;
        let (started, cpu_started) = (Instant::now(), summary::cpu_time());
        let abort = StopFlag::new().map_err(Error::no_descriptor)?;
        let stop = match options.stop {
            Some(stop) => stop,
            None => StopFlag::new().map_err(Error::no_descriptor)?,
        };

        let output = match sink.first_bytes()? {
            Some(bytes) => self.output.continuing(&bytes, sink.name())?,
            None => self.output.clone(),
        };
        let workers = transforms
            .into_iter()
            .map(|transform| self.worker(transform, &output, &sink, options.rejects.as_ref()))
            .collect::<Result<Vec<_>>>()?;
        let prologue = write_prologue(&output, &mut sink)?;
        let block_size = options.block_size.map_or(BLOCK_SIZE, NonZero::get);
        let wake = Wake {
            stop,
            abort: abort.clone(),
        };
        let sinks = Sinks {
            output: sink,
            rejects: options.rejects,
        };
        let shared = Shared {
            entry: Mutex::new(Entry {
                reader: Reader::new(source, &self.input, block_size, wake, &options.progress),
                number: 0,
                state: EntryState::Open,
                error: None,
            }),
            gate: Gate::new(
                sinks,
                workers.len(),
                options.strictness,
                options.event_limit,
                abort,
                options.progress,
            ),
            input_format: self.input.clone(),
            output_format: output,
        };
        work(workers, &shared);

        let entry = shared.entry.into_inner();
        let entry = entry.unwrap_or_else(PoisonError::into_inner);
        let stopped = entry.state == EntryState::Stopped;
        let Outcome {
            totals,
            limit_reached,
            sinks,
        } = shared.gate.into_outcome();
        let mut end = End::Failed;
        let finished = sinks.and_then(|sinks| {
            let may_end = match (sinks.output.is_closed(), limit_reached, stopped) {
                (true, ..) => End::BrokenPipe,
                (false, true, _) => End::Limit,
                (false, false, true) => End::Stopped,
                (false, false, false) => End::Whole,
            };
            // A read that failed behind the last event that anybody wanted does not matter.
            if let (End::Whole, Some(error)) = (may_end, entry.error) {
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
            elapsed: started.elapsed(),
            cpu: summary::cpu_time().saturating_sub(cpu_started),
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
        transform: T,
        output: &OutputFormat,
        sink: &Sink,
        rejects: Option<&Sink>,
    ) -> Result<Worker<T>> {
        let compressor = |sink: &Sink| sink.compression().compressor().map_err(Error::compress);
        Ok(Worker {
            decoder: self.input.decoder(&self.names),
            transform,
            encoder: output.encoder(&self.names),
            compressor: compressor(sink)?,
            reject_compressor: rejects.map(compressor).transpose()?,
            batch: Batch::new(self.names.clone()),
            block: Block::default(),
        })
    }
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
    let mut bytes = format.prologue().into_bytes();
    let size = bytes.len() as u64;
    sink.compression()
        .compressor()
        .and_then(|mut compressor| compressor.compress(&mut bytes))
        .map_err(Error::compress)?;
    sink.write(&bytes)?;
    Ok(size)
}

/// Runs the workers to their end, each in a thread of its own.
fn work<T: Transform>(workers: Vec<Worker<T>>, shared: &Shared) {
    thread::scope(|scope| {
        for (index, worker) in workers.into_iter().enumerate() {
            let thread = thread::Builder::new().name(format!("stream-{index}"));
            if let Err(error) = thread.spawn_scoped(scope, || worker.work(shared)) {
                // Those that run already see it and stop; the scope waits for them.
                shared.gate.fail(Error::no_thread(error));
                break;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, mpsc};
    use std::time::Duration;

    use super::*;
    use crate::sink::Target;
    use crate::{Extent, FormatOptions, LiveRead};

    /// A file that fails at one of its steps: a write, or the step that makes it final.
    struct Failing {
        inner: Box<dyn Target>,
        steps: Arc<AtomicUsize>,
        fails_at: usize,
    }

    impl Failing {
        fn step(&self) -> io::Result<()> {
            match self.steps.fetch_add(1, Ordering::Relaxed) == self.fails_at {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => Ok(()),
            }
        }
    }

    impl Target for Failing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.step()?;
            self.inner.write(bytes)
        }

        fn appears_whole(&self) -> bool {
            self.inner.appears_whole()
        }

        fn finish(self: Box<Self>) -> io::Result<()> {
            self.step()?;
            self.inner.finish()
        }
    }

    fn flow() -> Flow {
        let options = FormatOptions::new();
        Flow::new(
            InputFormat::new("raw", &options).unwrap(),
            OutputFormat::new("raw", &options).unwrap(),
        )
    }

    /// Pieces from a channel, with the pauses of whoever sends them.
    struct Pieces(mpsc::Receiver<Vec<u8>>);

    impl LiveRead for Pieces {
        fn read_within(
            &mut self,
            room: &mut [u8],
            patience: Option<Duration>,
        ) -> io::Result<Option<usize>> {
            let piece = match patience {
                None => self.0.recv().ok(),
                Some(patience) => match self.0.recv_timeout(patience) {
                    Ok(piece) => Some(piece),
                    Err(mpsc::RecvTimeoutError::Timeout) => return Ok(None),
                    Err(mpsc::RecvTimeoutError::Disconnected) => None,
                },
            };
            let piece = piece.unwrap_or_default();
            room[..piece.len()].copy_from_slice(&piece);
            Ok(Some(piece.len()))
        }
    }

    /// What is written, on a channel.
    struct Written(mpsc::Sender<Vec<u8>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn events_do_not_wait_through_a_pause() {
        let (to_run, pieces) = mpsc::channel();
        let (written, from_run) = mpsc::channel();
        let source = Source::new().with_live("in", Pieces(pieces));
        let sink = Sink::writer("out", Written(written), |_| Ok(()));
        let run = std::thread::spawn(move || {
            flow().run(source, vec![Identity; 2], sink, RunOptions::default())
        });
        for (piece, expected) in [("a\nb", "a\n"), ("c\nd\n", "bc\nd\n")] {
            to_run.send(piece.as_bytes().to_vec()).unwrap();
            assert_eq!(from_run.recv().unwrap(), expected.as_bytes());
        }
        to_run.send(b"e".to_vec()).unwrap();
        drop(to_run);
        assert_eq!(from_run.recv().unwrap(), b"e\n");
        assert_eq!(run.join().unwrap().unwrap().events_out, 4);
    }

    #[test]
    fn a_file_appears_only_when_every_step_went_well() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, "old").unwrap();
        let text: String = (0..200).map(|line| format!("line {line}\n")).collect();
        let steps = Arc::new(AtomicUsize::new(0));
        for fails_at in 0.. {
            steps.store(0, Ordering::Relaxed);
            let source = Source::new().with_reader("in", io::Cursor::new(text.clone()));
            let sink = Sink::file(&path, Extent::Finite).unwrap();
            let sink = sink.wrapped(|inner| {
                Box::new(Failing {
                    inner,
                    steps: steps.clone(),
                    fails_at,
                })
            });
            let options = RunOptions {
                block_size: NonZero::new(100),
                ..RunOptions::default()
            };
            let run = flow().run(source, vec![Identity; 3], sink, options);
            let files = std::fs::read_dir(folder.path()).unwrap().count();
            assert_eq!(files, 1, "no temporary file stays, step {fails_at}");
            let content = std::fs::read_to_string(&path).unwrap();
            match run {
                Ok(_) => {
                    assert_eq!(
                        steps.load(Ordering::Relaxed),
                        fails_at,
                        "all steps were tried"
                    );
                    assert!(fails_at > 10, "each block is a step");
                    assert_eq!(content, text);
                    break;
                }
                Err(error) => {
                    let name = path.display();
                    let message = format!("output `{name}` cannot be written any further");
                    assert_eq!(error.to_string(), message);
                    assert_eq!(content, "old", "step {fails_at}");
                }
            }
        }
    }

    /// A sink that blocks until it is released.
    struct Blocked(Arc<Mutex<()>>);

    impl Target for Blocked {
        fn write(&mut self, _: &[u8]) -> io::Result<()> {
            drop(self.0.lock());
            Ok(())
        }

        fn finish(self: Box<Self>) -> io::Result<()> {
            Ok(())
        }
    }

    /// Counts the batches that were begun.
    #[derive(Clone)]
    struct Counted(Arc<AtomicUsize>);

    impl Transform for Counted {
        fn transform(&mut self, _: &mut Batch, _: &mut Report) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_slow_sink_holds_the_source_back() {
        const WORKERS: usize = 3;
        let (door, begun) = (Arc::new(Mutex::new(())), Arc::new(AtomicUsize::new(0)));
        let closed = door.lock().unwrap();
        let run = thread::spawn({
            let (door, begun) = (door.clone(), begun.clone());
            move || {
                let source = Source::new().with_reader("in", io::Cursor::new("line\n".repeat(500)));
                let options = RunOptions {
                    block_size: NonZero::new(5),
                    ..RunOptions::default()
                };
                let sink = Sink::new("blocked", Box::new(Blocked(door)));
                flow().run(source, vec![Counted(begun); WORKERS], sink, options)
            }
        });
        // One output is being written, two for each worker wait, and each worker but the writer
        // holds one that finds no room.
        let bound = 1 + 2 * WORKERS + (WORKERS - 1);
        while begun.load(Ordering::Relaxed) < bound {
            thread::yield_now();
        }
        for _ in 0..1_000 {
            thread::yield_now();
            assert_eq!(begun.load(Ordering::Relaxed), bound);
        }
        drop(closed);
        assert_eq!(run.join().unwrap().unwrap().events_out, 500);
    }
}
