//! Binding: from the syntax tree of a model to a plan with interned names and prepared SQL.

use jiff::tz::TimeZone;
use lookaside_value::{
    Lookup as Database, LookupErrorKind, Name, NameTable, Record, StatementId, Text, Type, Value,
};

use crate::ast::{self, ExprKind, PipeFunction, StatementKind, TypeWord};
use crate::diagnostic::Diagnostic;
use crate::eval::Options;
use crate::eval::context::{Context, World};
use crate::eval::depth::{DEPTH_MAX, Depths};
use crate::eval::plan::{
    Access, BoundTarget, Calc, Case, Collect, DictionaryLookup, Expr, Fmt, FmtPart, Key, Lookup,
    LookupResults, Match, Member, Path, Pattern, Pick, PipeStep, SOURCE_COUNT_INLINE, Since,
    Statement, Step, Test,
};
use crate::functions::{Clock, Conversion, Dictionary, Function, Predicate, lower_case};
use crate::lexer::METADATA;
use crate::parse::lost_semicolon;
use crate::{Model, Wildcard};

/// Prefix of the names of temporaries.
pub(crate) const TEMPORARY: &str = "__";

/// The result of binding.
pub(crate) struct Bound {
    pub(crate) statements: Vec<Statement>,
    /// The number of patterns for which an evaluator caches results.
    pub(crate) memo_count: usize,
    /// Whether a result can contain fields whose names begin with [`TEMPORARY`].
    pub(crate) temporaries: bool,
    /// Whether the model mentions metadata of messages.
    pub(crate) has_metadata: bool,
}

/// Binds a model, or returns all errors.
pub(crate) fn bind(
    model: &Model,
    names: &mut NameTable,
    database: &mut dyn Database,
    options: &Options,
) -> Result<Bound, Vec<Diagnostic>> {
    let program = model.program();
    let mut binder = Binder::new(names, options);
    for constant in &program.statics {
        binder.constant(constant);
    }
    let mut statements = Vec::with_capacity(program.statements.len());
    for statement in &program.statements {
        let bound = match &statement.kind {
            StatementKind::Assign { target, value } => binder.assignment(target, value),
            StatementKind::Move { pattern, type_word } => {
                // Input fields may be named like a temporary.
                binder.temporaries = true;
                Statement::Move(binder.pick(pattern, *type_word))
            }
            StatementKind::Lookup { targets, sql } => {
                let position = model.position(statement.span);
                match binder.lookup(targets, sql, database, position, model) {
                    Some(lookup) => Statement::Lookup(lookup),
                    None => continue,
                }
            }
            StatementKind::Drop { test } => Statement::Drop(binder.test(test)),
        };
        statements.push(bound);
    }
    if !binder.faults.is_empty() {
        return Err(binder.faults);
    }
    Ok(Bound {
        statements,
        memo_count: binder.memo_count,
        temporaries: binder.temporaries,
        has_metadata: (binder.names.iter()).any(|(_, text)| text.starts_with(METADATA)),
    })
}

/// Binds a test without constants, such as that of a condition.
pub(crate) fn bind_test(test: &ast::Test, names: &mut NameTable, options: &Options) -> Test {
    Binder::new(names, options).test(test)
}

struct Binder<'a> {
    names: &'a mut NameTable,
    options: &'a Options,
    statics: Vec<Value>,
    memo_count: usize,
    temporaries: bool,
    depths: Depths,
    faults: Vec<Diagnostic>,
}

impl<'a> Binder<'a> {
    fn new(names: &'a mut NameTable, options: &'a Options) -> Self {
        Self {
            names,
            options,
            statics: Vec::new(),
            memo_count: 0,
            temporaries: false,
            depths: Depths::default(),
            faults: Vec::new(),
        }
    }

