//! Access control, its messages, and rules of the configuration.

use std::fs;
use std::net::TcpListener;

use super::{Running, project, serve};
use crate::program::{Project, run};

/// A key and its lines for the configuration.
fn key(flags: &[&str]) -> (String, String) {
    let said = run([&["key", "new"], flags].concat()).ended(0);
    let key = said.err.lines().next().unwrap().to_owned();
    assert!(key.starts_with("lsk_"), "{key}");
    assert!(!said.out.contains(&key), "{}", said.out);
    (key, said.out)
}

#[test]
fn keys_let_in() {
    let (plain, lines) = key(&["--name", "plain", "--per-second", "1"]);
    let lines = lines.replace("per_second = 1", "per_second = 1\nburst = 3");
    let (admin, more) = key(&["--name", "boss", "--admin"]);
    let project = project(&format!("[server]\nquery_rows_max = 2\n{lines}{more}"));
    let log = project.file("access.log");
    let running = serve(&project, &["--access-log", log.to_str().unwrap()]);
    let mut client = running.client();
    let target = "/v1/lookup/host?name=web-1";
    let refused = client.get(target).is(401);
    assert_eq!(refused.header("WWW-Authenticate"), Some("Bearer"));
    for refused in [
        refused,
        client.get_with(target, &[("X-API-Key", "lsk_1")]).is(401),
    ] {
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("`Authorization: Bearer KEY`"), "{detail}");
        assert!(detail.contains("`X-API-Key: KEY`"), "{detail}");
    }
    let bearer = format!("Bearer {admin}");
    // With keys, host names and origins are not checked.
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Host", "lookups.example"),
        ("Origin", "https://a.b"),
    ];
    client.get_with(target, &headers).is(200);
    client.get("/healthz").is(200);
    client.get("/readyz").is(200);
    for target in ["/metrics", "/v1/lookups", "/openapi.json"] {
        client.get(target).is(401);
        client.get_with(target, &[("X-API-Key", &admin)]).is(200);
    }
    let as_admin = [("X-API-Key", admin.as_str())];
    let as_plain = [("X-API-Key", plain.as_str())];
    let query = br#"{"sql":"select name from hosts where rack = :rack order by name; ","params":{"rack":7}}"#;
    let answer = client.ask("POST", "/v1/query", &as_admin, query).is(200);
    assert_eq!(answer.text(), r#"[{"name":"web-1"},{"name":"web-2"}]"#);
    assert_eq!(answer.header("X-Rows-Cut"), Some("2"));
    for (sql, status) in [
        ("delete from hosts", 422),
        ("select 1; select 2", 422),
        ("select 1 as a -- b", 200),
    ] {
        let body = serde_json::json!({ "sql": sql }).to_string();
        client
            .ask("POST", "/v1/query", &as_admin, body.as_bytes())
            .is(status);
    }
    let many: String = (0..65).map(|index| format!(",\"p{index}\":1")).collect();
    for (query, expected) in [
        (
            r#"{"sql":"select 1","params":{"a":[1],"b":1,"b":2}}"#,
            r#"[{"name":"a","problem":"must be a string, a number, true, false or null; write a number beyond 64 bits as a string"},{"name":"b","problem":"is given twice"}]"#,
        ),
        (
            &format!(r#"{{"sql":"select 1","params":{{{}}}}}"#, &many[1..]),
            "\"more than 64 parameters at line 1 column ",
        ),
        (
            r#"{"sql":"select 1","sql":"select 2"}"#,
            "\"duplicate field `sql` at line 1 column ",
        ),
        (
            r#"{"sql":"select 1","parms":{}}"#,
            "\"unknown field `parms`, expected `sql` or `params` at ",
        ),
        (r#"{"params":{}}"#, "\"missing field `sql` at "),
        (r#"["select 1",{}]"#, "\"it is not a JSON object; write {"),
    ] {
        let refused = client
            .ask("POST", "/v1/query", &as_admin, query.as_bytes())
            .is(400);
        assert!(refused.text().contains(expected), "{}", refused.text());
    }
    client.ask("POST", "/v1/query", &as_plain, query).is(403);
    client.ask("POST", "/v1/reload", &as_plain, b"").is(403);
    client.ask("POST", "/v1/reload", &as_admin, b"").is(200);
    client.get_with(target, &as_plain).is(200);
    // On a busy machine the bucket may refill in between, but not indefinitely.
    let mut answers = (0..1000).map(|_| client.get_with(target, &as_plain));
    let wait = answers.find(|answer| answer.status != 200);
    let wait = wait.unwrap().is(429);
    assert_eq!(wait.header("Retry-After"), Some("1"));
    assert_eq!(
        wait.json()["detail"],
        "the limit is 1 per second, 3 at once after a pause; try again in 1 s"
    );
    assert!(running.end().0.success());

    let text = fs::read_to_string(&log).unwrap();
    let entries: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!text.contains("lsk_") && !text.contains("web-1"), "{text}");
    let last = entries.last().unwrap();
    assert_eq!(
        (last["status"].as_u64(), last["path"].as_str()),
        (Some(429), Some("/v1/lookup/host"))
    );
    let served = entries
        .iter()
        .filter(|entry| entry["key"] == "boss" && entry["cache"] == "native");
    assert_eq!(served.count(), 1);
}

#[test]
fn without_keys_other_sites_are_refused() {
    let running = serve(
        &project("[server]\nhosts = 'lookups.internal'\ncors = 'https://app.example'\n"),
        &[],
    );
    let mut client = running.client();
    let target = "/v1/lookup/host?name=web-1";
    client
        .get_with(target, &[("Host", "rebound.example")])
        .is(403);
    client
        .get_with(target, &[("Host", "lookups.internal:8300")])
        .is(200);
    client
        .ask(
            "POST",
            "/v1/reload",
            &[("Origin", "https://evil.example")],
            b"",
        )
        .is(403);
    client
        .get_with(target, &[("Origin", "https://evil.example")])
        .is(403);
    let answer = client
        .get_with(target, &[("Origin", "https://app.example")])
        .is(200);
    assert_eq!(
        answer.header("Access-Control-Allow-Origin"),
        Some("https://app.example")
    );
    assert_eq!(
        answer.header("Vary"),
        Some("Accept, Accept-Encoding, Origin")
    );
    let exposed = answer.header("Access-Control-Expose-Headers").unwrap();
    for name in ["X-Failed", "X-Events", "X-Rejected", "X-Rows-Cut"] {
        assert!(exposed.split(", ").any(|other| other == name), "{exposed}");
    }
    let preflight = |client: &mut super::Client, origin: &str| {
        let headers = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
        ];
        client
            .ask("OPTIONS", "/v1/lookup/host", &headers, b"")
            .is(204)
    };
    let allowed = preflight(&mut client, "https://app.example");
    assert!(
        allowed
            .header("Access-Control-Allow-Headers")
            .unwrap()
            .contains("X-API-Key")
    );
    let refused = preflight(&mut client, "https://evil.example");
    assert_eq!(refused.header("Access-Control-Allow-Origin"), None);
}

#[test]
fn other_machines_need_keys() {
    let project = project("");
    project
        .run(&["serve", ".", "--listen", "0.0.0.0:0"])
        .ended(1)
        .err_has(&[
            "0.0.0.0:0 can be reached from other machines",
            "lookaside key new",
        ]);
    let (_, lines) = key(&[]);
    super::running::configure(&project, &lines);
    let running = Running::start(&project, &["--listen", "0.0.0.0:0"]);
    assert!(running.end().0.success());
}

#[test]
fn answers_come_through_tls_and_a_renewed_certificate_is_taken() {
    let project = project("[server]\ntls = { cert = 'cert.pem', key = 'key.pem' }\n");
    let certify = || {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        project.write("cert.pem", &made.cert.pem());
        project.write("key.pem", &made.signing_key.serialize_pem());
    };
    let fetch = |address: &str| {
        let url = format!("https://{address}/v1/lookup/host?name=web-1")
            .replace("127.0.0.1", "localhost");
        std::process::Command::new("curl")
            .args(["-sS", "-m", "20", "--cacert", "cert.pem", &url])
            .current_dir(project.path())
            .output()
    };
    certify();
    let mut running = serve(&project, &["--log-level", "info"]);
    assert!(
        running.greeting.contains("https://"),
        "{}",
        running.greeting
    );
    for _ in 0..2 {
        let Ok(output) = fetch(&running.address) else {
            let told =
                std::io::Write::write_all(&mut std::io::stderr(), b"SKIP no curl to test with\n");
            assert!(
                std::env::var_os("CI").is_none(),
                "CI must have one: {told:?}"
            );
            return;
        };
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.stdout, br#"{"name":"web-1","rack":7}"#, "{err}");
        certify();
        running.signal("HUP");
        running.log_until("reloaded");
    }
}

#[test]
fn a_port_in_use_says_which_flag_helps() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    project("")
        .run(&["serve", ".", "--listen", &address])
        .ended(1)
        .err_has(&[&format!("cannot listen on {address}"), "--listen 8301"]);
}

