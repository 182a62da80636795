//! The answers to a request, as far as they have come.

use crate::{Answer, Error, Result};

/// A place for the answer to each query of a request.
#[derive(Debug)]
pub(crate) enum Answers {
    /// One query, which is most requests: it needs no memory before it has its answer.
    One(Option<Result<Answer>>),
    Many(Vec<Option<Result<Answer>>>),
}

impl Answers {
    /// None of so many.
    pub(crate) fn none_of(count: usize) -> Self {
        match count {
            1 => Self::One(None),
            _ => Self::Many(std::iter::repeat_with(|| None).take(count).collect()),
        }
    }

    /// The place of one.
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

    /// All of them, with `error` for those that have not come.
    pub(crate) fn or_error(self, error: impl Fn() -> Error) -> Vec<Result<Answer>> {
        let or_error = |answer: Option<_>| answer.unwrap_or_else(|| Err(error()));
        match self {
            Self::One(answer) => vec![or_error(answer)],
            Self::Many(answers) => answers.into_iter().map(or_error).collect(),
        }
    }

    /// All of them.
    ///
    /// # Panics
    ///
    /// When one has not come.
    #[inline]
    pub(crate) fn all(self) -> Vec<Result<Answer>> {
        match self {
            Self::One(answer) => vec![answer.expect(ANSWERED)],
            Self::Many(answers) => {
                let answers = answers.into_iter();
                answers.map(|answer| answer.expect(ANSWERED)).collect()
            }
        }
    }
}

/// Why each answer is there.
const ANSWERED: &str = "no query of the request is open";
