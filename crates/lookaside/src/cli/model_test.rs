//! `lookaside test`: runs the models' tests, each an input and its expected output.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use lookaside_knowledge::{Knowledge, Session};
use lookaside_oml::{Evaluator, Model, Options, RunReport};
use lookaside_stream::{Chunk, FormatOptions, InputFormat, OutputFormat, Rejects, Report};
use lookaside_value::{Batch, NameTable};
use serde_json::{Map, Value};

use crate::cli::difference::difference;
use crate::cli::output::write_stdout;
use crate::config::EnrichSettings;
use crate::failure::{CommandResult, Exit, Failure};
use crate::models::bind::{Unbound, bind};
use crate::models::options::{intranet, timezone};
use crate::models::routes::{OUTPUT, Router, Routes, Unmatched};
use crate::models::test_file::{SUFFIX, Test};
use crate::models::{Models, files_below};
use crate::project::Project;

/// Run the tests of a project's models
#[derive(Debug, Args)]
#[command(long_about = "\
Run the tests of a project's models

models/a.test.jsonl tests models/a.oml. Each line is one test, an object with `input` and `output`,
and optionally a `name`. If `input` is an object, it is the event; if it is a string, it is a line
in the format of the project's [enrich] section. `output` is the complete event that is expected,
or null if the model drops the event. `to` is the name of the output that the event is written to by
the conditions of the [enrich] section or by the model, or a list of names; `reject` if no output has
a condition that holds, and `none` if the model assigns the event to no output.
Differences are shown field by field, with `-` for expected and `+` for found, and end the command
with exit code 1.")]
#[command(after_long_help = "\
Example of a line:
  {\"input\":{\"host\":\"web-1\",\"status\":200},\"output\":{\"host\":\"web-1\",\"class\":\"ok\"}}")]
pub(crate) struct TestArguments {
    /// The project: a folder with a knowdb.toml, or the path of that file
    dir: PathBuf,
}

pub(crate) fn run(arguments: &TestArguments) -> CommandResult {
    let project = Project::open(&arguments.dir)?;
    let models = Models::read(&project.models_folder())?;
    let files = files_below(&project.models_folder(), SUFFIX)?;
    if files.is_empty() {
        let folder = project.models_folder();
        return Err(
            Failure::new(format!("{} contains no tests", folder.display()))
                .with_help("write one beside its model, models/NAME.test.jsonl; see --help"),
        );
    }
    let knowledge = project.load()?;
    let bench = TestBench::new(&project, &knowledge)?;
    let mut tally = Tally::default();
    for file in files {
        let model = tested_model(&models, &file)?;
        bench.run_file(&file, model, &mut tally)?;
    }
    let Tally {
        passed,
        failed,
        report,
    } = &tally;
    write_stdout(|out| {
        out.write_all(report.as_bytes())?;
        writeln!(out, "{passed} passed, {failed} failed")
    })?;
    Ok(if *failed == 0 {
        Exit::Done
    } else {
        Exit::Failed
    })
}

/// The model that a test file belongs to.
fn tested_model<'a>(models: &'a Models, tests: &Path) -> Result<&'a Model, Failure> {
    let name = tests.display().to_string();
    let model = format!("{}.oml", name.strip_suffix(SUFFIX).unwrap_or(&name));
    let found = models
        .iter()
        .find(|candidate| candidate.file_name() == model);
    found
        .map(|found| &**found)
        .ok_or_else(|| Failure::new(format!("{name} tests {model}, which does not exist")))
}

/// The beginning of the names of metadata.
const META: &str = "@meta/";

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    report: String,
}

/// The state that all tests of a project share.
struct TestBench<'a> {
    knowledge: &'a Knowledge,
    options: Options,
    json: InputFormat,
    /// The format of the project's input, for tests whose input is a line of it.
    line: Option<InputFormat>,
    output: OutputFormat,
    settings: &'a EnrichSettings,
}

