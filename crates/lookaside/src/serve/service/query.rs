//! `POST /v1/query`: a statement that is not a lookup, if the configuration allows it.

use lookaside_http::{Reply, Request};
use lookaside_knowledge::{Error, ErrorKind, Policy, RowSet, Session, Text, Value};
use serde::Deserialize;
use tracing::warn;

use super::super::encode::{BodyFormat, Encoder};
use super::super::params::{Named, ParamFault, without_negative_zeros};
use super::super::problem::{Problem, chain};
use super::decoding::{content_coding, decode};
use super::head::negotiate_format;
use super::wait::{Ready, rows_size};
use super::{RequestContext, SMALL_BODY_SIZE_MAX, Thread};
use crate::columns::{DOUBLED_HELP, doubled};

/// Header with the number of rows after which the answer was cut.
const CUT: &str = "X-Rows-Cut";

impl Thread {
    pub(super) fn query(
        &mut self,
        mut context: RequestContext,
        request: &Request<'_>,
        reply: Reply<'_>,
    ) {
        let responder = &self.responder;
        let Some(rows_max) = responder.catalog.query_rows_max else {
            return responder.refuse(context, Some(request), reply, &switched_off());
        };
        let prepared = negotiate_format(request, &BodyFormat::ALL).and_then(|format| {
            let query = match content_coding(request)? {
                Some(coding) => read(&decode(coding, request.body(), SMALL_BODY_SIZE_MAX)?),
                None => read(request.body()),
            };
            Ok((format, query?))
        });
        let (format, (sql, params)) = match prepared {
            Ok(prepared) => prepared,
            Err(problem) => return responder.refuse(context, Some(request), reply, &problem),
        };
        if let Err(problem) = responder.begin_waiting(request.body().len()) {
            return responder.refuse(context, Some(request), reply, &problem);
        }
        responder.keep_log_fields(&mut context, request);
        let ticket = reply.defer();
        let mut deferred = self.responder.deferred_answer(context, ticket);
        deferred.share().set(sql.len());
        self.hand_over(ticket, move |session| {
            let rows = ask(session, &sql, &params, rows_max);
            let ready = rows.map_err(|error| failed(&error)).and_then(|rows| {
                deferred.share().grow(rows_size(&rows))?;
                write(&rows, format, rows_max)
            });
            deferred.answer(ready);
        });
    }
}

pub(super) fn switched_off() -> Problem {
    Problem::new(403, "ad-hoc queries are disabled")
        .detail("set query_rows_max in [server] to enable them")
}

/// The body of a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    sql: String,
    #[serde(default)]
    params: Named,
}

/// The statement and its parameters.
pub(super) fn read(body: &[u8]) -> Result<(String, Vec<(String, Value)>), Problem> {
    let wanted = |problem: &str| {
        Problem::new(400, "the body is not a query").detail(format!(
            "{problem}; write {{\"sql\": \"select … where … = :key\", \"params\": {{\"key\": 1}}}}"
        ))
    };
    // Serde would accept the fields as an array, too.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(wanted("it is not a JSON object"));
    }
    let body = without_negative_zeros(body);
    let query: Query = serde_json::from_slice(&body).map_err(|error| wanted(&error.to_string()))?;
    match query.params.faults.is_empty() {
        true => Ok((query.sql, query.params.values)),
        false => Err(Problem::params(query.params.faults)),
    }
}

/// Queries one row more than the limit of the answer.
fn ask(
    session: &mut Session,
    sql: &str,
    params: &[(String, Value)],
    rows_max: usize,
) -> lookaside_knowledge::Result<RowSet> {
    // The line break ends a comment that the statement may end with.
    let text = sql.trim_end().trim_end_matches(';');
    let limited = format!(
        "select * from (\n{text}\n) as answer limit {}",
        rows_max + 1
    );
    let named = params.iter();
    let named: Vec<_> = named
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    // Such a statement is run once; its answer would evict others from the cache.
    session.query_all_with(&limited, named.as_slice(), Policy::Bypass)
}

/// The problem of a failed query. The full error is logged: the statement is the client's own, but
/// the database's message about it is not for every client.
pub(super) fn failed(error: &Error) -> Problem {
    let fault = |name: &Text, problem: &'static str| ParamFault {
        name: name.to_string(),
        problem: problem.into(),
    };
    let missing = error.missing_params().iter();
    let missing = missing.map(|name| fault(name, "is missing"));
    let unknown = error.unknown_param().into_iter();
    let faults: Vec<_> = missing
        .chain(unknown.map(|name| fault(name, "is not a parameter of the statement")))
        .collect();
    if !faults.is_empty() {
        let detail = "give a value for each :name of the statement in the member \"params\"";
        return Problem::params(faults).detail(detail);
    }
    if error.kind() != ErrorKind::Cancelled {
        warn!(error = chain(error), "a query failed");
    }
    Problem::of_error(error)
}

/// Encodes rows as an answer, cut after `rows_max`.
pub(super) fn write(rows: &RowSet, format: BodyFormat, rows_max: usize) -> Result<Ready, Problem> {
    if let Some(column) = doubled(rows.columns()).filter(|_| format != BodyFormat::Csv) {
        return Err(Problem::new(422, "two columns have one name")
            .detail(format!("it is {column:?}; {DOUBLED_HELP}")));
    }
    let mut encoder = Encoder::default();
    encoder.set_columns(rows.columns());
    let mut body = Vec::new();
    let count = rows.len().min(rows_max);
    encoder.rows(format, (0..count).map(|index| rows.row(index)), &mut body);
    Ok(Ready {
        content_type: format.content_type(),
        body,
        layer: None,
        age: None,
        extra: (rows.len() > rows_max).then_some((CUT, rows_max as u64)),
    })
}
