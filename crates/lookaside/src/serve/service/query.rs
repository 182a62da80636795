//! `POST /v1/query`: a statement that is no lookup, where the configuration allows it.

use lookaside_http::{Reply, Request};
use lookaside_knowledge::{Knowledge, Policy, RowSet};
use serde_json::{Map, Value as Json};

use super::super::encode::{Encoder, Form};
use super::super::params::{Param, ParamType, read_named};
use super::super::problem::Problem;
use super::head::form;
use super::wait::Ready;
use super::{Thread, Visit};

/// Header that says after how many rows the answer was cut.
const CUT: &str = "X-Rows-Cut";

impl Thread {
    pub(super) fn query(&mut self, mut visit: Visit, request: &Request<'_>, reply: Reply<'_>) {
        let face = &self.face;
        let Some(rows_max) = face.catalog.query_rows_max else {
            let problem = Problem::new(403, "ad-hoc queries are switched off")
                .detail("query_rows_max in [server] switches them on");
            return face.refuse(visit, Some(request), reply, &problem);
        };
        let prepared = form(request, &Form::ALL).and_then(|form| Ok((form, read(request.body())?)));
        let (form, (sql, params)) = match prepared {
            Ok(prepared) => prepared,
            Err(problem) => return face.refuse(visit, Some(request), reply, &problem),
        };
        if let Err(problem) = face.begin_waiting() {
            return face.refuse(visit, Some(request), reply, &problem);
        }
        face.note(&mut visit, request);
        let knowledge = face.shared.knowledge.clone();
        // Whoever writes SQL is told what is wrong with it.
        let later = self.face.later(visit, reply.defer());
        self.face.shared.runtime.spawn_blocking(move || {
            let rows = ask(&knowledge, &sql, &params, rows_max);
            let rows = rows.map_err(|error| Problem::of_error(&error, true));
            later.answer(rows.map(|rows| write(&rows, form, rows_max)));
        });
    }
}

/// The statement and its parameters.
fn read(body: &[u8]) -> Result<(String, Map<String, Json>), Problem> {
    let wanted = || {
        Problem::new(400, "the body is no query")
            .detail("write {\"sql\": \"select … where … = :key\", \"params\": {\"key\": 1}}")
    };
    let json: Json = serde_json::from_slice(body).map_err(|_| wanted())?;
    let Json::Object(mut query) = json else {
        return Err(wanted());
    };
    let (sql, params) = (query.remove("sql"), query.remove("params"));
    let params = match params {
        None => Some(Map::new()),
        Some(Json::Object(params)) => Some(params),
        Some(_) => None,
    };
    match (sql, params, query.is_empty()) {
        (Some(Json::String(sql)), Some(params), true) => Ok((sql, params)),
        _ => Err(wanted()),
    }
}

/// All rows up to one more than are given.
fn ask(
    knowledge: &Knowledge,
    sql: &str,
    params: &Map<String, Json>,
    rows_max: usize,
) -> lookaside_knowledge::Result<RowSet> {
    // The line break ends a comment that the statement may end with.
    let text = sql.trim_end().trim_end_matches(';');
    let limited = format!(
        "select * from (\n{text}\n) as answer limit {}",
        rows_max + 1
    );
    let names: Vec<Param> = params
        .keys()
        .map(|name| Param {
            name: name.as_str().into(),
            kind: ParamType::Any,
        })
        .collect();
    let values = read_named(params, &names).expect("each name is there once, with any value");
    let named: Vec<_> = params.keys().map(String::as_str).zip(values).collect();
    // Such a statement is asked once; its answer would push others out of the cache.
    knowledge.query_all_with(&limited, named.as_slice(), Policy::Bypass)
}

fn write(rows: &RowSet, form: Form, rows_max: usize) -> Ready {
    let mut encoder = Encoder::default();
    encoder.set_columns(rows.columns());
    let mut body = Vec::new();
    let count = rows.len().min(rows_max);
    encoder.rows(form, (0..count).map(|index| rows.row(index)), &mut body);
    Ready {
        content_type: form.content_type(),
        body,
        layer: None,
        age: None,
        extra: (rows.len() > rows_max).then_some((CUT, rows_max as u64)),
    }
}
