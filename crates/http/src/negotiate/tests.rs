use super::Encoding::{Brotli, Gzip, Identity};
use super::*;

#[track_caller]
fn check_encoding(fields: &[&str], expected: Option<Encoding>) {
    let values = fields.iter().map(|value| value.as_bytes());
    assert_eq!(encoding(values, &Encoding::ALL), expected, "{fields:?}");
}

#[test]
fn encodings() {
    check_encoding(&[], Some(Identity));
    for (field, expected) in [
        ("", Some(Identity)),
        (" , ,", Some(Identity)),
        ("gzip", Some(Gzip)),
        ("GZIP", Some(Gzip)),
        ("x-gzip", Some(Gzip)),
        ("br", Some(Brotli)),
        ("gzip, br", Some(Brotli)),
        ("br;q=1, gzip;q=0.8", Some(Brotli)),
        ("br;q=0.8, gzip;q=0.801", Some(Gzip)),
        ("gzip;q=0.5 , br ; q=0.5", Some(Brotli)),
        ("gzip;Q=0.5,br;q=0.4", Some(Gzip)),
        ("deflate, zstd", Some(Identity)),
        ("gzip;q=0", Some(Identity)),
        ("gzip;q=0.000, br;q=0", Some(Identity)),
        ("gzip;q=0.001", Some(Gzip)),
        ("identity, gzip;q=0.5", Some(Identity)),
        ("identity;q=0.5, gzip;q=0.5", Some(Gzip)),
        ("*", Some(Brotli)),
        ("*;q=0.5, br;q=0.1", Some(Gzip)),
        ("br;q=0, *", Some(Gzip)),
        ("identity;q=0", None),
        ("identity;q=0, gzip", Some(Gzip)),
        ("identity;q=0, zstd", None),
        ("*;q=0", None),
        ("*;q=0, identity;q=0.1", Some(Identity)),
        ("*;q=0, gzip", Some(Gzip)),
        // The first of two is used.
        ("gzip;q=0, gzip", Some(Identity)),
        // Malformed elements are ignored.
        ("gzip;q=2", Some(Identity)),
        ("gzip;q=1.001", Some(Identity)),
        ("gzip;q=0.1234", Some(Identity)),
        ("gzip;q=-1", Some(Identity)),
        ("gzip;q=.5", Some(Identity)),
        ("gzip;q=", Some(Identity)),
        ("gzip;q", Some(Identity)),
        ("gzip;q = 1", Some(Identity)),
        ("gzip;level=9", Some(Identity)),
        ("gzip;q=0.5;q=1", Some(Identity)),
        ("identity;q=x", Some(Identity)),
        ("gzip br", Some(Identity)),
        ("gzipped", Some(Identity)),
        ("gzip;q=0.;", Some(Identity)),
        ("gzip;q=1.", Some(Gzip)),
        ("\"gzip, br\"", Some(Identity)),
        ("\"gzip, br", Some(Identity)),
    ] {
        check_encoding(&[field], expected);
    }
    check_encoding(&["gzip;q=0.5", "br;q=0.2"], Some(Gzip));
    check_encoding(&["", "gzip"], Some(Gzip));
    check_encoding(&["gzip", "identity;q=0"], Some(Gzip));
}

#[test]
fn encodings_that_are_not_offered() {
    let accept = || [&b"br, gzip;q=0.1"[..]];
    assert_eq!(encoding(accept(), &[Gzip, Identity]), Some(Gzip));
    assert_eq!(encoding(accept(), &[Identity]), Some(Identity));
    assert_eq!(encoding([&b"identity;q=0"[..]], &[Identity]), None);
    assert_eq!(encoding(accept(), &[]), None);
}

const OFFERS: [&str; 3] = [
    "application/json",
    "text/csv;header=present",
    "application/vnd.msgpack",
];

#[track_caller]
fn check_media_type(fields: &[&str], expected: Option<usize>) {
    let values = fields.iter().map(|value| value.as_bytes());
    assert_eq!(media_type(values, &OFFERS), expected, "{fields:?}");
}

