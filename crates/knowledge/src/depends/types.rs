//! The types that a parameter or a literal may be cast to.

use sqlparser::ast::{CharacterLength, DataType, ExactNumberInfo};

use super::keys::Family;

/// What a cast to a type means; `None` if the type is not allowed.
///
/// These types read and write text independently of the time and of the session's settings.
pub(super) fn cast_of(data_type: &DataType) -> Option<Cast> {
    let no_length: &Option<CharacterLength> = &None;
    Some(match data_type {
        DataType::SmallInt(None)
        | DataType::Int2(None)
        | DataType::Int(None)
        | DataType::Int4(None)
        | DataType::Integer(None)
        | DataType::Int8(None)
        | DataType::BigInt(None) => Cast::Key(Family::Int),
        DataType::Text => Cast::Key(Family::Text),
        DataType::Varchar(length) | DataType::CharacterVarying(length) if length == no_length => {
            Cast::Key(Family::Text)
        }
        DataType::Bool | DataType::Boolean => Cast::Key(Family::Bool),
        DataType::Uuid => Cast::Key(Family::Uuid),
        DataType::Numeric(ExactNumberInfo::None) => Cast::Other,
        _ => return None,
    })
}

/// The type of a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cast {
    /// The parameter still compares with columns of this family alone.
    Key(Family),
    Other,
}
