//! The queue under a model checker, which tries each order in which threads can meet at its lock.
//! An item that is neither taken nor given back leaves its sender waiting, which is a deadlock and a
//! failure.

use std::future::poll_fn;
use std::task::Wake;

use loom::sync::Mutex as LoomMutex;
use loom::thread;
use tokio::sync::oneshot;

use super::*;
use crate::sync::model::block_on;

/// A question, whose sender waits until this is answered or dropped.
type Question = oneshot::Sender<u32>;
type ModelSender = Sender<Question, LoomMutex<InboxState<Question>>>;
type ModelReceiver = Receiver<Question, LoomMutex<InboxState<Question>>>;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// What became of a question.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Answered(u32),
    /// It was taken, and not answered.
    Dropped,
    Refused,
}

/// Asks as a caller does: sends at once if there is room, waits for room otherwise, and then waits
/// for the answer while it keeps its sender.
fn ask(sender: &ModelSender) -> Fate {
    let (question, answer) = slot();
    let sent = match sender.try_send(question) {
        Err(Rejected::Full(question)) => block_on(sender.send(question)).is_ok(),
        sent => sent.is_ok(),
    };
    if !sent {
        return Fate::Refused;
    }
    block_on(answer).map_or(Fate::Dropped, Fate::Answered)
}

/// A slot for one answer. The checker sees no more of it than who is woken.
fn slot() -> (Question, oneshot::Receiver<u32>) {
    oneshot::channel()
}

/// Answers `count` questions, and then closes.
fn serve(mut receiver: ModelReceiver, count: usize) {
    let mut taken = VecDeque::new();
    for _ in 0..count {
        let question = loop {
            if let Some(question) = taken.pop_front() {
                break question;
            }
            if !block_on(poll_fn(|cx| receiver.poll_take(cx, &mut taken))) {
                return;
            }
        };
        question.send(7).unwrap();
    }
    for question in receiver.close() {
        question.send(8).unwrap();
    }
}

/// The connection ends at any moment while callers ask: each is answered or refused.
#[test]
fn nobody_waits_for_a_connection_that_has_ended() {
    for (count_max, answered_count) in [(1, 0), (1, 1), (4, 0), (4, 1)] {
        check(move || {
            let (sender, receiver) = inbox(count_max);
            let sender = Arc::new(sender);
            let callers: Vec<_> = (0..2)
                .map(|_| {
                    let sender = Arc::clone(&sender);
                    thread::spawn(move || ask(&sender))
                })
                .collect();
            serve(receiver, answered_count);
            let fates: Vec<_> = callers
                .into_iter()
                .map(|caller| caller.join().unwrap())
                .collect();
            let answered = fates.iter().filter(|fate| **fate == Fate::Answered(7));
            assert_eq!(answered.count(), answered_count, "{fates:?}");
            assert!(sender.is_closed());
        });
    }
}

/// The task is aborted, or its runtime ends: the receiver is dropped and not closed.
#[test]
fn nobody_waits_for_a_receiver_that_was_dropped() {
    check(|| {
        let (sender, receiver) = inbox(1);
        let sender = Arc::new(sender);
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let sender: Arc<ModelSender> = Arc::clone(&sender);
                thread::spawn(move || ask(&sender))
            })
            .collect();
        drop(receiver);
        for caller in callers {
            assert!(!matches!(caller.join().unwrap(), Fate::Answered(_)));
        }
    });
}

/// A receiver that waits hears of each item and of the end.
#[test]
fn the_receiver_is_woken() {
    check(|| {
        let (sender, mut receiver): (ModelSender, ModelReceiver) = inbox(4);
        let caller = thread::spawn(move || {
            let (question, _) = slot();
            assert!(sender.push(question).is_ok());
        });
        let mut taken = VecDeque::new();
        let mut count = 0;
        while block_on(poll_fn(|cx| receiver.poll_take(cx, &mut taken))) {
            count += taken.drain(..).count();
        }
        assert_eq!(count, 1);
        caller.join().unwrap();
    });
}

struct Count(std::sync::atomic::AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        // Nothing else is published with it.
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Room that was given to one who then goes is room for the others.
#[test]
fn all_senders_that_wait_for_room_are_woken() {
    let (sender, mut receiver) = inbox::<u32, Mutex<InboxState<u32>>>(1);
    let woken = Arc::new(Count(0.into()));
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    sender.try_send(1).unwrap();
    assert_eq!(sender.try_send(2), Err(Rejected::Full(2)));
    let mut going = sender.send(2);
    let mut staying = sender.send(3);
    assert!(Pin::new(&mut going).poll(&mut cx).is_pending());
    assert!(Pin::new(&mut staying).poll(&mut cx).is_pending());
    let mut taken = VecDeque::new();
    assert!(receiver.poll_take(&mut cx, &mut taken).is_ready());
    assert_eq!(taken.drain(..).collect::<Vec<_>>(), [1]);
    assert_eq!(woken.0.load(std::sync::atomic::Ordering::Relaxed), 2);
    drop(going);
    assert_eq!(Pin::new(&mut staying).poll(&mut cx), Poll::Ready(Ok(())));
    // Nothing is left of a wait for room that was given up.
    let mut late = sender.send(4);
    assert!(Pin::new(&mut late).poll(&mut cx).is_pending());
    drop(late);
    assert!(sender.0.state.with(|state| state.waiting.is_empty()));
    assert_eq!(receiver.close(), [3]);
    assert_eq!(sender.push(5), Err(5));
    assert_eq!(sender.try_send(5), Err(Rejected::Closed(5)));
}
