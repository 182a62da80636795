//! Packets: up to 16 MiB after a header of four bytes; longer messages consist of several packets.
//!
//! ```text
//!   ┌────────────┬──────────┬─────────┐
//!   │ size  (LE) │ sequence │ payload │     a size of ff ff ff: the next packet goes on with it
//!   │     3      │    1     │         │
//!   └────────────┴──────────┴─────────┘
//! ```
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html>

use crate::error::{ProtocolError, Reason, RequestError};

pub(crate) const HEADER_SIZE: usize = 4;

/// The maximal payload of a packet. A packet of this size is followed by another one, possibly
/// empty.
pub(crate) const PAYLOAD_SIZE_MAX: usize = 0xff_ffff;

/// A complete message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The number of its first packet.
    pub(crate) sequence: u8,
    /// How many packets it has.
    pub(crate) packet_count: usize,
    /// The size of all payloads.
    pub(crate) payload_size: usize,
}

impl Frame {
    /// An empty message, in place of one that was already consumed.
    pub(crate) const EMPTY: Self = Self {
        sequence: 0,
        packet_count: 0,
        payload_size: 0,
    };

    /// Finds the first message in the received bytes, once it is complete.
    ///
    /// Its size is checked with each header, so that a message that would be refused is not
    /// awaited.
    pub(crate) fn find(
        received: &[u8],
        check_size: impl Fn(usize) -> Result<(), Reason>,
    ) -> Result<Option<Self>, ProtocolError> {
        let error = |offset, reason| Err(ProtocolError::new("packet", offset, reason));
        let mut rest = received;
        let mut frame = Self {
            sequence: 0,
            packet_count: 0,
            payload_size: 0,
        };
        loop {
            let Some((&[low, middle, high, sequence], payload)) =
                rest.split_first_chunk::<HEADER_SIZE>()
            else {
                return Ok(None);
            };
            let size = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
            if frame.packet_count == 0 {
                frame.sequence = sequence;
            } else {
                let expected = frame.sequence_behind();
                if sequence != expected {
                    let found = sequence;
                    return error(3, Reason::Sequence { found, expected });
                }
            }
            frame.packet_count += 1;
            frame.payload_size += size;
            if let Err(reason) = check_size(frame.payload_size) {
                return error(0, reason);
            }
            match payload.get(size..) {
                None => return Ok(None),
                Some(_) if size < PAYLOAD_SIZE_MAX => return Ok(Some(frame)),
                Some(behind) => rest = behind,
            }
        }
    }

    /// The number that the next packet must have.
    pub(crate) fn sequence_behind(&self) -> u8 {
        self.sequence.wrapping_add(self.packet_count as u8)
    }

    /// The number of bytes that `join` leaves before the payload.
    pub(crate) fn head_size(&self) -> usize {
        self.packet_count * HEADER_SIZE
    }

    /// Joins the payloads, so that they end where the last one ends.
    pub(crate) fn join(&self, received: &mut [u8]) {
        // The last payload is already in place; the others are moved from last to first, so each
        // byte is moved once, by a few bytes.
        for index in (0..self.packet_count - 1).rev() {
            let start = index * (PAYLOAD_SIZE_MAX + HEADER_SIZE) + HEADER_SIZE;
            let head_count_behind = self.packet_count - 1 - index;
            let target = start + head_count_behind * HEADER_SIZE;
            received.copy_within(start..start + PAYLOAD_SIZE_MAX, target);
        }
    }
}

/// Writes a message whose first packet has the number `sequence`, and returns how many packets it
/// has. If its payload cannot be written, `output` is unchanged.
pub(crate) fn write_packets(
    output: &mut Vec<u8>,
    sequence: u8,
    size_max: usize,
    payload: impl FnOnce(&mut Vec<u8>) -> Result<(), RequestError>,
) -> Result<usize, RequestError> {
    let start = output.len();
    output.extend_from_slice(&[0; HEADER_SIZE]);
    let written = payload(output).and_then(|()| {
        let size = output.len() - start - HEADER_SIZE;
        if size <= size_max {
            Ok(size)
        } else {
            Err(RequestError::TooLong)
        }
    });
    match written {
        Ok(size) if size < PAYLOAD_SIZE_MAX => {
            write_header(output, start, size, sequence);
            Ok(1)
        }
        Ok(size) => Ok(split(output, start, size, sequence)),
        Err(error) => {
            output.truncate(start);
            Err(error)
        }
    }
}

/// Inserts the headers of all packets except the first.
fn split(output: &mut Vec<u8>, start: usize, size: usize, sequence: u8) -> usize {
    let packet_count = size / PAYLOAD_SIZE_MAX + 1;
    output.resize(output.len() + (packet_count - 1) * HEADER_SIZE, 0);
    for index in (0..packet_count).rev() {
        let source = start + HEADER_SIZE + index * PAYLOAD_SIZE_MAX;
        let header = source - HEADER_SIZE + index * HEADER_SIZE;
        let payload_size = PAYLOAD_SIZE_MAX.min(size - index * PAYLOAD_SIZE_MAX);
        output.copy_within(source..source + payload_size, header + HEADER_SIZE);
        write_header(
            output,
            header,
            payload_size,
            sequence.wrapping_add(index as u8),
        );
    }
    packet_count
}

fn write_header(output: &mut [u8], start: usize, size: usize, sequence: u8) {
    let [low, middle, high, ..] = size.to_le_bytes();
    output[start..start + HEADER_SIZE].copy_from_slice(&[low, middle, high, sequence]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_any_size_come_back_as_they_were() {
        for size in [
            0,
            1,
            PAYLOAD_SIZE_MAX - 1,
            PAYLOAD_SIZE_MAX,
            PAYLOAD_SIZE_MAX + 1,
            2 * PAYLOAD_SIZE_MAX,
            2 * PAYLOAD_SIZE_MAX + 5,
        ] {
            let payload: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
            let mut bytes = b"before".to_vec();
            let packet_count = write_packets(&mut bytes, 255, usize::MAX, |output| {
                output.extend_from_slice(&payload);
                Ok(())
            });
            let packet_count = packet_count.unwrap();
            assert_eq!(packet_count, size / PAYLOAD_SIZE_MAX + 1);
            let received = &mut bytes[6..];
            for cut in [3, received.len() - 1] {
                assert_eq!(Frame::find(&received[..cut], |_| Ok(())), Ok(None));
            }
            let frame = Frame::find(received, |_| Ok(())).unwrap().unwrap();
            let expected = Frame {
                sequence: 255,
                packet_count,
                payload_size: size,
            };
            assert_eq!(frame, expected);
            frame.join(received);
            assert!(received[frame.head_size()..] == payload);
        }
    }

    #[test]
    fn what_is_too_long_is_refused_before_it_came() {
        let check = |size| match size {
            0..=10 => Ok(()),
            size => Err(Reason::TooLong { size, size_max: 10 }),
        };
        let error = Frame::find(b"\x0b\0\0\x01", check).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Limit);
        let mut output = b"before".to_vec();
        let written = write_packets(&mut output, 0, 3, |output| {
            output.extend_from_slice(b"four");
            Ok(())
        });
        assert_eq!(written, Err(RequestError::TooLong));
        assert_eq!(output, b"before");
    }
}
