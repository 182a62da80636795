//! The syntax tree of a parsed and checked model.
//!
//! The tree is resolved as far as the text alone allows: literals are values, names of statics are
//! indices, an access without a key gets the key that its context implies, several names that share
//! one value (`cpu, mem = take()` in an object) are several members, regular expressions are
//! compiled, and the accesses inside SQL are numbered parameters. Its depth is bounded by
//! [`NESTING_MAX`], so a recursive traversal cannot exhaust the stack.

use std::ops::Range;

use encoding_rs::Encoding;
use jiff::tz::TimeZone;
use lookaside_value::{Contract, OnLookupFailure, Text, TimeReader, TimeWriter, Value};
use regex::Regex;

use crate::Wildcard;

/// The maximal nesting depth of expressions: generous for authors, small for a stack.
pub const NESTING_MAX: usize = 64;

/// The most operators of one `calc`; a chain of them is a tree as deep as it is long.
pub const CALC_OPERATOR_COUNT_MAX: usize = 256;

/// A range of bytes in the model's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The position after the last byte.
    pub end: u32,
}

impl Span {
    /// The span as a range to index text with.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A whole model.
#[derive(Clone, Debug)]
pub struct Program {
    /// The model's name, as in `name : web/nginx`.
    pub name: Text,
    /// The span of the name.
    pub name_span: Span,
    /// The rule keys that the model is for; empty if it is only chosen by name.
    pub rules: Vec<Wildcard>,
    /// False for `enable : false`.
    pub enabled: bool,
    /// What the answers of all lookups have to include, as in `fresh : 100ms`.
    pub contract: Contract,
    /// What happens to an event whose lookup fails, as in `on_lookup_failure : wait`; `None` if the
    /// header does not set it.
    pub on_lookup_failure: Option<OnLookupFailure>,
    /// The constants of all `static` blocks; a [`StaticId`] is a position here.
    pub statics: Vec<Static>,
    /// The statements in their order; at least one.
    pub statements: Vec<Statement>,
}

/// The position of a constant in [`Program::statics`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StaticId(pub u32);

/// One constant of a `static` block.
#[derive(Clone, Debug)]
pub struct Static {
    /// Its name, unique in the model.
    pub name: Text,
    /// The span of the name.
    pub span: Span,
    /// Its value: a [`ExprKind::Literal`], an [`ExprKind::Object`] or [`ExprKind::Array`] of
    /// literals, or an [`ExprKind::Calc`] of numbers. It does not depend on a record or the clock.
    pub value: Expr,
}

/// One statement.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The kind of the statement.
    pub kind: StatementKind,
    /// From its first target to its `;`.
    pub span: Span,
}

/// The kind of a statement.
#[derive(Clone, Debug)]
pub enum StatementKind {
    /// `target = expression ;` appends at most one field.
    Assign {
        /// The field's name and type.
        target: Target,
        /// Its value.
        value: Expr,
    },
    /// `user_* = take() ;` moves fields of the source record, in their order, with their names.
    ///
    /// A field moves when it is picked and its name is not in the result yet. Both `read` and
    /// `take` remove it from the source.
    Move {
        /// Selects fields by name; ignored if `type_word` is not [`TypeWord::Auto`].
        pattern: Wildcard,
        /// Selects fields by the type of their value; [`TypeWord::Auto`] means by name.
        type_word: TypeWord,
    },
    /// `a, b : digit = select x, y from t where k = read(c) ;` looks up one row, and
    /// `rows = select_all x, y from t where k = read(c) ;` all of them.
    Lookup {
        /// Column *i* of the row fills target *i*; never empty, never with wildcards. All rows fill
        /// the only target.
        targets: Vec<Target>,
        /// The SQL statement.
        sql: Sql,
    },
    /// `drop when read(status) in (digit(200), digit(399)) ;` removes the record if the test holds;
    /// the statements after it are not evaluated for it.
    Drop {
        /// Which records are removed.
        test: Test,
    },
}

/// A test of a record: conditions on fields, combined.
#[derive(Clone, Debug)]
pub enum Test {
    /// `read(status) in (digit(200), digit(399))`; does not hold if the field is absent.
    Field {
        /// The examined value, which is only read.
        source: Access,
        /// The condition, as in a case of a match.
        condition: Condition,
    },
    /// `a and b`; at least two.
    All(Vec<Test>),
    /// `a or b`; at least two.
    Any(Vec<Test>),
    /// `not a`
    Not(Box<Test>),
}

/// The target of a statement or an object member.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The field's name. `_` is an ordinary name, but in a lookup it means the column's name.
    pub name: Text,
    /// The declared type.
    pub type_word: TypeWord,
    /// Its span.
    pub span: Span,
}

