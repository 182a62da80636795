//! Content negotiation: RFC 9110, section 12.5.
//!
//! Nothing here allocates. A list may be split over several field lines. Empty elements are
//! skipped, as section 5.6.1.2 requires, and so are malformed ones: an unreadable weight says
//! nothing about its element. Of a duplicate element, the first counts.

#[cfg(test)]
mod tests;

/// A content coding that this crate can produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Uncompressed.
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 7932.
    Brotli,
}

impl Encoding {
    /// All codings, the best compression first.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Gzip, Self::Identity];

    /// The value of `Content-Encoding`; `None` for identity.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some("gzip"),
            Self::Brotli => Some("br"),
        }
    }

    fn parse(name: &[u8]) -> Option<Self> {
        // `x-gzip` is gzip for recipients: section 8.4.1.3.
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        if is(b"br") {
            Some(Self::Brotli)
        } else if is(b"gzip") || is(b"x-gzip") {
            Some(Self::Gzip)
        } else if is(b"identity") {
            Some(Self::Identity)
        } else {
            None
        }
    }
}

/// A weight in thousandths; 0 means "not acceptable".
type Quality = u16;

const QUALITY_MAX: Quality = 1000;

/// Returns the one of `offers` that the values of `Accept-Encoding` prefer; on a tie, the first
/// offered wins. `None` if they refuse all of them, which for a reply means 406.
///
/// Without the field, everything is acceptable, but identity is returned: only clients that request
/// compression get it. An empty field accepts only identity.
pub fn encoding<'a>(
    accept_encoding: impl IntoIterator<Item = &'a [u8]>,
    offers: &[Encoding],
) -> Option<Encoding> {
    let mut named: [Option<Quality>; 3] = [None; 3];
    let mut others = None;
    for element in accept_encoding.into_iter().flat_map(elements) {
        let mut parts = Parts::of(element);
        let Some(name) = parts.next() else { continue };
        let Some(quality) = only_weight(parts) else {
            continue;
        };
        if name == b"*" {
            others.get_or_insert(quality);
        } else if let Some(encoding) = Encoding::parse(name) {
            named[encoding as usize].get_or_insert(quality);
        }
    }
    let wanted = |encoding: Encoding| match (named[encoding as usize].or(others), encoding) {
        // Codings that are not listed are refused, except identity, which is the last resort.
        (None, Encoding::Identity) => Some(0),
        (None | Some(0), _) => None,
        (Some(quality), _) => Some(quality),
    };
    let mut best: Option<(Quality, Encoding)> = None;
    for &offer in offers {
        if let Some(quality) = wanted(offer)
            && best.is_none_or(|(most, _)| quality > most)
        {
            best = Some((quality, offer));
        }
    }
    best.map(|(_, offer)| offer)
}

/// Returns the one of `offers`, media types such as `application/json` or
/// `text/csv;header=present`, that the values of `Accept` prefer. On a tie, an exact match wins
/// over a wildcard, then the first offered wins. `None` if they refuse all of them, which for a
/// reply means 406.
///
/// Without the field, or without any valid range in it, everything is acceptable.
pub fn media_type<'a, I>(accept: I, offers: &[&str]) -> Option<usize>
where
    I: IntoIterator<Item = &'a [u8]> + Clone,
{
    let mut is_said = false;
    let mut best: Option<(Quality, Specificity, usize)> = None;
    for (index, offer) in offers.iter().enumerate() {
        // The most specific matching range determines the weight of the offer.
        let mut found: Option<(Specificity, Quality)> = None;
        for element in accept.clone().into_iter().flat_map(elements) {
            let Some(range) = Range::parse(element) else {
                continue;
            };
            is_said = true;
            if let Some(specificity) = range.matches(offer.as_bytes())
                && found.is_none_or(|(most, _)| specificity > most)
            {
                found = Some((specificity, range.quality));
            }
        }
        if let Some((specificity, quality @ 1..)) = found
            && best.is_none_or(|(most, closest, _)| (quality, specificity) > (most, closest))
        {
            best = Some((quality, specificity, index));
        }
    }
    match best {
        Some((_, _, index)) => Some(index),
        None if is_said || offers.is_empty() => None,
        None => Some(0),
    }
}

/// `*/*`, `type/*` or `type/subtype`, then the number of parameters.
type Specificity = (u8, usize);

/// One media range of an `Accept` field.
struct Range<'a> {
    main: &'a [u8],
    sub: &'a [u8],
    /// The element, whose parameters before the weight are part of the range.
    element: &'a [u8],
    quality: Quality,
}

