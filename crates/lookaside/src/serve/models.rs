//! Models that enrich events over HTTP, bound to the tables once a catalog.

use std::sync::Arc;

use jiff::tz::TimeZone;
use lookaside_knowledge::Knowledge;
use lookaside_oml::{Options, Program};
use lookaside_value::NameTable;

use crate::cli::enrich::{intranet, timezone};
use crate::cli::failure::Failure;
use crate::cli::models::{Models as ModelFiles, model_failure};
use crate::cli::project::Project;

/// The enabled models of a project, sorted by name.
#[derive(Clone, Default)]
pub(crate) struct Models(Vec<Arc<Served>>);

/// A model that is ready to run.
pub(crate) struct Served {
    pub(crate) name: String,
    /// For messages.
    pub(crate) file_name: Arc<str>,
    pub(crate) names: NameTable,
    pub(crate) program: Program,
}

impl Models {
    /// Reads and binds all models of a project.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub(crate) fn read(project: &Project, knowledge: &Knowledge) -> Result<Self, Failure> {
        let timezone: TimeZone = timezone(project.settings.timezone.as_ref())?;
        let files = ModelFiles::read(&project.models_folder())?;
        let mut served = Vec::new();
        for model in files.iter().filter(|model| model.enabled()) {
            let options = Options {
                timezone: timezone.clone(),
                intranet: intranet(knowledge),
                ..Options::default()
            };
            let mut names = NameTable::new();
            let program = Program::bind(model, &mut names, &mut knowledge.session(), &options);
            served.push(Arc::new(Served {
                program: program.map_err(|diagnostics| model_failure(&[diagnostics]))?,
                name: model.name().to_string(),
                file_name: model.file_name().into(),
                names,
            }));
        }
        served.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self(served))
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Served>> {
        self.0.iter().find(|model| model.name == name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|model| model.name.as_str())
    }
}
