//! Damaged and random CSV.

use std::io::Cursor;
use std::sync::Arc;

use super::super::records::Records;
use super::*;

#[test]
fn mutated_data_keeps_its_promises() {
    const SEEDS: [&str; 4] = [
        "a,b\n1,2\n\n3,\"x\ny\"\n",
        "a;b\r\n\r\n1;2\r\n\"3\";4\r\n",
        "\u{feff}b\ta\n\u{4f60}\t\" \"\"q\"\"\"\n",
        "a,b\n1,2\n3,\"open\n4,5\n",
    ];
    const BYTES: &[u8] = b"\n\r\",;\t|ab \xe4\xff\0\x1b";
    for seed in lookaside_testing::mutation_numbers(20_000) {
        let mut random = fastrand::Rng::with_seed(seed as u64);
        let mut data = vec![random.u8(..), random.u8(..)];
        data.extend_from_slice(random.choice(SEEDS).unwrap().as_bytes());
        for _ in 0..random.usize(..6) {
            let at = random.usize(2..data.len());
            match random.u8(..3) {
                0 => data[at] = *random.choice(BYTES).unwrap(),
                1 => data.insert(at, *random.choice(BYTES).unwrap()),
                _ => data.truncate(at.max(3)),
            }
        }
        let caught = std::panic::catch_unwind(|| csv_mapping_fuzz(&data));
        assert!(caught.is_ok(), "seed {seed}: {data:?}");
    }
}

#[test]
fn csv_is_read_as_the_csv_crate_reads_it() {
    const BYTES: &[u8] = b"\n\n\r\",, ab";
    let csv = "[csv]\nhas_header = false\ntrim = false\n";
    let folder = Folder::new(&format!("{csv}[[tables]]\nname = 't'\n"), "");
    let config = Config::open(folder.0.path(), &[]).unwrap();
    let table = &config.tables[0];
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let size = random.usize(..30);
        let mut data: Vec<u8> = (0..size).map(|_| *random.choice(BYTES).unwrap()).collect();
        data.extend_from_slice(b"\n");
        let theirs: Vec<Vec<String>> = csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(&*data)
            .records()
            .filter_map(std::result::Result::ok)
            .map(|record| record.iter().map(str::to_owned).collect())
            .collect();
        let mut ours = Vec::new();
        let file = &table.data_file;
        let source = Box::new(Cursor::new(data.clone()));
        if let Ok(mut records) = Records::read(table, file, &config.csv, source, Arc::default()) {
            loop {
                match records.next().unwrap() {
                    NextRecord::Record => ours.push(
                        (0..records.width())
                            .map(|index| String::from_utf8(records.field(index).to_vec()).unwrap())
                            .collect::<Vec<_>>(),
                    ),
                    // The reference reader accepts a field in an unclosed quote, and text after a
                    // closing quote.
                    NextRecord::Bad { reason, .. }
                        if reason.contains("not closed") || reason.contains("text follows") =>
                    {
                        ours.extend(theirs.get(ours.len()).cloned());
                    }
                    NextRecord::Bad { .. } => {}
                    NextRecord::End => break,
                }
            }
            let text = String::from_utf8_lossy(&data);
            assert_eq!(ours, theirs, "seed {seed}: {text:?}");
        }
    }
}
