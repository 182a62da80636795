//! Evaluating an expression for one record.

use lookaside_value::{Field, Object, Text, Value};

use crate::ast::AccessMode;
use crate::eval::context::Context;
use crate::eval::plan::{
    Access, Calc, Case, Collect, Expr, Fmt, FmtPart, Match, Member, PipeStep, SOURCE_COUNT_INLINE,
};
use crate::functions::{Number, access_direct, since};

impl Expr {
    /// The value, if there is one.
    #[inline]
    pub(crate) fn eval(&self, context: &mut Context<'_, '_>) -> Option<Value> {
        match self {
            Self::Constant(value) => Some(value.clone()),
            Self::Access(access) => access.eval(context),
            Self::Match(choice) => choice.eval(context),
            Self::Fmt(fmt) => Some(fmt.eval(context)),
            Self::Pipe(source, steps) => {
                let value = source.eval(context)?;
                steps
                    .iter()
                    .try_fold(value, |value, step| step.eval(value, context))
            }
            Self::Object(members) => Some(object(members, context)),
            Self::Array(items) => array(items, context),
            Self::Collect(collect) => collect.eval(context),
            Self::Calc(calc) => Some(calc.eval(context).map_or(Value::Ignore, Value::from)),
            Self::Dictionary(lookup) => {
                let key = lookup.key.eval(context);
                match key.and_then(|key| lookup.dictionary.value(&key).cloned()) {
                    Some(value) => Some(value),
                    None => lookup.default.eval(context),
                }
            }
            Self::AccessDirect(ends) => {
                let [source, target] = &**ends;
                let source = source.eval(context);
                let target = target.eval(context);
                let intranet = context.world.intranet;
                Some(access_direct(source.as_ref(), target.as_ref(), intranet))
            }
            Self::Now(form) => Some(context.world.now(*form)),
        }
    }
}

impl PipeStep {
    #[inline]
    fn eval(&self, value: Value, context: &mut Context<'_, '_>) -> Option<Value> {
        match self {
            Self::Function(function) => {
                let world = &mut *context.world;
                let is_checked = function.reads_times() && !value.is_empty();
                let result = function.apply(value, world.intranet, &mut world.clock);
                let has_failed = is_checked && matches!(result, Some(Value::Ignore));
                world.time_failure_count += u64::from(has_failed);
                result
            }
            Self::Since(step) => {
                let start = step.start.eval(context);
                let result = since(&value, start.as_ref(), step.unit, &step.zone);
                let is_checked =
                    !value.is_empty() && start.as_ref().is_some_and(|it| !it.is_empty());
                let has_failed = is_checked && matches!(result, Value::Ignore);
                context.world.time_failure_count += u64::from(has_failed);
                Some(result)
            }
        }
    }
}

impl Access {
    #[inline]
    pub(crate) fn eval(&self, context: &mut Context<'_, '_>) -> Option<Value> {
        let found = match (&self.key, self.mode) {
            (Some(key), AccessMode::Read) => context.find(key).cloned(),
            (Some(key), AccessMode::Take) => context.take(key),
            (None, _) => None,
        };
        if !is_absent(found.as_ref()) || (self.options.is_empty() && self.default.is_none()) {
            return found;
        }
        // Without a replacement, an ignored value stays ignored, because `on_fail` checks for it.
        self.eval_others(context).or(found)
    }

    #[cold]
    fn eval_others(&self, context: &mut Context<'_, '_>) -> Option<Value> {
        for option in &self.options {
            let found = match self.mode {
                AccessMode::Read => context.find_filled(option).cloned(),
                AccessMode::Take => context.take_filled(option),
            };
            if found.is_some() {
                return found;
            }
        }
        self.default.as_ref()?.eval(context)
    }

    /// A reference to the value; only for an access that [borrows](Access::borrows).
    #[inline]
    pub(crate) fn borrow<'a>(&'a self, context: &'a Context<'_, '_>) -> Option<&'a Value> {
        debug_assert!(self.borrows, "decided when the model was bound");
        let found = self.key.as_ref().and_then(|key| context.find(key));
        if !is_absent(found) {
            return found;
        }
        let mut options = self.options.iter();
        let other = options.find_map(|option| context.find_filled(option));
        let other = other.or_else(|| match self.default.as_deref()? {
            Expr::Constant(value) => Some(value),
            Expr::Access(access) => access.borrow(context),
            _ => None,
        });
        other.or(found)
    }
}

/// Whether options and defaults apply: for an absent value, and for an ignored one, such as that of
/// a calculation without a result.
#[inline]
fn is_absent(found: Option<&Value>) -> bool {
    matches!(found, None | Some(Value::Ignore))
}

