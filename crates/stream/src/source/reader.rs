//! Reads the inputs of a source one after the other, block by block.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec;

use super::block::{Block, BlockRead, Cut, Cutter, Eof, Lane};
use super::follow::Follow;
use super::pipe::Pipe;
use super::readable::Readable;
use super::tcp::Listener;
use super::udp::Udp;
use super::{Input, LINGER, LiveRead, Opened, ReadOutcome, Source, open_file};
use crate::compression::Compression;
use crate::content::content;
use crate::mark::Mark;
use crate::message::{MessageRead, MessageSource, OnStop};
use crate::wake::{Wait, Wake};
use crate::{Error, Extent, InputFormat, Progress, Result};

/// Fills the blocks of all workers, one at a time.
pub(crate) struct Reader {
    inputs: vec::IntoIter<Opened>,
    current: Option<Current>,
    cutter: Cutter,
    wake: Wake,
    progress: Progress,
    /// Why reading ends after the last filled block.
    error: Option<Error>,
    /// Sources of messages that were read to their end.
    ended: Vec<(Arc<str>, Box<dyn MessageSource>)>,
}

/// The input that is being read.
enum Current {
    One { input: Box<dyn Input>, lane: Lane },
    Many(Listener),
    Messages(Arc<str>, Box<dyn MessageSource>),
}

/// How long a source of messages is read at once, before the other work of the run is checked.
const MESSAGES_TIMEOUT: Duration = Duration::from_millis(50);

impl Reader {
    pub(crate) fn new(
        source: Source,
        format: &InputFormat,
        block_size: usize,
        wake: Wake,
        progress: &Progress,
    ) -> Self {
        Self {
            inputs: source.inputs.into_iter(),
            current: None,
            cutter: Cutter::new(format, block_size),
            wake,
            progress: progress.clone(),
            error: None,
            ended: Vec::new(),
        }
    }

    /// Closes the sources of messages, after everything was delivered that is going to be.
    pub(crate) fn close(mut self) -> Result<()> {
        if let Some(Current::Messages(name, source)) = self.current.take() {
            self.ended.push((name, source));
        }
        let mut result = Ok(());
        for (name, source) in &mut self.ended {
            let closed = source.close();
            // Each of them is closed; the first error is reported.
            result = result.and(closed.map_err(|error| Error::read_input(name, error)));
        }
        result
    }

    /// Whether a run that was stopped reads what its source has received. It does not if the run ends
    /// for another reason, since nothing is written then.
    fn drains(&mut self) -> bool {
        match &mut self.current {
            Some(Current::Messages(_, source)) if !self.wake.abort.is_raised() => {
                source.stop() == OnStop::Drain
            }
            _ => false,
        }
    }

    /// Fills a block with the next records.
    pub(crate) fn read(&mut self, block: &mut Block) -> Result<BlockRead> {
        loop {
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            let is_draining = self.wake.is_raised();
            if is_draining && !self.drains() {
                return Ok(BlockRead::Stopped);
            }
            let read = match &mut self.current {
                None => match self.inputs.next() {
                    None => return Ok(BlockRead::End),
                    Some(opened) => {
                        let started = start(opened, &self.wake, &self.progress, &self.cutter)?;
                        if started.is_none() {
                            return Ok(BlockRead::Stopped);
                        }
                        self.current = started;
                        continue;
                    }
                },
                Some(Current::Many(listener)) => listener.read_block(block, &self.cutter)?,
                Some(Current::Messages(name, source)) => {
                    block.begin_messages(name);
                    let read = source.read(&mut block.messages, MESSAGES_TIMEOUT);
                    match read.map_err(|error| Error::read_input(name, error))? {
                        MessageRead::Messages => BlockRead::Filled,
                        MessageRead::Idle if is_draining => BlockRead::Stopped,
                        MessageRead::Idle => BlockRead::Idle,
                        MessageRead::End => {
                            if let Some(Current::Messages(name, source)) = self.current.take() {
                                self.ended.push((name, source));
                            }
                            match is_draining {
                                true => BlockRead::Stopped,
                                false => BlockRead::End,
                            }
                        }
                    }
                }
                Some(Current::One { input, lane }) => {
                    let (read, rest) = read_lane(&mut **input, lane, block, &self.cutter)?;
                    block.mark = mark(&**input, lane);
                    block.end = block.end.or(block.mark);
                    match rest {
                        Rest::Ahead => {}
                        Rest::None => self.current = None,
                        Rest::Unreadable(error) => self.error = Some(error),
                    }
                    read
                }
            };
            match read {
                // The end of this input; there may be others.
                BlockRead::End => {}
                BlockRead::Filled | BlockRead::Stopped | BlockRead::Idle => return Ok(read),
            }
        }
    }
}

/// The position of an input after the filled block.
fn mark(input: &dyn Input, lane: &Lane) -> Option<Mark> {
    let (rest, line) = lane.rest()?;
    Some(input.mark()?.before(rest, line))
}

