//! Patterns with `*`: the rules of a model, batch targets, and the keys of `collect`.

use std::fmt;

use lookaside_value::Text;

/// A pattern in which `*` matches any sequence of characters, including `/` and the empty sequence.
///
/// ```
/// use lookaside_oml::Wildcard;
///
/// let rule = Wildcard::new("/web/*/access");
/// assert!(rule.matches("/web/eu/1/access"));
/// assert!(!rule.matches("/web/access"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wildcard(Text);

impl Wildcard {
    /// A pattern from its text.
    pub fn new(pattern: impl Into<Text>) -> Self {
        Self(pattern.into())
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether only one text matches, the pattern itself.
    pub fn is_literal(&self) -> bool {
        !self.0.contains('*')
    }

    /// Whether every text matches.
    pub fn is_any(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte == b'*')
    }

    /// Whether the whole text matches the pattern.
    ///
    /// Greedy with a single backtracking position, so the time is at worst the product of both
    /// lengths.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut p, mut t) = (0, 0);
        // The position after the last star, and the end of its match in the text.
        let mut star: Option<(usize, usize)> = None;
        while t < text.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    p += 1;
                    star = Some((p, t));
                }
                Some(byte) if *byte == text[t] => {
                    p += 1;
                    t += 1;
                }
                _ => match star {
                    None => return false,
                    Some((behind, end)) => {
                        p = behind;
                        t = end + 1;
                        star = Some((behind, t));
                    }
                },
            }
        }
        pattern[p..].iter().all(|byte| *byte == b'*')
    }
}

impl fmt::Display for Wildcard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "/a/b", true),
            ("**", "x", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "a", true),
            ("a*", "ab/c", true),
            ("a*", "ba", false),
            ("*a", "bca", true),
            ("*a", "ab", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("details*p", "details[0]/p", true),
            ("*é", "caf\u{e9}", true),
        ] {
            assert_eq!(
                Wildcard::new(pattern).matches(text),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn many_stars_do_not_blow_up() {
        let pattern = Wildcard::new("*a".repeat(50).as_str());
        assert!(!pattern.matches(&format!("{}b", "a".repeat(5000))));
    }
}