#[test]
fn mistakes_are_found_before_anything_is_served() {
    for (more, expected) in [
        ("[lookups.x]\nsql = 'select a from hosts'\n", "lookups.x: "),
        (
            "[lookups.x]\nsql = 'select a.name, a.rack, b.name from hosts a join hosts b using (rack)'\n",
            "lookups.x returns two columns named \"name\"",
        ),
        (
            "[lookups.x]\nsql = 'select 1'\nparams.a = 'int'\n",
            "declares the parameter a, but its statement has no parameters",
        ),
        (
            "[lookups.x]\nsql = 'select :rack'\nparams.rak = 'int'\n",
            "declares the parameter rak, which does not occur in its statement; did you mean \"rack\"?",
        ),
        (
            "[lookups.x]\nsql = 'select 1'\nprovider = 'pg'\n",
            "sets provider = \"pg\", but its tables belong to \"local\"",
        ),
        (
            "[server]\nlistn = '1'\n",
            "unknown key server.listn; did you mean \"listen\"?",
        ),
    ] {
        let project = project(more);
        for command in [
            &["check", "."][..],
            &["serve", ".", "--listen", "127.0.0.1:0"],
        ] {
            project
                .run(command)
                .ended(1)
                .err_has(&["knowdb.toml:", expected]);
        }
    }
    // Other commands read the same file.
    let project = project("[server]\nlisten = '8300'\n");
    let said = project
        .run(&[
            "query",
            ".",
            "select count(*) as n from hosts",
            "-f",
            "json",
        ])
        .ended(0);
    assert_eq!(said.out, "{\"n\":5}\n");
    let project = Project::with(&[(
        "knowdb.toml",
        "version = 2\n[lookups.one]\nsql = 'select 1 as a'\n",
    )]);
    let running = serve(&project, &[]);
    assert_eq!(
        running.client().get("/v1/lookup/one").is(200).text(),
        "{\"a\":1}"
    );
}

