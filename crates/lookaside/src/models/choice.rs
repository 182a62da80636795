//! Several models in one run: the rule key of each event selects its model.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use lookaside_oml::{Model, Wildcard};
use lookaside_stream::Report;
use lookaside_value::{Batch, Name, NameTable, Names, Record, Value};

use super::routes::Routes;

/// The most keys whose models are remembered, and the most bytes of one: keys are input, which may
/// be anything.
const KEY_COUNT_MAX: usize = 1024;
const KEY_SIZE_MAX: usize = 256;

/// The length at which a key is truncated in a message.
const KEY_SHOWN_MAX: usize = 64;

/// How events select their models; shared by all workers.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The field with the rule key, as it is set.
    key: Box<str>,
    whole: Name,
    /// The field that begins the path, and the members in it, if the text is a path.
    path: Option<(Name, Box<[Box<str>]>)>,
    /// The rules of each model.
    rules: Box<[Box<[Wildcard]>]>,
    /// What happens to events without a model.
    routes: Arc<Routes>,
}

impl Choice {
    /// Interns the field with the rule key.
    pub(crate) fn new<'m>(
        key: &str,
        models: impl Iterator<Item = &'m Model>,
        routes: Arc<Routes>,
        names: &mut NameTable,
    ) -> Self {
        let path = key.split_once('/').map(|(field, members)| {
            let members = members.split('/').map(Box::from);
            (names.intern(field), members.collect())
        });
        Self {
            key: key.into(),
            whole: names.intern(key),
            path,
            rules: models.map(|model| model.rules().into()).collect(),
            routes,
        }
    }

    /// The rule key of an event. As in models, a field whose name is the whole path comes first.
    fn key_of<'r>(&self, record: &'r Record) -> Option<Cow<'r, str>> {
        let value = record.value(self.whole).or_else(|| {
            let (field, members) = self.path.as_ref()?;
            let field = record.value(*field)?;
            members.iter().try_fold(field, |value, member| match value {
                Value::Object(object) => object.member(member),
                _ => None,
            })
        });
        match value? {
            Value::Text(text) => Some(Cow::Borrowed(text)),
            Value::Symbol(text) => Some(Cow::Borrowed(text)),
            Value::Null | Value::Ignore => None,
            other => {
                let mut text = String::new();
                other.write_raw(&mut text);
                Some(Cow::Owned(text))
            }
        }
    }

    /// The first model that has a rule for the key.
    fn model_for(&self, key: &str) -> Option<usize> {
        let has_rule = |rules: &[Wildcard]| rules.iter().any(|rule| rule.matches(key));
        self.rules.iter().position(|rules| has_rule(rules))
    }
}

/// Selects the models of events; each worker has its own.
#[derive(Debug)]
pub(crate) struct Chooser {
    choice: Arc<Choice>,
    known: HashMap<Box<str>, Option<usize>>,
    /// The model of each record of the batch.
    chosen: Vec<Option<usize>>,
}

/// The records of a batch for one model.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) sources: Vec<Record>,
    /// The positions of the sources in the batch.
    pub(super) places: Vec<usize>,
}

/// A batch without its records: they are in the parts of their models.
pub(super) struct Divided {
    /// By the models' order.
    pub(super) parts: Vec<Part>,
    /// For each record of the batch, its result; those without a model are in place already.
    pub(super) results: Vec<Option<Record>>,
}

impl Chooser {
    pub(crate) fn new(choice: Arc<Choice>) -> Self {
        Self {
            choice,
            known: HashMap::new(),
            chosen: Vec::new(),
        }
    }

    /// Selects the model of each record; returns it if all have the same one.
    pub(super) fn choose(&mut self, batch: &Batch) -> Option<usize> {
        self.chosen.clear();
        for record in batch.records() {
            let key = self.choice.key_of(record);
            let model = key.and_then(|key| self.model_for(&key));
            self.chosen.push(model);
        }
        let first = *self.chosen.first()?;
        let is_same = self.chosen.iter().all(|model| *model == first);
        first.filter(|_| is_same)
    }

    fn model_for(&mut self, key: &str) -> Option<usize> {
        if let Some(model) = self.known.get(key) {
            return *model;
        }
        let model = self.choice.model_for(key);
        if key.len() <= KEY_SIZE_MAX {
            if self.known.len() == KEY_COUNT_MAX {
                self.known.clear();
            }
            self.known.insert(key.into(), model);
        }
        model
    }

    /// Moves the records to the parts of the models that [`Self::choose`] has selected, and handles
    /// those without one.
    pub(super) fn divide(&mut self, batch: &mut Batch, report: &mut Report) -> Divided {
        let mut records = Vec::with_capacity(batch.len());
        batch.move_records(&mut records);
        let mut parts: Vec<Part> = Vec::new();
        parts.resize_with(self.choice.rules.len(), Part::default);
        let mut results = Vec::with_capacity(records.len());
        for (place, (record, chosen)) in records.into_iter().zip(&self.chosen).enumerate() {
            match chosen {
                Some(model) => {
                    parts[*model].sources.push(record);
                    parts[*model].places.push(place);
                    results.push(None);
                }
                None => results.push(self.without_model(record, batch.names(), report)),
            }
        }
        Divided { parts, results }
    }

    /// What is written of an event without a model.
    fn without_model(&self, record: Record, names: &Names, report: &mut Report) -> Option<Record> {
        let Choice { key, routes, .. } = &*self.choice;
        let line = record.line;
        let reason = match self.choice.key_of(&record) {
            None => format!("the event has no field `{key}`, which selects its model"),
            Some(found) => {
                let shown: String = found.chars().take(KEY_SHOWN_MAX).collect();
                format!("no model has a rule for `{shown}`, the `{key}` of the event")
            }
        };
        let kept = routes.keep_without_model(record, names);
        if kept.is_none() {
            report.reject(line, reason);
        }
        kept
    }
}
