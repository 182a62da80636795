//! Output has the order of the input, whichever worker is slow.

use std::thread;
use std::time::Duration;

use lookaside_stream::{Report, Sink, Source, Transform};
use lookaside_value::Batch;

use crate::{flow, lines, options};

/// Takes a random time for each batch.
struct Delay(fastrand::Rng);

impl Transform for Delay {
    fn transform(&mut self, _: &mut Batch, _: &mut Report) {
        if self.0.bool() {
            // sleep: a random delay of each batch
            thread::sleep(Duration::from_micros(self.0.u64(..500)));
        }
    }
}

#[test]
fn random_delays_do_not_change_the_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let text = lines(5_000);
    for _ in 0..5 {
        let seed = fastrand::u64(..);
        eprintln!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for output in ["raw", "csv"] {
            let workers = random.usize(1..6);
            let delays = (0..workers).map(|_| Delay(random.fork())).collect();
            let input = text.clone().into_bytes();
            let source = Source::new().with_reader("lines", std::io::Cursor::new(input));
            let sink = Sink::file(&path, source.extent()).unwrap();
            let block_size = random.usize(1..2_000);
            let summary = flow("raw", output)
                .run(source, delays, sink, options(block_size))
                .unwrap();
            assert_eq!(summary.events_out, 5_000);
            let out = std::fs::read_to_string(&path).unwrap();
            // The csv encoder learns its columns from the first batch in order.
            let out = out.strip_prefix("raw\n").unwrap_or(&out);
            assert_eq!(out, text, "seed {seed}, {workers} workers, {block_size}");
        }
    }
}
