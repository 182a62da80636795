//! The functions after `|`.

use std::ops::RangeInclusive;

use lookaside_value::{Text, Value, parse_float, parse_int};

use super::argument::{InvalidArgument, invalid_argument};
use super::charset::{NAMES, charset};
use super::time::{from_ts, time_format, time_parse, time_truncate, to_ts, to_ts_zone};
use super::{Parsed, Parser};
use crate::ast::{Charset, PathPart, PipeFunction, PipeStep, Span, TimeUnit, UrlPart};
use crate::diagnostic::Diagnostic;
use crate::lexer::Piece;

/// The syntax of a function.
#[derive(Clone, Copy)]
enum Form {
    /// `f` or `f()`
    Plain(fn() -> PipeFunction),
    /// `f(x)`, with a number of arguments between its counts.
    Arguments(usize, usize, Build),
    /// `f` or `f(x)`: without parentheses there are no arguments.
    Optional(usize, Build),
    /// `Time::since(expression, unit)`
    Since,
}

impl Form {
    /// How many texts there may be in parentheses; none where they are expressions.
    fn argument_counts(self) -> RangeInclusive<usize> {
        match self {
            Self::Plain(_) | Self::Since => 0..=0,
            Self::Optional(most, _) => 0..=most,
            Self::Arguments(least, most, _) => least..=most,
        }
    }
}

