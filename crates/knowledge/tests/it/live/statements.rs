//! Valid statements, and the errors about invalid ones.

use lookaside_knowledge::{ErrorKind, Knowledge, PlanKind, Policy, Value, params};
use tempfile::TempDir;

use super::{TEN_THOUSAND, add_local_table, open, postgres, project, write_project};

fn refusal(knowledge: &Knowledge, sql: &str) -> String {
    let error = knowledge.query_all(sql, ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    error.to_string()
}

#[test]
fn values_are_converted_to_what_the_server_declares() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    postgres
        .execute("create table hosts (net inet, seen timestamptz, id uuid, ok bool, n numeric, tags text[])")
        .unwrap();
    postgres
        .execute(
            "insert into hosts values ('10.0.0.0/8', '2026-01-02 03:04:05Z', \
             '00000000-0000-0000-0000-000000000001', true, 1.50, '{a,b}')",
        )
        .unwrap();
    let folder = project(&postgres.url(), "", "");
    let knowledge = open(&folder);
    // As text, as from a command line or a URL, and as numbers.
    for id in [Value::from("42"), Value::Int(42), Value::from(42.0)] {
        let sql = "select name from t where id = :id";
        let row = knowledge
            .query_first(sql, &params! {"id" => id.clone()})
            .unwrap();
        assert_eq!(row.unwrap()[0], Value::from("n42"), "{id:?}");
    }
    let sql = "select n, tags[1:1] as tags, tags[:first::int] as tag, net >> :ip as inside from hosts \
        where seen > :since and id = :id and ok = :ok and n = :n and 'a' = any(tags) -- :no";
    let params = params! {
        "ip" => "10.1.2.3",
        "since" => "2026-01-01",
        "id" => "00000000-0000-0000-0000-000000000001",
        "ok" => "true",
        "n" => "1.5",
        "first" => "2",
    };
    let row = knowledge.query_first(sql, &params).unwrap().unwrap();
    assert_eq!(
        row.value("tags"),
        Some(&Value::from(vec![Value::from("a")]))
    );
    assert_eq!(row.value("tag"), Some(&Value::from("b")));
    assert_eq!(row.value("inside"), Some(&Value::Bool(true)));
    let sql = "select name from t where id = :id or id = :id + :more";
    let error = knowledge
        .query_all(sql, &params! {"id" => 1, "more" => "one"})
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    let text = error.to_string();
    assert!(
        text.contains("provider `pg` refused it: parameter `more`: this text is not a valid int4"),
        "{text}"
    );
    assert!(!text.contains("\"one\""), "a value may be a secret: {text}");
}

#[test]
fn the_first_row_is_all_that_is_sent() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    let folder = project(&postgres.url(), "query_timeout_ms = 20000", "");
    let knowledge = open(&folder);
    postgres.execute(TEN_THOUSAND).unwrap();
    // A billion times a thousand rows would take longer, and not fit.
    let sql =
        "select a.id as n, :x::text as x from t as a, t as b, t as c where a.id > :min -- all";
    let row = knowledge
        .query_first(sql, &params! {"x" => "y", "min" => 5})
        .unwrap();
    assert!(matches!(row.unwrap()[0], Value::Int(6..)));
    let explained = knowledge.explain(sql).unwrap();
    assert_eq!(explained.kind, PlanKind::Provider);
    let text = explained.to_string();
    assert!(text.contains("provider: pg (postgres)"), "{text}");
    assert!(text.contains("parameters: x text, min int4"), "{text}");
    assert!(text.contains("columns: n int4, x text"), "{text}");
}

