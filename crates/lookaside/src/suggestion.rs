//! Suggestions for misspelt words.

/// `; did you mean "x"?` for the known word nearest to a misspelt one, or nothing.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    // Below this similarity a suggestion is a guess: `strsim`'s own examples of typing errors lie
    // above 0.8, unrelated words of one length around 0.5.
    const SIMILARITY_MIN: f64 = 0.7;
    known
        .into_iter()
        .map(|known| (strsim::jaro_winkler(word, known), known))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map_or_else(String::new, |(_, known)| {
            format!("; did you mean \"{known}\"?")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_words_are_suggested() {
        for (word, expected) in [
            ("ouput", "; did you mean \"output\"?"),
            ("modle", "; did you mean \"model\"?"),
            ("zzz", ""),
        ] {
            assert_eq!(did_you_mean(word, ["output", "model", "rule"]), expected);
        }
    }
}
