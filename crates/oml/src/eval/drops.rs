//! `drop` statements: records that leave the batch.

use lookaside_value::Record;

use crate::eval::RunReport;
use crate::eval::context::{Context, World};
use crate::eval::plan::Test;

/// Removes the records for which the test holds, together with their results, and returns how many
/// sources remain, which are the first ones then; the others are in any order. What `positions` has
/// for each result moves with it.
///
/// A record that a lookup has rejected is kept, since the caller removes it and counts it as a reject.
pub(crate) fn run(
    test: &Test,
    sources: &mut [Record],
    (results, mut positions): (&mut Vec<Record>, Option<&mut Vec<usize>>),
    world: &mut World<'_>,
    report: &mut RunReport,
) -> usize {
    let mut kept_count = 0;
    for index in 0..sources.len() {
        let source = &mut sources[index];
        let result = &results[index];
        let line = result.line;
        let is_dropped = test.holds(&mut Context {
            source,
            result,
            world,
        });
        if is_dropped && !report.has_rejected(line) {
            continue;
        }
        if kept_count < index {
            sources.swap(kept_count, index);
            results.swap(kept_count, index);
            if let Some(positions) = &mut positions {
                positions.swap(kept_count, index);
            }
        }
        kept_count += 1;
    }
    report.dropped_count += (results.len() - kept_count) as u64;
    results.truncate(kept_count);
    if let Some(positions) = positions {
        positions.truncate(kept_count);
    }
    kept_count
}
