//! Finding the files that a followed path was renamed to.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::file_identity::{Identity, folder_of, identity, nanoseconds};
use crate::rotated_name::{self, RotatedName};
use crate::wake::{Wait, Waited, Wake};

/// How often a folder is listed again at most while files in it are renamed.
const LISTING_COUNT_MAX: usize = 50;

/// A folder is at rest if nothing in it was renamed for this long: longer than the resolution of
/// the clock of file systems, which is at most 10 ms.
pub(super) const REST: Duration = Duration::from_millis(20);

/// The suffixes of files that a rotation has compressed.
const ARCHIVE_SUFFIXES: [&str; 4] = ["gz", "zst", "bz2", "xz"];

/// The result of a search for a file.
pub(super) enum Search {
    Found(File),
    Absent,
    /// The search was interrupted, as the run was stopped.
    Stopped,
}

/// A file that was read to its end, with its state at that time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) identity: Identity,
    pub(super) size: u64,
    pub(super) written: SystemTime,
}

/// Where the search for newer files starts.
pub(super) struct After<'a> {
    /// The newest file that was read or is open.
    pub(super) newest: Identity,
    /// When the newest file was last written.
    pub(super) written: SystemTime,
    /// A time at which the path still referred to it.
    pub(super) seen: SystemTime,
    /// Files that were read.
    pub(super) known: &'a [Known],
    /// Files that are open.
    pub(super) open: &'a [Identity],
}

/// Files that follow another one.
pub(super) struct Successors {
    /// The oldest first.
    pub(super) files: Vec<File>,
    /// Whether earlier files may have been lost: files before these were compressed unread; or the
    /// newest read file no longer exists, so that others that had the name between it and these may
    /// be gone as well.
    pub(super) has_gap: bool,
    /// Why the next file after these cannot be opened now.
    pub(super) failure: Option<io::Error>,
}

/// A file in the folder of the followed one.
struct Sibling {
    path: PathBuf,
    identity: Identity,
    size: u64,
    written: SystemTime,
}

/// The order in which files had the followed name, which is that of their creation. If the file
/// system does not store that, it is the order of their last writes, and by name for equal times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    at_path: bool,
    born: u64,
    written: SystemTime,
    age: (i64, String),
}

/// Finds the file with this identity in the folder of `path`, whatever its current name.
pub(super) fn find(path: &Path, wanted: Identity, wake: Option<&Wake>) -> io::Result<Search> {
    let mut found = None;
    let rest = list_at_rest(path, wake, |listing| {
        for sibling in listing {
            if sibling.identity == wanted && found.is_none() {
                found = open(sibling)?;
            }
        }
        Ok(match found {
            Some(_) => Listing::Last,
            None => Listing::Repeated,
        })
    })?;
    Ok(match found {
        Some(file) => Search::Found(file),
        None if rest == Rest::Stopped => Search::Stopped,
        None => Search::Absent,
    })
}

/// The files that `path` referred to after the newest known one, including the current one, at most
/// `count_max`; `None` if the run was stopped.
///
/// They are opened as soon as they are seen, because a rotation removes them eventually. A file
/// that cannot be opened ends the list, because later files must be read after it.
pub(super) fn successors(
    path: &Path,
    after: &After<'_>,
    count_max: usize,
    wake: &Wake,
) -> io::Result<Option<Successors>> {
    let mut collected = Collected::default();
    let rest = list_at_rest(path, Some(wake), |listing| {
        collected.add(path, listing, after, count_max);
        Ok(Listing::Repeated)
    })?;
    Ok(match rest {
        Rest::Stopped => None,
        Rest::Reached => Some(collected.into_successors(true)),
        Rest::NotReached => Some(collected.into_successors(false)),
    })
}

