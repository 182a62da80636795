//! Notices of a server, kept until they are taken.

use std::collections::VecDeque;

use lookaside_wire::postgres::NoticeResponse;

/// The number of notices that are kept, and their size in bytes. A script can produce millions, and
/// a caller that does not take them must not run out of memory.
const COUNT_MAX: usize = 1_000;
const SIZE_MAX: usize = 1 << 20;

/// Warnings and other notices of a server, in the order of arrival.
///
/// They may arrive at any time, and most belong to the last request. The last thousand are kept, of
/// at most a mebibyte.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    kept: VecDeque<NoticeResponse<'static>>,
    size: usize,
    lost_count: u64,
}

impl Notices {
    /// The number of earlier notices that were dropped.
    pub fn lost_count(&self) -> u64 {
        self.lost_count
    }

    /// The notices.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &NoticeResponse<'static>> {
        self.kept.iter()
    }

    pub(super) fn push(&mut self, notice: NoticeResponse<'_>) {
        self.size += size(&notice);
        self.kept.push_back(notice.into_owned());
        while self.kept.len() > COUNT_MAX || self.size > SIZE_MAX {
            let Some(first) = self.kept.pop_front() else {
                return;
            };
            self.size -= size(&first);
            self.lost_count += 1;
        }
    }
}

fn size(notice: &NoticeResponse<'_>) -> usize {
    let fields = notice.fields();
    fields.map(|(_, text)| text.count_bytes() + 2).sum()
}
