//! Keys: the same values from the parameters of a lookup and from a row of the change feed.
//!
//! A parameter is brought to the canonical form of its family by the same code that encodes it for
//! the server, so `7` and `'7'` are one key of an integer column. What that code refuses has no
//! key, as the server would not be asked either.

use lookaside_client::types::postgres::{Encoded, Format, PgType};
use lookaside_value::Value;

/// Types whose values are equal to each other if their canonical forms have equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    /// `int2`, `int4`, `int8`: eight bytes, big-endian.
    Int,
    /// `text` and `varchar` with a deterministic collation, in a database with UTF-8: the length in
    /// four bytes, then the text.
    Text,
    /// `bool`: one byte.
    Bool,
    /// `uuid`: 16 bytes.
    Uuid,
}

/// What a statement with a key depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyDependency {
    /// The number of the table in `pg_class`.
    pub(crate) relation: u32,
    /// By the columns' numbers; at least one.
    pub(crate) columns: Vec<KeyColumn>,
    /// Whether there is at most one row for each key. If not, the first row of an answer is any of
    /// those with the key, unless the statement orders them.
    pub(crate) is_unique: bool,
    /// Whether the replica identity is the full row, so that a column of the key may be null.
    pub(crate) is_identity_full: bool,
}

/// The key of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RowKey {
    /// Its values by the numbers of the parameters, in the types that [`Family::is_canonical`]
    /// accepts.
    Values(Vec<Option<Value>>),
    /// A column is null: the row is in no answer.
    Absent,
    /// Any key may be concerned.
    Unknown,
}

/// A column of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyColumn {
    pub(crate) name: Box<str>,
    /// Its number in `pg_attribute`.
    pub(crate) number: i16,
    /// The number of its type in `pg_type`; the feed must report the same.
    pub(crate) type_oid: u32,
    pub(crate) family: Family,
    /// The position of the parameter that it equals: 0 for `$1`.
    pub(crate) parameter: usize,
}

/// A field of a row, as the change feed has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    Null,
    /// The value was not sent, because it is stored outside of the row and did not change.
    Unchanged,
    Text(&'a [u8]),
    /// As the type's send function writes it.
    Binary(&'a [u8]),
}

impl KeyDependency {
    /// The key of a row; `field` returns the row's field for a column. Texts are those of a
    /// connection with `client_encoding = UTF8`.
    ///
    /// An update touches the keys of the old row and of the new one. Without an old row in the
    /// feed, the replica identity did not change, and with it the key.
    pub(crate) fn row_key<'f>(&self, field: impl Fn(&KeyColumn) -> Field<'f>) -> RowKey {
        // All columns of another replica identity are `not null`: a null there was written under an
        // identity that is no longer the one of the catalog.
        let is_null = |column: &KeyColumn| field(column) == Field::Null;
        if self.is_identity_full && self.columns.iter().any(is_null) {
            return RowKey::Absent;
        }
        let values = self.values(|column, out| write_field(column.family, field(column), out));
        values.map_or(RowKey::Unknown, RowKey::Values)
    }

    /// The values that the server compares for these parameters, as [`RowKey::Values`] has them.
    /// `None` if they do not have a key that is certain, or one of them is null.
    pub(crate) fn canonical_params(&self, params: &[Value]) -> Option<Vec<Option<Value>>> {
        self.values(|column, out| write_param(column.family, params.get(column.parameter)?, out))
    }

    /// The key of a row whose writer says its values by the names of its columns, as
    /// [`RowKey::Values`] has it. `None` if it lacks one, or one of them has no key that is certain.
    pub(crate) fn named_key(&self, row: &[(&str, Value)]) -> Option<Vec<Option<Value>>> {
        let find = |name: &str| row.iter().find(|(column, _)| *column == name);
        self.values(|column, out| {
            let (_, value) = find(&column.name)?;
            write_param(column.family, value, out)
        })
    }

    fn values(
        &self,
        write: impl Fn(&KeyColumn, &mut Vec<u8>) -> Option<()>,
    ) -> Option<Vec<Option<Value>>> {
        let len = self
            .columns
            .iter()
            .map(|column| column.parameter + 1)
            .max()?;
        let mut values = vec![None; len];
        let mut bytes = Vec::new();
        for column in &self.columns {
            bytes.clear();
            write(column, &mut bytes)?;
            values[column.parameter].get_or_insert(column.family.value(&bytes)?);
        }
        Some(values)
    }

    /// The families of the parameters, by their numbers; `None` if one has none, or two.
    pub(crate) fn families_of_params(&self, count: usize) -> Option<Vec<Family>> {
        let mut families = vec![None; count];
        for column in &self.columns {
            let family = families.get_mut(column.parameter)?;
            if family.is_some_and(|family| family != column.family) {
                return None;
            }
            *family = Some(column.family);
        }
        families.into_iter().collect()
    }
}

