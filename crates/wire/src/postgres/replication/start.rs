//! START_REPLICATION: the command that begins a stream.
//!
//! <https://www.postgresql.org/docs/current/protocol-logical-replication.html#PROTOCOL-LOGICAL-REPLICATION-PARAMS>

use super::{Lsn, SlotName};
use crate::postgres::Format;

/// The options of a stream.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// The format of values. `Binary` by default, which needs no parsing of text; types without a
    /// function for it are sent as text all the same. It needs PostgreSQL 14.
    pub format: Format,
    /// Whether messages of `pg_logical_emit_message` are sent. Not by default, because they are not
    /// changes of rows. It needs PostgreSQL 14.
    pub messages: bool,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            format: Format::Binary,
            messages: false,
        }
    }
}

/// The command that streams changes of the tables in `publications`, by protocol version 1 of
/// pgoutput, from the later of `start` and what the slot has confirmed; with [`Lsn::INVALID`], from
/// the latter. It is answered by [`Event::CopyBoth`](crate::postgres::Event::CopyBoth), and must be
/// the last queued request.
///
/// Names are quoted; a NUL in one is refused when the command is queued. If a publication does not
/// exist, PostgreSQL 15 fails at the first change, and PostgreSQL 18 leaves it out with a
/// [`Event::Notice`](crate::postgres::Event::Notice).
///
/// ```
/// use lookaside_wire::postgres::replication::{Lsn, SlotName, StreamOptions, start_replication};
///
/// let slot = SlotName::new("feed")?;
/// assert_eq!(
///     start_replication(&slot, Lsn::INVALID, &["shop", "Amy's"], &StreamOptions::default()),
///     r#"START_REPLICATION SLOT "feed" LOGICAL 0/0 (proto_version '1', publication_names '"shop","Amy''s"', binary 'true')"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn start_replication(
    slot: &SlotName,
    start: Lsn,
    publications: &[&str],
    options: &StreamOptions,
) -> String {
    let slot = slot.quoted();
    let names = literal(&identifiers(publications));
    let mut command = format!(
        "START_REPLICATION SLOT {slot} LOGICAL {start} \
         (proto_version '1', publication_names {names}"
    );
    // Servers before version 14 do not know these options, so they are left out if not needed.
    if options.format == Format::Binary {
        command.push_str(", binary 'true'");
    }
    if options.messages {
        command.push_str(", messages 'true'");
    }
    command.push(')');
    command
}

/// A list of quoted identifiers. Without quotes, the server would change them to lower case.
fn identifiers(names: &[&str]) -> String {
    let quoted: Vec<String> = names
        .iter()
        .map(|name| format!("\"{}\"", name.replace('"', "\"\"")))
        .collect();
    quoted.join(",")
}

/// A literal of a replication command, in which only `'` has a meaning.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(publications: &[&str], options: &StreamOptions, expected: &str) {
        let slot = SlotName::new("s").unwrap();
        let command = start_replication(&slot, Lsn(0x1_0000_002a), publications, options);
        let expected = format!("START_REPLICATION SLOT \"s\" LOGICAL 1/2A ({expected})");
        assert_eq!(command, expected);
    }

    #[test]
    fn options_are_named_if_asked_for() {
        for (format, messages, expected) in [
            (Format::Text, false, ""),
            (Format::Binary, false, ", binary 'true'"),
            (Format::Text, true, ", messages 'true'"),
            (Format::Binary, true, ", binary 'true', messages 'true'"),
        ] {
            let expected = format!("proto_version '1', publication_names '\"p\"'{expected}");
            check(&["p"], &StreamOptions { format, messages }, &expected);
        }
    }

    #[test]
    fn names_are_quoted_twice() {
        let text = StreamOptions {
            format: Format::Text,
            messages: false,
        };
        for (names, expected) in [
            (&["P", "a b"][..], r#"'"P","a b"'"#),
            (&["a,b"], r#"'"a,b"'"#),
            (&["a\"b"], r#"'"a""b"'"#),
            (&["a'b"], r#"'"a''b"'"#),
            (&["'\"", "\"'"], r#"'"''""","""''"'"#),
            (&["a\\'"], r#"'"a\''"'"#),
            (&[""], r#"'""'"#),
            (&[], "''"),
        ] {
            let expected = format!("proto_version '1', publication_names {expected}");
            check(names, &text, &expected);
        }
    }
}
