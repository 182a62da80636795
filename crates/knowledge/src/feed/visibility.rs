//! The transactions that a snapshot of a server shows, from the text of `pg_current_snapshot()`.

use std::str::FromStr;

/// A snapshot: `xmin:xmax:xid,xid,…`.
///
/// `xmax` follows the newest transaction that has ended. Newer ones may be in progress, and are not
/// listed.
///
/// <https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SNAPSHOT>
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    xmin: u64,
    xmax: u64,
    /// The transactions in progress below `xmax`, in ascending order.
    in_progress: Vec<u64>,
    /// Transactions from here on had not begun when the snapshot was taken.
    next: u64,
}

impl Snapshot {
    /// That of a server which has had no transactions.
    pub(crate) const EMPTY: Self = Self {
        xmin: 0,
        xmax: 0,
        in_progress: Vec::new(),
        next: 0,
    };

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

    /// The same snapshot, with the lower 32 bits of the identifier that the server gave to no
    /// transaction before the snapshot was taken.
    pub(crate) fn with_next(self, xid: u32) -> Self {
        let ahead = xid.wrapping_sub(self.xmax as u32);
        let next = self.xmax.saturating_add(ahead.into());
        Self { next, ..self }
    }

    /// Whether all transactions that were in progress at `earlier` have ended.
    pub(crate) fn is_after_all_of(&self, earlier: &Self) -> bool {
        if self.xmin >= earlier.next {
            return true;
        }
        // Were it smaller, some of them could be in progress and not be listed.
        self.xmax >= earlier.next
            && !self.in_progress.iter().any(|xid| {
                *xid < earlier.next
                    && (*xid >= earlier.xmax || earlier.in_progress.binary_search(xid).is_ok())
            })
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
        let xmax = number(xmax)?;
        let snapshot = Self {
            xmin: number(xmin)?,
            xmax,
            in_progress,
            next: xmax,
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

    /// A server on which 727 alone is in progress gives `727:727:`.
    #[test]
    fn issue_15_the_newest_transactions_of_an_earlier_snapshot_are_not_listed() {
        let first = snapshot("727:727:").with_next(728);
        assert!(!first.is_after_all_of(&first), "727 is in progress");
        for (text, has_ended) in [
            ("727:727:", false),
            ("727:729:727", false),
            ("727:729:727,728", false),
            ("728:729:728", true),
            ("728:728:", true),
        ] {
            assert_eq!(snapshot(text).is_after_all_of(&first), has_ended, "{text}");
        }
        let first = snapshot("720:727:720").with_next(730);
        for (text, has_ended) in [
            ("728:731:728", false),
            ("720:735:720", false),
            ("730:731:730", true),
            ("721:735:731", true),
            ("721:729:", false),
        ] {
            assert_eq!(snapshot(text).is_after_all_of(&first), has_ended, "{text}");
        }
        let epoch = 7_u64 << 32;
        let first = snapshot(&format!("{0}:{0}:", epoch - 2)).with_next(3);
        assert_eq!(first.next, epoch + 3);
        assert!(snapshot("9:9:").with_next(9).next == 9);
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
