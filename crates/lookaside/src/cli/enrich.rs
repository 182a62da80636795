//! `lookaside enrich`: transforms a stream of events.

mod arguments;
mod connectors;
mod formats;
mod named;
mod places;
mod plan;
mod verify;

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex};

use lookaside_knowledge::Knowledge;
use lookaside_oml::{Model, Options, Program};
use lookaside_stream::{
    Checkpoint, End, Progress, RunOptions, StopFlag, Strictness, Summary, WarningCallback,
};
use lookaside_value::NameTable;
use tracing::{info, warn};

pub(crate) use self::arguments::{EnrichArguments, count};
use self::connectors::Input;
use self::places::refuse_to_replace;
use self::plan::EnrichPlan;
pub(crate) use self::verify::verify;
use crate::cli::metrics::{MetricsServer, RunObserver, recorder};
use crate::cli::signals::{Drain, SignalListener};
use crate::cli::summary::{RunFigures, describe};
use crate::failure::{CommandResult, Exit, Failure};
use crate::models::bind::{Unbound, bind};
use crate::models::choice::{Choice, Chooser};
use crate::models::lookups::{Review, review, tell_notes};
use crate::models::options::intranet;
use crate::models::routes::{Router, Routes, UnmatchedFigures};
use crate::models::transform::{ModelTransform, Tallies, WorkerModel};
use crate::models::waiting::Outages;
use crate::models::{Models, draw};
use crate::numbers::grouped;
use crate::progress::RunBar;
use crate::project::Project;

pub(crate) fn run(arguments: &EnrichArguments) -> CommandResult {
    let project = Project::open(&arguments.dir)?;
    let plan = EnrichPlan::new(arguments, &project)?;
    let models = Models::read(&project.models_folder())?;
    let chosen = models.choose(plan.wanted())?;
    let made_of = models.iter().map(|model| model.file_name().into());
    refuse_to_replace(
        plan.outputs(),
        made_of.chain(project.config.watched_files()),
    )?;
    let metrics = plan
        .metrics
        .map(|address| MetricsServer::start(address, recorder()?));
    let metrics = metrics.transpose()?;
    let knowledge = project.load_with(plan.load)?;

    let options = model_options(&plan, &knowledge);
    let mut names = NameTable::new();
    let routes = plan.bind_routes(&project, &mut names, &options);
    let choice = plan.rule_key().zip(routes.clone()).map(|(key, routes)| {
        let models = chosen.iter().map(|model| &***model);
        Arc::new(Choice::new(key, models, routes, &mut names))
    });
    let mut bound = Vec::with_capacity(chosen.len());
    for model in chosen {
        let program = bind(model, &mut names, &knowledge, &options, &HashMap::new())
            .map_err(Unbound::into_failure)?;
        tell_review(&review(model, &knowledge), plan.strictness)?;
        info!(model = %model.name(), workers = plan.worker_count, "begins");
        bound.push((&**model, program));
    }
    let bound = Bound {
        models: bound,
        names,
        choice,
        routes,
    };
    enrich(&plan, bound, &knowledge, metrics)
}

/// What transforms the events of a run.
struct Bound<'m> {
    models: Vec<(&'m Model, Program)>,
    names: NameTable,
    /// How events select their models, if there can be several.
    choice: Option<Arc<Choice>>,
    /// What assigns events to outputs, if conditions or rule keys do.
    routes: Option<Arc<Routes>>,
}

impl Bound<'_> {
    /// The models of a worker, which count in the tallies.
    fn worker_models(&self, tallies: &Tallies) -> Box<[WorkerModel]> {
        let models = self.models.iter().zip(&tallies.0);
        let models = models.map(|((model, program), (_, tally))| WorkerModel {
            evaluator: program.evaluator(),
            observer: tally.clone(),
            file_name: model.file_name().into(),
        });
        models.collect()
    }
}

/// Logs warnings about lookups, or fails a strict run because of them before any event is read;
/// also warns about lookups that scan large tables.
fn tell_review(review: &Review, strictness: Strictness) -> Result<(), Failure> {
    if strictness == Strictness::Strict && !review.warnings.is_empty() {
        let file_name = review.warnings.file_name();
        let message = format!("lookups of {file_name} are probably wrong, which --strict refuses");
        return Err(Failure::new(message)
            .with_excerpt(draw(&review.warnings))
            .with_help("correct them, or run without --strict"));
    }
    tell_notes(&review.notes());
    Ok(())
}

/// The environment of a model.
fn model_options(plan: &EnrichPlan, knowledge: &Knowledge) -> Options {
    Options {
        timezone: plan.timezone.clone(),
        intranet: intranet(knowledge),
        on_lookup_failure: plan.on_lookup_failure,
        ..Options::default()
    }
}

