//! Parts of file paths and URLs.

use std::path::Path;

use lookaside_value::{Text, Value};
use url::{Position, Url};

use crate::ast::{PathPart, UrlPart};

/// A part of a file path, with backslashes treated as slashes; the whole text if there is no such
/// part.
pub(crate) fn path(value: Value, part: PathPart) -> Value {
    let Value::Text(text) = &value else {
        return value;
    };
    let slashed = text.replace('\\', "/");
    let found = match part {
        PathPart::Name => Path::new(&slashed).file_name(),
        PathPart::Path => Path::new(&slashed).parent().map(Path::as_os_str),
    };
    match found.and_then(|part| part.to_str()) {
        Some(part) => Value::from(part),
        None => Value::from(slashed),
    }
}

/// A part of a URL, empty if the URL has none; text that is not a URL is unchanged.
pub(crate) fn url(value: Value, part: UrlPart) -> Value {
    let Value::Text(text) = &value else {
        return value;
    };
    let Ok(url) = Url::parse(text) else {
        return value;
    };
    let part = match part {
        UrlPart::Domain => url.host_str().unwrap_or_default(),
        UrlPart::Host => &url[Position::BeforeHost..Position::AfterPort],
        UrlPart::Uri => &url[Position::BeforePath..],
        UrlPart::Path => url.path(),
        UrlPart::Params => url.query().unwrap_or_default(),
    };
    Value::Text(Text::from(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (text, name, parent) in [
            (r"C:\tmp\logs\x.log", "x.log", "C:/tmp/logs"),
            ("/var/log/", "log", "/var"),
            ("x.log", "x.log", ""),
            ("/", "/", "/"),
            ("..", "..", ""),
            ("", "", ""),
        ] {
            assert_eq!(
                path(text.into(), PathPart::Name),
                Value::from(name),
                "{text}"
            );
            assert_eq!(
                path(text.into(), PathPart::Path),
                Value::from(parent),
                "{text}"
            );
        }
        assert_eq!(path(Value::Int(1), PathPart::Name), Value::Int(1));
    }

    #[test]
    fn urls() {
        use UrlPart::{Domain, Host, Params, Uri};
        let full = "https://cdn.example.org:8443/a/b.js?v=2&x=%20#top";
        for (text, part, expected) in [
            (full, Domain, "cdn.example.org"),
            (full, Host, "cdn.example.org:8443"),
            (full, Uri, "/a/b.js?v=2&x=%20#top"),
            (full, UrlPart::Path, "/a/b.js"),
            (full, Params, "v=2&x=%20"),
            ("http://u:p@h:80/", Host, "h"),
            ("http://u:p@h:80/", Params, ""),
            ("http://[::1]:8080/x", Domain, "[::1]"),
            ("http://[::1]:8080/x", Host, "[::1]:8080"),
            ("mailto:a@b", Domain, ""),
            ("mailto:a@b", UrlPart::Path, "a@b"),
            ("not a url", Host, "not a url"),
            ("http://", Host, "http://"),
            ("/only/a/path?q=1", Params, "/only/a/path?q=1"),
        ] {
            assert_eq!(
                url(text.into(), part),
                Value::from(expected),
                "{text} {part:?}"
            );
        }
        assert_eq!(url(Value::Null, Host), Value::Null);
    }
}