/// Begins to read an input; `None` if the run was stopped.
fn start(
    opened: Opened,
    wake: &Wake,
    progress: &Progress,
    cutter: &Cutter,
) -> Result<Option<Current>> {
    let name = opened.name();
    let failed = |error| Error::read_input(&name, error);
    let wake = wake.clone();
    let input: Box<dyn Input> = match opened {
        Opened::Messages(name, source) => {
            return Ok(Some(Current::Messages(name.into(), source)));
        }
        Opened::Listener(listener, framing, _) => {
            let size_max = cutter.record_size_max;
            let listener = Listener::new(listener, framing, size_max, name.clone(), wake);
            let listener = listener.map_err(failed)?;
            return Ok(Some(Current::Many(listener)));
        }
        Opened::Udp(socket, _) => {
            Box::new(Udp::new(socket, wake, progress.clone()).map_err(failed)?)
        }
        Opened::File(path) => {
            let file = open_file(&path).map_err(failed)?;
            let by_name = Compression::of_path(&path);
            Box::new(Readable(content(file, by_name, progress).map_err(failed)?))
        }
        Opened::Follow(path, file, mark) => {
            let follow = Follow::new(path, file, mark, wake, progress.clone());
            let Some(follow) = follow.map_err(failed)? else {
                return Ok(None);
            };
            let mut lane = Lane::new(name.as_str().into());
            let start = follow.skipped_start(cutter.record_size_max);
            if let (Some(mark), Some(start)) = (mark, start.map_err(failed)?) {
                lane.resume(mark.line, &start, cutter)?;
            }
            let input = Box::new(follow);
            return Ok(Some(Current::One { input, lane }));
        }
        Opened::Stdin(file, Extent::Finite) => {
            let content = content(file, Compression::Plain, progress);
            Box::new(Readable(content.map_err(failed)?))
        }
        Opened::Pipe(_, file) | Opened::Stdin(file, _) => match Pipe::begin(&name, file, wake)? {
            Some(pipe) => Box::new(pipe),
            None => return Ok(None),
        },
        Opened::Reader(_, reader) => Box::new(Readable(reader)),
        Opened::Live(_, reader) => Box::new(Live(reader)),
    };
    let lane = Lane::new(name.into());
    Ok(Some(Current::One { input, lane }))
}

/// A live reader as input.
struct Live(Box<dyn LiveRead>);

impl Input for Live {
    fn read(&mut self, room: &mut [u8], wait: Wait) -> io::Result<ReadOutcome> {
        let timeout = match wait {
            Wait::Forever => None,
            Wait::AtMost(timeout) => Some(timeout),
        };
        Ok(match self.0.read_within(room, timeout)? {
            None => ReadOutcome::Idle,
            Some(0) => ReadOutcome::End,
            Some(size) => ReadOutcome::Bytes(size),
        })
    }
}

/// What an input has after a block.
enum Rest {
    Ahead,
    None,
    Unreadable(Error),
}

/// Fills a block from one lane; also returns what its input still has.
fn read_lane(
    input: &mut dyn Input,
    lane: &mut Lane,
    block: &mut Block,
    cutter: &Cutter,
) -> Result<(BlockRead, Rest)> {
    let mut cut = lane.begin(block, cutter)?;
    let mut open_since = None;
    loop {
        let wait = match cut {
            Cut::Full => return Ok((BlockRead::Filled, Rest::Ahead)),
            Cut::Partial => Wait::Forever,
            Cut::Open => {
                let open_since = *open_since.get_or_insert_with(Instant::now);
                Wait::AtMost(LINGER.saturating_sub(open_since.elapsed()))
            }
        };
        let got = input.read(lane.room(block, cutter), wait);
        let got = match got {
            Ok(got) => got,
            Err(error) => {
                let error = Error::read_input(lane.source(), error);
                // Complete records were read before the error.
                return match lane.end(block, cutter, Eof::Ahead)? {
                    true => Ok((BlockRead::Filled, Rest::Unreadable(error))),
                    false => Err(error),
                };
            }
        };
        match got {
            ReadOutcome::Bytes(size) => cut = lane.filled(size, block, cutter)?,
            ReadOutcome::Idle => match lane.end(block, cutter, Eof::Ahead)? {
                true => return Ok((BlockRead::Filled, Rest::Ahead)),
                false => cut = Cut::Partial,
            },
            ReadOutcome::Next => {
                let filled = lane.end(block, cutter, Eof::Reached)?;
                block.end = input.left();
                *lane = Lane::new(lane.source().clone());
                match filled {
                    true => return Ok((BlockRead::Filled, Rest::Ahead)),
                    false => cut = lane.begin(block, cutter)?,
                }
            }
            ReadOutcome::End => {
                return Ok(match lane.end(block, cutter, Eof::Reached)? {
                    true => (BlockRead::Filled, Rest::None),
                    false => (BlockRead::End, Rest::None),
                });
            }
            // Complete records were already read, and belong to the current batch.
            ReadOutcome::Stopped => {
                return Ok(match lane.end(block, cutter, Eof::Ahead)? {
                    true => (BlockRead::Filled, Rest::Ahead),
                    false => (BlockRead::Stopped, Rest::Ahead),
                });
            }
        }
    }
}
