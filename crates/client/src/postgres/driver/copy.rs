//! The data of a streamed COPY.
//!
//! Data for the server waits in the pipe of the copy until the output is written, so that the
//! output holds no more than the pipe does. Data from the server is put into the pipe as it
//! arrives; while that is full, the owner of the socket does not read.

use lookaside_wire::postgres::Connection;

use super::COPY_SIZE;
use super::session::ServerSession;
use crate::copy::Taken;

impl ServerSession {
    /// Queues what there is for a server that waits for data.
    pub(super) fn send_copy(&mut self, connection: &mut Connection) {
        let Some(copy) = self.copy.as_ref().filter(|_| self.is_sending) else {
            return;
        };
        // The server may have ended it: then the pipe is of no use any more.
        let is_open = match copy.take() {
            Taken::Data(data) => {
                let mut parts = data.chunks(COPY_SIZE);
                parts.all(|part| connection.copy_data(part).is_ok())
            }
            Taken::Nothing => true,
            Taken::End => {
                let _ = connection.copy_done();
                false
            }
            Taken::GivenUp => {
                let _ = connection.copy_fail("the client has given the copy up");
                false
            }
        };
        if !is_open {
            self.is_sending = false;
        }
    }

    /// The COPY is over, one way or the other.
    pub(super) fn end_copy(&mut self) {
        self.copy = None;
        self.is_sending = false;
    }
}
