//! Reason phrases, and the bodies of error responses: problems by RFC 9457, so that applications
//! can use the same format for all errors.

use crate::parse::Refusal;

/// The media type of a problem.
pub(crate) const PROBLEM_TYPE: &str = "application/problem+json";

/// A problem that is rendered at compile time, so that a refusal only costs a copy.
macro_rules! problem {
    ($status:literal, $title:literal $(, $detail:literal)?) => {
        concat!(
            "{\"type\":\"about:blank\",\"title\":\"", $title, "\",\"status\":", $status,
            $(",\"detail\":\"", $detail, "\"",)? "}",
        )
    };
}

macro_rules! statuses {
    ($($status:literal $name:literal,)*) => {
        /// The reason phrase of a status (RFC 9110, 15; RFC 6585).
        pub(crate) fn reason(status: u16) -> &'static str {
            match status {
                $($status => $name,)*
                // Clients ignore the phrase (RFC 9112, 4).
                _ => "Status",
            }
        }

        /// A problem with only a status.
        pub(crate) fn problem(status: u16) -> &'static str {
            match status {
                $($status => problem!($status, $name),)*
                _ => "{\"type\":\"about:blank\",\"title\":\"Status\"}",
            }
        }
    };
}

statuses! {
    200 "OK",
    201 "Created",
    202 "Accepted",
    203 "Non-Authoritative Information",
    204 "No Content",
    205 "Reset Content",
    206 "Partial Content",
    300 "Multiple Choices",
    301 "Moved Permanently",
    302 "Found",
    303 "See Other",
    304 "Not Modified",
    307 "Temporary Redirect",
    308 "Permanent Redirect",
    400 "Bad Request",
    401 "Unauthorized",
    403 "Forbidden",
    404 "Not Found",
    405 "Method Not Allowed",
    406 "Not Acceptable",
    408 "Request Timeout",
    409 "Conflict",
    410 "Gone",
    411 "Length Required",
    412 "Precondition Failed",
    413 "Content Too Large",
    414 "URI Too Long",
    415 "Unsupported Media Type",
    416 "Range Not Satisfiable",
    417 "Expectation Failed",
    421 "Misdirected Request",
    422 "Unprocessable Content",
    425 "Too Early",
    426 "Upgrade Required",
    428 "Precondition Required",
    429 "Too Many Requests",
    431 "Request Header Fields Too Large",
    500 "Internal Server Error",
    501 "Not Implemented",
    502 "Bad Gateway",
    503 "Service Unavailable",
    504 "Gateway Timeout",
    505 "HTTP Version Not Supported",
}

/// The problem of a request that the server itself refuses, with a hint.
pub(crate) fn refusal_problem(refusal: Refusal) -> &'static str {
    match refusal.0 {
        400 => problem!(
            400,
            "Bad Request",
            "the request is not a valid HTTP/1.1 request, or is ambiguous"
        ),
        408 => problem!(
            408,
            "Request Timeout",
            "the request was sent too slowly; send it without pauses"
        ),
        413 => problem!(
            413,
            "Content Too Large",
            "the body is too long; send less in one request"
        ),
        414 => problem!(
            414,
            "URI Too Long",
            "the target is too long; send long values in a body"
        ),
        417 => problem!(
            417,
            "Expectation Failed",
            "the only supported expectation is 100-continue"
        ),
        431 => problem!(
            431,
            "Request Header Fields Too Large",
            "there are too many headers, or they are too long; omit cookies, for example"
        ),
        501 => problem!(
            501,
            "Not Implemented",
            "the method or the transfer coding is not supported: CONNECT is not, and chunked is the only coding"
        ),
        505 => problem!(
            505,
            "HTTP Version Not Supported",
            "this server supports HTTP/1.1 and HTTP/1.0"
        ),
        status => problem(status),
    }
}

/// The problem of a body longer than `size_max` bytes, with its length if known; `is_usual` is
/// whether that limit is the [`body_size_max`](crate::Options::body_size_max) of the server.
pub(crate) fn too_long_problem(size: Option<u64>, size_max: u64, is_usual: bool) -> String {
    let limit = match is_usual {
        true => " (body_size_max)",
        false => "",
    };
    let detail = match size {
        Some(size) => format!("the body has {size} bytes; the maximum is {size_max}{limit}"),
        None => format!("the body has more than {size_max} bytes{limit}, the maximum"),
    };
    format!(
        "{{\"type\":\"about:blank\",\"title\":\"Content Too Large\",\"status\":413,\
         \"detail\":\"{detail}; send less in one request\"}}"
    )
}

/// The problem of a plaintext request on a TLS port.
pub(crate) const PLAIN_PROBLEM: &str = problem!(
    400,
    "Bad Request",
    "this port requires HTTPS, but the request is plaintext; write https:// before the address"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_have_the_members_of_the_rfc() {
        assert_eq!(
            problem(404),
            r#"{"type":"about:blank","title":"Not Found","status":404}"#
        );
        assert_eq!(
            refusal_problem(Refusal(505)),
            r#"{"type":"about:blank","title":"HTTP Version Not Supported","status":505,"detail":"this server supports HTTP/1.1 and HTTP/1.0"}"#
        );
        for status in 400..600 {
            for text in [problem(status), refusal_problem(Refusal(status))] {
                let title = format!(r#"{{"type":"about:blank","title":"{}""#, reason(status));
                assert!(text.starts_with(&title), "{text}");
                let number = format!(r#","status":{status}"#);
                assert!(
                    reason(status) == "Status" || text.contains(&number),
                    "{text}"
                );
            }
        }
    }
}
