//! The names of rotated output files: `out.json.gz` becomes `out-20261128T103000Z.json.gz`, with the
//! UTC time of its end.
//!
//! If several files of a name end within a second, the second one is
//! `out-20261128T103000Z-1.json.gz`, and so on.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::Compression;

/// The form of the time in a name, for `strftime`.
const STAMP_FORMAT: &str = "%Y%m%dT%H%M%SZ";

/// The size of a time in this form.
const STAMP_SIZE: usize = "20261128T103000Z".len();

/// What distinguishes a rotated file from others of its name; ordered by the end of the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RotatedName {
    /// The UTC time, such as `20261128T103000Z`.
    pub(crate) stamp: String,
    /// How many other files of the name ended within the same second before.
    pub(crate) count: u32,
}

impl RotatedName {
    /// The name of the first file that ends at this time.
    pub(crate) fn at(time: SystemTime) -> Self {
        // Times beyond the year 9999 are not reached by a clock.
        let time = Timestamp::try_from(time).unwrap_or_default();
        let time = time.to_zoned(TimeZone::UTC);
        Self {
            stamp: time.strftime(STAMP_FORMAT).to_string(),
            count: 0,
        }
    }

    /// The next name of the same second.
    pub(crate) fn next(self) -> Self {
        Self {
            count: self.count + 1,
            ..self
        }
    }

    /// The name of the rotated file, for the file that is written under `name`.
    pub(crate) fn of(&self, name: &[u8]) -> Vec<u8> {
        let (stem, suffixes) = split(name);
        let mut rotated = stem.to_vec();
        rotated.push(b'-');
        rotated.extend_from_slice(self.stamp.as_bytes());
        if self.count > 0 {
            rotated.extend_from_slice(format!("-{}", self.count).as_bytes());
        }
        rotated.extend_from_slice(suffixes);
        rotated
    }
}

/// What distinguishes `rotated`, if it is exactly a name that the file `name` is rotated to.
pub(crate) fn parse(name: &[u8], rotated: &[u8]) -> Option<RotatedName> {
    let (stem, suffixes) = split(name);
    let rest = rotated.strip_prefix(stem)?.strip_prefix(b"-")?;
    let (stamp, rest) = rest.split_at_checked(STAMP_SIZE)?;
    let stamp = str::from_utf8(stamp).ok()?;
    let time = DateTime::strptime(STAMP_FORMAT, stamp).ok()?;
    if time.strftime(STAMP_FORMAT).to_string() != stamp {
        return None;
    }
    let rest = str::from_utf8(rest.strip_suffix(suffixes)?).ok()?;
    let found = RotatedName {
        stamp: stamp.to_owned(),
        count: match rest {
            "" => 0,
            _ => rest.strip_prefix('-')?.parse().ok()?,
        },
    };
    // Not another spelling, such as `-01`.
    (found.of(name) == rotated).then_some(found)
}

/// A name before its suffixes, and the suffixes: a compression's and the one before.
fn split(name: &[u8]) -> (&[u8], &[u8]) {
    let packed = match Compression::of_path(Path::new(OsStr::from_bytes(name))) {
        Compression::Plain => name,
        _ => &name[..suffix_start(name)],
    };
    name.split_at(suffix_start(packed))
}

/// Where the suffix of a name begins; the first dot of a hidden file begins its name.
fn suffix_start(name: &[u8]) -> usize {
    match name.iter().rposition(|byte| *byte == b'.') {
        None | Some(0) => name.len(),
        Some(dot) => dot,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_time_stands_before_the_suffixes() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_861_800);
        let first = RotatedName::at(time);
        let second = first.clone().next();
        assert!(first < second);
        for (name, expected) in [
            ("out.json.gz", "out-20261128T103000Z.json.gz"),
            ("out.JSON.GZ", "out-20261128T103000Z.JSON.GZ"),
            ("app.log", "app-20261128T103000Z.log"),
            ("my.app.log", "my.app-20261128T103000Z.log"),
            ("out.zst", "out-20261128T103000Z.zst"),
            ("out", "out-20261128T103000Z"),
            (".out", ".out-20261128T103000Z"),
            (".gz", ".gz-20261128T103000Z"),
        ] {
            let rotated = first.of(name.as_bytes());
            assert_eq!(String::from_utf8_lossy(&rotated), expected);
            assert_eq!(parse(name.as_bytes(), &rotated), Some(first.clone()));
            let rotated = second.of(name.as_bytes());
            assert_eq!(parse(name.as_bytes(), &rotated), Some(second.clone()));
        }
    }

    #[test]
    fn other_names_are_not_rotated_ones() {
        for name in [
            "out.json",
            "out-20261128T103000Z.json.gz",
            "out-20261128T103000Z",
            "out-20261128T103000.json",
            "out-20261128T103000Z-.json",
            "out-20261128T103000Z-0.json",
            "out-20261128T103000Z-01.json",
            "out-20261128T103000Z-+1.json",
            "out-20261128T103000Z-99999999999.json",
            "out-20261128t103000Z.json",
            "out-2026112xT103000Z.json",
            "other-20261128T103000Z.json",
            "out-20261128T103000Z.1.json",
            "out-20269928T103000Z.json",
            "out-20261301T103000Z.json",
            "out-20260229T103000Z.json",
            "out-20261128T243000Z.json",
            "out-20261128T106000Z.json",
            "out-20261128T103060Z.json",
        ] {
            assert_eq!(parse(b"out.json", name.as_bytes()), None, "{name}");
        }
    }
}
