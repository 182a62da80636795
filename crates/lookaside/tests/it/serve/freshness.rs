//! How fresh the answers of a provider are: what the configuration and a client demand, and what the
//! headers of an answer then say.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use lookaside_client::postgres::Options;
use lookaside_client::postgres::blocking::Connection;
use lookaside_client::{Config, Environment};
use lookaside_embedded::Postgres;
use lookaside_knowledge::{LogPosition, Position};
use lookaside_testing::wait_until;
use serde_json::Value as Json;

use super::feed::{feed, number};
use super::openapi::{assert_described, faults};
use super::providers::until;
use super::{Answer, Client, Running, project, serve};
use crate::program::{Project, run};
use crate::providers::{FEED_CONFIG, feed_database};

const LOOKUP: &str = "[lookups.host]\nsql = 'select rack from pg.host where name = :name'\n\
                      params.name = 'text'\n";
const TARGET: &str = "/v1/lookup/host?name=a";

/// Demands all that was committed before the request.
const NOW: [(&str, &str); 5] = [
    ("Cache-Control", "no-cache"),
    ("Cache-Control", "max-age=0"),
    ("Lookaside-Max-Staleness", "now"),
    ("Lookaside-Max-Staleness", "0ms"),
    ("lookaside-max-staleness", " 0s "),
];

/// The configuration with a change feed, and that without one.
pub(super) fn configs() -> [String; 2] {
    [
        FEED_CONFIG.to_owned(),
        FEED_CONFIG.replace("feed = 'auto'\n", ""),
    ]
}

fn start(postgres: &Postgres, config: &str) -> Running {
    let project = Project::with(&[("knowdb.toml", config)]);
    let mut command = Running::command(&project, &["--listen", "127.0.0.1:0"]);
    command.env("DATABASE_URL", postgres.url());
    Running::of(command)
}

/// Waits until the feed keeps answers to the lookup valid.
fn wait_until_live(client: &mut Client) {
    wait_until("the feed is live", || {
        // It is live, and has a position.
        let answer = client.get(TARGET).is(200);
        let has_position = answer.header("Lookaside-Position").is_some();
        let feed = feed(client);
        feed["state"] == "live" && feed["statements"] == 1 && has_position
    });
}

/// Waits until the answer comes from the cache of bodies.
fn kept(client: &mut Client, target: &str) -> Answer {
    until(client, target, None, |answer| layer(answer) == "body")
}

/// The layer that answered.
fn layer(answer: &Answer) -> &str {
    let cache = answer.header("X-Cache").unwrap_or_default();
    cache.split(';').next().unwrap_or_default()
}

/// A connection that commits changes.
pub(super) struct Writer(Connection);

impl Writer {
    pub(super) fn new(postgres: &Postgres) -> Self {
        let config = Config::parse(&postgres.url(), &Environment::empty()).unwrap();
        let Config::Postgres(config) = config else {
            panic!("{config} is not PostgreSQL");
        };
        Self(Connection::connect_with(&config, Options::default()).unwrap())
    }

    /// Begins a transaction that has an identifier, which goes on as long as the writer.
    pub(super) fn begin(&mut self) {
        for sql in ["begin", "select pg_current_xact_id()"] {
            self.0.query(sql, &[]).unwrap();
        }
    }

    pub(super) fn set(&mut self, rack: usize) {
        let sql = format!("update host set rack = {rack} where name = 'a'");
        self.0.query(&*sql, &[]).unwrap();
    }

    fn text(&mut self, sql: &str) -> String {
        let answer = self.0.query(sql, &[]).unwrap();
        answer.rows.first().unwrap()[0].to_text().to_string()
    }

