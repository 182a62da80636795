//! Messages that are processed without an event: column definitions, and rows that cannot be
//! decoded.

use super::{Dialogue, Phase, is_rows_end};
use crate::error::{ProtocolError, Reason};
use crate::mysql::connection::metadata::{ColumnsState, Described, Owner, Step};
use crate::mysql::connection::queue::{RequestKind, Waiting};
use crate::mysql::packets::{ERR, FIRST_SEQUENCE, LOCAL_INFILE, OK};
use crate::mysql::{Capabilities, Row, RowFormat};
use crate::read::Reader;

impl Dialogue {
    /// Processes a message that has no event: definitions, and rows that cannot be decoded. Returns
    /// `false` if it must be reported.
    pub(in crate::mysql::connection) fn absorbs(
        &mut self,
        payload: &[u8],
    ) -> Result<bool, ProtocolError> {
        if self.login.is_some() {
            return Ok(false);
        }
        let Some((_, waiting)) = self.queue.head() else {
            return Ok(false);
        };
        let first = payload.first().copied();
        if first == Some(ERR) {
            return Ok(false);
        }
        let capabilities = self.capabilities;
        let described = match (self.phase, waiting.kind) {
            (Phase::Describing(step), _) => {
                let body = Reader::new("column definition", payload);
                let size_max = self.message_size_max;
                self.metadata.step(step, body, capabilities, size_max)?
            }
            (Phase::Fresh, RequestKind::Prepare) if first == Some(OK) => {
                let body = Reader::new("COM_STMT_PREPARE_OK", payload);
                self.metadata.prepared(body, capabilities)?
            }
            (Phase::Fresh, RequestKind::Query | RequestKind::Execute)
                if !matches!(first, Some(OK | LOCAL_INFILE) | None) =>
            {
                let owner = match self.is_first_result {
                    true => self.metadata.owner(waiting.kind, waiting.statement),
                    false => Owner::Further,
                };
                let body = Reader::new("column count", payload);
                self.metadata.result(body, owner, capabilities)?
            }
            (Phase::Fresh, RequestKind::Fetch) => {
                self.fetch(waiting, payload)?;
                return Ok(self.absorbs_row(payload));
            }
            (Phase::Rows { .. } | Phase::Unreadable, _) => return Ok(self.absorbs_row(payload)),
            _ => return Ok(false),
        };
        Ok(self.described(described))
    }

    /// The expected definitions if they are unchanged, as long as none was received: they need not
    /// be processed one by one.
    pub(in crate::mysql::connection) fn known_packets(&self) -> Option<&[u8]> {
        match self.phase {
            Phase::Describing(step) if self.sequence == Some(FIRST_SEQUENCE) => {
                self.metadata.known_packets(step)
            }
            _ => None,
        }
    }

    /// Processes the packets of [`known_packets`](Self::known_packets) at once. Returns `false` if
    /// that must be reported.
    pub(in crate::mysql::connection) fn absorb_known(&mut self) -> Result<bool, ProtocolError> {
        let Phase::Describing(step @ Step::Definitions { left, .. }) = self.phase else {
            panic!("what is known is described");
        };
        self.sequence = Some(FIRST_SEQUENCE.wrapping_add(left as u8));
        let described = self.metadata.all_known(step, self.capabilities)?;
        Ok(self.described(described))
    }

    /// Whether there is nothing to report.
    fn described(&mut self, described: Described) -> bool {
        self.phase = match described {
            Described::More(step) => Phase::Describing(step),
            Described::Prepared(ok) => Phase::Prepared(ok),
            Described::Columns(ColumnsState::Unknown, Some(eof)) if eof.status.is_cursor_open() => {
                Phase::CursorOpen(eof)
            }
            Described::Columns(ColumnsState::Unknown, _) => Phase::Unreadable,
            Described::Columns(state, eof) => Phase::Columns(state, eof),
        };
        matches!(self.phase, Phase::Describing(_) | Phase::Unreadable)
    }

    /// The rows of a cursor have the columns of its statement.
    fn fetch(&mut self, waiting: Waiting, payload: &[u8]) -> Result<(), ProtocolError> {
        let can_leave_out = self.can_leave_out();
        self.phase = match self.metadata.fetch(waiting.statement) {
            true if can_leave_out => Phase::Rows {
                columns: ColumnsState::LeftOut,
            },
            true => Phase::Rows {
                columns: ColumnsState::Same,
            },
            false if can_leave_out || is_rows_end(payload) => Phase::Unreadable,
            false => return Err(ProtocolError::new("row", 0, Reason::MetadataMissing)),
        };
        Ok(())
    }

    pub(super) fn can_leave_out(&self) -> bool {
        self.capabilities
            .contains(Capabilities::OPTIONAL_RESULTSET_METADATA)
    }

    /// Whether a row cannot be decoded.
    fn absorbs_row(&mut self, payload: &[u8]) -> bool {
        if is_rows_end(payload) {
            return false;
        }
        if let Phase::Rows {
            columns: ColumnsState::LeftOut,
        } = self.phase
            && self.can_leave_out()
            && self.row(payload).is_err()
        {
            self.phase = Phase::Unreadable;
        }
        matches!(self.phase, Phase::Unreadable)
    }

    pub(super) fn row<'a>(&'a self, payload: &'a [u8]) -> Result<Row<'a>, ProtocolError> {
        let format = match self.queue.head() {
            Some((_, waiting)) if waiting.kind == RequestKind::Query => RowFormat::Text,
            _ => RowFormat::Binary,
        };
        let columns = self.metadata.current();
        let columns = columns.expect("rows come when their columns are known");
        Row::decode(Reader::new("row", payload), columns, format)
    }
}
