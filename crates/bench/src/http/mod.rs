//! `lookaside-bench http`: the load generator's command.

mod report;
mod stop;

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use indicatif::{HumanCount, ProgressBar};
use lookaside_load::http::{Fault, Figures, HttpTarget, LoadPlan, Options, Template, Watched};
use lookaside_load::processes::Usage;

use self::report::Report;
use self::stop::Stop;
use crate::failure::{CommandResult, Failure};
use crate::progress::bar;

/// Send requests to an HTTP/1.1 server and measure its answers
///
/// Requests are sent as fast as they are answered, or at a fixed rate; then latencies are measured
/// from when a request was due, even if it could not be sent at that time. Each connection sends
/// one of the given requests, and the next one when it is reopened. In paths, bodies and files,
/// {RAND:1:050} is a random number from 1 to 50, padded with zeros to the width of 050, {SEQ:7}
/// counts up from 7 over all connections, and {LENGTH} is the size of the body.
///
/// CPU time is that of the processes between the warm-up and the end, in microseconds per answer.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo bench-lookaside http http://127.0.0.1:8300/v1/lookup/asn?ip=8.8.8.8
  cargo bench-lookaside http unix:/run/lookaside.sock --get /healthz --depth 16
  cargo bench-lookaside http 127.0.0.1:8080 --get /items/{RAND:1:50000} --rate 20000 \\
      --server-pid $(pidof server) --json
  cargo bench-lookaside http 127.0.0.1:8080 --post /items --body '{\"id\":{SEQ:100001}}' --expect-status 201")]
pub(crate) struct HttpArguments {
    /// The server, as http://HOST:PORT, HOST:PORT or unix:PATH; a path after it is requested by GET
    #[arg(value_name = "ADDRESS")]
    target: String,
    /// A path to request by GET; can be repeated.
    #[arg(long, value_name = "PATH")]
    get: Vec<String>,
    /// A path to POST the body to; can be repeated.
    #[arg(long, value_name = "PATH", requires = "body_given")]
    post: Vec<String>,
    /// The body of --post.
    #[arg(long, value_name = "TEXT", group = "body_given")]
    body: Option<String>,
    /// A file that holds the body of --post.
    #[arg(long, value_name = "FILE", group = "body_given")]
    body_file: Option<PathBuf>,
    /// A header of --get and --post; can be repeated.
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// A file with the bytes of a complete request; can be repeated.
    #[arg(long, value_name = "FILE")]
    template: Vec<PathBuf>,
    /// Use the next of several requests for each request instead of for each connection.
    #[arg(long)]
    rotate: bool,
    /// The number of connections.
    #[arg(long, default_value_t = 64, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,
    /// The number of pipelined requests on a connection.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=4096))]
    depth: u16,
    /// Close a connection after this number of answers and open another.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    requests_per_connection: Option<u64>,
    /// Threads that send; one is enough for most servers.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// The duration of the measurement in seconds.
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS", value_parser = seconds)]
    duration: f64,
    /// The duration of the warm-up in seconds.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = seconds)]
    warm_up: f64,
    /// Requests per second, regardless of answers; without this option, the next request is sent
    /// when the previous one is answered.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rate: Option<u64>,
    /// Seconds after which a request without an answer fails.
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS", value_parser = seconds)]
    timeout: f64,
    /// Expected statuses, such as 2xx or 404; any other fails the run.
    #[arg(long, value_name = "STATUS", value_delimiter = ',', default_value = "2xx", value_parser = statuses)]
    expect_status: Vec<RangeInclusive<u16>>,
    /// The body that every answer has to have.
    #[arg(long, value_name = "TEXT")]
    expect_body: Option<String>,
    /// Count the CPU time of this process and its children as the server's.
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Count the CPU time of this process and its children as the database's.
    #[arg(long, value_name = "PID")]
    database_pid: Option<u32>,
    /// The seed of {RAND}.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// One line of JSON.
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "is not a number".to_owned())?;
    let is_time = (0.0..=1e6).contains(&seconds);
    is_time.then_some(seconds).ok_or("is not a time".into())
}

fn statuses(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = match text.strip_suffix("xx") {
        Some(class) => (format!("{class}00"), format!("{class}99")),
        None => (text.to_owned(), text.to_owned()),
    };
    match (first.parse(), last.parse()) {
        (Ok(first @ 100..1000), Ok(last)) => Ok(first..=last),
        _ => Err("is neither a status such as 404 nor a class such as 2xx".into()),
    }
}