    /// Ends the feed, and takes all slots of the server, so that there is no other one.
    pub(super) fn interrupt_feed(&mut self) {
        let mut count = 0;
        wait_until("all slots are taken", || {
            self.text(
                "select count(pg_terminate_backend(active_pid)) from pg_replication_slots \
                 where slot_type = 'logical'",
            );
            let take = format!("select pg_create_physical_replication_slot('taken_{count}')");
            count += u32::from(self.0.query(&*take, &[]).is_ok());
            let is_full = "select count(*) = current_setting('max_replication_slots')::int \
                           from pg_replication_slots where slot_type = 'physical'";
            self.text(is_full) == "true"
        });
    }

    /// The position after all commits so far.
    pub(super) fn position(&mut self) -> LogPosition {
        let token = self.text(
            "select 'pg:' || (select system_identifier from pg_control_system()) || ':' \
             || ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int || ':' \
             || pg_current_wal_insert_lsn()",
        );
        token.parse().unwrap_or_else(|()| panic!("{token}"))
    }
}

fn body(rack: usize) -> String {
    format!("{{\"rack\":{rack}}}")
}

/// The moment that an answer claims to be fresh as of, and the age that it claims.
#[track_caller]
fn claim(answer: &Answer) -> (SystemTime, Duration) {
    let text = answer.header("Lookaside-Fresh-As-Of");
    let text = text.unwrap_or_else(|| panic!("{answer:?}"));
    let (at, within) = text.split_once("; within=").expect(text);
    let at: Timestamp = at.parse().expect(text);
    let within = Duration::from_millis(within.parse().expect(text));
    (at.into(), within)
}

#[test]
fn a_kept_body_follows_its_row() {
    let Some(postgres) = feed_database() else {
        return;
    };
    postgres
        .execute("insert into host select 'h' || n, n from generate_series(1, 20) as n")
        .unwrap();
    let running = start(&postgres, &format!("{FEED_CONFIG}{LOOKUP}"));
    let mut client = running.client();
    wait_until_live(&mut client);
    let others: Vec<String> = (1..=20)
        .map(|n| format!("/v1/lookup/host?name=h{n}"))
        .collect();
    for target in &others {
        kept(&mut client, target);
    }
    let answer = kept(&mut client, TARGET);
    assert_eq!(answer.text(), body(1));
    let cache = answer.header("X-Cache").unwrap();
    let age = cache.strip_prefix("body; age=").unwrap();
    let age = age.strip_suffix("; feed=live").unwrap();
    age.parse::<f64>().unwrap();
    assert_eq!(answer.header("Cache-Control"), Some("private, no-cache"));
    let mut writer = Writer::new(&postgres);
    for answer in [&answer, &client.get(&others[0]).is(200)] {
        let (at, _) = claim(answer);
        assert!(at <= SystemTime::now(), "{answer:?}");
        let position = answer.header("Lookaside-Position").unwrap();
        let parsed: LogPosition = position.parse().unwrap();
        assert_eq!(parsed.to_string(), position);
        let now = writer.position();
        assert_eq!(
            (parsed.system_id, parsed.timeline),
            (now.system_id, now.timeline)
        );
        assert!(parsed.position <= now.position, "{position}");
    }
    let tag = answer.header("ETag").unwrap().to_owned();
    let same = client.get_with(TARGET, &[("If-None-Match", &tag)]).is(304);
    assert_eq!(same.header("Cache-Control"), Some("private, no-cache"));
    assert_eq!(same.header("ETag"), Some(&*tag));
    claim(&same);

    writer.set(7);
    let changed = until(&mut client, TARGET, Some(&tag), |answer| {
        answer.status == 200
    });
    assert_eq!(changed.text(), body(7));
    assert_ne!(changed.header("ETag"), Some(&*tag));
    let kept_count = (others.iter())
        .filter(|target| layer(&client.get(target).is(200)) == "body")
        .count();
    // Two keys may share a counter.
    assert!(kept_count >= 19, "{kept_count} of 20");
    postgres
        .execute("delete from host where name = 'a'")
        .unwrap();
    until(&mut client, TARGET, None, |answer| answer.status == 404);
    // That there is no row is kept as well.
    until(&mut client, TARGET, None, |answer| {
        answer.status == 404 && layer(answer) == "body"
    });
    writer
        .0
        .query("insert into host values ('a', 9)", &[])
        .unwrap();
    until(&mut client, TARGET, None, |answer| answer.status == 200);
}

