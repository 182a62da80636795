//! Whether a run has looked often enough everywhere: counts by contract, layer and fault.
//!
//! A clean report of a cell that was hardly read says nothing, so a short cell is a failure.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde_json::{Value as Json, json};

use crate::check::{Cell, Figures, Report};
use crate::fault::FaultKind;
use crate::history::History;

/// What each cell has to have.
#[derive(Clone, Copy, Debug)]
pub struct Demands {
    /// Reads with an answer.
    pub read_count_min: u64,
    /// Reads that began shortly after a change of the same key.
    pub recent_count_min: u64,
    /// Injections of the cell's fault; quiet cells need none.
    pub injection_count_min: u64,
}

impl Default for Demands {
    /// 10,000 reads, 1,000 recent ones, 100 injections: an error in one of 1,000 recent reads is then
    /// found with a probability of 63 %, and one that needs the fault in a few injections almost surely.
    fn default() -> Self {
        Self {
            read_count_min: 10_000,
            recent_count_min: 1_000,
            injection_count_min: 100,
        }
    }
}

/// What a cell has too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// Which cell.
    pub cell: Cell,
    /// What is counted.
    pub what: &'static str,
    /// How many there are.
    pub count: u64,
    /// How many were demanded.
    pub count_min: u64,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell {
            contract,
            layer,
            fault,
        } = self.cell;
        let fault = fault_name(fault);
        write!(
            f,
            "{contract} × {layer} × {fault}: {} {}, at least {} are demanded",
            self.count, self.what, self.count_min
        )
    }
}

/// The figures of all cells, and what the demands on them are short of.
#[derive(Debug)]
pub struct Matrix {
    rows: Vec<Row>,
    demands: Demands,
}

#[derive(Debug)]
struct Row {
    cell: Cell,
    figures: Figures,
    injection_count: u64,
    /// Cells that are not expected are shown, and nothing is demanded of them.
    is_expected: bool,
}

impl Matrix {
    /// Combines the figures of a report with the injections of its history: those that `injections` has,
    /// or those of the plan. `expected` are the cells that have to be there, such as
    /// [`Cell::product`].
    pub fn new(
        history: &History,
        report: &Report,
        expected: &[Cell],
        demands: Demands,
        injections: Option<&BTreeMap<FaultKind, u64>>,
    ) -> Self {
        let mut cells: Vec<Cell> = expected.to_vec();
        cells.extend(report.cells.keys());
        cells.sort_unstable();
        cells.dedup();
        let injection_count = |fault| match injections {
            Some(counts) => counts.get(&fault).copied().unwrap_or(0),
            None => (history.plan()).injection_count(fault, history.announced()),
        };
        let rows = cells.into_iter().map(|cell| Row {
            cell,
            figures: report.cells.get(&cell).cloned().unwrap_or_default(),
            injection_count: cell.fault.map_or(0, injection_count),
            is_expected: expected.contains(&cell),
        });
        Self {
            rows: rows.collect(),
            demands,
        }
    }

    /// What expected cells are short of; empty if the run was long enough.
    pub fn shortfalls(&self) -> Vec<Shortfall> {
        let expected = self.rows.iter().filter(|row| row.is_expected);
        expected.flat_map(|row| self.shortfalls_of(row)).collect()
    }

    fn shortfalls_of(&self, row: &Row) -> impl Iterator<Item = Shortfall> {
        let (cell, figures, demands) = (row.cell, &row.figures, self.demands);
        let demanded = [
            ("reads", figures.read_count, demands.read_count_min),
            (
                "reads after a change",
                figures.recent_count,
                demands.recent_count_min,
            ),
            (
                "injections",
                row.injection_count,
                match cell.fault {
                    Some(_) => demands.injection_count_min,
                    None => 0,
                },
            ),
        ];
        let shortfalls = demanded
            .into_iter()
            .map(move |(what, count, count_min)| Shortfall {
                cell,
                what,
                count,
                count_min,
            });
        shortfalls.filter(|it| it.count < it.count_min)
    }

