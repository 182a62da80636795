//! Reports of progress while the server's programs are fetched and prepared.

/// Receives reports of what takes time. The default of each method does nothing.
pub trait Progress: Send + Sync {
    /// So much of `what` has come over the network; called at least at the begin and at the end.
    fn download(&self, what: &str, bytes_done: u64, bytes_total: Option<u64>) {
        let _ = (what, bytes_done, bytes_total);
    }

    /// A step that takes time, or a fact worth a line: a sentence without a full stop.
    fn step(&self, what: &str) {
        let _ = what;
    }

    /// Something that should not be, and what was done about it; a [`step`](Self::step) unless it is
    /// written.
    fn warning(&self, what: &str) {
        self.step(what);
    }
}

/// Reports nothing.
impl Progress for () {}
