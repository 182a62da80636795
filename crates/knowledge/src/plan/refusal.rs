//! Why SQLite refuses the parameters of a native plan.

use lookaside_value::Text;

use super::{ChosenPlan, LookupPlan, Native, NativeProbe};

impl LookupPlan {
    /// A query that fails as SQLite refuses parameters of this plan, for which it needs no table; `None` if
    /// SQLite may have to answer, or the tables have no rows, with which it compares nothing.
    ///
    /// A statement with several conditions may fail where SQLite would not: it evaluates an operand only for
    /// rows that satisfy the conditions before it.
    pub(crate) fn refusal_sql(&self, params: &[Text]) -> Option<String> {
        let natives: Vec<&Native> = match &self.0 {
            ChosenPlan::Native(native) => vec![native],
            ChosenPlan::FirstOf(tables) => tables.members().iter().collect(),
            ChosenPlan::NotNative(_) => return None,
        };
        if self.may_need_sqlite() {
            return None;
        }
        if natives.iter().all(|native| native.row_count == 0) {
            return None;
        }
        let mut operands = Vec::new();
        for native in natives {
            native.add_operands(params, &mut operands);
        }
        operands.dedup();
        Some(format!("select {}", operands.join(", ")))
    }
}

impl Native {
    fn add_operands(&self, params: &[Text], operands: &mut Vec<String>) {
        match &self.probe {
            NativeProbe::Hash { parts, .. } => {
                operands.extend(parts.iter().map(|part| part.operand.sql(params)));
            }
            NativeProbe::Interval { key, high, .. } => {
                let keys = [Some(key), high.as_deref()].into_iter().flatten();
                operands.extend(keys.map(|key| key.operand.sql(params)));
            }
            // The function refuses what is not an address.
            NativeProbe::Ip4Between { ip, .. } => {
                operands.push(format!("ip4_between({}, 0, 0)", ip.sql(params)));
            }
            NativeProbe::Related { operand, .. } => operands.push(operand.sql(params)),
        }
    }
}
