//! Once a worker is warm, short values cost no allocation, neither decoding nor encoding.

use std::sync::Arc;

use lookaside_stream::{Chunk, InputFormat, OutputFormat, Rejects};
use lookaside_value::{Batch, NameTable};

use super::support::options;

#[test]
fn warm_workers_allocate_only_for_long_text() {
    // Numeric times: parsing the name of a month costs an allocation in itself.
    let access =
        "203.0.113.9 - amy [2026-03-01T10:15:02Z] \"GET / HTTP/1.1\" 200 2326 \"-\" \"curl/8.1\"\n";
    for (format, line) in [
        ("access", access),
        (
            "json",
            "{\"ip\":\"203.0.113.9\",\"status\":200,\"ok\":true,\"ratio\":0.5}\n",
        ),
        ("kv", "ip=203.0.113.9 user=\"a b\"\n"),
        ("csv", "203.0.113.9,\"a,b\"\n"),
        (
            "syslog",
            "<34>2026-03-01T10:15:02Z web-7 su[111]: a short text\n",
        ),
        ("raw", "a short line\n"),
    ] {
        let pairs: &[_] = match format {
            "csv" => &[("columns", "ip,user")],
            "syslog" => &[("year", "2026")],
            _ => &[],
        };
        let input = InputFormat::new(format, &options(pairs)).unwrap();
        let outputs =
            OutputFormat::NAMES.map(|name| OutputFormat::new(name, &options(&[])).unwrap());
        let mut names = NameTable::new();
        input.intern(&mut names);
        for name in ["ip", "status", "ok", "ratio", "user", "raw"] {
            names.intern(name);
        }
        let names = Arc::new(names);
        let mut decoder = input.decoder(&names);
        let mut encoders = outputs.each_ref().map(|output| output.encoder(&names));
        let text = line.repeat(100);
        let mut batch = Batch::new(names);
        let mut out = String::with_capacity(1 << 20);
        let mut rejects = Rejects::new();
        let mut decode = || {
            batch.clear();
            decoder.decode(&Chunk::new(text.as_bytes(), 1), &mut batch, &mut rejects);
        };
        // The second time, the memory of the first batch's records is counted and kept.
        decode();
        decode();
        let counted = allocation_counter::measure(decode).count_total;
        // JSON interns the keys again for each chunk, which does not grow with the number of
        // records.
        assert_eq!(rejects.first(), []);
        assert!(counted <= 8, "{counted} allocations reading {format}");
        assert_eq!(batch.len(), 100);
        for (output, encoder) in outputs.iter().zip(&mut encoders) {
            let mut encode = || {
                out.clear();
                encoder.encode(&batch, &mut out, &mut rejects);
            };
            encode();
            let counted = allocation_counter::measure(encode).count_total;
            assert_eq!(counted, 0, "{format} written as {}", output.name());
        }
        assert_eq!(rejects.count(), 0);
    }
}
