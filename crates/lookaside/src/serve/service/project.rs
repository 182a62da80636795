//! Details of the project, for admins: `GET /v1/project`, the first rows of a table, and the plan
//! of a statement.

use lookaside_http::{Reply, Request};
use lookaside_knowledge::{
    Explanation, LoadReport, Policy, Session, StatementDependency, TableInfo, Text,
};
use serde_json::{Value as Json, json};

use super::super::catalog::Catalog;
use super::super::encode::BodyFormat;
use super::super::endpoint::model_name;
use super::super::lookup::Lookup;
use super::super::problem::{Problem, chain};
use super::decoding::{content_coding, decode};
use super::head::negotiate_format;
use super::info::JSON;
use super::query::{failed, read, switched_off, write};
use super::share::Share;
use super::wait::{Ready, rows_size};
use super::{RequestContext, SMALL_BODY_SIZE_MAX, Shared, Thread};
use crate::models::lookups::answered;

/// The number of rows of a table that are shown: enough to see what it contains.
const FIRST_ROW_COUNT: usize = 50;

/// The body of `GET /v1/project`.
pub(super) fn project(shared: &Shared) -> String {
    let catalog = shared.catalog.load();
    let knowledge = &shared.knowledge;
    let report = knowledge.load_report();
    let tables = knowledge.table_infos();
    let tables: Vec<Json> = tables.iter().map(|it| table(it, &report)).collect();
    let lookups: Vec<Json> = catalog.lookups.iter().map(lookup).collect();
    let models = catalog.models.names();
    let models: Vec<Json> = models
        .into_iter()
        .map(|name| model(name, &catalog, shared))
        .collect();
    let project = json!({
        "generation": knowledge.generation(),
        "query_rows_max": catalog.query_rows_max,
        "tables": tables,
        "lookups": lookups,
        "models": models,
    });
    format!("{project}\n")
}

fn table(info: &TableInfo, report: &LoadReport) -> Json {
    let loaded = report.tables.iter().find(|it| it.name == info.name);
    let columns = info.columns.iter();
    let columns = columns.map(|column| json!({"name": column.name, "type": column.declared}));
    json!({
        "name": info.name,
        "kind": if info.is_view { "view" } else { "table" },
        "rows": info.row_count,
        "columns": columns.collect::<Vec<_>>(),
        "warnings": loaded.map(|it| it.warnings.clone()).unwrap_or_default(),
    })
}

fn lookup(lookup: &Lookup) -> Json {
    let explanation = lookup.prepared.as_ref().map(|it| &it.explanation);
    let [found, absent, failed] = lookup.counts.named().map(|(_, count)| count);
    json!({
        "name": lookup.name(),
        "sql": lookup.config.sql,
        "summary": explanation.map(answered),
        "plan": explanation.map(ToString::to_string),
        "tables": explanation.map(Explanation::tables).unwrap_or_default(),
        "found": found,
        "absent": absent,
        "failed": failed,
    })
}

/// What a change feed does for a statement.
fn freshness(dependency: &StatementDependency) -> Json {
    let texts = |texts: &[Text]| Json::from_iter(texts.iter().map(|text| text.as_str()));
    json!({
        "class": dependency.class.name(),
        "tables": texts(&dependency.tables),
        "key_columns": texts(&dependency.key_columns),
        "reason": dependency.reason,
        "help": dependency.help,
    })
}

fn model(name: &str, catalog: &Catalog, shared: &Shared) -> Json {
    let counts = shared.model_counts.of(name);
    let [found, absent, failed] = counts.named().map(|(_, count)| count);
    let silent = catalog.models.find_waiting(name).map(|it| &it.silent);
    // In full, like the SQL above: only admins, or without keys only local clients, get here.
    let waits = silent.map(|silent| match &silent[..] {
        [first, ..] => chain(&first.error),
        [] => "it waits for a provider that has not answered yet".to_owned(),
    });
    json!({
        "name": name,
        "ready": silent.is_none(),
        "waits": waits,
        "example": catalog.models.example(name),
        "found": found,
        "absent": absent,
        "failed": failed,
        "last_failure": counts.last_failure(),
    })
}

impl Thread {
    /// Answers with the first rows of a table or view.
    pub(super) fn table(
        &mut self,
        context: RequestContext,
        name: &str,
        request: &Request<'_>,
        reply: Reply<'_>,
    ) {
        let responder = &self.responder;
        let format = match negotiate_format(request, &BodyFormat::ALL) {
            Ok(format) => format,
            Err(problem) => return responder.refuse(context, Some(request), reply, &problem),
        };
        let name = model_name(name).unwrap_or_default().into_owned();
        let knowledge = responder.shared.knowledge.clone();
        self.answer_deferred(context, request, reply, move |session, share| {
            let tables = knowledge.tables().map_err(|error| failed(&error))?;
            if !tables.contains(&name) {
                return Err(Problem::new(404, "there is no such table")
                    .detail("GET /v1/project lists the folder's tables and views"));
            }
            let quoted = name.replace('"', "\"\"");
            let limit = FIRST_ROW_COUNT + 1;
            let sql = format!("select * from \"{quoted}\" limit {limit}");
            let rows = session
                .query_all_with(&sql, (), Policy::Bypass)
                .map_err(|error| failed(&error))?;
            share.grow(rows_size(&rows))?;
            write(&rows, format, FIRST_ROW_COUNT)
        });
    }

    /// Answers with the plan of a statement.
    pub(super) fn explain(
        &mut self,
        context: RequestContext,
        request: &Request<'_>,
        reply: Reply<'_>,
    ) {
        let responder = &self.responder;
        if responder.catalog.query_rows_max.is_none() {
            return responder.refuse(context, Some(request), reply, &switched_off());
        }
        let sql = content_coding(request).and_then(|coding| {
            Ok(match coding {
                Some(coding) => read(&decode(coding, request.body(), SMALL_BODY_SIZE_MAX)?)?,
                None => read(request.body())?,
            }
            .0)
        });
        let sql = match sql {
            Ok(sql) => sql,
            Err(problem) => return responder.refuse(context, Some(request), reply, &problem),
        };
        self.answer_deferred(context, request, reply, move |session, _| {
            let explanation = session.explain(&sql).map_err(|error| failed(&error))?;
            let mut plan = json!({
                "summary": answered(&explanation),
                "plan": explanation.to_string(),
            });
            if let Some(dependency) = &explanation.dependency {
                plan["freshness"] = freshness(dependency);
            }
            Ok(Ready {
                content_type: JSON,
                body: format!("{plan}\n").into_bytes(),
                layer: None,
                age: None,
                extra: None,
            })
        });
    }

    /// Answers with a document that is made on another thread.
    fn answer_deferred(
        &mut self,
        mut context: RequestContext,
        request: &Request<'_>,
        reply: Reply<'_>,
        make: impl FnOnce(&mut Session, &mut Share) -> Result<Ready, Problem> + Send + 'static,
    ) {
        let responder = &self.responder;
        if let Err(problem) = responder.begin_waiting(request.body().len()) {
            return responder.refuse(context, Some(request), reply, &problem);
        }
        responder.keep_log_fields(&mut context, request);
        let ticket = reply.defer();
        let mut deferred = self.responder.deferred_answer(context, ticket);
        self.hand_over(ticket, move |session| {
            let ready = make(session, deferred.share());
            deferred.answer(ready);
        });
    }
}
