//! When an output file is rotated.

use std::num::NonZero;
use std::time::{Duration, SystemTime};

/// When an output file is rotated.
///
/// ```
/// use std::num::NonZero;
/// use std::time::Duration;
///
/// use lookaside_stream::{Extent, Rotation, Sink};
///
/// let folder = tempfile::tempdir()?;
/// let sink = Sink::file(&folder.path().join("out.json"), Extent::Endless)?.rotating(Rotation {
///     size: NonZero::new(100 << 20),
///     every: Some(Duration::from_secs(3600)),
///     keep: NonZero::new(24),
/// })?;
/// # drop(sink);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Before a write that would make the file larger than this number of bytes. A file is larger
    /// only if its first write is.
    pub size: Option<NonZero<u64>>,
    /// At the multiples of this time since 1970 in UTC: one hour means at each full hour. At least a
    /// second.
    pub every: Option<Duration>,
    /// How many rotated files are kept; by default all. Older ones are removed after a rotation.
    pub keep: Option<NonZero<usize>>,
}

impl Rotation {
    /// The first time after `time` at which a file is rotated.
    pub(super) fn due_after(&self, time: SystemTime) -> Option<SystemTime> {
        let every = self.every?.as_nanos();
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos();
        let due = (since / every + 1) * every;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos_u128(due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_rotated_at_multiples_of_a_time() {
        let hourly = Rotation {
            every: Some(Duration::from_secs(3600)),
            ..Rotation::default()
        };
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for (time, expected) in [
            (at(0), 3600),
            (at(3599), 3600),
            (at(3600), 7200),
            (at(3600) - Duration::from_nanos(1), 3600),
        ] {
            assert_eq!(hourly.due_after(time), Some(at(expected)));
        }
        assert_eq!(Rotation::default().due_after(at(0)), None);
    }
}
