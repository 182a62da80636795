//! Following a growing file that is rotated from time to time.
//!
//! The file is polled. Notifications would have to be checked against the file anyway (they are
//! dropped under load, missing on network file systems, and do not report truncation), and one
//! `read` and two `stat` calls every 100 ms cost almost nothing.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use super::rotation::{self, After, Known, REST, Search, Successors};
use super::{Input, ReadOutcome};
use crate::Progress;
use crate::file_identity::{Identity, identity};
use crate::fingerprint::History;
use crate::mark::Mark;
use crate::wake::{Wait, Waited, Wake};

/// How often a file that has not grown is read again, and how often the size and path of one that
/// has are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long a renamed file must be unchanged before its successor is read: a daemon continues to
/// write to the old file until it is told to open the new one.
const ROTATION_QUIET: Duration = Duration::from_secs(1);

/// How long opening a successor is retried when it is next: a rotation may create it for another
/// user and change its owner later.
const OPEN_RETRY: Duration = Duration::from_secs(10);

/// The most successors that are open at once; each takes a descriptor.
const SUCCESSOR_COUNT_MAX: usize = 64;

/// The number of files that were read and are remembered, so that they are not read again under a
/// later name; more than a rotation keeps.
const KNOWN_COUNT_MAX: usize = 256;

/// A file that is read to its end and then followed.
///
/// If it is renamed and recreated, the old file is finished first, then the files that had its name
/// in between. They are opened when they are seen, so that they are read even if they are removed.
/// If it is truncated, reading starts over.
pub(super) struct Follow {
    path: PathBuf,
    current: Followed,
    /// The history of what was read, to detect a file that was truncated and has grown beyond that
    /// size.
    history: History,
    /// The last modification time for which the file was compared with the history.
    compared: Option<SystemTime>,
    /// The files that follow it.
    successors: VecDeque<Followed>,
    /// Why the file after the successors could not be opened at the last check.
    failure: Option<io::Error>,
    /// Since when the file that cannot be opened is the next one.
    blocked: Option<Instant>,
    /// Whether the search for successors was postponed by one read, so that bytes that were read
    /// before are not delayed.
    is_search_due: bool,
    /// When the path was last checked.
    looked: Instant,
    /// Whether the last read found no more bytes.
    at_end: bool,
    /// Files that were read to their end.
    known: Vec<Known>,
    /// The end of the previous file.
    left: Option<Mark>,
    wake: Wake,
    progress: Progress,
}

/// The result of checking the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathCheck {
    Done,
    /// The search for successors, which may take a second, was postponed to the next check.
    Postponed,
    /// The run was stopped.
    Stopped,
}

/// A file that has or had the followed name.
struct Followed {
    file: File,
    identity: Identity,
    /// When the path referred to it, or to a previous file.
    seen: SystemTime,
    /// Since when the path is known to refer to another file.
    renamed: Option<Instant>,
    /// The last known size, and since when.
    size: u64,
    changed: Instant,
}

impl Followed {
    fn new(file: File, seen: Option<SystemTime>) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let now = Instant::now();
        Ok(Self {
            file,
            identity: identity(&metadata),
            seen: match seen {
                Some(seen) => seen,
                None => metadata.modified()?,
            },
            renamed: seen.map(|_| now),
            size: metadata.len(),
            changed: now,
        })
    }

    fn resize(&mut self, size: u64) {
        if self.size != size {
            self.size = size;
            self.changed = Instant::now();
        }
    }

    /// Whether it was renamed and has not been written to for a while.
    fn is_quiet(&self) -> bool {
        let is_long_ago = |time: Instant| time.elapsed() >= ROTATION_QUIET;
        self.renamed.is_some_and(is_long_ago) && is_long_ago(self.changed)
    }
}

impl Follow {
    /// `None` if the run was stopped.
    pub(super) fn new(
        path: PathBuf,
        file: File,
        mark: Option<Mark>,
        wake: Wake,
        progress: Progress,
    ) -> io::Result<Option<Self>> {
        let mut follow = Self {
            path,
            current: Followed::new(file, None)?,
            history: History::default(),
            compared: None,
            successors: VecDeque::new(),
            failure: None,
            blocked: None,
            is_search_due: false,
            looked: Instant::now(),
            at_end: false,
            known: Vec::new(),
            left: None,
            wake,
            progress,
        };
        let is_ready = match mark {
            Some(mark) => follow.resume(mark)?,
            None => true,
        };
        Ok(is_ready.then_some(follow))
    }