    /// Evaluates a constant, once for all records.
    fn constant(&mut self, constant: &ast::Static) {
        let expr = self.expr(&constant.value);
        let table = NameTable::new();
        let mut world = World {
            names: &lookaside_value::Names::new(table.into()),
            intranet: &self.options.intranet,
            clock: Clock::new(&*self.options.clock),
            memos: &mut [],
            metadata: None,
            text: &mut String::new(),
            time_failure_count: 0,
        };
        let value = expr.eval(&mut Context {
            source: &mut Record::new(),
            result: &Record::new(),
            world: &mut world,
        });
        if matches!(value, None | Some(Value::Ignore)) {
            let message = format!("the constant `{}` has no value", constant.name);
            let fault = Diagnostic::error(constant.value.span, message)
                .help("a division by zero or an overflow has no result");
            self.faults.push(*fault);
        }
        self.statics.push(value.unwrap_or_default());
    }

    fn constant_value(&self, id: ast::StaticId) -> Value {
        self.statics[id.0 as usize].clone()
    }

    fn assignment(&mut self, target: &ast::Target, value: &ast::Expr) -> Statement {
        let span = value.span;
        let (target, value) = (self.target(target), self.expr(value));
        let depth = self.depths.of(&value, self.names);
        if depth <= DEPTH_MAX {
            self.depths.note(target.name, depth);
        } else {
            let message = format!("objects and arrays nest at most {DEPTH_MAX} deep");
            let help = "each preceding statement nests the previous one in another object or array";
            let fault = Diagnostic::error(span, message).help(help);
            self.faults.push(*fault);
        }
        Statement::Assign { target, value }
    }

    fn target(&mut self, target: &ast::Target) -> BoundTarget {
        self.named_target(&target.name, target.type_word)
    }

    fn named_target(&mut self, name: &str, type_word: TypeWord) -> BoundTarget {
        self.temporaries |= name.starts_with(TEMPORARY);
        BoundTarget {
            name: self.names.intern(name),
            conversion: conversion(type_word),
        }
    }

    fn pick(&mut self, wildcard: &Wildcard, type_word: TypeWord) -> Pick {
        let value_type = match type_word {
            TypeWord::Auto if wildcard.is_any() => return Pick::All,
            TypeWord::Auto => return Pick::Named(self.pattern(wildcard)),
            TypeWord::Ignore => Type::Ignore,
            TypeWord::Bool => Type::Bool,
            TypeWord::Chars => Type::Text,
            TypeWord::Symbol => Type::Symbol,
            TypeWord::Digit => Type::Int,
            TypeWord::Bigint => Type::Decimal,
            TypeWord::Float => Type::Float,
            TypeWord::Time => Type::Time,
            TypeWord::Ip => Type::Ip,
            TypeWord::IpNet => Type::Net,
            TypeWord::Obj => Type::Object,
            TypeWord::Array => Type::Array,
            TypeWord::Json | TypeWord::Other(_) => return Pick::Nothing,
        };
        Pick::Typed(value_type)
    }

    fn pattern(&mut self, wildcard: &Wildcard) -> Pattern {
        self.memo_count += 1;
        Pattern {
            wildcard: wildcard.clone(),
            memo: self.memo_count - 1,
        }
    }

