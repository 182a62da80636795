//! Versions of PostgreSQL, and requirements of callers.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// The oldest supported major version: older ones are no longer maintained.
pub(crate) const MAJOR_MIN: u32 = 14;

/// A released version of PostgreSQL, such as 18.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The major version; data folders are compatible within it.
    pub major: u32,
    /// The minor version, which counts the bug fix releases.
    pub minor: u32,
}

impl Version {
    /// Parses the output of `postgres --version`, such as `postgres (PostgreSQL) 15.18 (Debian
    /// 15.18-0)`.
    pub(crate) fn from_banner(banner: &str) -> Option<Self> {
        let number = banner
            .split_whitespace()
            .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
        Self::from_number(number)
    }

    /// Parses `18.6`; a missing or unreleased minor version (`18`, `19devel`) counts as 0.
    fn from_number(number: &str) -> Option<Self> {
        let (major, rest) = number.split_at(
            number
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(number.len()),
        );
        let minor = rest.strip_prefix('.').unwrap_or_default();
        let minor = &minor[..minor
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(minor.len())];
        Some(Self {
            major: major.parse().ok()?,
            minor: if minor.is_empty() {
                0
            } else {
                minor.parse().ok()?
            },
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The versions a caller accepts: any, one major version (`17`) or exactly one (`17.11`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VersionRequirement {
    major: Option<u32>,
    minor: Option<u32>,
}

impl VersionRequirement {
    /// Accepts every version that this crate supports.
    pub const ANY: Self = Self {
        major: None,
        minor: None,
    };

    /// Accepts all versions of one major version.
    pub(crate) fn of_major(major: u32) -> Self {
        Self {
            major: Some(major),
            minor: None,
        }
    }

    /// Whether `version` is accepted.
    pub fn accepts(self, version: Version) -> bool {
        version.major >= MAJOR_MIN
            && self.major.is_none_or(|major| major == version.major)
            && self.minor.is_none_or(|minor| minor == version.minor)
    }

    /// The required major version, if any.
    pub fn major(self) -> Option<u32> {
        self.major
    }

    /// The required minor version, if any.
    pub fn minor(self) -> Option<u32> {
        self.minor
    }
}

impl FromStr for VersionRequirement {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = || Error::bad_version(text);
        let (major, minor) = match text.split_once('.') {
            None => (text, None),
            Some((major, minor)) => (major, Some(minor)),
        };
        let major: u32 = major.parse().map_err(|_| refuse())?;
        let minor = minor
            .map(|minor| minor.parse().map_err(|_| refuse()))
            .transpose()?;
        if major < MAJOR_MIN {
            return Err(Error::version_too_old(text, VersionRequirement::ANY));
        }
        Ok(Self {
            major: Some(major),
            minor,
        })
    }
}

impl fmt::Display for VersionRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.major, self.minor) {
            (None, _) => write!(f, "{MAJOR_MIN} or newer"),
            (Some(major), None) => write!(f, "{major}"),
            (Some(major), Some(minor)) => write!(f, "{major}.{minor}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banners_of_every_kind_are_read() {
        for (banner, expected) in [
            ("postgres (PostgreSQL) 18.6", Some((18, 6))),
            (
                "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)",
                Some((15, 18)),
            ),
            ("PostgreSQL 14.12 - Percona", Some((14, 12))),
            ("postgres (PostgreSQL) 19devel", Some((19, 0))),
            ("postgres (PostgreSQL) 18beta1", Some((18, 0))),
            ("postgres", None),
            ("", None),
        ] {
            let found = Version::from_banner(banner).map(|version| (version.major, version.minor));
            assert_eq!(found, expected, "{banner:?}");
        }
    }

    #[test]
    fn a_requirement_accepts_what_it_names() {
        let version = Version {
            major: 17,
            minor: 11,
        };
        for (requirement, accepted) in [
            ("17", true),
            ("17.11", true),
            ("17.10", false),
            ("18", false),
        ] {
            let requirement: VersionRequirement = requirement.parse().unwrap();
            assert_eq!(requirement.accepts(version), accepted, "{requirement}");
        }
        assert!(VersionRequirement::ANY.accepts(version));
        assert!(!VersionRequirement::ANY.accepts(Version {
            major: 13,
            minor: 22
        }));
        for text in ["", "x", "17.", "17.x", "13", "17.1.2", "-1"] {
            assert!(text.parse::<VersionRequirement>().is_err(), "{text:?}");
        }
    }
}
