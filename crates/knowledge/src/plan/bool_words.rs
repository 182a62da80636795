//! The words for booleans in columns of text, and how such a column is declared.

/// The declared type of such a column; by SQLite's rules its values are text.
pub(crate) const BOOL_TEXT: &str = "TEXT BOOLEAN";

/// The notation of the booleans in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoolWords {
    /// `true` and `false`.
    Lower,
    /// `True` and `False`, as Python writes them.
    Title,
    /// `TRUE` and `FALSE`, as spreadsheets write them.
    Upper,
}

impl BoolWords {
    const ALL: [Self; 3] = [Self::Lower, Self::Title, Self::Upper];

    /// The notation of a cell, if it is a boolean.
    pub(crate) fn of(cell: &[u8]) -> Option<Self> {
        let is_word = |words: &Self| {
            [false, true]
                .iter()
                .any(|bool| words.word(*bool).as_bytes() == cell)
        };
        Self::ALL.into_iter().find(is_word)
    }

    pub(crate) fn word(self, bool: bool) -> &'static str {
        let [no, yes] = match self {
            Self::Lower => ["false", "true"],
            Self::Title => ["False", "True"],
            Self::Upper => ["FALSE", "TRUE"],
        };
        if bool { yes } else { no }
    }
}
