/// A delimiter of csv that is probably the one of a file, in place of the one that was set.
///
/// With the wrong delimiter nothing fails, and each record is one field.
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
    /// The likely delimiter of a file whose header has one column with the delimiter in force: the most
    /// frequent other one in that column. It is none if the column is in quotes, from the beginning of
    /// the header to its end.
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

    /// The byte that it is.
    pub fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Semicolon => b';',
            Self::Tab => b'\t',
            Self::Pipe => b'|',
        }
    }

    /// How messages show it.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Comma => "','",
            Self::Semicolon => "';'",
            Self::Tab => "a tab",
            Self::Pipe => "'|'",
        }
    }
}
