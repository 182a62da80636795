//! `host_under`: host names by their suffixes, at the boundaries of labels.
//!
//! Names are compared without regard to case and to one dot at the end; names beyond ASCII are
//! compared in their ASCII form (UTS #46, non-transitional).

use std::borrow::Cow;

/// The longest name in bytes, without a dot at the end (RFC 1035, 2.3.4).
const NAME_SIZE_MAX: usize = 253;

/// A host name in the form in which names are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host<'a> {
    name: Cow<'a, str>,
}

/// The names that a row of a table stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPattern<'a> {
    host: Host<'a>,
    /// `*.example.com`: the names under it only, not the name itself.
    is_wildcard: bool,
}

impl<'a> Host<'a> {
    /// The comparable form of a name; `None` if it is empty, too long, or has an empty label.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        // Folds over all bytes, which are few, are faster than searches that may end early.
        let is_ascii = text.bytes().fold(true, |all, byte| all & byte.is_ascii());
        let has_upper = text
            .bytes()
            .fold(false, |any, byte| any | byte.is_ascii_uppercase());
        let name = match (is_ascii, has_upper) {
            (true, false) => Cow::Borrowed(text),
            (true, true) => Cow::Owned(text.to_ascii_lowercase()),
            // A label of more than 63 bytes is allowed, as in names that are ASCII.
            (false, _) => {
                let name = idna::domain_to_ascii(text).ok()?;
                // Mapping may produce a dot at the end, as from `example。`.
                match name.strip_suffix('.') {
                    Some(name) => Cow::Owned(name.to_owned()),
                    None => Cow::Owned(name),
                }
            }
        };
        let bytes = name.as_bytes();
        let mut label_at = 0;
        for dot in memchr::memchr_iter(b'.', bytes) {
            if dot == label_at {
                return None;
            }
            label_at = dot + 1;
        }
        let is_name = label_at < bytes.len() && bytes.len() <= NAME_SIZE_MAX;
        is_name.then_some(Self { name })
    }

    /// The keys of patterns that match the name, as [`host_keys`] of it.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        host_keys(&self.name)
    }
}

/// A key of [`HostPattern::key`], and the keys of the patterns that match whatever it matches, the
/// longest first: for `a.b.c` these are `a.b.c`, `.b.c`, `b.c`, `.c` and `c`.
pub(crate) fn host_keys(key: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(key);
    let may_be_address = key.as_bytes().last().is_some_and(u8::is_ascii_digit);
    std::iter::from_fn(move || {
        let key = rest?;
        rest = match key.strip_prefix('.') {
            Some(name) => Some(name),
            // An IPv4 address is not under another name.
            None if may_be_address && lookaside_value::parse_ipv4(key.as_bytes()).is_some() => None,
            None => memchr::memchr(b'.', key.as_bytes()).map(|dot| &key[dot..]),
        };
        Some(key)
    })
}

impl<'a> HostPattern<'a> {
    /// Parses a host of a table: a name, `.name` as the same, or `*.name`.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (text, is_wildcard) = match text.strip_prefix("*.") {
            Some(text) => (text, true),
            None => (text.strip_prefix('.').unwrap_or(text), false),
        };
        let host = Host::parse(text)?;
        Some(Self { host, is_wildcard })
    }

    /// Whether the pattern excludes its own name.
    pub(crate) fn is_wildcard(&self) -> bool {
        self.is_wildcard
    }

    /// The key by which the pattern is found: its name, with a dot in front if it is a wildcard.
    pub(crate) fn key(&self) -> Cow<'_, str> {
        match self.is_wildcard {
            true => format!(".{}", self.host.name).into(),
            false => Cow::Borrowed(&self.host.name),
        }
    }

    /// Whether a name is one of these.
    pub(crate) fn matches(&self, name: &Host<'_>) -> bool {
        let key = self.key();
        name.keys().any(|other| other == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, host: &str, expected: Option<bool>) {
        let name = Host::parse(name);
        let host = HostPattern::parse(host);
        let seen = name.as_ref().zip(host.as_ref());
        assert_eq!(
            seen.map(|(name, host)| host.matches(name)),
            expected,
            "{name:?} {host:?}"
        );
    }

    #[test]
    fn names_match_at_labels() {
        check("example.com", "example.com", Some(true));
        check("a.b.example.com", "example.com", Some(true));
        check("notexample.com", "example.com", Some(false));
        check("com", "example.com", Some(false));
        check("A.Example.COM.", "eXample.com", Some(true));
        check("a.example.com", "example.com.", Some(true));
        check("a.example.com", ".example.com", Some(true));
        check("example.com", ".example.com", Some(true));
        check("a.example.com", "*.example.com", Some(true));
        check("example.com", "*.example.com", Some(false));
        check("_dmarc.example.com", "example.com", Some(true));
        check("www.bücher.example", "xn--bcher-kva.example", Some(true));
        check("www.xn--bcher-kva.example", "BÜCHER.example", Some(true));
        check("a。bücher。example。", "bücher.example", Some(true));
        check("straße.de", "strasse.de", Some(false));
        check("10.1.2.3", "10.1.2.3", Some(true));
        check("10.1.2.3", "2.3", Some(false));
        check("a.10.1.2.3", "10.1.2.3", Some(true));
        check("a.10.1.2.3", "2.3", Some(false));
        check("a.110.1.2.3", "10.1.2.3", Some(false));
    }

    #[test]
    fn other_texts_are_not_names() {
        for text in [
            "",
            ".",
            "a..b",
            "a.b..",
            "..",
            "a\u{fffd}.example",
            &"a".repeat(254),
        ] {
            assert_eq!(Host::parse(text), None, "{text:?}");
            assert_eq!(HostPattern::parse(text), None, "{text:?}");
        }
        assert_eq!(HostPattern::parse("*."), None);
        assert!(Host::parse(&format!("{}.", "a".repeat(253))).is_some());
    }
}
