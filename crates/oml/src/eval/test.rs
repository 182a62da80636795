//! Evaluating a test of a record.

use crate::eval::context::Context;
use crate::eval::plan::Test;

impl Test {
    /// Whether the test holds. A field that is absent fulfils no condition.
    pub(crate) fn holds(&self, context: &mut Context<'_, '_>) -> bool {
        match self {
            Self::Field(source, any) if source.borrows => {
                let value = source.borrow(context);
                value.is_some_and(|value| any.iter().any(|predicate| predicate.holds(value)))
            }
            Self::Field(source, any) => {
                let value = source.eval(context);
                value.is_some_and(|value| any.iter().any(|predicate| predicate.holds(&value)))
            }
            Self::All(tests) => tests.iter().all(|test| test.holds(context)),
            Self::Any(tests) => tests.iter().any(|test| test.holds(context)),
            Self::Not(test) => !test.holds(context),
        }
    }
}
