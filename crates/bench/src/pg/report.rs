//! How the figures are shown: tables for people, a line of JSON a case for programs.

use std::io::{self, ErrorKind, Write as _};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use indicatif::ProgressBar;
use lookaside_load::measure::{AnswerHash, Spread};
use serde::Serialize;

use super::Result;
use super::measure::Samples;
use crate::progress::spinner;

/// The costs of one case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Case {
    /// The server, and where it is.
    engine: String,
    bench: &'static str,
    case: String,
    /// What existed already when the clock started.
    from: String,
    /// Operations of one round.
    ops: u64,
    rounds: usize,
    wall_ns_per_op: Spread,
    /// CPU time of this process, all threads; the server's is not part of it.
    client_cpu_ns_per_op: Spread,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<(&'static str, f64)>,
}

/// A case that cannot be measured here, and why.
#[derive(Clone, Debug, Serialize)]
struct Skipped<'a> {
    bench: &'static str,
    case: &'a str,
    skipped: &'a str,
}

/// Collects the cases of one benchmark and shows them.
pub(super) struct Report {
    bench: &'static str,
    json: bool,
    /// A table is shown when it is complete; until then this shows what is being measured.
    spinner: ProgressBar,
    engine: String,
    from: String,
    cases: Vec<Case>,
    skipped: Vec<String>,
}

impl Report {
    pub(super) fn new(bench: &'static str, json: bool) -> Self {
        Self {
            bench,
            json,
            spinner: spinner(),
            engine: String::new(),
            from: String::new(),
            cases: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Sets the engine and the initial state of the following cases.
    pub(super) fn begin(&mut self, engine: &str, from: &str) {
        engine.clone_into(&mut self.engine);
        from.clone_into(&mut self.from);
    }

    /// Shows what is being measured.
    pub(super) fn measuring(&self, case: &str) {
        self.spinner.set_message(format!("{} {case}", self.bench));
    }

    /// Adds a case whose rounds had `ops` operations each.
    pub(super) fn add(
        &mut self,
        case: impl Into<String>,
        ops: u64,
        samples: &Samples,
        hash: Option<AnswerHash>,
        notes: Vec<(&'static str, f64)>,
    ) -> Result<()> {
        // A hash over nothing would look like an answer.
        let hash = hash.map(AnswerHash::text);
        let hash = hash.filter(|hash| *hash != AnswerHash::new().text());
        let case = Case {
            engine: self.engine.clone(),
            bench: self.bench,
            case: case.into(),
            from: self.from.clone(),
            ops,
            rounds: samples.round_count(),
            wall_ns_per_op: samples.wall(),
            client_cpu_ns_per_op: samples.cpu(),
            hash,
            notes,
        };
        if self.json {
            return print(&serde_json::to_string(&case)?);
        }
        self.cases.push(case);
        Ok(())
    }

    /// Adds a case that cannot be measured.
    pub(super) fn skip(&mut self, case: &str, why: &str) -> Result<()> {
        if self.json {
            let skipped = Skipped {
                bench: self.bench,
                case,
                skipped: why,
            };
            return print(&serde_json::to_string(&skipped)?);
        }
        self.skipped.push(format!("not measured: {case}: {why}"));
        Ok(())
    }

    /// Shows the collected table.
    pub(super) fn finish(self) -> Result<()> {
        self.spinner.finish_and_clear();
        let same = |a: &Case, b: &Case| a.engine == b.engine && a.from == b.from;
        for cases in self.cases.chunk_by(same) {
            let first = &cases[0];
            let heading = format!(
                "{}, {}\nbegun with {}",
                self.bench, first.engine, first.from
            );
            print(&format!("{heading}\n{}", table(cases)))?;
        }
        for line in &self.skipped {
            print(line)?;
        }
        Ok(())
    }
}

fn table(cases: &[Case]) -> Table {
    let mut header = vec!["case", "median", "min", "max", "client CPU", "rounds"];
    // The cases of one benchmark have the same notes.
    header.extend(cases[0].notes.iter().map(|(name, _)| *name));
    let has_hash = cases.iter().any(|case| case.hash.is_some());
    if has_hash {
        header.push("hash");
    }
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    for case in cases {
        let wall = case.wall_ns_per_op;
        let mut row = vec![
            case.case.clone(),
            time_text(wall.median),
            time_text(wall.min),
            time_text(wall.max),
            time_text(case.client_cpu_ns_per_op.median),
            case.rounds.to_string(),
        ];
        row.extend(case.notes.iter().map(|(_, ns)| time_text(*ns)));
        if has_hash {
            row.push(case.hash.clone().unwrap_or_default());
        }
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Nanoseconds in a readable unit.
pub(super) fn time_text(ns: f64) -> String {
    match ns {
        ..1e3 => format!("{ns:.0} ns"),
        ..1e6 => format!("{:.1} us", ns / 1e3),
        ..1e7 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.1} ms", ns / 1e6),
    }
}

/// Prints lines; a closed pipe is not a failure.
pub(super) fn print(text: &str) -> Result<()> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_a_fitting_unit() {
        for (ns, text) in [
            (950.0, "950 ns"),
            (12_340.0, "12.3 us"),
            (1_234_567.0, "1.23 ms"),
            (12_345_678.0, "12.3 ms"),
        ] {
            assert_eq!(time_text(ns), text);
        }
    }
}
