//! Runs the bodies of the fuzz targets on stable: on a corpus and its mutations.

use lookaside_http::{TlsFuzz, fuzz_requests};
use lookaside_testing::{mutations_never_panic, never_panics};

/// Tokens of the grammar.
const WORDS: [&[u8]; 10] = [
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b":",
    b",",
    b";",
    b"\0",
    b"chunked",
    b"Content-Length: 9\r\n",
];

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
    never_panics(&corpus, &WORDS, 91_12, fuzz_requests);
}

/// The first bytes for [`TlsFuzz::run`] that select the beginning: before the client's first
/// flight, between that and the second, after the handshake with some text sent, and after it with
/// the beginning of a message.
const STAGES: [&[u8]; 4] = [&[0], &[0, 1, 8], &[2, 7, 20], &[2, 11, 22, 2, 24, 0]];

/// More bytes than the client sends in one flight of a handshake.
const FLIGHT_SIZE_MAX: usize = 220;

fn tls() -> (tempfile::TempDir, TlsFuzz) {
    let folder = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("server.crt"), certificate.pem()).unwrap();
    std::fs::write(path("server.key"), key.serialize_pem()).unwrap();
    let fuzz = TlsFuzz::new(&path("server.crt"), &path("server.key")).unwrap();
    (folder, fuzz)
}

/// Both versions, at each stage.
fn stages() -> impl Iterator<Item = Vec<u8>> {
    STAGES.into_iter().flat_map(|stage| {
        [0, 1].map(|version| {
            let mut program = stage.to_vec();
            program[0] |= version;
            program
        })
    })
}

#[test]
fn tls_records_may_be_cut_anywhere_while_the_server_sends_and_closes() {
    let (_folder, fuzz) = tls();
    for stage in stages() {
        for at in 0..FLIGHT_SIZE_MAX {
            let [high, low] = (at as u16).to_be_bytes();
            for between in [&[][..], &[5, 9], &[6], &[5, 9, 6, 5, 9], &[10, 7, 3]] {
                fuzz.run(
                    &[
                        &stage[..],
                        &[0, high, low],
                        between,
                        &[1, 8, 1, 7, 9, 1, 5, 9],
                    ]
                    .concat(),
                );
            }
        }
    }
}

#[test]
fn tls_records_may_be_split_anywhere() {
    let (_folder, fuzz) = tls();
    for stage in stages() {
        for at in 0..FLIGHT_SIZE_MAX {
            let [high, low] = (at as u16).to_be_bytes();
            // In one piece and in two, with something sent between.
            for between in [&[1][..], &[0, 0, 7, 5, 9, 1], &[0, high, low, 6, 5, 9, 1]] {
                fuzz.run(&[&stage[..], &[3, high, low], between, &[8, 1, 5, 9]].concat());
            }
        }
    }
}

#[test]
fn tls_bytes_may_be_flipped_anywhere() {
    let (_folder, fuzz) = tls();
    for stage in stages() {
        for at in 0..FLIGHT_SIZE_MAX {
            let at = 8 * at + at % 8;
            let [high, low] = (at as u16).to_be_bytes();
            fuzz.run(&[&stage[..], &[2, high, low], &[1, 8, 1, 5, 9, 7, 9, 1][..]].concat());
        }
    }
}

#[test]
fn tls_records_of_any_type_may_come_at_any_time() {
    let (_folder, fuzz) = tls();
    for stage in stages() {
        for kind in 0..=u8::MAX {
            // Plaintext, encrypted, and within a message; bytes in transit are delivered first or
            // not.
            for record in [
                [4, kind, 1, 0],
                [4, kind, 2, 1],
                [11, kind, 2, 1],
                [11, kind, 1, 24],
            ] {
                for before in [&[][..], &[1], &[11, 22, 1, 4]] {
                    let record = &record[..];
                    fuzz.run(&[&stage, before, record, &[0, 0, 1, 1, 5, 9, 8, 1]].concat());
                }
            }
        }
    }
}

#[test]
fn mutations_of_tls_sessions_never_panic() {
    let (_folder, fuzz) = tls();
    let corpus: Vec<Vec<u8>> = stages()
        .flat_map(|stage| {
            [
                &[1, 8, 1, 8, 7, 30, 1, 5, 30, 8][..],
                &[3, 0, 9, 0, 0, 9, 5, 3, 1, 8, 1],
                &[11, 22, 5, 24, 0, 0, 1, 1, 0, 0, 3, 5, 9, 1],
                &[9, 0, 0, 9, 5, 9, 1, 8, 10, 1, 6],
                &[4, 222, 0, 1, 5, 9, 12, 6, 22, 3, 1, 0, 1, 0, 1],
            ]
            .map(|steps| [&stage, steps].concat())
        })
        .collect();
    let words: [&[u8]; 7] = [
        b"\x01",
        b"\x00\x00\x01",
        b"\x05\x09",
        b"\x06",
        b"\x08",
        b"\x0b\x16\x01\x18",
        b"\x04\xde\x00",
    ];
    let fuzz = std::panic::AssertUnwindSafe(fuzz);
    // Most of them are handshakes, a millisecond each; the fuzz target runs more.
    mutations_never_panic(10_000, &corpus, &words, 12_01, |data| fuzz.run(data));
}
