//! From the path of a request to a name below a folder.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// The longest name that is accepted: `PATH_MAX` of Linux, with its NUL.
const NAME_SIZE_MAX: usize = 4095;

/// The relative name that a path refers to; `None` if it is not valid. `path` is as the client sent
/// it, without the leading slash.
///
/// Paths are not normalized: clients resolve `.` and `..` before sending (RFC 3986, section
/// 6.2.2.3), so a path with one of them is suspicious and refused.
pub(super) fn name(path: &str) -> Option<Cow<'_, [u8]>> {
    let name: Cow<'_, [u8]> = if path.contains('%') {
        if !is_well_encoded(path.as_bytes()) {
            return None;
        }
        percent_decode(path.as_bytes()).into()
    } else {
        path.as_bytes().into()
    };
    // An encoded slash is not a separator, and no name contains one.
    let slashes = |text: &[u8]| memchr::memchr_iter(b'/', text).count();
    let is_clean = slashes(&name) == slashes(path.as_bytes()) && !name.contains(&0);
    let steps = name.strip_suffix(b"/").unwrap_or(&name);
    let is_name = name.is_empty() || steps.split(|&byte| byte == b'/').all(is_step);
    (is_clean && is_name && name.len() <= NAME_SIZE_MAX).then_some(name)
}

/// Whether a name may be served: names that begin with a dot are hidden, except `.well-known`.
fn is_step(step: &[u8]) -> bool {
    !step.is_empty() && (step[0] != b'.' || step == b".well-known")
}

fn is_well_encoded(path: &[u8]) -> bool {
    memchr::memchr_iter(b'%', path).all(|index| {
        let digits = path.get(index + 1..index + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (path, expected) in [
            ("", ""),
            ("app.js", "app.js"),
            ("a/b/c.css", "a/b/c.css"),
            ("docs/", "docs/"),
            ("with%20space", "with space"),
            ("%61pp.js", "app.js"),
            ("100%25", "100%"),
            ("..a/b..", ""),
            (".well-known/security.txt", ".well-known/security.txt"),
            ("a\\b", "a\\b"),
            ("%e2%80%94", "\u{2014}"),
        ] {
            let found = name(path);
            if path == "..a/b.." {
                assert_eq!(found, None, "it is hidden");
                continue;
            }
            assert_eq!(found.as_deref(), Some(expected.as_bytes()), "{path}");
        }
        assert_eq!(name("%ff").as_deref(), Some(&b"\xff"[..]));
    }

    #[test]
    fn paths_that_mean_no_name() {
        for path in [
            "/etc/passwd",
            "//etc/passwd",
            "/",
            "a//b",
            "a//",
            "..",
            "../",
            "../secret",
            "a/../../secret",
            "a/..",
            ".",
            "./a",
            "a/./b",
            ".git/config",
            "a/.htpasswd",
            "%2e%2e/secret",
            "%2E%2e/secret",
            ".%2e/secret",
            "%2e/a",
            "..%2fsecret",
            "a%2fb",
            "a%2Fb",
            "%2fetc/passwd",
            "a%00.css",
            "%00",
            "a%",
            "a%2",
            "a%zz",
            "%%32%65",
            "a%2e%2e/%2e%2e/b/%2e%2e",
        ] {
            assert_eq!(name(path), None, "{path}");
        }
        // Decoded only once.
        assert_eq!(name("%252e%252e").as_deref(), Some(&b"%2e%2e"[..]));
        assert_eq!(name(&"a".repeat(4096)), None);
    }
}
