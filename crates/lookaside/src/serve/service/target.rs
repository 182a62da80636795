//! What the path of a request means.

use lookaside_http::Method;

use super::super::counters::Path;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Target<'a> {
    Lookup(&'a str),
    Enrich(&'a str),
    Query,
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
pub(in crate::serve) const FIXED: [(&str, Target<'static>); 9] = [
    ("/", Target::Console),
    ("/healthz", Target::Health),
    ("/metrics", Target::Metrics),
    ("/openapi.json", Target::OpenApi),
    ("/readyz", Target::Ready),
    ("/v1/lookups", Target::Lookups),
    ("/v1/query", Target::Query),
    ("/v1/reload", Target::Reload),
    ("/v1/status", Target::Status),
];

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
            return match name.is_empty() || name.contains('/') {
                true => Self::Unknown,
                false => Self::Enrich(name),
            };
        }
        let known = FIXED.into_iter().find(|(known, _)| *known == path);
        known.map_or(Self::Unknown, |(_, target)| target)
    }

    /// The methods that it has.
    pub(super) fn methods(self) -> &'static [Method] {
        match self {
            Self::Lookup(_) => &[Method::Get, Method::Head, Method::Post],
            Self::Enrich(_) | Self::Query | Self::Reload => &[Method::Post],
            Self::Unknown => &[],
            _ => &[Method::Get, Method::Head],
        }
    }

    /// The same for the header `Allow`.
    pub(super) fn allow(self) -> &'static str {
        match self {
            Self::Lookup(_) => "GET, HEAD, POST, OPTIONS",
            Self::Enrich(_) | Self::Query | Self::Reload => "POST, OPTIONS",
            Self::Unknown => "OPTIONS",
            _ => "GET, HEAD, OPTIONS",
        }
    }

    /// Whether it needs no key: it tells nothing but that the server is there.
    pub(in crate::serve) fn is_open(self) -> bool {
        matches!(self, Self::Console | Self::Health | Self::Ready)
    }

    /// What metrics call it.
    pub(super) fn path(self, method: Method) -> Path {
        match self {
            Self::Lookup(_) if method == Method::Post => Path::Batch,
            Self::Lookup(_) => Path::Lookup,
            Self::Enrich(_) => Path::Enrich,
            Self::Query => Path::Query,
            Self::Reload => Path::Reload,
            Self::Unknown => Path::Other,
            _ => Path::Info,
        }
    }
}
