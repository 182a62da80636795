//! The mark of the last write of a run, an attribute of the file that it appends to. From it, the next
//! run recognizes a write that was cut short because the run was killed.
//!
//! The mark has the offset and the size of the write, and its first bytes: `4096 131072 {"n":1}…`. It
//! is set before the write and removed when the run ends. The file of a killed run ends within the
//! write, and has these bytes at its offset. If another program has appended to the file since, or has
//! written over it, that is hardly the case: then nothing is known of the end of the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};

const ATTRIBUTE: &str = "user.lookaside.last-write";

/// The number of first bytes that the mark has; events of a program differ within them, as their times
/// do.
const HEAD_SIZE_MAX: usize = 64;

/// The longest mark: two numbers of 20 digits, spaces and the first bytes.
const SIZE_MAX: usize = 42 + HEAD_SIZE_MAX;

/// Marks a write that is about to begin; `false` if the file system does not support that.
pub(super) fn mark(file: &File, bytes: &[u8]) -> io::Result<bool> {
    let start = file.metadata()?.len();
    let mut value = format!("{start} {} ", bytes.len()).into_bytes();
    value.extend_from_slice(&bytes[..bytes.len().min(HEAD_SIZE_MAX)]);
    Ok(fsetxattr(file, ATTRIBUTE, &value, XattrFlags::empty()).is_ok())
}

/// Removes the mark, if there is one.
pub(super) fn unmark(file: &File) {
    // If that fails, the next run finds a file that does not end within the write.
    let _ = fremovexattr(file, ATTRIBUTE);
}

/// Where the write began that the file ends within.
pub(super) fn unfinished_from(file: &File) -> io::Result<Option<u64>> {
    let mut value = [0; SIZE_MAX];
    let Ok(size) = fgetxattr(file, ATTRIBUTE, &mut value) else {
        return Ok(None);
    };
    let Some((start, size, head)) = parse(&value[..size]) else {
        return Ok(None);
    };
    let end = file.metadata()?.len();
    let written = end.saturating_sub(start);
    if written == 0 || written >= size {
        return Ok(None);
    }
    let mut found = [0; HEAD_SIZE_MAX];
    let found = &mut found[..head.len().min(written as usize)];
    file.read_exact_at(found, start)?;
    Ok(head.starts_with(found).then_some(start))
}

/// The offset, the size and the first bytes of a write.
fn parse(value: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut parts = value.splitn(3, |byte| *byte == b' ');
    let mut number = || str::from_utf8(parts.next()?).ok()?.parse().ok();
    let (start, size) = (number()?, number()?);
    Some((start, size, parts.next()?))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;

    use super::*;

    #[test]
    fn only_the_own_write_is_unfinished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        let mut file = options.open(&path).unwrap();
        file.write_all(b"a\n").unwrap();
        let long = "x".repeat(HEAD_SIZE_MAX) + "y\n";
        for write in ["b c\n", &long] {
            if !mark(&file, write.as_bytes()).unwrap() {
                let _ = writeln!(
                    io::stderr(),
                    "SKIP: the file system has no extended attributes"
                );
                return;
            }
            let end = |content: &str| {
                // The file stays the same one.
                fs::write(&path, content).unwrap();
                unfinished_from(&file).unwrap()
            };
            for size in 0..=write.len() {
                let is_cut = size > 0 && size < write.len();
                let content = format!("a\n{}", &write[..size]);
                assert_eq!(end(&content), is_cut.then_some(2), "{content}");
            }
            for other in [
                "",
                "a",
                "a\nc",
                "a\nc\n",
                &format!("a\n{write}d"),
                &format!("a\n{write}d\n"),
            ] {
                assert_eq!(end(other), None, "{other}");
            }
            end("a\n");
        }
        mark(&file, b"b c\n").unwrap();
        file.write_all(b"b").unwrap();
        unmark(&file);
        assert_eq!(unfinished_from(&file).unwrap(), None);
    }
}
