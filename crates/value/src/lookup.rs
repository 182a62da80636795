//! How a language queries rows: statements are prepared once and answered for many parameter sets.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::{Contract, RowSet, Text, Value};

/// A prepared statement; valid in every [`Lookup`] that was made from the same engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StatementId(u32);

impl StatementId {
    /// The statement at a position of its engine's registry.
    pub fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer statements than memory could hold"))
    }

    /// The statement's position in its engine's registry.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How many of the rows an answer contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// The first one.
    First,
    /// All.
    All,
}

/// What is queried for each parameter set of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchQuery {
    /// The statement.
    pub statement: StatementId,
    /// How many of its rows the answers contain.
    pub extent: Extent,
    /// With [`Extent::All`], a set with more rows fails.
    pub rows_max: usize,
    /// The changes that the rows include, in addition to those that the engine ensures anyway.
    pub contract: Contract,
}

impl BatchQuery {
    /// A query of first rows, as fresh as the engine ensures.
    pub fn first(statement: StatementId) -> Self {
        Self {
            statement,
            extent: Extent::First,
            rows_max: usize::MAX,
            contract: Contract::ANY,
        }
    }

    /// Checks the number of rows that a set has.
    ///
    /// # Errors
    /// [`LookupErrorKind::LimitReached`] if there are more than `rows_max`.
    pub fn check_row_count(&self, count: usize) -> Result<(), LookupError> {
        if count <= self.rows_max {
            return Ok(());
        }
        let message = format!(
            "the answer has {count} rows, and rows_max is {}; select fewer rows, add a limit to the \
             statement, or set a greater rows_max",
            self.rows_max
        );
        Err(LookupError::new(LookupErrorKind::LimitReached, message))
    }
}

/// Answers SQL for batches of parameter sets.
///
/// It works on batches so that the cost of a database round trip, a reload check and a telemetry
/// step is paid once for hundreds of events.
pub trait Lookup {
    /// Prepares a statement whose parameters are written `:name`; `params` gives the order in which
    /// [`ParamBatch`] holds them. Preparing the same text again returns the same id.
    ///
    /// # Errors
    /// When the statement is refused: bad SQL, an unknown table or column, a parameter that
    /// `params` does not name.
    fn prepare(&mut self, sql: &str, params: &[Text]) -> Result<StatementId, LookupError>;

    /// The names of the columns of the statement's rows.
    fn columns(&self, statement: StatementId) -> &[Text];

    /// Answers each parameter set, in order, after clearing `answers`.
    ///
    /// A set that fails gets its own error and does not affect the other sets.
    fn answer(&mut self, query: BatchQuery, params: &ParamBatch, answers: &mut Answers);

    /// As [`Self::answer`], for [`OnLookupFailure::Wait`](crate::OnLookupFailure::Wait): an engine
    /// that can wait repeats the sets that fail because the database is unavailable, until it is
    /// available again. By default, an engine does not wait, and these sets keep their errors.
    fn answer_when_available(
        &mut self,
        query: BatchQuery,
        params: &ParamBatch,
        answers: &mut Answers,
    ) {
        self.answer(query, params, answers);
    }
}

/// Parameter sets of equal width, one after the other.
#[derive(Clone, Debug, Default)]
pub struct ParamBatch {
    width: usize,
    values: Vec<Value>,
    set_count: usize,
}

impl ParamBatch {
    /// An empty batch of sets with `width` values each.
    pub fn new(width: usize) -> Self {
        Self {
            width,
            values: Vec::new(),
            set_count: 0,
        }
    }

    /// Removes all sets, keeps the allocated memory and sets a new width.
    pub fn reset(&mut self, width: usize) {
        self.width = width;
        self.values.clear();
        self.set_count = 0;
    }

    /// Appends a set.
    ///
    /// # Panics
    /// When the set does not have exactly `width` values.
    #[inline]
    pub fn push(&mut self, set: impl IntoIterator<Item = Value>) {
        self.values.extend(set);
        self.set_count += 1;
        assert_eq!(
            self.values.len(),
            self.set_count * self.width,
            "a value a parameter"
        );
    }

    /// Removes the last set.
    ///
    /// # Panics
    /// When there is none.
    pub fn pop(&mut self) {
        self.set_count -= 1;
        self.values.truncate(self.set_count * self.width);
    }

    /// How many values each set has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many sets there are.
    pub fn len(&self) -> usize {
        self.set_count
    }

    /// Whether there are no sets.
    pub fn is_empty(&self) -> bool {
        self.set_count == 0
    }

    /// The values of one set.
    #[inline]
    pub fn set(&self, index: usize) -> &[Value] {
        &self.values[index * self.width..(index + 1) * self.width]
    }

