//! Bounds the nesting depth of the values that a model builds.
//!
//! Each statement can put the object of the previous one into another object, so a long model could
//! build a value so deep that traversing or dropping it would overflow the stack. The possible
//! depth of each name is known when the model is bound, so nothing is counted per record.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use lookaside_value::{Name, NameTable};

use crate::eval::plan::{Access, Expr, Pattern};

/// The maximal nesting of objects and arrays across statements; the nesting within one expression
/// or of the input is additional and has its own limits.
pub(crate) const DEPTH_MAX: usize = 256;

/// The possible depth of the result's fields so far; a missing name has depth 0.
#[derive(Debug, Default)]
pub(crate) struct Depths(HashMap<Name, usize, RandomState>);

impl Depths {
    /// Records that a field can have this depth.
    pub(crate) fn note(&mut self, name: Name, depth: usize) {
        if depth > 0 {
            let known = self.0.entry(name).or_default();
            *known = depth.max(*known);
        }
    }

    /// The maximal depth of the value of an expression.
    pub(crate) fn of(&self, expr: &Expr, names: &NameTable) -> usize {
        let of = |expr: &Expr| self.of(expr, names);
        match expr {
            Expr::Constant(_)
            | Expr::Now(_)
            | Expr::Fmt(_)
            | Expr::Calc(_)
            | Expr::AccessDirect(_) => 0,
            Expr::Access(access) => self.of_access(access, names),
            Expr::Pipe(source, _) => of(source),
            Expr::Match(choice) => {
                let results = choice.cases.iter().map(|case| &case.result);
                deepest(results.chain(&choice.default).map(of))
            }
            Expr::Object(members) => 1 + deepest(members.iter().map(|member| of(&member.value))),
            Expr::Array(items) => 1 + deepest(items.iter().map(of)),
            Expr::Collect(collect) => {
                let gathered = collect.patterns.iter();
                let gathered = deepest(gathered.map(|pattern| self.of_pattern(pattern, names)));
                deepest(collect.default.iter().map(of)).max(1 + gathered)
            }
            Expr::Dictionary(lookup) => of(&lookup.default),
        }
    }

    fn of_access(&self, access: &Access, names: &NameTable) -> usize {
        let keys = access.key.iter().chain(&access.options);
        let fields =
            keys.flat_map(|key| [Some(key.name), key.path.as_ref().map(|path| path.field)]);
        let found = fields
            .flatten()
            .filter_map(|name| self.0.get(&name).copied());
        let default = access
            .default
            .as_deref()
            .map(|default| self.of(default, names));
        deepest(found.chain(default))
    }

    fn of_pattern(&self, pattern: &Pattern, names: &NameTable) -> usize {
        let gathers = |name: Name| pattern.wildcard.matches(names.text(name).trim());
        let matching = self.0.iter().filter(|(name, _)| gathers(**name));
        deepest(matching.map(|(_, depth)| *depth))
    }
}

fn deepest(depths: impl Iterator<Item = usize>) -> usize {
    depths.max().unwrap_or(0)
}