fn enrich(
    plan: &EnrichPlan,
    bound: Bound<'_>,
    knowledge: &Knowledge,
    metrics: Option<MetricsServer>,
) -> CommandResult {
    let checkpoint = plan.open_checkpoint()?;
    let mark = checkpoint.as_ref().and_then(Checkpoint::mark);
    let cannot = |error: io::Error| Failure::new("cannot begin").because(&error);
    let stop = StopFlag::new().map_err(cannot)?;
    let (input, sink) = plan.open(mark, &stop)?;
    let Input {
        source,
        framing,
        on_null,
        lag,
        address,
        webhook_end,
    } = input;
    let lag = lag.map(|lag| Arc::new(Mutex::new(lag)));
    let sinks = plan.open_others(sink, source.extent())?;
    let flow = plan.flow(bound.names.clone())?;

    let tallies = bound.models.iter();
    let tallies = tallies.map(|(model, _)| (model.name().to_string(), Arc::default()));
    let tallies = Arc::new(Tallies(tallies.collect()));
    let over = StopFlag::new().map_err(cannot)?;
    let outages = Arc::new(Outages::new(over.clone()));
    let transforms: Vec<_> = (0..plan.worker_count)
        .map(|_| {
            let mut session = knowledge.session();
            session.set_freshness(plan.contract.into());
            let chooser = bound.choice.clone().map(Chooser::new);
            let router = bound.routes.clone().map(Router::new);
            let models = bound.worker_models(&tallies);
            ModelTransform::waiting(models, chooser, router, session, outages.clone())
        })
        .collect();
    let give_up = StopFlag::new().map_err(cannot)?;
    let drain = Drain {
        timeout: plan.drain_timeout,
        cancel: Box::new({
            let (knowledge, give_up) = (knowledge.clone(), give_up.clone());
            move || {
                knowledge.cancel_queries();
                give_up.raise();
                if let Some(end) = webhook_end {
                    end.answer_all();
                }
            }
        }),
    };
    let signals = SignalListener::start(stop.clone(), Some(drain), reload(knowledge.clone()))?;
    let progress = Progress::new();
    if let Some(metrics) = &metrics {
        metrics.observe(RunObserver {
            knowledge: knowledge.clone(),
            progress: progress.clone(),
            tallies: tallies.clone(),
            routes: bound.routes.clone(),
            output_names: named::names(&plan.named),
            outages: outages.clone(),
            lag: lag.clone(),
            stop: stop.clone(),
        });
    }
    if let Some(address) = address {
        info!(%address, "listens");
    }
    let is_drawn = !plan.is_quiet && !plan.writes_to_terminal();
    let bar = is_drawn.then(|| RunBar::start(progress.clone(), source.size(), lag));
    let run_options = RunOptions {
        strictness: plan.strictness,
        rejects: sinks.rejects,
        named_sinks: sinks.named,
        split: plan.split.clone(),
        stop: Some(stop),
        over: Some(over),
        event_limit: plan.event_limit,
        checkpoint,
        framing,
        on_null,
        give_up: Some(give_up),
        progress,
        on_warning: WarningCallback::new(|warning| warn!("{warning}")),
        ..RunOptions::default()
    };
    let run = flow.run(source, transforms, sinks.output, run_options);
    drop(bar);
    let summary = run.as_ref().ok().or_else(|| run.as_ref().err()?.summary());
    if let Some(summary) = summary.filter(|_| !plan.is_quiet) {
        let unmatched = bound.routes.as_ref().map(|routes| routes.figures());
        write_summary(summary, knowledge, (&tallies, &outages, unmatched), plan);
    }
    let stale_count = knowledge.snapshot().counts.stale_answers;
    match &run {
        Ok(summary) if summary.end == End::BrokenPipe && plan.is_service() => {
            let message = "the reader of standard output is gone";
            Err(Failure::new(message).with_help("write to a file, or start the reader again"))
        }
        Ok(summary) => match exit_of(summary.end, &signals) {
            Exit::Done if stale_count > 0 && plan.strictness == Strictness::Strict => {
                Err(stale(stale_count))
            }
            exit => Ok(exit),
        },
        Err(error) => Err(Failure::from_error(error)),
    }
}

fn write_summary(
    summary: &Summary,
    knowledge: &Knowledge,
    (tallies, outages, unmatched): (&Tallies, &Outages, Option<UnmatchedFigures<'_>>),
    plan: &EnrichPlan,
) {
    let snapshot = knowledge.snapshot();
    let figures = RunFigures {
        summary,
        named_events_out: named::counted(&plan.named, &summary.named_events_out),
        unmatched,
        counts: snapshot.counts,
        stale_age_max: snapshot.stale_age_max,
        lookups: tallies.lookups(),
        time_failures: tallies.time_failures(),
        outages: outages.figures(),
        providers: knowledge.providers(),
        worker_count: plan.worker_count,
        models: tallies.models(),
    };
    // A failure to write to standard error is ignored.
    let _ = io::stderr().lock().write_all(describe(&figures).as_bytes());
}

/// The error of a strict run that completed with stale answers.
fn stale(count: u64) -> Failure {
    let answers = match count {
        1 => "1 answer of a provider is stale".to_owned(),
        count => format!("{} answers of providers are stale", grouped(count)),
    };
    Failure::new(format!("{answers}, which --strict treats as errors"))
        .with_help("omit --strict, or remove stale_if_error_ms, which allows stale answers")
}

/// The action of SIGHUP: loads the new tables beside the old ones and swaps them, or logs a warning
/// and keeps the old ones.
fn reload(knowledge: Knowledge) -> impl Fn() + Send + 'static {
    move || match knowledge.reload() {
        Ok(generation) => info!(generation, "tables reloaded"),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            warn!(%error, cause, "tables not reloaded; the old ones stay in use");
        }
    }
}

fn exit_of(end: End, signals: &SignalListener) -> Exit {
    match end {
        // A reader of standard output that closes early is a normal end.
        End::Whole | End::Limit | End::BrokenPipe => Exit::Done,
        End::Stopped => signals.ended_by().unwrap_or(Exit::Interrupted),
        End::Failed => Exit::Failed,
    }
}
