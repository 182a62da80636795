//! A long stream needs no more memory than a short one.

use std::fs;
use std::io::{self, Read};
use std::num::NonZero;

use lookaside_stream::{
    Flow, FormatOptions, Identity, InputFormat, OutputFormat, RunOptions, Sink, Source,
};

use crate::ends::{is_process, process};

const STREAM_SIZE: u64 = 200 << 20;

/// Far less than the stream, and more than a test program with its libraries.
const MEMORY_SIZE_MAX: u64 = 32 << 20;

/// Short lines, and occasionally one beyond the limit.
struct Stream {
    left: u64,
}

impl Read for Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let size = room.len().min(left);
        for byte in &mut room[..size] {
            let long = self.left & (31 << 20) == 0;
            *byte = if self.left.is_multiple_of(64) && !long {
                b'\n'
            } else {
                b'x'
            };
            self.left -= 1;
        }
        Ok(size)
    }
}

#[test]
fn memory_is_bounded() {
    const TEST: &str = "memory::memory_is_bounded";
    if !is_process(TEST) {
        let output = process(TEST).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let limit = FormatOptions::new().set("line_size_max", "65536");
    let flow = Flow::new(
        InputFormat::new("raw", &limit).unwrap(),
        OutputFormat::new("raw", &FormatOptions::new()).unwrap(),
    );
    let source = Source::new().with_reader("stream", Stream { left: STREAM_SIZE });
    let options = RunOptions {
        block_size: NonZero::new(64 << 10),
        ..RunOptions::default()
    };
    let summary = flow
        .run(source, vec![Identity; 4], Sink::null(), options)
        .unwrap();
    // Lines of a mebibyte at a time, where all bits of the mask are clear.
    assert_eq!(summary.rejects.count(), STREAM_SIZE / (32 << 20) + 1);
    assert!(summary.bytes_out > STREAM_SIZE * 9 / 10);

    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.unwrap().trim().trim_end_matches(" kB");
    let peak = kib.parse::<u64>().unwrap() << 10;
    assert!(peak < MEMORY_SIZE_MAX, "{peak} bytes");
}