    /// Moves to the position of a mark, in the mark's file; `false` if the run was stopped.
    fn resume(&mut self, mark: Mark) -> io::Result<bool> {
        if mark.identity == self.current.identity {
            self.current.seen = mark.seen;
        } else {
            match rotation::find(&self.path, mark.identity, Some(&self.wake))? {
                Search::Found(file) => self.current = Followed::new(file, Some(mark.seen))?,
                Search::Absent => return self.resume_without(mark),
                Search::Stopped => return Ok(false),
            }
        }
        let file = &self.current.file;
        let read = History::of(file, mark.read.size)?;
        let is_same = read.is_some_and(|read| read.fingerprint() == mark.read);
        match History::of(file, mark.offset)? {
            Some(history) if is_same => self.history = history,
            // Truncated, maybe grown again, or another file.
            _ => {
                self.progress.add_truncation(0);
                return Ok(true);
            }
        }
        self.current.file.seek(SeekFrom::Start(mark.offset))?;
        Ok(true)
    }

    /// Begins after a file that was removed or compressed: its content after the mark cannot be
    /// read.
    fn resume_without(&mut self, mark: Mark) -> io::Result<bool> {
        self.progress.add_truncation(0);
        self.known.push(Known {
            identity: mark.identity,
            size: mark.read.size,
            written: mark.seen,
        });
        let after = After {
            newest: mark.identity,
            written: mark.seen,
            seen: mark.seen,
            known: &self.known,
            open: &[],
        };
        let found = rotation::successors(&self.path, &after, SUCCESSOR_COUNT_MAX, &self.wake)?;
        let Some(found) = found else {
            return Ok(false);
        };
        self.append(found.files, mark.seen)?;
        match (self.successors.pop_front(), found.failure) {
            (Some(first), _) => self.current = first,
            // The file at the path follows it.
            (None, Some(error)) => return Err(error),
            (None, None) => {}
        }
        Ok(true)
    }

    /// The beginning of the file, if reading starts later.
    pub(super) fn skipped_start(&self, size_max: usize) -> io::Result<Option<Vec<u8>>> {
        if self.history.size() == 0 {
            return Ok(None);
        }
        let size = size_max.min(usize::try_from(self.history.size()).unwrap_or(size_max));
        let mut bytes = vec![0; size];
        self.current.file.read_exact_at(&mut bytes, 0)?;
        Ok(Some(bytes))
    }

