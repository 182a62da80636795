//! The arguments of `lookaside enrich`.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use crate::cli::metrics;

const LONG_ABOUT: &str = "\
Enrich a stream of events

Reads events, lets a model of the project change each of them, looking rows up in the project's
tables by SQL, and writes what comes out, in the order of the input. What no flag says comes from
the [enrich] section of the project's knowdb.toml.

A line that does not parse and a lookup that fails end no run: they are counted and the first five
are shown. A lookup without a row leaves its fields away.";

const AFTER_LONG_HELP: &str = "\
Examples:
  lookaside enrich examples/access-log
  tail -F app.log | lookaside enrich my-project - --format json
  lookaside enrich my-project old.log.gz new.log -o enriched.json.zst --reject bad.log
  lookaside enrich my-project tcp://127.0.0.1:5140 --format syslog -o tcp://127.0.0.1:9000
  lookaside enrich my-project /var/log/app.log --follow --checkpoint app.checkpoint -o out.json

  lookaside enrich my-project tcp://0.0.0.0:5140 --watch --metrics 9464 >>events.json

Signals: SIGINT (Ctrl-C) and SIGTERM finish the batches in hand and print the summary, a second one
ends at once; SIGHUP loads the tables again beside the old ones.

An output file appears under its name when it is whole; a signal leaves what was written until then
in FILE.part. When the input has no end (a pipe, a socket, --follow), whole lines are appended to the
file instead.";

/// Enrich a stream of events
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_long_help = AFTER_LONG_HELP)]
pub(crate) struct EnrichArguments {
    /// The project: a folder with a knowdb.toml, or such a file
    pub(crate) dir: PathBuf,

    /// Events: files (also .gz and .zst), `-` for standard input, tcp://ADDRESS:PORT to listen on
    /// [default: the project's input]
    #[arg(value_name = "FILE")]
    pub(crate) input: Vec<String>,

    /// How events are written: json, csv, kv, access, syslog, regex or raw
    #[arg(long, short, value_name = "NAME", help_heading = "Input")]
    pub(crate) format: Option<String>,

    /// An option of the input format, such as delimiter=tab; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, help_heading = "Input")]
    pub(crate) option: Vec<(String, String)>,

    /// Read the last file on as it grows and is rotated, until a signal ends the run
    #[arg(long, help_heading = "Input")]
    pub(crate) follow: bool,

    /// Where it is kept how far the followed file was read and written, so that the next run goes on
    /// from there
    #[arg(long, value_name = "FILE", requires = "follow", help_heading = "Input")]
    pub(crate) checkpoint: Option<PathBuf>,

    /// End after the first COUNT events, lines that do not parse among them
    #[arg(long, value_name = "COUNT", value_parser = count::<NonZero<u64>>, help_heading = "Input")]
    pub(crate) limit: Option<NonZero<u64>>,

    /// The key that chooses the model by its rules [default: /FORMAT/FILE without extensions]
    #[arg(
        long,
        value_name = "KEY",
        conflicts_with = "model",
        help_heading = "Model"
    )]
    pub(crate) rule: Option<String>,

    /// The name of the model, whatever its rules are
    #[arg(long, short, value_name = "NAME", help_heading = "Model")]
    pub(crate) model: Option<String>,

    /// Where times without an offset were written, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", help_heading = "Model")]
    pub(crate) timezone: Option<String>,

    /// Where events go: a file (also .gz and .zst), `-` for standard output, tcp://HOST:PORT, or
    /// `null` for nowhere [default: -]
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<String>,

    /// How events are written: json, csv, kv or raw [default: json]
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub(crate) output_format: Option<String>,

    /// An option of the output format; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, help_heading = "Output")]
    pub(crate) output_option: Vec<(String, String)>,

    /// Bytes of whole lines that are sent again when a tcp:// output lost its connection
    /// [default: 1048576]
    #[arg(long, value_name = "BYTES", value_parser = number, help_heading = "Output")]
    pub(crate) replay_bytes: Option<usize>,

    /// How long a tcp:// output tries to open a lost connection again before the run fails
    /// [default: 60000]
    #[arg(long, value_name = "MILLISECONDS", value_parser = number, help_heading = "Output")]
    pub(crate) reconnect_timeout_ms: Option<usize>,

    /// Where lines that do not parse go, as they are
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) reject: Option<String>,

    /// End with code 1 at the first line that does not parse or lookup that fails
    #[arg(long)]
    pub(crate) strict: bool,

    /// Threads that work on events [default: one a core]
    #[arg(long, value_name = "COUNT", value_parser = count::<NonZero<usize>>)]
    pub(crate) workers: Option<NonZero<usize>>,

    /// Load the tables again when one of their files changes
    #[arg(long)]
    pub(crate) watch: bool,

    /// Answer GET /metrics in the Prometheus text format: a port of 127.0.0.1, or ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = metrics::address)]
    pub(crate) metrics: Option<SocketAddr>,

    /// Print no summary and draw no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Parses a count of at least 1.
pub(crate) fn count<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse()
        .map_err(|_| "write a whole number of at least 1")
}

/// Parses a number of bytes or milliseconds.
fn number(text: &str) -> Result<usize, &'static str> {
    text.parse().map_err(|_| "write a whole number")
}

/// Parses `NAME=VALUE`, the form of format options and query parameters.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}