#[test]
fn a_client_may_demand_what_is_committed_now() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let mut writer = Writer::new(&postgres);
    for config in configs() {
        let config = format!("{config}[server]\nclient_freshness = 'now'\n{LOOKUP}");
        let running = start(&postgres, &config);
        let mut client = running.client();
        if config.contains("feed") {
            wait_until_live(&mut client);
        }
        for round in 0..100 {
            writer.set(round);
            let header = NOW[round % NOW.len()];
            let sets = r#"["a", "b", "a"]"#;
            // With each header the batch is the first request in one half of the rounds.
            if (round / NOW.len()).is_multiple_of(2) {
                let answer = client.get_with(TARGET, &[header]).is(200);
                assert_eq!(answer.text(), body(round), "{header:?}");
            }
            let answer = client.ask("POST", "/v1/lookup/host", &[header], sets.as_bytes());
            let row = body(round);
            let expected = format!("[{row},{},{row}]", body(2));
            assert_eq!(answer.is(200).text(), expected, "{header:?}");
            let answer = client.get_with(TARGET, &[header]).is(200);
            assert_eq!(answer.text(), body(round), "{header:?}");
        }
        // A header may be sent twice.
        for (index, values) in [["1h", "now"], ["now", "1h"]].into_iter().enumerate() {
            writer.set(200 + index);
            let headers = values.map(|value| ("Lookaside-Max-Staleness", value));
            let answer = client.get_with(TARGET, &headers).is(200);
            assert_eq!(answer.text(), body(200 + index), "{values:?}");
        }
        let positions = ["pg:7:1:0/1", "pg:8:1:0/2"].map(|it| ("Lookaside-Min-Position", it));
        let refused = client.get_with(TARGET, &positions).is(400).json();
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains("is sent twice"), "{detail}");
        // No time is too long.
        for header in [
            ("Cache-Control", "max-age=18446744073709551615"),
            ("Lookaside-Max-Staleness", "4294967295h"),
            ("Lookaside-Max-Staleness", "any"),
        ] {
            client.get_with(TARGET, &[header]).is(200);
        }
        for value in ["", "5", "soon", "-1s", "99999999999s"] {
            let header = ("Lookaside-Max-Staleness", value);
            let refused = client.get_with(TARGET, &[header]).is(400).json();
            let detail = refused["detail"].as_str().unwrap();
            assert!(
                detail.starts_with("Lookaside-Max-Staleness must be \"any\", \"now\""),
                "{detail}"
            );
        }
    }
}

#[test]
fn the_configuration_bounds_what_a_client_may_demand() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let mut writer = Writer::new(&postgres);
    for config in configs() {
        let running = start(&postgres, &format!("{config}{LOOKUP}"));
        let mut client = running.client();
        for round in 10..30 {
            writer.set(round);
            // sleep: longer than the default, 50 ms; the answer then has to include the change
            thread::sleep(Duration::from_millis(60));
            let answer = client.get_with(TARGET, &[NOW[round % NOW.len()]]).is(200);
            assert_eq!(answer.text(), body(round));
        }
    }
    let [_, config] = configs();
    let config = format!("{config}[server]\nclient_freshness = 'off'\n{LOOKUP}");
    let running = start(&postgres, &config);
    let mut client = running.client();
    kept(&mut client, TARGET);
    writer.set(50);
    let malformed = [
        ("Lookaside-Max-Staleness", "soon"),
        ("Lookaside-Min-Position", "x"),
    ];
    for header in NOW.into_iter().chain(malformed) {
        let answer = client.get_with(TARGET, &[header]).is(200);
        assert_eq!((answer.text(), layer(&answer)), (&*body(29), "body"));
    }
}

