//! Diagnostics of a model: one line each, with position, label and help for graphical reports.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use miette::{LabeledSpan, NamedSource, SourceCode};

use crate::ast::Span;

/// The severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The model does not load.
    Error,
    /// The model loads, but probably does not do what its author intended.
    Warning,
}

/// One finding in a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The message, as a lower-case line.
    pub message: String,
    /// A short label for the caret.
    pub label: String,
    /// The span in the text.
    pub span: Span,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    pub(crate) fn error(span: Span, message: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            severity: Severity::Error,
            message: message.into(),
            label: "here".into(),
            span,
            help: None,
        })
    }

    pub(crate) fn warning(span: Span, message: impl Into<String>) -> Box<Self> {
        let mut diagnostic = Self::error(span, message);
        diagnostic.severity = Severity::Warning;
        diagnostic
    }

    #[must_use]
    pub(crate) fn label(mut self: Box<Self>, label: impl Into<String>) -> Box<Self> {
        self.label = label.into();
        self
    }

    #[must_use]
    pub(crate) fn help(mut self: Box<Self>, help: impl Into<String>) -> Box<Self> {
        self.help = Some(help.into());
        self
    }

    /// Suggests the nearest of the candidates, if one is similar.
    #[must_use]
    pub(crate) fn nearest<'a>(
        self: Box<Self>,
        word: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Box<Self> {
        match nearest(word, candidates) {
            Some(near) => self.help(format!("did you mean `{near}`?")),
            None => self,
        }
    }
}

/// The candidate that differs least, if it differs by no more than a third of its letters.
fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Comparing takes quadratic time, and no misspelled name is this long.
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= 64)
        .map(|candidate| {
            let distance = strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
            (distance, candidate)
        })
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// All findings in one model, in the order of the text.
///
/// `Display` writes one line per finding, `file:line:column: error: message (help)`. For carets,
/// pass each of [`Self::reports`] to a `miette` handler.
#[derive(Clone)]
pub struct Diagnostics {
    file_name: Arc<str>,
    text: Arc<str>,
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    pub(crate) fn new(file_name: Arc<str>, text: Arc<str>, mut list: Vec<Diagnostic>) -> Self {
        list.sort_by_key(|diagnostic| diagnostic.span.start);
        Self {
            file_name,
            text,
            list,
        }
    }

    /// A list of other findings about the same text.
    pub(crate) fn instead(&self, list: Vec<Diagnostic>) -> Self {
        Self::new(Arc::clone(&self.file_name), Arc::clone(&self.text), list)
    }

    /// The text that the findings are about.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The file name of the model's text.
    pub fn file_name(&self) -> &str {
        &self.file_name
    }

    /// The findings.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// How many findings there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The line and column of a span, both counted from 1, columns in characters.
    pub fn position(&self, span: Span) -> (usize, usize) {
        let before = &self.text[..self.text.floor_char_boundary(span.start as usize)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }

    /// A finding as a line: `file:line:column: error: message (help)`.
    pub fn line(&self, finding: &Diagnostic) -> String {
        let (line, column) = self.position(finding.span);
        let severity = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let help = finding.help.iter().map(|help| format!(" ({help})"));
        let (file, message) = (&self.file_name, &finding.message);
        let start = format!("{file}:{line}:{column}: {severity}: {message}");
        start + &help.collect::<String>()
    }

    /// The findings as reports that `miette` can render.
    pub fn reports(&self) -> impl ExactSizeIterator<Item = Report> {
        let source = Arc::new(NamedSource::new(&self.file_name, Arc::clone(&self.text)));
        self.list.iter().map(move |diagnostic| Report {
            source: Arc::clone(&source),
            diagnostic: diagnostic.clone(),
        })
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.list.iter().map(|finding| self.line(finding)).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Diagnostics {}

/// One finding with the model's text.
#[derive(Clone)]
pub struct Report {
    source: Arc<NamedSource<Arc<str>>>,
    diagnostic: Diagnostic,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.diagnostic.message)
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.diagnostic, f)
    }
}

impl Error for Report {}

impl miette::Diagnostic for Report {
    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.diagnostic.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let help = self.diagnostic.help.as_ref()?;
        Some(Box::new(help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&*self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = LabeledSpan::at(self.diagnostic.span.range(), &self.diagnostic.label);
        Some(Box::new(std::iter::once(label)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_words() {
        let words = ["to_json", "to_str", "nth"];
        for (word, expected) in [
            ("to_jsn", Some("to_json")),
            ("TO_JSON", Some("to_json")),
            ("to_sttr", Some("to_str")),
            ("frobnicate", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, words), expected, "{word}");
        }
    }

    #[test]
    fn a_place_counts_characters() {
        let span = Span { start: 8, end: 9 };
        let list = vec![*Diagnostic::error(span, "wrong").help("do right")];
        let diagnostics = Diagnostics::new("m.oml".into(), "é\né é!".into(), list);
        assert_eq!(
            diagnostics.to_string(),
            "m.oml:2:4: error: wrong (do right)"
        );
        assert_eq!(diagnostics.reports().len(), 1);
    }
}
