//! What happens if there is a cached answer, and the change feed does not show that it includes what
//! is required.

use std::thread;
use std::time::{Duration, Instant};

use lookaside_knowledge::{LogPosition, Position};
use lookaside_testing::wait_until;

use super::freshness::{Writer, configs};
use super::{Client, Running};
use crate::program::{Project, run};
use crate::providers::{FEED_CONFIG, feed_database};

fn lookup(on_behind: &str) -> String {
    format!(
        "[lookups.{on_behind}]\n\
         sql = \"select rack, '{on_behind}' as kind from pg.host where name = :name\"\nparams.name = 'text'\non_behind = '{on_behind}'\n"
    )
}

fn start(url: &str, config: &str) -> Running {
    let lookups: String = ["ask", "refuse", "serve"].map(lookup).concat();
    let config = format!("{config}[server]\nclient_freshness = 'now'\n{lookups}");
    let project = Project::with(&[("knowdb.toml", &*config)]);
    let mut command = Running::command(&project, &["--listen", "127.0.0.1:0"]);
    command.env("DATABASE_URL", url);
    Running::of(command)
}

/// Waits until a cached answer is kept valid by the feed; its body.
fn cached(client: &mut Client, target: &str) -> String {
    let mut body = String::new();
    wait_until("the feed is live", || {
        let answer = client.get(target).is(200);
        answer.text().clone_into(&mut body);
        answer.header("Lookaside-Position").is_some()
            && answer.header("X-Cache").unwrap().starts_with("body")
    });
    body
}

#[test]
fn a_lookup_says_what_happens_while_the_feed_is_behind() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let mut writer = Writer::new(&postgres);
    let [config, _] = configs();
    let running = start(&postgres.url(), &config);
    let mut client = running.client();
    let names = ["ask", "refuse", "serve"];
    for name in names {
        cached(&mut client, &format!("/v1/lookup/{name}?name=a"));
    }
    // A feed that is only idle is not behind.
    for name in names {
        let target = format!("/v1/lookup/{name}?name=a");
        for _ in 0..5 {
            // sleep: the feed asks the server four times a second
            thread::sleep(Duration::from_millis(60));
            client
                .get_with(&target, &[("Lookaside-Max-Staleness", "1ms")])
                .is(200);
        }
        writer.set(90);
        let position = writer.position();
        let text = position.to_string();
        client
            .get_with(&target, &[("Lookaside-Min-Position", &*text)])
            .is(200);
        let ahead = LogPosition {
            position: Position(position.position.0 + (1 << 30)),
            ..position
        };
        let text = ahead.to_string();
        client
            .get_with(&target, &[("Lookaside-Min-Position", &*text)])
            .is(412);
    }
    writer.interrupt_feed();
    wait_until("the feed is interrupted", || {
        let answer = client.get("/v1/lookup/ask?name=a").is(200);
        !answer.header("X-Cache").unwrap().contains("feed=live")
    });
    let bodies = names.map(|name| {
        // It is in the cache after this, without a feed that keeps it valid.
        let answer = client.get(&format!("/v1/lookup/{name}?name=a")).is(200);
        answer.text().to_owned()
    });
    let text = writer.position().to_string();
    let header = [("Lookaside-Min-Position", &*text)];
    let asked = client.get_with("/v1/lookup/ask?name=a", &header).is(200);
    assert!(asked.header("X-Cache").unwrap().starts_with("provider"));
    let refused = client.get_with("/v1/lookup/refuse?name=a", &header).is(503);
    assert_eq!(refused.header("Retry-After"), Some("1"));
    assert_eq!(refused.json()["title"], "the change feed is behind");
    let served = client.get_with("/v1/lookup/serve?name=a", &header).is(200);
    assert_eq!(served.text(), bodies[2]);
    let cache = served.header("X-Cache").unwrap();
    assert!(cache.ends_with("; behind"), "{cache}");
    // It says what it includes, which is no position.
    assert_eq!(served.header("Lookaside-Position"), None);
    assert!(served.header("Lookaside-Fresh-As-Of").is_some());
    // So does the answer that a client has already.
    let tag = served.header("ETag").unwrap();
    let both = [header[0], ("If-None-Match", tag)];
    let unchanged = client.get_with("/v1/lookup/serve?name=a", &both).is(304);
    assert!(unchanged.header("X-Cache").unwrap().ends_with("; behind"));

    for name in ["refuse", "serve"] {
        let target = format!("/v1/lookup/{name}?name=a");
        // A request that is satisfied is answered as ever, and one for `now` is queried.
        for headers in [&[][..], &[("Lookaside-Max-Staleness", "1h")]] {
            let cache = client.get_with(&target, headers).is(200);
            let cache = cache.header("X-Cache").unwrap().to_owned();
            assert!(!cache.contains("behind"), "{cache}");
        }
        let now = client.get_with(&target, &[("Cache-Control", "no-cache")]);
        let cache = now.is(200).header("X-Cache").unwrap().to_owned();
        assert!(cache.starts_with("provider"), "{cache}");
        // What is not in the cache is queried.
        let position = writer.position().to_string();
        let header = [("Lookaside-Min-Position", &*position)];
        let target = format!("/v1/lookup/{name}?name=b");
        let missed = client.get_with(&target, &header).is(200);
        assert!(missed.header("X-Cache").unwrap().starts_with("provider"));
    }
}

