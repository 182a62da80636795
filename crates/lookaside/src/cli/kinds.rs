//! `lookaside sources` and `lookaside sinks`: the kinds of inputs and outputs of `enrich`.

use clap::{Args, Command};
use lookaside_connect::{KINDS, Kind};

use crate::cli::output::write_stdout;
use crate::failure::{CommandResult, Exit};

/// List the kinds of inputs that enrich reads
#[derive(Debug, Args)]
pub(crate) struct SourcesArguments {}

/// List the kinds of outputs that enrich writes
#[derive(Debug, Args)]
pub(crate) struct SinksArguments {}

/// One line: an example, and what it is.
struct Row<'a> {
    example: &'a str,
    summary: String,
}

const SOURCES: [(&str, &str); 6] = [
    (
        "old.log.gz new.log",
        "files, one after the other, also .gz and .zst",
    ),
    (
        "app.log --follow",
        "a file as it grows and is rotated; see --checkpoint",
    ),
    ("-", "standard input"),
    (
        "tcp://127.0.0.1:5140",
        "lines of TCP connections to a port that is listened on, or ?framing=octet-counting",
    ),
    (
        "udp://127.0.0.1:5140",
        "datagrams to a port, one event each; what the system discards is counted",
    ),
    (
        "http://0.0.0.0:8080/events",
        "events that arrive as HTTP requests (POST), which are answered when they are delivered",
    ),
];

const SINKS: [(&str, &str); 4] = [
    (
        "events.json.gz",
        "a file, renamed into place when it is complete, or appended to if the input has no end; also .csv and .zst",
    ),
    ("-", "standard output"),
    (
        "tcp://127.0.0.1:9000",
        "a TCP connection, opened again when it is lost",
    ),
    ("null", "discards the events"),
];

const OPTIONS: &str = "\
Options are written as in a URL: ?NAME=VALUE&NAME=VALUE. A name with a dot is a property of the client
library. docs/CONNECTORS.md describes the options and what each pair of source and sink guarantees.";

pub(crate) fn sources() -> CommandResult {
    print(&text(&SOURCES, |kind| kind.source_example))
}

pub(crate) fn sinks() -> CommandResult {
    print(&text(&SINKS, |kind| kind.sink_example))
}

/// Adds the lists to the help texts of the commands.
pub(crate) fn describe(command: Command) -> Command {
    let with = |text: String| move |command: Command| command.after_long_help(text);
    command
        .mut_subcommand("sources", with(text(&SOURCES, |kind| kind.source_example)))
        .mut_subcommand("sinks", with(text(&SINKS, |kind| kind.sink_example)))
}

fn print(text: &str) -> CommandResult {
    write_stdout(|out| out.write_all(text.as_bytes()))?;
    Ok(Exit::Done)
}

fn text(always: &[(&str, &str)], example: fn(&Kind) -> Option<&'static str>) -> String {
    let always = always.iter().map(|(example, summary)| Row {
        example,
        summary: (*summary).to_owned(),
    });
    let kinds = KINDS.iter().filter_map(|kind| {
        let missing = match kind.is_built_in {
            true => String::new(),
            false => format!(" (not in this build: --features {})", kind.feature),
        };
        Some(Row {
            example: example(kind)?,
            summary: format!("{}{missing}", kind.summary),
        })
    });
    let mut text = String::new();
    for Row { example, summary } in always.chain(kinds) {
        text.push_str(&format!("  {example}\n      {summary}\n"));
    }
    text.push('\n');
    text.push_str(OPTIONS);
    text.push('\n');
    text
}
