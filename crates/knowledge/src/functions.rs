//! The SQL functions that look up addresses, names, paths and patterns, as plain Rust and as SQLite
//! functions.
//!
//! The plain form ([`call`]) is what native plans evaluate; SQLite runs the same code, so both
//! always agree. The special results (an invalid address is 0, or the highest address in
//! `ip4_between`) are part of the file format: existing `insert.sql` files rely on them.

mod fold;
mod hosts;
mod networks;
mod paths;
mod patterns;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lookaside_value::Text;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql};

pub(crate) use self::fold::fold_of;
pub(crate) use self::hosts::{Host, HostPattern, host_keys};
pub(crate) use self::networks::{Network, key_of as address_key, key_of_ip as address_key_of_ip};
pub(crate) use self::paths::{Path, PathPrefix, path_keys};
use crate::bind::SqlValue;

/// The highest IPv4 address as an integer.
const IP4_MAX: i64 = u32::MAX as i64;

/// A SQL function that is registered on every connection of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    /// `ip4_int(text)`: the address as an integer, 0 if the text is not an address.
    Ip4Int,
    /// `ip4_text(int)`: the address of an integer, modulo 2^32 below zero.
    Ip4Text,
    /// `cidr4_min(text)`: the first address of a network as an integer, 0 if the text is not a
    /// network.
    Cidr4Min,
    /// `cidr4_max(text)`: the last address of a network as an integer, 0 if the text is not a
    /// network.
    Cidr4Max,
    /// `ip4_between(text, start, end)`: 1 if the address is between both bounds, inclusive.
    Ip4Between,
    /// `cidr4_contains(text, net)`: 1 if the network contains the address.
    Cidr4Contains,
    /// `trim_quotes(text)`: the text without white space around it and one pair of quotes.
    TrimQuotes,
    /// `ip_key(text)`: 16 bytes that sort as addresses do, NULL if it is not an address.
    IpKey,
    /// `cidr_key_min(text)`: the key of the first address of a network, NULL if the text is not a
    /// network.
    CidrKeyMin,
    /// `cidr_key_max(text)`: the key of the last address of a network, NULL if the text is not a
    /// network.
    CidrKeyMax,
    /// `cidr_contains(text, net)`: 1 if the network, IPv4 or IPv6, contains the address.
    CidrContains,
    /// `cidr_len(net)`: the length of the prefix of a network.
    CidrLen,
    /// `host_under(name, host)`: 1 if the name is the host or under it.
    HostUnder,
    /// `path_under(path, prefix)`: 1 if the path is the prefix or under it.
    PathUnder,
    /// `fold(text)`: the text without the differences of case, composition and surrounding white
    /// space.
    Fold,
    /// `regexp_like(text, pattern)`: 1 if the regular expression matches within the text.
    RegexpLike,
}

/// The result of a function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SqlOut {
    /// NULL.
    Null,
    /// INTEGER.
    Int(i64),
    /// TEXT; up to 23 bytes without allocating.
    Text(Text),
    /// BLOB of `ip_key`.
    Key([u8; 16]),
}

impl SqlOut {
    /// The result as an argument or an operand.
    pub(crate) fn as_sql_value(&self) -> SqlValue<'_> {
        match self {
            Self::Null => SqlValue::Null,
            Self::Int(int) => SqlValue::Int(*int),
            Self::Text(text) => SqlValue::Text(text),
            Self::Key(key) => SqlValue::Blob(key),
        }
    }

    /// The result as a value of SQLite.
    pub(crate) fn as_value_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Int(int) => ValueRef::Integer(*int),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Key(key) => ValueRef::Blob(key),
        }
    }
}

/// A call that is an error in SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FunctionError {
    /// The function takes another number of arguments.
    ArgumentCount(Function),
    /// The argument at this index, counted from 1, is not of a type that the function accepts.
    ArgumentType(Function, usize),
    /// A function over IPv4 networks got an IPv6 network, which must not become 0.0.0.0.
    Ip6(Function),
    /// A pattern that is not a regular expression, and what is wrong with it.
    Pattern(Box<str>, String),
}

