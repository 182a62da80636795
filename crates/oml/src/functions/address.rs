//! Functions on IP addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use lookaside_value::{Decimal, Value};

/// The internal networks, for `intranet_ip` and `access_direct`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intranet {
    nets: Vec<IpNet>,
}

const fn v4(a: u8, b: u8, prefix: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, 0, 0), prefix))
}

const fn v6(first: u16, prefix: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(
        Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0),
        prefix,
    ))
}

/// Private use (RFC 1918), loopback, link-local and shared address space (RFC 6598); for IPv6 the
/// loopback address, unique local and link-local networks.
const DEFAULT_NETS: [IpNet; 9] = [
    v4(10, 0, 8),
    v4(172, 16, 12),
    v4(192, 168, 16),
    v4(127, 0, 8),
    v4(169, 254, 16),
    v4(100, 64, 10),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)),
    v6(0xfc00, 7),
    v6(0xfe80, 10),
];

impl Default for Intranet {
    /// The networks that are not publicly routed.
    fn default() -> Self {
        Self {
            nets: DEFAULT_NETS.to_vec(),
        }
    }
}

impl Intranet {
    /// These networks only.
    pub fn replace(nets: impl IntoIterator<Item = IpNet>) -> Self {
        Self {
            nets: nets.into_iter().collect(),
        }
    }

    /// These networks in addition to the default ones.
    pub fn add(nets: impl IntoIterator<Item = IpNet>) -> Self {
        let mut intranet = Self::default();
        intranet.nets.extend(nets);
        intranet
    }

    /// Whether an address is internal; an IPv4-mapped IPv6 address counts as the IPv4 address.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.nets.iter().any(|net| net.contains(&ip))
    }
}

fn address(value: &Value) -> Option<IpAddr> {
    match value {
        Value::Ip(ip) => Some(*ip),
        Value::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// An IPv4 address as an integer; absent for any other address or for text that is not an address;
/// other types are unchanged.
pub(crate) fn ip4_to_int(value: Value) -> Option<Value> {
    match value {
        Value::Ip(_) | Value::Text(_) => match address(&value)? {
            IpAddr::V4(ip) => Some(Value::from(u32::from(ip))),
            IpAddr::V6(_) => None,
        },
        other => Some(other),
    }
}

/// An address as an exact number; ignored if the value is not an address.
pub(crate) fn ip_to_biguint(value: &Value) -> Value {
    match address(value) {
        Some(IpAddr::V4(ip)) => Value::Decimal(Decimal::from(u128::from(u32::from(ip)))),
        Some(IpAddr::V6(ip)) => Value::Decimal(Decimal::from(u128::from(ip))),
        None => Value::Ignore,
    }
}

/// `LAN` or `WAN`; ignored if the value is not an address.
pub(crate) fn intranet_ip(value: &Value, intranet: &Intranet) -> Value {
    match address(value) {
        Some(ip) if intranet.contains(ip) => Value::from("LAN"),
        Some(_) => Value::from("WAN"),
        None => Value::Ignore,
    }
}

/// `L2L`, `L2W`, `W2L` or `W2W`; ignored if one of the two is not an address.
pub(crate) fn access_direct(
    source: Option<&Value>,
    target: Option<&Value>,
    intranet: &Intranet,
) -> Value {
    let inside = |value: Option<&Value>| value.and_then(address).map(|ip| intranet.contains(ip));
    match (inside(source), inside(target)) {
        (Some(true), Some(true)) => Value::from("L2L"),
        (Some(true), Some(false)) => Value::from("L2W"),
        (Some(false), Some(true)) => Value::from("W2L"),
        (Some(false), Some(false)) => Value::from("W2W"),
        _ => Value::Ignore,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Value {
        Value::Ip(text.parse().unwrap())
    }

    #[test]
    fn numbers() {
        assert_eq!(ip4_to_int(ip("10.0.0.1")), Some(Value::Int(167_772_161)));
        assert_eq!(
            ip4_to_int(Value::from(" 255.255.255.255 ")),
            Some(Value::Int(4_294_967_295))
        );
        for dropped in [
            ip("::1"),
            Value::from("::1"),
            Value::from("x"),
            Value::from(""),
        ] {
            assert_eq!(ip4_to_int(dropped.clone()), None, "{dropped:?}");
        }
        assert_eq!(ip4_to_int(Value::Int(5)), Some(Value::Int(5)));
        assert_eq!(ip4_to_int(Value::Ignore), Some(Value::Ignore));
        let decimal = |text: &str| Value::Decimal(text.parse().unwrap());
        assert_eq!(ip_to_biguint(&ip("10.0.0.1")), decimal("167772161"));
        let all = "340282366920938463463374607431768211455";
        let top = Value::from("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        assert_eq!(ip_to_biguint(&top), decimal(all));
        assert_eq!(ip_to_biguint(&Value::from("10.0.0.256")), Value::Ignore);
        assert_eq!(ip_to_biguint(&Value::Int(1)), Value::Ignore);
    }

    #[test]
    fn inside_and_outside() {
        let intranet = Intranet::default();
        for (text, inside) in [
            ("10.255.0.1", true),
            ("11.0.0.0", false),
            ("172.31.255.255", true),
            ("172.32.0.0", false),
            ("192.168.0.1", true),
            ("127.0.0.1", true),
            ("169.254.9.9", true),
            ("100.127.0.1", true),
            ("100.128.0.1", false),
            ("8.8.8.8", false),
            ("::1", true),
            ("fd00::1", true),
            ("fe80::1", true),
            ("2001:db8::1", false),
            ("::ffff:10.0.0.1", true),
        ] {
            let expected = Value::from(if inside { "LAN" } else { "WAN" });
            assert_eq!(intranet_ip(&ip(text), &intranet), expected, "{text}");
        }
        assert_eq!(
            intranet_ip(&Value::from("nowhere"), &intranet),
            Value::Ignore
        );
        let lab: IpNet = "203.0.113.0/24".parse().unwrap();
        assert!(Intranet::add([lab]).contains("10.0.0.1".parse().unwrap()));
        assert!(!Intranet::replace([lab]).contains("10.0.0.1".parse().unwrap()));
        assert!(Intranet::replace([lab]).contains("203.0.113.9".parse().unwrap()));
    }

    #[test]
    fn directions() {
        let intranet = Intranet::default();
        let (lan, wan, bad) = (ip("10.0.0.5"), Value::from("8.8.8.8"), Value::from("x"));
        for (source, target, expected) in [
            (Some(&lan), Some(&lan), Value::from("L2L")),
            (Some(&lan), Some(&wan), Value::from("L2W")),
            (Some(&wan), Some(&lan), Value::from("W2L")),
            (Some(&wan), Some(&wan), Value::from("W2W")),
            (Some(&lan), Some(&bad), Value::Ignore),
            (None, Some(&wan), Value::Ignore),
        ] {
            assert_eq!(access_direct(source, target, &intranet), expected);
        }
    }
}
