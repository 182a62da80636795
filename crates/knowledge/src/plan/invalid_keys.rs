//! Rows that no key can find, because their column has a value of another form.

/// The values of a column that are not of the form that a function expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InvalidKeys {
    /// The table and its column, as `nets.net`.
    pub(super) column: String,
    /// What the values are not: `a network`.
    pub(super) form: &'static str,
    /// How many there are, texts that are empty excluded.
    pub(super) count: usize,
    /// The position of the first of them, from 1.
    pub(super) row: usize,
    /// The first of them, shortened.
    pub(super) example: String,
    /// What is wrong with it, if that makes each query fail.
    pub(super) problem: Option<String>,
}
