//! What is printed of a run: figures by contract and layer, faults, the matrix, violations.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use lookaside_verify::check::{Cell, Figures, Report};
use lookaside_verify::excerpt::excerpt;
use lookaside_verify::fault::FaultKind;
use lookaside_verify::history::{Contract, History, Layer};
use lookaside_verify::matrix::{Demands, Matrix};
use serde_json::{Value as Json, json};

use super::inject::Injections;
use crate::numbers::grouped;

/// How many violations are printed.
const VIOLATION_COUNT_MAX: usize = 5;

/// How many of the operations before each are printed.
const EXCERPT_LINE_COUNT: usize = 8;

/// How many cells that are too short are printed.
const SHORTFALL_COUNT_MAX: usize = 20;

/// What was run.
pub(super) struct Setup {
    pub(super) version: String,
    pub(super) seed: u64,
    pub(super) elapsed: Duration,
    pub(super) keys: u32,
    pub(super) readers: u16,
    pub(super) writers: u16,
    pub(super) ttl: Duration,
    pub(super) contracts: Vec<Contract>,
    pub(super) layers: Vec<Layer>,
    pub(super) faults: Vec<FaultKind>,
    pub(super) demands: Demands,
}

/// The result of a run.
pub(super) struct Outcome {
    setup: Setup,
    report: Report,
    matrix: Matrix,
    injections: BTreeMap<FaultKind, Injections>,
    write_count: usize,
    read_count: usize,
    first_failure: Option<String>,
}

impl Outcome {
    pub(super) fn new(
        setup: Setup,
        history: &History,
        report: Report,
        injections: BTreeMap<FaultKind, Injections>,
    ) -> Self {
        let is_applicable = |kind: &&FaultKind| {
            let injections = injections.get(*kind);
            injections.is_none_or(|it| it.done_count > 0 || it.not_applicable.is_none())
        };
        let faults: Vec<FaultKind> = setup.faults.iter().filter(is_applicable).copied().collect();
        let expected = Cell::product(&setup.contracts, &setup.layers, &faults);
        let counts = injections.iter().map(|(kind, it)| (*kind, it.done_count));
        let counts = counts.collect();
        let matrix = Matrix::new(history, &report, &expected, setup.demands, Some(&counts));
        Self {
            matrix,
            write_count: history.writes().len(),
            read_count: history.read_count(),
            first_failure: history.first_failure().map(str::to_owned),
            setup,
            report,
            injections,
        }
    }

    /// Whether there is no violation, and each cell was read often enough.
    pub(super) fn is_good(&self) -> bool {
        self.report.is_clean() && self.matrix.shortfalls().is_empty()
    }

    fn violation_count(&self) -> u64 {
        self.report.violation_counts.values().sum()
    }

    /// The figures by contract and layer, over all faults.
    fn by_layer(&self) -> BTreeMap<(Contract, Layer), Figures> {
        let mut sums: BTreeMap<(Contract, Layer), Figures> = BTreeMap::new();
        for (cell, figures) in &self.report.cells {
            let sum = sums.entry((cell.contract, cell.layer)).or_default();
            sum.add(figures);
        }
        sums
    }

    /// The report as a JSON object. Durations are in microseconds.
    pub(super) fn to_json(&self) -> Json {
        let setup = &self.setup;
        let layers = self
            .by_layer()
            .into_iter()
            .map(|((contract, layer), figures)| {
                json!({
                    "contract": contract.to_string(),
                    "layer": layer.name(),
                    "reads": figures.read_count,
                    "recent_reads": figures.recent_count,
                    "memory_reads": figures.memory_count,
                    "failed_reads": figures.failed_count,
                    "stale_reads": figures.staleness.stale_count(),
                    "staleness_p50_us": micros(figures.staleness.quantile(0.5)),
                    "staleness_p99_us": micros(figures.staleness.quantile(0.99)),
                    "staleness_max_us": micros(figures.staleness.max()),
                    "violations": figures.violation_count,
                })
            });
        let faults = self.injections.iter().map(|(kind, injections)| {
            json!({
                "fault": kind.name(),
                "injections": injections.done_count,
                "failed": injections.failed_count,
                "first_failure": injections.first_failure,
                "not_applicable": injections.not_applicable,
            })
        });
        let rules = self.report.violation_counts.iter();
        let rules = rules.map(|(rule, count)| (rule.name().to_owned(), json!(count)));
        let violations = self.report.violations.iter().map(ToString::to_string);
        json!({
            "version": setup.version,
            "lookaside": env!("CARGO_PKG_VERSION"),
            "seed": setup.seed,
            "elapsed_us": micros(setup.elapsed),
            "keys": setup.keys,
            "readers": setup.readers,
            "writers": setup.writers,
            "ttl_ms": setup.ttl.as_millis() as u64,
            "writes": self.write_count,
            "reads": self.read_count,
            "first_failed_read": self.first_failure,
            "quiet_reads": self.report.quiet_count,
            "violations": self.violation_count(),
            "violations_by_rule": rules.collect::<serde_json::Map<_, _>>(),
            "first_violations": violations.take(VIOLATION_COUNT_MAX).collect::<Vec<_>>(),
            "layers": layers.collect::<Vec<_>>(),
            "faults": faults.collect::<Vec<_>>(),
            "matrix": self.matrix.to_json(),
        })
    }

