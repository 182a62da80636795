//! The wall clock of a run.

use jiff::civil::DateTime;

/// The wall clock, read at most once per batch, so that all its records have the same time.
pub(crate) struct Clock<'w> {
    read: &'w (dyn Fn() -> DateTime + Send + Sync),
    now: Option<DateTime>,
}

impl<'w> Clock<'w> {
    pub(crate) fn new(read: &'w (dyn Fn() -> DateTime + Send + Sync)) -> Self {
        Self { read, now: None }
    }

    pub(crate) fn now(&mut self) -> DateTime {
        *self.now.get_or_insert_with(self.read)
    }
}
