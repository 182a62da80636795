//! The password file of `libpq`: `host:port:database:user:password` in each line.

use super::Secret;

/// The password that a password file has for a connection: that of the first line whose four fields
/// are `*` or equal. In a field, `\:` and `\\` are a colon and a backslash; lines that begin with `#`
/// are comments. A server on the default Unix socket is `localhost`.
pub fn passfile_password(
    text: &str,
    host: &str,
    port: u16,
    database: &str,
    user: &str,
) -> Option<Secret> {
    let port = port.to_string();
    let wanted = [host, &port, database, user];
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| password_of(line, &wanted))
        .find(Option::is_some)?
}

fn password_of(line: &str, wanted: &[&str; 4]) -> Option<Secret> {
    let mut rest = line;
    for wanted in wanted {
        let (field, after) = split_field(rest)?;
        if field != "*" && unescape(field) != **wanted {
            return None;
        }
        rest = after;
    }
    let password = unescape(rest.trim_end_matches('\r'));
    (!password.is_empty()).then(|| Secret::from(password))
}

/// A field and what follows the colon that ends it.
fn split_field(line: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let end = line.find(|letter: char| {
        let is_end = letter == ':' && !escaped;
        escaped = letter == '\\' && !escaped;
        is_end
    })?;
    Some((&line[..end], &line[end + 1..]))
}

fn unescape(field: &str) -> String {
    let mut out = String::with_capacity(field.len());
    let mut letters = field.chars();
    while let Some(letter) = letters.next() {
        out.push(match letter {
            '\\' => letters.next().unwrap_or('\\'),
            plain => plain,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let text = "# localhost:5432:db:app:comment\n\
                    db1:5432:geo:app:first\r\n\
                    db1:*:geo:app:any port\n\
                    \n\
                    short:line\n\
                    ::1:5432:geo:app:too many colons\n\
                    \\:\\:1:5432:geo:app:of an address\n\
                    db\\\\2:5432:geo:app:p\\:a\\\\s:s\n\
                    /run/pg:5432:geo:app:folder\n\
                    empty:5432:geo:app:\n\
                    *:*:*:app:last";
        let check = |host, port, database, user, expected: Option<&str>| {
            let password = passfile_password(text, host, port, database, user);
            assert_eq!(password.as_ref().map(Secret::expose), expected, "{host}");
        };
        check("db1", 5432, "geo", "app", Some("first"));
        check("db1", 5433, "geo", "app", Some("any port"));
        check("::1", 5432, "geo", "app", Some("of an address"));
        check("db\\2", 5432, "geo", "app", Some("p:a\\s:s"));
        check("/run/pg", 5432, "geo", "app", Some("folder"));
        check("other", 1, "x", "app", Some("last"));
        check("db1", 5432, "geo", "other", None);
        check("empty", 5432, "geo", "app", Some("last"));
    }
}
