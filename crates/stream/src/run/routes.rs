//! Which outputs a record is written to: what a model sets as `@meta/output`.

use std::borrow::Cow;

use lookaside_value::{Batch, Value};

use super::job::Output;
use crate::format::reject_record;
use crate::message::RecordMeta;

/// The name of the output that records are written to that set none.
pub(super) const DEFAULT: &str = "default";

/// In place of a name: the record is not written.
const NONE: &str = "none";

/// A set of outputs has a bit for each.
pub(super) const OUTPUT_COUNT_MAX: usize = u64::BITS as usize;

/// The outputs of a run by their names; the first one is the default.
#[derive(Clone, Debug)]
pub(super) struct OutputNames {
    names: Box<[Box<str>]>,
    /// Whether other names mean the default output.
    takes_any: bool,
}

/// The outputs of each record of a batch.
#[derive(Debug)]
pub(super) enum Routes {
    /// All records are written to the default output.
    Default,
    /// For each record, a bit for each output.
    Each(Vec<u64>),
}

impl OutputNames {
    /// The default output and others with these names.
    pub(super) fn new<'a>(named: impl Iterator<Item = &'a str>, takes_any: bool) -> Self {
        let names = std::iter::once(DEFAULT).chain(named);
        Self {
            names: names.map(Into::into).collect(),
            takes_any,
        }
    }

    /// The name of the output with this index, for the reasons of rejects; `None` for the default one.
    pub(super) fn named(&self, index: usize) -> Option<&str> {
        (index > 0).then(|| &*self.names[index])
    }

    /// Whether a further output can have this name.
    pub(super) fn is_free(name: &str) -> bool {
        !matches!(name, DEFAULT | NONE | "")
    }

    /// Finds the outputs of the records of a batch; records with an unknown output are rejected, and
    /// those without any are counted as dropped.
    pub(super) fn route(
        &self,
        batch: &Batch,
        metas: &[RecordMeta<'_>],
        output: &mut Output,
    ) -> Routes {
        let mut routes = Vec::with_capacity(batch.len());
        for (record, meta) in batch.records().iter().zip(metas) {
            let set = match meta.output.as_ref().map(|value| self.set_of(value)) {
                None => 1,
                Some(Ok(0)) => {
                    output.counts.events_dropped += 1;
                    0
                }
                Some(Ok(set)) => set,
                Some(Err(reason)) => {
                    reject_record(record, batch.names(), reason, &mut output.rejects);
                    0
                }
            };
            routes.push(set);
        }
        Routes::Each(routes)
    }

    /// The set that a value names: an output, or a list of outputs.
    fn set_of(&self, value: &Value) -> Result<u64, String> {
        let name: Cow<'_, str> = match value {
            Value::Null => return Ok(0),
            Value::Array(values) => {
                let mut set = 0;
                for value in values.iter() {
                    set |= self.set_of(value)?;
                }
                return Ok(set);
            }
            Value::Text(text) => Cow::Borrowed(text),
            Value::Symbol(text) => Cow::Borrowed(text),
            other => {
                let mut text = String::new();
                other.write_raw(&mut text);
                Cow::Owned(text)
            }
        };
        if name == NONE {
            return Ok(0);
        }
        let index = self.names.iter().position(|known| **known == *name);
        let index = index.or(self.takes_any.then_some(0)).ok_or_else(|| {
            format!(
                "no output is named `{name}`; the outputs are {}",
                self.names.join(", ")
            )
        })?;
        Ok(1 << index)
    }
}

impl Routes {
    /// Whether no record of the batch is written to this output.
    pub(super) fn are_none(&self, output: usize) -> bool {
        match self {
            Self::Default => output != 0,
            Self::Each(sets) => sets.iter().all(|set| set & (1 << output) == 0),
        }
    }

    /// Whether the record with this index in the batch is written to this output.
    pub(super) fn contains(&self, record: usize, output: usize) -> bool {
        match self {
            Self::Default => output == 0,
            Self::Each(sets) => sets[record] & (1 << output) != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_names_outputs() {
        let names = OutputNames::new(["audit", "7"].into_iter(), false);
        let text = |text: &str| Value::from(text);
        let list = |values: &[Value]| Value::Array(values.into());
        for (value, expected) in [
            (text("default"), Ok(0b001)),
            (text("audit"), Ok(0b010)),
            (Value::Int(7), Ok(0b100)),
            (Value::Symbol("audit".into()), Ok(0b010)),
            (
                list(&[text("audit"), text("default"), text("audit")]),
                Ok(0b011),
            ),
            (list(&[]), Ok(0)),
            (list(&[text("none"), Value::Null]), Ok(0)),
            (text("none"), Ok(0)),
            (Value::Null, Ok(0)),
            (
                text("Audit"),
                Err("no output is named `Audit`; the outputs are default, audit, 7"),
            ),
            (
                list(&[text("audit"), text("")]),
                Err("no output is named ``; the outputs are default, audit, 7"),
            ),
        ] {
            let set = names.set_of(&value);
            assert_eq!(
                set.as_ref().map_err(|reason| &**reason),
                expected.as_ref().map_err(|it| *it),
                "{value:?}"
            );
        }
    }
}
