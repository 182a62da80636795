//! Models with lookups of a provider that is unavailable when the server starts.

use lookaside_embedded::Postgres;

use super::providers::{forward, quiet_port, until};
use super::running::{configure, project};
use super::serve;
use crate::program::Project;
use crate::providers::has_postgres;

/// A provider whose server does not run.
const AWAY: &str = "[[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\nacquire_timeout_ms = 60000\n\
                    connection_uri = 'postgres://u:hunter2@127.0.0.1:1/d'\n";

/// A model that queries the project's own table.
fn write_near(project: &Project) {
    let text = "name : near\n---\nrack = select rack from hosts where name = read(name) ;\n";
    project.write("models/near.oml", text);
}

/// A model that queries the table, and twice the provider.
fn write_far(project: &Project) {
    let text = "name : far\n---\nrack = select rack from hosts where name = read(name) ;\n\
                site = select site from pg.sites where rack = read(rack) ;\n\
                floor = select floor from pg.sites where rack = read(rack) ;\n";
    project.write("models/far.oml", text);
}

const EVENT: &str = "{\"name\":\"web-1\",\"rack\":7}\n";

#[test]
fn issue_12_a_model_waits_for_a_provider_that_was_never_there_and_stops_nothing_else() {
    let project = project(AWAY);
    write_near(&project);
    write_far(&project);
    let running = serve(&project, &[]);
    for told in [
        "lookups, 2 models",
        "WARN",
        "provider=\"pg\"",
        "models=\"far\"",
        "cannot connect",
    ] {
        assert!(running.greeting.contains(told), "{}", running.greeting);
    }
    let mut client = running.client();
    let answer = client.post("/v1/enrich/near", EVENT).is(200);
    assert_eq!(answer.text(), "{\"rack\":7}\n");
    let refused = client.post("/v1/enrich/far", EVENT).is(503);
    assert_eq!(refused.header("Retry-After"), Some("1"));
    let problem = refused.json();
    assert_eq!(
        problem["title"],
        "a database behind this model has not answered yet"
    );
    let detail = problem["detail"].as_str().unwrap();
    let wanted = "the model far is tried again every second; provider pg does not answer; ";
    assert!(detail.starts_with(wanted), "{detail}");
    assert_eq!(detail.matches("pg").count(), 1, "{detail}");
    client.post("/v1/enrich/else", EVENT).is(404);
    client.get("/v1/lookup/host?name=web-1").is(200);
    let lookups = client.get("/v1/lookups").is(200).json();
    assert_eq!(lookups["models"], serde_json::json!(["far", "near"]));
    for (target, status) in [("/readyz", 200), ("/v1/status", 200), ("/v1/lookups", 200)] {
        let state = client.get(target).is(status).json();
        assert_eq!(state["models_not_ready"], serde_json::json!(["far"]));
    }
    let waiting = client.get("/v1/status").is(200).json()["waiting"].clone();
    let expected = serde_json::json!([
        {"provider": "pg", "lookups": [], "models": ["far"], "error": null}
    ]);
    assert_eq!(waiting, expected);

    // A reload does not wait for it either, and a model that is added by one waits as well.
    let text = "name : later\n---\nsite = select site from pg.sites where rack = read(rack) ;\n";
    project.write("models/later.oml", text);
    configure(&project, &format!("{AWAY}[server]\nerror_detail = true\n"));
    client.post("/v1/reload", "").is(200);
    let ready = client.get("/readyz").is(200).json();
    assert_eq!(
        ready["models_not_ready"],
        serde_json::json!(["far", "later"])
    );
    let waiting = client.get("/v1/status").is(200).json()["waiting"].clone();
    assert_eq!(waiting[0]["models"], serde_json::json!(["far", "later"]));
    let error = waiting[0]["error"].as_str().unwrap();
    assert!(error.contains("cannot connect to 127.0.0.1:1"), "{error}");
    let refused = client.post("/v1/enrich/later", EVENT).is(503).json();
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("cannot connect to 127.0.0.1:1"), "{detail}");
    client.post("/v1/enrich/near", EVENT).is(200);
    let wrong = text.replace("= select", "= slect");
    project.write("models/later.oml", &wrong);
    let refused = client.post("/v1/reload", "").is(409).json();
    let detail = refused["detail"].as_str().unwrap();
    let place = "models/later.oml cannot be used: ";
    assert!(
        detail.contains(place) && detail.contains("slect"),
        "{detail}"
    );
    let (status, log) = running.end();
    assert!(status.success());
    assert!(log.contains("models=\"far, later\""), "{log}");
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn a_server_is_not_ready_while_all_of_its_lookups_and_models_wait() {
    let lookup = "[lookups.site]\nsql = 'select site from pg.sites where rack = :rack'\n";
    let config = format!("version = 2\n[[tables]]\nname = 'hosts'\n{AWAY}{lookup}");
    let project = Project::with(&[
        ("hosts/data.csv", "name,rack\nweb-1,7\n"),
        ("knowdb.toml", &config),
    ]);
    write_far(&project);
    let running = serve(&project, &[]);
    let mut client = running.client();
    let state = client.get("/readyz").is(503).json();
    assert_eq!(state["status"], "waiting");
    assert_eq!(client.get("/v1/status").is(200).json()["ready"], false);

    // One usable model is enough.
    write_near(&project);
    client.post("/v1/reload", "").is(200);
    let state = client.get("/readyz").is(200).json();
    assert_eq!(state["status"], "ready");
    assert_eq!(state["lookups_not_ready"], serde_json::json!(["site"]));
    assert_eq!(client.get("/v1/status").is(200).json()["ready"], true);
}

