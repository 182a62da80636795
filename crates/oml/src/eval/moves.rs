//! Move statements: fields that move to the result with their names.

use lookaside_value::{Name, Record};

use crate::eval::context::World;
use crate::eval::plan::Pick;

/// The names of the current record, for a test without searching it.
#[derive(Debug, Default)]
pub(crate) struct NameSet {
    /// For each name, the number of the record that had it last; an old number means that the name
    /// is not in the set.
    stamps: Vec<u32>,
    stamp: u32,
}

impl NameSet {
    /// Empties the set and makes room for names with an index below `name_count`.
    fn reset(&mut self, name_count: usize) {
        if self.stamps.len() < name_count {
            self.stamps.resize(name_count, 0);
        }
        self.stamp = match self.stamp.checked_add(1) {
            Some(stamp) => stamp,
            None => {
                self.stamps.fill(0);
                1
            }
        };
    }

    /// Adds a name and returns whether it is new.
    #[inline]
    fn insert(&mut self, name: Name) -> bool {
        let stamp = &mut self.stamps[name.index()];
        let new = *stamp != self.stamp;
        *stamp = self.stamp;
        new
    }
}

impl Pick {
    /// Moves the selected fields of one record, except those whose names the result already has, and
    /// the metadata of messages: a result gets only what the model sets.
    pub(crate) fn run(
        &self,
        source: &mut Record,
        result: &mut Record,
        world: &mut World<'_>,
        known: &mut NameSet,
    ) {
        if matches!(self, Self::Nothing) {
            return;
        }
        known.reset(world.names.len());
        for field in result.iter() {
            known.insert(field.name);
        }
        source.move_fields(result, |field| {
            let picked = match self {
                Self::All => true,
                Self::Named(pattern) => world.matches(pattern, field.name),
                Self::Typed(value_type) => field.value.type_of() == *value_type,
                Self::Nothing => false,
            };
            picked && !world.is_metadata(field.name) && known.insert(field.name)
        });
    }
}

#[cfg(test)]
mod tests {
    use lookaside_value::NameTable;

    use super::*;

    #[test]
    fn a_set_forgets_also_when_its_stamps_run_out() {
        let mut table = NameTable::new();
        let [a, b] = ["a", "b"].map(|name| table.intern(name));
        let mut set = NameSet::default();
        for start in [0, u32::MAX - 1, u32::MAX] {
            set.stamp = start;
            set.reset(table.len());
            assert!(set.insert(a));
            assert!(!set.insert(a));
            set.reset(table.len());
            assert!(set.insert(a) && set.insert(b), "after {start}");
        }
    }
}
