//! The transactions that a snapshot of a server shows, from the text of `pg_current_snapshot()`.

use std::str::FromStr;

/// A snapshot: `xmin:xmax:xid,xid,…`.
///
/// <https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SNAPSHOT>
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    xmin: u64,
    xmax: u64,
    /// The transactions in progress, in ascending order.
    in_progress: Vec<u64>,
}

impl Snapshot {
    /// Whether it shows a committed transaction, of which the log has the lower 32 bits of its
    /// identifier.
    pub(crate) fn shows(&self, xid: u32) -> bool {
        // Identifiers in use are within 2^31 of each other, so the difference tells the order.
        let ahead = xid.wrapping_sub(self.xmax as u32) as i32;
        if ahead >= 0 {
            return false;
        }
        let full = self.xmax.wrapping_sub(u64::from(ahead.unsigned_abs()));
        self.in_progress.binary_search(&full).is_err()
    }

    /// Whether all transactions that were in progress at `earlier` have ended.
    pub(crate) fn is_after_all_of(&self, earlier: &Self) -> bool {
        self.xmin >= earlier.xmax
            || earlier
                .in_progress
                .iter()
                .all(|xid| *xid < self.xmin || self.in_progress.binary_search(xid).is_err())
    }
}

impl FromStr for Snapshot {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split(':');
        let (Some(xmin), Some(xmax), Some(list), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(());
        };
        let number = |text: &str| text.parse::<u64>().map_err(drop);
        let in_progress: Vec<u64> = match list {
            "" => Vec::new(),
            list => list.split(',').map(number).collect::<Result<_, ()>>()?,
        };
        let snapshot = Self {
            xmin: number(xmin)?,
            xmax: number(xmax)?,
            in_progress,
        };
        let is_ordered = snapshot.xmin <= snapshot.xmax
            && snapshot.in_progress.is_sorted_by(|one, next| one < next)
            && (snapshot.in_progress.iter())
                .all(|xid| (snapshot.xmin..snapshot.xmax).contains(xid));
        is_ordered.then_some(snapshot).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        text.parse().unwrap()
    }

    #[test]
    fn a_snapshot_shows_what_has_ended() {
        let it = snapshot("100:110:100,105");
        for (xid, is_shown) in [
            (3, true),
            (99, true),
            (100, false),
            (101, true),
            (105, false),
            (109, true),
            (110, false),
            (111, false),
            (2_000_000_000, false),
        ] {
            assert_eq!(it.shows(xid), is_shown, "{xid}");
        }
        assert!(!snapshot("19441:19441:").shows(19441));
    }

    #[test]
    fn identifiers_wrap_around() {
        let epoch = 7_u64 << 32;
        let it = snapshot(&format!("{}:{}:{}", epoch - 5, epoch + 5, epoch - 3));
        assert!(it.shows(u32::MAX - 3));
        assert!(!it.shows(u32::MAX - 2), "in progress: 2^32 - 3");
        assert!(it.shows(u32::MAX));
        assert!(it.shows(4));
        assert!(!it.shows(5));
    }

    #[test]
    fn transactions_of_an_earlier_snapshot_have_ended() {
        let first = snapshot("100:110:100,105");
        for (text, has_ended) in [
            ("100:110:100,105", false),
            ("105:112:105", false),
            ("110:110:", true),
            ("106:115:106,112", true),
            ("100:115:100,112", false),
        ] {
            assert_eq!(snapshot(text).is_after_all_of(&first), has_ended, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "1",
            "1:2",
            "1:2:3:4",
            "2:1:",
            "1:5:7",
            "1:5:3,2",
            "1:5:3,3",
            "a:5:",
            "1:5:x",
            "1:5:,",
            "-1:5:",
            "1:99999999999999999999:",
        ] {
            assert_eq!(text.parse::<Snapshot>(), Err(()), "{text}");
        }
    }
}