#[test]
fn the_server_tells_about_itself() {
    let running = serve(&project("[server]\nquery_rows_max = 5\n"), &[]);
    let mut client = running.client();
    client.get("/v1/lookup/net?ip=10.0.0.1").is(200);
    client.get("/v1/lookup/net?ip=192.0.2.1").is(404);
    client.get("/v1/lookup/late?rack=8").is(200);
    client.get("/v1/lookup/late?rack=8").is(200);
    let lookups = client.get("/v1/lookups").is(200).json();
    let names: Vec<&str> = lookups["lookups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["dice", "host", "late", "net", "rack"]);
    assert_eq!(
        lookups["lookups"][3]["example"],
        "/v1/lookup/net?ip=10.0.0.1"
    );
    assert_eq!(lookups["lookups"][3]["answered_by"], "interval index");

    let metrics = client.get("/metrics").is(200);
    let number = |name: &str| -> f64 {
        let mut lines = metrics
            .text()
            .lines()
            .filter_map(|line| line.rsplit_once(' '));
        let found = lines.find(|(found, _)| *found == name);
        found
            .unwrap_or_else(|| panic!("no {name} in\n{}", metrics.text()))
            .1
            .parse()
            .unwrap()
    };
    assert_eq!(
        number("lookaside_http_lookups_total{lookup=\"net\",outcome=\"found\"}"),
        1.0
    );
    assert_eq!(
        number("lookaside_http_lookups_total{lookup=\"net\",outcome=\"absent\"}"),
        1.0
    );
    assert_eq!(
        number("lookaside_http_lookups_total{lookup=\"late\",outcome=\"found\"}"),
        2.0
    );
    assert_eq!(
        number("lookaside_http_requests_total{path=\"lookup\",status=\"2xx\"}"),
        3.0
    );
    assert_eq!(
        number("lookaside_http_requests_total{path=\"lookup\",status=\"4xx\"}"),
        1.0
    );
    assert_eq!(
        number("lookaside_http_request_seconds_count{path=\"lookup\"}"),
        4.0
    );
    assert_eq!(
        number("lookaside_http_answers_total{layer=\"native\"}"),
        2.0
    );
    assert_eq!(number("lookaside_generation"), 1.0);
    assert!(number("lookaside_http_connections_total") >= 1.0);
    // Every name is described.
    let docs = include_str!("../../../../../docs/SERVE.md");
    let all = include_str!("../../../../../docs/CLI.md");
    for line in metrics
        .text()
        .lines()
        .filter(|line| line.starts_with("# TYPE "))
    {
        let name = line.split(' ').nth(2).unwrap();
        let mark = format!("`{name}");
        assert!(
            docs.contains(&mark) || all.contains(&mark),
            "docs/SERVE.md has no {name}"
        );
        let help = format!("# HELP {name} ");
        assert!(metrics.text().contains(&help), "no help for {name}");
    }
}