#[test]
fn mistakes_are_said_by_the_server_and_name_the_provider() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tables = add_local_table(folder.path());
    write_project(folder.path(), &postgres.url(), "", tables);
    let knowledge = open(&folder);
    let text = refusal(&knowledge, "select a from nowhere");
    assert!(
        text.contains("provider `pg` refused it: relation \"nowhere\" does not exist"),
        "{text}"
    );
    // Only its name selected the provider.
    assert!(
        text.ends_with("; `local` does not have it either; there is `local_t`"),
        "{text}"
    );
    let text = refusal(&knowledge, "select a from pg.nowhere");
    assert!(text.ends_with(" does not exist (SQLSTATE 42P01)"), "{text}");
    let text = refusal(&knowledge, "select nme from t");
    assert!(text.contains("column \"nme\" does not exist"), "{text}");
    let text = refusal(&knowledge, "select * from local_t join t using (id)");
    assert!(
        text.contains("`local_t` is in `local` and `t` in `pg`"),
        "{text}"
    );
    let text = refusal(&knowledge, "select version()");
    assert!(text.contains("no such function: version"), "{text}");
    assert!(text.contains("write `pg.` before"), "{text}");
    for sql in [
        "with x as (delete from t returning id) select * from x",
        "select * into copied from t",
        "insert into t values (0, 'x')",
        "select 1 from t where id = $1",
    ] {
        let text = refusal(&knowledge, sql);
        assert!(
            text.contains("only queries") || text.contains("`$1` has no name"),
            "{text}"
        );
    }
    // A refused statement is shown in its original form, with a hint for its database.
    let text = refusal(&knowledge, "delete from pg.t where id = 1");
    assert!(text.contains("`delete from pg.t where id = 1`"), "{text}");
    assert!(text.ends_with("is changed on its server"), "{text}");
    let text = refusal(&knowledge, "delete from local_t");
    assert!(
        text.contains("to change a table, change its data file"),
        "{text}"
    );
    // A name that is not that of a provider may be a schema, so the server is queried.
    let text = refusal(&knowledge, "select a from nosuch.t");
    assert!(
        text.ends_with(
            "relation \"nosuch.t\" does not exist (SQLSTATE 42P01); no provider is named `nosuch`; the providers are `pg`, \
             `local`"
        ),
        "{text}"
    );
    let text = refusal(&knowledge, "select name from PG.t");
    assert!(
        text.contains("names are case-sensitive: write `pg`"),
        "{text}"
    );
    let whole = knowledge.query_all("select count(*) from t", ()).unwrap();
    assert_eq!(whole.row(0)[0], Value::Int(10000));
}

#[test]
fn names_choose_between_databases() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres
        .execute("create table local_t (id int, name text)")
        .unwrap();
    postgres
        .execute("insert into local_t values (1, 'there')")
        .unwrap();
    postgres
        .execute("create schema s; create table s.\"T x\" as select 5 as five")
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tables = add_local_table(folder.path());
    write_project(folder.path(), &postgres.url(), "", tables);
    let knowledge = open(&folder);
    assert_eq!(knowledge.provider_names(), ["pg", "local"]);
    for (sql, expected) in [
        ("select name from local_t where id = 1", Value::from("here")),
        (
            "select name from local.local_t where id = 1",
            Value::from("here"),
        ),
        (
            "select name from pg.local_t where id = 1",
            Value::from("there"),
        ),
        (
            "select pg.local_t.name from pg.local_t where pg.local_t.id = 1",
            Value::from("there"),
        ),
        (
            "select name from default.local_t where id = 1",
            Value::from("there"),
        ),
        (
            "select name from public.local_t where id = 1",
            Value::from("there"),
        ),
        ("select five from s.\"T x\"", Value::Int(5)),
        ("select five from pg.s.\"T x\"", Value::Int(5)),
        (
            "with local_t as (select 'named' as name from s.\"T x\") select name from local_t",
            Value::from("named"),
        ),
        ("select * from pg.generate_series(7, 8)", Value::Int(7)),
        ("select * from generate_series(7, 8)", Value::Int(7)),
        ("select 1", Value::Int(1)),
    ] {
        let row = knowledge.query_first(sql, ()).unwrap();
        assert_eq!(row.unwrap()[0], expected, "{sql}");
    }
    let plan = knowledge
        .explain("select name from local_t where id = :id")
        .unwrap();
    assert_eq!(plan.kind, PlanKind::Hash);
}

