//! Relation: a table and its columns.
//!
//! <https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>, `Relation`

use std::ffi::CStr;
use std::fmt;
use std::iter::FusedIterator;

use super::namespace::namespace;
use crate::error::{ProtocolError, Reason};
use crate::postgres::Oid;
use crate::postgres::replication::flags::flag;
use crate::read::Reader;

const MESSAGE: &str = "Relation";

/// A table, as it was at the time of the changes that follow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Relation<'a> {
    /// The table's id, which the changes refer to.
    pub oid: Oid,
    /// The namespace; `pg_catalog` if the message has none.
    pub namespace: &'a CStr,
    /// The name.
    pub name: &'a CStr,
    /// Which old values the log has of changed and deleted rows.
    pub replica_identity: ReplicaIdentity,
    column_count: u16,
    columns: &'a [u8],
}

/// Which values of changed and deleted rows are in the log, `pg_class.relreplident`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaIdentity {
    /// Those of the primary key, if there is one.
    Default,
    /// None; the server then refuses to change and to delete published rows.
    Nothing,
    /// All of them.
    Full,
    /// Those of an index that was chosen.
    Index,
}

/// A published column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelationColumn<'a> {
    /// Whether it is part of the key by which changed and deleted rows are identified. All columns
    /// are if the replica identity is full.
    pub is_key: bool,
    /// The name.
    pub name: &'a CStr,
    /// The type.
    pub type_oid: Oid,
    /// The type modifier, as in `varchar(20)`; −1 if there is none.
    pub type_modifier: i32,
}

impl<'a> Relation<'a> {
    pub(super) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let oid = Oid(reader.u32_be()?);
        let namespace = namespace(&mut reader)?;
        let name = reader.c_str()?;
        let replica_identity = ReplicaIdentity::decode(&mut reader)?;
        let column_count = reader.count_be()?;
        let columns = reader.unread();
        for _ in 0..column_count {
            RelationColumn::decode(&mut reader)?;
        }
        reader.finish()?;
        Ok(Self {
            oid,
            namespace,
            name,
            replica_identity,
            column_count,
            columns,
        })
    }

    /// The published columns, in the order of the values of a row. Generated columns are not among
    /// them, unless the publication says so.
    pub fn columns(&self) -> RelationColumns<'a> {
        RelationColumns {
            count: self.column_count,
            reader: Reader::new(MESSAGE, self.columns),
        }
    }
}

impl ReplicaIdentity {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let before = *reader;
        match reader.u8()? {
            b'd' => Ok(Self::Default),
            b'n' => Ok(Self::Nothing),
            b'f' => Ok(Self::Full),
            b'i' => Ok(Self::Index),
            byte => Err(before.error(Reason::UnknownValue {
                what: "replica identity",
                value: byte.into(),
            })),
        }
    }
}

impl<'a> RelationColumn<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, ProtocolError> {
        Ok(Self {
            is_key: flag(reader, "set of flags")?,
            name: reader.c_str()?,
            type_oid: Oid(reader.u32_be()?),
            type_modifier: reader.i32_be()?,
        })
    }
}

impl fmt::Debug for Relation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relation")
            .field("oid", &self.oid)
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("replica_identity", &self.replica_identity)
            .field("columns", &self.columns())
            .finish()
    }
}

/// The columns of a table.
#[derive(Clone)]
pub struct RelationColumns<'a> {
    count: u16,
    reader: Reader<'a>,
}

impl<'a> Iterator for RelationColumns<'a> {
    type Item = RelationColumn<'a>;

    fn next(&mut self) -> Option<RelationColumn<'a>> {
        self.count = self.count.checked_sub(1)?;
        let column = RelationColumn::decode(&mut self.reader);
        Some(column.expect("the columns were read when the message was decoded"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count.into(), Some(self.count.into()))
    }
}

impl ExactSizeIterator for RelationColumns<'_> {}
impl FusedIterator for RelationColumns<'_> {}

impl fmt::Debug for RelationColumns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for column in self.clone() {
            let key = if column.is_key { "key " } else { "" };
            list.entry(&format_args!(
                "{key}{:?} {} {}",
                column.name, column.type_oid.0, column.type_modifier
            ));
        }
        list.finish()
    }
}
