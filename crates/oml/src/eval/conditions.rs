//! Conditions that are bound to names, and run over the results of models.

use std::sync::Arc;

use lookaside_value::{Batch, NameTable, Record};

use crate::Condition;
use crate::eval::Options;
use crate::eval::bind::bind_test;
use crate::eval::context::{Context, World};
use crate::eval::plan::Test;
use crate::functions::Clock;

/// Bound conditions in their order, shared by all workers; a clone is one increment of a reference
/// counter.
#[derive(Clone, Debug)]
pub struct Conditions(Arc<(Box<[Test]>, Options)>);

impl Conditions {
    /// Binds conditions to a table of names.
    pub fn bind<'c>(
        conditions: impl IntoIterator<Item = &'c Condition>,
        names: &mut NameTable,
        options: &Options,
    ) -> Self {
        let conditions = conditions.into_iter();
        let tests = conditions.map(|condition| bind_test(condition.test(), names, options));
        Self(Arc::new((tests.collect(), options.clone())))
    }

    /// Replaces `found` by the index of the first condition that holds, for each record of a batch.
    ///
    /// The batch's names must start from the table that the conditions were bound with, or from one
    /// that was made from it by adding names.
    pub fn first_of_each(&self, batch: &Batch, found: &mut Vec<Option<usize>>) {
        let (tests, options) = &*self.0;
        let mut text = String::new();
        let mut world = World {
            names: batch.names(),
            intranet: &options.intranet,
            clock: Clock::new(&*options.clock),
            memos: &mut [],
            metadata: None,
            text: &mut text,
            time_failure_count: 0,
        };
        let mut source = Record::new();
        found.clear();
        found.extend(batch.records().iter().map(|result| {
            let mut context = Context {
                source: &mut source,
                result,
                world: &mut world,
            };
            tests.iter().position(|test| test.holds(&mut context))
        }));
    }
}
