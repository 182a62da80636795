//! The endpoints, and their paths.

use std::borrow::Cow;

use lookaside_http::Method;

use super::counters::Path;

/// The endpoint of a request, determined by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A lookup by its name.
    Lookup,
    /// A model by its name, which may have slashes, see [`model_name`].
    Enrich,
    Query,
    /// The plan of a statement.
    Explain,
    Project,
    /// The first rows of a table.
    Table,
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

/// All endpoints, in the order of the enum.
const ALL: [Endpoint; 15] = [
    Endpoint::Lookup,
    Endpoint::Enrich,
    Endpoint::Query,
    Endpoint::Explain,
    Endpoint::Project,
    Endpoint::Table,
    Endpoint::Reload,
    Endpoint::Console,
    Endpoint::Status,
    Endpoint::Lookups,
    Endpoint::OpenApi,
    Endpoint::Metrics,
    Endpoint::Health,
    Endpoint::Ready,
    Endpoint::Unknown,
];

const _: () = {
    let mut index = 0;
    while index < ALL.len() {
        assert!(ALL[index] as usize == index);
        index += 1;
    }
};

/// The paths that do not depend on the project.
pub(super) const FIXED: [(&str, Endpoint); 11] = [
    ("/", Endpoint::Console),
    ("/healthz", Endpoint::Health),
    ("/metrics", Endpoint::Metrics),
    ("/openapi.json", Endpoint::OpenApi),
    ("/readyz", Endpoint::Ready),
    ("/v1/explain", Endpoint::Explain),
    ("/v1/lookups", Endpoint::Lookups),
    ("/v1/project", Endpoint::Project),
    ("/v1/query", Endpoint::Query),
    ("/v1/reload", Endpoint::Reload),
    ("/v1/status", Endpoint::Status),
];

/// The prefixes of paths that end in a name. A lookup's name has no slash.
const NAMED: [(&str, Endpoint); 3] = [
    ("/v1/lookup/", Endpoint::Lookup),
    ("/v1/enrich/", Endpoint::Enrich),
    ("/v1/tables/", Endpoint::Table),
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

impl Endpoint {
    #[inline]
    pub(super) fn of(path: &str) -> Self {
        let named = NAMED.iter().find_map(|(prefix, endpoint)| {
            let name = path.strip_prefix(prefix)?;
            Some((name, *endpoint))
        });
        match named {
            Some(("", _)) => Self::Unknown,
            Some((name, Self::Lookup)) if name.contains('/') => Self::Unknown,
            Some((_, endpoint)) => endpoint,
            None => (FIXED.iter())
                .find(|(fixed, _)| *fixed == path)
                .map_or(Self::Unknown, |(_, endpoint)| *endpoint),
        }
    }

    /// The index of this endpoint in [`ALL`].
    pub(super) fn id(self) -> u32 {
        self as u32
    }

    /// The endpoint with an [`id`](Self::id).
    pub(super) fn from_id(id: u32) -> Self {
        ALL[id as usize]
    }

    /// The name at the end of a path of this endpoint, as it was sent; empty if there is none.
    pub(super) fn name(self, path: &str) -> &str {
        let prefix = NAMED.iter().find(|(_, endpoint)| *endpoint == self);
        prefix.map_or("", |(prefix, _)| {
            path.strip_prefix(prefix).unwrap_or_default()
        })
    }

    /// The methods that it supports; OPTIONS is answered for every endpoint.
    pub(super) fn methods(self) -> &'static [Method] {
        match self {
            Self::Lookup => &[Method::Get, Method::Head, Method::Post],
            Self::Enrich | Self::Query | Self::Explain | Self::Reload => &[Method::Post],
            Self::Unknown => &[],
            _ => &[Method::Get, Method::Head],
        }
    }

    /// Whether it needs no key, since it reveals nothing but that the server runs.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Console | Self::Health | Self::Ready)
    }

    /// Its label in metrics.
    pub(super) fn path(self, method: Method) -> Path {
        match self {
            Self::Lookup if method == Method::Post => Path::Batch,
            Self::Lookup => Path::Lookup,
            Self::Enrich => Path::Enrich,
            Self::Query | Self::Explain | Self::Table => Path::Query,
            Self::Reload => Path::Reload,
            Self::Unknown => Path::Other,
            _ => Path::Info,
        }
    }
}

/// The methods of an endpoint, as the value of the header `Allow`.
pub(super) fn allow(methods: &[Method]) -> String {
    let mut allow = String::new();
    for method in methods {
        allow.push_str(method.name());
        allow.push_str(", ");
    }
    allow.push_str(Method::Options.name());
    allow
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_methods_of_an_endpoint_and_options_are_allowed() {
        for (endpoint, expected) in [
            (Endpoint::Lookup, "GET, HEAD, POST, OPTIONS"),
            (Endpoint::Reload, "POST, OPTIONS"),
            (Endpoint::Health, "GET, HEAD, OPTIONS"),
            (Endpoint::Unknown, "OPTIONS"),
        ] {
            assert_eq!(allow(endpoint.methods()), expected);
        }
    }

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
    }

    #[test]
    fn paths_lead_to_endpoints() {
        for (path, endpoint, name) in [
            ("/v1/lookup/asn", Endpoint::Lookup, "asn"),
            ("/v1/enrich/web/access", Endpoint::Enrich, "web/access"),
            ("/v1/tables/asn", Endpoint::Table, "asn"),
            ("/", Endpoint::Console, ""),
            ("/v1/status", Endpoint::Status, ""),
            ("/v1/enrich/", Endpoint::Unknown, ""),
            ("/v1/lookup/", Endpoint::Unknown, ""),
            ("/v1/lookup/a/b", Endpoint::Unknown, ""),
            ("/v1/statuses", Endpoint::Unknown, ""),
            ("*", Endpoint::Unknown, ""),
        ] {
            let found = Endpoint::of(path);
            assert_eq!((found, found.name(path)), (endpoint, name), "{path}");
            assert_eq!(Endpoint::from_id(found.id()), found, "{path}");
        }
    }
}
