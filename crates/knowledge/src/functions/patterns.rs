//! `regexp_like`: regular expressions in the dialect of the crate `regex`.

use std::cell::RefCell;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use regex_automata::meta::Regex;

use crate::pattern::compile;

/// The memory of compiled patterns that a thread keeps, in bytes; beyond it, all are compiled
/// again.
const COMPILED_SIZE_MAX: usize = 32 << 20;

/// Whether a text matches a pattern. A thread keeps the patterns that it has compiled.
pub(crate) fn is_match(text: &str, pattern: &str) -> Result<bool, String> {
    thread_local! {
        static COMPILED: RefCell<Compiled> = RefCell::default();
    }
    COMPILED.with_borrow_mut(|compiled| Ok(compiled.get(pattern)?.is_match(text)))
}

#[derive(Default)]
struct Compiled {
    patterns: HashMap<Box<str>, Regex, RandomState>,
    size: usize,
}

impl Compiled {
    fn get(&mut self, pattern: &str) -> Result<&Regex, String> {
        if !self.patterns.contains_key(pattern) {
            let regex = compile(pattern)?;
            let size = regex.memory_usage() + pattern.len();
            if self.size + size > COMPILED_SIZE_MAX {
                self.patterns.clear();
                self.size = 0;
            }
            self.size += size;
            self.patterns.insert(pattern.into(), regex);
        }
        Ok(&self.patterns[pattern])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_anywhere_unless_anchored() {
        assert_eq!(is_match("GET /wp-login.php", r"wp-(login|admin)"), Ok(true));
        assert_eq!(is_match("x", "^$"), Ok(false));
        assert_eq!(is_match("Zoë", "(?i)ZOË"), Ok(true));
        assert_eq!(is_match("", ""), Ok(true));
    }
}