#[test]
fn a_client_reads_what_it_has_written() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let mut writer = Writer::new(&postgres);
    for config in configs() {
        let running = start(&postgres, &format!("{config}{LOOKUP}"));
        let mut client = running.client();
        let has_feed = config.contains("feed");
        if has_feed {
            wait_until_live(&mut client);
        }
        for round in 0..60 {
            writer.set(round);
            let position = writer.position().to_string();
            let header = [("Lookaside-Min-Position", &*position)];
            if round % 2 == 0 {
                let answer = client.ask("POST", "/v1/lookup/host", &header, br#"["a"]"#);
                assert_eq!(answer.is(200).text(), format!("[{}]", body(round)));
            }
            let long = ("Cache-Control", "max-age=3600");
            let both = [header[0], long];
            let answer = client.get_with(TARGET, &both[..1 + round % 2]).is(200);
            assert_eq!(answer.text(), body(round));
        }
        for malformed in [
            "",
            "x",
            "0/0",
            "pg:1:1",
            "pg:1:1:0/0:5",
            "pg:+1:1:0/0",
            "my:1:1:0/0",
        ] {
            let header = [("Lookaside-Min-Position", malformed)];
            for refused in [
                client.get_with(TARGET, &header),
                client.ask("POST", "/v1/lookup/host", &header, b"[\"a\"]"),
            ] {
                let refused = refused.is(400).json();
                let detail = refused["detail"].as_str().unwrap();
                assert!(detail.contains("pg:SYSTEM:TIMELINE:POSITION"), "{detail}");
            }
        }
        // It is compared with what a live feed knows, or the server says.
        kept(&mut client, TARGET);
        let known = writer.position();
        let ahead = |size: u64| LogPosition {
            position: Position(known.position.0 + size),
            ..known
        };
        for (other, expected) in [
            (
                LogPosition {
                    system_id: known.system_id ^ 1,
                    ..known
                },
                "has the system identifier",
            ),
            (
                LogPosition {
                    timeline: known.timeline + 1,
                    ..ahead(1 << 30)
                },
                "has the system identifier",
            ),
            (ahead(1 << 30), "the log of this server ends at pg:"),
            (ahead(1 << 60), "the log of this server ends at pg:"),
        ] {
            let other = other.to_string();
            let header = [("Lookaside-Min-Position", &*other)];
            for refused in [
                client.get_with(TARGET, &header),
                client.ask("POST", "/v1/lookup/host", &header, b"[\"a\"]"),
            ] {
                let refused = refused.is(412).json();
                let detail = refused["detail"].as_str().unwrap();
                assert!(detail.contains(expected), "{detail}");
                assert!(detail.contains(&known.system_id.to_string()), "{detail}");
            }
        }
        if !has_feed {
            continue;
        }
        // The position that an answer has can be given back.
        let answer = kept(&mut client, TARGET);
        let position = answer.header("Lookaside-Position").unwrap();
        let header = [("Lookaside-Min-Position", position)];
        assert_eq!(layer(&client.get_with(TARGET, &header).is(200)), "body");
        // It does not let a client demand more often than `client_freshness` permits.
        let both = [header[0], ("Cache-Control", "no-cache")];
        wait_until("a kept answer that is 50 ms old at most", || {
            layer(&client.get_with(TARGET, &both).is(200)) == "body"
        });
    }
}

