//! Progress reports while the server's programs are downloaded and prepared.

/// Receives reports of slow operations. The default of each method does nothing.
pub trait Progress: Send + Sync {
    /// Reports the progress of downloading `what`; called at least at the beginning and at the end.
    fn download(&self, what: &str, bytes_done: u64, bytes_total: Option<u64>) {
        let _ = (what, bytes_done, bytes_total);
    }

    /// Reports a slow step, or other information worth a line: a sentence without a full stop.
    fn step(&self, what: &str) {
        let _ = what;
    }

    /// Reports a problem, and what was done about it; calls [`step`](Self::step) by default.
    fn warning(&self, what: &str) {
        self.step(what);
    }
}

/// Reports nothing.
impl Progress for () {}
