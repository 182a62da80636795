//! Models that enrich events over HTTP, bound to the tables and providers once per catalog.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use jiff::tz::TimeZone;
use lookaside_knowledge::{Error, Knowledge};
use lookaside_oml::{Model, Options, Program};
use lookaside_value::{NameTable, OnLookupFailure};

use crate::failure::Failure;
use crate::models::Models as ModelFiles;
use crate::models::bind::{Silent, Unbound, bind};
use crate::models::lookups::{Note, model_lookups, review};
use crate::models::options::{intranet, timezone};
use crate::models::test_file::first_input;
use crate::project::Project;

/// The enabled models of a project as read from their files.
#[derive(Clone)]
pub(crate) struct ModelSources {
    models: Vec<Arc<Model>>,
    /// An event of the tests of each model, by the model's name.
    examples: HashMap<String, String>,
    timezone: TimeZone,
    on_lookup_failure: OnLookupFailure,
}

/// The enabled models of a project, those that are ready and those that wait, each sorted by name.
pub(crate) struct Models {
    ready: Vec<Arc<BoundModel>>,
    waiting: Vec<Waiting>,
    examples: HashMap<String, String>,
}

/// A model that is ready to run.
pub(crate) struct BoundModel {
    pub(crate) name: String,
    /// For messages.
    pub(crate) file_name: Arc<str>,
    pub(crate) names: NameTable,
    pub(crate) program: Program,
    /// The notes about its lookups.
    pub(crate) notes: Vec<Note>,
}

/// A model that waits for providers that have never responded.
pub(crate) struct Waiting {
    pub(crate) name: String,
    /// The lookups that could not be bound, at least one, and why.
    pub(crate) silent: Vec<Silent>,
}

impl ModelSources {
    /// Reads all models of a project.
    ///
    /// # Errors
    /// When one of them cannot be read or parsed.
    pub(crate) fn read(project: &Project) -> Result<Self, Failure> {
        let files = ModelFiles::read(&project.models_folder())?;
        let enabled = files.iter().filter(|model| model.enabled()).cloned();
        let mut models: Vec<Arc<Model>> = enabled.collect();
        models.sort_by(|a, b| a.name().cmp(b.name()));
        let examples = models.iter().filter_map(|model| {
            let example = first_input(Path::new(model.file_name()))?;
            Some((model.name().to_string(), example))
        });
        Ok(Self {
            examples: examples.collect(),
            models,
            timezone: timezone(project.settings.timezone.as_ref())?,
            on_lookup_failure: project.settings.on_lookup_failure.unwrap_or_default(),
        })
    }

    /// The statements of all lookups.
    pub(crate) fn statements(&self) -> impl Iterator<Item = &str> {
        let lookups = self.models.iter().flat_map(|model| model_lookups(model));
        lookups.map(|sql| sql.text.as_str())
    }
}

impl Models {
    /// Binds models. For each of [`ModelSources::statements`], `silent` holds the error if its
    /// provider does not respond; models with such a lookup wait for it.
    ///
    /// # Errors
    /// When one of them is invalid.
    pub(crate) fn bind(
        sources: &ModelSources,
        silent: Vec<Option<Error>>,
        knowledge: &Knowledge,
    ) -> Result<Self, Failure> {
        let silent: HashMap<&str, Error> = sources
            .statements()
            .zip(silent)
            .filter_map(|(sql, error)| Some((sql, error?)))
            .collect();
        let options = Options {
            timezone: sources.timezone.clone(),
            intranet: intranet(knowledge),
            on_lookup_failure: sources.on_lookup_failure,
            ..Options::default()
        };
        let (mut ready, mut waiting) = (Vec::new(), Vec::new());
        for model in &sources.models {
            let mut names = NameTable::new();
            let name = model.name().to_string();
            match bind(model, &mut names, knowledge, &options, &silent) {
                Ok(program) => ready.push(Arc::new(BoundModel {
                    program,
                    name,
                    file_name: model.file_name().into(),
                    names,
                    notes: review(model, knowledge).notes(),
                })),
                Err(Unbound::Waiting { silent, .. }) => waiting.push(Waiting { name, silent }),
                Err(faulty) => return Err(faulty.into_failure()),
            }
        }
        Ok(Self {
            ready,
            waiting,
            examples: sources.examples.clone(),
        })
    }

    /// Finds a model that is ready.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<BoundModel>> {
        self.ready.iter().find(|model| model.name == name)
    }

    /// Finds a model that waits for providers.
    pub(crate) fn find_waiting(&self, name: &str) -> Option<&Waiting> {
        self.waiting.iter().find(|model| model.name == name)
    }

    /// An event from the tests of a model, if it has any.
    pub(crate) fn example(&self, name: &str) -> Option<&str> {
        self.examples.get(name).map(String::as_str)
    }

    /// The models that are not ready.
    pub(crate) fn waiting(&self) -> &[Waiting] {
        &self.waiting
    }

    /// How many models are ready.
    pub(crate) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// The notes about the lookups of all models that are ready.
    pub(crate) fn notes(&self) -> impl Iterator<Item = &Note> {
        self.ready.iter().flat_map(|model| &model.notes)
    }

    /// The names of all models, ready or not, sorted.
    pub(crate) fn names(&self) -> Vec<&str> {
        let ready = self.ready.iter().map(|model| model.name.as_str());
        let mut names: Vec<&str> = ready.chain(self.waiting_names()).collect();
        names.sort_unstable();
        names
    }

    /// The names of the models that are not ready.
    pub(crate) fn waiting_names(&self) -> impl Iterator<Item = &str> {
        self.waiting.iter().map(|model| model.name.as_str())
    }
}
