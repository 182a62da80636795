/// A CSV delimiter that a file probably uses instead of the configured one.
///
/// With the wrong delimiter, nothing fails and each record is a single field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LikelyDelimiter {
    /// `,`
    Comma,
    /// `;`
    Semicolon,
    /// A tab.
    Tab,
    /// `|`
    Pipe,
}

impl LikelyDelimiter {
    /// Returns the likely delimiter of a file whose header is a single column with the delimiter in
    /// force: the most frequent other one in that column. `None` if the quoted column spans the
    /// whole header.
    ///
    /// ```
    /// use lookaside_value::LikelyDelimiter;
    ///
    /// let found = LikelyDelimiter::of_header("ip;owner", false, b',');
    /// assert_eq!(found, Some(LikelyDelimiter::Semicolon));
    /// let found = LikelyDelimiter::of_header("Name; first", true, b',');
    /// assert_eq!(found, None);
    /// ```
    pub fn of_header(column: &str, begins_with_quote: bool, delimiter: u8) -> Option<Self> {
        // `"a";"b"` is read as `a;"b"`.
        if begins_with_quote && !column.contains('"') {
            return None;
        }
        let count = |likely: Self| column.bytes().filter(|byte| *byte == likely.byte()).count();
        [Self::Comma, Self::Semicolon, Self::Tab, Self::Pipe]
            .into_iter()
            .filter(|likely| likely.byte() != delimiter && count(*likely) > 0)
            .max_by_key(|likely| count(*likely))
    }

    /// The delimiter as a byte.
    pub fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Semicolon => b';',
            Self::Tab => b'\t',
            Self::Pipe => b'|',
        }
    }

    /// The delimiter as shown in messages.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Comma => "','",
            Self::Semicolon => "';'",
            Self::Tab => "a tab",
            Self::Pipe => "'|'",
        }
    }
}
