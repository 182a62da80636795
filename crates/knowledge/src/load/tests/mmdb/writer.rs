//! A writer of MaxMind databases for tests: it also writes what no other writer would.

use std::collections::BTreeMap;

/// A value of a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    Text(&'static str),
    Double(f64),
    Bytes(&'static [u8]),
    Uint16(u16),
    Uint32(u32),
    Int32(i32),
    Uint64(u64),
    Uint128(u128),
    Bool(bool),
    Float(f32),
    Array(Vec<Item>),
    Map(Vec<(&'static str, Item)>),
}

impl Item {
    fn write(&self, out: &mut Vec<u8>) {
        let int = |out: &mut Vec<u8>, kind, bytes: &[u8]| {
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            head(out, kind, bytes.len() - zeros);
            out.extend(&bytes[zeros..]);
        };
        match self {
            Self::Text(text) => {
                head(out, 2, text.len());
                out.extend(text.bytes());
            }
            Self::Double(real) => {
                head(out, 3, 8);
                out.extend(real.to_be_bytes());
            }
            Self::Bytes(bytes) => {
                head(out, 4, bytes.len());
                out.extend(*bytes);
            }
            Self::Uint16(value) => int(out, 5, &value.to_be_bytes()),
            Self::Uint32(value) => int(out, 6, &value.to_be_bytes()),
            Self::Int32(value) => {
                head(out, 8, 4);
                out.extend(value.to_be_bytes());
            }
            Self::Uint64(value) => int(out, 9, &value.to_be_bytes()),
            Self::Uint128(value) => int(out, 10, &value.to_be_bytes()),
            Self::Bool(bool) => head(out, 14, (*bool).into()),
            Self::Float(real) => {
                head(out, 15, 4);
                out.extend(real.to_be_bytes());
            }
            Self::Array(items) => {
                head(out, 11, items.len());
                items.iter().for_each(|item| item.write(out));
            }
            Self::Map(members) => {
                head(out, 7, members.len());
                for (key, value) in members {
                    head(out, 2, key.len());
                    out.extend(key.bytes());
                    value.write(out);
                }
            }
        }
    }
}

/// The control bytes of a value of up to 65,820 bytes or items.
fn head(out: &mut Vec<u8>, kind: u8, size: usize) {
    let (bits, more) = match size {
        0..=28 => (size as u8, vec![]),
        29..=284 => (29, vec![(size - 29) as u8]),
        _ => (30, ((size - 285) as u16).to_be_bytes().to_vec()),
    };
    match kind {
        1..=7 => out.push(kind << 5 | bits),
        _ => out.extend([bits, kind - 7]),
    }
    out.extend(more);
}

/// A database: what its records are, and nodes whose records refer to nodes and data.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) ip_version: u16,
    pub(super) record_size: u16,
    pub(super) nodes: Vec<[Target; 2]>,
    data: Vec<u8>,
    /// The places of the records that were written, by their bytes.
    places: BTreeMap<Vec<u8>, usize>,
}

/// What a record of a node refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Nothing,
    Node(usize),
    Data(usize),
}

impl Writer {
    pub(super) fn new(ip_version: u16, record_size: u16) -> Self {
        Self {
            ip_version,
            record_size,
            nodes: vec![[Target::Nothing; 2]],
            data: Vec::new(),
            places: BTreeMap::new(),
        }
    }

    /// Writes a record, once for equal ones.
    pub(super) fn record(&mut self, item: &Item) -> Target {
        let mut bytes = Vec::new();
        item.write(&mut bytes);
        let place = *self.places.entry(bytes).or_insert_with_key(|bytes| {
            let place = self.data.len();
            self.data.extend(bytes);
            place
        });
        Target::Data(place)
    }

    /// Makes a network refer to a target; `address` has the bits of an address of the tree.
    pub(super) fn insert(&mut self, address: u128, length: u32, target: Target) {
        let bit_count = if self.ip_version == 4 { 32 } else { 128 };
        let (mut node, mut depth) = (0, 0);
        loop {
            let side = (address >> (bit_count - 1 - depth) & 1) as usize;
            depth += 1;
            if depth == length {
                self.nodes[node][side] = target;
                return;
            }
            node = match self.nodes[node][side] {
                Target::Node(next) => next,
                leaf => {
                    self.nodes.push([leaf; 2]);
                    let next = self.nodes.len() - 1;
                    self.nodes[node][side] = Target::Node(next);
                    next
                }
            };
        }
    }

    /// Inserts `a.b.c.d/length` or an IPv6 network, IPv4 into an IPv6 tree at its place in `::/96`.
    pub(super) fn network(&mut self, network: &str, item: &Item) {
        let target = self.record(item);
        let (address, length) = network.split_once('/').unwrap();
        let length: u32 = length.parse().unwrap();
        match address.parse().unwrap() {
            std::net::IpAddr::V4(ip) => {
                let before = if self.ip_version == 4 { 0 } else { 96 };
                self.insert(ip.to_bits().into(), before + length, target);
            }
            std::net::IpAddr::V6(ip) => self.insert(ip.to_bits(), length, target),
        }
    }

    /// Makes a network refer to the IPv4 subtree, as writers do for `2002::/16`; returns whether there
    /// is one.
    pub(super) fn alias(&mut self, address: u128, length: u32) -> bool {
        let mut target = Target::Node(0);
        for _ in 0..96 {
            let Target::Node(node) = target else { break };
            target = self.nodes[node][0];
        }
        let is_node = matches!(target, Target::Node(_));
        if is_node {
            self.insert(address, length, target);
        }
        is_node
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let count = self.nodes.len();
        for [left, right] in &self.nodes {
            let number = |target: &Target| match target {
                Target::Nothing => count as u32,
                Target::Node(node) => *node as u32,
                Target::Data(place) => (count + 16 + place) as u32,
            };
            let (left, right) = (number(left).to_be_bytes(), number(right).to_be_bytes());
            match self.record_size {
                24 => {
                    out.extend(&left[1..]);
                    out.extend(&right[1..]);
                }
                28 => {
                    out.extend(&left[1..]);
                    out.push(left[0] << 4 | right[0]);
                    out.extend(&right[1..]);
                }
                _ => out.extend(left.iter().chain(&right)),
            }
        }
        out.extend([0; 16]);
        out.extend(&self.data);
        out.extend(b"\xab\xcd\xefMaxMind.com");
        Item::Map(vec![
            ("binary_format_major_version", Item::Uint16(2)),
            ("binary_format_minor_version", Item::Uint16(0)),
            ("build_epoch", Item::Uint64(1_700_000_000)),
            ("database_type", Item::Text("Test")),
            ("description", Item::Map(vec![])),
            ("ip_version", Item::Uint16(self.ip_version)),
            ("languages", Item::Array(vec![])),
            ("node_count", Item::Uint32(count as u32)),
            ("record_size", Item::Uint16(self.record_size)),
        ])
        .write(&mut out);
        out
    }
}