#[test]
fn a_request_may_wait_until_the_feed_has_reached_its_position() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let mut writer = Writer::new(&postgres);
    let [config, _] = configs();
    let config = config
        + "[lookups.rack]\nparams.name = 'text'\nwait_ms = 30000\n\
           sql = \"select rack from pg.host where name = :name\"\n";
    let running = start(&postgres.url(), &config);
    let mut client = running.client();
    // The row that the writer does not change.
    let target = "/v1/lookup/rack?name=b";
    cached(&mut client, target);
    let mut provider_count = 0;
    for round in 0..20 {
        writer.set(round);
        let position = writer.position().to_string();
        let header = [("Lookaside-Min-Position", &*position)];
        let answer = client.get_with(target, &header).is(200);
        let cache = answer.header("X-Cache").unwrap();
        provider_count += u32::from(cache.starts_with("provider"));
    }
    // A position that is exactly at the end of a page is reached with the next record only.
    assert!(provider_count < 5, "{provider_count}");
    // A position that is not in the log is not waited for.
    let known = writer.position();
    let ahead = LogPosition {
        position: Position(known.position.0 + (1 << 30)),
        ..known
    };
    let begun = Instant::now();
    let text = ahead.to_string();
    let header = [("Lookaside-Min-Position", &*text)];
    client.get_with(target, &header).is(412);
    assert!(begun.elapsed() < Duration::from_secs(30));
    // A server that is known to be another one is not waited for.
    let other = LogPosition {
        timeline: known.timeline + 1,
        ..known
    };
    let text = other.to_string();
    let begun = Instant::now();
    let header = [("Lookaside-Min-Position", &*text)];
    client.get_with(target, &header).is(412);
    assert!(begun.elapsed() < Duration::from_secs(30));
}

/// A request that waits for the feed does not delay the end of the server, and is answered.
#[test]
fn issue_15_a_request_that_waits_for_a_position_is_answered_at_the_end() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let [config, _] = configs();
    let config = config
        + "[lookups.rack]\nparams.name = 'text'\nwait_ms = 60000\n\
           sql = \"select rack from pg.host where name = :name\"\n";
    let mut running = start(&postgres.url(), &config);
    let mut client = running.client();
    let target = "/v1/lookup/rack?name=b";
    cached(&mut client, target);
    // The position does not move beyond a transaction that goes on.
    let mut open = Writer::new(&postgres);
    open.begin();
    let mut writer = Writer::new(&postgres);
    writer.set(1);
    let position = writer.position().to_string();
    let header = [("Lookaside-Min-Position", &*position)];
    client.send("GET", target, &header, b"");
    let mut other = running.client();
    wait_until("it waits", || {
        let metrics = other.get("/metrics").is(200);
        // The request for the metrics is the other one.
        metrics.text().contains("lookaside_http_waiting 2\n")
    });
    running.signal("TERM");
    let answer = client.receive("GET").is(200);
    assert!(answer.header("X-Cache").unwrap().starts_with("provider"));
    running.wait();
}

#[test]
fn without_a_feed_nothing_is_behind() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let mut writer = Writer::new(&postgres);
    let [_, config] = configs();
    let running = start(&postgres.url(), &config);
    let mut client = running.client();
    for name in ["refuse", "serve"] {
        let target = format!("/v1/lookup/{name}?name=a");
        client.get(&target).is(200);
        let position = writer.position().to_string();
        let answer = client.get_with(&target, &[("Lookaside-Min-Position", &*position)]);
        assert!(
            answer
                .is(200)
                .header("X-Cache")
                .unwrap()
                .starts_with("provider")
        );
    }
}

#[test]
fn a_check_names_what_on_behind_may_be() {
    let config = FEED_CONFIG.replace("${DATABASE_URL}", "postgres://u@127.0.0.1:1/d");
    let config = format!("{config}{}", lookup("wait"));
    let project = Project::with(&[("knowdb.toml", &*config)]);
    let folder = project.path().to_str().unwrap().to_owned();
    run(["check", &folder]).ended(1).err_has(&[
        "lookups.wait.on_behind is \"wait\", but must be \"ask\", \"refuse\" or \"serve\"",
    ]);
}
