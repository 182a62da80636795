//! Sums over plans of `EXPLAIN (ANALYZE, FORMAT JSON)`, and their interpretation.

use serde::Serialize;
use serde_json::Value;

use super::Result;
use super::Spread;
use crate::pg::report::time_text;

/// The sums over the statements of one run.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Counted {
    pub(super) planning_ms: f64,
    pub(super) execution_ms: f64,
    /// Part of the execution.
    pub(super) jit_ms: f64,
    pub(super) buffers: Buffers,
    pub(super) wal: Wal,
    pub(super) updates: u64,
    /// HOT updates, which made no index entries: the new row version is on the same page, and no
    /// indexed column has changed.
    pub(super) hot_updates: u64,
    /// Of the last statement, as the server wrote it.
    pub(super) plan: Value,
}

/// Pages of 8 kB in shared buffers.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Buffers {
    pub(super) hit: u64,
    pub(super) read: u64,
    pub(super) dirtied: u64,
    pub(super) written: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Wal {
    pub(super) records: u64,
    /// Whole pages, after a checkpoint.
    pub(super) full_pages: u64,
    pub(super) bytes: u64,
}

impl Counted {
    /// Adds the answer to one `EXPLAIN`.
    pub(super) fn add(&mut self, answer: Value) -> Result<()> {
        let explained = &answer[0];
        let top = &explained["Plan"];
        let ms = |value: &Value| value.as_f64();
        let (Some(planning), Some(execution)) = (
            ms(&explained["Planning Time"]),
            ms(&explained["Execution Time"]),
        ) else {
            return Err("the server's plan names no times".into());
        };
        self.planning_ms += planning;
        self.execution_ms += execution;
        self.jit_ms += ms(&explained["JIT"]["Timing"]["Total"]).unwrap_or(0.0);
        let count = |name: &str| top[name].as_u64().unwrap_or(0);
        self.buffers.hit += count("Shared Hit Blocks");
        self.buffers.read += count("Shared Read Blocks");
        self.buffers.dirtied += count("Shared Dirtied Blocks");
        self.buffers.written += count("Shared Written Blocks");
        self.wal.records += count("WAL Records");
        self.wal.full_pages += count("WAL FPI");
        self.wal.bytes += count("WAL Bytes");
        self.plan = answer;
        Ok(())
    }

    fn hot_percent(&self) -> Option<f64> {
        (self.updates > 0).then(|| self.hot_updates as f64 * 100.0 / self.updates as f64)
    }

    pub(super) fn hot_text(&self) -> String {
        self.hot_percent()
            .map_or_else(String::new, |percent| format!("{percent:.0} %"))
    }
}

/// The nodes of a plan from the top, the first child of each.
pub(super) fn shape(plan: &Value) -> String {
    let mut nodes = Vec::new();
    let mut node = &plan[0]["Plan"];
    while let Some(name) = node["Node Type"].as_str() {
        nodes.push(match node["Index Name"].as_str() {
            Some(index) => format!("{name} {index}"),
            None => name.to_owned(),
        });
        node = &node["Plans"][0];
    }
    nodes.join(" < ")
}

/// How the server's time divides, for the case as it is in the suite.
pub(super) fn share_sentence(counted: &Counted, statement_count: usize, row_count: u64) -> String {
    let total = counted.planning_ms + counted.execution_ms;
    let planning = counted.planning_ms * 100.0 / total.max(f64::MIN_POSITIVE);
    let per_row = |count: u64| count as f64 / row_count as f64;
    let mut text = format!(
        "of {} in {statement_count} statement{}, planning is {planning:.0} % and execution {:.0} %; \
         a row costs {:.1} accesses to pages, {:.1} WAL records and {:.0} bytes of WAL",
        time_text(total * 1e6),
        if statement_count == 1 { "" } else { "s" },
        100.0 - planning,
        per_row(counted.buffers.hit + counted.buffers.read),
        per_row(counted.wal.records),
        per_row(counted.wal.bytes),
    );
    if let Some(hot) = counted.hot_percent() {
        text +=
            &format!("; {hot:.0} % of the updates are HOT, the others make an entry in each index");
    }
    if counted.jit_ms > 0.0 {
        text += &format!("; {} of it is JIT", time_text(counted.jit_ms * 1e6));
    }
    text
}