    /// The report for people.
    pub(super) fn write_text(&self, history: &History, out: &mut dyn Write) -> io::Result<()> {
        let setup = &self.setup;
        writeln!(
            out,
            "PostgreSQL {}, seed {}: {} reads and {} writes in {:.1} s\n\
             {} readers, {} writers, {} keys, ttl_ms {}\n",
            setup.version,
            setup.seed,
            grouped(self.read_count as u64),
            grouped(self.write_count as u64),
            setup.elapsed.as_secs_f64(),
            setup.readers,
            setup.writers,
            grouped(setup.keys.into()),
            setup.ttl.as_millis(),
        )?;
        self.write_layers(out)?;
        if !self.injections.is_empty() {
            self.write_faults(out)?;
            writeln!(out, "\n{}", self.matrix.to_table())?;
        }
        if let Some(failure) = &self.first_failure {
            writeln!(out, "\nthe first read that failed: {failure}")?;
        }
        self.write_violations(history, out)?;
        let shortfalls = self.matrix.shortfalls();
        for shortfall in shortfalls.iter().take(SHORTFALL_COUNT_MAX) {
            writeln!(out, "too few: {shortfall}")?;
        }
        if shortfalls.len() > SHORTFALL_COUNT_MAX {
            writeln!(out, "… and {} more", shortfalls.len() - SHORTFALL_COUNT_MAX)?;
        }
        let plural = |count: u64, noun: &str| {
            format!(
                "{} {noun}{}",
                grouped(count),
                if count == 1 { "" } else { "s" }
            )
        };
        writeln!(
            out,
            "\n{}: {}, {}; {} were read after the writers had stopped",
            if self.is_good() { "passed" } else { "FAILED" },
            plural(self.violation_count(), "violation"),
            plural(shortfalls.len() as u64, "combination") + " with too few reads",
            plural(self.report.quiet_count, "answer"),
        )
    }

    fn write_layers(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = table([
            "contract",
            "layer",
            "reads",
            "recent",
            "memory",
            "failed",
            "stale",
            "p50",
            "p99",
            "max",
            "violations",
        ]);
        for ((contract, layer), figures) in self.by_layer() {
            let staleness = &figures.staleness;
            let share = match figures.read_count {
                0 => "–".to_owned(),
                count => format!(
                    "{:.1} %",
                    figures.memory_count as f64 * 100.0 / count as f64
                ),
            };
            table.add_row([
                contract.to_string(),
                layer.to_string(),
                grouped(figures.read_count),
                grouped(figures.recent_count),
                share,
                grouped(figures.failed_count),
                grouped(staleness.stale_count()),
                millis(staleness.quantile(0.5)),
                millis(staleness.quantile(0.99)),
                millis(staleness.max()),
                grouped(figures.violation_count),
            ]);
        }
        align_right(&mut table, 2, 9);
        writeln!(out, "{table}")?;
        writeln!(
            out,
            "recent: began within 50 ms after a change of their row; memory: answered without the \
             database; stale: did not show a change that was committed before they began, for how \
             long (p50, p99 and max of all reads)"
        )
    }

    fn write_faults(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = table(["fault", "injected", "failed", ""]);
        for (kind, injections) in &self.injections {
            let note = match (&injections.first_failure, injections.not_applicable) {
                (Some(failure), _) => failure.clone(),
                (None, Some(reason)) => format!("not applicable: {reason}"),
                (None, None) => String::new(),
            };
            table.add_row([
                kind.name().to_owned(),
                grouped(injections.done_count),
                grouped(injections.failed_count),
                note,
            ]);
        }
        align_right(&mut table, 1, 2);
        writeln!(out, "\n{table}")
    }

    fn write_violations(&self, history: &History, out: &mut dyn Write) -> io::Result<()> {
        for (rule, count) in &self.report.violation_counts {
            writeln!(out, "\nviolations of {rule}: {}", grouped(*count))?;
            // The first one of each rule, with the operations around it.
            let violation = self.report.violations.iter().find(|it| it.rule == *rule);
            let Some(violation) = violation else {
                continue;
            };
            writeln!(out, "  {violation}")?;
            for line in excerpt(history, violation, EXCERPT_LINE_COUNT) {
                writeln!(out, "    {line}")?;
            }
        }
        Ok(())
    }
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    table
}

fn align_right(table: &mut Table, first: usize, count: usize) {
    for column in table.column_iter_mut().skip(first).take(count) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
