//! Statements that name the provider of their tables.

use lookaside_knowledge::{ErrorKind, Knowledge, PlanKind, Value, params};
use lookaside_value::{Answers, BatchQuery, Lookup, ParamBatch, Text};

use crate::folder::{folder, rows, write_data};

const NATIVE: &str = "select default.t.generation from default.t where default.t.id = :id";
const SQLITE: &str = "select generation from default.t where default.t.id + 0 = :id";

#[test]
fn the_providers_have_names() {
    let folder = folder("", &rows(1, 1));
    let knowledge = Knowledge::open(folder.path()).unwrap();
    assert_eq!(knowledge.provider_names(), ["default"]);
    assert!(knowledge.has_provider("default"));
    assert!(!knowledge.has_provider("t"));
    let (name, sql) = knowledge.route(NATIVE).unwrap();
    assert_eq!(name, "default");
    assert_eq!(sql, "select t.generation from t where t.id = :id");
    assert_eq!(knowledge.route("select id from t"), None);
}

#[test]
fn every_way_in_takes_the_name() {
    let folder = folder("", &rows(3, 1));
    let knowledge = Knowledge::open(folder.path()).unwrap();
    assert_eq!(knowledge.explain(NATIVE).unwrap().kind, PlanKind::Hash);
    assert_eq!(knowledge.explain(SQLITE).unwrap().kind, PlanKind::Sqlite);
    let mut session = knowledge.session();
    for generation in [1, 2] {
        for sql in [NATIVE, SQLITE] {
            let row = knowledge.query_first(sql, &params! {"id" => 2}).unwrap();
            assert_eq!(row.unwrap()[0], Value::Int(generation), "{sql}");
            let all = knowledge.query_all(sql, &params! {"id" => 2}).unwrap();
            assert_eq!(all.len(), 1, "{sql}");
            let statement = knowledge.prepare(sql).unwrap();
            assert_eq!(statement.sql(), sql);
            let row = session.first(&statement, &[Value::Int(3)]).unwrap();
            assert_eq!(row, Some(&[Value::Int(generation)][..]), "{sql}");

            let id = Lookup::prepare(&mut session, sql, &[Text::from("id")]).unwrap();
            let mut batch = ParamBatch::new(1);
            batch.push([Value::Int(1)]);
            let mut answers = Answers::new();
            session.answer(BatchQuery::first(id), &batch, &mut answers);
            let row = answers.row(0).unwrap().unwrap();
            assert_eq!(row[0], Value::Int(generation), "{sql}");
        }
        write_data(folder.path(), &rows(3, generation + 1));
        knowledge.reload().unwrap();
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_known_ones() {
    let folder = folder("", &rows(1, 1));
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let message = |sql: &str| {
        let error = knowledge.query_first(sql, ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        error.to_string()
    };
    let text = message("select id from assets.t");
    assert!(text.contains("no provider is named `assets`"), "{text}");
    assert!(text.contains("the providers are `default`"), "{text}");
    // SQLite itself answers or refuses its own schemas.
    let text = message("select id from main.u");
    assert!(text.contains("no such table: main.u"), "{text}");
    let row = knowledge.query_first("select x.id from main.t as x", ());
    assert_eq!(row.unwrap().unwrap()[0], Value::Int(1));
    let text = message("select id from default.u");
    assert!(text.ends_with("no such table: u; there is `t`"), "{text}");
    let text = message("select T.name\n from default.T");
    assert!(
        text.ends_with("no such column: T.name (line 1, column 8); `t` has `id`, `generation`"),
        "{text}"
    );
}