    /// The matrix as a table, a row a cell.
    pub fn to_table(&self) -> String {
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_BORDERS_ONLY)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header([
                "contract",
                "layer",
                "fault",
                "injected",
                "reads",
                "recent",
                "memory",
                "failed",
                "stale",
                "p50",
                "p99",
                "max",
                "violations",
                "",
            ]);
        for row in &self.rows {
            let (cell, figures) = (row.cell, &row.figures);
            let staleness = &figures.staleness;
            let memory_share = match figures.read_count {
                0 => "–".to_owned(),
                count => format!(
                    "{:.1} %",
                    figures.memory_count as f64 * 100.0 / count as f64
                ),
            };
            let is_short = row.is_expected && self.shortfalls_of(row).next().is_some();
            table.add_row([
                cell.contract.to_string(),
                cell.layer.to_string(),
                fault_name(cell.fault).to_owned(),
                row.injection_count.to_string(),
                figures.read_count.to_string(),
                figures.recent_count.to_string(),
                memory_share,
                figures.failed_count.to_string(),
                staleness.stale_count().to_string(),
                millis_text(staleness.quantile(0.5)),
                millis_text(staleness.quantile(0.99)),
                millis_text(staleness.max()),
                figures.violation_count.to_string(),
                if is_short { "short" } else { "" }.to_owned(),
            ]);
        }
        for column in table.column_iter_mut().skip(3).take(10) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.to_string()
    }

    /// The matrix as JSON: an object with `cells`, a list of objects, and `shortfalls`, a list of texts.
    /// Durations are in microseconds.
    pub fn to_json(&self) -> Json {
        let cells = self.rows.iter().map(|row| {
            let (cell, figures) = (row.cell, &row.figures);
            let staleness = &figures.staleness;
            json!({
                "contract": cell.contract.to_string(),
                "layer": cell.layer.name(),
                "fault": cell.fault.map(FaultKind::name),
                "injections": row.injection_count,
                "reads": figures.read_count,
                "recent_reads": figures.recent_count,
                "memory_reads": figures.memory_count,
                "failed_reads": figures.failed_count,
                "stale_reads": staleness.stale_count(),
                "staleness_p50_us": micros(staleness.quantile(0.5)),
                "staleness_p99_us": micros(staleness.quantile(0.99)),
                "staleness_max_us": micros(staleness.max()),
                "violations": figures.violation_count,
            })
        });
        let shortfalls = self.shortfalls();
        let shortfalls = shortfalls.iter().map(Shortfall::to_string);
        json!({
            "cells": cells.collect::<Vec<_>>(),
            "shortfalls": shortfalls.collect::<Vec<_>>(),
        })
    }
}

fn fault_name(fault: Option<FaultKind>) -> &'static str {
    fault.map_or("none", FaultKind::name)
}

fn millis_text(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{CheckOptions, check};
    use crate::fault::{FaultPlan, PlanOptions};
    use crate::history::{
        Contract, Contracts, Key, Layer, Read, Recorder, RecorderLimits, SessionId, Source, Time,
    };

    #[test]
    fn short_cells_are_named() {
        let faults = [FaultKind::Reload];
        let options = PlanOptions::default();
        let plan = FaultPlan::new(&faults, Duration::from_secs(1), &options).unwrap();
        let contracts = Contracts::new([Contract::Any]).unwrap();
        let mut recorder = Recorder::new(RecorderLimits::default());
        let phases: Vec<_> = plan.iter().map(|(id, _)| id).collect();
        for (number, &phase) in (0..).zip(&phases) {
            let read = Read {
                key: Key(1),
                version: Some(Default::default()),
                begin: Time::from_nanos(number),
                end: Time::from_nanos(number),
                contract: contracts.id(Contract::Any).unwrap(),
                token: None,
                layer: Layer::L0,
                session: SessionId(1),
                fresh_as_of: None,
                phase,
                source: Source::Memory,
            };
            recorder.read(&read).unwrap();
        }
        let last = phases[phases.len() - 1];
        let history = History::merge(contracts, plan, last, vec![recorder]).unwrap();
        let report = check(&history, &CheckOptions::default());
        let expected = Cell::product(&[Contract::Any], &[Layer::L0, Layer::L1], &faults);
        let demands = Demands {
            read_count_min: 2,
            recent_count_min: 0,
            injection_count_min: 1,
        };
        let matrix = Matrix::new(&history, &report, &expected, demands, None);
        let shortfalls: Vec<_> = matrix
            .shortfalls()
            .iter()
            .map(|it| it.to_string())
            .collect();
        assert_eq!(
            shortfalls,
            [
                "any × l1 × none: 0 reads, at least 2 are demanded",
                "any × l1 × reload: 0 reads, at least 2 are demanded"
            ]
        );
        let table = matrix.to_table();
        assert_eq!(table.matches("short").count(), 2, "{table}");
        assert!(
            table.contains("100.0 %") && table.contains("reload"),
            "{table}"
        );
        let json = matrix.to_json();
        assert_eq!(json["cells"].as_array().unwrap().len(), 4);
        assert_eq!(json["cells"][1]["reads"], phases.len() as u64 / 2);
    }
}