    /// The sets in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[Value]> {
        (0..self.set_count).map(|index| self.set(index))
    }
}

/// Rows up to this width are copied if they would otherwise be kept alive one by one: incrementing
/// a counter that is not in the core's cache stalls all later loads, reading a few values does not.
const COPY_WIDTH_MAX: usize = 4;

/// The answer to one parameter set.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// No row.
    Absent,
    /// Row `index` of the row set at `rows`.
    Row {
        /// Position among the row sets of the [`Answers`].
        rows: u32,
        /// Position of the row in that set.
        index: u32,
    },
    /// A copy of a row, from `start` on among the copied values of the [`Answers`].
    Copy {
        /// Position of its first value.
        start: u32,
        /// How many values it has.
        width: u32,
    },
    /// All rows of the row set at this position.
    All(u32),
    /// The error at this position among the errors of the [`Answers`].
    Failed(u32),
}

/// The answers to a [`ParamBatch`], one per set, with the row sets that they refer to.
///
/// Rows of one table share one entry, so a thousand hits cost one increment of a reference counter,
/// not a thousand.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    answers: Vec<Answer>,
    row_sets: Vec<RowSet>,
    copies: Vec<Value>,
    errors: Vec<LookupError>,
}

impl Answers {
    /// No answers yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all answers and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.answers.clear();
        self.row_sets.clear();
        self.copies.clear();
        self.errors.clear();
    }

    /// Makes rows available to [`Self::push_row`] and returns their position.
    pub fn add_rows(&mut self, rows: RowSet) -> u32 {
        self.row_sets.push(rows);
        u32::try_from(self.row_sets.len() - 1).expect("at most one row set an answer")
    }

    /// Answers the next set with a row of a row set added before.
    #[inline]
    pub fn push_row(&mut self, rows: u32, index: usize) {
        let index = u32::try_from(index).expect("row sets have fewer than 2^32 rows");
        self.answers.push(Answer::Row { rows, index });
    }

    /// Answers the next set with a row whose values `push` appends.
    #[inline]
    pub fn push_values(&mut self, push: impl FnOnce(&mut Vec<Value>)) {
        let start = self.copies.len();
        push(&mut self.copies);
        let width = self.copies.len() - start;
        self.answers.push(Answer::Copy {
            start: u32::try_from(start).expect("at most a few values an answer"),
            width: width as u32,
        });
    }

    /// Answers the next sets, each as [`Self::push_row`] and [`Self::push_absent`] do.
    #[inline]
    pub fn push_rows(&mut self, rows: u32, indices: &[Option<u32>]) {
        let answer = |index: &Option<u32>| match *index {
            Some(index) => Answer::Row { rows, index },
            None => Answer::Absent,
        };
        self.answers.extend(indices.iter().map(answer));
    }

    /// Answers the next sets, each with `width` values if it is one of those with a row. `push` appends the
    /// values of all of them.
    ///
    /// # Panics
    /// When `push` appends another number of values.
    #[inline]
    pub fn push_copies(
        &mut self,
        width: usize,
        have_row: impl ExactSizeIterator<Item = bool>,
        push: impl FnOnce(&mut Vec<Value>),
    ) {
        let start = self.copies.len();
        push(&mut self.copies);
        let end = u32::try_from(self.copies.len()).expect("at most a few values an answer");
        let (mut start, width) = (start as u32, width as u32);
        self.answers.extend(have_row.map(|has_row| {
            if !has_row {
                return Answer::Absent;
            }
            let answer = Answer::Copy { start, width };
            start += width;
            answer
        }));
        assert_eq!(start, end, "the values of each row");
    }

    /// Answers the next set with the first of these rows, which belong to this answer only.
    #[inline]
    pub fn push_first(&mut self, rows: &RowSet) {
        let answer = self.first_of(rows);
        self.answers.push(answer);
    }

    /// Answers the next set with all of these rows, for [`Extent::All`].
    pub fn push_all(&mut self, rows: RowSet) {
        let rows = self.add_rows(rows);
        self.answers.push(Answer::All(rows));
    }

    /// Answers the next `count` sets with no row; [`Self::set_first`] and [`Self::set_all`] may
    /// replace these answers.
    pub fn fill_absent(&mut self, count: usize) {
        self.answers
            .resize(self.answers.len() + count, Answer::Absent);
    }

    /// Replaces the answer to the set at `index` by the first of these rows.
    #[inline]
    pub fn set_first(&mut self, index: usize, rows: &RowSet) {
        self.answers[index] = self.first_of(rows);
    }

    /// Replaces the answer to the set at `index` by all of these rows, for [`Extent::All`].
    pub fn set_all(&mut self, index: usize, rows: RowSet) {
        self.answers[index] = Answer::All(self.add_rows(rows));
    }

    fn first_of(&mut self, rows: &RowSet) -> Answer {
        if rows.is_empty() {
            return Answer::Absent;
        }
        if rows.columns().len() > COPY_WIDTH_MAX {
            return Answer::Row {
                rows: self.add_rows(rows.clone()),
                index: 0,
            };
        }
        let row = rows.row(0);
        let start = u32::try_from(self.copies.len()).expect("at most a few values an answer");
        self.copies.extend_from_slice(row);
        Answer::Copy {
            start,
            width: row.len() as u32,
        }
    }

    /// Answers the next set with no row.
    #[inline]
    pub fn push_absent(&mut self) {
        self.answers.push(Answer::Absent);
    }

    /// Records that the next set failed.
    pub fn push_failed(&mut self, error: LookupError) {
        let answer = self.failed(error);
        self.answers.push(answer);
    }

    /// Replaces the answer to the set at `index` by an error.
    pub fn set_failed(&mut self, index: usize, error: LookupError) {
        self.answers[index] = self.failed(error);
    }

    /// Replaces the answer to the set at `index` by another one's answer to its set at
    /// `other_index`.
    pub fn set_from(&mut self, index: usize, other: &Self, other_index: usize) {
        self.answers[index] = match other.answers[other_index] {
            Answer::Absent => Answer::Absent,
            Answer::Row { rows, index } => Answer::Row {
                rows: self.add_rows(other.row_sets[rows as usize].clone()),
                index,
            },
            Answer::Copy { start, width } => {
                let row = &other.copies[start as usize..][..width as usize];
                let start = self.copies.len();
                self.copies.extend_from_slice(row);
                Answer::Copy {
                    start: u32::try_from(start).expect("at most a few values an answer"),
                    width,
                }
            }
            Answer::All(rows) => Answer::All(self.add_rows(other.row_sets[rows as usize].clone())),
            Answer::Failed(error) => self.failed(other.errors[error as usize].clone()),
        };
    }

    fn failed(&mut self, error: LookupError) -> Answer {
        let index = u32::try_from(self.errors.len()).expect("at most one error an answer");
        self.errors.push(error);
        Answer::Failed(index)
    }

    /// How many sets were answered.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether no set was answered.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// The first row for the set at `index`, or why there is none.
    ///
    /// # Errors
    /// The error of that set, if it failed.
    #[inline]
    pub fn row(&self, index: usize) -> Result<Option<&[Value]>, &LookupError> {
        match self.answers[index] {
            Answer::Absent => Ok(None),
            Answer::Row { rows, index } => {
                Ok(Some(self.row_sets[rows as usize].row(index as usize)))
            }
            Answer::Copy { start, width } => {
                Ok(Some(&self.copies[start as usize..][..width as usize]))
            }
            Answer::All(rows) => Ok(self.first_of_all(rows)),
            Answer::Failed(error) => Err(&self.errors[error as usize]),
        }
    }

    // Not inlined, so that the method above is.
    #[inline(never)]
    fn first_of_all(&self, rows: u32) -> Option<&[Value]> {
        let rows = &self.row_sets[rows as usize];
        (!rows.is_empty()).then(|| rows.row(0))
    }

    /// All rows for the set at `index`; `None` if there are none.
    ///
    /// # Errors
    /// The error of that set, if it failed.
    ///
    /// # Panics
    /// When the query was one of first rows.
    pub fn all(&self, index: usize) -> Result<Option<&RowSet>, &LookupError> {
        match self.answers[index] {
            Answer::Absent => Ok(None),
            Answer::All(rows) => {
                let rows = &self.row_sets[rows as usize];
                Ok((!rows.is_empty()).then_some(rows))
            }
            Answer::Row { .. } | Answer::Copy { .. } => panic!("the query was one of first rows"),
            Answer::Failed(error) => Err(&self.errors[error as usize]),
        }
    }
}

