//! Named members, sorted by name.

use std::collections::BTreeMap;
use std::collections::btree_map;

use crate::{Text, Value};

/// Named members sorted by name, as JSON objects and OML's `object` make them.
///
/// Of two members with one name the later stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Object(BTreeMap<Text, Value>);

impl Object {
    /// An object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a member and returns the value that it had.
    pub fn insert(&mut self, name: Text, value: Value) -> Option<Value> {
        self.0.insert(name, value)
    }

    /// The member of that name.
    pub fn member(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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