    fn lookup(
        &mut self,
        targets: &[ast::Target],
        sql: &ast::Sql,
        database: &mut dyn Database,
        position: (usize, usize),
        model: &Model,
    ) -> Option<Lookup> {
        let params = sql
            .params
            .iter()
            .map(|param| self.expr(&param.value))
            .collect();
        let param_names: Vec<Text> = sql.params.iter().map(|param| param.name.clone()).collect();
        let statement = match database.prepare(&sql.text, &param_names) {
            Ok(statement) => statement,
            Err(error) => {
                let is_refused = error.kind() != LookupErrorKind::Unavailable;
                let what = match is_refused {
                    true => "this lookup is refused",
                    false => "this lookup cannot be prepared now",
                };
                let message = format!("{what}: {error}");
                let mut fault = Diagnostic::error(sql.span, message).label("this statement");
                let help = lost_semicolon(model.text(), sql.span).filter(|_| is_refused);
                if let Some(help) = help {
                    fault = fault.help(help);
                }
                self.faults.push(*fault);
                return None;
            }
        };
        let results = match sql.rows_max {
            None => LookupResults::First(self.targets_of_columns(targets, database, statement)),
            Some(rows_max) => {
                if let Some(fault) = repeated_column(database.columns(statement), sql.span) {
                    self.faults.push(*fault);
                    return None;
                }
                let target = self.named_target(&targets[0].name, TypeWord::Auto).name;
                // An array of objects.
                self.depths.note(target, 2);
                LookupResults::All { target, rows_max }
            }
        };
        Some(Lookup {
            statement,
            results,
            params,
            contract: model.contract_of(sql),
            on_failure: model
                .on_failure_of(sql)
                .unwrap_or(self.options.on_lookup_failure),
            position,
        })
    }

    /// The targets of the columns of one row.
    fn targets_of_columns(
        &mut self,
        targets: &[ast::Target],
        database: &dyn Database,
        statement: StatementId,
    ) -> Vec<BoundTarget> {
        // Targets beyond the last column stay absent, and columns beyond the last target are
        // dropped.
        let columns = database.columns(statement).iter();
        let targets = targets.iter().zip(columns).map(|(target, column)| {
            let name = if target.is_placeholder() {
                column
            } else {
                &target.name
            };
            let mut bound = self.named_target(name, target.type_word);
            bound.conversion = column_conversion(target.type_word);
            bound
        });
        targets.collect()
    }

    fn expr(&mut self, expr: &ast::Expr) -> Expr {
        match &expr.kind {
            ExprKind::Access(access) => Expr::Access(self.access(access)),
            ExprKind::Literal(value) => Expr::Constant(value.clone()),
            ExprKind::Now(form) => Expr::Now(*form),
            ExprKind::Static(id) => Expr::Constant(self.constant_value(*id)),
            ExprKind::Pipe(pipe) => {
                let steps = pipe.steps.iter().map(|step| self.pipe_step(&step.function));
                let steps = steps.collect();
                Expr::Pipe(Box::new(self.expr(&pipe.source)), steps)
            }
            ExprKind::Match(choice) => Expr::Match(Box::new(self.choice(choice))),
            ExprKind::Object(members) => {
                let members = members.iter().map(|member| Member {
                    name: member.target.name.clone(),
                    conversion: conversion(member.target.type_word),
                    value: self.expr(&member.value),
                });
                Expr::Object(members.collect())
            }
            ExprKind::Array(items) => Expr::Array(self.exprs(items)),
            ExprKind::Collect(collect) => Expr::Collect(Box::new(Collect {
                mode: collect.mode,
                patterns: collect
                    .patterns
                    .iter()
                    .map(|pattern| self.pattern(pattern))
                    .collect(),
                default: collect.default.as_ref().map(|default| self.expr(default)),
            })),
            ExprKind::Fmt(fmt) => Expr::Fmt(Box::new(self.fmt(fmt))),
            ExprKind::Calc(calc) => Expr::Calc(Box::new(self.calc(&calc.root))),
            ExprKind::LookupNocase(lookup) => {
                let dictionary = match &self.statics[lookup.dictionary.0 as usize] {
                    Value::Object(object) => Dictionary::new(object),
                    _ => Dictionary::default(),
                };
                Expr::Dictionary(Box::new(DictionaryLookup {
                    dictionary,
                    key: self.expr(&lookup.key),
                    default: self.expr(&lookup.default),
                }))
            }
            ExprKind::AccessDirect(ends) => {
                let source = self.expr(&ends.source);
                let destination = self.expr(&ends.destination);
                Expr::AccessDirect(Box::new([source, destination]))
            }
        }
    }

