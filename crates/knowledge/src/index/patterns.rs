//! The index over regular expressions, which finds the patterns that match a text.
//!
//! Most patterns of a table contain a literal that each match contains as well. One automaton finds
//! these literals in a single pass, and only the patterns whose literal was found are tried. The
//! other patterns share an automaton, whose states are computed when they are first needed.

use std::cell::RefCell;

use aho_corasick::{AhoCorasick, MatchKind};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use regex_automata::meta::Regex;
use regex_automata::{Input, PatternSet};
use regex_syntax::hir::{Class, Hir, HirKind};

use crate::pattern;

/// Shorter literals are found in too many texts to be useful.
const LITERAL_SIZE_MIN: usize = 3;

/// A pattern that needs more literals than this shares an automaton instead.
const LITERAL_COUNT_MAX: usize = 64;

/// How many patterns share an automaton at most. One automaton reads a text once, and few of its
/// states occur in practice.
const GROUP_SIZE: usize = 4096;

/// The limit of the states of such an automaton that a thread computes while it searches, in bytes.
const LAZY_STATES_SIZE_MAX: usize = 16 << 20;

/// An immutable index of patterns.
#[derive(Debug)]
pub(crate) struct PatternIndex {
    /// Finds the literals of the patterns in [`Self::filtered`], without regard to ASCII case.
    literals: Option<AhoCorasick>,
    /// For each literal, the positions in `filtered` of the patterns that need it.
    owners: Box<[Box<[u32]>]>,
    filtered: Box<[Filtered]>,
    groups: Box<[Group]>,
    pattern_count: usize,
    size: usize,
}

#[derive(Debug)]
struct Filtered {
    regex: Regex,
    row: u32,
}

#[derive(Debug)]
struct Group {
    regex: Regex,
    rows: Box<[u32]>,
}

/// Why an index of patterns was not built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatternError {
    /// The pattern is not a regular expression, for this reason.
    Invalid(String),
    /// The compiled patterns need more than the limit.
    TooLarge,
}

/// Buffers that a search uses.
#[derive(Debug, Default)]
struct Scratch {
    /// Whether the pattern at this position of `filtered` was tried.
    is_tried: Vec<bool>,
    tried: Vec<u32>,
    sets: Vec<PatternSet>,
}

impl PatternIndex {
    /// Calls `found` with the row of each pattern that matches, in no particular order.
    pub(crate) fn rows(&self, text: &str, mut found: impl FnMut(u32)) {
        thread_local! {
            static SCRATCH: RefCell<Scratch> = RefCell::default();
        }
        SCRATCH.with_borrow_mut(|scratch| {
            self.filtered_rows(text, scratch, &mut found);
            self.grouped_rows(text, scratch, &mut found);
        });
    }

    fn filtered_rows(&self, text: &str, scratch: &mut Scratch, found: &mut impl FnMut(u32)) {
        let Some(literals) = &self.literals else {
            return;
        };
        let Scratch {
            is_tried, tried, ..
        } = scratch;
        if is_tried.len() < self.filtered.len() {
            is_tried.resize(self.filtered.len(), false);
        }
        for literal in literals.find_overlapping_iter(text) {
            for owner in &self.owners[literal.pattern().as_usize()] {
                if !std::mem::replace(&mut is_tried[*owner as usize], true) {
                    tried.push(*owner);
                }
            }
        }
        for owner in tried.drain(..) {
            is_tried[owner as usize] = false;
            let filtered = &self.filtered[owner as usize];
            if filtered.regex.is_match(text) {
                found(filtered.row);
            }
        }
    }

    fn grouped_rows(&self, text: &str, scratch: &mut Scratch, found: &mut impl FnMut(u32)) {
        for group in &self.groups {
            let count = group.rows.len();
            let sets = &mut scratch.sets;
            while sets.len() <= count {
                sets.push(PatternSet::new(sets.len()));
            }
            let set = &mut sets[count];
            set.clear();
            group
                .regex
                .which_overlapping_matches(&Input::new(text), set);
            set.iter()
                .for_each(|pattern| found(group.rows[pattern.as_usize()]));
        }
    }

    /// How many patterns there are.
    pub(crate) fn len(&self) -> usize {
        self.pattern_count
    }