/// How a variant differs from the case as it is in the suite, with the counters that changed by a
/// fifth or more.
pub(super) fn difference_sentence(base: &(Spread, Counted), other: &(Spread, Counted)) -> String {
    let ((base_wall, base), (wall, other)) = (base, other);
    let ratio = wall.median / base_wall.median;
    let mut text = if wall.min <= base_wall.max && base_wall.min <= wall.max {
        format!("no difference in time beyond the spread of the rounds ({ratio:.2} times)")
    } else if base_wall.min == base_wall.max || wall.min == wall.max {
        format!("takes {ratio:.2} times as long in a single round, which has no spread")
    } else {
        format!("takes {ratio:.2} times as long")
    };
    let counters = [
        ("planning", base.planning_ms, other.planning_ms),
        ("execution", base.execution_ms, other.execution_ms),
        (
            "accesses to pages",
            (base.buffers.hit + base.buffers.read) as f64,
            (other.buffers.hit + other.buffers.read) as f64,
        ),
        (
            "WAL records",
            base.wal.records as f64,
            other.wal.records as f64,
        ),
        (
            "bytes of WAL",
            base.wal.bytes as f64,
            other.wal.bytes as f64,
        ),
    ];
    let changed: Vec<_> = counters
        .iter()
        .filter(|(_, base, other)| *base > 0.0 && (other / base - 1.0).abs() >= 0.2)
        .map(|(name, base, other)| format!("{:.2} times the {name}", other / base))
        .collect();
    if changed.is_empty() {
        text += "; no counter differs by a fifth";
    } else {
        text += &format!("; {}", changed.join(", "));
    }
    if let (Some(base), Some(other)) = (base.hot_percent(), other.hot_percent())
        && (base - other).abs() >= 1.0
    {
        text += &format!("; {other:.0} % of the updates are HOT instead of {base:.0} %");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn explained(planning: f64, execution: f64) -> Value {
        json!([{
            "Plan": {
                "Node Type": "ModifyTable",
                "Shared Hit Blocks": 6, "Shared Read Blocks": 1, "Shared Dirtied Blocks": 2,
                "Shared Written Blocks": 3, "WAL Records": 4, "WAL FPI": 1, "WAL Bytes": 400,
                "Plans": [{"Node Type": "Index Scan", "Index Name": "i2a"}],
            },
            "Planning Time": planning,
            "Execution Time": execution,
            "JIT": {"Timing": {"Total": 0.5}},
        }])
    }

    fn counted(planning: f64, execution: f64) -> Counted {
        let mut counted = Counted::default();
        counted.add(explained(planning, execution)).unwrap();
        counted.add(explained(planning, execution)).unwrap();
        (counted.updates, counted.hot_updates) = (2, 1);
        counted
    }

    fn spread(min: f64, median: f64, max: f64) -> Spread {
        Spread { min, median, max }
    }

    #[test]
    fn plans_are_summed_and_described() {
        let counted = counted(0.5, 1.5);
        assert_eq!(shape(&counted.plan), "ModifyTable < Index Scan i2a");
        assert_eq!(
            share_sentence(&counted, 2, 2),
            "of 4.00 ms in 2 statements, planning is 25 % and execution 75 %; a row costs 7.0 \
             accesses to pages, 4.0 WAL records and 400 bytes of WAL; 50 % of the updates are HOT, \
             the others make an entry in each index; 1.00 ms of it is JIT"
        );
        let error = Counted::default().add(json!([{}])).unwrap_err();
        assert_eq!(error.to_string(), "the server's plan names no times");
    }

    #[test]
    fn a_difference_is_claimed_only_beyond_the_spread() {
        let base = (spread(9.0, 10.0, 11.0), counted(1.0, 1.0));
        let mut other = (spread(4.0, 5.0, 6.0), counted(1.0, 0.5));
        other.1.wal.bytes = 0;
        other.1.hot_updates = 2;
        assert_eq!(
            difference_sentence(&base, &other),
            "takes 0.50 times as long; 0.50 times the execution, 0.00 times the bytes of WAL; \
             100 % of the updates are HOT instead of 50 %"
        );
        let same = (spread(8.0, 9.0, 9.5), counted(1.0, 1.0));
        assert_eq!(
            difference_sentence(&base, &same),
            "no difference in time beyond the spread of the rounds (0.90 times); \
             no counter differs by a fifth"
        );
        let once = (spread(12.0, 12.0, 12.0), counted(1.0, 1.0));
        let sentence = difference_sentence(&base, &once);
        assert!(
            sentence.contains("1.20 times as long in a single round"),
            "{sentence}"
        );
    }
}