    fn exprs(&mut self, exprs: &[ast::Expr]) -> Box<[Expr]> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    fn access(&mut self, access: &ast::Access) -> Access {
        let default = access
            .default
            .as_ref()
            .map(|default| Box::new(self.expr(default)));
        let default_borrows = match default.as_deref() {
            None | Some(Expr::Constant(_)) => true,
            Some(Expr::Access(access)) => access.borrows,
            Some(_) => false,
        };
        Access {
            mode: access.mode,
            key: (!access.key.is_empty()).then(|| self.key(&access.key)),
            options: access
                .options
                .iter()
                .map(|option| self.key(option))
                .collect(),
            borrows: access.mode == ast::AccessMode::Read && default_borrows,
            default,
        }
    }

    fn accesses(&mut self, accesses: &[ast::Access]) -> Box<[Access]> {
        accesses.iter().map(|access| self.access(access)).collect()
    }

    fn key(&mut self, key: &str) -> Key {
        let path = path(key).map(|(field, steps)| Path {
            field: self.names.intern(field),
            steps,
        });
        Key {
            name: self.name(key),
            path: path.map(Box::new),
        }
    }

    fn name(&mut self, text: &str) -> Name {
        self.names.intern(text)
    }

    fn choice(&mut self, choice: &ast::Match) -> Match {
        let sources = self.accesses(&choice.sources);
        let cases = choice.cases.iter().map(|case| {
            let conditions = case.conditions.iter();
            let conditions = conditions.map(|condition| self.predicates(condition));
            Case {
                conditions: conditions.collect(),
                result: self.expr(&case.result),
            }
        });
        let cases = cases.collect();
        Match {
            borrows: sources.len() <= SOURCE_COUNT_INLINE && all_borrow(&sources),
            sources,
            cases,
            default: choice.default.as_ref().map(|default| self.expr(default)),
        }
    }

    fn test(&mut self, test: &ast::Test) -> Test {
        match test {
            ast::Test::Field { source, condition } => {
                let source = self.access(source);
                Test::Field(source, self.predicates(condition))
            }
            ast::Test::All(tests) => Test::All(tests.iter().map(|it| self.test(it)).collect()),
            ast::Test::Any(tests) => Test::Any(tests.iter().map(|it| self.test(it)).collect()),
            ast::Test::Not(test) => Test::Not(Box::new(self.test(test))),
        }
    }

    fn predicates(&self, condition: &ast::Condition) -> Box<[Predicate]> {
        let atoms = condition.any.iter();
        atoms.map(|atom| self.predicate(atom)).collect()
    }

    fn operand(&self, operand: &ast::Operand) -> Value {
        match operand {
            ast::Operand::Literal(value) => value.clone(),
            ast::Operand::Static(id) => self.constant_value(*id),
        }
    }

    fn predicate(&self, atom: &ast::Atom) -> Predicate {
        use crate::ast::MatchFunction as Test;

        match atom {
            ast::Atom::Equals(operand) => Predicate::Equal(self.operand(operand)),
            ast::Atom::Differs(operand) => Predicate::NotEqual(self.operand(operand)),
            ast::Atom::Within(low, high) => {
                Predicate::Between(self.operand(low), self.operand(high))
            }
            ast::Atom::Function(function) => match function {
                Test::StartsWith(text) => Predicate::StartsWith(text.as_str().into()),
                Test::EndsWith(text) => Predicate::EndsWith(text.as_str().into()),
                Test::Contains(text) => Predicate::Contains(text.as_str().into()),
                Test::Iequals(text) => Predicate::EqualsIgnoreCase([lower_case(text)].into()),
                Test::IequalsAny(texts) => {
                    let texts = texts.iter().map(|text| lower_case(text));
                    Predicate::EqualsIgnoreCase(texts.collect())
                }
                Test::RegexMatch(regex) => Predicate::Regex(regex.clone()),
                Test::IsEmpty => Predicate::Empty,
                Test::Gt(number) => Predicate::Greater(*number),
                Test::Lt(number) => Predicate::Less(*number),
                Test::Eq(number) => Predicate::Near(*number),
                Test::InRange(low, high) => Predicate::InRange(*low, *high),
            },
        }
    }