    /// Checks the path, and opens the file that it refers to and those that it referred to
    /// meanwhile. A file that cannot be opened is tried again at the next check.
    fn check_path(&mut self, wait: Wait) -> io::Result<PathCheck> {
        for successor in &mut self.successors {
            successor.resize(successor.file.metadata()?.len());
        }
        self.failure = None;
        let now = SystemTime::now();
        let metadata = match fs::metadata(&self.path) {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => {
                let error = io::Error::other("not a regular file");
                self.failure = Some(rotation::cannot_open(&self.path, &error));
                return Ok(PathCheck::Done);
            }
            // Renamed, and its successor does not exist yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(PathCheck::Done),
            Err(error) => {
                self.failure = Some(rotation::cannot_open(&self.path, &error));
                return Ok(PathCheck::Done);
            }
        };
        let found = identity(&metadata);
        let newest = self.successors.back_mut().unwrap_or(&mut self.current);
        if found == newest.identity {
            newest.seen = now;
            newest.renamed = None;
            return Ok(PathCheck::Done);
        }
        let written = metadata.modified()?;
        let is_unchanged = |known: &Known| known.is_unchanged(found, metadata.len(), written);
        if self.known.iter().any(is_unchanged) {
            // It was renamed back.
            return Ok(PathCheck::Done);
        }
        let (identity, seen) = (newest.identity, newest.seen);
        let written = newest.file.metadata()?.modified()?;
        newest.renamed.get_or_insert_with(Instant::now);
        let room = SUCCESSOR_COUNT_MAX - self.successors.len();
        if room == 0 {
            return Ok(PathCheck::Done);
        }
        // Records that were read before may still be buffered.
        self.is_search_due = matches!(wait, Wait::AtMost(_)) && !self.is_search_due;
        if self.is_search_due {
            return Ok(PathCheck::Postponed);
        }
        let open = [&self.current].into_iter().chain(&self.successors);
        let open: Vec<_> = open.map(|followed| followed.identity).collect();
        let after = After {
            newest: identity,
            written,
            seen,
            known: &self.known,
            open: &open,
        };
        let found = match rotation::successors(&self.path, &after, room, &self.wake) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(PathCheck::Stopped),
            Err(error) => {
                let path = self.path.display();
                let message = format!("the folder of `{path}` cannot be listed: {error}");
                self.failure = Some(io::Error::new(error.kind(), message));
                return Ok(PathCheck::Done);
            }
        };
        let Successors {
            files,
            has_gap,
            failure,
        } = found;
        self.failure = failure;
        if has_gap {
            self.progress.add_truncation(0);
        }
        self.append(files, seen)?;
        Ok(PathCheck::Done)
    }

    fn append(&mut self, files: Vec<File>, seen: SystemTime) -> io::Result<()> {
        for file in files {
            let successor = Followed::new(file, Some(seen))?;
            self.successors.push_back(successor);
        }
        Ok(())
    }

    /// Switches to the beginning of the next file, if this one is finished.
    fn turn(&mut self) -> io::Result<bool> {
        if !self.current.is_quiet() || self.successors.is_empty() {
            return Ok(false);
        }
        let written = self.current.file.metadata()?.modified()?;
        let Some(next) = self.successors.pop_front() else {
            return Ok(false);
        };
        self.left = self.mark();
        self.known.push(Known {
            identity: self.current.identity,
            size: self.history.size(),
            written,
        });
        if self.known.len() > KNOWN_COUNT_MAX {
            self.known.remove(0);
        }
        self.current = next;
        self.history = History::default();
        self.compared = None;
        self.at_end = false;
        Ok(true)
    }

    /// Fails if the next file could not be opened for a while.
    fn check_failure(&mut self) -> io::Result<()> {
        let is_quiet = self.current.changed.elapsed() >= ROTATION_QUIET;
        let is_turn = self.successors.is_empty() && is_quiet;
        let Some(failure) = self.failure.take_if(|_| is_turn) else {
            self.blocked = None;
            return Ok(());
        };
        if self.blocked.get_or_insert_with(Instant::now).elapsed() >= OPEN_RETRY {
            return Err(failure);
        }
        Ok(())
    }

    /// Whether the file was truncated since the last check; if so, reading starts over. A file that
    /// was written to may have been truncated and have grown again: then it lacks what was read
    /// before the current position.
    fn is_cut(&mut self) -> io::Result<bool> {
        let metadata = self.current.file.metadata()?;
        let size = metadata.len();
        let written = metadata.modified()?;
        let read = self.history.size();
        let is_changed = size > read || self.compared != Some(written);
        let is_cut = size < read || (is_changed && !self.history.ends_in(&self.current.file)?);
        // A later write may have the same timestamp, because the clock has a limited resolution.
        let is_past = written.elapsed().is_ok_and(|elapsed| elapsed >= REST);
        self.compared = is_past.then_some(written);
        if is_cut {
            let unread = self.current.size.saturating_sub(read);
            self.progress.add_truncation(unread);
            self.left = self.mark();
            self.current.file.rewind()?;
            self.history = History::default();
            self.at_end = false;
        }
        self.current.resize(size);
        Ok(is_cut)
    }

    fn advance(&mut self, bytes: &[u8]) {
        self.history.push(bytes);
        let size = self.current.size.max(self.history.size());
        self.current.resize(size);
        self.at_end = false;
    }
}