#[test]
fn what_is_wrong_with_a_model_ends_the_start_although_its_provider_is_away() {
    let project = project(AWAY);
    let text = "name : far\n---\nsite = select site from pg.sites where rack = read(rack) ;\n\
                rack = select rick from hosts where name = read(name) ;\n";
    project.write("models/far.oml", text);
    let said = project.run(&["serve", ".", "--listen", "127.0.0.1:0"]);
    let said = said.ended(1).err_has(&[
        "error: ./models/far.oml cannot be used\n",
        "this lookup is refused: ",
        "hosts` has `name`",
    ]);
    assert!(!said.err.contains("cannot be prepared"), "{}", said.err);
}

#[test]
fn a_model_is_used_once_its_provider_answers_and_stays_so() {
    if !has_postgres() {
        return;
    }
    let postgres = Postgres::builder()
        .version("18".parse().unwrap())
        .fresh_cluster()
        .tcp()
        .sql(
            "create table sites (rack int, site text, floor int); \
             insert into sites values (7, 'north', 2)",
        )
        .start()
        .unwrap();
    let url = postgres.tcp_url().unwrap();
    let (user, rest) = url.split_once('@').unwrap();
    let (server, database) = rest.split_once('/').unwrap();
    let (socket, port) = quiet_port();
    let config = format!(
        "version = 2\n[cache]\nenabled = false\n[[tables]]\nname = 'hosts'\n\
         [[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\nacquire_timeout_ms = 2000\n\
         connection_uri = '{user}@127.0.0.1:{port}/{database}'\n"
    );
    let project = Project::with(&[
        ("hosts/data.csv", "name,rack\nweb-1,7\n"),
        ("knowdb.toml", &config),
    ]);
    write_far(&project);
    let running = serve(&project, &[]);
    let mut client = running.client();
    client.post("/v1/enrich/far", EVENT).is(503);
    assert_eq!(client.get("/readyz").is(503).json()["status"], "waiting");
    forward(socket, server.to_owned());
    until(&mut client, "/readyz", None, |answer| answer.status == 200);
    let answer = client.post("/v1/enrich/far", EVENT).is(200);
    let enriched = "{\"rack\":7,\"site\":\"north\",\"floor\":2}\n";
    assert_eq!(answer.text(), enriched);
    let ready = client.get("/readyz").is(200).json();
    assert_eq!(ready["models_not_ready"], serde_json::json!([]));

    // A statement that was described once can be bound again without a server.
    postgres.close().unwrap();
    client.post("/v1/reload", "").is(200);
    assert_eq!(client.get("/readyz").is(200).json()["status"], "ready");
    let answer = client.post("/v1/enrich/far", EVENT).is(200);
    assert_eq!(answer.header("X-Failed"), Some("2"), "{answer:?}");
    let (status, log) = running.end();
    assert!(status.success());
    assert!(log.contains("a provider answers"), "{log}");
    assert!(log.contains("models=\"far\""), "{log}");
}

