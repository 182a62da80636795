//! The functions of the language: values in, values out, no state, no failure.
//!
//! A function gets its input by value and hands it back untouched when it cannot handle that type;
//! that is the language's rule, and it costs no copy. [`Function`] is what a pipe is made of once a
//! model is bound.

mod address;
mod calc;
mod convert;
mod dictionary;
mod encoding;
mod escape;
mod location;
mod predicate;
mod select;
mod time;

use jiff::tz::TimeZone;
use lookaside_value::Value;

use crate::ast::{Charset, PathPart, TimeUnit, UrlPart};

pub use self::address::Intranet;
pub(crate) use self::address::access_direct;
pub(crate) use self::calc::Number;
pub(crate) use self::convert::Conversion;
pub(crate) use self::dictionary::Dictionary;
pub(crate) use self::predicate::{Predicate, lower_case};

/// A function with its arguments, ready to run.
#[derive(Clone, Debug)]
pub(crate) enum Function {
    /// `nth(i)`
    Nth(usize),
    /// `get(a/b)`
    Member(Box<[Box<str>]>),
    /// `starts_with('p')`
    StartsWith(Box<str>),
    /// `map_to(v)`
    MapTo(Value),
    /// `on_fail('v')`
    OnFail(Value),
    /// `skip_empty`
    SkipEmpty,
    /// `base64_encode`
    Base64Encode,
    /// `base64_decode(Encoding)`
    Base64Decode(Charset),
    /// `html_escape`
    HtmlEscape,
    /// `html_unescape`
    HtmlUnescape,
    /// `json_escape`
    JsonEscape,
    /// `json_unescape`
    JsonUnescape,
    /// `str_escape`
    StrEscape,
    /// `to_json`
    ToJson,
    /// `to_str`
    ToStr,
    /// `Time::to_ts` and its kin: the time's own offset, else this zone
    ToTimestamp(TimeUnit, TimeZone),
    /// `Time::to_ts_zone(h, unit)`: so many minutes east of UTC, whatever the time says
    ToTimestampAt(TimeUnit, i16),
    /// `Time::from_ts` and its kin
    FromTimestamp(TimeUnit, TimeZone),
    /// `path(name|path)`
    Path(PathPart),
    /// `url(domain|host|uri|path|params)`
    Url(UrlPart),
    /// `ip4_to_int`
    Ip4ToInt,
    /// `ip_to_biguint`
    IpToBiguint,
    /// `intranet_ip`
    IntranetIp,
}

impl Function {
    /// The result, or nothing where the function drops the field.
    pub(crate) fn apply(&self, value: Value, intranet: &Intranet) -> Option<Value> {
        Some(match self {
            Self::Nth(index) => select::nth(value, *index),
            Self::Member(path) => select::member(value, path),
            Self::StartsWith(prefix) => select::starts_with(value, prefix),
            Self::MapTo(constant) => select::map_to(value, constant),
            Self::OnFail(constant) => select::on_fail(value, constant),
            Self::SkipEmpty => select::skip_empty(value),
            Self::Base64Encode => encoding::base64_encode(value),
            Self::Base64Decode(charset) => encoding::base64_decode(value, *charset),
            Self::HtmlEscape => escape::html_escape(value),
            Self::HtmlUnescape => escape::html_unescape(value),
            Self::JsonEscape => escape::json_escape(value),
            Self::JsonUnescape => escape::json_unescape(value),
            Self::StrEscape => escape::str_escape(value),
            Self::ToJson => escape::to_json(value),
            Self::ToStr => escape::to_str(value),
            Self::ToTimestamp(unit, zone) => time::to_timestamp(value, *unit, zone),
            Self::ToTimestampAt(unit, minutes) => time::to_timestamp_at(value, *unit, *minutes),
            Self::FromTimestamp(unit, zone) => time::from_timestamp(value, *unit, zone),
            Self::Path(part) => location::path(value, *part),
            Self::Url(part) => location::url(value, *part),
            Self::Ip4ToInt => return address::ip4_to_int(value),
            Self::IpToBiguint => address::ip_to_biguint(&value),
            Self::IntranetIp => address::intranet_ip(&value, intranet),
        })
    }
}
