//! The answers to a request, and slots for outstanding ones.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use std::{iter, slice, vec};

use lookaside_value::Row;

use crate::{Answer, Description, Error, Result, Ticket};

/// The answers to a request, in the order of its queries.
#[derive(Debug)]
pub struct Answers(Form);

#[derive(Debug)]
enum Form {
    /// One answer, as for most requests, which avoids an allocation.
    One(Result<Answer>),
    Many(Vec<Result<Answer>>),
}

impl Answers {
    /// The answer to the only query.
    ///
    /// # Panics
    ///
    /// When there is not exactly one.
    #[inline]
    pub fn into_one(self) -> Result<Answer> {
        match self.0 {
            Form::One(answer) => answer,
            Form::Many(answers) => {
                let answers: [_; 1] = answers.try_into().expect("the request has one query");
                let [answer] = answers;
                answer
            }
        }
    }

    /// The only row of the answer to the only query.
    ///
    /// # Errors
    ///
    /// When the query failed, and when it gave no row or more than one.
    pub(crate) fn into_one_row(self) -> Result<Row> {
        self.into_one_or_no_row()?.ok_or_else(Error::no_row)
    }

    /// The same, if there is a row.
    pub(crate) fn into_one_or_no_row(self) -> Result<Option<Row>> {
        let rows = self.into_one()?.rows;
        match rows.len() {
            0 | 1 => Ok(rows.first()),
            count => Err(Error::too_many_rows(count)),
        }
    }

    /// How many rows the only query changed or selected; 0 where the server counts none.
    pub(crate) fn into_row_count(self) -> Result<u64> {
        Ok(self.into_one()?.row_count.unwrap_or(0))
    }

    /// Nothing, unless a query failed: then the error of the first that did.
    pub(crate) fn into_success(self) -> Result<()> {
        self.into_iter().try_for_each(|answer| answer.map(drop))
    }

    /// The description from the answer to a [`Request::describe`](crate::Request::describe).
    pub(crate) fn into_description(self) -> Result<Arc<Description>> {
        let answer = self.into_one()?;
        Ok(answer.description.expect("it was asked for"))
    }

    /// All answers.
    pub fn into_vec(self) -> Vec<Result<Answer>> {
        match self.0 {
            Form::One(answer) => vec![answer],
            Form::Many(answers) => answers,
        }
    }
}

impl Answers {
    /// Mentions `PoolOptions::query_timeout` in errors of deadlines that result from that option.
    pub(crate) fn naming_timeout(answers: Result<Self>, timeout: Duration) -> Result<Self> {
        let named = |error: Error| error.naming_timeout(timeout);
        match answers {
            Ok(Self(Form::One(answer))) => Ok(Self(Form::One(answer.map_err(named)))),
            Ok(Self(Form::Many(answers))) => {
                let answers = answers.into_iter().map(|answer| answer.map_err(named));
                Ok(Self(Form::Many(answers.collect())))
            }
            Err(error) => Err(named(error)),
        }
    }
}

impl From<Vec<Result<Answer>>> for Answers {
    fn from(answers: Vec<Result<Answer>>) -> Self {
        Self(Form::Many(answers))
    }
}

impl Deref for Answers {
    type Target = [Result<Answer>];

    fn deref(&self) -> &[Result<Answer>] {
        match &self.0 {
            Form::One(answer) => slice::from_ref(answer),
            Form::Many(answers) => answers,
        }
    }
}

impl IntoIterator for Answers {
    type Item = Result<Answer>;
    type IntoIter = vec::IntoIter<Result<Answer>>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}

/// The answers to a request.
#[derive(Debug)]
pub struct Reply {
    /// The request that it answers.
    pub ticket: Ticket,
    /// One per parameter set, in their order; for a script, one per statement.
    pub answers: Answers,
}

impl Reply {
    /// The answer to the only query of the request.
    ///
    /// # Panics
    ///
    /// When it had not exactly one.
    pub fn into_answer(self) -> Result<Answer> {
        self.answers.into_one()
    }
}

/// A slot for the answer to each query of a request.
#[derive(Debug)]
pub(crate) enum AnswerSlots {
    /// One query, as for most requests.
    One(Option<Result<Answer>>),
    Many(Vec<Option<Result<Answer>>>),
}

impl AnswerSlots {
    /// Creates `count` empty slots.
    pub(crate) fn new(count: usize) -> Self {
        match count {
            1 => Self::One(None),
            _ => Self::Many(iter::repeat_with(|| None).take(count).collect()),
        }
    }

    /// The slot of a query.
    ///
    /// # Panics
    ///
    /// When there is no such query.
    #[inline]
    pub(crate) fn at(&mut self, index: usize) -> &mut Option<Result<Answer>> {
        match self {
            Self::One(answer) => {
                assert_eq!(index, 0, "there is one query");
                answer
            }
            Self::Many(answers) => &mut answers[index],
        }
    }

    /// Replaces every received answer with `error`.
    pub(crate) fn replace(&mut self, error: &Error) {
        let answers = match self {
            Self::One(answer) => slice::from_mut(answer),
            Self::Many(answers) => answers,
        };
        for answer in answers.iter_mut().flatten() {
            *answer = Err(error.clone());
        }
    }

    /// All answers, with `error` for outstanding ones.
    pub(crate) fn or_error(self, error: impl Fn() -> Error) -> Answers {
        let or_error = |answer: Option<_>| answer.unwrap_or_else(|| Err(error()));
        Answers(match self {
            Self::One(answer) => Form::One(or_error(answer)),
            Self::Many(answers) => Form::Many(answers.into_iter().map(or_error).collect()),
        })
    }

    /// Stores the last outstanding answer, and takes all of them out of the slots.
    ///
    /// # Panics
    ///
    /// If another answer is outstanding, or this one was already stored.
    #[inline]
    pub(crate) fn complete(&mut self, index: usize, answer: Result<Answer>) -> Answers {
        let place = self.at(index);
        assert!(place.is_none(), "{ONCE}");
        if let Self::One(_) = self {
            return Answers(Form::One(answer));
        }
        *self.at(index) = Some(answer);
        let places = std::mem::replace(self, Self::One(None));
        places.or_error(|| panic!("no other query of the request is open"))
    }
}

/// The assertion that a second answer violates.
pub(crate) const ONCE: &str = "a query is answered once";
