//! Detection of a wrong delimiter, with which nothing fails and each record is a single field.

use lookaside_value::LikelyDelimiter;

/// Returns a warning if the header is one column that contains another delimiter.
pub(super) fn warning(header: &[String], begins_with_quote: bool, delimiter: u8) -> Option<String> {
    let [column] = header else {
        return None;
    };
    let likely = LikelyDelimiter::of_header(column, begins_with_quote, delimiter)?;
    let shown = likely.shown();
    let written = char::from(likely.byte()).escape_default();
    Some(format!(
        "the header has a single column that contains {shown}; if {shown} is the delimiter, set \
         `csv.delimiter = \"{written}\"`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_12_another_delimiter_in_the_header_is_told() {
        for (header, begins_with_quote, delimiter, expected) in [
            (&["a;b"][..], false, b',', Some(("';'", ";"))),
            (&["a\tb|c\td"], false, b',', Some(("a tab", "\\t"))),
            (&["a,b"], false, b';', Some(("','", ","))),
            (&["a|b"], false, b',', Some(("'|'", "|"))),
            (&["a;\"b\""], true, b',', Some(("';'", ";"))),
            // In quotes, and the delimiter in force.
            (&["Name; first"], true, b',', None),
            (&["Name, first"], true, b',', None),
            (&["a,b"], false, b',', None),
            (&["a;b", "c"], false, b',', None),
            (&["a"], false, b',', None),
            (&[], false, b',', None),
        ] {
            let expected = expected.map(|(shown, written)| {
                format!(
                    "the header has a single column that contains {shown}; if {shown} is the \
                     delimiter, set `csv.delimiter = \"{written}\"`"
                )
            });
            let header: Vec<String> = header.iter().copied().map(str::to_owned).collect();
            let found = warning(&header, begins_with_quote, delimiter);
            assert_eq!(found, expected, "{header:?}");
        }
    }
}