/// The combined result of several listings of a folder, each of which may lack files that were
/// being renamed.
#[derive(Default)]
struct Collected {
    /// Files that were opened, the oldest first.
    found: Vec<(Order, Identity, File)>,
    /// Files that had another name, or were removed, when they were to be opened.
    missed: Vec<(Order, Identity)>,
    /// The files of the last listing.
    listed: Vec<Identity>,
    failed: Option<(Order, io::Error)>,
    archives: Archives,
}

impl Collected {
    fn add(&mut self, path: &Path, listing: &[Sibling], after: &After<'_>, count_max: usize) {
        let has_newest = self.archives.has_newest;
        self.archives = Archives::of(path, listing, after);
        self.archives.has_newest |= has_newest;
        let found = self.found.iter_mut().map(|(order, ..)| order);
        for order in found.chain(self.missed.iter_mut().map(|(order, _)| order)) {
            order.at_path = false;
        }
        self.listed = listing.iter().map(|sibling| sibling.identity).collect();
        self.failed = None;
        for (order, sibling) in choose(path, listing, after).into_iter().take(count_max) {
            let is_same = |identity: &Identity| *identity == sibling.identity;
            if let Some(known) = self.found.iter_mut().find(|(_, it, _)| is_same(it)) {
                // Renamed since.
                known.0 = order;
                continue;
            }
            match open(sibling) {
                Ok(Some(file)) => {
                    self.missed.retain(|(_, identity)| !is_same(identity));
                    self.found.push((order, sibling.identity, file));
                }
                Ok(None) => match self.missed.iter_mut().find(|(_, it)| is_same(it)) {
                    Some(known) => known.0 = order,
                    None => self.missed.push((order, sibling.identity)),
                },
                Err(error) => {
                    self.failed.get_or_insert((order, error));
                }
            }
        }
        // An older file may have been found late. The newest ones are left to the next search.
        self.found.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        self.found.truncate(count_max);
    }

    /// The files in their order. If the folder was not at rest, files after a missed one are left
    /// out: the next search finds both. If it was at rest, missed files are gone.
    fn into_successors(mut self, was_at_rest: bool) -> Successors {
        if let Some((failed, _)) = &self.failed {
            self.found.retain(|(order, ..)| order < failed);
        }
        if was_at_rest {
            let listed = &self.listed;
            self.missed
                .retain(|(_, identity)| !listed.contains(identity));
        } else if let Some((oldest, _)) = self
            .missed
            .iter()
            .min_by(|(one, _), (other, _)| one.cmp(other))
        {
            self.found.retain(|(order, ..)| order < oldest);
        }
        let has_renamed = self.found.iter().any(|(order, ..)| !order.at_path);
        let newest = self.found.last().map(|(order, ..)| order);
        let has_lost = self.missed.iter().any(|(order, _)| Some(order) < newest);
        Successors {
            has_gap: (has_renamed && !self.archives.has_newest)
                || (!self.found.is_empty() && self.archives.has_unread)
                || (was_at_rest && has_lost),
            files: self.found.into_iter().map(|(_, _, file)| file).collect(),
            failure: self.failed.map(|(_, error)| error),
        }
    }
}

