//! How messages become events.

/// How the payload of a message is split into events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageFraming {
    /// A message is one event, also if it contains line ends.
    #[default]
    Message,
    /// Each line of a message that is not empty is an event.
    Lines,
}

/// What is done with a message whose payload is null, which deletes a key of a compacted topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnNull {
    /// It is acknowledged without a result.
    #[default]
    Skip,
    /// It is written with its key, without being transformed.
    Forward,
}

impl MessageFraming {
    /// Calls `event` for each event of a payload.
    pub(crate) fn split<'a>(self, payload: &'a [u8], mut event: impl FnMut(&'a [u8])) {
        match self {
            Self::Message => event(payload),
            Self::Lines => payload
                .split(|byte| *byte == b'\n')
                .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
                .filter(|line| !line.is_empty())
                .for_each(event),
        }
    }
}