impl Input for Follow {
    fn read(&mut self, room: &mut [u8], wait: Wait) -> io::Result<ReadOutcome> {
        loop {
            if self.at_end || self.looked.elapsed() >= POLL_INTERVAL {
                if self.is_cut()? {
                    return Ok(ReadOutcome::Next);
                }
                match self.check_path(wait)? {
                    PathCheck::Done => self.looked = Instant::now(),
                    PathCheck::Postponed => return Ok(ReadOutcome::Idle),
                    PathCheck::Stopped => return Ok(ReadOutcome::Stopped),
                }
            }
            match self.current.file.read(room) {
                Ok(0) => {}
                Ok(size) => {
                    self.advance(&room[..size]);
                    return Ok(ReadOutcome::Bytes(size));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            // The size was not checked since the read position passed it, so it is checked now.
            if !self.at_end {
                self.at_end = true;
                continue;
            }
            if self.turn()? {
                return Ok(ReadOutcome::Next);
            }
            self.check_failure()?;
            let pause = match wait {
                Wait::Forever => POLL_INTERVAL,
                Wait::AtMost(time) => time.min(POLL_INTERVAL),
            };
            match (self.wake.wait(None, Wait::AtMost(pause))?, wait) {
                (Waited::Stopped, _) => return Ok(ReadOutcome::Stopped),
                (_, Wait::AtMost(_)) => return Ok(ReadOutcome::Idle),
                (_, Wait::Forever) => {}
            }
        }
    }

    fn mark(&self) -> Option<Mark> {
        Some(Mark {
            identity: self.current.identity,
            seen: self.current.seen,
            offset: self.history.size(),
            line: 1,
            read: self.history.fingerprint(),
        })
    }

    fn left(&self) -> Option<Mark> {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::*;
    use crate::StopFlag;

    /// Bytes that were seen and truncated before they were read are counted, also if the file has
    /// grown again.
    #[test]
    fn a_truncation_counts_what_was_not_read() {
        for after in ["", "x\n", &"y\n".repeat(2000)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log");
            fs::write(&path, "line\n".repeat(200)).unwrap();
            let progress = Progress::new();
            let wake = Wake {
                stop: StopFlag::new().unwrap(),
                abort: StopFlag::new().unwrap(),
            };
            let file = File::open(&path).unwrap();
            let follow = Follow::new(path.clone(), file, None, wake, progress.clone());
            let mut follow = follow.unwrap().unwrap();
            let now = Wait::AtMost(Duration::ZERO);
            let mut room = [0; 10];
            assert_eq!(follow.read(&mut room, now).unwrap(), ReadOutcome::Bytes(10));
            fs::write(&path, after).unwrap();
            // As after a pause without a read.
            follow.at_end = true;
            assert_eq!(follow.read(&mut room, now).unwrap(), ReadOutcome::Next);
            let figures = progress.figures();
            assert_eq!((figures.truncations, figures.bytes_unread), (1, 990));
            assert_eq!(follow.history.size(), 0);
            let size = after.len().min(10);
            let expected = match size {
                0 => ReadOutcome::Idle,
                size => ReadOutcome::Bytes(size),
            };
            assert_eq!(follow.read(&mut room, now).unwrap(), expected);
            assert_eq!(room[..size], after.as_bytes()[..size]);
        }
    }

    /// Follows a file in its folder.
    struct Rotated {
        folder: tempfile::TempDir,
        follow: Follow,
        progress: Progress,
        lines: String,
    }

    impl Rotated {
        fn new(text: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log");
            fs::write(&path, text).unwrap();
            let progress = Progress::new();
            let wake = Wake {
                stop: StopFlag::new().unwrap(),
                abort: StopFlag::new().unwrap(),
            };
            let file = File::open(&path).unwrap();
            let follow = Follow::new(path, file, None, wake, progress.clone());
            Self {
                follow: follow.unwrap().unwrap(),
                folder,
                progress,
                lines: String::new(),
            }
        }

        /// Keeps three rotated files and removes the oldest.
        fn rotate(&self, text: &str) {
            let name = |name: &str| self.folder.path().join(name);
            for (from, to) in [("log.2", "log.3"), ("log.1", "log.2"), ("log", "log.1")] {
                // The first ones do not exist.
                let _ = fs::rename(name(from), name(to));
            }
            fs::write(name("log"), text).unwrap();
        }

        /// Reads until it would wait: a search for successors is postponed by one read.
        fn read(&mut self) {
            let mut room = [0; 100];
            let mut idle_count = 0;
            while idle_count < 2 {
                let wait = Wait::AtMost(Duration::from_millis(10));
                match self.follow.read(&mut room, wait).unwrap() {
                    ReadOutcome::Bytes(size) => {
                        self.lines += str::from_utf8(&room[..size]).unwrap();
                        idle_count = 0;
                    }
                    ReadOutcome::Next => idle_count = 0,
                    _ => idle_count += 1,
                }
            }
        }

        fn expect(&mut self, expected: &str) {
            let begun = Instant::now();
            while self.lines != expected && begun.elapsed() < Duration::from_secs(60) {
                self.read();
            }
            assert_eq!(self.lines, expected);
        }
    }

    /// A file that was seen is read, also if it is removed before its predecessors are finished.
    #[test]
    fn files_are_read_although_a_rotation_removes_them() {
        let mut rotated = Rotated::new("0\n");
        let mut expected = "0\n".to_owned();
        // Between two checks, there are no more rotations than files that are kept.
        for number in 1..=30 {
            rotated.rotate(&format!("{number}\n"));
            expected += &format!("{number}\n");
            if number % 3 == 0 {
                rotated.read();
            }
        }
        rotated.expect(&expected);
        assert_eq!(rotated.progress.figures().truncations, 0);
    }

    /// A search takes a while in a folder that keeps changing.
    #[test]
    fn records_are_not_held_back_by_a_search() {
        let mut rotated = Rotated::new("0\n");
        let mut room = [0; 10];
        let wait = Wait::AtMost(Duration::ZERO);
        assert_eq!(
            rotated.follow.read(&mut room, wait).unwrap(),
            ReadOutcome::Bytes(2)
        );
        rotated.rotate("1\n");
        rotated.follow.at_end = true;
        assert_eq!(
            rotated.follow.read(&mut room, wait).unwrap(),
            ReadOutcome::Idle
        );
        assert!(rotated.follow.successors.is_empty());
        assert_eq!(
            rotated.follow.read(&mut room, wait).unwrap(),
            ReadOutcome::Idle
        );
        assert_eq!(rotated.follow.successors.len(), 1);
    }

    /// A file that is renamed back to the path is not read again until something is written to it.
    #[test]
    fn a_file_that_was_read_and_renamed_back_is_not_read_again() {
        let mut rotated = Rotated::new("0\n");
        rotated.read();
        rotated.rotate("1\n");
        rotated.expect("0\n1\n");
        let name = |name: &str| rotated.folder.path().join(name);
        fs::rename(name("log"), name("log.2")).unwrap();
        fs::rename(name("log.1"), name("log")).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < 2 * ROTATION_QUIET {
            rotated.read();
        }
        rotated.rotate("2\n");
        rotated.expect("0\n1\n2\n");
        assert_eq!(rotated.progress.figures().truncations, 0);
    }

    /// A file that has the size of what was read may have other content.
    #[test]
    fn a_file_that_is_cut_and_has_its_size_again_is_read_again() {
        let mut rotated = Rotated::new("one\n");
        rotated.expect("one\n");
        for (text, expected) in [("two\n", "one\ntwo\n"), ("six\n", "one\ntwo\nsix\n")] {
            fs::write(&rotated.follow.path, text).unwrap();
            rotated.expect(expected);
        }
        // Written again with the same content.
        fs::write(&rotated.follow.path, "six\n").unwrap();
        rotated.read();
        rotated.expect("one\ntwo\nsix\n");
        assert_eq!(rotated.progress.figures().truncations, 2);
    }

    /// Each file is compressed at once, so that only the one at the path is seen.
    #[test]
    fn files_that_were_compressed_unseen_are_reported() {
        let mut rotated = Rotated::new("0\n");
        rotated.read();
        let mut compress = |count: u64, expected: &str| {
            for number in 1..=count {
                let time = SystemTime::now() + Duration::from_secs(number);
                let log = File::options().write(true).open(&rotated.follow.path);
                log.unwrap().set_modified(time).unwrap();
                rotated.rotate("new\n");
                let name = |name: String| rotated.folder.path().join(name);
                let archive = name(format!("log.{count}{number}.gz"));
                fs::write(&archive, "").unwrap();
                let archive = File::options().write(true).open(archive).unwrap();
                archive.set_modified(time).unwrap();
                fs::remove_file(name("log.1".to_owned())).unwrap();
            }
            rotated.expect(expected);
            rotated.progress.figures().truncations
        };
        assert_eq!(compress(1, "0\nnew\n"), 0);
        assert_eq!(compress(3, "0\nnew\nnew\n"), 1);
    }

    /// Puts something at the path that cannot be opened; `false` if it can be opened after all.
    type Obstacle = fn(&Path) -> bool;

    const OBSTACLES: [Obstacle; 3] = [
        |path| {
            symlink(path, path).unwrap();
            true
        },
        |path| {
            fs::create_dir(path).unwrap();
            true
        },
        |path| {
            fs::write(path, "").unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
            File::open(path).is_err()
        },
    ];

    /// Rotates a file of two lines, the first of which is read; `None` if the obstacle has no
    /// effect.
    fn blocked(obstacle: Obstacle) -> Option<Rotated> {
        let mut rotated = Rotated::new("0\n");
        rotated.read();
        let path = rotated.follow.path.clone();
        let renamed = rotated.folder.path().join("log.1");
        fs::write(&path, "0\n1\n").unwrap();
        fs::rename(&path, renamed).unwrap();
        if !obstacle(&path) {
            let why = "this user may open a file of mode 000";
            let _ = writeln!(io::stderr(), "SKIP {why}");
            return None;
        }
        Some(rotated)
    }

    /// A rotation may create a file for another user and change its owner later.
    #[test]
    fn a_successor_that_cannot_be_opened_is_tried_again() {
        for obstacle in OBSTACLES {
            let Some(mut rotated) = blocked(obstacle) else {
                continue;
            };
            rotated.expect("0\n1\n");
            let begun = Instant::now();
            while begun.elapsed() < 2 * ROTATION_QUIET {
                rotated.read();
            }
            let path = rotated.follow.path.clone();
            match fs::symlink_metadata(&path).unwrap().is_dir() {
                true => fs::remove_dir(&path).unwrap(),
                false => fs::remove_file(&path).unwrap(),
            }
            fs::write(&path, "2\n").unwrap();
            rotated.expect("0\n1\n2\n");
            assert_eq!(rotated.progress.figures().truncations, 0);
        }
    }

    #[test]
    fn a_successor_that_stays_unreadable_ends_the_run_with_its_name() {
        for (obstacle, reason) in OBSTACLES.into_iter().zip(["symbolic", "regular", "denied"]) {
            let Some(mut rotated) = blocked(obstacle) else {
                continue;
            };
            rotated.expect("0\n1\n");
            let begun = Instant::now();
            while rotated.follow.blocked.is_none() && begun.elapsed() < Duration::from_secs(60) {
                rotated.read();
            }
            // Long ago.
            rotated.follow.blocked = Instant::now().checked_sub(OPEN_RETRY);
            let read = rotated.follow.read(&mut [0; 10], Wait::Forever);
            let error = read.unwrap_err();
            let name = rotated.follow.path.display().to_string();
            let error = error.to_string();
            assert!(error.contains(&name) && error.contains(reason), "{error}");
        }
    }

    /// Files that were removed between two checks, and files that were removed while the maximum
    /// was open.
    #[test]
    fn files_that_a_rotation_removed_unseen_are_reported() {
        let mut rotated = Rotated::new("0\n");
        rotated.read();
        for number in 1..=9 {
            rotated.rotate(&format!("{number}\n"));
        }
        rotated.expect("0\n6\n7\n8\n9\n");
        assert_eq!(rotated.progress.figures().truncations, 1);

        let mut rotated = Rotated::new("0\n");
        let count = SUCCESSOR_COUNT_MAX + 10;
        let mut expected = "0\n".to_owned();
        for number in 1..=count {
            rotated.rotate(&format!("{number}\n"));
            if number <= SUCCESSOR_COUNT_MAX {
                expected += &format!("{number}\n");
                rotated.read();
            }
        }
        for number in count - 3..=count {
            expected += &format!("{number}\n");
        }
        rotated.expect(&expected);
        assert_eq!(rotated.progress.figures().truncations, 1);
    }
}