/// The files of a folder that follow the newest known one, the oldest first.
fn choose<'a>(path: &Path, listing: &'a [Sibling], after: &After<'_>) -> Vec<(Order, &'a Sibling)> {
    let is_at_path = |sibling: &Sibling| sibling.path.file_name() == path.file_name();
    // Other files of the folder may be links to a file system without creation times.
    let has_births = after.newest.born > 0
        && listing
            .iter()
            .filter(|sibling| is_at_path(sibling) || age(path, &sibling.path).is_some())
            .all(|sibling| sibling.identity.born > 0);
    let order = |sibling: &Sibling| {
        let at_path = is_at_path(sibling);
        Some(Order {
            at_path,
            born: if has_births { sibling.identity.born } else { 0 },
            written: sibling.written,
            age: match at_path {
                true => (0, String::new()),
                false => age(path, &sibling.path)?,
            },
        })
    };
    let newest = listing
        .iter()
        .find(|sibling| sibling.identity == after.newest)
        .and_then(order);
    // They were written to after the path last referred to the newest one, and maybe before that
    // was written last: a daemon continues to write to a renamed file. `REST` allows for the
    // resolution of the file system's clock.
    let since = after.seen.min(after.written) - REST;
    let comes_after = |order: &Order, sibling: &Sibling| {
        let is_later = match &newest {
            Some(newest) if has_births => order > newest,
            Some(newest) => order.written != newest.written || order > newest,
            None => !has_births || order.born >= after.newest.born,
        };
        let is_known = |known: &Known| known.identity == sibling.identity;
        is_later && sibling.written >= since && !after.known.iter().any(is_known)
    };
    // It was renamed back to the path.
    let is_read = |sibling: &Sibling| {
        let is_unchanged =
            |known: &Known| known.is_unchanged(sibling.identity, sibling.size, sibling.written);
        after.known.iter().any(is_unchanged)
    };
    let mut chosen: Vec<_> = listing
        .iter()
        .filter(|sibling| !after.open.contains(&sibling.identity) && !is_read(sibling))
        .filter_map(|sibling| Some((order(sibling)?, sibling)))
        .filter(|(order, sibling)| order.at_path || comes_after(order, sibling))
        .collect();
    chosen.sort_by(|(one, _), (other, _)| one.cmp(other));
    chosen
}

impl Known {
    /// Whether this is the file with this metadata, and it has not been written to since.
    pub(super) fn is_unchanged(&self, identity: Identity, size: u64, written: SystemTime) -> bool {
        self.identity == identity && self.size == size && self.written == written
    }
}

/// Whether a folder has the newest known file, and compressed files that followed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Archives {
    /// Whether the newest file exists, or a compressed file that may be it.
    has_newest: bool,
    /// Whether there is a compressed file that cannot be one of the known files.
    has_unread: bool,
}

impl Archives {
    /// Most compressors, and programs that rotate files, give the archive the modification time of
    /// the file, some without the fraction of the second. With others, the archive of the newest
    /// file has a later time.
    fn of(path: &Path, listing: &[Sibling], after: &After<'_>) -> Self {
        let is_there = |path: &Path| listing.iter().any(|sibling| sibling.path == path);
        let archives = listing.iter().filter(|sibling| {
            let suffix = sibling.path.extension().and_then(|suffix| suffix.to_str());
            let plain = sibling.path.with_extension("");
            suffix.is_some_and(|suffix| ARCHIVE_SUFFIXES.contains(&suffix))
                && age(path, &plain).is_some()
                // Otherwise it is being compressed.
                && !is_there(&plain)
        });
        let known = after.known.iter().map(|known| known.written);
        let last_written = known.fold(after.written, SystemTime::max);
        let second = nanoseconds(after.written) / 1_000_000_000 * 1_000_000_000;
        let mut later_count = 0;
        let mut has_archive = false;
        for archive in archives {
            has_archive |=
                archive.written == after.written || nanoseconds(archive.written) == second;
            later_count += usize::from(archive.written > last_written);
        }
        let is_there = listing
            .iter()
            .any(|sibling| sibling.identity == after.newest);
        Self {
            has_newest: is_there || has_archive || later_count > 0,
            has_unread: later_count > usize::from(!has_archive),
        }
    }
}

/// Whether another listing is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listing {
    /// Unless the folder was at rest.
    Repeated,
    Last,
}

/// Opens a file; `None` if it was removed or renamed since it was listed, so that the name may
/// refer to another one. An error names the file.
fn open(sibling: &Sibling) -> io::Result<Option<File>> {
    let opened = File::open(&sibling.path).and_then(|file| Ok((file.metadata()?, file)));
    match opened {
        Ok((metadata, file)) => Ok((identity(&metadata) == sibling.identity).then_some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot_open(&sibling.path, &error)),
    }
}