impl Target {
    /// Whether this is `_`.
    pub fn is_placeholder(&self) -> bool {
        self.name == "_"
    }

    /// Whether this is a temporary (`__name`), whose value is not part of any output.
    pub fn is_temporary(&self) -> bool {
        self.name.starts_with("__")
    }
}

/// A type as written in models.
///
/// Values convert to `chars`, `bool`, `digit`, `float` and `ip`; any other word leaves a value
/// unchanged, and in a [`StatementKind::Move`] it selects by type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeWord {
    /// `auto`, or no type at all: the value is unchanged.
    Auto,
    /// `_`: ignored.
    Ignore,
    /// `bool`
    Bool,
    /// `chars`
    Chars,
    /// `symbol`, `peek_symbol`
    Symbol,
    /// `digit`
    Digit,
    /// `bigint`
    Bigint,
    /// `float`
    Float,
    /// `time` and its formats (`time_iso`, `time/clf` …)
    Time,
    /// `ip`
    Ip,
    /// `ip_net`
    IpNet,
    /// `obj`
    Obj,
    /// `array` and `array/<type>`
    Array,
    /// `json`, `exact_json`
    Json,
    /// Any other known word (`url`, `port`, `http/request` …), which is treated as text.
    Other(&'static str),
}

/// An expression and its span.
#[derive(Clone, Debug)]
pub struct Expr {
    /// The kind of the expression.
    pub kind: ExprKind,
    /// Its span.
    pub span: Span,
}

/// An expression. SQL is not among them: a lookup is a statement.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// `read(x)`, `take(x)`, `@x`
    Access(Access),
    /// `chars(x)`, `digit(1)` …
    Literal(Value),
    /// `Now::time()` …
    Now(Now),
    /// The name of a constant.
    Static(StaticId),
    /// `source | function | …`
    Pipe(Pipe),
    /// `match … { … }`
    Match(Match),
    /// `object { … }`: its members in the order of the text; of several with the same name the last
    /// wins; members whose value is absent are left out.
    Object(Vec<Member>),
    /// `array { … }`: absent, null and ignored items are left out; without any item, the value is
    /// absent.
    Array(Vec<Expr>),
    /// `collect read(keys:[…])`
    Collect(Collect),
    /// `fmt("…", …)`
    Fmt(Fmt),
    /// `calc(…)`
    Calc(Calc),
    /// `lookup_nocase(dict, key, default)`
    LookupNocase(LookupNocase),
    /// `access_direct(source, destination)`
    AccessDirect(AccessDirect),
}

/// Reads a field by name: from the result, then from the source.
#[derive(Clone, Debug)]
pub struct Access {
    /// Whether the field stays.
    pub mode: AccessMode,
    /// The field's name, given or implied by the target; compared literally. Empty if only options
    /// are given and no target implies a name: then only they are tried.
    pub key: Text,
    /// Names to try after `key`, in order, each in the result and then in the source; fields with
    /// empty values ([`Value::is_empty`]) are skipped.
    pub options: Vec<Text>,
    /// The default value if no field is found.
    pub default: Option<Box<Expr>>,
    /// Its span, including the default.
    pub span: Span,
}

/// Whether an access leaves the field in the source record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessMode {
    /// `read` and `@x`: looks in the result, then in the source; the field stays.
    Read,
    /// `take`: looks in the source and removes the field there.
    Take,
}

/// The current local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Now {
    /// `Now::time()`: the time.
    Time,
    /// `Now::date()`: the integer YYYYMMDD.
    Date,
    /// `Now::hour()`: the integer YYYYMMDDHH.
    Hour,
}

/// A value that is passed through functions.
#[derive(Clone, Debug)]
pub struct Pipe {
    /// The source of the value; if it is absent, so is the result.
    pub source: Box<Expr>,
    /// The functions in order; at least one.
    pub steps: Vec<PipeStep>,
}

/// A function of a pipe and its span.
#[derive(Clone, Debug)]
pub struct PipeStep {
    /// The function with its arguments.
    pub function: PipeFunction,
    /// Its span.
    pub span: Span,
}