impl Function {
    /// All functions.
    pub(crate) const ALL: [Self; 16] = [
        Self::Ip4Int,
        Self::Ip4Text,
        Self::Cidr4Min,
        Self::Cidr4Max,
        Self::Ip4Between,
        Self::Cidr4Contains,
        Self::TrimQuotes,
        Self::IpKey,
        Self::CidrKeyMin,
        Self::CidrKeyMax,
        Self::CidrContains,
        Self::CidrLen,
        Self::HostUnder,
        Self::PathUnder,
        Self::Fold,
        Self::RegexpLike,
    ];

    /// The function of this name; case-insensitive, as in SQL.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let named = |function: &Self| function.name().eq_ignore_ascii_case(name);
        Self::ALL.into_iter().find(named)
    }

    /// The name in SQL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ip4Int => "ip4_int",
            Self::Ip4Text => "ip4_text",
            Self::Cidr4Min => "cidr4_min",
            Self::Cidr4Max => "cidr4_max",
            Self::Ip4Between => "ip4_between",
            Self::Cidr4Contains => "cidr4_contains",
            Self::TrimQuotes => "trim_quotes",
            Self::IpKey => "ip_key",
            Self::CidrKeyMin => "cidr_key_min",
            Self::CidrKeyMax => "cidr_key_max",
            Self::CidrContains => "cidr_contains",
            Self::CidrLen => "cidr_len",
            Self::HostUnder => "host_under",
            Self::PathUnder => "path_under",
            Self::Fold => "fold",
            Self::RegexpLike => "regexp_like",
        }
    }

    /// How many arguments it takes.
    pub(crate) fn argument_count(self) -> usize {
        match self {
            Self::Ip4Between => 3,
            Self::Cidr4Contains
            | Self::CidrContains
            | Self::HostUnder
            | Self::PathUnder
            | Self::RegexpLike => 2,
            _ => 1,
        }
    }
}

