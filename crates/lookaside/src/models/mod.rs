//! The models of a project: reading all, choosing one.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`options`] | the environment of models: time zone and internal networks |
//! | [`bind`] | binding models to the tables and providers of a project |
//! | [`choice`] | the model of each event, if a run has several |
//! | [`lookups`] | how the lookups of a model are answered, and warnings about them |
//! | [`outputs`] | the outputs that the text of a model names |
//! | [`routes`] | the outputs of events by conditions |
//! | [`transform`] | a model as the transform of a stream |
//! | [`waiting`] | lookups that wait until their database is available |
//! | [`test_file`] | the test files of models |

pub(crate) mod bind;
pub(crate) mod choice;
pub(crate) mod lookups;
pub(crate) mod options;
pub(crate) mod outputs;
pub(crate) mod routes;
pub(crate) mod test_file;
pub(crate) mod transform;
pub(crate) mod waiting;

use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lookaside_oml::{Diagnostics, Model, ModelSet, Wildcard};
use miette::{GraphicalReportHandler, GraphicalTheme};

use crate::failure::Failure;
use crate::suggestion::did_you_mean;

/// The depth limit for folders below `models/`, which ends the recursion at a link to a parent
/// folder.
const FOLDER_DEPTH_MAX: usize = 16;

/// Findings behind this column are not drawn but written as a line: such lines are not readable in a
/// terminal, and miette 7.6 panics where a caret is behind column 65,535, with tabs at 16,384.
const DRAWN_COLUMN_MAX: usize = 4_000;

/// All models of a project, in the order of their paths.
pub(crate) struct Models {
    folder: PathBuf,
    set: ModelSet,
}

/// Selects a model.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// The one of that name.
    Name(&'a str),
    /// The first enabled one that has a rule for that key.
    Key(&'a str),
    /// For each event the first of these names that has a rule for its key; of all enabled models
    /// with rules if there are no names.
    Each(&'a [String]),
}

impl Models {
    /// Reads every `*.oml` below a folder; the faults of all files are reported together.
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let mut sources = Vec::new();
        for path in files_below(folder, ".oml")? {
            let text = fs::read_to_string(&path).map_err(|error| {
                Failure::new(format!("cannot read {}", path.display())).because(&error)
            })?;
            sources.push((path.display().to_string(), text));
        }
        let set = ModelSet::from_sources(sources).map_err(|faults| model_failure(&faults))?;
        Ok(Self {
            folder: folder.to_owned(),
            set,
        })
    }

    /// The models in the order of their paths.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Model>> {
        self.set.iter()
    }

    /// The selected models, one unless [`Wanted::Each`] is selected; the error lists the models that
    /// exist.
    pub(crate) fn choose(&self, wanted: Wanted<'_>) -> Result<Vec<&Arc<Model>>, Failure> {
        if self.set.is_empty() {
            let message = format!("{} contains no models", self.folder.display());
            return Err(Failure::new(message).with_help("create a file *.oml there"));
        }
        match wanted {
            Wanted::Name(name) => Ok(vec![self.by_name(name)?]),
            Wanted::Key(key) => {
                let found = self.set.choose(key).ok_or_else(|| {
                    Failure::new(format!("no enabled model has a rule for {key}"))
                        .with_excerpt(self.overview())
                        .with_help("name a model with --model, or another key with --rule")
                })?;
                Ok(vec![found])
            }
            Wanted::Each([]) => {
                let models = self.iter();
                let models = models.filter(|model| model.enabled() && !model.rules().is_empty());
                let models: Vec<_> = models.collect();
                match models.is_empty() {
                    false => Ok(models),
                    true => Err(Failure::new(
                        "no enabled model has a rule, so no event selects one",
                    )
                    .with_excerpt(self.overview())
                    .with_help("add `rule : /a/*` to the header of each model")),
                }
            }
            Wanted::Each(names) => self.by_names(names),
        }
    }

    /// Models that are tried in the order of their names.
    fn by_names(&self, names: &[String]) -> Result<Vec<&Arc<Model>>, Failure> {
        let mut models: Vec<&Arc<Model>> = Vec::with_capacity(names.len());
        for name in names {
            let model = self.by_name(name)?;
            if model.rules().is_empty() {
                let message = format!("the model {name} has no rule, so no event selects it");
                let help = format!("add `rule : /a/*` to the header in {}", model.file_name());
                return Err(Failure::new(message).with_help(help));
            }
            let is_covered = |rule: &Wildcard| {
                let mut rules = models.iter().flat_map(|model| model.rules());
                // A `*` of the rule is matched by a `*` only, and so is all that it stands for.
                rules.any(|earlier| earlier.matches(rule.as_str()))
            };
            if model.rules().iter().all(is_covered) {
                let message = format!(
                    "no event selects the model {name}: the models before it have rules for all of \
                     its keys"
                );
                let help = "name it before them, or remove it from the list";
                return Err(Failure::new(message).with_help(help));
            }
            models.push(model);
        }
        Ok(models)
    }

    fn by_name(&self, name: &str) -> Result<&Arc<Model>, Failure> {
        match self.set.by_name(name) {
            Some(model) if model.enabled() => Ok(model),
            Some(model) => Err(Failure::new(format!("the model {name} is disabled"))
                .with_help(format!("remove `enable : false` in {}", model.file_name()))),
            None => {
                let hint = did_you_mean(name, self.iter().map(|model| model.name().as_str()));
                let failure = Failure::new(format!("there is no model {name}{hint}"));
                Err(failure.with_excerpt(self.overview()))
            }
        }
    }

    /// One line per model: its name, its rules, its file.
    fn overview(&self) -> String {
        let mut lines = String::from("  there are:");
        for model in self.iter() {
            let rules: Vec<_> = model.rules().iter().map(|rule| rule.as_str()).collect();
            let rules = match rules.as_slice() {
                [] => "no rule".to_owned(),
                rules => rules.join(" "),
            };
            let off = if model.enabled() { "" } else { ", off" };
            let (name, file) = (model.name(), model.file_name());
            lines.push_str(&format!("\n    {name}  ({rules}{off})  {file}"));
        }
        lines
    }
}

