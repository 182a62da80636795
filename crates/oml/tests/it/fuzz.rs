//! The parser's fuzz target, run over a corpus and its mutations.

use std::env;

const CORPUS: &[&str] = &[
    include_str!("../corpus/access.oml"),
    include_str!("../corpus/forms.oml"),
    include_str!("../corpus/lookups.oml"),
];

/// The number of mutations per run; set `OML_MUTATION_COUNT` for a thorough one.
const MUTATION_COUNT: usize = 100_000;

/// Pieces that reach the parser's branches more often than random bytes.
const PIECES: &[&str] = &[
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ";",
    ",",
    "|",
    ":",
    "=",
    "=>",
    "*",
    "/*",
    "*/",
    "//",
    "---",
    "@",
    "!",
    "'",
    "\"",
    "\\",
    "$a$",
    "::",
    "_",
    "read(",
    "take()",
    "object {",
    "match ",
    "calc(-",
    "static {",
    "select ",
    "chars(",
    "fmt(\"{",
    "in (",
    "\u{e9}",
    "\u{1f600}",
    "\0",
    "\n",
    "99999",
];

/// A random generator whose whole state is its seed (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

fn mutate(source: &str, random: &mut Random) -> Vec<u8> {
    let mut bytes = source.as_bytes().to_vec();
    // A window keeps a run short without excluding any form.
    let start = random.below(bytes.len());
    let length = 40 + random.below(400);
    if random.below(16) > 0 {
        let mut window = b"name:f\n---\n".to_vec();
        window.extend(bytes.iter().skip(start).take(length));
        bytes = window;
    }
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(4) {
            0 => {
                let piece = PIECES[random.below(PIECES.len())];
                bytes.splice(at..at, piece.bytes());
            }
            1 => {
                let end = (at + random.below(8)).min(bytes.len());
                bytes.drain(at..end);
            }
            2 if at < bytes.len() => bytes[at] = random.next() as u8,
            _ => {
                let end = (at + random.below(60)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
        }
    }
    bytes
}

#[test]
fn no_mutation_panics() {
    let count = match env::var("OML_MUTATION_COUNT") {
        Ok(count) => count.parse().expect("a number of mutations"),
        Err(_) => MUTATION_COUNT,
    };
    for source in CORPUS {
        lookaside_oml::fuzz_parse(source.as_bytes());
    }
    for seed in lookaside_testing::mutation_numbers(count) {
        let mut random = Random(seed as u64);
        let source = CORPUS[random.below(CORPUS.len())];
        let mutated = mutate(source, &mut random);
        let run = std::panic::catch_unwind(|| lookaside_oml::fuzz_parse(&mutated));
        assert!(
            run.is_ok(),
            "seed {seed}: {}",
            String::from_utf8_lossy(&mutated)
        );
    }
}

#[test]
fn neither_depth_nor_size_exhausts_anything() {
    for unit in [
        "x = object { a = ",
        "x = array { ",
        "x = match read(a) { digit(1) => ",
        "x = calc((",
        "x = calc(-",
        "x = read(a) { _ : ",
        "x = chars(",
        "x = chars('",
        "x = select ip(",
        "x = select $a$ ",
        "x = select (",
        "x = select /*",
        "x = /*",
        "/*\n",
        "a,",
        "a,b:",
        "static {",
        "static { a = object { b = ",
        "x = fmt(\"{a}",
        "x = collect take(keys:[",
        "x = read(a,",
        "x = read(a) | to_json",
        "x = calc(1+",
        "x = a ;",
        "(",
        "{",
        "[",
        "\"",
        "'",
        "x = lookup_nocase(",
    ] {
        for count in [100, 20_000] {
            let text = format!("name : x\nrule : /*\n---\n{}", unit.repeat(count));
            lookaside_oml::fuzz_parse(text.as_bytes());
        }
        lookaside_oml::fuzz_parse(format!("name:x rule:\n{}", unit.repeat(20_000)).as_bytes());
        lookaside_oml::fuzz_parse(unit.repeat(20_000).as_bytes());
    }
}

#[test]
fn one_value_for_many_members_is_bounded() {
    let names = "a,".repeat(1000);
    let defaults = "take() { _ : ".repeat(60);
    let unit = format!("{names}b = {defaults} chars(x) {}", "}".repeat(60));
    let text = format!("name:x --- y = object {{ {} }} ;", unit.repeat(100));
    let error = lookaside_oml::Model::parse("x", &text)
        .unwrap_err()
        .to_string();
    assert!(error.contains("at most 100000 expressions"), "{error}");
}
