//! The number of parameters of a statement, as far as it can be determined without the server.

/// The number of `?` placeholders, or `None` if a server might count differently: the meaning of a
/// backslash in a string depends on the session's `sql_mode` and character set, and that of some
/// comments on the server's version.
pub(super) fn placeholder_count(sql: &str) -> Option<usize> {
    // In some character sets, the second byte of a character can be a quote.
    if !sql.is_ascii() {
        return None;
    }
    let mut count = 0;
    let mut rest = sql.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = match byte {
            b'?' => {
                count += 1;
                after
            }
            // A doubled quote is treated as the end of one string and the beginning of another.
            b'\'' | b'"' | b'`' => {
                let size = after.iter().position(|&other| other == byte)?;
                let (inside, end) = after.split_at(size);
                if byte != b'`' && inside.contains(&b'\\') {
                    return None;
                }
                &end[1..]
            }
            b'#' => line_end(after),
            b'-' => match after {
                [b'-', next, ..] if !next.is_ascii_whitespace() => after,
                [b'-', comment @ ..] => line_end(comment),
                _ => after,
            },
            b'/' => match after {
                [b'*', b'!' | b'M' | b'+', ..] => return None,
                [b'*', comment @ ..] => {
                    let size = comment.windows(2).position(|two| two == b"*/")?;
                    &comment[size + 2..]
                }
                _ => after,
            },
            _ => after,
        };
    }
    Some(count)
}

fn line_end(comment: &[u8]) -> &[u8] {
    let end = comment.iter().position(|&byte| byte == b'\n');
    &comment[end.unwrap_or(comment.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_outside_of_strings_and_comments_count() {
        for (sql, expected) in [
            ("", Some(0)),
            ("select ? + ?", Some(2)),
            ("select '?', \"?\", `?`, ?", Some(1)),
            ("select 'it''s ?', ?", Some(1)),
            ("select `a\\`, ?", Some(1)),
            ("select 1 -- ?\n+ ?", Some(1)),
            ("select 1 --?", Some(1)),
            ("select 1 --", Some(0)),
            ("select 1 # ?\n, ? # ?", Some(1)),
            ("select 4 / 2 - ? /* ? ' */ + ?", Some(2)),
            ("select 'a\\'?', ?", None),
            ("select \"\\\", ?", None),
            ("select 1 /*! , ? */", None),
            ("select 1 /*M! , ? */", None),
            ("select /*+ x */ ?", None),
            ("select 'ü', ?", None),
            ("select 'no end ?", None),
            ("select /* no end ?", None),
        ] {
            assert_eq!(placeholder_count(sql), expected, "{sql}");
        }
    }
}
