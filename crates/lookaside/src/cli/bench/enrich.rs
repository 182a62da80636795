//! What does an event cost end to end: file, decoder, model, lookup, encoder, sink?

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use lookaside_knowledge::Knowledge;
use lookaside_load::measure::{AnswerHash, Measured, Rounds, measure};
use lookaside_load::report;
use lookaside_load::workload::{self, Random};
use lookaside_oml::{Model, Options, Program};
use lookaside_stream::{
    Flow, FormatOptions, InputFormat, OutputFormat, RunOptions, Sink, Source, Strictness, Summary,
    worker_count,
};
use lookaside_value::NameTable;

use super::Result;
use super::project::{BenchProject, RangeArguments};
use crate::models::transform::{ModelTransform, Tally, WorkerModel};

/// A combined access log through a model, file to sink, as `lookaside enrich` runs it
#[derive(Debug, Args)]
pub(crate) struct EnrichArguments {
    /// The model to run; by default, both in turn.
    #[arg(long, value_enum)]
    case: Option<Case>,
    /// The number of lines of the generated log.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    events: u64,
    #[command(flatten)]
    ranges: RangeArguments,
    /// Worker threads; by default one per core.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// Write a file instead of only counting the bytes.
    #[arg(long)]
    to_file: bool,
    /// Only write the log to this file, for another engine to read.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    #[command(flatten)]
    rounds: Rounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// Parse, eight typed fields, one match, JSON out.
    ParseMap,
    /// The same, and a lookup of the address in the ranges.
    Full,
}

impl Case {
    fn model(self) -> &'static str {
        match self {
            Self::ParseMap => include_str!("parse-map.oml"),
            Self::Full => include_str!("full.oml"),
        }
    }
}

pub(super) fn run(arguments: &EnrichArguments) -> Result<()> {
    let log = workload::access_log(arguments.events, &mut Random::new(3));
    if let Some(path) = &arguments.export {
        return Ok(fs::write(path, log)?);
    }
    let cases = match arguments.case {
        Some(case) => vec![case],
        None => Case::value_variants().to_vec(),
    };
    let mut project = BenchProject::temporary()?;
    project.add_ranges(&arguments.ranges)?;
    fs::write(project.path().join("access.log"), log)?;
    let knowledge = project.open()?;
    for case in cases {
        let way = Way::new(case, project.path(), &knowledge)?;
        report::print(&way.measure(arguments, &knowledge)?, arguments.rounds.json)?;
    }
    Ok(())
}

/// The parts that are made once and shared by all runs.
struct Way<'a> {
    case: Case,
    folder: &'a Path,
    program: Program,
    flow: Flow,
}

impl<'a> Way<'a> {
    fn new(case: Case, folder: &'a Path, knowledge: &Knowledge) -> Result<Self> {
        let model = Model::parse("bench.oml", case.model())?;
        let mut names = NameTable::new();
        let mut session = knowledge.session();
        let program = Program::bind(&model, &mut names, &mut session, &Options::default())?;
        let flow = Flow::with_names(
            names,
            InputFormat::new("access", &FormatOptions::new())?,
            OutputFormat::new("json", &FormatOptions::new())?,
        );
        Ok(Self {
            case,
            folder,
            program,
            flow,
        })
    }

    fn run(&self, knowledge: &Knowledge, worker_count: usize, sink: &str) -> Result<Summary> {
        let source = Source::open([self.folder.join("access.log").display().to_string()])?;
        let sink = Sink::open(sink, source.extent())?;
        let tally = Arc::new(Tally::default());
        let transforms = (0..worker_count)
            .map(|_| {
                let model = WorkerModel {
                    evaluator: self.program.evaluator(),
                    observer: tally.clone(),
                    file_name: "model".into(),
                };
                ModelTransform::new(model, knowledge.session())
            })
            .collect();
        let options = RunOptions {
            strictness: Strictness::Strict,
            ..RunOptions::default()
        };
        Ok(self.flow.run(source, transforms, sink, options)?)
    }

    fn measure(&self, arguments: &EnrichArguments, knowledge: &Knowledge) -> Result<Measured> {
        let workers = arguments.workers.map_or_else(worker_count, usize::from);
        let output = self.folder.join("out.json").display().to_string();
        let summary = self.run(knowledge, workers, &output)?;
        let mut hash = AnswerHash::new();
        hash.add(&fs::read(&output)?);

        let sink = if arguments.to_file {
            output.as_str()
        } else {
            "null"
        };
        let (ops, cpu, wall) = measure(arguments.rounds, || -> Result<u64> {
            Ok(self.run(knowledge, workers, sink)?.events_out)
        })?;
        let name = self
            .case
            .to_possible_value()
            .expect("no case is hidden")
            .get_name()
            .to_owned();
        Ok(Measured {
            engine: concat!("lookaside ", env!("CARGO_PKG_VERSION")).into(),
            bench: "enrich",
            case: format!(
                "{name}{}, {workers} workers",
                if arguments.to_file { " to file" } else { "" }
            ),
            ops,
            cpu_ns_per_op: cpu,
            wall_ns_per_op: wall,
            hash: hash.text(),
            notes: vec![
                (
                    "bytes an event, in",
                    (summary.bytes_in / summary.events_in.max(1)).to_string(),
                ),
                (
                    "bytes an event, out",
                    (summary.bytes_out / summary.events_out.max(1)).to_string(),
                ),
            ],
        })
    }
}
