//! Named members, sorted by name.

use std::collections::BTreeMap;
use std::collections::btree_map;

use super::Value;
use crate::Text;

/// The number of members that a node of the standard library's B-tree has space for.
const NODE_MEMBER_COUNT: usize = 11;

/// A leaf node: the members, the pointer to the parent, a position and a count. An inner node also
/// has pointers to its children.
const LEAF_SIZE: usize =
    NODE_MEMBER_COUNT * (size_of::<Text>() + size_of::<Value>()) + 2 * size_of::<usize>();
const INNER_SIZE: usize = LEAF_SIZE + (NODE_MEMBER_COUNT + 1) * size_of::<usize>();

/// The average number of members per leaf of a tree with several, including the member in the
/// parent that separates it from the next leaf: 7 if members were inserted in order, 12 if they
/// were collected.
const MEMBERS_PER_NODE: usize = 9;

fn nodes_size(member_count: usize) -> usize {
    match member_count {
        0 => return 0,
        1..=NODE_MEMBER_COUNT => return LEAF_SIZE,
        _ => {}
    }
    let mut node_count = member_count.div_ceil(MEMBERS_PER_NODE);
    let mut size = node_count * LEAF_SIZE;
    while node_count > 1 {
        node_count = node_count.div_ceil(MEMBERS_PER_NODE);
        size += node_count * INNER_SIZE;
    }
    size
}

/// Named members sorted by name, as JSON objects and OML's `object` make them.
///
/// Of two members with the same name, the later is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Object(BTreeMap<Text, Value>);

impl Object {
    /// An object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a member and returns its previous value.
    pub fn insert(&mut self, name: Text, value: Value) -> Option<Value> {
        self.0.insert(name, value)
    }

    /// The member with this name.
    pub fn member(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes on the heap of the members and the nodes that hold them, see [`Value::heap_size`].
    pub(crate) fn heap_size(&self) -> usize {
        let members = self.0.iter();
        let own: usize = members
            .map(|(name, value)| name.heap_size() + value.heap_size())
            .sum();
        nodes_size(self.0.len()) + own
    }

    /// The members in the order of their names.
    pub fn iter(&self) -> btree_map::Iter<'_, Text, Value> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Object {
    type Item = (&'a Text, &'a Value);
    type IntoIter = btree_map::Iter<'a, Text, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<(Text, Value)> for Object {
    fn from_iter<I: IntoIterator<Item = (Text, Value)>>(members: I) -> Self {
        Self(members.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use allocation_counter::measure;

    use super::*;

    /// Checks that the computed heap size matches what the allocator provided, within bounds.
    #[track_caller]
    fn check(what: &str, make: impl FnOnce() -> Value) {
        let mut value = Value::Null;
        let kept = measure(|| value = black_box(make())).bytes_current as f64;
        let counted = value.heap_size() as f64;
        assert!(
            (0.8..=1.5).contains(&(counted / kept)),
            "{what}: {counted} bytes counted, {kept} allocated"
        );
    }

    fn members(count: usize, value: impl Fn() -> Value) -> impl Iterator<Item = (Text, Value)> {
        (0..count).map(move |index| (Text::from(format!("{index:03}")), value()))
    }

    fn inserted(members: impl Iterator<Item = (Text, Value)>) -> Value {
        let mut object = Object::new();
        for (name, value) in members {
            object.insert(name, value);
        }
        Value::from(object)
    }

    fn collected(members: impl Iterator<Item = (Text, Value)>) -> Value {
        Value::from(members.collect::<Object>())
    }

    #[test]
    fn issue_12_the_size_of_an_object_is_that_of_its_nodes() {
        for count in [0, 1, 2, 5, 11, 12, 50, 200] {
            let int = || Value::Int(7);
            check(&format!("{count} inserted"), || {
                inserted(members(count, int))
            });
            check(&format!("{count} collected"), || {
                collected(members(count, int))
            });
            let text = || Value::from("a text that is longer than its place");
            check(&format!("{count} texts"), || inserted(members(count, text)));
            let object = || inserted(members(2, text));
            check(&format!("{count} objects"), || {
                inserted(members(count, object))
            });
            let long = || {
                let name = Text::from(format!("{}{count}", "a long name ".repeat(3)));
                collected([(name, int())].into_iter())
            };
            check(&format!("{count} objects in an array"), || {
                let objects: Vec<Value> = (0..=count).map(|_| long()).collect();
                Value::from(objects)
            });
        }
    }

    #[test]
    fn issue_12_the_size_of_other_values_is_that_of_their_allocation() {
        for size in [0, 1, 24, 100, 5000] {
            check("bytes", || Value::from(vec![7_u8; size]));
            check("text", || Value::from("x".repeat(size + 24)));
            check("symbol", || Value::Symbol("x".repeat(size).into()));
            check("decimal", || {
                Value::Decimal("9".repeat(size + 1).parse().unwrap())
            });
            check("array", || Value::from(vec![Value::Int(7); size]));
        }
    }
}
