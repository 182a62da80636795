//! A run as a table for people, or as a line of JSON for programs.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write as _};
use std::time::Duration;

use indicatif::HumanCount;
use lookaside_load::http::{Answers, Figures, LoadPlan, Used};
use lookaside_load::processes::Usage;
use serde_json::{Map, Value, json};

/// The reported percentiles.
const PERCENTILES: [(&str, f64); 5] = [
    ("p50", 50.0),
    ("p90", 90.0),
    ("p95", 95.0),
    ("p99", 99.0),
    ("p999", 99.9),
];

pub(super) struct Report<'a> {
    pub(super) plan: &'a LoadPlan,
    pub(super) figures: &'a Figures,
    pub(super) used: Used,
}

impl Report<'_> {
    /// Prints it; a closed pipe is not a failure.
    pub(super) fn print(&self, is_json: bool) -> io::Result<()> {
        let mut text = if is_json {
            self.json().to_string()
        } else {
            self.text()
        };
        text.push('\n');
        match io::stdout().lock().write_all(text.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    fn case(&self) -> String {
        let options = self.plan.options();
        let mut text = format!("{} connections", options.connection_count);
        if options.depth > 1 {
            write!(text, ", {} requests deep", options.depth).expect("a string takes any text");
        }
        if let Some(count) = options.requests_per_connection {
            write!(text, ", closed after {count}").expect("a string takes any text");
        }
        if let Some(rate) = options.rate {
            write!(text, ", at {rate}/s").expect("a string takes any text");
        }
        text
    }

    fn rate(&self) -> f64 {
        self.figures.answer_count() as f64 / self.used.wall.as_secs_f64().max(1e-9)
    }

    /// CPU time per answer in microseconds.
    fn share(&self, cpu: Duration) -> Option<f64> {
        let count = self.figures.answer_count();
        (count > 0).then(|| cpu.as_nanos() as f64 / 1e3 / count as f64)
    }

    fn cores(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() / self.used.wall.as_secs_f64().max(1e-9)
    }

    fn bytes_per_answer(&self) -> Option<f64> {
        let count = self.figures.answer_count();
        (count > 0).then(|| self.figures.bytes as f64 / count as f64)
    }

    fn percentile(&self, percentile: f64) -> f64 {
        self.figures.latency_ns(percentile) as f64 / 1e3
    }

    fn json(&self) -> Value {
        let (figures, used) = (self.figures, &self.used);
        let mut line = Map::new();
        let mut add = |name: &str, value: Value| line.insert(name.to_owned(), value);
        add(
            "engine",
            concat!("lookaside ", env!("CARGO_PKG_VERSION")).into(),
        );
        add("bench", "http".into());
        add("case", self.case().into());
        add("target", self.plan.target().to_string().into());
        add("seconds", rounded(used.wall.as_secs_f64()));
        add("ops", figures.answer_count().into());
        add("ops_per_s", self.rate().round().into());
        add("client_cpu_us", optional(self.share(used.client)));
        add("client_cores", rounded(self.cores(used.client)));
        for (name, usage) in [("server", used.server), ("database", used.database)] {
            let Some(usage) = usage else { continue };
            add(&format!("{name}_cpu_us"), optional(self.share(usage.cpu)));
            add(&format!("{name}_cores"), rounded(self.cores(usage.cpu)));
            add(&format!("{name}_resident_max"), usage.resident_max.into());
            add(&format!("{name}_switches"), usage.switches.into());
        }
        if let Some(foreign) = used.foreign {
            add("foreign_cores", rounded(self.cores(foreign)));
        }
        add("mean_us", rounded(figures.latency_ns_mean() / 1e3));
        for (name, percentile) in PERCENTILES {
            add(&format!("{name}_us"), rounded(self.percentile(percentile)));
        }
        add("max_us", rounded(figures.latency_ns_max() as f64 / 1e3));
        add("bytes_per_answer", optional(self.bytes_per_answer()));
        add(
            "statuses",
            Value::Object(
                figures
                    .statuses()
                    .map(|(status, count)| (status.to_string(), count.into()))
                    .collect(),
            ),
        );
        let templates = self.plan.templates().iter().zip(&figures.answers);
        add("templates", templates.map(|(template, answers)| {
            json!({"name": template.name(), "answers": answers.count(), "classes": classes(answers)})
        }).collect());
        add(
            "failures",
            Value::Object(
                figures
                    .faults
                    .iter()
                    .map(|(fault, faults)| {
                        let said = json!({"count": faults.count, "first": faults.first});
                        (fault.name().to_owned(), said)
                    })
                    .collect(),
            ),
        );
        add("connections_opened", figures.connections.into());
        add("unanswered", figures.unanswered.into());
        if let Some(rate) = self.plan.options().rate {
            add("rate", rate.into());
            add("late_max", figures.late_max.into());
        }
        Value::Object(line)
    }

    fn text(&self) -> String {
        let (figures, used) = (self.figures, &self.used);
        let mut text = format!("http {}, {}\n", self.plan.target(), self.case());
        let mut line = |name: &str, value: String| {
            writeln!(text, "  {name:<10} {value}").expect("a string takes any text");
        };
        let count = figures.answer_count();
        let mut answers = format!(
            "{} in {:.2} s, {}/s",
            HumanCount(count),
            used.wall.as_secs_f64(),
            HumanCount(self.rate().round() as u64)
        );
        if let Some(bytes) = self.bytes_per_answer() {
            write!(answers, ", {bytes:.0} bytes each").expect("a string takes any text");
        }
        line("answers", answers);
        let mut times: Vec<String> = PERCENTILES
            .iter()
            .map(|(name, percentile)| format!("{name} {}", time(self.percentile(*percentile))))
            .collect();
        times.push(format!(
            "max {}",
            time(figures.latency_ns_max() as f64 / 1e3)
        ));
        line("latency", times.join("  "));
        line("client", self.usage(used.client));
        for (name, usage) in [("server", used.server), ("database", used.database)] {
            let Some(usage) = usage else { continue };
            line(
                name,
                format!("{}, {}", self.usage(usage.cpu), memory(usage)),
            );
        }
        if let Some(foreign) = used.foreign {
            line("others", format!("{:.2} cores busy", self.cores(foreign)));
        }
        let statuses: Vec<String> = figures
            .statuses()
            .map(|(status, count)| format!("{} x {status}", HumanCount(count)))
            .collect();
        if !statuses.is_empty() {
            line("statuses", statuses.join(", "));
        }
        for (template, answers) in self.plan.templates().iter().zip(&figures.answers) {
            if self.plan.templates().len() > 1 {
                line(
                    "",
                    format!("{} x {}", HumanCount(answers.count()), template.name()),
                );
            }
        }
        if figures.connections > self.plan.options().connection_count as u64 {
            line(
                "opened",
                format!("{} connections", HumanCount(figures.connections)),
            );
        }
        if figures.late_max > 0 {
            line(
                "late",
                format!(
                    "up to {} at once, without a free connection",
                    figures.late_max
                ),
            );
        }
        if self.plan.options().rate.is_some() && figures.unanswered > 0 {
            line("unanswered", HumanCount(figures.unanswered).to_string());
        }
        for (fault, faults) in &figures.faults {
            line(
                "failed",
                format!(
                    "{} {}, the first: {}",
                    HumanCount(faults.count),
                    fault.name(),
                    faults.first
                ),
            );
        }
        text.truncate(text.trim_end().len());
        text
    }

    fn usage(&self, cpu: Duration) -> String {
        let cores = self.cores(cpu);
        match self.share(cpu) {
            Some(share) => format!("{share:.2} us CPU an answer, {cores:.2} cores"),
            None => format!("{cores:.2} cores"),
        }
    }
}

fn memory(usage: Usage) -> String {
    let mib = usage.resident_max as f64 / f64::from(1 << 20);
    format!(
        "{mib:.1} MiB at most, {} switches",
        HumanCount(usage.switches)
    )
}

fn classes(answers: &Answers) -> Value {
    let all = (1..).zip(answers.classes).filter(|&(_, count)| count > 0);
    Value::Object(
        all.map(|(class, count)| (format!("{class}xx"), count.into()))
            .collect(),
    )
}

fn time(us: f64) -> String {
    match us {
        ..1e3 => format!("{us:.0} us"),
        ..1e6 => format!("{:.2} ms", us / 1e3),
        _ => format!("{:.2} s", us / 1e6),
    }
}

fn optional(figure: Option<f64>) -> Value {
    figure.map_or(Value::Null, rounded)
}

/// Rounds to three decimals.
fn rounded(figure: f64) -> Value {
    ((figure * 1e3).round() / 1e3).into()
}