#[test]
fn a_lookup_may_always_be_fresh() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let mut writer = Writer::new(&postgres);
    for config in configs() {
        // What clients may demand is another matter.
        let config = format!("{config}[server]\nclient_freshness = 'off'\n{LOOKUP}fresh = 'now'\n");
        let running = start(&postgres, &config);
        let mut client = running.client();
        for round in 0..40 {
            writer.set(round);
            let answer = client.get(TARGET).is(200);
            assert_eq!(answer.text(), body(round));
            // Nor may a cache of the client's keep it.
            assert_eq!(answer.header("Cache-Control"), Some("private, no-cache"));
            writer.set(1000 + round);
            let answer = client.post("/v1/lookup/host", r#"["a"]"#).is(200);
            assert_eq!(answer.text(), format!("[{}]", body(1000 + round)));
        }
    }
}

/// Asserts that the document describes the headers of an answer.
#[track_caller]
fn assert_headers_described(document: &Json, answer: &Answer, expected: &[&str]) {
    let status = answer.status.to_string();
    let headers = &document["paths"]["/v1/lookup/host"]["get"]["responses"][&status]["headers"];
    for name in [
        "Age",
        "Cache-Control",
        "ETag",
        "Lookaside-Fresh-As-Of",
        "Lookaside-Position",
        "Server-Timing",
        "X-Cache",
    ] {
        let value = answer.header(name);
        assert_eq!(
            value.is_some(),
            expected.contains(&name),
            "{name}: {answer:?}"
        );
        if let Some(value) = value {
            let schema = &headers[name]["schema"];
            assert!(schema.is_object(), "{status} has no {name}");
            let value = match schema["type"] == "integer" {
                true => value.parse::<u64>().unwrap().into(),
                false => Json::from(value),
            };
            let validator = jsonschema::draft202012::new(schema).unwrap();
            assert!(validator.is_valid(&value), "{name}: {value} by {schema}");
        }
    }
}

#[test]
fn the_document_describes_what_freshness_is_demanded_and_told() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let running = start(&postgres, &format!("{FEED_CONFIG}{LOOKUP}"));
    let mut client = running.client();
    wait_until_live(&mut client);
    let document = client.get("/openapi.json").is(200).json();
    assert_eq!(faults(&document), [""; 0]);
    let answer = kept(&mut client, TARGET);
    let mut told = vec![
        "Age",
        "Cache-Control",
        "Lookaside-Fresh-As-Of",
        "Lookaside-Position",
        "Server-Timing",
        "X-Cache",
    ];
    let absent = until(&mut client, "/v1/lookup/host?name=x", None, |answer| {
        answer.header("Lookaside-Position").is_some()
    });
    assert_headers_described(&document, &absent.is(404), &told);
    told.push("ETag");
    assert_headers_described(&document, &answer, &told);
    let tag = answer.header("ETag").unwrap();
    let same = client.get_with(TARGET, &[("If-None-Match", tag)]).is(304);
    assert_headers_described(&document, &same, &told);

    let position = answer.header("Lookaside-Position").unwrap();
    let valid = [
        ("Cache-Control", "no-cache"),
        ("Lookaside-Max-Staleness", "2s"),
        ("Lookaside-Min-Position", position),
    ];
    let names = |operation: &Json| -> Vec<String> {
        let headers = operation["parameters"].as_array().unwrap().iter();
        let headers = headers.filter(|it| it["in"] == "header");
        let names = headers.map(|it| it["name"].as_str().unwrap().to_owned());
        names.filter(|name| name != "Content-Encoding").collect()
    };
    let path = "/v1/lookup/host";
    let other = ("Lookaside-Min-Position", "pg:1:1:0/0");
    for method in ["get", "post"] {
        let operation = &document["paths"][path][method];
        assert_eq!(names(operation), valid.map(|(name, _)| name));
        for header in valid.into_iter().chain([other]) {
            let params = operation["parameters"].as_array().unwrap();
            let param = params.iter().find(|it| it["name"] == header.0).unwrap();
            let validator = jsonschema::draft202012::new(&param["schema"]).unwrap();
            assert!(validator.is_valid(&header.1.into()), "{header:?}");
            let answer = match method {
                "get" => client.get_with(TARGET, &[header]),
                _ => client.ask("POST", path, &[header], b"[\"a\"]"),
            };
            let status = if header == other { 412 } else { 200 };
            let answer = answer.is(status);
            let told = &operation["responses"][status.to_string()];
            assert!(told.is_object(), "{method} does not tell {status}");
            assert_described(&document, path, method, &answer);
        }
    }
    // Headers without effect are not described: those of tables, and those that are turned off.
    let running = serve(&project(""), &[]);
    let document = running.client().get("/openapi.json").is(200).json();
    for method in ["get", "post"] {
        let operation = &document["paths"]["/v1/lookup/net"][method];
        assert!(names(operation).is_empty());
        assert_eq!(operation["responses"]["412"], Json::Null);
    }
    let config = format!("{FEED_CONFIG}[server]\nclient_freshness = 'off'\n{LOOKUP}");
    let running = start(&postgres, &config);
    let document = running.client().get("/openapi.json").is(200).json();
    let get = &document["paths"][path]["get"];
    assert_eq!(get["parameters"].as_array().unwrap().len(), 1);
    assert_eq!(get["responses"]["412"], Json::Null);
}

