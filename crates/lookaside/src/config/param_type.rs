//! The types that a file can declare for a parameter.

use std::net::{Ipv4Addr, Ipv6Addr};

use lookaside_knowledge::{Text, Type, Value};
use lookaside_value::parse_ipv4;

/// What a parameter must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamType {
    Text,
    Int,
    Float,
    Bool,
    Decimal,
    Uuid,
    Ip,
    Ipv4,
    Ipv6,
    Net,
    Time,
    /// Not declared: text from a URL, any type from JSON.
    Any,
}

impl ParamType {
    /// The types that a file can declare.
    pub(crate) const ALL: [Self; 11] = [
        Self::Text,
        Self::Int,
        Self::Float,
        Self::Bool,
        Self::Decimal,
        Self::Uuid,
        Self::Ip,
        Self::Ipv4,
        Self::Ipv6,
        Self::Net,
        Self::Time,
    ];

    /// Its name in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Int => "int",
            Self::Float => "float",
            Self::Bool => "bool",
            Self::Decimal => "decimal",
            Self::Uuid => "uuid",
            Self::Ip => "ip",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Net => "net",
            Self::Time => "time",
            Self::Any => "any",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// What a value must be, for messages that begin with the parameter's name.
    pub(crate) fn wanted(self) -> &'static str {
        match self {
            Self::Text => "must be text",
            Self::Int => "must be a whole number within 64 bits",
            Self::Float => "must be a number within the range of 64-bit floats",
            Self::Bool => "must be true or false",
            Self::Decimal => "must be a decimal number such as 12.50, in JSON as a string",
            Self::Uuid => "must be a UUID such as 67e55044-10b1-426f-9247-bb680e5fe0c8",
            Self::Ip => "must be an IP address such as 192.0.2.1 or 2001:db8::1",
            Self::Ipv4 => "must be an IPv4 address such as 192.0.2.1",
            Self::Ipv6 => "must be an IPv6 address such as 2001:db8::1",
            Self::Net => "must be a network such as 192.0.2.0/24",
            Self::Time => "must be a time such as 2026-01-31T08:00:00Z",
            Self::Any => {
                "must be a string, a number, true, false or null; write a number beyond 64 bits as \
                 a \
                 string"
            }
        }
    }

    /// Parses a text as a value of this type.
    #[inline]
    pub(crate) fn parse(self, text: &str) -> Option<Value> {
        let to = match self {
            Self::Text | Self::Any => return Some(Value::Text(Text::from(text))),
            Self::Ipv4 => {
                return parse_ipv4(text.as_bytes()).map(|ip: Ipv4Addr| Value::Ip(ip.into()));
            }
            Self::Ipv6 => {
                let ip: Option<Ipv6Addr> = text.parse().ok();
                return ip.map(|ip| Value::Ip(ip.into()));
            }
            Self::Int => Type::Int,
            Self::Float => Type::Float,
            Self::Bool => Type::Bool,
            Self::Decimal => Type::Decimal,
            Self::Uuid => Type::Uuid,
            Self::Ip => Type::Ip,
            Self::Net => Type::Net,
            Self::Time => Type::Time,
        };
        Value::Text(Text::from(text)).convert(to).ok()
    }
}
