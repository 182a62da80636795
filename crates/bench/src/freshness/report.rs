//! The figures of a case: lines for people, a line of JSON for programs.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::time::Duration;

use lookaside_load::measure::Spread;
use serde::Serialize;

use super::samples::Percentiles;
use super::server::ServerNote;

/// What a case measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    engine: &'static str,
    bench: &'static str,
    case: &'static str,
    server: ServerNote,
    /// The load averages of the machine over 1, 5 and 15 minutes, before and after.
    load_before: String,
    load_after: String,
    parameters: Vec<(&'static str, String)>,
    figures: Vec<Figure>,
    notes: Vec<String>,
}

/// A measured quantity.
#[derive(Clone, Debug, Serialize)]
struct Figure {
    name: String,
    unit: &'static str,
    #[serde(flatten)]
    value: Measured,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aims: Vec<Aimed>,
}

/// The value of a figure.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Measured {
    Number { value: f64 },
    Percentiles(Percentiles),
    Spread(Spread),
}

/// What a statistic of a figure is meant to be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aim {
    AtMost(&'static str, f64),
    AtLeast(&'static str, f64),
}

#[derive(Clone, Debug, Serialize)]
struct Aimed {
    of: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    is_met: bool,
}

impl From<f64> for Measured {
    fn from(value: f64) -> Self {
        Self::Number { value }
    }
}

impl From<Percentiles> for Measured {
    fn from(percentiles: Percentiles) -> Self {
        Self::Percentiles(percentiles)
    }
}

impl From<Spread> for Measured {
    fn from(spread: Spread) -> Self {
        Self::Spread(spread)
    }
}

impl Measured {
    /// A statistic by its name; of a number, there is only the number.
    fn statistic(&self, name: &str) -> f64 {
        match (self, name) {
            (Self::Number { value }, _) => *value,
            (Self::Percentiles(it), "p50") => it.p50,
            (Self::Percentiles(it), "p99") => it.p99,
            (Self::Percentiles(it), _) => it.max,
            (Self::Spread(it), "min") => it.min,
            (Self::Spread(it), "median") => it.median,
            (Self::Spread(it), _) => it.max,
        }
    }

    fn text(&self, unit: &str) -> String {
        match self {
            Self::Number { value } => format!("{} {unit}", number(*value)),
            Self::Percentiles(it) => format!(
                "p50 {} {unit}, p99 {} {unit}, max {} {unit} ({} samples)",
                number(it.p50),
                number(it.p99),
                number(it.max),
                it.count
            ),
            Self::Spread(it) => format!(
                "{} {unit} ({} – {})",
                number(it.median),
                number(it.min),
                number(it.max)
            ),
        }
    }
}

impl Aim {
    fn of(self, value: &Measured) -> Aimed {
        match self {
            Self::AtMost(of, limit) => Aimed {
                of,
                at_most: Some(limit),
                at_least: None,
                is_met: value.statistic(of) <= limit,
            },
            Self::AtLeast(of, limit) => Aimed {
                of,
                at_most: None,
                at_least: Some(limit),
                is_met: value.statistic(of) >= limit,
            },
        }
    }
}

impl Aimed {
    fn text(&self, unit: &str) -> String {
        let (sign, limit) = match (self.at_most, self.at_least) {
            (Some(limit), _) => ('≤', limit),
            (None, limit) => ('≥', limit.unwrap_or_default()),
        };
        let of = match self.of {
            "value" => String::new(),
            of => format!("{of} "),
        };
        let met = if self.is_met { "met" } else { "missed" };
        format!("aim {of}{sign} {} {unit}: {met}", number(limit))
    }
}

impl Report {
    /// The report of a case that begins now.
    pub(super) fn new(case: &'static str, server: &ServerNote) -> Self {
        Self {
            engine: concat!("lookaside ", env!("CARGO_PKG_VERSION")),
            bench: "freshness",
            case,
            server: server.clone(),
            load_before: load_average(),
            load_after: String::new(),
            parameters: Vec::new(),
            figures: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn parameter(&mut self, name: &'static str, value: impl ToString) {
        self.parameters.push((name, value.to_string()));
    }

    pub(super) fn figure(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        value: impl Into<Measured>,
        aims: &[Aim],
    ) {
        let value = value.into();
        self.figures.push(Figure {
            name: name.into(),
            unit,
            value,
            aims: aims.iter().map(|aim| aim.of(&value)).collect(),
        });
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Prints the report to standard output; a closed pipe is not a failure.
    pub(super) fn print(mut self, json: bool) -> super::Result<()> {
        self.load_after = load_average();
        let mut text = match json {
            true => serde_json::to_string(&self)?,
            false => self.text(),
        };
        text.push('\n');
        match io::stdout().lock().write_all(text.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn text(&self) -> String {
        let names = self.figures.iter().map(|it| it.name.chars().count());
        let width = names.max().unwrap_or_default().max("parameters".len());
        let mut text = format!("{} {}\n", self.bench, self.case);
        let mut line = |name: &str, value: &str| {
            writeln!(text, "  {name:<width$}  {value}").expect("a string takes any text");
        };
        line("server", &self.server.text());
        line(
            "load",
            &format!("{} before, {} after", self.load_before, self.load_after),
        );
        let parameters: Vec<String> = (self.parameters.iter())
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        line("parameters", &parameters.join(", "));
        for figure in &self.figures {
            let mut value = figure.value.text(figure.unit);
            for aim in &figure.aims {
                write!(value, "; {}", aim.text(figure.unit)).expect("a string takes any text");
            }
            line(&figure.name, &value);
        }
        for note in &self.notes {
            line("note", note);
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// Three significant digits, or all of a larger number.
fn number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Milliseconds.
pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let averages: Vec<&str> = text.split_ascii_whitespace().take(3).collect();
    averages.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aim_is_compared_with_its_statistic() {
        let value = Measured::Percentiles(Percentiles {
            count: 3,
            p50: 1.0,
            p99: 7.0,
            max: 9.0,
        });
        assert!(Aim::AtMost("p50", 1.0).of(&value).is_met);
        assert!(!Aim::AtMost("p99", 5.0).of(&value).is_met);
        let number = Measured::from(99.5);
        let aimed = Aim::AtLeast("value", 99.0).of(&number);
        assert_eq!(aimed.text("%"), "aim ≥ 99.0 %: met");
    }
}
