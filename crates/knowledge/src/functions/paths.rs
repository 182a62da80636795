//! `path_under`: paths by their prefixes, at the boundaries of segments.

/// A path as it is compared: up to its query or fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path<'a>(&'a str);

/// A prefix of paths, without a slash at the end; `/` is the empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathPrefix<'a>(&'a str);

impl<'a> Path<'a> {
    pub(crate) fn parse(text: &'a str) -> Self {
        let end = memchr::memchr2(b'?', b'#', text.as_bytes());
        Self(&text[..end.unwrap_or(text.len())])
    }

    /// The prefixes that contain the path, the longest first, of at most `segment_count_max`
    /// segments: `/a/b`, `/a`, and the empty one.
    pub(crate) fn prefixes(self, segment_count_max: usize) -> impl Iterator<Item = &'a str> {
        let path = self.0;
        let slashes = memchr::memchr_iter(b'/', path.as_bytes());
        // The slashes at which a prefix may end: those after it, or the end of the path.
        let end = slashes.clone().nth(segment_count_max);
        let longest = &path[..end.unwrap_or(path.len())];
        // The empty prefix contains only paths that begin with a slash.
        let is_prefix = !longest.is_empty() || path.starts_with('/');
        path_keys(longest).skip(usize::from(!is_prefix))
    }
}

/// A prefix and the prefixes that contain it, the longest first.
pub(crate) fn path_keys(prefix: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(prefix);
    std::iter::from_fn(move || {
        let prefix = rest?;
        rest = prefix.rfind('/').map(|slash| &prefix[..slash]);
        Some(prefix)
    })
}

impl<'a> PathPrefix<'a> {
    /// Parses a prefix; the empty text is not one.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        match text.is_empty() {
            true => None,
            false => Some(Self(text.strip_suffix('/').unwrap_or(text))),
        }
    }

    pub(crate) fn as_str(self) -> &'a str {
        self.0
    }

    /// Its slashes.
    pub(crate) fn slash_count(self) -> usize {
        memchr::memchr_iter(b'/', self.0.as_bytes()).count()
    }

    /// Whether a path is this one or under it.
    pub(crate) fn matches(self, path: Path<'_>) -> bool {
        match path.0.strip_prefix(self.0) {
            Some(rest) => rest.starts_with('/') || rest.is_empty() && !self.0.is_empty(),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, prefix: &str, expected: bool) {
        let (path, prefix) = (Path::parse(path), PathPrefix::parse(prefix).unwrap());
        assert_eq!(prefix.matches(path), expected, "{path:?} {prefix:?}");
        for count in [prefix.slash_count(), 100] {
            let is_listed = path.prefixes(count).any(|listed| listed == prefix.as_str());
            assert_eq!(is_listed, expected, "{path:?} {prefix:?} {count}");
        }
    }

    #[test]
    fn paths_match_at_segments() {
        check("/api", "/api", true);
        check("/api/", "/api", true);
        check("/api/v1/users", "/api", true);
        check("/apiary", "/api", false);
        check("/api/v1", "/api/", true);
        check("/api", "/api/", true);
        check("/ap", "/api", false);
        check("/API", "/api", false);
        check("/", "/", true);
        check("/x", "/", true);
        check("", "/", false);
        check("x", "/", false);
        check("x/y", "x", true);
        check("/api?q=/x", "/api", true);
        check("/api#/x", "/api", true);
        check("/?q", "/", true);
        check("/a//b", "/a/", true);
        check("//a", "/", true);
        check("/a/b", "/a//", false);
        check("/a//b", "/a//", true);
        assert_eq!(PathPrefix::parse(""), None);
    }
}
