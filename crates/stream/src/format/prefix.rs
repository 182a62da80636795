//! A cache of names as rendered by an encoder.

use lookaside_value::{Name, Names};

/// Appends a prefix for a name; never empty.
type Render = dyn Fn(&str, &mut String) + Send;

/// The text that an encoder writes before the value of each name, rendered when the name is first
/// seen.
///
/// Names of the run's shared table stay rendered, those of a single batch are removed with it.
pub(crate) struct Prefixes {
    render: Box<Render>,
    text: String,
    /// The range of a name's prefix in `text`, by the name's index; empty if not yet rendered.
    spans: Vec<(usize, usize)>,
    /// The number of names that all batches share.
    shared_count: usize,
}

impl Prefixes {
    /// Prefixes for batches whose shared table has `shared_count` names.
    pub(crate) fn new(
        shared_count: usize,
        render: impl Fn(&str, &mut String) + Send + 'static,
    ) -> Self {
        Self {
            render: Box::new(render),
            text: String::new(),
            spans: vec![(0, 0); shared_count],
            shared_count,
        }
    }

    /// Removes the names of the previous batch; must be called before each batch.
    pub(crate) fn forget_own(&mut self) {
        if self.spans.len() > self.shared_count {
            self.spans.truncate(self.shared_count);
            let kept = self.spans.iter().map(|&(_, end)| end).max().unwrap_or(0);
            self.text.truncate(kept);
        }
    }

    #[inline]
    pub(crate) fn prefix(&mut self, name: Name, names: &Names) -> &str {
        let span = self.spans.get(name.index()).copied().unwrap_or_default();
        let (start, end) = if span.1 > 0 {
            span
        } else {
            self.render(name, names)
        };
        &self.text[start..end]
    }

    #[cold]
    fn render(&mut self, name: Name, names: &Names) -> (usize, usize) {
        if name.index() >= self.spans.len() {
            self.spans.resize(names.len(), (0, 0));
        }
        let start = self.text.len();
        (self.render)(names.text(name), &mut self.text);
        self.spans[name.index()] = (start, self.text.len());
        self.spans[name.index()]
    }
}
