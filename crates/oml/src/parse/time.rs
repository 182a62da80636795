//! The functions of times after `|`: their arguments, and warnings of text in their place.

use std::collections::HashMap;

use jiff::tz::{Offset, TimeZone};
use lookaside_value::{Text, TimeFormatError, TimeReader, TimeWriter, Value, parse_zone};

use super::argument::{InvalidArgument, invalid_argument};
use super::{Parsed, Parser};
use crate::ast::{
    AccessMode, CalendarUnit, Expr, ExprKind, PipeFunction, PipeStep, Span, StatementKind, Target,
    TimeUnit, TypeWord,
};
use crate::diagnostic::Diagnostic;
use crate::lexer::Piece;

/// The fields that only earlier statements make, and whether they are text by their type.
#[derive(Default)]
pub(super) struct TextFields {
    fields: HashMap<Text, bool>,
    /// After fields were moved, a name may be that of any of them.
    are_moved: bool,
}

impl TextFields {
    pub(super) fn note(&mut self, kind: &StatementKind) {
        let targets: &[Target] = match kind {
            StatementKind::Assign { target, .. } => std::slice::from_ref(target),
            StatementKind::Lookup { targets, .. } => targets,
            StatementKind::Move { .. } => {
                self.are_moved = true;
                return;
            }
            StatementKind::Drop { .. } => return,
        };
        for target in targets {
            // Of two fields with one name, the first is read.
            let is_text = target.type_word == TypeWord::Chars && !self.are_moved;
            self.fields.entry(target.name.clone()).or_insert(is_text);
        }
    }

    fn contains(&self, name: &str) -> bool {
        self.fields.get(name).is_some_and(|is_text| *is_text)
    }
}

impl Parser<'_> {
    /// `(start)` or `(start, unit)`, the name already read.
    pub(super) fn time_since(&mut self, name: Span) -> Parsed<PipeFunction> {
        const EXAMPLE: &str = "write `Time::since(@start)` or `Time::since(@start, ms)`";
        if !self.cursor.eat("(") {
            let message = "`Time::since` needs the earlier time in parentheses";
            return Err(Diagnostic::error(name, message).help(EXAMPLE));
        }
        let start = Box::new(self.expression(None)?);
        let mut time_unit = TimeUnit::Second;
        if self.cursor.eat(",") {
            let (word, span) = self.word("a unit")?;
            time_unit = unit(word).ok_or_else(|| {
                let message = format!("`{word}` is not an argument for `Time::since`");
                Diagnostic::error(span, message).help(format!("it takes {UNITS}"))
            })?;
        }
        self.expect(")", "behind the arguments of `Time::since`")?;
        Ok(PipeFunction::TimeSince {
            start,
            unit: time_unit,
        })
    }

    /// Warns if a function that converts times gets text, which it leaves unchanged.
    pub(super) fn warn_of_text(&mut self, source: &Expr, steps: &[PipeStep]) {
        let mut is_text = self.is_text(source);
        for step in steps {
            match &step.function {
                PipeFunction::TimeToTs { .. } if is_text => {
                    let message = "this value is text, which the function leaves unchanged";
                    let help = "make it a time first: `| Time::parse | Time::to_ts`";
                    self.warn(step.span, message, help);
                    return;
                }
                PipeFunction::ToStr | PipeFunction::ToJson | PipeFunction::TimeFormat { .. } => {
                    is_text = true;
                }
                PipeFunction::MapTo(value) => is_text = matches!(value, Value::Text(_)),
                PipeFunction::TimeParse { .. }
                | PipeFunction::TimeTruncate(_)
                | PipeFunction::TimeSince { .. }
                | PipeFunction::Ip4ToInt
                | PipeFunction::IpToBiguint => is_text = false,
                _ => {}
            }
        }
    }

    fn is_text(&self, source: &Expr) -> bool {
        match &source.kind {
            ExprKind::Literal(value) => matches!(value, Value::Text(_)),
            ExprKind::Static(id) => self.is_text(&self.statics[id.0 as usize].value),
            ExprKind::Fmt(_) => true,
            ExprKind::Access(access) => {
                access.mode == AccessMode::Read
                    && access.default.is_none()
                    && access.options.is_empty()
                    && self.text_fields.contains(&access.key)
            }
            _ => false,
        }
    }
}

