//! `cidr_contains` and `cidr_len`: networks of both families.
//!
//! An IPv4-mapped IPv6 address is an IPv4 address, and `::ffff:10.0.0.0/104` is `10.0.0.0/8`. A
//! network contains only addresses of its family, so `::/0` contains no IPv4 address.

use std::net::{IpAddr, Ipv4Addr};

/// The first 96 bits of IPv4 addresses in [`key_of_ip`].
const MAPPED: u128 = 0xffff << 32;

/// The last key of an IPv4 address.
const MAPPED_LAST: u128 = MAPPED | u32::MAX as u128;

/// The addresses of a network, as keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) first: u128,
    pub(crate) last: u128,
    /// The length of the prefix: up to 32 for IPv4, up to 128 for IPv6.
    pub(crate) prefix_len: u8,
}

impl Network {
    /// Parses an address with or without a prefix length; bits after the prefix are ignored.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let key = key_of(address)?;
        let bits = if address.contains(':') { 128 } else { 32 };
        let host_bits = match prefix {
            None => 0,
            Some(prefix) => {
                let is_number = matches!(prefix.len(), 1..=3)
                    && prefix.bytes().all(|byte| byte.is_ascii_digit());
                if !is_number {
                    return None;
                }
                u32::checked_sub(bits, prefix.parse().ok()?)?
            }
        };
        let host_mask = u128::MAX.checked_shr(128 - host_bits).unwrap_or(0);
        let is_ip4 = is_mapped(key) && host_bits <= 32;
        let prefix_len = if is_ip4 { 32 } else { 128 } - host_bits;
        Some(Self {
            first: key & !host_mask,
            last: key | host_mask,
            prefix_len: prefix_len as u8,
        })
    }

    /// Whether the network contains an address.
    pub(crate) fn contains(&self, key: u128) -> bool {
        self.ranges()
            .into_iter()
            .flatten()
            .any(|(first, last)| first <= key && key <= last)
    }

    /// The ranges of keys that the network contains: those of an IPv6 network leave out the keys of
    /// IPv4 addresses.
    pub(crate) fn ranges(&self) -> [Option<(u128, u128)>; 2] {
        let is_ip4 = self.first >= MAPPED && self.last <= MAPPED_LAST;
        let is_around = self.first <= MAPPED && self.last >= MAPPED_LAST;
        match is_around && !is_ip4 {
            true => [
                (self.first < MAPPED).then_some((self.first, MAPPED - 1)),
                (self.last > MAPPED_LAST).then_some((MAPPED_LAST + 1, self.last)),
            ],
            false => [Some((self.first, self.last)), None],
        }
    }
}

fn is_mapped(key: u128) -> bool {
    (MAPPED..=MAPPED_LAST).contains(&key)
}

/// The key of an address in text, IPv4 as `::ffff:a.b.c.d`.
pub(crate) fn key_of(text: &str) -> Option<u128> {
    match lookaside_value::parse_ipv4(text.as_bytes()) {
        Some(ip) => Some(key_of_ip4(ip)),
        None => text.parse().ok().map(key_of_ip),
    }
}

/// The key of an address.
pub(crate) fn key_of_ip(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => key_of_ip4(ip),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

fn key_of_ip4(ip: Ipv4Addr) -> u128 {
    MAPPED | u128::from(ip.to_bits())
}
