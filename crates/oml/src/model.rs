//! Models, and sets of models from which a rule key selects.

use std::sync::Arc;

use lookaside_value::{Contract, OnLookupFailure, Text};

use crate::Wildcard;
use crate::ast::Program;
use crate::ast::{Span, Sql};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::format::format;
use crate::parse::parse;

/// A parsed and checked model.
///
/// ```
/// use lookaside_oml::Model;
///
/// let model = Model::parse("a.oml", "name : a  rule : /web/*  ---  * = take() ;")?;
/// assert_eq!(model.name(), "a");
/// assert!(model.rules()[0].matches("/web/eu"));
///
/// let error = Model::parse("b.oml", "name : b\n---\nx = raed(y) ;").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "b.oml:3:5: error: unknown function or type `raed` (did you mean `read`?)"
/// );
/// # Ok::<(), lookaside_oml::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    program: Program,
    warnings: Diagnostics,
}

impl Model {
    /// Parses a model; `file_name` is its name in messages.
    ///
    /// # Errors
    /// All errors in the text that one pass can find.
    pub fn parse(file_name: &str, text: &str) -> Result<Self, Diagnostics> {
        Self::parse_whole(file_name, text).0
    }

    /// The model, and whether its header enables it, which is known even if statements are invalid.
    fn parse_whole(file_name: &str, text: &str) -> (Result<Self, Diagnostics>, bool) {
        let outcome = parse(text);
        let diagnostics = Diagnostics::new(file_name.into(), text.into(), outcome.diagnostics);
        let model = match outcome.program {
            None => Err(diagnostics),
            Some(program) => Ok(Self {
                program,
                warnings: diagnostics,
            }),
        };
        (model, outcome.enabled)
    }

    /// The model's name.
    pub fn name(&self) -> &Text {
        &self.program.name
    }

    /// The name of its file.
    pub fn file_name(&self) -> &str {
        self.warnings.file_name()
    }

    /// The patterns of the rule keys that it is for.
    pub fn rules(&self) -> &[Wildcard] {
        &self.program.rules
    }

    /// False if its header has `enable : false`.
    pub fn enabled(&self) -> bool {
        self.program.enabled
    }

    /// What the answers of one of its lookups have to include.
    pub fn contract_of(&self, sql: &Sql) -> Contract {
        self.program.contract.and(sql.contract)
    }

    /// What happens to an event if one of its lookups fails; `None` if the model does not set it.
    pub fn on_failure_of(&self, sql: &Sql) -> Option<OnLookupFailure> {
        sql.on_failure.or(self.program.on_lookup_failure)
    }

    /// Its syntax tree.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Probable mistakes in it.
    pub fn warnings(&self) -> &Diagnostics {
        &self.warnings
    }

    /// The line and column of a span in its text, both counted from 1.
    pub fn position(&self, span: Span) -> (usize, usize) {
        self.warnings.position(span)
    }

    /// Its text.
    pub fn text(&self) -> &str {
        self.warnings.text()
    }

    /// Findings of a later step, such as refused SQL, with its text; their spans are in that text.
    pub fn diagnostics(&self, list: Vec<Diagnostic>) -> Diagnostics {
        self.warnings.instead(list)
    }
}

/// Models in the order in which they are tried.
#[derive(Clone, Debug, Default)]
pub struct ModelSet {
    models: Vec<Arc<Model>>,
}

impl ModelSet {
    /// Parses sources given as file name and text; their order is the order of [`Self::choose`].
    ///
    /// A disabled model with errors is left out, as models are disabled to set broken ones aside.
    ///
    /// # Errors
    /// All errors, one list per source; also if two models have the same name.
    pub fn from_sources<F: AsRef<str>, T: AsRef<str>>(
        sources: impl IntoIterator<Item = (F, T)>,
    ) -> Result<Self, Vec<Diagnostics>> {
        let mut models: Vec<Arc<Model>> = Vec::new();
        let mut errors = Vec::new();
        for (file_name, text) in sources {
            match Model::parse_whole(file_name.as_ref(), text.as_ref()) {
                (Ok(model), _) => match models.iter().find(|other| other.name() == model.name()) {
                    Some(first) => {
                        let message = format!(
                            "a model of this name already exists in {}",
                            first.file_name()
                        );
                        let place = model.program.name_span;
                        let fault = Diagnostic::error(place, message);
                        errors.push(model.diagnostics(vec![*fault]));
                    }
                    None => models.push(Arc::new(model)),
                },
                (Err(_), false) => {}
                (Err(diagnostics), true) => errors.push(diagnostics),
            }
        }
        match errors.is_empty() {
            true => Ok(Self { models }),
            false => Err(errors),
        }
    }

    /// The first enabled model with a rule that matches the key.
    pub fn choose(&self, rule_key: &str) -> Option<&Arc<Model>> {
        self.models.iter().find(|model| {
            model.enabled() && model.rules().iter().any(|rule| rule.matches(rule_key))
        })
    }

    /// The model with this name, enabled or not.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Model>> {
        self.models.iter().find(|model| model.name() == name)
    }

    /// All models in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Model>> {
        self.models.iter()
    }

    /// How many models there are.
    pub fn len(&self) -> usize {
        self.models.len()
    }

    /// Whether there are no models.
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }
}

/// The body of the parser's fuzz target: for any bytes, parsing ends, and its result can be
/// displayed; a valid model can be formatted, and a formatted one stays as it is.
#[doc(hidden)]
pub fn fuzz_parse(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let found = match Model::parse("fuzz", &text) {
        Ok(model) => {
            let formatted = format("fuzz", &text).expect("a valid model is formatted");
            assert_eq!(format("fuzz", &formatted).ok(), Some(formatted));
            model.warnings
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "a refusal without a reason");
            errors
        }
    };
    for diagnostic in found.iter() {
        let range = diagnostic.span.range();
        assert!(
            text.get(range).is_some(),
            "{diagnostic:?} is outside the text"
        );
    }
    assert!(found.to_string().lines().count() >= found.len());
}
