//! What the path of a request means.

use std::borrow::Cow;

use lookaside_http::Method;

use super::counters::Path;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target<'a> {
    Lookup(&'a str),
    /// The rest of the path as it was sent: a model's name may have slashes, see [`model_name`].
    Enrich(&'a str),
    Query,
    /// The plan of a statement.
    Explain,
    Project,
    /// The first rows of a table; its name as it was sent.
    Table(&'a str),
    Reload,
    Console,
    Status,
    Lookups,
    OpenApi,
    Metrics,
    Health,
    Ready,
    Unknown,
}

/// The paths that are the same whatever is served.
pub(super) const FIXED: [(&str, Target<'static>); 11] = [
    ("/", Target::Console),
    ("/healthz", Target::Health),
    ("/metrics", Target::Metrics),
    ("/openapi.json", Target::OpenApi),
    ("/readyz", Target::Ready),
    ("/v1/explain", Target::Explain),
    ("/v1/lookups", Target::Lookups),
    ("/v1/project", Target::Project),
    ("/v1/query", Target::Query),
    ("/v1/reload", Target::Reload),
    ("/v1/status", Target::Status),
];

/// The name of a model as it is written in a path: `web/access` or `web%2Faccess`. `None` if it is not
/// percent-encoded text.
pub(super) fn model_name(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains('%') {
        return Some(path.into());
    }
    let mut name = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        let (digits, behind) = rest.split_first_chunk::<2>()?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        // Two digits of four bits each.
        name.push((digit(digits[0])? << 4 | digit(digits[1])?) as u8);
        rest = behind;
    }
    String::from_utf8(name).ok().map(Cow::Owned)
}

impl<'a> Target<'a> {
    #[inline]
    pub(super) fn of(path: &'a str) -> Self {
        if let Some(name) = path.strip_prefix("/v1/lookup/") {
            return match name.is_empty() || name.contains('/') {
                true => Self::Unknown,
                false => Self::Lookup(name),
            };
        }
        if let Some(name) = path.strip_prefix("/v1/enrich/") {
            return match name.is_empty() {
                true => Self::Unknown,
                false => Self::Enrich(name),
            };
        }
        if let Some(name) = path.strip_prefix("/v1/tables/") {
            return match name.is_empty() {
                true => Self::Unknown,
                false => Self::Table(name),
            };
        }
        let known = FIXED.into_iter().find(|(known, _)| *known == path);
        known.map_or(Self::Unknown, |(_, target)| target)
    }

    /// The methods that it has.
    pub(super) fn methods(self) -> &'static [Method] {
        match self {
            Self::Lookup(_) => &[Method::Get, Method::Head, Method::Post],
            Self::Enrich(_) | Self::Query | Self::Explain | Self::Reload => &[Method::Post],
            Self::Unknown => &[],
            _ => &[Method::Get, Method::Head],
        }
    }

    /// The same for the header `Allow`.
    pub(super) fn allow(self) -> &'static str {
        match self {
            Self::Lookup(_) => "GET, HEAD, POST, OPTIONS",
            Self::Enrich(_) | Self::Query | Self::Explain | Self::Reload => "POST, OPTIONS",
            Self::Unknown => "OPTIONS",
            _ => "GET, HEAD, OPTIONS",
        }
    }

    /// Whether it needs no key: it tells nothing but that the server is there.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Console | Self::Health | Self::Ready)
    }

    /// What metrics call it.
    pub(super) fn path(self, method: Method) -> Path {
        match self {
            Self::Lookup(_) if method == Method::Post => Path::Batch,
            Self::Lookup(_) => Path::Lookup,
            Self::Enrich(_) => Path::Enrich,
            Self::Query | Self::Explain | Self::Table(_) => Path::Query,
            Self::Reload => Path::Reload,
            Self::Unknown => Path::Other,
            _ => Path::Info,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_named_with_slashes_and_without() {
        for (path, expected) in [
            ("access", Some("access")),
            ("web/access", Some("web/access")),
            ("web%2Faccess", Some("web/access")),
            ("web%2faccess%C3%A9", Some("web/access\u{e9}")),
            ("%", None),
            ("web%2", None),
            ("web%2g", None),
            ("web%+1", None),
            ("web%FF", None),
        ] {
            assert_eq!(model_name(path).as_deref(), expected, "{path}");
        }
        let path = "/v1/enrich/web/access";
        assert_eq!(Target::of(path), Target::Enrich("web/access"));
        assert_eq!(Target::of("/v1/enrich/"), Target::Unknown);
        assert_eq!(Target::of("/v1/lookup/a/b"), Target::Unknown);
    }
}