/// The error of a file that cannot be opened, with its name.
pub(super) fn cannot_open(path: &Path, error: &io::Error) -> io::Error {
    let message = format!("`{}` cannot be opened: {error}", path.display());
    io::Error::new(error.kind(), message)
}

/// How a search through a folder ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Nothing was renamed during the last listing, or no further one was needed.
    Reached,
    /// Files were renamed all the time.
    NotReached,
    /// The run was stopped.
    Stopped,
}

/// Lists the files in the folder of `path` for a callback. A listing that is made while a file is
/// renamed may lack it, so listing is repeated until the folder was at rest meanwhile.
fn list_at_rest(
    path: &Path,
    wake: Option<&Wake>,
    mut show: impl FnMut(&[Sibling]) -> io::Result<Listing>,
) -> io::Result<Rest> {
    let folder = folder_of(path);
    let changed = || fs::metadata(folder)?.modified();
    for _ in 0..LISTING_COUNT_MAX {
        let before = changed()?;
        let was_at_rest = before.elapsed().is_ok_and(|rest| rest >= REST);
        let listing = show(&list(folder)?)?;
        if listing == Listing::Last || (was_at_rest && changed()? == before) {
            return Ok(Rest::Reached);
        }
        match wake {
            Some(wake) => {
                if wake.wait(None, Wait::AtMost(REST))? == Waited::Stopped {
                    return Ok(Rest::Stopped);
                }
            }
            None => thread::sleep(REST),
        }
    }
    Ok(Rest::NotReached)
}

fn list(folder: &Path) -> io::Result<Vec<Sibling>> {
    let mut siblings = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // Renamed or removed since.
        let Ok(metadata) = fs::metadata(&path) else {
            continue;
        };
        if metadata.is_file() {
            siblings.push(Sibling {
                path,
                identity: identity(&metadata),
                size: metadata.len(),
                written: metadata.modified()?,
            });
        }
    }
    Ok(siblings)
}