/// A function of a pipe with its arguments.
#[derive(Clone, Debug)]
pub enum PipeFunction {
    /// `nth(i)`: the element of an array, counted from 0.
    Nth(usize),
    /// `get(a/b)`: the member of an object at that path, as written.
    Get(Text),
    /// `starts_with('p')`
    StartsWith(Text),
    /// `map_to(v)`: a bool, an integer, a float or a text.
    MapTo(Value),
    /// `base64_encode`
    Base64Encode,
    /// `base64_decode()`, `base64_decode(Gbk)`
    Base64Decode(Charset),
    /// `html_escape`
    HtmlEscape,
    /// `html_unescape`
    HtmlUnescape,
    /// `str_escape`
    StrEscape,
    /// `json_escape`
    JsonEscape,
    /// `json_unescape`
    JsonUnescape,
    /// `Time::to_ts`, `Time::to_ts_ms(8)`, `Time::to_ts_zone(-5, us)`
    TimeToTs {
        /// The unit of the number.
        unit: TimeUnit,
        /// The offset of the clock, in minutes east of UTC, if the model sets it.
        offset_minutes: Option<i16>,
    },
    /// `Time::from_ts`, `Time::from_ts_ms(8)`
    TimeFromTs {
        /// The unit of the number.
        unit: TimeUnit,
        /// The offset of the clock, in minutes east of UTC, if the model sets it.
        offset_minutes: Option<i16>,
    },
    /// `Time::parse`, `Time::parse('%F', Europe/Berlin)`
    TimeParse {
        /// What reads the time.
        reader: TimeReader,
        /// The zone of times without an offset, if the model sets it.
        zone: Option<TimeZone>,
    },
    /// `Time::format('%F', Europe/Berlin)`
    TimeFormat {
        /// What writes the time.
        writer: TimeWriter,
        /// The zone that the text is in, if the model sets it.
        zone: Option<TimeZone>,
    },
    /// `Time::truncate(day)`
    TimeTruncate(CalendarUnit),
    /// `Time::since(@start, ms)`
    TimeSince {
        /// The earlier time.
        start: Box<Expr>,
        /// The unit of the difference.
        unit: TimeUnit,
    },
    /// `to_json`
    ToJson,
    /// `to_str`
    ToStr,
    /// `skip_empty`
    SkipEmpty,
    /// `path(name)`, `path(path)`
    Path(PathPart),
    /// `url(domain)` …
    Url(UrlPart),
    /// `ip4_to_int`
    Ip4ToInt,
    /// `ip_to_biguint`
    IpToBiguint,
    /// `intranet_ip`
    IntranetIp,
    /// `on_fail('v')`
    OnFail(Text),
}

/// A character encoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Charset {
    /// UTF-8, with invalid sequences replaced.
    Utf8,
    /// Printable ASCII unchanged, every other byte as an escape.
    Imap,
    /// An encoding of the Encoding Standard.
    Standard(&'static Encoding),
}

/// The unit of a Unix timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// Seconds.
    Second,
    /// Milliseconds.
    Millisecond,
    /// Microseconds.
    Microsecond,
}

/// A unit of the calendar or the clock that a time is truncated to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// Seconds.
    Second,
    /// Minutes.
    Minute,
    /// Hours.
    Hour,
    /// Days.
    Day,
    /// Weeks, which begin on Monday.
    Week,
    /// Months.
    Month,
}

/// A part of a file path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathPart {
    /// The last segment.
    Name,
    /// Everything before the last segment.
    Path,
}

/// A part of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UrlPart {
    /// The host without its port.
    Domain,
    /// The host, with its port if that is not the default of the scheme.
    Host,
    /// Path, query and fragment.
    Uri,
    /// The path.
    Path,
    /// The query.
    Params,
}

/// Tries cases from the top.
#[derive(Clone, Debug)]
pub struct Match {
    /// The examined values: one value, or a tuple; if any of them is absent, the result is the
    /// default.
    pub sources: Vec<Access>,
    /// The cases; at least one.
    pub cases: Vec<Case>,
    /// The result of `_ => …`.
    pub default: Option<Box<Expr>>,
}

/// One case of a match.
#[derive(Clone, Debug)]
pub struct Case {
    /// One condition per source; all must hold.
    pub conditions: Vec<Condition>,
    /// The result of the match in this case.
    pub result: Expr,
    /// Its span.
    pub span: Span,
}

/// A condition on one source, which holds if any of its atoms does.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The alternatives; at least one.
    pub any: Vec<Atom>,
}

/// One test of one value. A value of another type than the operand's does not match, not even
/// [`Atom::Differs`].
#[derive(Clone, Debug)]
pub enum Atom {
    /// `digit(1)`
    Equals(Operand),
    /// `!digit(1)`
    Differs(Operand),
    /// `in (digit(1), digit(9))`, both ends included.
    Within(Operand, Operand),
    /// `starts_with('p')` …
    Function(MatchFunction),
}

/// A constant in a condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A literal.
    Literal(Value),
    /// The name of a constant.
    Static(StaticId),
}

