//! The tokens of a model, as far as their layout depends on them.

/// What is before a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// The token is directly behind the one before it.
    None,
    /// A blank.
    Blank,
    /// A blank or a line break, as between the items of a block.
    Item {
        /// Whether an empty line is before the item if it is on a separate line.
        is_apart: bool,
    },
    /// A line break.
    Line,
    /// An empty line.
    EmptyLine,
}

impl Gap {
    pub(super) fn is_line(self) -> bool {
        matches!(self, Self::Line | Self::EmptyLine)
    }

    /// A line break, and an empty line if there were several line breaks in the original.
    pub(super) fn of_lines(line_break_count: usize) -> Self {
        match line_break_count {
            0 | 1 => Self::Line,
            _ => Self::EmptyLine,
        }
    }
}

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// The `{` of a block of items.
    Open {
        /// Whether each item is on a separate line.
        is_broken: bool,
    },
    /// The `}` of a block of items.
    Close,
    /// A comment up to the end of the line.
    LineComment,
}

/// How good a place for a line break is; the least comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Break {
    /// A clause of SQL, or `or` in a test.
    Clause,
    /// An operator: `and`, `|`, `+` …
    Operator,
    /// Behind a comma, or between the patterns of a rule.
    Comma,
}

/// A piece of the text that is kept as it is.
#[derive(Clone, Debug)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) gap: Gap,
    pub(super) kind: Kind,
    /// Whether the line may be broken before it.
    pub(super) may_break: Option<Break>,
    /// Whether it begins an item or a statement, or is a comment before one.
    pub(super) begins_item: bool,
    /// How many brackets are open around it.
    pub(super) depth: usize,
    /// The index of the innermost bracket that is open around it, or that it closes.
    pub(super) opener: Option<usize>,
    /// The indentation of its item or statement, in blanks; determined by the layout.
    pub(super) item_indent: usize,
    /// The indentation of its line, likewise.
    pub(super) line_indent: usize,
}

impl Token<'_> {
    /// The width of what is before it if it does not begin a line.
    pub(super) fn gap_width(&self) -> usize {
        match self.gap {
            Gap::None => 0,
            Gap::Blank | Gap::Item { .. } | Gap::Line | Gap::EmptyLine => 1,
        }
    }

    /// The width of its first line, in characters.
    pub(super) fn first_width(&self) -> usize {
        let first = self.text.split('\n').next().unwrap_or_default();
        first.chars().count()
    }

    /// The width of its last line, if it has several.
    pub(super) fn last_width(&self) -> Option<usize> {
        let (_, last) = self.text.rsplit_once('\n')?;
        Some(last.chars().count())
    }
}
