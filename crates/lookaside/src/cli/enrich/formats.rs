//! Formats of inputs and outputs, by their names and options.

use std::path::Path;

use lookaside_stream::{FormatOptions, Sink};

use crate::failure::Failure;

/// The options of a format: those of the project, and those of flags.
pub(super) fn merged(settings: &[(String, String)], flags: &[(String, String)]) -> FormatOptions {
    let all = settings.iter().chain(flags);
    let none = FormatOptions::new().advised_as("--output-option ");
    all.fold(none, |options, (name, value)| options.set(name, value))
}

/// The hint if the name of an output implies no format.
const NAME_THE_FORMAT: &str = "name the format with --output-format: json, csv, kv or raw";

/// The format implied by the name of an output, if none is given. A name whose extension may mean
/// another format is refused, since it would get JSON.
pub(super) fn format_of_name(output: &str) -> Result<&'static str, Failure> {
    // An address; schemes other than `tcp` are refused when it is opened.
    if output.contains("://") {
        return Ok("json");
    }
    Sink::check_name(output).map_err(|error| Failure::from_error(&error))?;
    let name = output.to_ascii_lowercase();
    let name = [".gz", ".zst"]
        .iter()
        .find_map(|packed| name.strip_suffix(packed))
        .unwrap_or(&name);
    let suffix = Path::new(name).extension().and_then(|it| it.to_str());
    // Dates, numbers of rotated files and versions.
    let is_number = |suffix: &str| suffix.starts_with(|char: char| char.is_ascii_digit());
    let (reason, help) = match suffix {
        None | Some("json" | "jsonl" | "ndjson" | "log" | "txt") => return Ok("json"),
        Some("csv") => return Ok("csv"),
        Some(suffix) if is_number(suffix) => return Ok("json"),
        Some("tsv") => (
            ".tsv is not a format".to_owned(),
            "write --output-format csv --output-option delimiter=tab",
        ),
        Some("") => ("it ends in a dot".to_owned(), NAME_THE_FORMAT),
        Some(suffix) => (format!(".{suffix} does not name a format"), NAME_THE_FORMAT),
    };
    let message = format!("the name of output {output} does not determine its format: {reason}");
    Err(Failure::usage(message).with_help(help))
}

/// An unknown format or option is a usage error if it comes from a flag.
pub(super) fn format_failure(error: &lookaside_stream::Error, is_flag: bool) -> Failure {
    if is_flag {
        Failure::usage(error.to_string()).with_sources(error)
    } else {
        Failure::from_error(error).with_help("correct it in the [enrich] section")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_13_names_of_outputs_say_the_format() {
        for (output, expected) in [
            ("-", Some("json")),
            ("null", Some("json")),
            ("tcp://127.0.0.1:1", Some("json")),
            ("out.csv", Some("csv")),
            ("out.CSV.gz", Some("csv")),
            ("out.json", Some("json")),
            ("csv", Some("json")),
            ("out.JSONL", Some("json")),
            ("out.log.zst", Some("json")),
            ("events.txt", Some("json")),
            ("events.2026-11-25", Some("json")),
            ("events.1.gz", Some("json")),
            ("out.d/events", Some("json")),
            ("tcp://host.example:1", Some("json")),
            ("https://host.example", Some("json")),
            ("out.tsv", None),
            ("out.yaml.zst", None),
            ("out.pb", None),
            ("out.kv", None),
            ("out.parquet.gz", None),
            ("out.", None),
            ("out..gz", None),
        ] {
            assert_eq!(format_of_name(output).ok(), expected, "{output}");
        }
    }
}
