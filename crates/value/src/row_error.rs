//! Errors of reading rows as Rust types.

use std::fmt;

use serde::de::{self, Unexpected};

use crate::{Text, Type};

/// A row that cannot be read as the requested type: which row, in which column, and why. The value
/// itself is not included, as it may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct RowError(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    row: Option<usize>,
    column: Option<Text>,
    problem: Box<str>,
}

impl RowError {
    /// The row, counted from 0.
    pub fn row(&self) -> Option<usize> {
        self.0.row
    }

    /// The name of the column.
    pub fn column(&self) -> Option<&str> {
        self.0.column.as_deref()
    }

    fn new(problem: impl Into<Box<str>>) -> Self {
        Self(Box::new(Inner {
            row: None,
            column: None,
            problem: problem.into(),
        }))
    }

    pub(crate) fn misfit(found: Type, wanted: &str) -> Self {
        Self::new(format!("this {found} is not a valid {wanted}"))
    }

    pub(crate) fn no_column(wanted: &dyn ColumnIndex, columns: &[Text]) -> Self {
        let names: Vec<_> = columns.iter().map(|name| format!("`{name}`")).collect();
        let names = names.join(", ");
        Self::new(format!(
            "there is no column {wanted}; the columns are {names}"
        ))
    }

    pub(crate) fn bad_width(columns: usize, wanted: usize) -> Self {
        Self::new(format!(
            "{columns} columns cannot be read as {wanted} values"
        ))
    }

    pub(crate) fn in_row(mut self, row: usize) -> Self {
        self.0.row = Some(row);
        self
    }

    pub(crate) fn in_column(mut self, column: &Text) -> Self {
        self.0.column.get_or_insert_with(|| column.clone());
        self
    }
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            row,
            column,
            problem,
        } = &*self.0;
        match (row, column) {
            (Some(row), Some(column)) => write!(f, "row {row}, column `{column}`: {problem}"),
            (Some(row), None) => write!(f, "row {row}: {problem}"),
            (None, Some(column)) => write!(f, "column `{column}`: {problem}"),
            (None, None) => f.write_str(problem),
        }
    }
}

impl fmt::Debug for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowError({self})")
    }
}

impl std::error::Error for RowError {}

impl de::Error for RowError {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self::new(problem.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn de::Expected) -> Self {
        Self::new(format!("this {} is not {wanted}", kind(found)))
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn de::Expected) -> Self {
        Self::new(format!("this {} is not {wanted}", kind(found)))
    }

    fn unknown_variant(_: &str, wanted: &'static [&'static str]) -> Self {
        Self::new(format!("this text is not one of {}", wanted.join(", ")))
    }
}

/// What was found, without its content.
fn kind(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "bool",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "int",
        Unexpected::Float(_) => "float",
        Unexpected::Char(_) | Unexpected::Str(_) => "text",
        Unexpected::Bytes(_) => "bytes",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "array",
        Unexpected::Map => "object",
        _ => "value",
    }
}

/// An index of a column: its name, or its position from 0.
pub trait ColumnIndex: sealed::Sealed + fmt::Display {
    /// The position of the column in `columns`.
    fn index_in(&self, columns: &[Text]) -> Option<usize>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for usize {}
    impl Sealed for &str {}
}

impl ColumnIndex for usize {
    fn index_in(&self, columns: &[Text]) -> Option<usize> {
        (*self < columns.len()).then_some(*self)
    }
}

impl ColumnIndex for &str {
    fn index_in(&self, columns: &[Text]) -> Option<usize> {
        columns.iter().position(|column| column.as_str() == *self)
    }
}