#[test]
fn a_check_names_what_freshness_is_written_as() {
    for (more, expected) in [
        (
            format!("{LOOKUP}fresh = 'soon'\n"),
            "lookups.host.fresh is \"soon\", but must be \"any\", \"now\", or a time such as \"50ms\"",
        ),
        (
            format!("[server]\nclient_freshness = 'any'\n{LOOKUP}"),
            "server.client_freshness is \"any\", but must be \"off\", \"now\", or a time such as \"50ms\"",
        ),
        (
            format!("[enrich]\nfresh = '5'\n{LOOKUP}"),
            "enrich.fresh is \"5\", but must be \"any\", \"now\", or a time such as \"50ms\"",
        ),
    ] {
        let config = FEED_CONFIG.replace("${DATABASE_URL}", "postgres://u@127.0.0.1:1/d");
        let project = Project::with(&[("knowdb.toml", &format!("{config}{more}"))]);
        let folder = project.path().to_str().unwrap().to_owned();
        run(["check", &folder]).ended(1).err_has(&[expected]);
    }
}

#[test]
fn a_stale_answer_says_so_each_time() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let [with_feed, without] = configs();
    // Without a feed, answers are stale only after their lifetime.
    let without = without.replace("ttl_ms = 3600000", "ttl_ms = 100");
    let running = [with_feed, without].map(|config| {
        let config = format!(
            "{config}stale_if_error_ms = 600000\n[server]\nclient_freshness = 'now'\n{LOOKUP}"
        );
        start(&postgres, &config)
    });
    let mut clients = running.each_ref().map(Running::client);
    wait_until_live(&mut clients[0]);
    kept(&mut clients[0], TARGET);
    clients[1].get(TARGET).is(200);
    drop(postgres);
    for client in &mut clients {
        let refused = until(client, TARGET, None, |answer| layer(answer) == "stale");
        assert_eq!((refused.status, refused.text()), (200, &*body(1)));
        for _ in 0..20 {
            let answer = client.get(TARGET).is(200);
            assert_eq!((answer.text(), layer(&answer)), (&*body(1), "stale"));
            // It includes nothing for certain.
            for name in ["ETag", "Lookaside-Fresh-As-Of", "Lookaside-Position"] {
                assert_eq!(answer.header(name), None, "{answer:?}");
            }
            assert!(!answer.header("X-Cache").unwrap().contains("live"));
        }
        for header in NOW {
            let refused = client.get_with(TARGET, &[header]).is(503);
            assert_eq!(refused.header("Retry-After"), Some("1"));
            let batch = client.ask("POST", "/v1/lookup/host", &[header], b"[\"a\"]");
            assert!(!batch.text().contains("rack"), "{batch:?}");
            assert!(
                batch.status == 503 || batch.text().contains("$error"),
                "{batch:?}"
            );
        }
        let batch = client.post("/v1/lookup/host", r#"["a"]"#).is(200);
        assert_eq!(layer(&batch), "stale");
    }
}