    /// Bytes of memory, without what threads keep while they search.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

/// Collects patterns.
#[derive(Debug)]
pub(crate) struct PatternIndexBuilder {
    size_max: usize,
    size: usize,
    /// The patterns of each literal, as positions in `filtered`.
    owners: HashMap<Vec<u8>, Vec<u32>, FixedState>,
    filtered: Vec<Filtered>,
    /// Patterns without literals.
    others: Vec<(u32, Hir)>,
}

impl PatternIndexBuilder {
    /// An index that needs at most `size_max` bytes.
    pub(crate) fn new(size_max: usize) -> Self {
        Self {
            size_max,
            size: 0,
            owners: HashMap::default(),
            filtered: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Adds the pattern of a row.
    pub(crate) fn push(&mut self, row: usize, pattern: &str) -> Result<(), PatternError> {
        let regex = pattern::compile(pattern).map_err(PatternError::Invalid)?;
        let parsed = regex_syntax::parse(pattern);
        let hir = parsed.map_err(|error| PatternError::Invalid(error.to_string()))?;
        self.grow(regex.memory_usage())?;
        let Some(literals) = literals_of(&hir) else {
            self.others.push((row as u32, hir));
            return Ok(());
        };
        let owner = self.filtered.len() as u32;
        for literal in literals {
            let owners = self.owners.entry(literal).or_default();
            if owners.last() != Some(&owner) {
                owners.push(owner);
            }
        }
        let row = row as u32;
        self.filtered.push(Filtered { regex, row });
        Ok(())
    }

    fn grow(&mut self, size: usize) -> Result<(), PatternError> {
        self.size += size;
        match self.size > self.size_max {
            true => Err(PatternError::TooLarge),
            false => Ok(()),
        }
    }

    /// The finished index.
    pub(crate) fn build(mut self) -> Result<PatternIndex, PatternError> {
        let pattern_count = self.filtered.len() + self.others.len();
        let mut groups = Vec::new();
        for patterns in std::mem::take(&mut self.others).chunks(GROUP_SIZE) {
            let (rows, hirs): (Vec<u32>, Vec<&Hir>) =
                patterns.iter().map(|(row, hir)| (*row, hir)).unzip();
            let config = Regex::config()
                .match_kind(regex_automata::MatchKind::All)
                .nfa_size_limit(Some(self.size_max - self.size))
                .hybrid_cache_capacity(LAZY_STATES_SIZE_MAX);
            let built = Regex::builder()
                .configure(config)
                .build_many_from_hir(&hirs);
            let regex = built.map_err(|_| PatternError::TooLarge)?;
            self.grow(regex.memory_usage())?;
            let rows = rows.into();
            groups.push(Group { regex, rows });
        }
        let (literals, owners): (Vec<Vec<u8>>, Vec<Vec<u32>>) =
            std::mem::take(&mut self.owners).into_iter().unzip();
        let literals = match literals.is_empty() {
            true => None,
            false => {
                let built = AhoCorasick::builder()
                    .match_kind(MatchKind::Standard)
                    .ascii_case_insensitive(true)
                    .build(&literals);
                Some(built.map_err(|_| PatternError::TooLarge)?)
            }
        };
        let literals_size = literals.as_ref().map_or(0, AhoCorasick::memory_usage);
        self.grow(literals_size)?;
        Ok(PatternIndex {
            literals,
            owners: owners.into_iter().map(Into::into).collect(),
            filtered: self.filtered.into(),
            groups: groups.into(),
            pattern_count,
            size: self.size,
        })
    }
}

/// Literals of which each match of the pattern contains at least one, in lower case as far as they
/// are ASCII; `None` if there are none, or only short ones.
fn literals_of(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    let literals = match hir.kind() {
        HirKind::Literal(literal) => vec![literal.0.to_ascii_lowercase()],
        HirKind::Capture(capture) => return literals_of(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            return literals_of(&repetition.sub);
        }
        HirKind::Alternation(branches) => {
            let mut literals = Vec::new();
            for branch in branches {
                literals.extend(literals_of(branch)?);
            }
            literals
        }
        HirKind::Concat(parts) => return literals_of_concat(parts),
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) | HirKind::Repetition(_) => {
            return None;
        }
    };
    let is_useful =
        literals.len() <= LITERAL_COUNT_MAX && size_of_shortest(&literals) >= LITERAL_SIZE_MIN;
    is_useful.then_some(literals)
}

/// The best literals among those of the parts: the longest ones, then the fewest.
fn literals_of_concat(parts: &[Hir]) -> Option<Vec<Vec<u8>>> {
    let mut candidates: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut run = Vec::new();
    for part in parts {
        match part.kind() {
            HirKind::Literal(literal) => run.extend(literal.0.to_ascii_lowercase()),
            HirKind::Class(class) if let Some(letter) = letter_of(class) => run.push(letter),
            // They match between characters.
            HirKind::Empty | HirKind::Look(_) => {}
            _ => {
                candidates.push(vec![std::mem::take(&mut run)]);
                candidates.extend(literals_of(part));
            }
        }
    }
    candidates.push(vec![run]);
    candidates.retain(|literals| size_of_shortest(literals) >= LITERAL_SIZE_MIN);
    candidates.into_iter().max_by_key(|literals| {
        let count = std::cmp::Reverse(literals.len());
        (size_of_shortest(literals), count)
    })
}

/// The lower-case letter of a class of one ASCII letter in both cases.
fn letter_of(class: &Class) -> Option<u8> {
    let mut bytes = [0; 2];
    let mut count = 0;
    let mut push = |start: u32, end: u32| {
        for code in start..=end {
            *bytes.get_mut(count)? = u8::try_from(code).ok().filter(u8::is_ascii)?;
            count += 1;
        }
        Some(())
    };
    match class {
        Class::Unicode(class) => {
            for range in class.ranges() {
                push(u32::from(range.start()), u32::from(range.end()))?;
            }
        }
        Class::Bytes(class) => {
            for range in class.ranges() {
                push(u32::from(range.start()), u32::from(range.end()))?;
            }
        }
    }
    let is_letter = count == 2 && bytes[0].eq_ignore_ascii_case(&bytes[1]);
    is_letter.then(|| bytes[0].to_ascii_lowercase())
}

fn size_of_shortest(literals: &[Vec<u8>]) -> usize {
    literals.iter().map(Vec::len).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_literals(pattern: &str, expected: Option<&[&str]>) {
        let found = literals_of(&regex_syntax::parse(pattern).unwrap());
        let found = found.map(|it| {
            it.into_iter()
                .map(|it| String::from_utf8(it).unwrap())
                .collect()
        });
        let expected: Option<Vec<String>> =
            expected.map(|it| it.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(found, expected, "{pattern}");
    }

    #[test]
    fn literals_are_part_of_every_match() {
        check_literals("wp-login", Some(&["wp-login"]));
        // In Unicode, the long s is another form of s.
        check_literals("(?i)UNION.+select", Some(&["elect"]));
        check_literals("x+(foo|barr)+y", Some(&["foo", "barr"]));
        check_literals(r"a\bbc", Some(&["abc"]));
        check_literals(r"\d+ ms in [a-z]+", Some(&[" ms in "]));
        check_literals("(foo)?ab", None);
        check_literals("(foo|b)", None);
        check_literals("[a-z]+@[a-z]+", None);
        check_literals("foo{0,3}", None);
        check_literals("Äther", Some(&["Äther"]));
        check_literals("", None);
    }

    #[test]
    fn the_index_agrees_with_each_pattern_alone() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        const ATOMS: [&str; 18] = [
            "foo",
            "bar",
            "Foo",
            "a",
            "b",
            "ä",
            "(?i:foo)",
            "(?i:ks)",
            "[ab]",
            "[^a]",
            ".",
            r"\b",
            "^",
            "$",
            "(foo|b)",
            "(bar|foo)",
            r"\d",
            " ",
        ];
        const TAILS: [&str; 6] = ["", "", "?", "*", "+", "{2}"];
        for _ in 0..200 {
            let patterns: Vec<String> = (0..random.usize(0..40))
                .map(|_| {
                    (0..random.usize(0..5))
                        .map(|_| {
                            format!(
                                "(?:{}){}",
                                random.choice(ATOMS).unwrap(),
                                random.choice(TAILS).unwrap()
                            )
                        })
                        .collect()
                })
                .collect();
            let mut builder = PatternIndexBuilder::new(usize::MAX);
            for (row, pattern) in patterns.iter().enumerate() {
                builder.push(row, pattern).unwrap();
            }
            let index = builder.build().unwrap();
            assert_eq!(index.len(), patterns.len());
            for _ in 0..40 {
                const PARTS: [&str; 14] = [
                    "foo",
                    "FOO",
                    "bar",
                    "fo",
                    "o",
                    "a",
                    "b",
                    "ä",
                    "k",
                    "K\u{212a}",
                    "ſ",
                    " ",
                    "7",
                    "\n",
                ];
                let text: String = (0..random.usize(0..8))
                    .map(|_| *random.choice(&PARTS).unwrap())
                    .collect();
                let mut found = Vec::new();
                index.rows(&text, |row| found.push(row as usize));
                found.sort_unstable();
                let expected: Vec<usize> = (0..patterns.len())
                    .filter(|row| pattern::compile(&patterns[*row]).unwrap().is_match(&text))
                    .collect();
                assert_eq!(found, expected, "seed {seed}, {text:?}, {patterns:?}");
            }
        }
    }

    #[test]
    fn limits_and_mistakes_are_reported() {
        let mut builder = PatternIndexBuilder::new(usize::MAX);
        builder.push(0, "a").unwrap();
        let error = builder.push(1, "a(").unwrap_err();
        let problem = "unclosed group".to_owned();
        assert_eq!(error, PatternError::Invalid(problem));
        let mut builder = PatternIndexBuilder::new(1000);
        assert_eq!(builder.push(0, r"\w{10}"), Err(PatternError::TooLarge));
    }
}
