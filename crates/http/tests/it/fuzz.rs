//! The fuzz target's body on stable: over a corpus, and over mutations of that.

use lookaside_http::fuzz_requests;
use lookaside_testing::never_panics;

/// What means something.
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
