//! Notices of a server, kept until they are taken.

use std::collections::VecDeque;

use lookaside_wire::postgres::NoticeResponse;

/// How many remarks are kept, and how many bytes of them. Each function of a script can make
/// millions, and a caller that does not take them must not pay with memory.
const COUNT_MAX: usize = 1_000;
const SIZE_MAX: usize = 1 << 20;

/// Warnings and other remarks of a server, in the order in which they came.
///
/// They come at any time, and most belong to what was asked last. The last thousand are kept, of at
/// most a mebibyte.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    kept: VecDeque<NoticeResponse<'static>>,
    size: usize,
    lost_count: u64,
}

impl Notices {
    /// How many came before these, and were not kept.
    pub fn lost_count(&self) -> u64 {
        self.lost_count
    }

    /// The remarks.
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