    fn fmt(&mut self, fmt: &ast::Fmt) -> Fmt {
        let arguments = self.accesses(&fmt.arguments);
        let parts = fmt.parts.iter().map(|part| match part {
            ast::FmtPart::Text(text) => FmtPart::Text(text.clone()),
            ast::FmtPart::Argument(index) => FmtPart::Argument(*index),
        });
        Fmt {
            parts: parts.collect(),
            borrows: all_borrow(&arguments),
            arguments,
        }
    }

    fn calc(&mut self, calc: &ast::CalcExpr) -> Calc {
        use crate::ast::CalcExpr;

        match calc {
            CalcExpr::Number(value) => Calc::Constant(value.clone()),
            CalcExpr::Static(id) => Calc::Constant(self.constant_value(*id)),
            CalcExpr::Access(access) => Calc::Access(self.access(access)),
            CalcExpr::Negate(operand) => Calc::Negate(Box::new(self.calc(operand))),
            CalcExpr::Binary(operator, left, right) => {
                let left = Box::new(self.calc(left));
                Calc::Binary(*operator, left, Box::new(self.calc(right)))
            }
            CalcExpr::Call(function, operand) => {
                Calc::Call(*function, Box::new(self.calc(operand)))
            }
        }
    }

    fn pipe_step(&mut self, function: &PipeFunction) -> PipeStep {
        let zone_or_default = |zone: &Option<TimeZone>| {
            let zone = zone.as_ref().unwrap_or(&self.options.timezone);
            zone.clone()
        };
        PipeStep::Function(match function {
            PipeFunction::TimeSince { start, unit } => {
                return PipeStep::Since(Box::new(Since {
                    start: self.expr(start),
                    unit: *unit,
                    zone: self.options.timezone.clone(),
                }));
            }
            PipeFunction::TimeParse { reader, zone } => {
                Function::ParseTime(reader.clone(), zone_or_default(zone))
            }
            PipeFunction::TimeFormat { writer, zone } => {
                let own_zone = self.options.timezone.clone();
                Function::FormatTime(writer.clone(), zone_or_default(zone), own_zone)
            }
            PipeFunction::TimeTruncate(unit) => Function::TruncateTime(*unit),
            PipeFunction::Nth(index) => Function::Nth(*index),
            PipeFunction::Get(path) => {
                let names = path.split('/').filter(|name| !name.is_empty());
                Function::Member(names.map(Box::from).collect())
            }
            PipeFunction::StartsWith(prefix) => Function::StartsWith(prefix.as_str().into()),
            PipeFunction::MapTo(value) => Function::MapTo(value.clone()),
            PipeFunction::OnFail(text) => Function::OnFail(Value::Text(text.clone())),
            PipeFunction::Base64Encode => Function::Base64Encode,
            PipeFunction::Base64Decode(charset) => Function::Base64Decode(*charset),
            PipeFunction::HtmlEscape => Function::HtmlEscape,
            PipeFunction::HtmlUnescape => Function::HtmlUnescape,
            PipeFunction::StrEscape => Function::StrEscape,
            PipeFunction::JsonEscape => Function::JsonEscape,
            PipeFunction::JsonUnescape => Function::JsonUnescape,
            PipeFunction::TimeToTs {
                unit,
                offset_minutes,
            } => match offset_minutes {
                Some(minutes) => Function::ToTimestampAt(*unit, *minutes),
                None => Function::ToTimestamp(*unit, self.options.timezone.clone()),
            },
            PipeFunction::TimeFromTs {
                unit,
                offset_minutes,
            } => {
                let offset = offset_minutes.and_then(|minutes| {
                    jiff::tz::Offset::from_seconds(i32::from(minutes) * 60).ok()
                });
                let zone = match offset {
                    Some(offset) => offset.to_time_zone(),
                    None => self.options.timezone.clone(),
                };
                Function::FromTimestamp(*unit, zone)
            }
            PipeFunction::ToJson => Function::ToJson,
            PipeFunction::ToStr => Function::ToStr,
            PipeFunction::SkipEmpty => Function::SkipEmpty,
            PipeFunction::Path(part) => Function::Path(*part),
            PipeFunction::Url(part) => Function::Url(*part),
            PipeFunction::Ip4ToInt => Function::Ip4ToInt,
            PipeFunction::IpToBiguint => Function::IpToBiguint,
            PipeFunction::IntranetIp => Function::IntranetIp,
        })
    }
}

