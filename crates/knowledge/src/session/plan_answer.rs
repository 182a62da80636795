//! The last answer of a native plan, which the caller of a session borrows.

use lookaside_value::{Extent, RowSet, RowSetBuilder, Value};

use crate::plan::{LookupPlan, Probe, ProbeAll, StoredRows};
use crate::rows::Rows;

/// Buffers for an answer.
#[derive(Debug, Default)]
pub(super) struct PlanAnswer {
    /// Positions of rows, see [`LookupPlan::row`].
    positions: Vec<usize>,
    /// The first row of a packed table.
    values: Vec<Value>,
    /// Rows of a packed table.
    unpacked: Option<RowSet>,
}

impl PlanAnswer {
    /// Finds the rows of a plan; returns their number, or `None` if the plan has no answer.
    #[inline]
    pub(super) fn find(
        &mut self,
        plan: &LookupPlan,
        params: &[Value],
        extent: Extent,
    ) -> Option<usize> {
        self.positions.clear();
        let is_answered = match extent {
            Extent::All => plan.all(params, &mut self.positions) == ProbeAll::Rows,
            Extent::First => match plan.first(params) {
                Probe::Row(position) => {
                    self.positions.push(position);
                    true
                }
                Probe::Absent => true,
                Probe::Refused | Probe::Fallback => false,
            },
        };
        is_answered.then_some(self.positions.len())
    }

    /// The rows that [`Self::find`] has found.
    #[inline]
    pub(super) fn rows<'a>(&'a mut self, plan: &'a LookupPlan) -> Rows<'a> {
        match plan.rows(&mut self.positions) {
            StoredRows::Set(rows) => Rows::picked(rows, &self.positions),
            StoredRows::Packed(rows) => {
                let mut unpacked = RowSetBuilder::with_columns(rows.columns().clone());
                unpacked.reserve(self.positions.len());
                for row in &self.positions {
                    self.values.clear();
                    rows.push_values(*row, &mut self.values);
                    unpacked.push(self.values.drain(..));
                }
                Rows::whole(self.unpacked.insert(unpacked.build()))
            }
        }
    }

    /// The values of the row at a position.
    #[inline]
    pub(super) fn values<'a>(&'a mut self, plan: &'a LookupPlan, position: usize) -> &'a [Value] {
        match plan.row(position) {
            (StoredRows::Set(rows), row) => rows.row(row),
            (StoredRows::Packed(rows), row) => {
                self.values.clear();
                rows.push_values(row, &mut self.values);
                &self.values
            }
        }
    }
}