/// A named test.
#[derive(Clone, Debug)]
pub enum MatchFunction {
    /// `starts_with('p')`
    StartsWith(Text),
    /// `ends_with('p')`
    EndsWith(Text),
    /// `contains('p')`
    Contains(Text),
    /// `iequals('p')`
    Iequals(Text),
    /// `iequals_any('p', 'q')`
    IequalsAny(Vec<Text>),
    /// `regex_match('p')`, unanchored.
    RegexMatch(Regex),
    /// `is_empty()`
    IsEmpty,
    /// `gt(n)`
    Gt(f64),
    /// `lt(n)`
    Lt(f64),
    /// `eq(n)`
    Eq(f64),
    /// `in_range(a, b)`, both ends included.
    InRange(f64, f64),
}

/// One member of an object expression.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name and type.
    pub target: Target,
    /// Its value; an [`ExprKind::Access`] without an explicit key has the member's name as its key.
    pub value: Expr,
}

/// Collects fields by patterns of names into an array.
#[derive(Clone, Debug)]
pub struct Collect {
    /// `read`: for each pattern the first match, in the result, then in the source. `take`: for
    /// each pattern all matches, in the source, then in the result. Neither removes fields.
    pub mode: AccessMode,
    /// The patterns; at least one.
    pub patterns: Vec<Wildcard>,
    /// The default value if nothing is found.
    pub default: Option<Box<Expr>>,
}

/// Text with placeholders. If any argument that the template uses is absent, the result is empty.
#[derive(Clone, Debug)]
pub struct Fmt {
    /// The template in parts.
    pub parts: Vec<FmtPart>,
    /// The arguments; each is evaluated even if no part uses it, as `take` has an effect.
    pub arguments: Vec<Access>,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum FmtPart {
    /// Literal text.
    Text(Text),
    /// The raw text of an argument, by position in [`Fmt::arguments`].
    Argument(usize),
}

/// Arithmetic. If an operation fails, the field is ignored.
#[derive(Clone, Debug)]
pub struct Calc {
    /// The expression.
    pub root: CalcExpr,
}

/// An arithmetic expression.
#[derive(Clone, Debug)]
pub enum CalcExpr {
    /// A number: [`Value::Int`] or [`Value::Float`].
    Number(Value),
    /// A field.
    Access(Access),
    /// The name of a constant.
    Static(StaticId),
    /// `-a`
    Negate(Box<CalcExpr>),
    /// `a + b` …
    Binary(CalcOperator, Box<CalcExpr>, Box<CalcExpr>),
    /// `abs(a)` …
    Call(CalcFunction, Box<CalcExpr>),
}

/// An operator of `calc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalcOperator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`, always a float
    Divide,
    /// `%`, integers only
    Modulo,
}

/// A function of `calc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalcFunction {
    /// `abs`
    Abs,
    /// `round`, halves away from zero
    Round,
    /// `floor`
    Floor,
    /// `ceil`
    Ceil,
}

/// Looks a word up in a constant object, case-insensitively.
#[derive(Clone, Debug)]
pub struct LookupNocase {
    /// The object; the constant is known to be one.
    pub dictionary: StaticId,
    /// The word.
    pub key: Box<Expr>,
    /// The default value for an unknown word.
    pub default: Box<Expr>,
}

/// Classifies a connection as internal, outgoing, incoming or external: `L2L`, `L2W`, `W2L`, `W2W`.
#[derive(Clone, Debug)]
pub struct AccessDirect {
    /// The source address of the connection.
    pub source: Box<Expr>,
    /// The destination address of the connection.
    pub destination: Box<Expr>,
}

/// A SQL statement whose OML accesses became parameters.
#[derive(Clone, Debug)]
pub struct Sql {
    /// The statement as written, each access replaced by `:p0`, `:p1`, … in order.
    pub text: String,
    /// The parameters in their order; parameter *i* is written `:p<i>`, once.
    pub params: Vec<SqlParam>,
    /// How many rows the answers of `select_all` have at most, as in `/* rows_max: 10 */`; `None` if
    /// the first row is looked up.
    pub rows_max: Option<usize>,
    /// What the answers of this lookup have to include, as in `/* fresh: now */`.
    pub contract: Contract,
    /// What happens to an event if this lookup fails, as in `/* on_lookup_failure: reject */`; `None`
    /// if no comment sets it.
    pub on_failure: Option<OnLookupFailure>,
    /// The span of the statement.
    pub span: Span,
}

/// One parameter of a SQL statement.
#[derive(Clone, Debug)]
pub struct SqlParam {
    /// Its name without the colon, `p0`.
    pub name: Text,
    /// Its value: an access, a literal or the clock.
    pub value: Expr,
}