pub(crate) fn run(arguments: &HttpArguments) -> CommandResult {
    let plan = arguments.plan()?;
    let watched = arguments.watched()?;
    let unable =
        |error: &(dyn std::error::Error + 'static)| Failure::new("cannot measure").because(error);
    let stop = Stop::listen().map_err(|error| unable(&error))?;
    let bar = bar("{wide_bar} {elapsed} {msg}");
    let (figures, used) =
        lookaside_load::http::run(&plan, watched, stop.flag(), draw(&bar, &plan))?;
    bar.finish_and_clear();
    let report = Report {
        plan: &plan,
        figures: &figures,
        used,
    };
    report
        .print(arguments.json)
        .map_err(|error| unable(&error))?;
    if let Some(code) = stop.exit_code() {
        return Ok(code);
    }
    judge(&plan, &figures)
}

/// Draws the progress of a run, and the rate over the last second: over a shorter time it would
/// change too fast to be read.
fn draw<'a>(bar: &'a ProgressBar, plan: &LoadPlan) -> impl FnMut(Duration, u64) + use<'a> {
    let length = plan.options().warm_up + plan.options().duration;
    bar.set_length(length.as_millis() as u64);
    let mut before = (Duration::ZERO, 0);
    move |elapsed, answer_count| {
        bar.set_position(elapsed.as_millis() as u64);
        let since = elapsed - before.0;
        if since >= Duration::from_secs(1) {
            let rate = (answer_count - before.1) as f64 / since.as_secs_f64();
            bar.set_message(format!("{} answers/s", HumanCount(rate as u64)));
            before = (elapsed, answer_count);
        }
    }
}

/// Fails if the server sent wrong answers, since that invalidates the measurement.
fn judge(plan: &LoadPlan, figures: &Figures) -> CommandResult {
    if let Some((fault, faults)) = figures.faults.iter().max_by_key(|(_, faults)| faults.count) {
        let count = figures.fault_count();
        let failure = Failure::new(format!(
            "{count} requests failed, most by {}, the first: {}",
            fault.name(),
            faults.first
        ));
        return Err(match fault {
            Fault::Status => {
                failure.with_help("--expect-status 2xx,404 says which statuses are expected")
            }
            _ => failure,
        });
    }
    if figures.answer_count() == 0 {
        return Err(Failure::new(format!("{} answered nothing", plan.target()))
            .with_help("let the run take longer, or look whether the server is well"));
    }
    Ok(ExitCode::SUCCESS)
}

impl HttpArguments {
    fn plan(&self) -> Result<LoadPlan, Failure> {
        let target = HttpTarget::parse(&self.target)?;
        let templates = self.templates(&target)?;
        let options = Options {
            connection_count: self.connections as usize,
            depth: self.depth.into(),
            requests_per_connection: self.requests_per_connection,
            thread_count: self.threads.into(),
            rotates: self.rotate,
            rate: self.rate,
            warm_up: Duration::from_secs_f64(self.warm_up),
            duration: Duration::from_secs_f64(self.duration),
            timeout: Duration::from_secs_f64(self.timeout),
            statuses: self.expect_status.clone(),
            expected_body: self.expect_body.clone().map(String::into_bytes),
            seed: self.seed,
        };
        Ok(LoadPlan::new(target, templates, options)?)
    }

    fn templates(&self, target: &HttpTarget) -> Result<Vec<Template>, Failure> {
        let made_up = |method: &str, path: &str, body: Option<&str>| {
            Template::new(method, path, target.host(), &self.header, body)
                .map_err(|error| Failure::usage(format!("{method} {path}: {error}")))
        };
        let body = match &self.body_file {
            Some(file) => Some(read(file).and_then(|bytes| {
                String::from_utf8(bytes).map_err(|error| unreadable(file, &error))
            })?),
            None => self.body.clone(),
        };
        let mut templates = Vec::new();
        let given = self.get.iter().map(String::as_str);
        for path in target.path().into_iter().chain(given) {
            templates.push(made_up("GET", path, None)?);
        }
        for path in &self.post {
            templates.push(made_up("POST", path, body.as_deref())?);
        }
        for file in &self.template {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let template = Template::parse(&name, &read(file)?)
                .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
            templates.push(template);
        }
        if templates.is_empty() {
            return Err(Failure::usage("there is no request to send").with_help(
                "name a path by --get PATH, or a file with a request by --template FILE",
            ));
        }
        Ok(templates)
    }

    fn watched(&self) -> Result<Watched, Failure> {
        for (option, pid) in [
            ("--server-pid", self.server_pid),
            ("--database-pid", self.database_pid),
        ] {
            if let Some(pid) = pid
                && Usage::of(pid).is_none()
            {
                return Err(Failure::usage(format!(
                    "{option} {pid}: there is no such process"
                )));
            }
        }
        Ok(Watched {
            server: self.server_pid,
            database: self.database_pid,
        })
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(file).map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &Path, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::usage(format!("cannot read {}", file.display())).because(error)
}