#[test]
fn media_types() {
    check_media_type(&[], Some(0));
    for (field, expected) in [
        ("", Some(0)),
        ("*/*", Some(0)),
        ("application/json", Some(0)),
        ("Text/CSV", Some(1)),
        ("text/*", Some(1)),
        ("application/*", Some(0)),
        ("application/vnd.msgpack, application/json", Some(0)),
        (
            "application/json;q=0.9, application/vnd.msgpack;q=0.91",
            Some(2),
        ),
        ("application/json;q=0, */*", Some(1)),
        ("application/json;q=0, application/*", Some(2)),
        ("application/*;q=0, */*;q=0.1", Some(1)),
        // An exact match wins over a wildcard.
        ("*/*, text/csv", Some(1)),
        ("text/html, application/xhtml+xml, */*;q=0.8", Some(0)),
        ("text/csv;header=present", Some(1)),
        ("text/csv;Header=\"Present\"", Some(1)),
        ("text/csv;header=absent", None),
        ("text/csv;header=absent, text/csv;q=0.1", Some(1)),
        ("text/csv;q=0.1;ext=1, application/json;q=0.05", Some(1)),
        ("text/csv;header=present;q=0, text/csv", None),
        ("image/png", None),
        ("*/*;q=0", None),
        ("application/json;charset=utf-8", None),
        // Malformed elements are ignored.
        ("json", Some(0)),
        ("*/json, text/csv", Some(1)),
        ("text/csv;q=2, image/png", None),
        ("text/csv;q", Some(0)),
        ("image/png;title=\"a, text/csv\"", None),
        ("image/png;title=\"a\\\", text/csv\"", Some(0)),
        (";;, text/csv ; ; q=0.5", Some(1)),
    ] {
        check_media_type(&[field], expected);
    }
    check_media_type(&["image/png", "text/csv;q=0.5"], Some(1));
}

/// The meaning of a list, with its text.
struct Said {
    text: String,
    elements: Vec<(usize, Quality)>,
}

/// A list about the first of `names`, of which the last is a wildcard, in a random spelling.
fn say(random: &mut fastrand::Rng, names: &[&str]) -> Said {
    let mut said = Said {
        text: String::new(),
        elements: Vec::new(),
    };
    for position in 0..random.usize(..5) {
        if position > 0 {
            said.text += [",", ", ", " ,\t", ",,"][random.usize(..4)];
        }
        let index = random.usize(..names.len());
        let name = names[index];
        said.text += &if random.bool() {
            name.to_uppercase()
        } else {
            name.to_owned()
        };
        let quality = [0, 1, 300, 500, 500, 999, 1000, 1000][random.usize(..8)];
        let spelling = match (quality, random.usize(..3)) {
            (1000, 0) => String::new(),
            (1000, 1) => ";q=1".to_owned(),
            (1000, _) => " ; Q=1.000".to_owned(),
            (0, 0) => ";q=0".to_owned(),
            (_, 1) if quality % 100 == 0 => format!("; q=0.{}", quality / 100),
            _ => format!(";q=0.{quality:03}"),
        };
        said.text += &spelling;
        said.elements.push((index, quality));
    }
    said
}

impl Said {
    fn about(&self, index: usize) -> Option<Quality> {
        let mut found = self.elements.iter().filter(|(other, _)| *other == index);
        found.next().map(|(_, quality)| *quality)
    }
}

#[test]
fn lists_mean_what_a_plain_reading_says() {
    let mut random = fastrand::Rng::with_seed(9110);
    for _ in 0..50_000 {
        let said = say(&mut random, &["br", "gzip", "identity", "zstd", "*"]);
        let weight = |encoding| {
            let index = [Brotli, Gzip, Identity]
                .iter()
                .position(|&other| other == encoding);
            let stated = said.about(index.unwrap()).or(said.about(4));
            match stated {
                Some(quality) => i32::from(quality) - i32::from(quality == 0),
                None if encoding == Identity => 0,
                None => -1,
            }
        };
        let mut offers = Encoding::ALL;
        random.shuffle(&mut offers);
        let mut expected = None;
        for offer in offers {
            if weight(offer) >= 0 && expected.is_none_or(|best| weight(offer) > weight(best)) {
                expected = Some(offer);
            }
        }
        let found = encoding([said.text.as_bytes()], &offers);
        assert_eq!(found, expected, "{:?} of {offers:?}", said.text);

        let ranges = [
            "application/json",
            "text/csv",
            "application/*",
            "text/*",
            "*/*",
        ];
        let said = say(&mut random, &ranges);
        let weight = |own: usize, main: usize| {
            let stated = [(own, 2), (main, 1), (4, 0)];
            let stated = stated.map(|(index, close)| said.about(index).map(|q| (q, close)));
            stated.into_iter().flatten().next().filter(|(q, _)| *q > 0)
        };
        let (json, csv) = (weight(0, 2), weight(1, 3));
        let expected = match (json, csv) {
            _ if said.elements.is_empty() => Some(0),
            (None, None) => None,
            (json, csv) => Some(usize::from(csv > json)),
        };
        let found = media_type([said.text.as_bytes()], &["application/json", "text/csv"]);
        assert_eq!(found, expected, "{:?}", said.text);
    }
}

#[test]
fn no_value_makes_it_panic() {
    let mut random = fastrand::Rng::with_seed(7);
    let alphabet = b"gzipbr*/,;=q01. \t\"\\-x\xff\0";
    for _ in 0..100_000 {
        let size = random.usize(..24);
        let value: Vec<u8> = (0..size)
            .map(|_| alphabet[random.usize(..alphabet.len())])
            .collect();
        let _ = encoding([&value[..]], &Encoding::ALL);
        let _ = media_type([&value[..]], &OFFERS);
    }
}