/// When a commit returned, and the value that it wrote.
type Commits = Mutex<Vec<(SystemTime, Instant, usize)>>;

/// The value of the last commit that returned before a moment.
fn value_at(commits: &Commits, is_before: impl Fn(SystemTime, Instant) -> bool) -> usize {
    let commits = commits.lock().unwrap_or_else(PoisonError::into_inner);
    let mut before = commits
        .iter()
        .rev()
        .filter(|(at, on, _)| is_before(*at, *on));
    before.next().map_or(0, |(.., value)| *value)
}

/// Requests the row with each of the demands in turn, and compares each answer with what it demands
/// and with what it claims.
fn read_until(is_over: &AtomicBool, mut client: Client, commits: &Commits) -> u64 {
    let short = Duration::from_millis(20);
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        let headers: &[_] = match count % 4 {
            0 => &[("Cache-Control", "no-cache")],
            1 => &[("Lookaside-Max-Staleness", "20ms")],
            _ => &[],
        };
        let begun = Instant::now();
        let demanded = match count % 4 {
            0 => value_at(commits, |_, on| on < begun),
            1 => value_at(commits, |_, on| on + short < begun),
            _ => 0,
        };
        let answer = client.get_with(TARGET, headers).is(200);
        let value = answer.json()["rack"].as_u64().unwrap() as usize;
        assert!(value >= demanded, "{demanded} of {answer:?}");
        if answer.header("Lookaside-Fresh-As-Of").is_some() {
            let (at, _) = claim(&answer);
            let claimed = value_at(commits, |returned, _| returned < at);
            assert!(value >= claimed, "{claimed} of {answer:?}");
        }
        count += 1;
    }
    count
}

#[test]
fn requests_do_not_notice_a_lost_feed() {
    let Some(postgres) = feed_database() else {
        return;
    };
    let config = format!("{FEED_CONFIG}[server]\nclient_freshness = 'now'\n{LOOKUP}");
    let running = start(&postgres, &config);
    let mut client = running.client();
    wait_until_live(&mut client);
    let mut writer = Writer::new(&postgres);
    let commits = Commits::default();
    let is_over = AtomicBool::new(false);
    let resets = |client: &mut Client| {
        let metrics = client.get("/metrics").is(200);
        let name = "lookaside_feed_resets_total{provider=\"pg\",reason=\"connection_lost\"}";
        number(metrics.text(), name)
    };
    thread::scope(|scope| {
        // Readers must not go on if the test fails.
        let over = Over(&is_over);
        let readers = [running.client(), running.client(), running.client()];
        let readers = readers.map(|reader| scope.spawn(|| read_until(&is_over, reader, &commits)));
        let mut value = 0;
        let mut commit = |writer: &mut Writer| {
            value += 1;
            writer.set(value);
            let commit = (SystemTime::now(), Instant::now(), value);
            commits.lock().unwrap().push(commit);
            value
        };
        for _ in 0..4 {
            for _ in 0..30 {
                commit(&mut writer);
                // sleep: readers have time to store answers between two changes
                thread::sleep(Duration::from_millis(5));
            }
            let before = resets(&mut client);
            let killed = "select count(pg_terminate_backend(active_pid))::text \
                          from pg_replication_slots where active_pid is not null";
            assert_eq!(writer.text(killed), "1");
            let last = commit(&mut writer);
            wait_until("the reset", || resets(&mut client) > before);
            wait_until_live(&mut client);
            assert_eq!(client.get(TARGET).is(200).text(), body(last));
            let last = commit(&mut writer);
            until(&mut client, TARGET, None, |answer| {
                answer.text() == body(last)
            });
            kept(&mut client, TARGET);
        }
        drop(over);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
}

/// Sets a flag when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
