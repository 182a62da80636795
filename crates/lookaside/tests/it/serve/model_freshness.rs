//! How fresh the lookups of models are: what the configuration, the header of a model, a comment in a
//! lookup and a client demand.

use super::freshness::{Writer, configs};
use super::{Client, Running};
use crate::program::{Project, run};
use crate::providers::{FEED_CONFIG, feed_database};

const EVENT: &[u8] = b"{\"name\":\"a\"}\n";

/// A model with one lookup. Each has its own statement, and so its own cached answers.
fn model(name: &str, header: &str, comment: &str) -> String {
    format!(
        "name : {name}\n{header}\n---\n\
         rack = select rack, '{name}' from pg.host {comment} where name = read(name) ;\n"
    )
}

fn start(url: &str, config: &str) -> (Project, Running) {
    let models = [
        ("models/any.oml", model("any", "", "")),
        ("models/all.oml", model("all", "fresh : now", "")),
        ("models/one.oml", model("one", "", "/* fresh: now */")),
    ];
    let mut files = vec![("knowdb.toml", config)];
    files.extend(models.iter().map(|(file, text)| (*file, &**text)));
    let project = Project::with(&files);
    let mut command = Running::command(&project, &["--listen", "127.0.0.1:0"]);
    command.env("DATABASE_URL", url);
    let running = Running::of(command);
    (project, running)
}

/// What a model finds.
fn rack(client: &mut Client, model: &str, headers: &[(&str, &str)]) -> String {
    let target = format!("/v1/enrich/{model}");
    let answer = client.ask("POST", &target, headers, EVENT).is(200);
    answer.text().trim().to_owned()
}

fn event(rack: usize) -> String {
    format!("{{\"rack\":{rack}}}")
}

#[test]
fn a_model_and_its_client_may_demand_what_is_committed_now() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let mut writer = Writer::new(&postgres);
    for config in configs() {
        let has_feed = config.contains("feed");
        let config = format!("{config}[server]\nclient_freshness = 'now'\n");
        let (_project, running) = start(&postgres.url(), &config);
        let mut client = running.client();
        writer.set(1000);
        rack(&mut client, "any", &[]);
        for round in 0..30 {
            writer.set(round);
            // Before a client has demanded it for the first time.
            if !has_feed && round < 3 {
                assert_eq!(rack(&mut client, "any", &[]), event(1000));
                continue;
            }
            assert_eq!(rack(&mut client, "all", &[]), event(round));
            assert_eq!(rack(&mut client, "one", &[]), event(round));
            let header = match round % 2 {
                0 => ("Cache-Control", "no-cache"),
                _ => ("Lookaside-Max-Staleness", "0ms"),
            };
            assert_eq!(rack(&mut client, "any", &[header]), event(round));
            // A client cannot demand less.
            let header = ("Lookaside-Max-Staleness", "1h");
            writer.set(2000 + round);
            assert_eq!(rack(&mut client, "all", &[header]), event(2000 + round));
        }
        let position = writer.position().to_string();
        for (header, expected) in [
            (
                ("Lookaside-Max-Staleness", "soon"),
                "Lookaside-Max-Staleness must be \"any\", \"now\"",
            ),
            (
                ("Lookaside-Min-Position", &*position),
                "Lookaside-Min-Position is the position of one server",
            ),
        ] {
            let refused = client.ask("POST", "/v1/enrich/any", &[header], EVENT);
            let refused = refused.is(400).json();
            let detail = refused["detail"].as_str().unwrap();
            assert!(detail.starts_with(expected), "{detail}");
        }
    }
}

#[test]
fn all_lookups_of_a_run_may_be_fresh() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let mut writer = Writer::new(&postgres);
    let [_, config] = configs();
    let config = format!("{config}[enrich]\nfresh = 'now'\n[server]\nclient_freshness = 'off'\n");
    let (_project, running) = start(&postgres.url(), &config);
    let mut client = running.client();
    for round in 0..10 {
        writer.set(round);
        // Headers have no effect, whatever they say.
        let header = ("Lookaside-Max-Staleness", "soon");
        assert_eq!(rack(&mut client, "any", &[header]), event(round));
    }
}

#[test]
fn a_check_shows_what_the_lookups_of_a_model_demand() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let config = FEED_CONFIG.replace("${DATABASE_URL}", &postgres.url());
    let fresh =
        "[lookups.host]\nsql = 'select rack from pg.host where name = :name'\nfresh = '50ms'\n";
    let config = format!("{config}{fresh}");
    let text = model("m", "fresh : 100ms", "")
        + "one = select rack /* fresh: now */ from pg.host where name = read(name) ;\n";
    let project = Project::with(&[("knowdb.toml", &config), ("models/m.oml", &text)]);
    let folder = project.path().to_str().unwrap().to_owned();
    run(["check", &folder]).ended(0).out_has(&[
        "    fresh: 100ms\n  lookup 5:1: ",
        "    fresh: now\n",
        "lookup host(name any): provider pg\n  freshness: key of public.host (name)\n  fresh: 50ms\n",
    ]);
    project.write("models/m.oml", &model("m", "fresh : soon", ""));
    run(["check", &folder]).ended(1).err_has(&[
        "m.oml:2:9",
        "`fresh` cannot be `soon`",
        "write `any`, `now`, or a time such as `100ms` or `2s`",
    ]);
}
