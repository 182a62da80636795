//! Warnings of a run.

use std::fmt;
use std::sync::Arc;

/// A callback for what a run warns about, as one line; by default, warnings are dropped.
///
/// ```
/// use lookaside_stream::{RunOptions, WarningCallback};
///
/// let options = RunOptions {
///     on_warning: WarningCallback::new(|warning| eprintln!("warning: {warning}")),
///     ..RunOptions::default()
/// };
/// # drop(options);
/// ```
#[derive(Clone, Default)]
pub struct WarningCallback(Option<Arc<Callback>>);

type Callback = dyn Fn(&str) + Send + Sync;

impl WarningCallback {
    /// Calls a function with each warning.
    pub fn new(callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(callback)))
    }

    pub(super) fn warn(&self, warning: &str) {
        if let Some(callback) = &self.0 {
            callback(warning);
        }
    }
}

impl fmt::Debug for WarningCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WarningCallback")
            .field(&self.0.is_some())
            .finish()
    }
}
