//! The thread of a sink: sends commands and reads replies.

use std::ops::Range;
use std::sync::Arc;

use crossbeam_channel::Receiver;
use lookaside_stream::{Receipt, RefusedMessage};
use tracing::{debug, info, warn};

use super::client::{Client, Failure};
use crate::write_queue::WriteState;

/// Commands that are sent at once, each of which appends a message.
#[derive(Default)]
pub(super) struct Pipeline {
    pub(super) bytes: Vec<u8>,
    pub(super) appends: Vec<Append>,
}

/// The command of a message.
pub(super) struct Append {
    /// Where it begins.
    pub(super) start: usize,
    pub(super) payload: Option<Range<usize>>,
    pub(super) key: Option<Range<usize>>,
    pub(super) segment: usize,
    /// Whether the message itself names its stream.
    pub(super) names_stream: bool,
}

/// Writes pipelines until there are no more, the sink is dropped, or the server refuses.
pub(super) fn write(
    mut client: Client,
    pipelines: &Receiver<(Pipeline, Arc<Receipt>)>,
    shared: &WriteState,
) {
    for (pipeline, receipt) in pipelines {
        if shared.lock().is_closing {
            return;
        }
        if let Err(reason) = write_all(&mut client, &pipeline, &receipt, shared) {
            shared.fail(reason);
            return;
        }
        shared.end(pipeline.bytes.len());
    }
}

/// Writes the messages of a pipeline, as often as it takes, and reports them on the receipt. The
/// error is the reason why no message can be written.
///
/// After a message that the server did not take for the moment, those behind it are written again
/// even if the server took them, so that the last copies are in order.
fn write_all(
    client: &mut Client,
    pipeline: &Pipeline,
    receipt: &Arc<Receipt>,
    shared: &WriteState,
) -> Result<(), String> {
    let mut done = 0;
    let mut is_away = false;
    while done < pipeline.appends.len() {
        let left = &pipeline.appends[done..];
        let bytes = &pipeline.bytes[left[0].start..];
        let written = client.call_all(bytes, left.len(), |index, reply| {
            match reply {
                // The model has named a key that is not a stream; others can be written.
                Err(Failure::Refused(reason))
                    if left[index].names_stream && reason.contains("WRONGTYPE") =>
                {
                    shared.refuse(refused(pipeline, done, receipt, reason));
                }
                reply => {
                    reply?;
                    receipt.deliver(left[index].segment, 1);
                }
            }
            done += 1;
            Ok(())
        });
        let reason = match written {
            Ok(()) => break,
            Err(failure) if failure.is_protocol_error() => {
                let reason = "the message is larger than proto-max-bulk-len".to_owned();
                shared.refuse(refused(pipeline, done, receipt, reason));
                done += 1;
                continue;
            }
            Err(Failure::Refused(reason)) => return Err(reason),
            Err(Failure::Away(reason)) => reason,
            Err(Failure::NoGroup) => "unexpected reply NOGROUP".to_owned(),
        };
        let connector = client.name();
        match is_away {
            false => warn!(connector, reason, "writing is interrupted"),
            true => debug!(connector, reason, "writing is interrupted"),
        }
        is_away = true;
        let mut state = shared.lock();
        if !state.is_closing {
            state = shared.wait(state, client.next_backoff());
        }
        if state.is_closing {
            return Err("the sink is closed".to_owned());
        }
    }
    if is_away {
        info!(connector = client.name(), "connected again");
    }
    Ok(())
}

fn refused(
    pipeline: &Pipeline,
    index: usize,
    receipt: &Arc<Receipt>,
    reason: String,
) -> RefusedMessage {
    let append = &pipeline.appends[index];
    let copy = |range: &Option<Range<usize>>| {
        let range = range.clone()?;
        Some(pipeline.bytes[range].to_vec())
    };
    RefusedMessage {
        payload: copy(&append.payload),
        key: copy(&append.key),
        reason,
        receipt: Arc::clone(receipt),
        segment: append.segment,
    }
}