impl<'a> TestBench<'a> {
    fn new(project: &'a Project, knowledge: &'a Knowledge) -> Result<Self, Failure> {
        let settings = &project.settings;
        let cannot = |error| Failure::from_error(&error);
        let timezone = timezone(settings.timezone.as_ref())?;
        let typed = |format: InputFormat| format.with_types(settings.types.clone(), &timezone);
        let line = settings.format.as_ref().map(|format| {
            let options = settings.options.iter();
            let options = options.fold(FormatOptions::new(), |all, (name, value)| {
                all.set(name, value)
            });
            InputFormat::new(format, &options)
        });
        Ok(Self {
            options: Options {
                timezone: timezone.clone(),
                intranet: intranet(knowledge),
                ..Options::default()
            },
            knowledge,
            json: InputFormat::new("json", &FormatOptions::new())
                .map(typed)
                .map_err(cannot)?,
            line: line.transpose().map_err(cannot)?.map(typed),
            output: OutputFormat::new("json", &FormatOptions::new()).map_err(cannot)?,
            settings,
        })
    }

    /// The conditions of the outputs, if there are any.
    fn routes(&self, names: &mut NameTable) -> Option<Arc<Routes>> {
        let outputs = self.settings.outputs.iter();
        let conditions = outputs.filter_map(|it| Some((&*it.name, it.when.as_ref()?)));
        let conditions: Vec<_> = conditions.collect();
        let unmatched = self.settings.unmatched.as_deref();
        let unmatched = unmatched.map_or(Unmatched::Reject, Unmatched::of_setting);
        let is_needed = !conditions.is_empty();
        is_needed.then(|| {
            let conditions = conditions.into_iter();
            Arc::new(Routes::bind(conditions, unmatched, names, &self.options))
        })
    }

    fn run_file(&self, file: &Path, model: &Model, tally: &mut Tally) -> Result<(), Failure> {
        let text = fs::read_to_string(file).map_err(|error| {
            Failure::new(format!("cannot read {}", file.display())).because(&error)
        })?;
        let mut names = NameTable::new();
        let routes = self.routes(&mut names);
        let silent = HashMap::new();
        let program = bind(model, &mut names, self.knowledge, &self.options, &silent)
            .map_err(Unbound::into_failure)?;
        self.json.intern(&mut names);
        if let Some(line) = &self.line {
            line.intern(&mut names);
        }
        self.output.intern(&mut names);
        let mut subject = Subject {
            bench: self,
            evaluator: program.evaluator(),
            session: self.knowledge.session(),
            names: Arc::new(names),
            router: routes.map(Router::new),
        };
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let place = format!("{}:{}", file.display(), index + 1);
            let test =
                Test::parse(line).map_err(|message| Failure::new(format!("{place}: {message}")))?;
            match subject.verdict(&test) {
                Ok(()) => tally.passed += 1,
                Err(complaint) => {
                    tally.failed += 1;
                    let name = test.name.map_or(String::new(), |name| format!(" ({name})"));
                    tally
                        .report
                        .push_str(&format!("FAIL {place}{name}\n{complaint}"));
                }
            }
        }
        Ok(())
    }
}

/// A model under test.
struct Subject<'a> {
    bench: &'a TestBench<'a>,
    evaluator: Evaluator,
    session: Session,
    names: Arc<NameTable>,
    router: Option<Router>,
}

