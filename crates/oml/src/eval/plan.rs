//! A bound model: names are interned, constants are evaluated, columns are known.

use jiff::tz::TimeZone;
use lookaside_value::{Contract, Name, OnLookupFailure, StatementId, Text, Type, Value};

use crate::Wildcard;
use crate::ast::{AccessMode, CalcFunction, CalcOperator, Now, TimeUnit};
use crate::functions::{Conversion, Dictionary, Function, Predicate};

/// A statement, run over all records of a batch before the next one.
#[derive(Debug)]
pub(crate) enum Statement {
    /// Appends at most one field.
    Assign { target: BoundTarget, value: Expr },
    /// Moves fields from the source to the result.
    Move(Pick),
    /// Looks up one row per record.
    Lookup(Lookup),
    /// Removes records.
    Drop(Test),
}

/// A test of a record.
#[derive(Debug)]
pub(crate) enum Test {
    /// Holds if any of the predicates does for the value of the field.
    Field(Access, Box<[Predicate]>),
    All(Box<[Self]>),
    Any(Box<[Self]>),
    Not(Box<Self>),
}

/// The target of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundTarget {
    pub(crate) name: Name,
    pub(crate) conversion: Conversion,
}

/// The fields that a move selects.
#[derive(Debug)]
pub(crate) enum Pick {
    /// Every field.
    All,
    /// The fields whose name matches.
    Named(Pattern),
    /// The fields whose value has this type.
    Typed(Type),
    /// No field, because no value ever has the type in the model.
    Nothing,
}

/// A pattern of names, and the index of an evaluator's cache for it.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) wildcard: Wildcard,
    pub(crate) memo: usize,
}

/// A prepared SQL statement and what to do with its rows.
#[derive(Debug)]
pub(crate) struct Lookup {
    pub(crate) statement: StatementId,
    pub(crate) params: Vec<Expr>,
    /// What its answers have to include.
    pub(crate) contract: Contract,
    /// What happens to a record if it fails.
    pub(crate) on_failure: OnLookupFailure,
    pub(crate) results: LookupResults,
    /// Line and column of the statement in the model, for reports.
    pub(crate) position: (usize, usize),
}

/// The fields that the rows of a lookup become.
#[derive(Debug)]
pub(crate) enum LookupResults {
    /// Column *i* of the first row fills target *i*.
    First(Vec<BoundTarget>),
    /// All rows fill the target, as an array of objects.
    All { target: Name, rows_max: usize },
}

/// An expression; its value may be absent.
#[derive(Debug)]
pub(crate) enum Expr {
    Constant(Value),
    Access(Access),
    Now(Now),
    Pipe(Box<Expr>, Box<[PipeStep]>),
    Match(Box<Match>),
    Object(Box<[Member]>),
    Array(Box<[Self]>),
    Collect(Box<Collect>),
    Fmt(Box<Fmt>),
    Calc(Box<Calc>),
    Dictionary(Box<DictionaryLookup>),
    AccessDirect(Box<[Self; 2]>),
}

/// A step of a pipe.
#[derive(Debug)]
pub(crate) enum PipeStep {
    Function(Function),
    /// `Time::since(start, unit)`, whose argument depends on the record.
    Since(Box<Since>),
}

#[derive(Debug)]
pub(crate) struct Since {
    pub(crate) start: Expr,
    pub(crate) unit: TimeUnit,
    /// The zone of times without an offset.
    pub(crate) zone: TimeZone,
}

/// Finds a field.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) mode: AccessMode,
    /// `None` if only the options are tried.
    pub(crate) key: Option<Key>,
    pub(crate) options: Box<[Key]>,
    pub(crate) default: Option<Box<Expr>>,
    /// Whether the access has no effect and makes no new value, so that the field can be borrowed.
    pub(crate) borrows: bool,
}

/// The name of a field, and the path into an object that the same text may also mean.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: Name,
    pub(crate) path: Option<Box<Path>>,
}

/// A path from a field into its objects and arrays.
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

/// The most sources of a match that are borrowed; if there are more, they are copied first.
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
    /// One condition per source, which holds if any of its predicates does.
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
    /// A constant, which may not be a number.
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
