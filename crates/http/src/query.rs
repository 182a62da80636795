//! Percent-encoded text: queries and parts of paths.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The names and values of a query, in order. After decoding, bytes that are not UTF-8 become
/// U+FFFD.
#[derive(Clone, Debug)]
pub struct QueryPairs<'a> {
    rest: &'a str,
}

impl<'a> QueryPairs<'a> {
    /// The pairs of `a=b&c=d`.
    pub fn new(query: &'a str) -> Self {
        Self { rest: query }
    }

    fn next_raw(&mut self) -> Option<(&'a str, &'a str)> {
        while !self.rest.is_empty() {
            let (pair, rest) = self.rest.split_once('&').unwrap_or((self.rest, ""));
            self.rest = rest;
            if !pair.is_empty() {
                return Some(pair.split_once('=').unwrap_or((pair, "")));
            }
        }
        None
    }

    /// The first value of a name.
    pub(crate) fn find(mut self, name: &str) -> Option<Cow<'a, str>> {
        while let Some((found, value)) = self.next_raw() {
            if found == name || decode_form(found) == name {
                return Some(decode_form(value));
            }
        }
        None
    }
}

impl<'a> Iterator for QueryPairs<'a> {
    type Item = (Cow<'a, str>, Cow<'a, str>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.next_raw()?;
        Some((decode_form(name), decode_form(value)))
    }
}

/// Decodes a text of a query, where a plus means a space, as in forms.
fn decode_form(text: &str) -> Cow<'_, str> {
    if memchr::memchr2(b'%', b'+', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    match text.contains('+') {
        false => percent_decode_str(text).decode_utf8_lossy(),
        true => {
            let text = text.replace('+', " ");
            Cow::Owned(percent_decode_str(&text).decode_utf8_lossy().into_owned())
        }
    }
}

/// Decodes a part of a path, where a plus is literal.
pub(crate) fn decode_path(text: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(text).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let pairs = QueryPairs::new("a=1&&b=x+y%20%C3%A9&c&=d&a=2&%61=%ff");
        let pairs: Vec<_> = pairs
            .map(|(name, value)| format!("{name}:{value}"))
            .collect();
        assert_eq!(pairs, ["a:1", "b:x y é", "c:", ":d", "a:2", "a:\u{fffd}"]);
        let find = |query, name| QueryPairs::new(query).find(name);
        assert_eq!(find("%61=%2B", "a").as_deref(), Some("+"));
        assert_eq!(find("a=1", "b"), None);
        assert!(matches!(find("a=1&b=2", "b"), Some(Cow::Borrowed("2"))));
    }

    #[test]
    fn paths_are_decoded_where_they_are_text() {
        assert_eq!(decode_path("a+b%2F").as_deref(), Some("a+b/"));
        assert_eq!(decode_path("%ff"), None);
    }
}
