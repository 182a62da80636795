//! Invariants for any bytes in any format: no panic, nothing lost, and no dependence on how the
//! bytes were split.

use lookaside_stream::{InputFormat, fuzz_access, fuzz_csv, fuzz_syslog};

use super::support::{Random, decode, options, shown};

const ACCESS: &[u8] =
    br#"203.0.113.9 - amy [10/Oct/2000:13:55:36 -0700] "GET /\"a HTTP/1.1" 200 2326 "-" "curl/8.1"
::1 - - [10/Oct/2000:13:55:36 +0530] "GET / HTTP/1.0" 304 -

host - j d [2026-03-01T10:15:02Z] "x" - - "r" "a" more
"#;

const SYSLOG: &[u8] =
    "<34>1 2003-10-11T22:14:15.003Z m su 1 ID47 [a@1 b=\"c\\\"\" b=\"é\"][d] \u{feff}text
<34>Oct 11 22:14:15 host su[111]: text\r
2003-10-11T22:14:15.003+02:00 host su: text
<191>1 - - - - - -
"
    .as_bytes();

const CSV: &[u8] = b"a,b\n1,2\n\n\"x\"\"\n,\",z\r\n\"\"\"\",y\"z\n";
const JSON: &[u8] =
    b"{\"a\":[1,{\"b\":null}],\"c\":\"\\u00e9\\n\"}\n{\"a\":18446744073709551615,\"a\":-0.5e-7}\n";
const KV: &[u8] = b"a=1 b=\"x \\\"y\\\" \" c=\nd=e\n";

fn samples() -> Vec<(InputFormat, &'static [u8])> {
    let input = |name, pairs: &[(&str, &str)]| InputFormat::new(name, &options(pairs)).unwrap();
    vec![
        (input("access", &[]), ACCESS),
        (input("syslog", &[("year", "2026")]), SYSLOG),
        (input("csv", &[("columns", "a,b")]), CSV),
        (input("json", &[]), JSON),
        (input("kv", &[]), KV),
        (
            input("kv", &[("pair_separator", ";")]),
            b"a=1; b=\"x;y\" ;c = d\n",
        ),
        (input("regex", &[("pattern", r"(?<a>\w+) (?<b>.)")]), ACCESS),
        (input("raw", &[]), SYSLOG),
    ]
}

#[test]
fn every_sample_is_good() {
    for (format, sample) in samples() {
        let (batch, rejects) = decode(&format, sample);
        assert!(!batch.is_empty());
        assert_eq!(
            rejects.count(),
            0,
            "{}: {:?}",
            format.name(),
            rejects.first()
        );
    }
}

/// The records of a source whose bytes are received in two parts, framed as in a run.
fn decode_cut(format: &InputFormat, source: &[u8], cut: usize) -> String {
    let framing = format.framing();
    let first = framing.whole(&source[..cut], false);
    assert!(first <= cut);
    let second = framing.whole(&source[first..], true);
    assert_eq!(first + second, source.len());
    let (batch, rejects) = decode(format, &source[..first]);
    let mut all = shown(&batch, &rejects);
    let (batch, rejects) = decode(format, &source[first..]);
    all.push_str(&shown(&batch, &rejects));
    all
}

/// Line numbers restart in the second part, so they are removed.
fn without_lines(shown: &str) -> Vec<&str> {
    shown
        .lines()
        .map(|line| line.trim_start_matches(|char: char| char.is_ascii_digit()))
        .collect()
}

#[test]
fn the_result_does_not_depend_on_where_the_input_is_cut() {
    for (format, sample) in samples() {
        let whole = decode_cut(&format, sample, 0);
        for cut in 0..=sample.len() {
            let parts = decode_cut(&format, sample, cut);
            assert_eq!(
                without_lines(&parts),
                without_lines(&whole),
                "{} at {cut}",
                format.name()
            );
        }
    }
}

#[test]
fn the_first_record_is_found_as_soon_as_it_is_whole() {
    for (format, sample) in samples() {
        let framing = format.framing();
        let first = framing.first(sample, false).unwrap();
        for cut in 0..=sample.len() {
            let expected = (cut >= first).then_some(first);
            assert_eq!(
                framing.first(&sample[..cut], false),
                expected,
                "{} at {cut}",
                format.name()
            );
        }
        assert_eq!(framing.first(b"", true), None);
        assert_eq!(framing.first(&sample[..first - 1], true), Some(first - 1));
    }
}

/// Every line is a record or a reject, and rejects keep their bytes.
fn check_nothing_is_lost(format: &InputFormat, source: &[u8], what: &str) {
    let (batch, rejects) = decode(format, source);
    let lines = source.split(|&byte| byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let count = lines.filter(|line| !line.is_empty()).count() as u64;
    if format.name() == "csv" {
        // A quoted newline joins lines.
        assert!(batch.len() as u64 + rejects.count() <= count, "{what}");
    } else {
        assert_eq!(
            batch.len() as u64 + rejects.count(),
            count,
            "{} {what}",
            format.name()
        );
    }
    assert!(rejects.raw().len() <= source.len() + 1);
    assert_eq!(rejects.first().len() as u64, rejects.count().min(5));
}

#[test]
fn a_source_may_end_anywhere() {
    for (format, sample) in samples() {
        for end in 0..sample.len() {
            check_nothing_is_lost(&format, &sample[..end], &format!("cut at {end}"));
        }
    }
}

#[test]
fn any_byte_may_be_wrong() {
    for (format, sample) in samples() {
        let mut source = sample.to_vec();
        for at in 0..sample.len() {
            for wrong in [
                0,
                b'\n',
                b'"',
                b'\\',
                b' ',
                0x80,
                0xff,
                sample[at] ^ 1,
                sample[at] ^ 0x20,
            ] {
                source[at] = wrong;
                check_nothing_is_lost(&format, &source, &format!("byte {at} is {wrong:#x}"));
            }
            source[at] = sample[at];
        }
    }
}

#[test]
fn wrong_utf8_is_a_reject_of_its_line_only() {
    let (format, _) = &samples()[7];
    let (batch, rejects) = decode(format, b"one\ntw\xc3\nthree \xe2\x82\r\nfour");
    assert_eq!(
        shown(&batch, &rejects),
        "1 raw:text=one\n4 raw:text=four\n2! byte 3 (0xc3) is not UTF-8\n3! byte 7 (0xe2) is not UTF-8\n"
    );
    assert_eq!(rejects.raw(), b"tw\xc3\nthree \xe2\x82\n");
}

type Target = fn(&[u8]);

/// The bodies of the fuzz targets over their samples and seeded mutations.
#[test]
fn fuzz_targets_hold() {
    let seed = 0xf022_5eed;
    let targets: [(Target, &[u8]); 3] = [
        (fuzz_access, ACCESS),
        (fuzz_syslog, SYSLOG),
        (fuzz_csv, CSV),
    ];
    for (target, sample) in targets {
        let mut random = Random(seed);
        target(sample);
        let mut data = sample.to_vec();
        for round in lookaside_testing::mutation_numbers(MUTATION_COUNT) {
            if round % 64 == 0 {
                data = sample.to_vec();
            }
            random.mutate(&mut data);
            // The seed and the round are all that a replay needs.
            let result = std::panic::catch_unwind(|| target(&data));
            assert!(
                result.is_ok(),
                "seed {seed:#x}, round {round}: {:?}",
                String::from_utf8_lossy(&data)
            );
        }
    }
}

/// For each target; a few seconds without optimisation.
const MUTATION_COUNT: usize = 100_000;