/// `Time::parse`, `Time::parse('format')`, `Time::parse('format', zone)`
pub(super) fn time_parse(arguments: &[Piece<'_>]) -> Result<PipeFunction, InvalidArgument> {
    let reader = arguments
        .first()
        .map(|format| TimeReader::new(&format.text));
    let reader = reader.transpose().map_err(bad_format)?;
    Ok(PipeFunction::TimeParse {
        reader: reader.unwrap_or_default(),
        zone: optional_zone(arguments)?,
    })
}

/// `Time::format('format')`, `Time::format('format', zone)`
pub(super) fn time_format(arguments: &[Piece<'_>]) -> Result<PipeFunction, InvalidArgument> {
    Ok(PipeFunction::TimeFormat {
        writer: TimeWriter::new(&arguments[0].text).map_err(bad_format)?,
        zone: optional_zone(arguments)?,
    })
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "it maps errors, which are passed by value"
)]
fn bad_format(error: TimeFormatError) -> InvalidArgument {
    let expected = format!("a format of times, such as `%d/%b/%Y:%H:%M:%S %z`: {error}");
    invalid_argument(0, expected)
}

/// The second argument: a zone by its name or its offset.
fn optional_zone(arguments: &[Piece<'_>]) -> Result<Option<TimeZone>, InvalidArgument> {
    let Some(piece) = arguments.get(1) else {
        return Ok(None);
    };
    let hours = offset(piece, 1).ok();
    let fixed = hours.and_then(|minutes| Offset::from_seconds(i32::from(minutes) * 60).ok());
    let zone = fixed.map(Offset::to_time_zone);
    match zone.or_else(|| parse_zone(&piece.text)) {
        Some(zone) => Ok(Some(zone)),
        None => Err(invalid_argument(
            1,
            "a time zone, such as `Europe/Berlin` or `+02:00`",
        )),
    }
}

/// `Time::truncate(unit)`
pub(super) fn time_truncate(arguments: &[Piece<'_>]) -> Result<PipeFunction, InvalidArgument> {
    let unit = match &*arguments[0].text {
        "second" => CalendarUnit::Second,
        "minute" => CalendarUnit::Minute,
        "hour" => CalendarUnit::Hour,
        "day" => CalendarUnit::Day,
        "week" => CalendarUnit::Week,
        "month" => CalendarUnit::Month,
        _ => {
            let units = "`second`, `minute`, `hour`, `day`, `week` or `month`";
            return Err(invalid_argument(0, units));
        }
    };
    Ok(PipeFunction::TimeTruncate(unit))
}

const UNITS: &str = "`s`, `ms` or `us` as its unit";

fn unit(text: &str) -> Option<TimeUnit> {
    match text {
        "s" | "ss" => Some(TimeUnit::Second),
        "ms" => Some(TimeUnit::Millisecond),
        "us" => Some(TimeUnit::Microsecond),
        _ => None,
    }
}

pub(super) fn to_ts(
    arguments: &[Piece<'_>],
    unit: TimeUnit,
) -> Result<PipeFunction, InvalidArgument> {
    let offset_minutes = arguments.first().map(|zone| offset(zone, 0)).transpose()?;
    Ok(PipeFunction::TimeToTs {
        unit,
        offset_minutes,
    })
}

pub(super) fn from_ts(
    arguments: &[Piece<'_>],
    unit: TimeUnit,
) -> Result<PipeFunction, InvalidArgument> {
    let offset_minutes = arguments.first().map(|zone| offset(zone, 0)).transpose()?;
    Ok(PipeFunction::TimeFromTs {
        unit,
        offset_minutes,
    })
}

pub(super) fn to_ts_zone(arguments: &[Piece<'_>]) -> Result<PipeFunction, InvalidArgument> {
    let unit = unit(&arguments[1].text).ok_or_else(|| invalid_argument(1, UNITS))?;
    Ok(PipeFunction::TimeToTs {
        unit,
        offset_minutes: Some(offset(&arguments[0], 0)?),
    })
}

/// Hours east of UTC, `8`, `-5` or `5:30`, as minutes.
fn offset(zone: &Piece<'_>, index: usize) -> Result<i16, InvalidArgument> {
    const HOURS_MAX: i16 = 18;
    let expected = || invalid_argument(index, "hours east of UTC, such as `8`, `-5` or `5:30`");
    let (hours, minutes) = zone.text.split_once(':').unwrap_or((&zone.text, "0"));
    let is_west = hours.starts_with('-');
    let hours: i16 = hours.parse().map_err(|_| expected())?;
    let minutes: i16 = minutes.parse().map_err(|_| expected())?;
    if !(-HOURS_MAX..=HOURS_MAX).contains(&hours) || !(0..60).contains(&minutes) {
        return Err(expected());
    }
    let total = hours * 60 + if is_west { -minutes } else { minutes };
    match total.abs() <= HOURS_MAX * 60 {
        true => Ok(total),
        false => Err(expected()),
    }
}