/// Calls a function.
pub(crate) fn call(function: Function, args: &[SqlValue<'_>]) -> Result<SqlOut, FunctionError> {
    if args.len() != function.argument_count() {
        return Err(FunctionError::ArgumentCount(function));
    }
    let text = |index: usize| match args[index] {
        SqlValue::Text(text) => Ok(text),
        _ => Err(FunctionError::ArgumentType(function, index + 1)),
    };
    Ok(match function {
        Function::Ip4Int => SqlOut::Int(ip4_int_of(text(0)?)),
        Function::Ip4Text => match args[0] {
            SqlValue::Int(int) => SqlOut::Text(ip4_text_of(int)),
            _ => SqlOut::Text(ip4_text_of(text(0)?.trim().parse().unwrap_or(0))),
        },
        Function::Cidr4Min => SqlOut::Int(match cidr4_of(text(0)?) {
            Some((first, _)) => first,
            None if is_ip6(text(0)?) => return Err(FunctionError::Ip6(function)),
            None => 0,
        }),
        Function::Cidr4Max => SqlOut::Int(match cidr4_of(text(0)?) {
            Some((_, last)) => last,
            None if is_ip6(text(0)?) => return Err(FunctionError::Ip6(function)),
            None => 0,
        }),
        Function::Ip4Between => {
            let ip = ip4_between_ip_of(text(0)?);
            let start = ip4_bound_of(args[1]).unwrap_or(IP4_MAX);
            let end = ip4_bound_of(args[2]).unwrap_or(0);
            SqlOut::Int(i64::from(start <= ip && ip <= end))
        }
        Function::Cidr4Contains => {
            let (ip, net) = (ip4_of(text(0)?), cidr4_of(text(1)?));
            // An IPv4 network contains no IPv6 address and vice versa, but two IPv6 arguments may
            // match.
            if ip.is_none() && net.is_none() && is_ip6(text(0)?) && is_ip6(text(1)?) {
                return Err(FunctionError::Ip6(function));
            }
            let holds = ip
                .zip(net)
                .is_some_and(|(ip, (first, last))| first <= ip && ip <= last);
            SqlOut::Int(i64::from(holds))
        }
        Function::TrimQuotes => SqlOut::Text(Text::from(trim_quotes_of(text(0)?))),
        Function::IpKey => match args[0] {
            SqlValue::Text(text) => ip_key_of(text).map_or(SqlOut::Null, SqlOut::Key),
            _ => SqlOut::Null,
        },
        Function::CidrKeyMin | Function::CidrKeyMax => match args[0] {
            SqlValue::Text(text) => match (Network::parse(text), function) {
                (None, _) => SqlOut::Null,
                (Some(network), Function::CidrKeyMin) => SqlOut::Key(network.first.to_be_bytes()),
                (Some(network), _) => SqlOut::Key(network.last.to_be_bytes()),
            },
            _ => SqlOut::Null,
        },
        Function::CidrLen => match args[0] {
            SqlValue::Text(text) => Network::parse(text).map_or(SqlOut::Null, |network| {
                SqlOut::Int(i64::from(network.prefix_len))
            }),
            _ => SqlOut::Null,
        },
        Function::Fold => match args[0] {
            SqlValue::Text(text) => SqlOut::Text(Text::from(&*fold_of(text))),
            SqlValue::Int(int) => SqlOut::Text(Text::from(itoa::Buffer::new().format(int))),
            _ => SqlOut::Null,
        },
        Function::CidrContains
        | Function::HostUnder
        | Function::PathUnder
        | Function::RegexpLike => match (args[0], args[1]) {
            (SqlValue::Text(text), SqlValue::Text(row)) => {
                let matches = matches(function, text, row)?;
                matches.map_or(SqlOut::Null, |matches| SqlOut::Int(i64::from(matches)))
            }
            _ => SqlOut::Null,
        },
    })
}

/// Whether a text matches the text of a row; `None` if one of them is not of the right form.
fn matches(function: Function, text: &str, row: &str) -> Result<Option<bool>, FunctionError> {
    Ok(match function {
        Function::CidrContains => {
            let (key, network) = (networks::key_of(text), Network::parse(row));
            key.zip(network).map(|(key, network)| network.contains(key))
        }
        Function::HostUnder => {
            let (name, host) = (Host::parse(text), HostPattern::parse(row));
            name.zip(host).map(|(name, host)| host.matches(&name))
        }
        Function::PathUnder => {
            let (path, prefix) = (Path::parse(text), PathPrefix::parse(row));
            prefix.map(|prefix| prefix.matches(path))
        }
        _ => {
            let refused = |problem| FunctionError::Pattern(row.into(), problem);
            Some(patterns::is_match(text, row).map_err(refused)?)
        }
    })
}

/// `ip4_int`: the address as an integer, 0 if the text is not an IPv4 address.
pub(crate) fn ip4_int_of(text: &str) -> i64 {
    ip4_of(text).unwrap_or(0)
}

/// The first argument of `ip4_between`: a text that is not an IPv4 address counts as the highest one.
pub(crate) fn ip4_between_ip_of(text: &str) -> i64 {
    ip4_of(text).unwrap_or(IP4_MAX)
}

/// A bound of `ip4_between`: an integer or an address; `None` for anything else, which then counts
/// as the highest address for a start and as the lowest for an end.
pub(crate) fn ip4_bound_of(bound: SqlValue<'_>) -> Option<i64> {
    match bound {
        SqlValue::Int(int) => Some(int),
        SqlValue::Text(text) => ip4_of(text),
        _ => None,
    }
}

/// `ip_key`: the 16 bytes of an address, IPv4 as `::ffff:a.b.c.d`.
pub(crate) fn ip_key_of(text: &str) -> Option<[u8; 16]> {
    networks::key_of(text).map(u128::to_be_bytes)
}

/// `ip_key` of a parsed address.
pub(crate) fn ip_key_of_ip(ip: IpAddr) -> [u8; 16] {
    networks::key_of_ip(ip).to_be_bytes()
}

/// `trim_quotes`: removes surrounding white space, then one matching pair of quotes.
pub(crate) fn trim_quotes_of(text: &str) -> &str {
    let text = text.trim();
    ["\\\"", "\"", "'"]
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(text)
}

fn ip4_text_of(int: i64) -> Text {
    // A value below zero wraps; a value above the highest address becomes 0.
    let ip = if int > IP4_MAX { 0 } else { int as u32 };
    let mut out = [0_u8; 15];
    let mut size = 0;
    let mut digits = itoa::Buffer::new();
    for (index, octet) in Ipv4Addr::from(ip).octets().into_iter().enumerate() {
        if index > 0 {
            out[size] = b'.';
            size += 1;
        }
        let octet = digits.format(octet).as_bytes();
        out[size..size + octet.len()].copy_from_slice(octet);
        size += octet.len();
    }
    Text::from(std::str::from_utf8(&out[..size]).expect("digits and points"))
}

/// An IPv4 address, ignoring white space and double quotes around it.
fn ip4_of(text: &str) -> Option<i64> {
    if let Some(ip) = parse_ip4(text.as_bytes()) {
        return Some(i64::from(ip));
    }
    let bare = text.trim_matches(|c: char| c == '"' || c.is_whitespace());
    parse_ip4(bare.as_bytes()).map(i64::from)
}

/// First and last address of `a.b.c.d/p`, both parts required, nothing around them.
fn cidr4_of(text: &str) -> Option<(i64, i64)> {
    let (ip, prefix) = text.split_once('/')?;
    let ip = parse_ip4(ip.as_bytes())?;
    if prefix.is_empty() || prefix.len() > 2 || !prefix.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let host_bits = 32_u32.checked_sub(prefix.parse().ok()?)?;
    let host_mask = u32::MAX.checked_shr(32 - host_bits).unwrap_or(0);
    Some((i64::from(ip & !host_mask), i64::from(ip | host_mask)))
}

/// Whether a text is an IPv6 address or network.
fn is_ip6(text: &str) -> bool {
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    address.trim().parse::<Ipv6Addr>().is_ok()
}

/// An address as the integer that the tables store.
fn parse_ip4(text: &[u8]) -> Option<u32> {
    lookaside_value::parse_ipv4(text).map(u32::from)
}

/// Registers all functions on a connection.
pub(crate) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    for function in Function::ALL {
        let count = function.argument_count();
        let argument_count = i32::try_from(count).expect("three arguments at most");
        connection.create_scalar_function(
            function.name(),
            argument_count,
            flags,
            move |context| {
                let mut args = [SqlValue::Null; 3];
                for (index, arg) in args[..count].iter_mut().enumerate() {
                    *arg = argument(function, context, index)?;
                }
                call(function, &args[..count])
                    .map_err(|error| rusqlite::Error::UserFunctionError(Box::new(error)))
            },
        )?;
    }
    Ok(())
}

