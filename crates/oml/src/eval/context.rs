//! The context of an expression while it is evaluated: one record, its result so far, and the state
//! of the run.

use lookaside_value::{Name, Names, Record, Time, Value};

use crate::ast::Now;
use crate::eval::plan::{Key, Path, Pattern, Step};
use crate::functions::{Clock, Intranet};
use crate::lexer::METADATA;

/// One record that is being evaluated.
pub(crate) struct Context<'r, 'w> {
    pub(crate) source: &'r mut Record,
    pub(crate) result: &'r Record,
    pub(crate) world: &'r mut World<'w>,
}

/// The state that all records of a run share.
pub(crate) struct World<'w> {
    pub(crate) names: &'w Names,
    pub(crate) intranet: &'w Intranet,
    pub(crate) clock: Clock<'w>,
    pub(crate) memos: &'w mut [PatternMemo],
    /// Which names are metadata of messages, if the model mentions any.
    pub(crate) metadata: Option<&'w mut PatternMemo>,
    /// A buffer for text before it becomes a value.
    pub(crate) text: &'w mut String,
    /// Values that functions of times could not use.
    pub(crate) time_failure_count: u64,
}

impl World<'_> {
    /// Whether a field is metadata of a message.
    #[inline]
    pub(crate) fn is_metadata(&mut self, name: Name) -> bool {
        match &mut self.metadata {
            None => false,
            Some(memo) => memo.matches(name, self.names, |text| text.starts_with(METADATA)),
        }
    }

    /// The current time, in the requested form.
    pub(crate) fn now(&mut self, form: Now) -> Value {
        let now = self.clock.now();
        let date = i64::from(now.year()) * 10_000 + i64::from(now.month()) * 100;
        let date = date + i64::from(now.day());
        match form {
            Now::Time => Value::Time(Time::from_civil(now)),
            Now::Date => Value::Int(date),
            Now::Hour => Value::Int(date * 100 + i64::from(now.hour())),
        }
    }
}

impl Context<'_, '_> {
    /// The field with this name: in the result, in the source, or within an object whose name is
    /// the first part of the path.
    #[inline]
    pub(crate) fn find(&self, key: &Key) -> Option<&Value> {
        let found = self.result.value(key.name);
        let found = found.or_else(|| self.source.value(key.name));
        match &key.path {
            Some(path) if found.is_none() => {
                let found = path.walk(self.result);
                found.or_else(|| path.walk(self.source))
            }
            _ => found,
        }
    }

    /// As [`Self::find`], but skips empty values.
    pub(crate) fn find_filled(&self, key: &Key) -> Option<&Value> {
        let found = filled(self.result.value(key.name));
        let found = found.or_else(|| filled(self.source.value(key.name)));
        found.or_else(|| self.walk_filled(key))
    }

    /// The non-empty value within an object that the name as a path refers to.
    fn walk_filled(&self, key: &Key) -> Option<&Value> {
        let path = key.path.as_ref()?;
        let found = filled(path.walk(self.result));
        found.or_else(|| filled(path.walk(self.source)))
    }

    /// Removes the field from the source. A value within an object is copied instead, so that the
    /// object stays complete.
    #[inline]
    pub(crate) fn take(&mut self, key: &Key) -> Option<Value> {
        let found = self.source.take(key.name);
        match &key.path {
            Some(path) if found.is_none() => path.walk(self.source).cloned(),
            _ => found,
        }
    }

    /// As [`Self::take`], but also looks in the result and skips empty values.
    ///
    /// Results are only appended to, so a field that is taken from the result also stays there.
    pub(crate) fn take_filled(&mut self, key: &Key) -> Option<Value> {
        if let Some(value) = filled(self.result.value(key.name)) {
            return Some(value.clone());
        }
        if filled(self.source.value(key.name)).is_some() {
            return self.source.take(key.name);
        }
        self.walk_filled(key).cloned()
    }
}

fn filled(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_empty())
}

impl Path {
    fn walk<'r>(&self, record: &'r Record) -> Option<&'r Value> {
        let field = record.value(self.field)?;
        self.steps
            .iter()
            .try_fold(field, |value, step| match (step, value) {
                (Step::Member(name), Value::Object(object)) => object.member(name),
                (Step::Element(index), Value::Array(elements)) => elements.get(*index),
                _ => None,
            })
    }
}

/// The names that match a pattern, computed once per name and batch.
#[derive(Debug, Default)]
pub(crate) struct PatternMemo {
    verdicts: Vec<Verdict>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Verdict {
    #[default]
    Unknown,
    Matches,
    Differs,
}

impl PatternMemo {
    /// Removes all entries, because another batch has other names.
    pub(crate) fn clear(&mut self) {
        self.verdicts.clear();
    }

    /// The cached result of `test` for the name's text.
    #[inline]
    pub(crate) fn matches(
        &mut self,
        name: Name,
        names: &Names,
        test: impl FnOnce(&str) -> bool,
    ) -> bool {
        if self.verdicts.is_empty() {
            self.verdicts.resize(names.len(), Verdict::Unknown);
        }
        let verdict = &mut self.verdicts[name.index()];
        if *verdict == Verdict::Unknown {
            *verdict = if test(names.text(name)) {
                Verdict::Matches
            } else {
                Verdict::Differs
            };
        }
        *verdict == Verdict::Matches
    }
}

impl World<'_> {
    /// Whether a field's name, without surrounding blanks, matches a pattern.
    #[inline]
    pub(crate) fn matches(&mut self, pattern: &Pattern, name: Name) -> bool {
        let wildcard = &pattern.wildcard;
        self.memos[pattern.memo].matches(name, self.names, |text| wildcard.matches(text.trim()))
    }
}
