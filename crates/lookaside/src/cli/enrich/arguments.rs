//! The arguments of `lookaside enrich`.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use lookaside_stream::{FieldKind, FieldType};
use lookaside_value::OnLookupFailure;

use crate::cli::metrics;
use crate::units;

const LONG_ABOUT: &str = "\
Enrich a stream of events

Reads events, transforms each by a model of the project, which looks up rows in the project's tables
by SQL, and writes the results in the order of the input. Defaults of the flags are read from the
[enrich] section of the project's knowdb.toml.

Lines that cannot be parsed and lookups that fail do not end the run: they are counted, and the
first five are shown. If a lookup finds no row, its fields are omitted. If it fails,
--on-lookup-failure determines what happens to the event.";

const AFTER_LONG_HELP: &str = "\
Examples:
  lookaside enrich examples/access-log
  tail -F app.log | lookaside enrich my-project - --format json
  lookaside enrich my-project old.log.gz new.log -o enriched.json.zst --reject bad.log
  lookaside enrich my-project tcp://127.0.0.1:5140 --format syslog -o tcp://127.0.0.1:9000
  lookaside enrich my-project /var/log/app.log --follow --checkpoint app.checkpoint -o out.json
  lookaside enrich my-project tcp://0.0.0.0:5140 -o out.json.zst --rotate-every 1h --rotate-keep 48
  lookaside enrich my-project --input 'kafka://localhost:9092/clicks?group=lookaside' \
      --output kafka://localhost:9092/clicks-rich
  lookaside enrich my-project --input http://127.0.0.1:8080/events -o events.json

  lookaside enrich my-project tcp://0.0.0.0:5140 --watch --metrics 9464 >>events.json

Signals: SIGINT (Ctrl-C) and SIGTERM finish the batches in progress and print the summary; a second
one ends the process immediately. SIGHUP reloads the tables.

An output file is renamed into place when it is complete; after a signal, the lines written until
then are in FILE.part. When the input has no end (a pipe, a socket, --follow), complete lines are
appended to the file instead, which is rotated by --rotate-size and --rotate-every: out.json is
renamed to out-20261128T103000Z.json, with the UTC time of its end.";

/// Enrich a stream of events
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_long_help = AFTER_LONG_HELP)]
pub(crate) struct EnrichArguments {
    /// The project: a folder with a knowdb.toml, or the path of that file
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,

    /// Events: files (also .gz and .zst), `-` for standard input, tcp://ADDRESS:PORT,
    /// udp://ADDRESS:PORT or http://ADDRESS:PORT/PATH to listen on [default: the project's input]
    #[arg(value_name = "FILE")]
    pub(crate) input: Vec<String>,

    /// A topic of a broker, or any other input, as a flag; `lookaside sources` lists the kinds
    #[arg(long = "input", value_name = "URL", help_heading = "Input")]
    pub(crate) input_url: Vec<String>,

    /// The format of the input: json, csv, kv, access, syslog, regex or raw
    #[arg(long, short, value_name = "NAME", help_heading = "Input")]
    pub(crate) format: Option<String>,

    /// An option of the input format, such as delimiter=tab; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, help_heading = "Input")]
    pub(crate) option: Vec<(String, String)>,

    /// The type of a field: chars, digit, float, bool, ip or time; a value that does not fit rejects
    /// the event; may be repeated
    #[arg(long = "type", value_name = "FIELD=TYPE", value_parser = field_type, help_heading = "Input")]
    pub(crate) types: Vec<(String, FieldType)>,

    /// Continue to read the last file as it grows and is rotated, until a signal ends the run
    #[arg(long, help_heading = "Input")]
    pub(crate) follow: bool,

    /// File that stores up to where the followed file was read and its events written; the next run
    /// continues there, and cuts output files back to their sizes at that time
    #[arg(long, value_name = "FILE", requires = "follow", help_heading = "Input")]
    pub(crate) checkpoint: Option<PathBuf>,

    /// A field, or a path such as order/items: if it is an array, each of its elements becomes an
    /// event, with the other fields and the element in place of the array
    #[arg(long, value_name = "FIELD", help_heading = "Input")]
    pub(crate) split: Option<String>,

    /// End after the first COUNT events, including lines that cannot be parsed
    #[arg(long, value_name = "COUNT", value_parser = count::<NonZero<u64>>, help_heading = "Input")]
    pub(crate) limit: Option<NonZero<u64>>,

