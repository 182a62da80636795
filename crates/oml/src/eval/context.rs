//! What an expression sees while it is evaluated: one record, its result so far, and the world.

use jiff::civil::DateTime;
use lookaside_value::{Name, Names, Record, Time, Value};

use crate::ast::Now;
use crate::eval::plan::{Key, Path, Pattern, Step};
use crate::functions::Intranet;

/// One record on its way.
pub(crate) struct Context<'r, 'w> {
    pub(crate) source: &'r mut Record,
    pub(crate) result: &'r Record,
    pub(crate) world: &'r mut World<'w>,
}

/// What all records of a run share.
pub(crate) struct World<'w> {
    pub(crate) names: &'w Names,
    pub(crate) intranet: &'w Intranet,
    pub(crate) clock: &'w (dyn Fn() -> DateTime + Send + Sync),
    /// Read once a run, so that all records of a batch carry one time.
    pub(crate) now: Option<DateTime>,
    pub(crate) memos: &'w mut [PatternMemo],
    /// Room in which text grows before it becomes a value.
    pub(crate) text: &'w mut String,
}

impl World<'_> {
    /// What the clock says, in the form that is asked for.
    pub(crate) fn now(&mut self, form: Now) -> Value {
        let now = *self.now.get_or_insert_with(self.clock);
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
    /// The field of that name: of the result, of the source, or inside an object that the first
    /// part of the name is the name of.
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

    /// As [`Self::find`], passing over values without content.
    pub(crate) fn find_filled(&self, key: &Key) -> Option<&Value> {
        let found = filled(self.result.value(key.name));
        let found = found.or_else(|| filled(self.source.value(key.name)));
        found.or_else(|| self.walk_filled(key))
    }

    /// The value with content that the name leads to inside an object.
    fn walk_filled(&self, key: &Key) -> Option<&Value> {
        let path = key.path.as_ref()?;
        let found = filled(path.walk(self.result));
        found.or_else(|| filled(path.walk(self.source)))
    }

    /// Removes the field from the source. What the name leads to inside an object is copied, for
    /// the object stays whole.
    #[inline]
    pub(crate) fn take(&mut self, key: &Key) -> Option<Value> {
        let found = self.source.take(key.name);
        match &key.path {
            Some(path) if found.is_none() => path.walk(self.source).cloned(),
            _ => found,
        }
    }

    /// As [`Self::take`], also looking in the result and passing over values without content.
    ///
    /// Results are only appended to, so what is taken from them stays as well.
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

/// Which names match a pattern, worked out once a name and batch.
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
    /// Forgets everything: another batch brings other names.
    pub(crate) fn clear(&mut self) {
        self.verdicts.clear();
    }

    /// What `test` says of the name's text, remembered.
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
    /// Whether a field's name, without the blanks around it, matches a pattern.
    #[inline]
    pub(crate) fn matches(&mut self, pattern: &Pattern, name: Name) -> bool {
        let wildcard = &pattern.wildcard;
        self.memos[pattern.memo].matches(name, self.names, |text| wildcard.matches(text.trim()))
    }
}