/// The kind of a lookup failure: who caused it and what to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LookupErrorKind {
    /// The statement or its parameters are wrong; it will fail again.
    Refused,
    /// The database could not be reached, or the connection was lost.
    Unavailable,
    /// A named limit was reached.
    LimitReached,
}

/// A failed lookup, cheap to clone, since one failure can concern many parameter sets.
#[derive(Clone, Debug)]
pub struct LookupError {
    kind: LookupErrorKind,
    message: Arc<str>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl LookupError {
    /// An error with its one-line message.
    pub fn new(kind: LookupErrorKind, message: impl Into<Arc<str>>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Adds the cause of the error.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The kind of failure.
    pub fn kind(&self) -> LookupErrorKind {
        self.kind
    }
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for LookupError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowSetBuilder;

    #[test]
    fn answers_keep_their_order_and_their_errors() {
        let mut rows = RowSetBuilder::new(["v"]);
        rows.push([Value::Int(7)]);
        rows.push([Value::Int(8)]);
        let mut answers = Answers::new();
        let rows = answers.add_rows(rows.build());
        answers.push_row(rows, 1);
        answers.push_absent();
        answers.push_failed(LookupError::new(LookupErrorKind::Unavailable, "gone"));
        assert_eq!(answers.row(0).unwrap(), Some(&[Value::Int(8)][..]));
        assert_eq!(answers.row(1).unwrap(), None);
        assert_eq!(answers.row(2).unwrap_err().to_string(), "gone");
    }

    #[test]
    fn answers_are_given_in_any_order_and_whatever_their_width() {
        for width in [0, 1, COPY_WIDTH_MAX, COPY_WIDTH_MAX + 1] {
            let mut rows = RowSetBuilder::new((0..width).map(|column| column.to_string()));
            rows.push(vec![Value::Int(1); width]);
            rows.push(vec![Value::Int(2); width]);
            let rows = rows.build();
            let mut answers = Answers::new();
            answers.fill_absent(3);
            answers.push_first(&rows);
            answers.set_failed(2, LookupError::new(LookupErrorKind::Unavailable, "gone"));
            answers.set_first(0, &rows);
            let row = vec![Value::Int(1); width];
            assert_eq!(answers.row(0).unwrap(), Some(&row[..]));
            assert_eq!(answers.row(1).unwrap(), None);
            assert_eq!(answers.row(2).unwrap_err().to_string(), "gone");
            assert_eq!(answers.row(3).unwrap(), Some(&row[..]));
            answers.clear();
            answers.push_first(&RowSetBuilder::new(["v"]).build());
            assert_eq!(answers.row(0).unwrap(), None);
        }
    }

    #[test]
    fn answers_are_taken_from_others() {
        for width in [1, COPY_WIDTH_MAX + 1] {
            let mut rows = RowSetBuilder::new((0..width).map(|column| column.to_string()));
            rows.push(vec![Value::Int(1); width]);
            rows.push(vec![Value::Int(2); width]);
            let rows = rows.build();
            let failed = |text: &str| LookupError::new(LookupErrorKind::Unavailable, text);
            let mut other = Answers::new();
            other.push_failed(failed("other"));
            other.push_first(&rows);
            let position = other.add_rows(rows.clone());
            other.push_row(position, 1);
            other.push_absent();
            other.push_all(rows.clone());

            let mut answers = Answers::new();
            for _ in 0..6 {
                answers.push_failed(failed("first"));
            }
            for (index, other_index) in [(0, 2), (1, 1), (2, 3), (4, 0), (5, 4)] {
                answers.set_from(index, &other, other_index);
            }
            drop(other);
            assert_eq!(
                answers.row(0).unwrap(),
                Some(&vec![Value::Int(2); width][..])
            );
            assert_eq!(
                answers.row(1).unwrap(),
                Some(&vec![Value::Int(1); width][..])
            );
            assert_eq!(answers.row(2).unwrap(), None);
            assert_eq!(answers.row(3).unwrap_err().to_string(), "first");
            assert_eq!(answers.row(4).unwrap_err().to_string(), "other");
            assert_eq!(answers.all(2).unwrap(), None);
            assert_eq!(answers.all(4).unwrap_err().to_string(), "other");
            assert_eq!(answers.all(5).unwrap(), Some(&rows));
            assert_eq!(answers.row(5).unwrap(), Some(rows.row(0)));
            answers.set_all(5, RowSetBuilder::new(["v"]).build());
            assert_eq!(answers.all(5).unwrap(), None);
            assert_eq!(answers.row(5).unwrap(), None);
        }
    }

    #[test]
    fn a_set_can_be_taken_back() {
        let mut batch = ParamBatch::new(2);
        batch.push([Value::Int(1), Value::Int(2)]);
        batch.push([Value::Int(3), Value::Int(4)]);
        batch.pop();
        batch.push([Value::Int(5), Value::Int(6)]);
        assert_eq!(batch.len(), 2);
        assert_eq!(batch.set(1), [Value::Int(5), Value::Int(6)]);
    }

    #[test]
    #[should_panic(expected = "a value a parameter")]
    fn a_set_of_another_width_is_a_programming_error() {
        ParamBatch::new(2).push([Value::Null]);
    }
}