impl Family {
    /// The family of a type by its number in `pg_type`, which is the same in all versions.
    pub(super) fn of(type_oid: u32) -> Option<Self> {
        match type_oid {
            20 | 21 | 23 => Some(Self::Int),
            25 | 1043 => Some(Self::Text),
            16 => Some(Self::Bool),
            2950 => Some(Self::Uuid),
            _ => None,
        }
    }

    /// Whether a value has the type that values of rows are read as, so that equal keys are equal
    /// values.
    #[inline]
    pub(crate) fn is_canonical(self, value: &Value) -> bool {
        matches!(
            (self, value),
            (Self::Int, Value::Int(_))
                | (Self::Text, Value::Text(_))
                | (Self::Bool, Value::Bool(_))
                | (Self::Uuid, Value::Uuid(_))
        )
    }

    /// The value of a canonical form.
    fn value(self, bytes: &[u8]) -> Option<Value> {
        let bytes = match self {
            Self::Text => bytes.get(4..)?,
            _ => bytes,
        };
        self.pg_type().decode(Format::Binary, bytes).ok()
    }

    /// The type that holds all values of the family, and whose binary form is the canonical one.
    fn pg_type(self) -> PgType {
        PgType::of(match self {
            Self::Int => 20,
            Self::Text => 25,
            Self::Bool => 16,
            Self::Uuid => 2950,
        })
    }
}

/// Appends the canonical form of a parameter.
fn write_param(family: Family, value: &Value, out: &mut Vec<u8>) -> Option<()> {
    let begin = out.len();
    if family == Family::Text {
        out.extend([0; 4]);
    }
    match family.pg_type().encode(value, out) {
        Ok(Encoded::Field(Format::Binary)) => {}
        _ => return None,
    }
    if family == Family::Text {
        let size = u32::try_from(out.len() - begin - 4).ok()?;
        out[begin..begin + 4].copy_from_slice(&size.to_be_bytes());
    }
    Some(())
}

/// Appends the canonical form of a field.
fn write_field(family: Family, field: Field<'_>, out: &mut Vec<u8>) -> Option<()> {
    let bytes = match field {
        Field::Null | Field::Unchanged => return None,
        Field::Binary(bytes) => bytes,
        // Text is the same in both formats.
        Field::Text(bytes) if family == Family::Text => bytes,
        Field::Text(bytes) => {
            let value = family.pg_type().decode(Format::Text, bytes).ok()?;
            return write_param(family, &value, out);
        }
    };
    match family {
        Family::Int => {
            let int = match *bytes {
                [a, b] => i64::from(i16::from_be_bytes([a, b])),
                [a, b, c, d] => i64::from(i32::from_be_bytes([a, b, c, d])),
                _ => i64::from_be_bytes(bytes.try_into().ok()?),
            };
            out.extend(int.to_be_bytes());
        }
        Family::Text => {
            out.extend(u32::try_from(bytes.len()).ok()?.to_be_bytes());
            out.extend_from_slice(bytes);
        }
        Family::Bool => match bytes {
            [0 | 1] => out.extend_from_slice(bytes),
            _ => return None,
        },
        Family::Uuid if bytes.len() == 16 => out.extend_from_slice(bytes),
        Family::Uuid => return None,
    }
    Some(())
}