type Build = fn(&[Piece<'_>]) -> Result<PipeFunction, InvalidArgument>;

const FUNCTIONS: [(&str, Form); 30] = [
    ("nth", Form::Arguments(1, 1, nth)),
    ("get", Form::Arguments(1, 1, get)),
    (
        "starts_with",
        Form::Arguments(1, 1, |a| Ok(PipeFunction::StartsWith(text(&a[0])))),
    ),
    ("map_to", Form::Arguments(1, 1, map_to)),
    ("base64_encode", Form::Plain(|| PipeFunction::Base64Encode)),
    ("base64_decode", Form::Arguments(0, 1, base64_decode)),
    ("html_escape", Form::Plain(|| PipeFunction::HtmlEscape)),
    ("html_unescape", Form::Plain(|| PipeFunction::HtmlUnescape)),
    ("str_escape", Form::Plain(|| PipeFunction::StrEscape)),
    ("json_escape", Form::Plain(|| PipeFunction::JsonEscape)),
    ("json_unescape", Form::Plain(|| PipeFunction::JsonUnescape)),
    (
        "Time::to_ts",
        Form::Optional(1, |a| to_ts(a, TimeUnit::Second)),
    ),
    (
        "Time::to_ts_ms",
        Form::Optional(1, |a| to_ts(a, TimeUnit::Millisecond)),
    ),
    (
        "Time::to_ts_us",
        Form::Optional(1, |a| to_ts(a, TimeUnit::Microsecond)),
    ),
    ("Time::to_ts_zone", Form::Arguments(2, 2, to_ts_zone)),
    (
        "Time::from_ts",
        Form::Optional(1, |a| from_ts(a, TimeUnit::Second)),
    ),
    (
        "Time::from_ts_ms",
        Form::Optional(1, |a| from_ts(a, TimeUnit::Millisecond)),
    ),
    (
        "Time::from_ts_us",
        Form::Optional(1, |a| from_ts(a, TimeUnit::Microsecond)),
    ),
    ("Time::parse", Form::Optional(2, time_parse)),
    ("Time::format", Form::Arguments(1, 2, time_format)),
    ("Time::truncate", Form::Arguments(1, 1, time_truncate)),
    ("Time::since", Form::Since),
    ("to_json", Form::Plain(|| PipeFunction::ToJson)),
    ("to_str", Form::Plain(|| PipeFunction::ToStr)),
    ("skip_empty", Form::Plain(|| PipeFunction::SkipEmpty)),
    ("path", Form::Arguments(1, 1, path)),
    ("url", Form::Arguments(1, 1, url)),
    ("ip4_to_int", Form::Plain(|| PipeFunction::Ip4ToInt)),
    ("ip_to_biguint", Form::Plain(|| PipeFunction::IpToBiguint)),
    ("intranet_ip", Form::Plain(|| PipeFunction::IntranetIp)),
];

const ON_FAIL: (&str, Form) = (
    "on_fail",
    Form::Arguments(1, 1, |a| Ok(PipeFunction::OnFail(text(&a[0])))),
);

/// Functions of the original that analyse Chinese sentences with built-in dictionaries.
const REFUSED: [&str; 2] = ["extract_main_word", "extract_subject_object"];

fn function(name: &str) -> Option<Form> {
    let mut functions = FUNCTIONS.into_iter().chain([ON_FAIL]);
    functions
        .find(|(known, _)| *known == name)
        .map(|(_, form)| form)
}

/// Whether there is a pipe function with this name.
pub(super) fn is_function(name: &str) -> bool {
    function(name).is_some()
}

/// The arguments of a pipe function.
pub(crate) enum PipeArguments {
    /// Texts, as many as given.
    Texts(RangeInclusive<usize>),
    /// An expression and a word.
    Expression,
}

/// What the parentheses after the name of a pipe function contain; `None` if there is no such
/// function.
pub(crate) fn pipe_arguments(name: &str) -> Option<PipeArguments> {
    Some(match function(name)? {
        Form::Since => PipeArguments::Expression,
        form => PipeArguments::Texts(form.argument_counts()),
    })
}

impl<'a> Parser<'a> {
    /// `| f | g(x) …`, possibly none.
    pub(super) fn pipe_steps(&mut self) -> Parsed<Vec<PipeStep>> {
        let mut steps = Vec::new();
        while self.cursor.eat("|") {
            self.count_expressions(1)?;
            steps.push(self.pipe_step()?);
        }
        Ok(steps)
    }

    fn pipe_step(&mut self) -> Parsed<PipeStep> {
        let (name, name_span) = self.word("the name of a function")?;
        let Some(form) = function(name) else {
            return Err(unknown_function(name, name_span));
        };
        let function = match form {
            Form::Plain(function) => {
                if self.cursor.sees("(") {
                    self.arguments(name, form.argument_counts())?;
                }
                function()
            }
            Form::Optional(_, build) if !self.cursor.sees("(") => self.build(name, build, &[])?,
            Form::Optional(_, build) => {
                let arguments = self.arguments(name, form.argument_counts())?;
                self.build(name, build, &arguments)?
            }
            Form::Arguments(_, _, build) => {
                let counts = form.argument_counts();
                let arguments = self.written_arguments(name, name_span, counts)?;
                self.build(name, build, &arguments)?
            }
            Form::Since => self.time_since(name_span)?,
        };
        Ok(PipeStep {
            function,
            span: self.cursor.span_from(name_span.start as usize),
        })
    }

    fn written_arguments(
        &mut self,
        name: &str,
        name_span: Span,
        counts: RangeInclusive<usize>,
    ) -> Parsed<Vec<Piece<'a>>> {
        if self.cursor.sees("(") {
            return self.arguments(name, counts);
        }
        Err(
            Diagnostic::error(name_span, format!("`{name}` needs parentheses")).help(format!(
                "write `{name}(…)`, with its arguments if it has any"
            )),
        )
    }

    fn build(&self, name: &str, build: Build, arguments: &[Piece<'_>]) -> Parsed<PipeFunction> {
        build(arguments).map_err(|invalid| {
            let Piece { text, span, .. } = &arguments[invalid.index];
            let message = format!("`{text}` is not an argument for `{name}`");
            Diagnostic::error(*span, message).help(format!("it takes {}", invalid.expected))
        })
    }
}

fn unknown_function(name: &str, span: Span) -> super::Fault {
    if REFUSED.contains(&name) {
        let message = format!("`{name}` is not supported");
        return Diagnostic::error(span, message)
            .help("it needs language dictionaries; prepare the word before this model runs");
    }
    let names = FUNCTIONS.iter().map(|(name, _)| *name).chain([ON_FAIL.0]);
    let fault = Diagnostic::error(span, format!("unknown function `{name}`"));
    if super::matching::FUNCTIONS.contains(&name) {
        return fault.help(format!("`{name}` is a condition of `match`"));
    }
    fault.nearest(name, names)
}

fn text(piece: &Piece<'_>) -> Text {
    Text::from(&*piece.text)
}

fn nth(arguments: &[Piece<'_>]) -> Result<PipeFunction, InvalidArgument> {
    let index = arguments[0].text.parse();
    let index = index.map_err(|_| invalid_argument(0, "a position, counted from 0"))?;
    Ok(PipeFunction::Nth(index))
}

fn get(arguments: &[Piece<'_>]) -> Result<PipeFunction, InvalidArgument> {
    match &*arguments[0].text {
        "" => Err(invalid_argument(0, "the path of a member, such as `a/b`")),
        path => Ok(PipeFunction::Get(path.into())),
    }
}

/// A quoted argument is always text.
fn map_to(arguments: &[Piece<'_>]) -> Result<PipeFunction, InvalidArgument> {
    let value = match &*arguments[0].text {
        text if arguments[0].is_quoted => Some(Value::from(text)),
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        number => match parse_int(number) {
            Some(int) => Some(Value::Int(int)),
            // A whole number beyond 64 bits would lose digits as a float.
            None if is_whole(number) => {
                return Err(invalid_argument(0, "a whole number of 64 bits"));
            }
            None => parse_float(number).map(Value::Float),
        },
    };
    value
        .map(PipeFunction::MapTo)
        .ok_or_else(|| invalid_argument(0, "`true`, `false`, a number or a quoted text"))
}

fn is_whole(number: &str) -> bool {
    let digits = number.strip_prefix(['-', '+']).unwrap_or(number);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn base64_decode(arguments: &[Piece<'_>]) -> Result<PipeFunction, InvalidArgument> {
    let Some(name) = arguments.first() else {
        return Ok(PipeFunction::Base64Decode(Charset::Utf8));
    };
    charset(&name.text)
        .map(PipeFunction::Base64Decode)
        .ok_or_else(|| invalid_argument(0, format!("an encoding, such as {}", NAMES.join(", "))))
}

fn path(arguments: &[Piece<'_>]) -> Result<PipeFunction, InvalidArgument> {
    match &*arguments[0].text {
        "name" => Ok(PipeFunction::Path(PathPart::Name)),
        "path" => Ok(PipeFunction::Path(PathPart::Path)),
        _ => Err(invalid_argument(0, "`name` or `path`")),
    }
}

fn url(arguments: &[Piece<'_>]) -> Result<PipeFunction, InvalidArgument> {
    let part = match &*arguments[0].text {
        "domain" => UrlPart::Domain,
        "host" => UrlPart::Host,
        "uri" => UrlPart::Uri,
        "path" => UrlPart::Path,
        "params" => UrlPart::Params,
        _ => {
            return Err(invalid_argument(
                0,
                "`domain`, `host`, `uri`, `path` or `params`",
            ));
        }
    };
    Ok(PipeFunction::Url(part))
}
