//! `lookaside check`: checks a project without running it.

use std::io;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use clap::Args;
use lookaside_knowledge::{
    Compiled, Config, Contract, Error, Explanation, Knowledge, LoadReport, ProviderStatus, SqlText,
    TableReport, table_sql,
};
use lookaside_oml::{Diagnostics, Model, Options, Program};
use lookaside_value::NameTable;

use crate::cli::enrich::verify;
use crate::cli::feed;
use crate::cli::output::write_stdout;
use crate::failure::{CommandResult, Exit, Failure};
use crate::models::lookups::{Review, answered, review};
use crate::models::options::intranet;
use crate::models::outputs::unknown_outputs;
use crate::models::{Models, draw, model_failure};
use crate::numbers::grouped;
use crate::serve::{Catalog, Files, Lookup};

/// Check a project for mistakes without running it
#[derive(Debug, Args)]
#[command(long_about = "\
Check a project for mistakes without running it

Reads the configuration, loads every table, requests the version of every provider, parses every
model, prepares its SQL, validates the values of [enrich] and [server], and prepares the lookups of
`lookaside serve`. Prints the tables with their derived SQL, the providers, the models, which model
runs by default, which events each output gets, and how each lookup is answered: by a native plan,
by SQLite with an index, or by a full scan. For lookups of a provider with a change feed, prints
which changes invalidate their answers and why not fewer, what the feed needs, and whether it is
live. Warns of lookups that are probably wrong. Ends with exit code 1 after the first step that
finds an error.")]
pub(crate) struct CheckArguments {
    /// The project: a folder with a knowdb.toml, or the path of that file
    dir: PathBuf,

