//! The last lines sent over a connection, to be sent again over the next one.

use memchr::memchr;

/// The last complete lines that were sent, at most `size_max` bytes.
pub(super) struct Replay {
    bytes: Vec<u8>,
    size_max: usize,
}

impl Replay {
    pub(super) fn new(size_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            size_max,
        }
    }

    /// Records lines that were sent.
    pub(super) fn push(&mut self, lines: &[u8]) {
        let kept = last_lines(lines, self.size_max);
        if kept.len() < lines.len() {
            self.bytes.clear();
        }
        self.bytes.extend_from_slice(kept);
        // Not each time, so that the moved bytes are no more than the dropped ones.
        if self.bytes.len() > self.size_max.saturating_mul(2) {
            let size = self.lines().len();
            self.bytes.drain(..self.bytes.len() - size);
        }
    }

    /// The lines to send again.
    pub(super) fn lines(&self) -> &[u8] {
        last_lines(&self.bytes, self.size_max)
    }
}

/// The last complete lines that are together no larger than `size_max`.
fn last_lines(lines: &[u8], size_max: usize) -> &[u8] {
    let Some(start) = lines.len().checked_sub(size_max).filter(|start| *start > 0) else {
        return lines;
    };
    // The previous byte shows whether a line begins here.
    match memchr(b'\n', &lines[start - 1..]) {
        Some(at) => &lines[start + at..],
        None => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_are_kept_up_to_a_size() {
        for (pushes, size_max, expected) in [
            (&["a\n", "b\n"][..], 100, "a\nb\n"),
            (&["a\n", "b\n"], 4, "a\nb\n"),
            (&["a\n", "b\n"], 3, "b\n"),
            (&["a\n", "b\n"], 2, "b\n"),
            (&["a\n", "b\n"], 1, ""),
            (&["a\n", "b\n"], 0, ""),
            (&["aa\nbb\ncc\n"], 7, "bb\ncc\n"),
            (&["aa\nbb\ncc\n"], 6, "bb\ncc\n"),
            (&["aa\nbb\ncc\n"], 5, "cc\n"),
            // A line that is too long also removes the lines before it.
            (&["a\n", "a long line\n", "b\n"], 5, "b\n"),
        ] {
            let mut replay = Replay::new(size_max);
            for lines in pushes {
                replay.push(lines.as_bytes());
            }
            let lines = str::from_utf8(replay.lines()).unwrap();
            assert_eq!(lines, expected, "{pushes:?} in {size_max}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut replay = Replay::new(100);
        let mut sent = String::new();
        for number in 0..1000 {
            let line = format!("line {number}\n");
            replay.push(line.as_bytes());
            sent.push_str(&line);
            assert!(replay.bytes.len() <= 200);
            let lines = str::from_utf8(replay.lines()).unwrap();
            assert!(sent.ends_with(lines) && lines.len() <= 100);
            assert!(lines.starts_with("line ") && lines.len() >= 90.min(sent.len()));
        }
    }
}
