//! Refusals as `application/problem+json` (RFC 9457).

use std::fmt::Write as _;

use lookaside_knowledge::{Error, ErrorKind};
use lookaside_value::write_json_text;

use super::params::{BatchFault, Param, ParamFault, ParamType, SET_COUNT_MAX};

/// The media type.
pub(crate) const PROBLEM_TYPE: &str = "application/problem+json";

/// Why a request is not answered as it was asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    /// One sentence that is the same whenever this happens.
    title: &'static str,
    /// What happened this time, and the way out.
    detail: Option<String>,
    /// Which parameters are wrong.
    faults: Vec<ParamFault>,
    /// The parameter set of a batch that is wrong, counted from 0.
    set: Option<usize>,
    /// Seconds after which another try may be worth it.
    pub(crate) retry_after: Option<u64>,
    /// Methods that are allowed.
    pub(crate) allow: Option<&'static str>,
}

impl Problem {
    pub(crate) fn new(status: u16, title: &'static str) -> Self {
        Self {
            status,
            title,
            detail: None,
            faults: Vec::new(),
            set: None,
            retry_after: None,
            allow: None,
        }
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn allow(mut self, methods: &'static str) -> Self {
        self.allow = Some(methods);
        self
    }

    pub(crate) fn params(faults: Vec<ParamFault>) -> Self {
        Self {
            faults,
            ..Self::new(400, "a parameter is missing, unknown or of the wrong type")
        }
    }

    /// Says which parameter set of a batch it is about, from 0.
    pub(crate) fn of_set(mut self, index: usize) -> Self {
        self.set = Some(index);
        self
    }

    pub(crate) fn batch(fault: BatchFault, params: &[Param]) -> Self {
        match fault {
            BatchFault::Set(index, faults) => Self {
                set: Some(index),
                ..Self::params(faults)
            },
            BatchFault::Malformed(set, message) => Self {
                set,
                ..Self::new(400, "the body is not what this lookup reads")
                    .detail(format!("{message}; {}", body_wanted(params)))
            },
            BatchFault::TooMany => Self::new(413, "too many parameter sets in one request")
                .detail(format!("{} at most; send several requests", SET_COUNT_MAX)),
        }
    }

    /// What a database did not do. Its words may hold SQL and names of hosts, so they are shown only
    /// where the configuration says so.
    pub(crate) fn of_error(error: &Error, shows_detail: bool) -> Self {
        let problem = match error.kind() {
            ErrorKind::Refused => Self::new(422, "the database refuses this question"),
            ErrorKind::Unavailable => {
                Self::new(503, "the database behind this lookup does not answer").retry_after(1)
            }
            ErrorKind::LimitReached => Self::new(503, "a limit is reached").retry_after(1),
            _ => Self::new(500, "the lookup failed"),
        };
        problem.detail(said(error, shows_detail))
    }

    /// A lookup whose server was never there, and why not.
    pub(crate) fn not_ready(error: Option<&Error>, shows_detail: bool) -> Self {
        let problem =
            Self::new(503, "the database behind this lookup has not answered yet").retry_after(1);
        match error {
            Some(error) => problem.detail(said(error, shows_detail)),
            None => problem,
        }
    }

    /// Its sentence.
    pub(crate) fn title(&self) -> &'static str {
        self.title
    }

    /// Appends the body.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut text = String::from("{\"type\":\"about:blank\",\"title\":");
        write_json_text(self.title, &mut text);
        write!(text, ",\"status\":{}", self.status).expect("a string takes any text");
        if let Some(detail) = &self.detail {
            text.push_str(",\"detail\":");
            write_json_text(detail, &mut text);
        }
        if let Some(set) = self.set {
            write!(text, ",\"set\":{set}").expect("a string takes any text");
        }
        if !self.faults.is_empty() {
            text.push_str(",\"parameters\":[");
            for (index, fault) in self.faults.iter().enumerate() {
                text.push_str(if index == 0 {
                    "{\"name\":"
                } else {
                    ",{\"name\":"
                });
                write_json_text(&fault.name, &mut text);
                text.push_str(",\"problem\":");
                write_json_text(&fault.problem, &mut text);
                text.push('}');
            }
            text.push(']');
        }
        text.push_str("}\n");
        out.extend_from_slice(text.as_bytes());
    }
}

/// What the body of a batch looks like.
fn body_wanted(params: &[Param]) -> String {
    let members = params.iter().map(|param| {
        let mut member = String::new();
        write_json_text(&param.name, &mut member);
        member.push_str(match param.kind {
            ParamType::Int | ParamType::Float => ":1",
            ParamType::Bool => ":true",
            _ => ":\"…\"",
        });
        member
    });
    let set = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
    format!("a body is a JSON array of parameter sets, [{set}], or such a set on each line")
}

/// As much of an error as clients may know.
fn said(error: &Error, shows_detail: bool) -> String {
    const MORE: &str = "the server's log says more; error_detail = true in [server] shows it here";
    match error.provider_name() {
        _ if shows_detail => chain(error),
        Some(name) => format!("provider {name} does not answer; {MORE}"),
        None => MORE.to_owned(),
    }
}

/// An error with what caused it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_json() {
        let faults = vec![ParamFault {
            name: "i\"p".to_owned(),
            problem: "is missing".into(),
        }];
        let mut out = Vec::new();
        Problem::batch(BatchFault::Set(3, faults), &[]).write(&mut out);
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["status"], 400);
        assert_eq!(json["set"], 3);
        assert_eq!(json["parameters"][0]["name"], "i\"p");
        assert_eq!(json["parameters"][0]["problem"], "is missing");
        out.clear();
        Problem::new(404, "no row").write(&mut out);
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["title"], "no row");
        assert_eq!(json.get("detail"), None);
    }
}
