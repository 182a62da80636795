//! The fuzz target's body on stable: over a corpus, and over mutations of that.

use lookaside_http::fuzz_requests;

const MUTATION_COUNT: usize = 100_000;

/// Makes these tests another hundred thousand when it is changed.
const SEED: u64 = 91_12;

const CORPUS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "\r\nGET /a/b?c=d&e HTTP/1.1\r\nHost: h:80\r\nConnection: close\r\n\r\n",
    "GET http://a.b/c?d HTTP/1.1\r\nhost: x\r\n\r\nHEAD * HTTP/1.0\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost:\r\nA: b\r\nC:\td \r\n\r\n",
    "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhelloGET /y HTTP/1.1\r\nHost: h\r\n\r\n",
    "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;a=b\r\nabc\r\n0\r\nT: u\r\n\r\n\
     GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "PUT /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\nContent-Length: 1\r\n\r\n",
    "GET /a HTTP/2.0\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "GET /0123456789012345678901234567890123456789012345678901234567890 HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\nF: 6\r\nG: 7\r\nH: 8\r\nI: 9\r\n\r\n",
    "GET / HTTP/1.1\nHost: h\n\n",
    "ffffffffffffffff\r\n\0\u{b}\u{fe}",
];

#[test]
fn mutations_of_requests_never_panic_nor_depend_on_the_cut() {
    let corpus: Vec<Vec<u8>> = CORPUS
        .iter()
        .flat_map(|stream| [0, 1, 6, 40].map(|cut| [&[cut][..], stream.as_bytes()].concat()))
        .collect();
    for input in &corpus {
        fuzz_requests(input);
    }
    let mut random = fastrand::Rng::with_seed(SEED);
    for number in 0..MUTATION_COUNT {
        let mut input = random.choice(&corpus).unwrap().clone();
        for _ in 0..random.usize(1..4) {
            mutate(&mut input, &corpus, &mut random);
        }
        let caught = std::panic::catch_unwind(|| fuzz_requests(&input));
        assert!(
            caught.is_ok(),
            "seed {SEED}, mutation {number}: {}",
            input.escape_ascii()
        );
    }
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut fastrand::Rng) {
    if input.is_empty() {
        return;
    }
    let index = random.usize(..input.len());
    let end = input.len().min(index + random.usize(..40));
    match random.u8(..8) {
        0 => input[index] = random.u8(..),
        1 => input[index] ^= 1 << random.u8(..8),
        // What means something.
        2 => {
            let words = [
                "\r\n",
                "\n",
                "\r",
                " ",
                ":",
                ",",
                ";",
                "\0",
                "chunked",
                "Content-Length: 9\r\n",
            ];
            let word = random.choice(words).unwrap();
            input.splice(index..index, word.bytes());
        }
        3 => drop(input.drain(index..end)),
        4 => {
            let piece = input[index..end].to_vec();
            let place = random.usize(..=input.len());
            input.splice(place..place, piece);
        }
        5 => {
            let other = random.choice(corpus).unwrap();
            let start = random.usize(..other.len());
            let end = other.len().min(start + random.usize(..200));
            input.splice(index..index, other[start..end].iter().copied());
        }
        6 => {
            let filler = vec![random.u8(b'!'..b'~'); random.usize(..500)];
            input.splice(index..index, filler);
        }
        _ => input.truncate(index),
    }
}
