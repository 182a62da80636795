//! `lookaside enrich`: events in, richer events out.

mod arguments;
mod plan;
mod transform;

use std::io::{self, Write as _};
use std::sync::Arc;

use lookaside_knowledge::Knowledge;
use lookaside_oml::{Intranet, Options, Program};
use lookaside_stream::{End, Flow, RunOptions, StopFlag};
use lookaside_value::NameTable;
use tracing::{info, warn};

pub(crate) use self::arguments::EnrichArguments;
use self::plan::EnrichPlan;
pub(crate) use self::plan::timezone;
pub(crate) use self::transform::{ModelTransform, Tally};
use crate::cli::failure::{Exit, Failure, Outcome};
use crate::cli::models::{Models, model_failure};
use crate::cli::project::Project;
use crate::cli::signals::SignalListener;
use crate::cli::summary::{RunFigures, describe};

pub(crate) fn run(arguments: &EnrichArguments) -> Outcome {
    let project = Project::open(&arguments.dir)?;
    let plan = EnrichPlan::new(arguments, &project)?;
    let models = Models::read(&project.models_folder())?;
    let model = models.choose(plan.wanted())?;
    let knowledge = project.load()?;

    let options = model_options(&plan, &knowledge);
    let mut names = NameTable::new();
    let program = Program::bind(model, &mut names, &mut knowledge.session(), &options)
        .map_err(|diagnostics| model_failure(&[diagnostics]))?;
    info!(model = %model.name(), workers = plan.worker_count, "begins");
    enrich(&plan, names, &program, &knowledge)
}

/// What a model has to know about the place it runs in.
fn model_options(plan: &EnrichPlan, knowledge: &Knowledge) -> Options {
    Options {
        timezone: plan.timezone.clone(),
        intranet: intranet(knowledge),
        ..Options::default()
    }
}

/// Which addresses are internal, as the configuration says it.
pub(crate) fn intranet(knowledge: &Knowledge) -> Intranet {
    use lookaside_knowledge::IntranetMode;

    let Some(section) = knowledge.intranet_nets() else {
        return Intranet::default();
    };
    match section.mode {
        IntranetMode::Add => Intranet::add(section.nets),
        IntranetMode::Replace => Intranet::replace(section.nets),
    }
}

fn enrich(
    plan: &EnrichPlan,
    names: NameTable,
    program: &Program,
    knowledge: &Knowledge,
) -> Outcome {
    let source = plan.open_source()?;
    let extent = source.extent();
    let sink = plan.open_sink(extent)?;
    let rejects = plan.open_rejects(extent)?;
    let flow = Flow::with_names(names, plan.input_format.clone(), plan.output_format.clone());

    let tally = Arc::new(Tally::default());
    let transforms: Vec<_> = (0..plan.worker_count)
        .map(|_| ModelTransform::new(program.evaluator(), knowledge.session(), tally.clone()))
        .collect();
    let stop = StopFlag::new().map_err(|error| Failure::new("cannot begin").because(&error))?;
    let signals = SignalListener::start(stop.clone(), reload(knowledge.clone()))?;
    let run_options = RunOptions {
        strictness: plan.strictness,
        rejects,
        stop: Some(stop),
        ..RunOptions::default()
    };
    let summary = flow
        .run(source, transforms, sink, run_options)
        .map_err(|error| Failure::from_error(&error))?;
    let figures = RunFigures {
        summary: &summary,
        counts: knowledge.snapshot().counts,
        lookups: tally.figures(),
        worker_count: plan.worker_count,
    };
    if !plan.is_quiet {
        // Without standard error there is nobody left to tell.
        let _ = io::stderr().lock().write_all(describe(&figures).as_bytes());
    }
    Ok(exit_of(summary.end, &signals))
}

/// What SIGHUP does: new tables beside the old ones, then one swap; or a warning and the old ones.
fn reload(knowledge: Knowledge) -> impl Fn() + Send + 'static {
    move || match knowledge.reload() {
        Ok(generation) => info!(generation, "tables reloaded"),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            warn!(%error, cause, "tables not reloaded, the old ones stay");
        }
    }
}

fn exit_of(end: End, signals: &SignalListener) -> Exit {
    match end {
        // A reader of standard output that has seen enough is a normal end.
        End::Whole | End::BrokenPipe => Exit::Done,
        End::Stopped => signals.ended_by().unwrap_or(Exit::Interrupted),
    }
}