/// Orders files with equal times by the suffix of their names: `.2` is older than `.1`, dates are
/// ordered as dates, and so are the names that the output of a run is rotated to. `None` if `path`
/// was not renamed to this name; also for names with `.gz`, which are already read or were renamed
/// too fast to be seen.
fn age(path: &Path, sibling: &Path) -> Option<(i64, String)> {
    let names = (path.file_name()?, sibling.file_name()?);
    if let Some(RotatedName { stamp, count }) =
        rotated_name::parse(names.0.as_bytes(), names.1.as_bytes())
    {
        return Some((0, format!("{stamp}-{count:010}")));
    }
    let name = sibling.file_name()?.to_str()?;
    let suffix = name.strip_prefix(path.file_name()?.to_str()?)?;
    let is_number = |byte: u8| byte.is_ascii_digit() || b".-_T:".contains(&byte);
    if !suffix.starts_with(['.', '-', '_']) || !suffix.bytes().all(is_number) {
        return None;
    }
    Some(match suffix[1..].parse::<u16>() {
        Ok(number) => (-i64::from(number), String::new()),
        Err(_) => (0, suffix.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::StopFlag;

    impl Search {
        fn file(self) -> Option<File> {
            match self {
                Self::Found(file) => Some(file),
                Self::Absent | Self::Stopped => None,
            }
        }
    }

    /// A file that is continuously renamed is found.
    #[test]
    fn a_file_is_found_while_files_are_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let name = |number: usize| folder.path().join(format!("log.{number}"));
        for number in 0..200 {
            fs::write(name(number), "").unwrap();
        }
        fs::write(&path, "").unwrap();
        let wanted = identity(&fs::metadata(name(100)).unwrap());
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut number = 100;
                while !is_done.load(Ordering::Relaxed) {
                    let other = 1000 + fastrand::usize(..100_000);
                    fs::rename(name(number), name(other)).unwrap();
                    number = other;
                    // sleep: a random time between two renames
                    thread::sleep(Duration::from_millis(fastrand::u64(..100)));
                }
            });
            for _ in 0..300 {
                let found = find(&path, wanted, None).map(Search::file);
                let is_there = found.as_ref().is_ok_and(Option::is_some);
                if !is_there {
                    is_done.store(true, Ordering::Relaxed);
                }
                assert!(is_there, "{found:?}");
            }
            is_done.store(true, Ordering::Relaxed);
        });
    }

    /// A stop interrupts the search even if the folder keeps changing.
    #[test]
    fn a_stop_interrupts_the_search() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "").unwrap();
        let wanted = identity(&fs::metadata(&path).unwrap());
        // A time in the future does not make it older than others.
        let later = SystemTime::now() + Duration::from_secs(3600);
        let opened = File::open(folder.path()).unwrap();
        opened.set_modified(later).unwrap();
        let wake = Wake {
            stop: StopFlag::new().unwrap(),
            abort: StopFlag::new().unwrap(),
        };
        let found = find(&path, wanted, Some(&wake)).unwrap();
        assert!(found.file().is_some());
        wake.stop.raise();
        fs::remove_file(&path).unwrap();
        let found = find(&path, wanted, Some(&wake)).unwrap();
        assert!(matches!(found, Search::Stopped));
        let after = After {
            newest: wanted,
            written: SystemTime::UNIX_EPOCH,
            seen: SystemTime::UNIX_EPOCH,
            known: &[],
            open: &[],
        };
        let found = successors(&path, &after, 1, &wake).unwrap();
        assert!(found.is_none());
    }

    /// The files of `log`, created one after the other with these suffixes, as listings show them.
    fn siblings(folder: &Path, suffixes: &[&str]) -> Vec<Sibling> {
        let made = |suffix: &&str| {
            let path = folder.join(format!("log{suffix}"));
            fs::write(&path, suffix).unwrap();
            let metadata = fs::metadata(&path).unwrap();
            // sleep: times of birth differ only if the clock of the file system moves between them
            thread::sleep(Duration::from_millis(15));
            Sibling {
                path,
                identity: identity(&metadata),
                size: metadata.len(),
                written: metadata.modified().unwrap(),
            }
        };
        suffixes.iter().map(made).collect()
    }

    fn paths_of(found: Successors) -> (Vec<String>, bool) {
        let read = |mut file: File| io::read_to_string(&mut file).unwrap();
        (found.files.into_iter().map(read).collect(), found.has_gap)
    }

    /// A listing may lack a file that is being renamed, or have its old name. No file is taken
    /// before an older one because of that.
    #[test]
    fn no_file_is_taken_before_an_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut all = siblings(folder.path(), &[".4", ".3", ".2", ".1", ""]);
        let newest = all.remove(0);
        let after = After {
            newest: newest.identity,
            written: newest.written,
            seen: newest.written,
            known: &[],
            open: &[newest.identity],
        };
        let mut listed = vec![newest];
        listed.append(&mut all);
        let is_renamed = |sibling: &Sibling| sibling.path.ends_with("log.3");
        let without = || {
            let listing = siblings_of(&listed);
            listing
                .into_iter()
                .filter(|sibling| !is_renamed(sibling))
                .collect::<Vec<_>>()
        };
        let with_another_name = || {
            let mut listing = siblings_of(&listed);
            let renamed = listing.iter_mut().find(|sibling| is_renamed(sibling));
            renamed.unwrap().path = folder.path().join("log.9");
            listing
        };
        let collect = |listings: &[Vec<Sibling>], count_max, was_at_rest| {
            let mut collected = Collected::default();
            for listing in listings {
                collected.add(&path, listing, &after, count_max);
            }
            paths_of(collected.into_successors(was_at_rest))
        };
        let texts = |texts: &[&str]| {
            texts
                .iter()
                .map(|&text| text.to_owned())
                .collect::<Vec<_>>()
        };
        // It was found late, and there is room for one or two.
        let late = [without(), siblings_of(&listed)];
        assert_eq!(collect(&late, 1, true), (texts(&[".3"]), false));
        assert_eq!(collect(&late, 2, true), (texts(&[".3", ".2"]), false));
        // It was not found by the end of the search: later files wait for the next search.
        let missed = [with_another_name(), without()];
        assert_eq!(collect(&missed, 9, false), (texts(&[]), false));
        // It was removed.
        let rest = texts(&[".2", ".1", ""]);
        assert_eq!(collect(&missed, 9, true), (rest, true));
        let all = texts(&[".3", ".2", ".1", ""]);
        let found = [with_another_name(), siblings_of(&listed)];
        assert_eq!(collect(&found, 9, false), (all, false));
    }

    fn siblings_of(listed: &[Sibling]) -> Vec<Sibling> {
        let copied = |sibling: &Sibling| Sibling {
            path: sibling.path.clone(),
            ..*sibling
        };
        listed.iter().map(copied).collect()
    }

    /// If creation times are unknown or equal, the last writes decide; a file that was written
    /// before its predecessor is not left out.
    #[test]
    fn the_order_of_files_is_that_of_their_births() {
        let path = Path::new("folder/log");
        for (has_births, last, expected) in [
            (true, 1, &["log.3", "log.2", "log.1"][..]),
            (true, 2, &["log.2", "log.1"]),
            (true, 3, &["log.1"]),
            (true, 4, &[]),
            (false, 1, &["log.2", "log.1", "log.3"]),
            (false, 2, &["log.4", "log.2", "log.1"]),
            (false, 3, &["log.4", "log.1", "log.3"]),
            (false, 4, &["log.4", "log.3"]),
        ] {
            let written = [("log.4", 1), ("log.3", 9), ("log.2", 5), ("log.1", 5)];
            let siblings = (1..).zip(written).map(|(number, (name, written))| Sibling {
                path: Path::new("folder").join(name),
                identity: Identity {
                    device: 1,
                    inode: number,
                    born: if has_births { number } else { 0 },
                },
                size: 0,
                written: SystemTime::UNIX_EPOCH + Duration::from_secs(written),
            });
            let mut siblings: Vec<_> = siblings.collect();
            // A link to a file system without creation times.
            siblings.push(Sibling {
                path: PathBuf::from("folder/another"),
                identity: Identity {
                    device: 2,
                    inode: 1,
                    born: 0,
                },
                size: 0,
                written: SystemTime::UNIX_EPOCH,
            });
            let after = After {
                newest: siblings[last - 1].identity,
                written: siblings[last - 1].written,
                seen: SystemTime::UNIX_EPOCH,
                known: &[],
                open: &[],
            };
            let names: Vec<_> = choose(path, &siblings, &after)
                .iter()
                .map(|(_, sibling)| sibling.path.file_name().unwrap().to_str().unwrap())
                .collect();
            assert_eq!(names, expected, "{has_births} {last}");
        }
    }

    /// Whether the newest file exists, and whether others were compressed unread.
    #[test]
    fn archives_of_files_that_were_not_read_are_found() {
        let both = |has_newest, has_unread| Archives {
            has_newest,
            has_unread,
        };
        // Times in tenths of a second; the newest file was written at 55.
        for (listing, expected) in [
            (&[][..], both(false, false)),
            (&[("log.1", 55)], both(true, false)),
            (&[("log.2.gz", 40)], both(false, false)),
            // Its time without a fraction, and the time of the compression: it may be the archive.
            (&[("log.2.gz", 40), ("log.1.gz", 55)], both(true, false)),
            (&[("log.2.zst", 40), ("log.1.zst", 50)], both(true, false)),
            (&[("log.2.gz", 40), ("log.1.gz", 70)], both(true, false)),
            (&[("log.2.gz", 55), ("log.1.gz", 60)], both(true, true)),
            (&[("log-2.xz", 50), ("log-3.xz", 60)], both(true, true)),
            (&[("log.2.gz", 60), ("log.1.gz", 70)], both(true, true)),
            // It is being compressed, as is the previous one.
            (&[("log.1", 55), ("log.1.gz", 70)], both(true, false)),
            (&[("log.1", 55), ("log.2.gz", 70)], both(true, false)),
            (&[("log.2.gz", 55), ("other.1.gz", 60)], both(true, false)),
            // The previous one was written last at 58.
            (&[("log.3.gz", 58), ("log.2.gz", 55)], both(true, false)),
        ] {
            let time = |tenths: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(tenths * 100);
            let newest = Identity {
                device: 1,
                inode: 1,
                born: 1,
            };
            let siblings = (2..).zip(listing).map(|(inode, (name, written))| Sibling {
                path: Path::new("folder").join(name),
                identity: match *name {
                    "log.1" => newest,
                    _ => Identity { inode, ..newest },
                },
                size: 0,
                written: time(*written),
            });
            let siblings: Vec<_> = siblings.collect();
            let after = After {
                newest,
                written: time(55),
                seen: time(55),
                known: &[Known {
                    identity: Identity { inode: 0, ..newest },
                    size: 0,
                    written: time(58),
                }],
                open: &[],
            };
            let found = Archives::of(Path::new("folder/log"), &siblings, &after);
            assert_eq!(found, expected, "{listing:?}");
        }
    }

    /// The files of a rotation in the order in which they were written, then the one at the path.
    #[test]
    fn the_files_behind_one_come_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut files = Vec::new();
        for (age, name) in ["log.3", "log.2", "log.1", "log"].into_iter().enumerate() {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            // The first two were written in one moment.
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(age.max(1) as u64);
            file.set_modified(time).unwrap();
            files.push((identity(&file.metadata().unwrap()), time));
        }
        fs::write(folder.path().join("log.0.gz"), "").unwrap();
        let wake = Wake {
            stop: StopFlag::new().unwrap(),
            abort: StopFlag::new().unwrap(),
        };
        let read = |last: usize, known: &[Identity], count_max| {
            let (newest, written) = files[last];
            let known = known.iter().map(|identity| Known {
                identity: *identity,
                size: 0,
                written: SystemTime::UNIX_EPOCH,
            });
            let known: Vec<_> = known.collect();
            let after = After {
                newest,
                written,
                seen: written,
                known: &known,
                open: &[newest],
            };
            let found = successors(&path, &after, count_max, &wake);
            let found = found.unwrap().unwrap();
            let files = found.files.iter();
            let files: Vec<_> = files
                .map(|file| identity(&file.metadata().unwrap()))
                .collect();
            (files, found.has_gap)
        };
        let identities: Vec<_> = files.iter().map(|(identity, _)| *identity).collect();
        for last in 0..3 {
            let expected = (identities[last + 1..].to_vec(), false);
            assert_eq!(read(last, &identities[..=last], 9), expected, "{last}");
            // A run that begins in this file has read no other.
            assert_eq!(read(last, &[], 9), expected, "{last}");
            let expected = (vec![identities[last + 1]], false);
            assert_eq!(read(last, &[], 1), expected, "{last}");
        }
        // Another one may have been removed with it, if it was not compressed.
        fs::remove_file(folder.path().join("log.3")).unwrap();
        assert_eq!(read(0, &[], 9), (identities[1..].to_vec(), false));
        fs::remove_file(folder.path().join("log.0.gz")).unwrap();
        assert_eq!(read(0, &[], 9), (identities[1..].to_vec(), true));
        fs::remove_file(&path).unwrap();
        assert_eq!(read(2, &[], 9), (vec![], false));
    }
}