#[test]
fn a_schema_that_changes_never_gives_wrong_values() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute("create table t (a int, b text)").unwrap();
    postgres.execute("insert into t values (1, 'x')").unwrap();
    let folder: TempDir = project(&postgres.url(), "", "");
    let knowledge = open(&folder);
    let mut session = knowledge.session();
    let all = session.prepare("select * from t").unwrap();
    let mut first = || -> Result<Vec<Value>, String> {
        let row = session.first_with(&all, &[], Policy::Bypass);
        row.map(|row| row.unwrap().to_vec())
            .map_err(|error| error.to_string())
    };
    let expected = Ok(vec![Value::Int(1), Value::from("x")]);
    assert_eq!(first(), expected);
    postgres
        .execute("alter table t add column c int default 9")
        .unwrap();
    assert_eq!(first(), expected, "a new column is left out");
    postgres.execute("drop table t").unwrap();
    postgres
        .execute("create table t (b text, a int); insert into t values ('x', 1)")
        .unwrap();
    assert_eq!(first(), expected, "columns that moved are put back");
    postgres
        .execute("alter table t alter column a type text")
        .unwrap();
    assert_eq!(
        first(),
        Ok(vec![Value::from("1"), Value::from("x")]),
        "a new type is read as such"
    );
    postgres.execute("alter table t drop column b").unwrap();
    let error = first().unwrap_err();
    assert!(
        error.contains("returned other columns (a) than it described (a, b)"),
        "{error}"
    );
    postgres.execute("drop table t").unwrap();
    let error = first().unwrap_err();
    assert!(error.contains("does not exist"), "{error}");
}

#[test]
fn sessions_are_set_as_the_configuration_says() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    let more = "pool_size = 3\npostgres_session.jit = false\n\
        postgres_session.plan_cache_mode = 'force_generic_plan'\n\
        postgres_session.application_name = \"it's \\\\ us\"";
    let folder = project(&postgres.url(), more, "");
    let knowledge = open(&folder);
    let sql = "select current_setting('jit'), current_setting('plan_cache_mode'), \
        current_setting('application_name'), pg_sleep(:s::float8) is null";
    // Several at once, so that more than one connection is used.
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let knowledge = &knowledge;
            scope.spawn(move || {
                let params = params! {"s" => 0.1 + f64::from(worker) / 1000.0};
                let row = knowledge.query_first(sql, &params).unwrap().unwrap();
                let text = |index: usize| row[index].to_text().to_string();
                assert_eq!(text(0), "off");
                assert_eq!(text(1), "force_generic_plan");
                assert_eq!(text(2), "it's \\ us");
            });
        }
    });
    let status = &knowledge.providers()[0];
    assert_eq!(
        (status.name.as_str(), status.kind.name()),
        ("pg", "postgres")
    );
    assert!(
        (1..=3).contains(&status.pool.connection_count),
        "{status:?}"
    );
}

#[test]
fn behind_a_pooler_the_server_keeps_no_statement() {
    let Some(postgres) = postgres(false) else {
        return;
    };
    postgres.execute(TEN_THOUSAND).unwrap();
    // One connection, so that the statement that counts runs on the one that was used.
    for (more, kept) in [
        ("pool_size = 1", true),
        ("pool_size = 1\npooler = true", false),
    ] {
        let folder = project(&postgres.url(), more, "");
        let knowledge = open(&folder);
        for id in [1, 2, 1] {
            let row =
                knowledge.query_first("select name from t where id = :id", &params! {"id" => id});
            assert_eq!(row.unwrap().unwrap()[0], Value::from(format!("n{id}")));
        }
        let sql =
            "select count(*) > 0 from pg_prepared_statements where statement like '%from t %'";
        let row = knowledge.query_first(sql, ()).unwrap().unwrap();
        assert_eq!(row[0], Value::Bool(kept), "{more}");
    }
}
