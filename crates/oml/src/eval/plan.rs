//! What a bound model is made of: names are numbers, constants are values, columns are known.

use lookaside_value::{Name, StatementId, Text, Type, Value};

use crate::Wildcard;
use crate::ast::{AccessMode, CalcFunction, CalcOperator, Now};
use crate::functions::{Conversion, Dictionary, Function, Predicate};

/// A statement, run over all records of a batch before the next one.
#[derive(Debug)]
pub(crate) enum Statement {
    /// Appends at most one field.
    Assign { target: Target, value: Expr },
    /// Moves fields from the source to the result.
    Move(Pick),
    /// Asks for one row a record.
    Lookup(Lookup),
}

/// What a value is written to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) name: Name,
    pub(crate) conversion: Conversion,
}

/// Which fields a move takes.
#[derive(Debug)]
pub(crate) enum Pick {
    /// Every field.
    All,
    /// Those whose name matches.
    Named(Pattern),
    /// Those whose value has that type.
    Typed(Type),
    /// None: no value ever has the type that the model names.
    Nothing,
}

/// A pattern of names and where an evaluator remembers its verdicts.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) wildcard: Wildcard,
    pub(crate) memo: usize,
}

/// A prepared SQL statement and what to do with its row.
#[derive(Debug)]
pub(crate) struct Lookup {
    pub(crate) statement: StatementId,
    pub(crate) params: Vec<Expr>,
    /// Column *i* fills target *i*.
    pub(crate) targets: Vec<Target>,
    /// Line and column of the statement in the model, for reports.
    pub(crate) position: (usize, usize),
}

/// An expression; evaluating it gives a value or nothing.
#[derive(Debug)]
pub(crate) enum Expr {
    Constant(Value),
    Access(Access),
    Now(Now),
    Pipe(Box<Expr>, Box<[Function]>),
    Match(Box<Match>),
    Object(Box<[Member]>),
    Array(Box<[Self]>),
    Collect(Box<Collect>),
    Fmt(Box<Fmt>),
    Calc(Box<Calc>),
    Dictionary(Box<DictionaryLookup>),
    AccessDirect(Box<[Self; 2]>),
}

/// Finds a field.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) mode: AccessMode,
    /// None where only the options are tried.
    pub(crate) key: Option<Key>,
    pub(crate) options: Box<[Key]>,
    pub(crate) default: Option<Box<Expr>>,
    /// Whether looking has no effect and needs no new value, so that the field can be borrowed.
    pub(crate) borrows: bool,
}

/// The name of a field, and the way into an object that the same text could also mean.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: Name,
    pub(crate) path: Option<Box<Path>>,
}

/// A way from a field into the objects and arrays that it holds.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) field: Name,
    pub(crate) steps: Box<[Step]>,
}

/// One step of a [`Path`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Member(Text),
    Element(usize),
}

/// Up to so many sources of a match are looked at where they lie; more are copied first.
pub(crate) const SOURCE_COUNT_INLINE: usize = 8;

#[derive(Debug)]
pub(crate) struct Match {
    pub(crate) sources: Box<[Access]>,
    pub(crate) cases: Box<[Case]>,
    pub(crate) default: Option<Expr>,
    /// Whether all sources can be borrowed, and are few enough for an array on the stack.
    pub(crate) borrows: bool,
}

#[derive(Debug)]
pub(crate) struct Case {
    /// One condition a source; it holds when any of its predicates does.
    pub(crate) conditions: Box<[Box<[Predicate]>]>,
    pub(crate) result: Expr,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: Text,
    pub(crate) conversion: Conversion,
    pub(crate) value: Expr,
}

#[derive(Debug)]
pub(crate) struct Collect {
    pub(crate) mode: AccessMode,
    pub(crate) patterns: Box<[Pattern]>,
    pub(crate) default: Option<Expr>,
}

#[derive(Debug)]
pub(crate) struct Fmt {
    pub(crate) parts: Box<[FmtPart]>,
    pub(crate) arguments: Box<[Access]>,
    /// Whether all arguments can be borrowed.
    pub(crate) borrows: bool,
}

#[derive(Debug)]
pub(crate) enum FmtPart {
    Text(Text),
    Argument(usize),
}

#[derive(Debug)]
pub(crate) enum Calc {
    /// A number, or a constant that is none.
    Constant(Value),
    Access(Access),
    Negate(Box<Self>),
    Binary(CalcOperator, Box<Self>, Box<Self>),
    Call(CalcFunction, Box<Self>),
}

#[derive(Debug)]
pub(crate) struct DictionaryLookup {
    pub(crate) dictionary: Dictionary,
    pub(crate) key: Expr,
    pub(crate) default: Expr,
}
