//! Runs of JSON events between connectors, on their own threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use lookaside_connect::{ConnectUrl, Error, LagReader};
use lookaside_stream::{
    Flow, FormatOptions, InputFormat, OutputFormat, Progress, RunOptions, Sink, Source, StopFlag,
    Summary, Transform,
};
use lookaside_testing::wait_until;
use lookaside_value::NameTable;

/// A name that no other test uses.
pub(crate) fn unique(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{}-{count}", std::process::id())
}

/// A run of its own thread.
pub(crate) struct Running {
    pub(crate) stop: StopFlag,
    pub(crate) give_up: StopFlag,
    pub(crate) progress: Progress,
    pub(crate) lag: Mutex<LagReader>,
    pub(crate) thread: JoinHandle<lookaside_stream::Result<Summary>>,
}

impl Running {
    /// Raises the stop flag and waits for the end.
    pub(crate) fn stop(self) -> Summary {
        self.stop.raise();
        self.thread.join().unwrap().unwrap()
    }

    /// The lag of all partitions.
    pub(crate) fn lag(&self) -> u64 {
        let mut lag = self.lag.lock().unwrap();
        lag.read().iter().map(|lag| lag.messages).sum()
    }

    pub(crate) fn wait_for_events(&self, count: u64) {
        wait_until("events are written", || {
            self.progress.figures().events_out >= count
        });
    }
}

pub(crate) fn try_source(url: &str) -> Result<(Source, RunOptions), Error> {
    let url: ConnectUrl = url.parse()?;
    let opened = lookaside_connect::open_source(&url)?;
    let options = RunOptions {
        framing: opened.framing,
        on_null: opened.on_null,
        ..RunOptions::default()
    };
    let source = Source::new().with_messages(&url.name(), opened.source);
    Ok((source, options))
}

pub(crate) fn try_sink(url: &str) -> Result<Sink, Error> {
    let url: ConnectUrl = url.parse()?;
    let opened = lookaside_connect::open_sink(&url)?;
    Ok(Sink::messages(&url.name(), opened.sink, opened.meta))
}

/// A flow of JSON events, with these names.
pub(crate) fn flow(names: &[&str]) -> Flow {
    let formats = FormatOptions::new();
    let mut table = NameTable::new();
    names.iter().for_each(|name| _ = table.intern(name));
    Flow::with_names(
        table,
        InputFormat::new("json", &formats).unwrap(),
        OutputFormat::new("json", &formats).unwrap(),
    )
}

/// Starts a run of JSON events from a topic to a topic.
pub(crate) fn start<T: Transform + Clone + 'static>(
    source: &str,
    sink: &str,
    rejects: Option<&str>,
    transform: T,
) -> Running {
    start_with(&[], source, sink, rejects, transform)
}

/// As [`start`], with names that are metadata to read and to write.
pub(crate) fn start_with<T: Transform + Clone + 'static>(
    names: &[&str],
    source: &str,
    sink: &str,
    rejects: Option<&str>,
    transform: T,
) -> Running {
    let urls: [ConnectUrl; 2] = [source, sink].map(|url| url.parse().unwrap());
    let (source, sink) = lookaside_connect::open_pair(&urls[0], &urls[1]).unwrap();
    let options = RunOptions {
        framing: source.framing,
        on_null: source.on_null,
        ..RunOptions::default()
    };
    let lag = source.lag.expect("brokers tell the lag").into();
    let source = Source::new().with_messages(&urls[0].name(), source.source);
    let sink = Sink::messages(&urls[1].name(), sink.sink, sink.meta);
    let (stop, give_up) = (StopFlag::new().unwrap(), StopFlag::new().unwrap());
    let progress = Progress::new();
    let options = RunOptions {
        stop: Some(stop.clone()),
        give_up: Some(give_up.clone()),
        progress: progress.clone(),
        rejects: rejects.map(|rejects| try_sink(rejects).unwrap()),
        ..options
    };
    let flow = flow(names);
    let run = move || {
        let result = flow.run(source, vec![transform; 2], sink, options);
        if let Err(error) = &result {
            // The test may wait for events before it joins the thread.
            eprintln!("the run failed: {error:?}");
        }
        result
    };
    Running {
        stop,
        give_up,
        progress,
        lag,
        thread: thread::spawn(run),
    }
}