impl<'a> Range<'a> {
    fn parse(element: &'a [u8]) -> Option<Self> {
        let mut parts = Parts::of(element);
        let (main, sub) = split_once(parts.next()?, b'/')?;
        if !is_token(main) || !is_token(sub) || (main == b"*" && sub != b"*") {
            return None;
        }
        let mut quality = QUALITY_MAX;
        for part in parts {
            let (name, value) = split_once(part, b'=')?;
            if name.eq_ignore_ascii_case(b"q") {
                quality = parse_quality(value)?;
                // After the weight there were extensions, of which none was ever defined.
                break;
            }
            if !is_token(name) || !(is_token(value) || unquoted(value).is_some()) {
                return None;
            }
        }
        Some(Self {
            main,
            sub,
            element,
            quality,
        })
    }

    /// The specificity of the match with an offer, if it matches.
    fn matches(&self, offer: &[u8]) -> Option<Specificity> {
        let mut own = Parts::of(offer);
        let (main, sub) = split_once(own.next()?, b'/')?;
        let kind = match (self.main, self.sub) {
            (b"*", _) => 0,
            (range, b"*") if range.eq_ignore_ascii_case(main) => 1,
            (range, other)
                if range.eq_ignore_ascii_case(main) && other.eq_ignore_ascii_case(sub) =>
            {
                2
            }
            _ => return None,
        };
        let mut count = 0;
        for part in Parts::of(self.element).skip(1) {
            let (name, value) = split_once(part, b'=')?;
            if name.eq_ignore_ascii_case(b"q") {
                break;
            }
            let mut parameters = Parts::of(offer).skip(1);
            parameters.find(|parameter| {
                split_once(parameter, b'=').is_some_and(|(other, theirs)| {
                    name.eq_ignore_ascii_case(other) && is_same(value, theirs)
                })
            })?;
            count += 1;
        }
        Some((kind, count))
    }
}

/// The weight of an element without other parameters; `None` if it is malformed.
fn only_weight(mut parts: Parts<'_>) -> Option<Quality> {
    let Some(part) = parts.next() else {
        return Some(QUALITY_MAX);
    };
    let (name, value) = split_once(part, b'=')?;
    if !name.eq_ignore_ascii_case(b"q") || parts.next().is_some() {
        return None;
    }
    parse_quality(value)
}

/// `0`, `0.5`, `1`, `1.000`: section 12.4.2.
fn parse_quality(value: &[u8]) -> Option<Quality> {
    let (&first, rest) = value.split_first()?;
    let digits = match rest {
        [] => &[][..],
        [b'.', digits @ ..] if digits.len() <= 3 => digits,
        _ => return None,
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let thousandths = (0..3).fold(0, |sum, index| {
        let digit = digits.get(index).map_or(0, |digit| digit - b'0');
        sum * 10 + Quality::from(digit)
    });
    match first {
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(QUALITY_MAX),
        _ => None,
    }
}

/// Whether two values of a parameter, quoted or not, are equal. The case is ignored: no parameter
/// by which types are chosen is case-sensitive.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let plain = |value| unquoted(value).unwrap_or(value);
    plain(one).eq_ignore_ascii_case(plain(other))
}

/// The content of a quoted value. `None` for a value with escapes, which never equals that of an
/// offer.
fn unquoted(value: &[u8]) -> Option<&[u8]> {
    match value {
        [b'"', inner @ .., b'"'] if !inner.contains(&b'"') => Some(inner),
        _ => None,
    }
}

fn is_token(text: &[u8]) -> bool {
    !text.is_empty()
        && text
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

fn split_once(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let index = memchr::memchr(at, text)?;
    Some((&text[..index], &text[index + 1..]))
}

/// The elements of a list, without those that are empty.
pub(crate) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    Split {
        rest: value,
        at: b',',
    }
    .filter(|element| !element.is_empty())
}

/// The name of an element, then its parameters.
#[derive(Clone)]
struct Parts<'a>(Split<'a>);

impl<'a> Parts<'a> {
    fn of(element: &'a [u8]) -> Self {
        Self(Split {
            rest: element,
            at: b';',
        })
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // `parameters = *( OWS ";" OWS [ parameter ] )`: a parameter may be left out.
        self.0.by_ref().find(|part| !part.is_empty())
    }
}

/// Splits at an unquoted byte, and trims the parts.
#[derive(Clone)]
struct Split<'a> {
    rest: &'a [u8],
    at: u8,
}

impl<'a> Iterator for Split<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = end_of_part(self.rest, self.at);
        let part = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        Some(part.trim_ascii())
    }
}

fn end_of_part(text: &[u8], at: u8) -> usize {
    let mut from = 0;
    while let Some(found) = memchr::memchr2(at, b'"', &text[from..]) {
        let index = from + found;
        if text[index] == at {
            return index;
        }
        match end_of_quote(text, index + 1) {
            Some(end) => from = end,
            None => break,
        }
    }
    text.len()
}

/// The position after the end of a quoted string that was opened before `from`.
fn end_of_quote(text: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let index = from + memchr::memchr2(b'"', b'\\', text.get(from..)?)?;
        if text[index] == b'"' {
            return Some(index + 1);
        }
        from = index + 2;
    }
}
