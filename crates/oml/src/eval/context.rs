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
        let found = self.field(key.name);
        match &key.path {
            Some(path) if found.is_none() => self.walk(path),
            _ => found,
        }
    }

    /// As [`Self::find`], passing over values without content.
    pub(crate) fn find_filled(&self, key: &Key) -> Option<&Value> {
        let filled = |value: &&Value| !value.is_empty();
        let found = self.result.value(key.name).filter(filled);
        let found = found.or_else(|| self.source.value(key.name).filter(filled));
        match &key.path {
            Some(path) if found.is_none() => self.walk(path).filter(filled),
            _ => found,
        }
    }

    #[inline]
    fn field(&self, name: Name) -> Option<&Value> {
        self.result.value(name).or_else(|| self.source.value(name))
    }

    fn walk(&self, path: &Path) -> Option<&Value> {
        let field = self.field(path.field)?;
        path.steps
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
