//! Regular expressions in the dialect of the crate `regex`.

use regex_automata::meta::Regex;

/// The limit of a compiled pattern in bytes, as in the crate `regex`.
const PATTERN_SIZE_MAX: usize = 10 << 20;

/// The limit of the states of one pattern's automaton that a thread computes while it searches, in
/// bytes.
const LAZY_STATES_SIZE_MAX: usize = 1 << 20;

/// Compiles a pattern.
///
/// # Errors
///
/// One line that says what is wrong with the pattern.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let config = Regex::config()
        .nfa_size_limit(Some(PATTERN_SIZE_MAX))
        .hybrid_cache_capacity(LAZY_STATES_SIZE_MAX);
    let built = Regex::builder().configure(config).build(pattern);
    built.map_err(|error| match (error.syntax_error(), error.size_limit()) {
        (Some(error), _) => last_line(&error.to_string()),
        (None, Some(limit)) => format!("it needs more than {limit} bytes when compiled"),
        (None, None) => error.to_string(),
    })
}

/// What is wrong, without the pattern and the marks under it.
fn last_line(message: &str) -> String {
    let line = message.lines().next_back().unwrap_or(message);
    line.trim().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_pattern_is_refused_in_one_line() {
        assert_eq!(compile("a(b").unwrap_err(), "unclosed group");
        assert_eq!(
            compile(r"(a)\1").unwrap_err(),
            "backreferences are not supported"
        );
        let large = r"(\w{100}){1000}";
        let seen = compile(large).unwrap_err();
        assert_eq!(seen, "it needs more than 10485760 bytes when compiled");
    }
}