    /// The key that selects the model by its rules [default: /FORMAT/FILE without extensions]
    #[arg(
        long,
        value_name = "KEY",
        conflicts_with = "model",
        help_heading = "Model"
    )]
    pub(crate) rule: Option<String>,

    /// The field whose value selects the model of each event by the rules of the models, or a path
    /// such as meta/kind
    #[arg(
        long,
        value_name = "FIELD",
        conflicts_with_all = ["model", "rule"],
        help_heading = "Model"
    )]
    pub(crate) rule_key: Option<String>,

    /// The name of the model to run, regardless of its rules
    #[arg(long, short, value_name = "NAME", help_heading = "Model")]
    pub(crate) model: Option<String>,

    /// The time zone of times without an offset, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", help_heading = "Model")]
    pub(crate) timezone: Option<String>,

    /// What happens to an event whose lookup fails, unless the model sets it: `wait` until the
    /// database is available, `reject` its line, or `emit` it without the fields
    /// [default: emit; with a topic or HTTP requests as input: wait]
    #[arg(long, value_name = "POLICY", value_parser = policy(), help_heading = "Model")]
    pub(crate) on_lookup_failure: Option<OnLookupFailure>,

    /// The output: a file (also .gz and .zst), `-` for standard output, tcp://HOST:PORT, a topic or
    /// a table (see `lookaside sinks`), or `null` to discard the events [default: -]
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<String>,

    /// The format of the output: json, csv, kv or raw [default: by the name of the output,
    /// otherwise json]
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub(crate) output_format: Option<String>,

    /// An option of the output format; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, help_heading = "Output")]
    pub(crate) output_option: Vec<(String, String)>,

    /// A further output, for events whose model sets its name as @meta/output; its format is that of
    /// its name; may be repeated
    #[arg(long, value_name = "NAME=FILE", value_parser = pair, help_heading = "Output")]
    pub(crate) named_output: Vec<(String, String)>,

    /// Bytes of complete lines that a tcp:// output sends again after it lost its connection
    /// [default: 1048576]
    #[arg(long, value_name = "BYTES", value_parser = number, help_heading = "Output")]
    pub(crate) replay_bytes: Option<usize>,

    /// How long a tcp:// output tries to reconnect before the run fails
    /// [default: 60000]
    #[arg(long, value_name = "MILLISECONDS", value_parser = number, help_heading = "Output")]
    pub(crate) reconnect_timeout_ms: Option<usize>,

    /// Rotate output files before they exceed this size, such as 100MiB; only if the input has no end
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Output")]
    pub(crate) rotate_size: Option<NonZero<u64>>,

    /// Rotate output files at the multiples of this time in UTC, such as 1h for each full hour; only if
    /// the input has no end
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Output")]
    pub(crate) rotate_every: Option<Duration>,

    /// How many rotated files are kept; older ones are removed [default: all]
    #[arg(long, value_name = "COUNT", value_parser = count::<NonZero<usize>>, help_heading = "Output")]
    pub(crate) rotate_keep: Option<NonZero<usize>>,

    /// File for lines that cannot be parsed or whose events are rejected, unchanged, or a topic for
    /// such messages
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) reject: Option<String>,

    /// End with exit code 1 at the first line that cannot be parsed or lookup that fails
    #[arg(long)]
    pub(crate) strict: bool,

    /// Worker threads [default: one per core]
    #[arg(long, value_name = "COUNT", value_parser = count::<NonZero<usize>>)]
    pub(crate) workers: Option<NonZero<usize>>,

    /// Reload the tables when one of their files changes
    #[arg(long)]
    pub(crate) watch: bool,

    /// Answer GET /metrics in the Prometheus text format, /healthz and /readyz: a port of 127.0.0.1, or
    /// ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = metrics::address)]
    pub(crate) metrics: Option<SocketAddr>,

    /// Suppress the summary and the progress bar
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Parses a policy for failed lookups.
fn policy() -> impl TypedValueParser<Value = OnLookupFailure> {
    let names = OnLookupFailure::ALL.map(OnLookupFailure::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

/// Parses `FIELD=TYPE`.
fn field_type(text: &str) -> Result<(String, FieldType), String> {
    let wanted = || {
        format!(
            "write FIELD=TYPE with one of {}",
            FieldKind::NAMES.join(", ")
        )
    };
    let (name, kind) = pair(text).map_err(|_| wanted())?;
    let kind = FieldKind::by_name(&kind).ok_or_else(wanted)?;
    let field_type = FieldType {
        kind,
        is_required: false,
    };
    Ok((name, field_type))
}

/// Parses a count of at least 1.
pub(crate) fn count<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse()
        .map_err(|_| "write a whole number of at least 1")
}

/// Parses a number of bytes with a unit.
fn size(text: &str) -> Result<NonZero<u64>, String> {
    units::size(text).ok_or_else(|| format!("write {}", units::SIZE))
}

/// Parses a time with a unit.
fn time(text: &str) -> Result<Duration, String> {
    units::time(text).ok_or_else(|| format!("write {}", units::TIME))
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