    /// Treat warnings about lookups, and problems of change feeds, as errors, with exit code 1
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(arguments: &CheckArguments) -> CommandResult {
    let files = Files::read(&arguments.dir)?;
    let knowledge = files.project.load()?;
    let project = &files.project;
    let report = knowledge.load_report();
    let derived = derived_sql(&project.config)?;
    write_stdout(
        |out| match project.config.providers.is_empty() || !report.tables.is_empty() {
            true => write_tables(&report, &derived, out),
            false => Ok(()),
        },
    )?;
    ask_providers(&knowledge)?;

    let models = Models::read(&project.models_folder())?;
    let options = Options {
        intranet: intranet(&knowledge),
        ..Options::default()
    };
    let mut faults = Vec::new();
    for model in models.iter() {
        let (mut names, mut session) = (NameTable::new(), knowledge.session());
        let bound = Program::bind(model, &mut names, &mut session, &options);
        faults.extend(bound.err());
    }
    if !faults.is_empty() {
        return Err(model_failure(&faults));
    }
    let verdict = verify(project, &models);
    // A disabled model need not fit the tables, but it is reviewed if it was bound.
    let reviews: Vec<Review> = models.iter().map(|it| review(it, &knowledge)).collect();
    let named = &project.settings.outputs;
    let output_names: Vec<_> = named.iter().map(|named| &*named.name).collect();
    let unknown: Vec<_> = models
        .iter()
        .map(|it| unknown_outputs(it, &output_names))
        .collect();
    let unknown_count: usize = unknown.iter().map(|it| it.len()).sum();
    let mut warning_count: usize = reviews.iter().map(|it| it.warnings.len()).sum();
    let is_strict = arguments.strict || project.settings.strict;
    write_stdout(|out| {
        models
            .iter()
            .zip(reviews.iter().zip(&unknown))
            .try_for_each(|(model, (review, unknown))| write_model(model, review, unknown, out))?;
        if models.iter().len() == 0 {
            writeln!(out, "no model in {}", project.models_folder().display())?;
        }
        verdict
            .connectors
            .iter()
            .chain(&verdict.routes)
            .chain(&verdict.choice)
            .try_for_each(|choice| writeln!(out, "{choice}"))
    })?;
    match verdict.problems.split_first() {
        None => {
            let listen = files.server.listen.as_deref().unwrap_or_default();
            files.server.guard(listen)?;
            files.server.guard_sockets(listen)?;
            files.server.guard_access_log()?;
            files.server.load_tls()?;
            // Each provider has the time that its own section sets.
            let config = files.project.config.clone();
            let parts = files.into_parts()?;
            let catalog = Catalog::new(parts, &knowledge, None, Duration::MAX)?;
            write_stdout(|out| {
                let mut lookups = catalog.lookups.iter();
                lookups.try_for_each(|lookup| writeln!(out, "{}", lookup_lines(lookup)))
            })?;
            let prepared = catalog.lookups.iter().flat_map(|it| &it.prepared);
            warning_count += prepared
                .map(|prepared| prepared.explanation.warnings.len())
                .sum::<usize>();
            let served = catalog.lookups.iter().flat_map(|it| &it.prepared);
            let served = served.map(|prepared| &prepared.explanation);
            let of_models = reviews.iter().flat_map(|review| &review.lookups);
            let explanations: Vec<&Explanation> = of_models
                .map(|lookup| &lookup.explanation)
                .chain(served)
                .collect();
            let mut feed_problem_count = 0;
            for provider in &config.providers {
                feed_problem_count += feed::report::check(provider, &knowledge, &explanations)?;
            }
            match [warning_count, unknown_count, feed_problem_count] {
                [0, 0, 0] => Ok(Exit::Done),
                _ if !is_strict => Ok(Exit::Done),
                counts => Err(strict_failure(counts)),
            }
        }
        Some((first, rest)) => {
            let failure = Failure::new(first);
            let rest: Vec<_> = rest.iter().map(|line| format!("error: {line}")).collect();
            Err(match rest.is_empty() {
                true => failure,
                false => failure.with_excerpt(rest.join("\n")),
            })
        }
    }
}

/// The error of a strict check that found only warnings about lookups, names of outputs that are not
/// set, and problems of change feeds.
fn strict_failure(counts: [usize; 3]) -> Failure {
    const NOUNS: [(&str, &str); 3] = [
        ("1 warning about a lookup", "warnings about lookups"),
        (
            "1 name of an output that is not set",
            "names of outputs that are not set",
        ),
        ("1 problem of a change feed", "problems of change feeds"),
    ];
    let problems = counts.into_iter().zip(NOUNS);
    let problems = problems.filter_map(|(count, (one, many))| match count {
        0 => None,
        1 => Some(one.to_owned()),
        count => Some(format!("{count} {many}")),
    });
    let problems: Vec<String> = problems.collect();
    let problems = problems.join(" and ");
    Failure::new(format!("{problems}, which --strict treats as errors"))
        .with_help("correct what the output names, or omit --strict and [enrich] strict")
}

/// Describes a lookup of `lookaside serve`: how it is answered, and warnings about it.
fn lookup_lines(lookup: &Lookup) -> String {
    let name = lookup.name();
    match &lookup.prepared {
        Some(prepared) => {
            let params = prepared.params.iter();
            let params: Vec<String> = params
                .map(|param| format!("{} {}", param.name, param.kind.name()))
                .collect();
            let how = answered(&prepared.explanation);
            let mut lines = format!("lookup {name}({}): {how}", params.join(", "));
            let contract = lookup.config.contract;
            lines.push_str(&freshness_lines(&prepared.explanation, contract, "  "));
            for warning in &prepared.explanation.warnings {
                let (message, help) = (&warning.message, &warning.help);
                lines.push_str(&format!("\n  warning: {message}\n    help: {help}"));
            }
            lines
        }
        None => format!("lookup {name}: not prepared, its server does not answer"),
    }
}

/// What the provider's change feed does for a lookup, if it has one, and what its answers have to
/// include, if that is set: lines that begin with a line break.
fn freshness_lines(explanation: &Explanation, contract: Contract, indent: &str) -> String {
    let mut lines = String::new();
    if let Some(dependency) = &explanation.dependency {
        lines.push_str(&format!("\n{indent}freshness: {dependency}"));
        if let Some(help) = &dependency.help {
            lines.push_str(&format!("\n{indent}  help: {help}"));
        }
    }
    // The folder's own tables change by a reload only.
    match contract.within {
        Some(time) if explanation.provider.is_some() => {
            let fresh = match time {
                Duration::ZERO => "now".to_owned(),
                time => format!("{time:?}"),
            };
            lines.push_str(&format!("\n{indent}fresh: {fresh}"));
        }
        _ => {}
    }
    lines
}

/// Prints the versions of the providers. They are queried concurrently, so that the timeouts of
/// unavailable ones overlap; all are printed before one that does not respond fails the command.
fn ask_providers(knowledge: &Knowledge) -> Result<(), Failure> {
    let providers = knowledge.providers();
    let ask = |provider: &ProviderStatus| -> Result<String, Error> {
        let begun = Instant::now();
        let version = knowledge.probe_provider(&provider.name)?;
        let (name, place) = (&provider.name, &provider.place);
        let millis = begun.elapsed().as_secs_f64() * 1e3;
        Ok(format!(
            "provider {name}: {place}, {version}, answered in {millis:.0} ms"
        ))
    };
    let asked: Vec<Result<String, Error>> = thread::scope(|scope| {
        let askers: Vec<_> = providers
            .iter()
            .map(|provider| scope.spawn(|| ask(provider)))
            .collect();
        let asked = askers.into_iter().map(|asker| asker.join());
        asked
            .map(|asked| asked.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    let mut silent = Vec::new();
    for asked in asked {
        match asked {
            Ok(line) => write_stdout(|out| writeln!(out, "{line}"))?,
            Err(error) => silent.push(error),
        }
    }
    match silent.split_first() {
        None => Ok(()),
        Some((first, rest)) => {
            let rest: Vec<_> = rest.iter().map(|error| format!("error: {error}")).collect();
            let failure = Failure::from_error(first);
            Err(match rest.is_empty() {
                true => failure,
                false => failure.with_excerpt(rest.join("\n")),
            })
        }
    }
}

/// The derived SQL of tables that configure none, by table.
fn derived_sql(config: &Config) -> Result<Vec<(String, String)>, Failure> {
    let mut derived = Vec::new();
    for table in config.enabled_tables() {
        let sql = table_sql(config, table).map_err(|error| Failure::from_error(&error))?;
        for SqlText { text, file, .. } in [sql.create, sql.insert] {
            if file.is_none() {
                derived.push((table.name.clone(), text));
            }
        }
    }
    Ok(derived)
}

fn write_tables(
    report: &LoadReport,
    derived: &[(String, String)],
    out: &mut dyn io::Write,
) -> io::Result<()> {
    if report.tables.is_empty() {
        writeln!(out, "no table is enabled in knowdb.toml")?;
    }
    for TableReport {
        name,
        rows,
        elapsed,
        indexes,
        loaded_by_sqlite,
        compiled,
        ..
    } in &report.tables
    {
        let millis = elapsed.as_secs_f64() * 1e3;
        writeln!(
            out,
            "table {name}: {} rows in {millis:.0} ms",
            grouped(*rows)
        )?;
        match compiled {
            Compiled::Read(size) => {
                let size = grouped(*size);
                writeln!(out, "  read from its compiled form, {size} bytes")?;
            }
            Compiled::Written(size) => {
                writeln!(out, "  compiled to {} bytes", grouped(*size))?;
            }
            _ => {}
        }
        if let Some(why) = loaded_by_sqlite {
            writeln!(out, "  loaded by SQLite: {why}")?;
        }
        if !indexes.is_empty() {
            let columns = indexes.join(", ");
            writeln!(out, "  indexes for its lookups: {columns}")?;
        }
        for (_, text) in derived.iter().filter(|(table, _)| table == name) {
            writeln!(
                out,
                "  derived: {}",
                text.trim().replace('\n', "\n           ")
            )?;
        }
    }
    Ok(())
}

fn write_model(
    model: &Model,
    review: &Review,
    unknown: &Diagnostics,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let rules: Vec<_> = model.rules().iter().map(|rule| rule.as_str()).collect();
    let off = if model.enabled() { "" } else { ", off" };
    writeln!(
        out,
        "model {}: rules [{}]{off}, {}",
        model.name(),
        rules.join(" "),
        model.file_name()
    )?;
    for lookup in &review.lookups {
        let (line, column) = lookup.position;
        let how = answered(&lookup.explanation);
        let freshness = freshness_lines(&lookup.explanation, lookup.contract, "    ");
        writeln!(out, "  lookup {line}:{column}: {how}{freshness}")?;
        if let Some(on_failure) = lookup.on_failure {
            writeln!(out, "    on_lookup_failure: {on_failure}")?;
        }
    }
    for warnings in [model.warnings(), &review.warnings, unknown] {
        if !warnings.is_empty() {
            out.write_all(draw(warnings).as_bytes())?;
        }
    }
    Ok(())
}
