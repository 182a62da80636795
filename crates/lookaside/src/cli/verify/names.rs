//! Contracts, layers and faults as options name them.

use std::time::Duration;

use lookaside_verify::fault::FaultKind;
use lookaside_verify::history::{Contract, Layer};

use crate::suggestion::did_you_mean;

/// What `within` alone means: the freshest duration that the documentation promises.
pub(super) const WITHIN_DEFAULT: Duration = Duration::from_millis(50);

/// The layers that have a reader.
pub(super) const LAYERS: [Layer; 7] = [
    Layer::Database,
    Layer::L0,
    Layer::L1,
    Layer::Call,
    Layer::Batch,
    Layer::Body,
    Layer::Http,
];

/// The faults that an option selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FaultChoice {
    /// All that can be injected.
    All,
    /// These; one that cannot be injected is an error.
    Named(Vec<FaultKind>),
}

/// Reads the name of a mistake.
#[cfg(feature = "mutants")]
pub(super) fn mutant(name: &str) -> Result<lookaside_knowledge::Mutant, String> {
    use lookaside_knowledge::Mutant;
    let found = Mutant::ALL.into_iter().find(|it| it.name() == name);
    found.ok_or_else(|| format!("the names are {}", Mutant::ALL.map(Mutant::name).join(", ")))
}

/// `any`, `now`, `after`, `within` or a duration.
pub(super) fn contract(text: &str) -> Result<Contract, String> {
    match text {
        "any" => Ok(Contract::Any),
        "now" => Ok(Contract::Now),
        "after" => Ok(Contract::After),
        "within" => Ok(Contract::Within(WITHIN_DEFAULT)),
        _ => duration(text).map(Contract::Within).ok_or_else(|| {
            let hint = did_you_mean(text, ["any", "now", "after", "within"]);
            format!("write any, now, after, within (50ms), or a duration such as 200ms or 1s{hint}")
        }),
    }
}

/// A number with `ms` or `s`.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (text.strip_suffix('s')?, 1000),
    };
    let millis: u64 = number.parse().ok()?;
    Some(Duration::from_millis(millis.checked_mul(unit)?))
}

/// The name of a layer that has a reader.
pub(super) fn layer(text: &str) -> Result<Layer, String> {
    let found = LAYERS.into_iter().find(|layer| layer.name() == text);
    found.ok_or_else(|| {
        let names = LAYERS.map(Layer::name);
        let hint = did_you_mean(text, names);
        format!("write one of {}{hint}", names.join(", "))
    })
}

/// `all`, `none`, or names of faults with commas.
pub(super) fn faults(text: &str) -> Result<FaultChoice, String> {
    match text {
        "all" => return Ok(FaultChoice::All),
        "none" => return Ok(FaultChoice::Named(Vec::new())),
        _ => {}
    }
    let mut kinds = Vec::new();
    for name in text.split(',') {
        let kind: FaultKind = name.parse().map_err(|_| {
            let names = FaultKind::ALL.map(FaultKind::name);
            let hint = did_you_mean(name, names);
            let names = names.join(", ");
            format!("{name:?} is not a fault{hint}; write all, none, or some of {names}")
        })?;
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    Ok(FaultChoice::Named(kinds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_the_help_lists_them() {
        let within = |ms| Ok(Contract::Within(Duration::from_millis(ms)));
        assert_eq!(contract("any"), Ok(Contract::Any));
        assert_eq!(contract("within"), within(50));
        assert_eq!(contract("200ms"), within(200));
        assert_eq!(contract("2s"), within(2000));
        assert!(contract("afer").unwrap_err().contains("did you mean"));
        assert_eq!(layer("body"), Ok(Layer::Body));
        assert!(layer("native").unwrap_err().contains("l0, l1, call"));
        assert_eq!(faults("all"), Ok(FaultChoice::All));
        assert_eq!(faults("none"), Ok(FaultChoice::Named(Vec::new())));
        let named = FaultChoice::Named(vec![FaultKind::Truncate, FaultKind::Reload]);
        assert_eq!(faults("truncate,reload,truncate"), Ok(named));
        let error = faults("truncate,reloaded").unwrap_err();
        assert!(error.contains("\"reloaded\" is not a fault"), "{error}");
    }
}