/// The error for faulty models, with source excerpts.
pub(crate) fn model_failure(faults: &[Diagnostics]) -> Failure {
    let names: Vec<_> = faults.iter().map(Diagnostics::file_name).collect();
    let excerpt: String = faults.iter().map(draw).collect();
    let lines = faults.iter().map(ToString::to_string);
    let lines: Vec<String> = lines.map(|lines| lines.replace('\n', "; ")).collect();
    Failure::new(format!("{} cannot be used", names.join(", ")))
        .with_excerpt(excerpt)
        .with_summary(lines.join("; "))
}

/// Renders diagnostics as text, in colour on a terminal.
pub(crate) fn draw(diagnostics: &Diagnostics) -> String {
    let theme = if io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        GraphicalTheme::unicode()
    } else {
        GraphicalTheme::unicode_nocolor()
    };
    let handler = GraphicalReportHandler::new_themed(theme).with_width(100);
    let mut text = String::new();
    for (finding, report) in diagnostics.iter().zip(diagnostics.reports()) {
        let (_, column) = diagnostics.position(finding.span);
        if column.max(finding.span.range().len()) > DRAWN_COLUMN_MAX {
            text.push_str(&diagnostics.line(finding));
            text.push('\n');
            continue;
        }
        handler
            .render_report(&mut text, &report)
            .expect("a string takes any text");
    }
    text
}

/// The paths below a folder that end with `suffix`, sorted; none if the folder does not exist.
pub(crate) fn files_below(folder: &Path, suffix: &str) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let cannot = |error: io::Error| {
            Failure::new(format!("cannot read the folder {}", folder.display())).because(&error)
        };
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if depth == 0 && error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(cannot(error)),
        };
        for entry in entries {
            let path = entry.map_err(cannot)?.path();
            if path.is_dir() {
                if depth < FOLDER_DEPTH_MAX {
                    folders.push((path, depth + 1));
                }
            } else if path
                .as_os_str()
                .as_encoded_bytes()
                .ends_with(suffix.as_bytes())
            {
                paths.push(path);
            }
        }
    }
    paths.sort();
    Ok(paths)
}