impl Subject<'_> {
    /// Runs a test; the error describes why it failed.
    fn verdict(&mut self, test: &Test) -> Result<(), String> {
        let mut batch = self.decode(&test.input)?;
        let mut run = RunReport::new();
        self.evaluator.run(&mut batch, &mut self.session, &mut run);
        // Whatever happens to the event in a run, a test shows why.
        if let Some(failure) = run.failures().iter().chain(run.rejected()).next() {
            let (line, column) = failure.position;
            return Err(format!(
                "  the lookup in line {line}, column {column} failed: {}\n",
                failure.error
            ));
        }
        let (expected, mut found) = match (&test.output, batch.is_empty()) {
            (None, true) => return Ok(()),
            (Some(_), true) => return Err("  the model drops the event\n".to_owned()),
            (None, false) => return Err("  the model does not drop the event\n".to_owned()),
            (Some(expected), false) => (expected, self.encode(&batch)?),
        };
        // Metadata is not part of the event; a test that names it compares it.
        found.retain(|name, _| !name.starts_with(META) || expected.contains_key(name));
        let lines = difference(expected, &found);
        if !lines.is_empty() {
            return Err(lines);
        }
        match &test.to {
            Some(to) => self.check_outputs(to, &mut batch),
            None => Ok(()),
        }
    }

    /// Checks which outputs the event is written to.
    fn check_outputs(&mut self, expected: &[String], batch: &mut Batch) -> Result<(), String> {
        let mut report = Report::new();
        if let Some(router) = &mut self.router {
            router.assign(batch, &[], &mut report);
        }
        let field = batch.names().name(OUTPUT);
        let record = batch.records().first();
        let value = record.zip(field).and_then(|(it, field)| it.value(field));
        let mut found = match value {
            _ if report.rejected().next().is_some() => vec!["reject".to_owned()],
            None | Some(lookaside_value::Value::Ignore) => vec!["default".to_owned()],
            Some(value) => output_names(value),
        };
        let mut expected = expected.to_vec();
        for names in [&mut found, &mut expected] {
            names.sort_unstable();
            names.dedup();
        }
        match found == expected {
            true => Ok(()),
            false => {
                let (expected, found) = (expected.join(", "), found.join(", "));
                Err(format!(
                    "  - written to {expected}\n  + written to {found}\n"
                ))
            }
        }
    }

    fn decode(&self, input: &Value) -> Result<Batch, String> {
        let (format, mut text) = match input {
            Value::String(line) => match &self.bench.line {
                Some(format) => (format, line.clone()),
                None => {
                    return Err(
                        "  the input is a string, and [enrich] does not set `format`\n".to_owned(),
                    );
                }
            },
            object => (&self.bench.json, object.to_string()),
        };
        text.push('\n');
        let mut bytes = text.as_bytes();
        let header = if format.has_header() {
            let size = format.framing().first(bytes, true).unwrap_or(0);
            let header = format
                .header(&bytes[..size])
                .map_err(|error| format!("  {error}\n"))?;
            bytes = &bytes[size..];
            Some(header)
        } else {
            None
        };
        let chunk = Chunk {
            bytes,
            first_line: 1,
            header: header.as_ref(),
        };
        let mut batch = Batch::new(self.names.clone());
        let mut rejects = Rejects::new();
        format
            .decoder(&self.names)
            .decode(&chunk, &mut batch, &mut rejects);
        match (rejects.first().first(), batch.len()) {
            (Some(reject), _) => Err(format!("  the input cannot be parsed: {}\n", reject.reason)),
            (None, 1) => Ok(batch),
            (None, count) => Err(format!("  the input is {count} events, not one\n")),
        }
    }

    fn encode(&self, batch: &Batch) -> Result<Map<String, Value>, String> {
        let (mut text, mut rejects) = (String::new(), Rejects::new());
        let mut encoder = self.bench.output.encoder(&self.names);
        encoder.encode(batch, &mut text, &mut rejects);
        if let Some(reject) = rejects.first().first() {
            return Err(format!(
                "  the event cannot be written: {}\n",
                reject.reason
            ));
        }
        serde_json::from_str(&text)
            .map_err(|error| format!("  the output is not an object: {error}\n"))
    }
}

/// The names in the value of [`OUTPUT`], `none` if there is none.
fn output_names(value: &lookaside_value::Value) -> Vec<String> {
    const NONE: &str = "none";
    let names = match value {
        lookaside_value::Value::Array(values) => values.iter().flat_map(output_names).collect(),
        lookaside_value::Value::Null => Vec::new(),
        name => vec![name.to_string()],
    };
    let mut names: Vec<String> = names;
    names.retain(|name| name != NONE);
    if names.is_empty() {
        names.push(NONE.to_owned());
    }
    names
}
