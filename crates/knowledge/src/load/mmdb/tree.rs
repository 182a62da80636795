//! The search tree of a MaxMind database: its leaves as ranges of addresses.
//!
//! The tree is walked here rather than by `maxminddb`, because a damaged one may have circles and
//! subtrees that are reached many times, and because aliases of the IPv4 subtree are recognized by
//! their node. Format: <https://maxmind.github.io/MaxMind-DB/>, "Binary Search Tree Section".

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// How many times as many nodes may be visited as the file has. A writer may share equal subtrees,
/// but in a file of this ratio they would form a circle, or make an endless number of networks.
const VISITS_PER_NODE_MAX: u64 = 16;

/// The number of bits in front of an IPv4 address, in an IPv6 tree.
const IPV4_DEPTH: u8 = 96;

/// The addresses `::a.b.c.d`, where IPv6 trees have IPv4 networks.
const COMPATIBLE: RangeInclusive<u128> = 0..=0xffff_ffff;

/// The addresses `::ffff:a.b.c.d`, which are the keys of IPv4 addresses.
const MAPPED: RangeInclusive<u128> = 0xffff_0000_0000..=0xffff_ffff_ffff;

/// A network that has a record, as a range of [keys](crate::functions::ip_key_of_ip).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) keys: RangeInclusive<u128>,
    /// The first address and the length of the network in the tree.
    pub(super) address: u128,
    pub(super) depth: u8,
    /// Where its record is.
    pub(super) pointer: u32,
    ip_version: IpVersion,
}

/// The addresses that a tree is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IpVersion {
    V4,
    /// IPv6, with IPv4 in a subtree.
    V6,
}

/// A walk over all leaves of a tree, in the order of their addresses.
pub(super) struct Walk {
    node_count: u32,
    /// The bits of one of the two records of a node.
    record_size: u16,
    ip_version: IpVersion,
    /// The root of the IPv4 networks in an IPv6 tree, if it is a node.
    ipv4_root: Option<u32>,
    /// The records still to visit, with the address and number of bits that lead to each.
    stack: Vec<(u32, u128, u8)>,
    visit_count: u64,
    /// The second of two ranges of a leaf.
    ahead: Option<Leaf>,
}

/// Why a tree cannot be walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// A node refers to itself, directly or through others.
    Circle,
    /// There are nodes below the last bit of an address.
    TooDeep,
    /// Nodes are reached more often than [`VISITS_PER_NODE_MAX`] allows.
    Shared,
}

impl Damage {
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Circle => "its search tree has a circle",
            Self::TooDeep => "its search tree is deeper than an address is long",
            Self::Shared => "its search tree reaches the same nodes too often",
        }
    }
}

impl Walk {
    /// Begins a walk over the tree at the beginning of `bytes`, which must have room for all nodes.
    pub(super) fn new(
        bytes: &[u8],
        node_count: u32,
        record_size: u16,
        ip_version: IpVersion,
    ) -> Result<Self, Damage> {
        let mut walk = Self {
            node_count,
            record_size,
            ip_version,
            ipv4_root: None,
            stack: vec![(0, 0, 0)],
            visit_count: 0,
            ahead: None,
        };
        if ip_version == IpVersion::V6 {
            walk.ipv4_root = walk.find_ipv4_root(bytes)?;
        }
        Ok(walk)
    }

    /// How much of the tree was visited, from 0 to 1.
    pub(super) fn progress(&self) -> f64 {
        (self.visit_count as f64 / f64::from(self.node_count.max(1))).min(1.0)
    }

    fn find_ipv4_root(&self, bytes: &[u8]) -> Result<Option<u32>, Damage> {
        let mut path = Vec::with_capacity(usize::from(IPV4_DEPTH));
        let mut record = 0;
        while path.len() < usize::from(IPV4_DEPTH) {
            if record >= self.node_count {
                return Ok(None);
            }
            path.push(record);
            record = self.records(bytes, record)[0];
        }
        match path.contains(&record) {
            true => Err(Damage::Circle),
            false => Ok((record < self.node_count).then_some(record)),
        }
    }