fn argument<'a>(
    function: Function,
    context: &'a Context<'_>,
    index: usize,
) -> rusqlite::Result<SqlValue<'a>> {
    Ok(match context.get_raw(index) {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(int) => SqlValue::Int(int),
        ValueRef::Real(float) => SqlValue::Float(float),
        ValueRef::Blob(bytes) => SqlValue::Blob(bytes),
        ValueRef::Text(text) => SqlValue::Text(std::str::from_utf8(text).map_err(|_| {
            let error = FunctionError::ArgumentType(function, index + 1);
            rusqlite::Error::UserFunctionError(Box::new(error))
        })?),
    })
}

impl ToSql for SqlOut {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.as_value_ref()))
    }
}

impl fmt::Display for FunctionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ArgumentCount(function) => {
                let count = function.argument_count();
                write!(f, "{}() takes {count} argument(s)", function.name())
            }
            Self::ArgumentType(Function::Ip4Text, index) => {
                write!(f, "ip4_text(): argument {index} must be an integer or text")
            }
            Self::Pattern(pattern, problem) => {
                let pattern = shortened(pattern);
                write!(
                    f,
                    "regexp_like(): `{pattern}` is not a regular expression: {problem}"
                )
            }
            Self::Ip6(function) => {
                let name = function.name();
                let instead = match function {
                    Function::Cidr4Min => "cidr_key_min(), and compare it with ip_key()",
                    Function::Cidr4Max => "cidr_key_max(), and compare it with ip_key()",
                    _ => "cidr_contains(:ip, net)",
                };
                write!(f, "{name}() supports IPv4 only; for IPv6, use {instead}")
            }
            Self::ArgumentType(function, index) => {
                write!(f, "{}(): argument {index} must be text", function.name())
            }
        }
    }
}

/// The longest part of a pattern in a message, in characters.
const PATTERN_SHOWN_MAX: usize = 80;

fn shortened(pattern: &str) -> std::borrow::Cow<'_, str> {
    match pattern.char_indices().nth(PATTERN_SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &pattern[..end]).into(),
        None => pattern.into(),
    }
}

