use std::io::Read as _;

use super::*;
use crate::negotiate::Encoding::{Brotli, Gzip, Identity};

fn decompress(encoding: Encoding, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    match encoding {
        Identity => body.extend_from_slice(bytes),
        Gzip => {
            let mut decoder = flate2::bufread::GzDecoder::new(bytes);
            decoder.read_to_end(&mut body)?;
            assert!(decoder.into_inner().is_empty(), "something follows");
        }
        Brotli => {
            ::brotli::Decompressor::new(bytes, 4096).read_to_end(&mut body)?;
        }
    }
    Ok(body)
}

fn text(random: &mut fastrand::Rng, size: usize) -> Vec<u8> {
    let words = [
        "alpha", "beta", "{\"id\":", "true", "\u{2014}", "0", ",", "\n",
    ];
    let mut text = Vec::new();
    while text.len() < size {
        match random.u8(..8) {
            0 => text.push(random.u8(..)),
            _ => text.extend_from_slice(words[random.usize(..words.len())].as_bytes()),
        }
    }
    text.truncate(size);
    text
}

const SIZES: [usize; 12] = [
    0, 1, 2, 100, 1023, 1024, 4095, 4096, 40_000, 65_536, 262_145, 1_100_000,
];

#[test]
fn whole_bodies_come_back() {
    let mut random = fastrand::Rng::with_seed(1);
    for (gzip_level, brotli_quality) in [(6, 5), (1, 0), (12, 9), (0, 1), (255, 4)] {
        let mut compressor = Compressor::new(EncodingOptions {
            gzip_level,
            brotli_quality,
            ..EncodingOptions::default()
        });
        // Bodies of all sizes share the memory; the smaller must not see the larger's.
        for size in SIZES.into_iter().chain(SIZES.into_iter().rev()) {
            let body = text(&mut random, size.min(70_000));
            for encoding in Encoding::ALL {
                let mut output = b"head".to_vec();
                compressor.compress(encoding, &body, &mut output);
                let rest = output.strip_prefix(b"head").unwrap();
                assert!(decompress(encoding, rest).unwrap() == body, "{encoding:?}");
                if encoding != Identity && body.len() > 1000 {
                    assert!(rest.len() < body.len() * 3 / 4, "{} of {size}", rest.len());
                }
            }
        }
    }
}

#[test]
fn bodies_in_pieces_come_back() {
    let mut random = fastrand::Rng::with_seed(2);
    let compressor = Compressor::default();
    for size in SIZES {
        let body = text(&mut random, size);
        for encoding in Encoding::ALL {
            let mut stream = compressor.stream(encoding);
            let mut output = Vec::new();
            let mut rest = &body[..];
            while !rest.is_empty() {
                let (piece, others) = rest.split_at(random.usize(1..=rest.len()));
                stream.write(piece, &mut output);
                if random.bool() {
                    stream.flush(&mut output);
                }
                rest = others;
            }
            stream.finish(&mut output);
            assert!(
                decompress(encoding, &output).unwrap() == body,
                "{encoding:?} of {size}"
            );
        }
    }
}

#[test]
fn what_is_flushed_can_be_read() {
    for encoding in [Gzip, Brotli] {
        let mut stream = Compressor::default().stream(encoding);
        let mut output = Vec::new();
        stream.write(b"the first event\n", &mut output);
        stream.flush(&mut output);
        let mut found = [0; 16];
        let read = match encoding {
            Gzip => flate2::bufread::GzDecoder::new(&output[..]).read(&mut found),
            _ => ::brotli::Decompressor::new(&output[..], 4096).read(&mut found),
        };
        assert_eq!(&found[..read.unwrap()], b"the first event\n");
        // A dropped stream is not a complete body.
        drop(stream);
        assert!(decompress(encoding, &output).is_err(), "{encoding:?}");
    }
}

#[test]
fn streams_end_on_other_threads() {
    for encoding in [Gzip, Brotli] {
        let mut stream = Compressor::default().stream(encoding);
        let mut output = Vec::new();
        stream.write(b"begun here", &mut output);
        let output = std::thread::spawn(move || {
            stream.write(b", ended there", &mut output);
            stream.finish(&mut output);
            output
        });
        let output = output.join().unwrap();
        let body = decompress(encoding, &output).unwrap();
        assert_eq!(body, b"begun here, ended there");
    }
}

/// Beyond the memory that is kept, an encoder allocates little, whatever the body.
#[test]
fn memory_is_kept() {
    let mut random = fastrand::Rng::with_seed(3);
    let body = text(&mut random, 8_000);
    let mut compressor = Compressor::default();
    let mut output = Vec::with_capacity(64 * 1024);
    for (encoding, bytes_max) in [(Gzip, 0), (Brotli, 128 * 1024)] {
        let mut run = |compressor: &mut Compressor| {
            output.clear();
            compressor.compress(encoding, &body, &mut output);
        };
        run(&mut compressor);
        let used = allocation_counter::measure(|| run(&mut compressor));
        assert!(used.bytes_total <= bytes_max, "{encoding:?}: {used:?}");
    }
    let mut run = || {
        output.clear();
        let mut stream = compressor.stream(Gzip);
        stream.write(&body, &mut output);
        stream.finish(&mut output);
    };
    run();
    assert_eq!(allocation_counter::measure(run).count_total, 0);
}

#[test]
fn choices() {
    for (accepted, expected) in [
        ("gzip, br", Some(Gzip)),
        ("gzip, deflate, br, zstd", Some(Gzip)),
        ("br;q=1, gzip;q=0.8", Some(Brotli)),
        ("br", Some(Brotli)),
        ("*;q=0", None),
        ("", Some(Identity)),
    ] {
        assert_eq!(choose([accepted.as_bytes()]), expected, "{accepted}");
    }
    assert_eq!(choose([]), Some(Identity));
}

#[test]
fn types_that_get_smaller() {
    for content_type in [
        "text/html; charset=utf-8",
        "TEXT/CSV",
        "application/json",
        "application/json ; charset=utf-8",
        "application/problem+json",
        "image/svg+xml",
        "application/vnd.msgpack",
    ] {
        assert!(is_compressible(content_type), "{content_type}");
    }
    for content_type in [
        "",
        "text",
        "image/png",
        "font/woff2",
        "application/gzip",
        "application/octet-stream",
        "text/event-stream",
        "é/text",
    ] {
        assert!(!is_compressible(content_type), "{content_type}");
    }
}