    /// The next leaf that has a record.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<Option<Leaf>, Damage> {
        if let Some(leaf) = self.ahead.take() {
            return Ok(Some(leaf));
        }
        let bit_count = self.ip_version.bit_count();
        while let Some((record, address, depth)) = self.stack.pop() {
            if record < self.node_count {
                if self.is_alias(record, address, depth) {
                    continue;
                }
                if depth == bit_count {
                    return Err(Damage::TooDeep);
                }
                self.visit_count += 1;
                if self.visit_count > VISITS_PER_NODE_MAX * u64::from(self.node_count) {
                    return Err(Damage::Shared);
                }
                let [left, right] = self.records(bytes, record);
                let bit = 1 << (bit_count - depth - 1);
                self.stack.push((right, address | bit, depth + 1));
                self.stack.push((left, address, depth + 1));
            } else if record > self.node_count
                && let Some(leaf) = self.leaf(record, address, depth)
            {
                return Ok(Some(leaf));
            }
        }
        Ok(None)
    }

    /// Whether a node is the IPv4 subtree at another place than its own, as `2002::/16` and
    /// `::ffff:0:0/96` are.
    fn is_alias(&self, node: u32, address: u128, depth: u8) -> bool {
        Some(node) == self.ipv4_root && (address, depth) != (0, IPV4_DEPTH)
    }

    /// The two records of a node.
    fn records(&self, bytes: &[u8], node: u32) -> [u32; 2] {
        let size = usize::from(self.record_size) / 4;
        let node = &bytes[node as usize * size..][..size];
        let int = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |int, &byte| int << 8 | u32::from(byte))
        };
        match node {
            // Four bits of the middle byte belong to each of the two records of 28 bits.
            [left @ .., middle, _, _, _] if self.record_size == 28 => [
                u32::from(middle >> 4) << 24 | int(left),
                u32::from(middle & 15) << 24 | int(&node[4..]),
            ],
            node => [int(&node[..size / 2]), int(&node[size / 2..])],
        }
    }

    /// The ranges of keys of a network with a record; the second of two is kept.
    fn leaf(&mut self, pointer: u32, address: u128, depth: u8) -> Option<Leaf> {
        let leaf = |keys| Leaf {
            keys,
            address,
            depth,
            pointer,
            ip_version: self.ip_version,
        };
        let size_minus_1 = u128::MAX
            .checked_shr(u32::from(depth) + 128 - u32::from(self.ip_version.bit_count()))
            .unwrap_or(0);
        let last = address + size_minus_1;
        let of_ipv4 = |address: u128| MAPPED.start() + address;
        if last <= *COMPATIBLE.end() {
            // An IPv4 network, in a tree of either kind.
            return Some(leaf(of_ipv4(address)..=of_ipv4(last)));
        }
        if address == 0 && last < *MAPPED.start() {
            // It includes all IPv4 addresses, but not their keys.
            self.ahead = Some(leaf(COMPATIBLE.end() + 1..=last));
            return Some(leaf(MAPPED));
        }
        if address > 0 && last >= *MAPPED.start() && address <= *MAPPED.end() {
            // The keys belong to the IPv4 networks of the tree.
            let before = address..=MAPPED.start() - 1;
            return (!before.is_empty()).then(|| leaf(before));
        }
        Some(leaf(address..=last))
    }
}

impl IpVersion {
    fn bit_count(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

impl Leaf {
    /// Its first address in the tree.
    pub(super) fn ip(&self) -> IpAddr {
        match self.ip_version {
            IpVersion::V4 => Ipv4Addr::from_bits(self.address as u32).into(),
            IpVersion::V6 => Ipv6Addr::from_bits(self.address).into(),
        }
    }

    /// The network as text.
    pub(super) fn network(&self) -> String {
        let depth = self.depth;
        if self.keys.end() <= MAPPED.end() && self.keys.start() >= MAPPED.start() {
            let address = Ipv4Addr::from_bits(self.address as u32);
            let length = match self.ip_version {
                IpVersion::V4 => depth,
                IpVersion::V6 => depth.saturating_sub(IPV4_DEPTH),
            };
            format!("{address}/{length}")
        } else {
            format!("{}/{depth}", Ipv6Addr::from_bits(self.address))
        }
    }
}
