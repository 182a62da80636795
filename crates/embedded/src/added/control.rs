//! Control files of extensions.

/// The value of a parameter of a control file, whose lines are `name = 'value'` as in
/// `postgresql.conf`.
pub(crate) fn parameter(text: &str, name: &str) -> Option<String> {
    text.lines().rev().find_map(|line| {
        let rest = line.trim().strip_prefix(name)?.trim_start();
        let value = rest.strip_prefix('=').unwrap_or(rest).trim();
        // `default_version` is not a prefix of another name, but its value must be one.
        match value.strip_prefix('\'') {
            Some(quoted) => Some(quoted[..quoted.find('\'')?].to_owned()),
            None => {
                let word = value.split(['#', ' ', '\t']).next()?;
                (!word.is_empty() && rest.len() < line.len()).then(|| word.to_owned())
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_the_server_reads_them() {
        for (text, expected) in [
            ("default_version = '1.0'", Some("1.0")),
            ("default_version='1.0'", Some("1.0")),
            ("  default_version '1.0' # '2'", Some("1.0")),
            ("default_version = 1.0 # x", Some("1.0")),
            ("default_version = '1'\ndefault_version = '2'", Some("2")),
            ("#default_version = '1'", None),
            ("default_version = ", None),
            ("", None),
        ] {
            let found = parameter(text, "default_version");
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