impl std::error::Error for FunctionError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(call: &str, expected: &str) {
        let connection = Connection::open_in_memory().unwrap();
        register(&connection).unwrap();
        let seen = connection.query_row(&format!("select quote({call})"), [], |row| {
            row.get::<_, String>(0)
        });
        let seen = seen.unwrap_or_else(|error| format!("error: {error}"));
        assert_eq!(seen, expected, "{call}");
    }

    #[test]
    fn addresses_as_integers() {
        check("ip4_int('0.0.0.0')", "0");
        check("ip4_int('1.2.3.4')", "16909060");
        check("ip4_int('255.255.255.255')", "4294967295");
        check("ip4_int('  \"1.2.3.4\" ')", "16909060");
        check("ip4_int(char(9) || '1.2.3.4' || char(13, 10))", "16909060");
        for bad in [
            "",
            "x",
            "1.2.3",
            "1.2.3.4.5",
            "256.0.0.0",
            "01.2.3.4",
            "::1",
            "1.2.3.4/8",
        ] {
            check(&format!("ip4_int('{bad}')"), "0");
        }
        let error = "error: ip4_int(): argument 1 must be text";
        for wrong in ["5", "1.5", "null", "x'31'", "cast(x'ff' as text)"] {
            check(&format!("ip4_int({wrong})"), error);
        }
    }

    #[test]
    fn integers_as_addresses() {
        check("ip4_text(0)", "'0.0.0.0'");
        check("ip4_text(16909060)", "'1.2.3.4'");
        check("ip4_text('16909060')", "'1.2.3.4'");
        check("ip4_text(4294967295)", "'255.255.255.255'");
        check("ip4_text(4294967296)", "'0.0.0.0'");
        check("ip4_text(-1)", "'255.255.255.255'");
        check("ip4_text('x')", "'0.0.0.0'");
        check("ip4_text('')", "'0.0.0.0'");
        let error = "error: ip4_text(): argument 1 must be an integer or text";
        check("ip4_text(null)", error);
        check("ip4_text(1.5)", error);
    }

    #[test]
    fn networks() {
        check("cidr4_min('10.1.2.3/8')", "167772160");
        check("cidr4_max('10.1.2.3/8')", "184549375");
        check("cidr4_min('1.2.3.4/32')", "16909060");
        check("cidr4_max('1.2.3.4/32')", "16909060");
        check("cidr4_min('1.2.3.4/0')", "0");
        check("cidr4_max('1.2.3.4/0')", "4294967295");
        for bad in [
            "",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0/8",
            ":/8",
        ] {
            check(&format!("cidr4_min('{bad}')"), "0");
            check(&format!("cidr4_max('{bad}')"), "0");
        }
        check("cidr4_contains('10.9.9.9', '10.0.0.0/8')", "1");
        check("cidr4_contains('11.0.0.0', '10.0.0.0/8')", "0");
        check("cidr4_contains('bad', '0.0.0.0/0')", "0");
        check("cidr4_contains('10.0.0.0', 'bad')", "0");
        let error = "error: cidr4_contains(): argument 2 must be text";
        check("cidr4_contains('10.0.0.0', 7)", error);
    }

    #[test]
    fn ip6_networks_are_never_zero() {
        for net in [
            "2001:db8::/32",
            "::/8",
            "::1",
            "::ffff:1.2.3.4/120",
            "fe80::/64x",
        ] {
            for (function, instead) in [
                ("cidr4_min", "cidr_key_min()"),
                ("cidr4_max", "cidr_key_max()"),
            ] {
                check(
                    &format!("{function}('{net}')"),
                    &format!(
                        "error: {function}() supports IPv4 only; for IPv6, use {instead}, and \
                         compare it with ip_key()"
                    ),
                );
            }
        }
        // No address of one IP version is in a network of the other.
        check("cidr4_contains('2001:db8::1', '0.0.0.0/0')", "0");
        check("cidr4_contains('1.2.3.4', '::/0')", "0");
        check(
            "cidr4_contains('2001:db8::1', '2001:db8::/32')",
            "error: cidr4_contains() supports IPv4 only; for IPv6, use cidr_contains(:ip, net)",
        );
    }

    #[test]
    fn keys_of_networks() {
        let v4 = "00000000000000000000FFFF";
        check("cidr_key_min('10.1.2.3/8')", &format!("X'{v4}0A000000'"));
        check("cidr_key_max('10.1.2.3/8')", &format!("X'{v4}0AFFFFFF'"));
        check("cidr_key_min('1.2.3.4')", &format!("X'{v4}01020304'"));
        check("cidr_key_max('1.2.3.4/32')", &format!("X'{v4}01020304'"));
        check("cidr_key_max('1.2.3.4/0')", &format!("X'{v4}FFFFFFFF'"));
        let net = "20010DB8000000000000000000000000";
        check("cidr_key_min('2001:db8::1/32')", &format!("X'{net}'"));
        check(
            "cidr_key_max('2001:db8::1/32')",
            "X'20010DB8FFFFFFFFFFFFFFFFFFFFFFFF'",
        );
        check("cidr_key_min('::1/0')", &format!("X'{}'", "0".repeat(32)));
        check("cidr_key_max('::1/0')", &format!("X'{}'", "F".repeat(32)));
        check(
            "ip_key('2001:db8::5') between cidr_key_min('2001:db8::/64') and cidr_key_max('2001:db8::/64')",
            "1",
        );
        for bad in [
            "''",
            "'x'",
            "'1.2.3.4/33'",
            "'::/129'",
            "'::/+1'",
            "'::/'",
            "'1.2.3.4/8/8'",
            "5",
            "null",
        ] {
            check(&format!("cidr_key_min({bad})"), "NULL");
            check(&format!("cidr_key_max({bad})"), "NULL");
        }
    }

    #[test]
    fn ranges() {
        check("ip4_between('1.2.3.4', '1.2.3.4', '1.2.3.4')", "1");
        check("ip4_between('1.2.3.4', 16909060, '1.2.3.5')", "1");
        check("ip4_between('1.2.3.4', 16909061, 16909062)", "0");
        check("ip4_between('bad', '0.0.0.0', '255.255.255.255')", "1");
        check("ip4_between('bad', '0.0.0.0', '255.255.255.254')", "0");
        check("ip4_between('1.2.3.4', 'bad', '255.255.255.255')", "0");
        check(
            "ip4_between('255.255.255.255', 'bad', '255.255.255.255')",
            "1",
        );
        check("ip4_between('1.2.3.4', 0, 'bad')", "0");
        check("ip4_between('0.0.0.0', 0, 'bad')", "1");
        check("ip4_between('1.2.3.4', null, 16909062)", "0");
        let error = "error: ip4_between(): argument 1 must be text";
        check("ip4_between(16909060, 0, 16909062)", error);
        check("ip4_between(null, 0, 16909062)", error);
    }

    #[test]
    fn networks_of_both_families() {
        for (ip, net, expected) in [
            ("10.1.2.3", "10.0.0.0/8", "1"),
            ("10.1.2.3", "10.1.2.3/8", "1"),
            ("11.1.2.3", "10.0.0.0/8", "0"),
            ("10.1.2.3", "10.1.2.3", "1"),
            ("10.1.2.3", "0.0.0.0/0", "1"),
            ("2001:db8::5", "2001:db8::/32", "1"),
            ("2001:db9::5", "2001:db8::/32", "0"),
            ("2001:db8::5", "::/0", "1"),
            // The families are separate, and a mapped address is an IPv4 address.
            ("10.1.2.3", "::/0", "0"),
            ("::ffff:10.1.2.3", "::/0", "0"),
            ("10.1.2.3", "::/80", "0"),
            ("255.255.255.255", "::ffff:0:0/81", "0"),
            ("0.0.0.0", "::fffe:0:0/95", "0"),
            ("::fffe:1", "::/80", "1"),
            ("::fffe:ffff:ffff", "::fffe:0:0/95", "1"),
            ("::1:0:0:0", "::/79", "1"),
            ("::ffff:10.1.2.3", "10.0.0.0/8", "1"),
            ("10.1.2.3", "::ffff:10.0.0.0/104", "1"),
            ("10.1.2.3", "::ffff:0:0/96", "1"),
            ("::1", "0.0.0.0/0", "0"),
            ("10.1.2.3/32", "10.0.0.0/8", "NULL"),
            ("10.1.2.3", "10.0.0.0/33", "NULL"),
            ("n/a", "10.0.0.0/8", "NULL"),
            (" 10.1.2.3", "10.0.0.0/8", "NULL"),
        ] {
            check(&format!("cidr_contains('{ip}', '{net}')"), expected);
        }
        check("cidr_contains(null, '10.0.0.0/8')", "NULL");
        check("cidr_contains(7, '10.0.0.0/8')", "NULL");
        for (net, expected) in [
            ("10.0.0.0/8", "8"),
            ("10.0.0.0", "32"),
            ("::ffff:10.0.0.0/104", "8"),
            ("::ffff:0:0/95", "95"),
            ("2001:db8::/32", "32"),
            ("::1", "128"),
            ("0.0.0.0/0", "0"),
            ("x", "NULL"),
        ] {
            check(&format!("cidr_len('{net}')"), expected);
        }
    }

    #[test]
    fn names_paths_and_folded_text() {
        check("host_under('a.Example.com.', 'example.com')", "1");
        check("host_under('a..com', 'com')", "NULL");
        check("host_under('com', null)", "NULL");
        check("path_under('/api/v1?x', '/api/')", "1");
        check("path_under('/apis', '/api')", "0");
        check("path_under('/api', '')", "NULL");
        check("fold(' ZoË ')", "'zoë'");
        check("fold(7)", "'7'");
        check("fold(null)", "NULL");
        check("fold(1.5)", "NULL");
        check("regexp_like('GET /x', '^get')", "0");
        check("regexp_like('GET /x', '(?i)^get')", "1");
        check("regexp_like(null, 'x')", "NULL");
        check(
            &format!("regexp_like('x', '({}')", "é".repeat(100)),
            &format!(
                "error: regexp_like(): `({}…` is not a regular expression: unclosed group",
                "é".repeat(79)
            ),
        );
    }

    #[test]
    fn quotes() {
        check("trim_quotes('  x ')", "'x'");
        check("trim_quotes('\"x\"')", "'x'");
        check("trim_quotes('\"\"x\"\"')", "'\"x\"'");
        check("trim_quotes(' \" x \" ')", "' x '");
        check("trim_quotes('''x''')", "'x'");
        check("trim_quotes('\"x''')", "'\"x'''");
        check("trim_quotes('\"')", "'\"'");
        check(r#"trim_quotes('\"x\"')"#, "'x'");
        check("trim_quotes('')", "''");
        let error = "error: trim_quotes(): argument 1 must be text";
        check("trim_quotes(1)", error);
        check("trim_quotes(null)", error);
    }

    #[test]
    fn keys_sort_as_addresses() {
        check("ip_key('1.2.3.4')", "X'00000000000000000000FFFF01020304'");
        check(
            "ip_key('::ffff:1.2.3.4')",
            "X'00000000000000000000FFFF01020304'",
        );
        check(
            "ip_key('2001:db8::1')",
            "X'20010DB8000000000000000000000001'",
        );
        for bad in [
            "''",
            "'x'",
            "' 1.2.3.4'",
            "'1.2.3.4/8'",
            "'fe80::1%1'",
            "5",
            "null",
            "x'31'",
        ] {
            check(&format!("ip_key({bad})"), "NULL");
        }
        check("ip_key('1.2.3.4') < ip_key('1.2.3.5')", "1");
        check("ip_key('9.0.0.0') < ip_key('10.0.0.0')", "1");
    }

    #[test]
    fn names_and_counts() {
        assert_eq!(Function::from_name("IP4_Int"), Some(Function::Ip4Int));
        assert_eq!(Function::from_name("ip4"), None);
        for function in Function::ALL {
            assert_eq!(
                call(function, &[]),
                Err(FunctionError::ArgumentCount(function))
            );
        }
    }

    #[test]
    fn addresses_parse_as_in_the_standard_library() {
        // Mutations of an address, so that most inputs are nearly right; the seed is fixed.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..200_000 {
            let ip = (next(1 << 16) << 16 | next(1 << 16)) as u32;
            let mut text = Ipv4Addr::from(ip).to_string().into_bytes();
            for _ in 0..next(3) {
                let at = next(text.len());
                text[at] = b"0123456789. /"[next(13)];
            }
            text.truncate(text.len() - next(2));
            let expected = std::str::from_utf8(&text).unwrap().parse::<Ipv4Addr>().ok();
            assert_eq!(parse_ip4(&text).map(Ipv4Addr::from), expected, "{text:?}");
        }
    }
}