impl Match {
    fn eval(&self, context: &mut Context<'_, '_>) -> Option<Value> {
        let chosen = if self.borrows {
            self.choose_borrowed(context)
        } else if let [source] = &*self.sources {
            let value = source.eval(context);
            value.and_then(|value| self.choose(|_| &value))
        } else {
            // All are evaluated even if one is absent, because a `take` has an effect.
            let values: Vec<Option<Value>> = self
                .sources
                .iter()
                .map(|source| source.eval(context))
                .collect();
            let values: Option<Vec<Value>> = values.into_iter().collect();
            values.and_then(|values| self.choose(|source| &values[source]))
        };
        match chosen {
            Some(case) => case.result.eval(context),
            None => self.default.as_ref()?.eval(context),
        }
    }

    fn choose_borrowed(&self, context: &Context<'_, '_>) -> Option<&Case> {
        static NOTHING: Value = Value::Null;
        let mut values = [&NOTHING; SOURCE_COUNT_INLINE];
        for (value, source) in values.iter_mut().zip(&self.sources) {
            *value = source.borrow(context)?;
        }
        self.choose(|source| values[source])
    }

    /// The first case whose conditions hold for the sources' values.
    #[inline]
    fn choose<'v>(&self, value: impl Fn(usize) -> &'v Value) -> Option<&Case> {
        self.cases.iter().find(|case| {
            let mut conditions = case.conditions.iter().enumerate();
            conditions
                .all(|(source, any)| any.iter().any(|predicate| predicate.holds(value(source))))
        })
    }
}

impl Fmt {
    fn eval(&self, context: &mut Context<'_, '_>) -> Value {
        let mut out = std::mem::take(context.world.text);
        out.clear();
        let complete = if self.borrows {
            self.write(&mut out, |argument| {
                self.arguments[argument].borrow(context)
            })
            .is_some()
        } else {
            let values: Vec<Option<Value>> = self
                .arguments
                .iter()
                .map(|argument| argument.eval(context))
                .collect();
            self.write(&mut out, |argument| values[argument].as_ref())
                .is_some()
        };
        let text = if complete {
            Text::from(out.as_str())
        } else {
            Text::EMPTY
        };
        *context.world.text = out;
        Value::Text(text)
    }

    /// Writes the text, or stops at the first absent argument.
    fn write<'a>(
        &self,
        out: &mut String,
        argument: impl Fn(usize) -> Option<&'a Value>,
    ) -> Option<()> {
        for part in &self.parts {
            match part {
                FmtPart::Text(text) => out.push_str(text),
                FmtPart::Argument(index) => argument(*index)?.write_raw(out),
            }
        }
        Some(())
    }
}

/// Builds an object; members with an absent or ignored value are left out.
fn object(members: &[Member], context: &mut Context<'_, '_>) -> Value {
    let mut object = Object::new();
    for member in members {
        let value = member
            .value
            .eval(context)
            .map(|value| member.conversion.apply(value));
        if let Some(value) = value.filter(|value| !matches!(value, Value::Ignore)) {
            object.insert(member.name.clone(), value);
        }
    }
    Value::from(object)
}

/// Builds an array; absent, null and ignored items are left out; without any item there is no
/// array.
fn array(items: &[Expr], context: &mut Context<'_, '_>) -> Option<Value> {
    let values = items.iter().filter_map(|item| item.eval(context));
    let values: Vec<Value> = values
        .filter(|value| !matches!(value, Value::Null | Value::Ignore))
        .collect();
    (!values.is_empty()).then(|| Value::from(values))
}

impl Collect {
    /// Ignored fields are skipped.
    fn eval(&self, context: &mut Context<'_, '_>) -> Option<Value> {
        let mut values: Vec<Value> = Vec::new();
        let Context {
            source,
            result,
            world,
        } = context;
        for pattern in &self.patterns {
            let mut picks = |field: &&Field| {
                !matches!(field.value, Value::Ignore) && world.matches(pattern, field.name)
            };
            let value = |field: &Field| field.value.clone();
            match self.mode {
                AccessMode::Read => {
                    let mut fields = result.iter().chain(source.iter());
                    values.extend(fields.find(&mut picks).map(value));
                }
                AccessMode::Take => {
                    let fields = source.iter().chain(result.iter());
                    values.extend(fields.filter(&mut picks).map(value));
                }
            }
        }
        if values.is_empty() {
            return self.default.as_ref()?.eval(context);
        }
        Some(Value::from(values))
    }
}

impl Calc {
    fn eval(&self, context: &mut Context<'_, '_>) -> Option<Number> {
        match self {
            Self::Constant(value) => Number::from_value(value),
            Self::Access(access) if access.borrows => Number::from_value(access.borrow(context)?),
            Self::Access(access) => Number::from_value(&access.eval(context)?),
            Self::Negate(operand) => operand.eval(context)?.negate(),
            Self::Binary(operator, left, right) => {
                // Both sides are evaluated even if one has no number, because a `take` has an
                // effect.
                let left = left.eval(context);
                let right = right.eval(context);
                operator.apply(left?, right?)
            }
            Self::Call(function, operand) => function.apply(operand.eval(context)?),
        }
    }
}
