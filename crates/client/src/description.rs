//! What a statement takes and gives, without running it.

use std::sync::Arc;

use lookaside_value::Text;

/// A statement's parameters and columns, as the server described them when it was prepared.
///
/// A change of the schema shows here once a query has met it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The names of its columns; none where it gives no rows.
    pub columns: Arc<[Text]>,
    /// Their types by the server's names, such as `int4` or `varchar`; `type 16385` where the
    /// number is all that is known.
    pub column_types: Box<[Text]>,
    /// The types of its parameters, named alike.
    pub parameter_types: Box<[Text]>,
}
