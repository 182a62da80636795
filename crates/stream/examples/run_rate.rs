//! What does a run cost per event beyond decoding and encoding?
//!
//! ```sh
//! cargo run --release -p lookaside-stream --example run_rate -- [LINES] [ROUNDS] [WORKERS] [KIB]
//! ```
//!
//! A file of access-log lines is written to the `null` sink: `raw` to `raw` is the base case and
//! measures almost only the run itself, `access` to `json` is the real work, both with a transform
//! that does nothing. For comparison, the same work is done on one core without a run: one decoder
//! and one encoder over the file in memory, in blocks of the same size. CPU is user and system time
//! of the process.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::fmt::Write as _;
use std::num::NonZero;
use std::path::Path;
use std::time::{Duration, Instant};

use lookaside_stream::{
    Chunk, Flow, FormatOptions, Identity, InputFormat, OutputFormat, Rejects, RunOptions, Sink,
    Source, worker_count,
};
use lookaside_value::Batch;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| match arguments.next() {
        Some(text) => text.parse().expect("all arguments are numbers"),
        None => default,
    };
    let (lines, rounds) = (number(20_000), number(3));
    let (workers, kib) = (number(worker_count()), number(128));
    let block_size = NonZero::new(kib << 10).expect("a block has a size");

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("access.log");
    std::fs::write(&path, log(lines))?;

    println!("{lines} lines, {workers} workers, blocks of {kib} KiB; best of {rounds} rounds");
    for (input, output) in [("raw", "raw"), ("access", "json")] {
        let flow = || -> lookaside_stream::Result<(InputFormat, OutputFormat)> {
            let options = FormatOptions::new();
            Ok((
                InputFormat::new(input, &options)?,
                OutputFormat::new(output, &options)?,
            ))
        };
        let mut best = [Duration::MAX; 3];
        let mut bytes_out = 0;
        for _ in 0..rounds {
            let (decode, encode) = flow()?;
            best[0] = best[0].min(alone(&path, &decode, &encode, block_size.get())?);
            let options = RunOptions {
                block_size: Some(block_size),
                ..RunOptions::default()
            };
            let summary = Flow::new(decode, encode).run(
                Source::open([path.to_string_lossy()])?,
                vec![Identity; workers],
                Sink::null(),
                options,
            )?;
            assert_eq!(summary.events_out, lines as u64);
            best[1] = best[1].min(summary.cpu);
            best[2] = best[2].min(summary.elapsed);
            bytes_out = summary.bytes_out;
        }
        let per_event = |time: Duration| time.as_nanos() as f64 / lines as f64;
        println!(
            "{input:>6} to {output:<5} alone {:6.1} ns, run {:6.1} ns CPU an event; {:9.0} events/s; {bytes_out} bytes",
            per_event(best[0]),
            per_event(best[1]),
            lines as f64 / best[2].as_secs_f64(),
        );
    }
    Ok(())
}

/// The work of a run, without a run, on this thread.
fn alone(
    path: &Path,
    input: &InputFormat,
    output: &OutputFormat,
    block_size: usize,
) -> Result<Duration, Box<dyn std::error::Error>> {
    let bytes = std::fs::read(path)?;
    let flow = Flow::new(input.clone(), output.clone());
    let mut decoder = input.decoder(flow.names());
    let mut encoder = output.encoder(flow.names());
    let framing = input.framing();
    let mut batch = Batch::new(flow.names().clone());
    let (mut rejects, mut text) = (Rejects::new(), String::new());
    let started = Instant::now();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let block = &rest[..rest.len().min(block_size)];
        let whole = framing.whole(block, block.len() == rest.len());
        batch.clear();
        text.clear();
        decoder.decode(&Chunk::new(&rest[..whole], 1), &mut batch, &mut rejects);
        encoder.encode(&batch, &mut text, &mut rejects);
        rest = &rest[whole..];
    }
    Ok(started.elapsed())
}

fn log(lines: usize) -> String {
    let mut text = String::new();
    for line in 0..lines as u64 {
        let random = line.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        writeln!(
            text,
            "{}.{}.{}.{} - user{} [10/Oct/2025:13:{:02}:{:02} +0200] \"GET /shop/items/{}?page={} HTTP/1.1\" {} {} \
             \"https://example.org/shop/start\" \"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0 \
             and so on\"",
            random >> 56,
            (random >> 48) & 255,
            (random >> 40) & 255,
            (random >> 32) & 255,
            random % 5000,
            line / 60 % 60,
            line % 60,
            random % 100_000,
            random % 7,
            if random.is_multiple_of(9) { 404 } else { 200 },
            random % 50_000,
        )
        .expect("a string takes any text");
    }
    text
}
