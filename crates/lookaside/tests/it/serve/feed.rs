//! The change feed of a provider in `/metrics`, `/v1/status` and the console.

use lookaside_embedded::Postgres;
use lookaside_testing::{wait_for, wait_until};
use serde_json::{Value as Json, json};

use super::openapi::assert_described;
use super::{Client, Running};
use crate::browser::Browser;
use crate::program::Project;
use crate::providers::{FEED_CONFIG, feed_database};

fn start(postgres: &Postgres) -> Running {
    let config = format!(
        "{FEED_CONFIG}[server]\nerror_detail = true\n[lookups.host]\n\
         sql = 'select rack from pg.host where name = :name'\nparams.name = 'text'\n"
    );
    let project = Project::with(&[("knowdb.toml", &config)]);
    let mut command = Running::command(&project, &["--listen", "127.0.0.1:0"]);
    command.env("DATABASE_URL", postgres.url());
    Running::of(command)
}

pub(super) fn feed(client: &mut Client) -> Json {
    let status = client.get("/v1/status").is(200).json();
    status["providers"][0]["feed"].clone()
}

fn wait_until_live(client: &mut Client) {
    wait_until("the feed is live", || {
        client.get("/v1/lookup/host?name=a").is(200);
        let feed = feed(client);
        feed["state"] == "live" && feed["statements"] == 1 && feed["lag_s"].is_number()
    });
}

/// The number of a metric with its labels.
pub(super) fn number(metrics: &str, name: &str) -> f64 {
    let mut lines = metrics.lines().filter_map(|line| line.rsplit_once(' '));
    let found = lines.find(|(found, _)| *found == name);
    let number = found.unwrap_or_else(|| panic!("no {name} in\n{metrics}")).1;
    number.parse().unwrap()
}

#[test]
fn a_feed_is_shown_by_the_server() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let running = start(&postgres);
    let mut client = running.client();
    wait_until_live(&mut client);
    postgres
        .execute("update host set rack = 5 where name in ('a', 'b')")
        .unwrap();
    wait_until("the change", || {
        client.get("/v1/lookup/host?name=a").is(200).text() == "{\"rack\":5}"
    });
    wait_until("the slot", || feed(&mut client)["slot_wal_bytes"].is_u64());

    // The first answer with the new row may be that of the server itself.
    let metrics = wait_for("the figures of the change", || {
        let metrics = client.get("/metrics").is(200).text().to_owned();
        let is_counted = [
            "lookaside_feed_gate_wait_seconds_count{provider=\"pg\"} 1\n",
            "lookaside_feed_rows_total{provider=\"pg\"} 2\n",
            "lookaside_feed_queue_transactions{provider=\"pg\"} 0\n",
        ];
        let is_counted = is_counted.iter().all(|line| metrics.contains(line));
        is_counted.then_some(metrics)
    });
    let of = |name: &str, labels: &str| {
        let labels = format!("provider=\"pg\"{labels}");
        number(&metrics, &format!("lookaside_feed_{name}{{{labels}}}"))
    };
    assert_eq!(of("state", ",state=\"live\""), 1.0);
    for state in ["idle", "starting", "down"] {
        assert_eq!(of("state", &format!(",state=\"{state}\"")), 0.0);
    }
    assert!(of("lag_seconds", "") > 0.0);
    assert_eq!(of("queue_transactions", ""), 0.0);
    assert_eq!(of("statements", ""), 1.0);
    assert_eq!(of("rows_total", ""), 2.0);
    assert_eq!(of("transactions_total", ""), 1.0);
    assert_eq!(of("resets_total", ",reason=\"connection_lost\""), 0.0);
    assert!(of("probes_total", "") > 0.0);
    assert!(of("slot_wal_bytes", "") >= 0.0);
    assert!(of("refused_fills_total", "") >= 0.0);
    assert_eq!(of("gate_wait_seconds_count", ""), 1.0);
    assert!(of("gate_wait_seconds_sum", "") >= 0.0);
    assert_eq!(of("gate_wait_seconds_bucket", ",le=\"+Inf\""), 1.0);
    // Every name is described.
    let docs = include_str!("../../../../../docs/CLI.md");
    let types = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let names = types.filter_map(|line| line.split(' ').next());
    let names: Vec<&str> = names
        .filter(|name| name.starts_with("lookaside_feed_"))
        .collect();
    assert_eq!(names.len(), 11, "{names:?}");
    for name in names {
        let help = format!("# HELP {name} ");
        assert!(metrics.contains(&help), "no help for {name}");
        let cell = format!("`{name}`");
        assert!(docs.contains(&cell), "docs/CLI.md has no {name}");
    }

    let document = client.get("/openapi.json").is(200).json();
    let status = client.get("/v1/status").is(200);
    assert_described(&document, "/v1/status", "get", &status);
    let status = &status.json()["providers"][0]["feed"];
    assert_eq!(
        (&status["rows"], &status["transactions"]),
        (&json!(2), &json!(1))
    );

    let resets = |client: &mut Client| {
        let metrics = client.get("/metrics").is(200);
        let name = "lookaside_feed_resets_total{provider=\"pg\",reason=\"connection_lost\"}";
        number(metrics.text(), name)
    };
    postgres
        .execute("select pg_terminate_backend(active_pid) from pg_replication_slots")
        .unwrap();
    wait_until("the reset", || resets(&mut client) >= 1.0);
    wait_until_live(&mut client);
    assert_eq!(feed(&mut client)["reason"], Json::Null);

    // Without its publication it is down most of the time, and says why.
    postgres
        .execute(
            "drop publication lookaside; \
             select pg_terminate_backend(active_pid) from pg_replication_slots",
        )
        .unwrap();
    wait_until("the reason", || {
        let feed = feed(&mut client);
        let reason = feed["reason"].as_str().unwrap_or_default();
        feed["state"] == "down" && feed["lag_s"].is_null() && reason.contains("publication")
    });
    let status = client.get("/v1/status").is(200);
    assert_described(&document, "/v1/status", "get", &status);
}

#[test]
fn the_console_shows_the_feed() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let Some(postgres) = feed_database() else {
        return;
    };
    let running = start(&postgres);
    let mut client = running.client();
    wait_until_live(&mut client);
    browser.open(&format!("http://{}/", running.address));
    browser.wait_for("document.querySelector('#providers').innerText.includes('change feed')");
    browser.wait_for(
        "document.querySelector('#providers').innerText.includes('live: 1 statement, lag ')",
    );
    assert!(browser.complaints().is_empty());
}