#[test]
fn a_lookup_that_would_wait_rejects_its_event() {
    if !has_postgres() {
        return;
    }
    let postgres = Postgres::builder()
        .version("18".parse().unwrap())
        .fresh_cluster()
        .sql("create table sites (rack int, site text); insert into sites values (7, 'north')")
        .start()
        .unwrap();
    let config = format!(
        "version = 2\n[cache]\nenabled = false\n[enrich]\non_lookup_failure = 'wait'\n\
         [[provider.sqldb]]\nname = 'pg'\nkind = 'postgres'\nacquire_timeout_ms = 2000\n\
         connection_uri = '{}'\n",
        postgres.url()
    );
    let model = "name : far\n---\nrack = read(rack) ;\n\
                 site = select site from pg.sites where rack = read(rack) ;\n";
    let project = Project::with(&[("knowdb.toml", &config), ("models/far.oml", model)]);
    let running = serve(&project, &[]);
    let mut client = running.client();
    let events = "{\"rack\":null}\n{\"rack\":7}\n";
    let answer = client.post("/v1/enrich/far", events).is(200);
    let enriched = "{\"rack\":null}\n{\"rack\":7,\"site\":\"north\"}\n";
    assert_eq!(answer.text(), enriched);
    postgres.close().unwrap();

    let answer = client.post("/v1/enrich/far", events).is(200);
    assert_eq!(answer.text(), "{\"rack\":null}\n");
    assert_eq!(answer.header("X-Rejected"), Some("1"), "{answer:?}");
    assert_eq!(answer.header("X-Failed"), None, "{answer:?}");
    // Neither the address of the server nor the file of the model.
    let reason = "line 2: provider pg does not answer";
    assert_eq!(answer.header("X-Reject-Reason"), Some(reason));
    let strict = client
        .post("/v1/enrich/far?strict=true", events)
        .is(422)
        .json();
    assert_eq!(strict["title"], "a lookup failed");
    let detail = strict["detail"].as_str().unwrap();
    assert!(detail.starts_with(reason), "{detail}");
    let metrics = client.get("/metrics").is(200);
    let failed = "lookaside_http_lookups_total{model=\"far\",outcome=\"failed\"} 2";
    assert!(metrics.text().contains(failed), "{}", metrics.text());
    let (_, log) = running.end();
    assert!(log.contains("a lookup failed model=\"far\""), "{log}");
}

/// The answer is one output, whatever a model's outputs are called in a run.
#[test]
fn results_for_all_outputs_are_in_the_answer() {
    let model = "name : some\n---\n@meta/output = read(to) ;\nn = read(n) ;\n";
    let config = "version = 2\n[[enrich.output]]\nname = 'alerts'\ntarget = 'alerts.json'\n";
    let project = Project::with(&[("knowdb.toml", config), ("models/some.oml", model)]);
    let running = serve(&project, &[]);
    let events = "{\"n\":1,\"to\":\"alerts\"}\n{\"n\":2,\"to\":[\"default\",\"other\"]}\n\
                  {\"n\":3,\"to\":\"none\"}\n{\"n\":4}\n";
    let answer = running.client().post("/v1/enrich/some", events).is(200);
    assert_eq!(answer.text(), "{\"n\":1}\n{\"n\":2}\n{\"n\":4}\n");
    assert_eq!(answer.header("X-Dropped"), Some("1"), "{answer:?}");
    assert_eq!(answer.header("X-Rejected"), None, "{answer:?}");
    running.end();
}

#[test]
fn dropped_events_are_counted() {
    let model = "name : some\n---\ndrop when read(n) lt(3) ;\n* = take() ;\n";
    let project = Project::with(&[("knowdb.toml", "version = 2\n"), ("models/some.oml", model)]);
    let running = serve(&project, &[]);
    let mut client = running.client();
    let events = "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n";
    let answer = client.post("/v1/enrich/some", events).is(200);
    assert_eq!(answer.text(), "{\"n\":3}\n");
    assert_eq!(answer.header("X-Events"), Some("1"), "{answer:?}");
    assert_eq!(answer.header("X-Dropped"), Some("2"), "{answer:?}");
    let answer = client
        .post("/v1/enrich/some?summary=true", "{\"n\":4}\n")
        .is(200);
    assert_eq!(answer.header("X-Dropped"), None, "{answer:?}");
    let summary = "{\"$summary\":{\"dropped\":0,\"events\":1,\"failed\":0,\"rejected\":0}}\n";
    assert_eq!(answer.text(), format!("{{\"n\":4}}\n{summary}"));
    running.end();
}
