//! Tests of the public API: formats, and runs over real files, pipes and sockets.
#![allow(clippy::print_stderr, reason = "seeds of random tests are printed")]

mod blocks;
mod checkpoints;
mod endless;
mod ends;
mod files;
mod formats;
mod limit;
mod memory;
mod messages;
mod metadata;
mod order;
mod outputs;
mod reconnect;
mod sinks;
mod tcp;

use std::fs;
use std::num::NonZero;
use std::path::Path;

use lookaside_stream::{
    Flow, FormatOptions, Identity, InputFormat, OutputFormat, Result, RunOptions, Sink, Source,
    Summary,
};

/// A flow with default options.
fn flow(input: &str, output: &str) -> Flow {
    let options = FormatOptions::new();
    Flow::new(
        InputFormat::new(input, &options).unwrap(),
        OutputFormat::new(output, &options).unwrap(),
    )
}

/// Default options except for the block size.
fn options(block_size: usize) -> RunOptions {
    RunOptions {
        block_size: NonZero::new(block_size),
        ..RunOptions::default()
    }
}

/// Runs a source through two workers and returns what was written.
fn run(flow: &Flow, source: Source, options: RunOptions) -> Result<(String, Summary)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let sink = Sink::file(&path, source.extent())?;
    let summary = flow.run(source, vec![Identity; 2], sink, options)?;
    Ok((fs::read_to_string(&path).unwrap(), summary))
}

/// The names of the files in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// `line 1`, `line 2`, … each with its newline.
fn lines(count: usize) -> String {
    (1..=count).map(|line| format!("line {line}\n")).collect()
}
