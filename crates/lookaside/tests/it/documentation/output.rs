//! Compares the output of a command with that in a page.
//!
//! Lines are compared exactly, with two exceptions. A line `…` matches any lines, and `…` within a
//! line any text. A number before one of [`UNITS`] matches any other number, because it is a
//! measurement or depends on the machine.

/// Units of numbers that differ from run to run.
const UNITS: &[&str] = &["ms", "s", "us", "events/s", "workers"];

/// Whether a page shows this output.
pub(super) fn is_shown(shown: &[String], printed: &str) -> bool {
    let shown: Vec<String> = shown
        .iter()
        .map(|line| without_measurements(line))
        .collect();
    let printed: Vec<String> = printed.lines().map(without_measurements).collect();
    matches(
        &shown,
        &printed,
        |line| line.trim() == "…",
        |shown, printed| {
            let [shown, printed]: [Vec<char>; 2] = [shown, printed].map(|it| it.chars().collect());
            matches(&shown, &printed, |char| *char == '…', char::eq)
        },
    )
}

/// Whether items match a pattern some of whose items stand for any items.
fn matches<T>(
    pattern: &[T],
    items: &[T],
    is_any: impl Fn(&T) -> bool,
    equal: impl Fn(&T, &T) -> bool,
) -> bool {
    let begins = |items: &[T], part: &[T]| {
        items.len() >= part.len() && part.iter().zip(items).all(|(part, item)| equal(part, item))
    };
    let parts: Vec<&[T]> = pattern.split(is_any).collect();
    let [first, middle @ .., last] = &*parts else {
        return pattern.len() == items.len() && begins(items, pattern);
    };
    if !begins(items, first) {
        return false;
    }
    let mut rest = &items[first.len()..];
    for part in middle {
        let Some(start) = (0..=rest.len()).find(|start| begins(&rest[*start..], part)) else {
            return false;
        };
        rest = &rest[start + part.len()..];
    }
    rest.len() >= last.len() && begins(&rest[rest.len() - last.len()..], last)
}

/// A line with `N` for each number that has one of the units.
fn without_measurements(line: &str) -> String {
    // A machine with one core has one.
    let line = line.replace(" worker,", " workers,");
    let words: Vec<&str> = line.split(' ').collect();
    let words = words.iter().enumerate().map(|(index, word)| {
        let unit = words.get(index + 1).map(|word| word.trim_end_matches(','));
        let is_number = word.starts_with(|char: char| char.is_ascii_digit());
        if is_number && unit.is_some_and(|unit| UNITS.contains(&unit)) {
            "N"
        } else {
            word
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn output_is_compared_line_by_line() {
    let check = |shown: &[&str], printed: &str, expected: bool| {
        let lines: Vec<String> = shown.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(is_shown(&lines, printed), expected, "{shown:?} {printed:?}");
    };
    check(&["a", "b"], "a\nb\n", true);
    check(&["a"], "a\nb\n", false);
    check(&["a", "b"], "a\n", false);
    check(&["a", "…"], "a\nb\nc\n", true);
    check(&["a", "…"], "b\n", false);
    check(&["…", "c"], "a\nb\nc\n", true);
    check(&["…", "c"], "a\nc\nb\n", false);
    check(&["a", "…", "b", "…", "c"], "a\nx\nb\nc\n", true);
    check(&["a", "…", "b", "…", "c"], "a\nx\nc\n", false);
    check(&["a … c"], "a bb c\n", true);
    check(&["a … c"], "a bb d\n", false);
    check(&["3 rows in 16 ms"], "3 rows in 2 ms\n", true);
    check(&["3 rows in 16 ms"], "4 rows in 16 ms\n", false);
    check(
        &["in 0.1 s, 2 workers, x"],
        "in 12.0 s, 64 workers, x\n",
        true,
    );
}