/// An error if two columns have the same name, as members of an object cannot.
fn repeated_column(columns: &[Text], place: ast::Span) -> Option<Box<Diagnostic>> {
    let is_repeated = |index: &usize| columns[..*index].contains(&columns[*index]);
    let index = (1..columns.len()).find(is_repeated)?;
    let message = format!("two columns have the name `{}`", columns[index]);
    let help = "`select_all` makes an object of each row; name one of the columns by `as`";
    Some(
        Diagnostic::error(place, message)
            .label("this statement")
            .help(help),
    )
}

fn all_borrow(accesses: &[Access]) -> bool {
    accesses.iter().all(|access| access.borrows)
}

fn conversion(type_word: TypeWord) -> Conversion {
    match type_word {
        TypeWord::Chars => Conversion::Text,
        TypeWord::Bool => Conversion::Bool,
        TypeWord::Digit => Conversion::Int,
        TypeWord::Float => Conversion::Float,
        TypeWord::Ip => Conversion::Ip,
        _ => Conversion::Keep,
    }
}

/// The conversion of a column: databases have JSON, but no arrays and objects, which other texts are
/// not converted to.
fn column_conversion(type_word: TypeWord) -> Conversion {
    match type_word {
        TypeWord::Obj => Conversion::Object,
        TypeWord::Array => Conversion::Array,
        TypeWord::Json => Conversion::Json,
        other => conversion(other),
    }
}

/// Parses a key as a path into a field: `a/b`, `a[0]`, `a[0]/b`. `None` if it is not a path.
fn path(key: &str) -> Option<(&str, Box<[Step]>)> {
    let end = key.find(['/', '['])?;
    let (field, mut rest) = key.split_at(end);
    if field.is_empty() {
        return None;
    }
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(member) = rest.strip_prefix('/') {
            let end = member.find(['/', '[']).unwrap_or(member.len());
            let (name, behind) = member.split_at(end);
            if name.is_empty() {
                return None;
            }
            steps.push(Step::Member(Text::from(name)));
            rest = behind;
        } else {
            let (index, behind) = rest.strip_prefix('[')?.split_once(']')?;
            steps.push(Step::Element(index.parse().ok()?));
            rest = behind;
        }
    }
    Some((field, steps.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_ways() {
        let member = |name: &str| Step::Member(name.into());
        for (key, expected) in [
            ("a", None),
            ("a/b", Some(("a", vec![member("b")]))),
            ("a[0]", Some(("a", vec![Step::Element(0)]))),
            (
                "a[12]/p/q",
                Some(("a", vec![Step::Element(12), member("p"), member("q")])),
            ),
            (
                "a/b[1][2]",
                Some(("a", vec![member("b"), Step::Element(1), Step::Element(2)])),
            ),
            ("/a/b", None),
            ("a//b", None),
            ("a/", None),
            ("a[", None),
            ("a[x]", None),
            ("a[-1]", None),
            ("a[0]b", None),
            ("[0]", None),
        ] {
            let expected = expected.map(|(field, steps)| (field, steps.into_boxed_slice()));
            assert_eq!(path(key), expected, "{key}");
        }
    }
}
