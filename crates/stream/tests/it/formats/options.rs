//! Formats by name: what is refused, and the error messages.

use lookaside_stream::{ErrorKind, InputFormat, OutputFormat};

use super::support::{check, options};

#[test]
fn mistakes_are_named_with_the_way_out() {
    for (format, pairs, expected) in [
        (
            "jsno",
            &[][..],
            "unknown input format `jsno`; did you mean `json`?",
        ),
        (
            "protobuf",
            &[],
            "unknown input format `protobuf`; there are: json, csv, kv, access, syslog, regex, raw",
        ),
        (
            "csv",
            &[("delimeter", ";")],
            "format `csv` has no option `delimeter`; did you mean `delimiter`?",
        ),
        (
            "json",
            &[("delimiter", ";")],
            "format `json` has no option `delimiter`; there are: line_size_max",
        ),
        (
            "csv",
            &[("delimiter", ";;")],
            "format `csv`, option `delimiter`: `;;` is not one ASCII character other than a quote, a backslash and a line end",
        ),
        (
            "csv",
            &[("header", "no")],
            "format `csv`, option `header`: `no` is not `true` or `false`",
        ),
        (
            "csv",
            &[("header", "false")],
            "format `csv` needs the option `columns`: without a header, `columns` must name the fields",
        ),
        (
            "csv",
            &[("columns", "a,,b")],
            "format `csv`, option `columns`: `a,,b` is not a list of different names separated by commas",
        ),
        (
            "kv",
            &[("value_separator", "blank")],
            "format `kv`, option `value_separator`: ` ` is not a character other than `pair_separator` and the blank",
        ),
        (
            "syslog",
            &[("year", "now")],
            "format `syslog`, option `year`: `now` is not `clock` or a year",
        ),
        (
            "regex",
            &[],
            "format `regex` needs the option `pattern`: a regular expression with named groups, as in `^(?<ip>\\S+) (?<msg>.*)$`",
        ),
        (
            "regex",
            &[("pattern", "(a)")],
            "format `regex`, option `pattern`: `(a)` is not a regular expression with named groups, as in `^(?<ip>\\S+) (?<msg>.*)$`",
        ),
        (
            "regex",
            &[("pattern", "(")],
            "format `regex`, option `pattern`: this is not a regular expression",
        ),
        (
            "raw",
            &[("line_size_max", "16M")],
            "format `raw`, option `line_size_max`: `16M` is not a number of bytes",
        ),
    ] {
        let error = InputFormat::new(format, &options(pairs)).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::Misuse, expected)
        );
    }
    let error = OutputFormat::new("csv", &options(&[("extra", "drop")])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "format `csv`, option `extra`: `drop` is not `reject` or `ignore`"
    );
    let error = OutputFormat::new("syslog", &options(&[])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown output format `syslog`; there are: json, csv, kv, raw"
    );
}

#[test]
fn every_format_knows_its_name() {
    for name in InputFormat::NAMES {
        let pairs: &[_] = if name == "regex" {
            &[("pattern", "(?<a>.)")]
        } else {
            &[]
        };
        assert_eq!(
            InputFormat::new(name, &options(pairs)).unwrap().name(),
            name
        );
    }
    for name in OutputFormat::NAMES {
        assert_eq!(OutputFormat::new(name, &options(&[])).unwrap().name(), name);
    }
}

#[test]
fn long_lines_are_rejects() {
    let limit = ("line_size_max", "8");
    check(
        "raw",
        &[limit],
        "12345678\r\n123456789\nx",
        "1 raw:text=12345678\n3 raw:text=x\n2! longer than 8 bytes",
    );
    check(
        "csv",
        &[limit, ("columns", "a,b")],
        "1,2\n\"12\n\n\",345\n3,4\n",
        "1 a:text=1 b:text=2\n5 a:text=3 b:text=4\n2! longer than 8 bytes",
    );
}
