//! Error responses as `application/problem+json` (RFC 9457).

use std::borrow::Cow;
use std::fmt::Write as _;

use lookaside_http::Method;
use lookaside_knowledge::{Error, ErrorKind};
use lookaside_value::{LookupError, LookupErrorKind, write_json_text};

use super::params::{BatchFault, Param, ParamFault, SET_COUNT_MAX};
use crate::config::ParamType;

/// The media type.
pub(crate) const PROBLEM_TYPE: &str = "application/problem+json";

/// Where to find a cause that the client may not see.
const MORE: &str = "the server's log has the details; with error_detail = true in [server], they \
                    are \
     shown here";

const REJECTED_QUERY: &str = "the database rejected the query";
const NO_ANSWER: &str = "the database behind this lookup does not answer";
const LIMIT_REACHED: &str = "a limit was reached";

/// Why a request failed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    /// A sentence that does not depend on the request.
    title: &'static str,
    /// What happened in this case, and a hint, fit for every client: no SQL, no URL, no path.
    detail: Option<Box<str>>,
    /// The full cause, which replaces the detail for clients that may see it, see
    /// [`Self::visible_detail`].
    cause: Option<Box<str>>,
    /// Which parameters are wrong.
    faults: Box<[ParamFault]>,
    /// The parameter set of a batch that is wrong, counted from 0.
    set: Option<usize>,
    /// Seconds after which a retry may succeed.
    pub(crate) retry_after: Option<u64>,
    /// Methods that are allowed.
    pub(crate) allow: Option<&'static [Method]>,
}

impl Problem {
    pub(crate) fn new(status: u16, title: &'static str) -> Self {
        Self {
            status,
            title,
            detail: None,
            cause: None,
            faults: Box::default(),
            set: None,
            retry_after: None,
            allow: None,
        }
    }

