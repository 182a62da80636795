//! What `feed setup` has changed, as a comment on the publication, so that `feed drop` undoes exactly
//! that.

use serde::{Deserialize, Serialize};

use super::server::Identity;
use crate::failure::Failure;

/// Comments that begin with this contain a record.
const BEGIN: &str = "changed by lookaside feed setup, undone by lookaside feed drop: ";

/// The format that this version writes.
const VERSION: u32 = 1;

/// What was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    version: u32,
    /// Whether the publication did not exist before.
    pub(super) created: bool,
    /// The comment that the publication had before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) comment: Option<String>,
    /// The tables that were added to the publication.
    pub(super) tables: Vec<String>,
    /// Tables whose replica identity is now `full`, and what it was before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) identities: Vec<(String, Identity)>,
    /// The users that were given the right to replicate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) replication: Vec<String>,
    /// The users that were given the right to connect to the database.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) connect: Vec<String>,
}

impl Record {
    /// Nothing was changed yet. `comment` is that of the publication, if it exists.
    pub(super) fn new(created: bool, comment: Option<String>) -> Self {
        Self {
            version: VERSION,
            created,
            comment,
            tables: Vec::new(),
            identities: Vec::new(),
            replication: Vec::new(),
            connect: Vec::new(),
        }
    }

    /// What concerns some of the tables, and the rest; no rest if it has no table.
    pub(super) fn split(self, is_wanted: impl Fn(&str) -> bool) -> (Self, Option<Self>) {
        let (mut wanted, mut rest) = (self.clone(), self);
        wanted.tables.retain(|name| is_wanted(name));
        rest.tables.retain(|name| !is_wanted(name));
        if rest.tables.is_empty() {
            return (wanted, None);
        }
        wanted.identities.retain(|(name, _)| is_wanted(name));
        rest.identities.retain(|(name, _)| !is_wanted(name));
        (wanted, Some(rest))
    }

    /// The record in a comment; `None` if it is another comment.
    pub(super) fn read(comment: &str) -> Result<Option<Self>, Failure> {
        let Some(json) = comment.strip_prefix(BEGIN) else {
            return Ok(None);
        };
        let damaged = |problem: &str| {
            Failure::new(format!(
                "the comment on the publication, in which `feed setup` records its changes, {problem}"
            ))
            .with_excerpt(format!("  {comment}"))
            .with_help(
                "undo the changes by hand; `comment on publication … is null` removes the record",
            )
        };
        let record: Self = serde_json::from_str(json).map_err(|_| damaged("is damaged"))?;
        match record.version {
            VERSION => Ok(Some(record)),
            _ => Err(damaged("is of another version of lookaside")),
        }
    }

    /// The comment.
    pub(super) fn comment_text(&self) -> String {
        let json = serde_json::to_string(self).expect("texts and lists can be written");
        format!("{BEGIN}{json}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut record = Record::new(false, Some("it's \"mine\" \\".to_owned()));
        record.tables.push("public.\"O'Neill\"".to_owned());
        record.identities = vec![
            ("public.a".to_owned(), Identity::Default),
            ("public.b".to_owned(), Identity::Index("b \"x\"".to_owned())),
        ];
        record.replication.push("app".to_owned());
        let read = Record::read(&record.comment_text()).unwrap();
        assert_eq!(read.as_ref(), Some(&record));
        assert_eq!(record.clone().split(|_| true), (record.clone(), None));
        record.tables.push("public.a".to_owned());
        let (wanted, rest) = record.clone().split(|name| name == "public.a");
        let rest = rest.unwrap();
        assert_eq!(wanted.tables, ["public.a"]);
        assert_eq!(rest.tables, record.tables[..1]);
        assert_eq!(wanted.identities, record.identities[..1]);
        assert_eq!(rest.identities, record.identities[1..]);
        assert_eq!(rest.replication, record.replication);
        assert_eq!(Record::read("our tables").unwrap(), None);
        for damaged in ["{", "{\"version\":2,\"created\":true,\"tables\":[]}"] {
            Record::read(&format!("{BEGIN}{damaged}")).unwrap_err();
        }
    }
}
