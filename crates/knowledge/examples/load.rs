//! How long does a load take, and which part of it? Loads a KnowDB folder a few times.
//!
//! ```text
//! cargo run --release -p lookaside-knowledge --example load -- DIR [COUNT]
//! ```
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use lookaside_knowledge::{Config, NoProgress, Result, try_load};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().unwrap_or_else(|| ".".to_owned());
    let count: u32 = args
        .next()
        .and_then(|count| count.parse().ok())
        .unwrap_or(5);
    let config = Config::open(folder, &["enrich", "server", "lookups"])?;
    for _ in 0..count {
        let report = try_load(&config, &NoProgress)?;
        for table in &report.tables {
            println!(
                "{}: {} rows in {:.3?}",
                table.name, table.rows, table.elapsed
            );
        }
    }
    Ok(())
}