    pub(crate) fn detail(mut self, detail: impl Into<Box<str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds a cause that may contain SQL, host names and paths; it is shown only with
    /// `error_detail`.
    pub(crate) fn cause(mut self, cause: impl Into<Box<str>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn allow(mut self, methods: &'static [Method]) -> Self {
        self.allow = Some(methods);
        self
    }

    pub(crate) fn params(faults: Vec<ParamFault>) -> Self {
        Self {
            faults: faults.into(),
            ..Self::new(400, "a parameter is missing, unknown or of the wrong type")
        }
    }

    /// Sets the parameter set of a batch that it is about, counted from 0.
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
                ..Self::new(400, "the body is invalid for this lookup")
                    .detail(format!("{message}; {}", body_wanted(params)))
            },
            BatchFault::Cancelled => Self::cancelled(),
            BatchFault::TooMany => Self::new(413, "too many parameter sets in one request")
                .detail(format!("{} at most; send several requests", SET_COUNT_MAX)),
        }
    }

    /// Converts a database error. Its text may contain SQL and host names.
    pub(crate) fn of_error(error: &Error) -> Self {
        let problem = match error.kind() {
            ErrorKind::Refused => Self::new(422, REJECTED_QUERY),
            ErrorKind::Unavailable => Self::new(503, NO_ANSWER).retry_after(1),
            ErrorKind::Cancelled => return Self::cancelled(),
            ErrorKind::LimitReached => Self::new(503, LIMIT_REACHED).retry_after(1),
            _ => Self::new(500, "the lookup failed"),
        };
        problem.about(error).cause(chain(error))
    }

    /// Converts an error of a lookup within a model.
    pub(crate) fn of_lookup_error(error: &LookupError) -> Self {
        let source = std::error::Error::source(error);
        if let Some(error) = source.and_then(<dyn std::error::Error>::downcast_ref::<Error>) {
            return Self::of_error(error);
        }
        let problem = match error.kind() {
            LookupErrorKind::Unavailable => Self::new(503, NO_ANSWER).retry_after(1),
            LookupErrorKind::LimitReached => Self::new(503, LIMIT_REACHED).retry_after(1),
            _ => Self::new(422, REJECTED_QUERY),
        };
        problem.cause(chain(error))
    }

    /// Adds the details of an error that every client may see.
    fn about(self, error: &Error) -> Self {
        match (error.provider_name(), error.query_timeout_limit()) {
            (Some(name), _) => self.detail(format!("provider {name} does not answer")),
            (None, Some(limit)) => self.detail(format!(
                "the query took longer than [local] query_timeout_ms, which is {}",
                limit.as_millis()
            )),
            (None, None) => self,
        }
    }

    /// The problem of a cancelled request: its client is gone, or the server ends.
    pub(crate) fn cancelled() -> Self {
        Self::new(503, "the query was cancelled before it was answered").retry_after(1)
    }

    /// The problem of a lookup whose provider has never responded, with the error.
    pub(crate) fn not_ready(error: Option<&Error>) -> Self {
        let problem =
            Self::new(503, "the database behind this lookup has not answered yet").retry_after(1);
        match error {
            Some(error) => problem.about(error).cause(chain(error)),
            None => problem,
        }
    }

    /// The problem of a model with lookups whose providers have never responded, with the errors.
    pub(crate) fn model_not_ready<'e>(
        model: &str,
        errors: impl Iterator<Item = &'e Error>,
    ) -> Self {
        let mut detail = format!("the model {model} is tried again every second");
        let mut cause = detail.clone();
        let mut providers: Vec<&str> = Vec::new();
        for error in errors {
            let name = error.provider_name().unwrap_or_default();
            // Each provider is listed once.
            if !providers.contains(&name) {
                providers.push(name);
                detail.push_str(&format!("; provider {name} does not answer"));
                cause.push_str(&format!("; {}", chain(error)));
            }
        }
        Self::new(503, "a database behind this model has not answered yet")
            .retry_after(1)
            .detail(detail)
            .cause(cause)
    }

    /// The title.
    pub(crate) fn title(&self) -> &'static str {
        self.title
    }

    /// The text that a client gets beside the title, if any. Only this function decides whether
    /// that includes the cause, by `error_detail` of `[server]`.
    pub(crate) fn visible_detail(&self, error_detail: bool) -> Option<&str> {
        let cause = self.cause.as_deref().filter(|_| error_detail);
        cause.or(self.detail.as_deref())
    }

    /// The same in one line, with the title if there is nothing else.
    pub(crate) fn line(&self, error_detail: bool) -> Cow<'_, str> {
        match (self.visible_detail(error_detail), &self.cause) {
            (Some(text), _) => text.into(),
            (None, Some(_)) => format!("{}; {MORE}", self.title).into(),
            (None, None) => self.title.into(),
        }
    }

    /// Appends the body; causes are included only if `error_detail` is set.
    pub(crate) fn write(&self, error_detail: bool, out: &mut Vec<u8>) {
        let mut text = String::from("{\"type\":\"about:blank\",\"title\":");
        write_json_text(self.title, &mut text);
        write!(text, ",\"status\":{}", self.status).expect("a string takes any text");
        let detail = match (self.visible_detail(error_detail), &self.cause) {
            (Some(text), Some(_)) if !error_detail => Some(format!("{text}; {MORE}").into()),
            (None, Some(_)) => Some(MORE.into()),
            (text, _) => text.map(Cow::Borrowed),
        };
        if let Some(detail) = detail {
            text.push_str(",\"detail\":");
            write_json_text(&detail, &mut text);
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

/// Describes the expected body of a batch.
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
    format!("the body must be a JSON array of parameter sets, [{set}], or one such set per line")
}

/// An error and its sources in one line.
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
    fn a_cause_is_for_clients_that_may_read_it() {
        let visible_detail = |problem: &Problem, error_detail| {
            let mut out = Vec::new();
            problem.write(error_detail, &mut out);
            let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
            json["detail"].as_str().unwrap_or_default().to_owned()
        };
        let problem = Problem::new(503, "away").cause("postgres://u@h/d: select 1");
        assert_eq!(visible_detail(&problem, true), "postgres://u@h/d: select 1");
        assert_eq!(visible_detail(&problem, false), MORE);
        let problem = problem.detail("provider p does not answer");
        assert_eq!(visible_detail(&problem, true), "postgres://u@h/d: select 1");
        assert_eq!(
            visible_detail(&problem, false),
            format!("provider p does not answer; {MORE}")
        );
        let problem = Problem::new(400, "wrong").detail("write it so");
        assert_eq!(
            visible_detail(&problem, true),
            visible_detail(&problem, false)
        );
    }

    #[test]
    fn a_problem_is_json() {
        let faults = vec![ParamFault {
            name: "i\"p".to_owned(),
            problem: "is missing".into(),
        }];
        let mut out = Vec::new();
        Problem::batch(BatchFault::Set(3, faults), &[]).write(false, &mut out);
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["status"], 400);
        assert_eq!(json["set"], 3);
        assert_eq!(json["parameters"][0]["name"], "i\"p");
        assert_eq!(json["parameters"][0]["problem"], "is missing");
        out.clear();
        Problem::new(404, "no row").write(false, &mut out);
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["title"], "no row");
        assert_eq!(json.get("detail"), None);
    }
}
