use std::fs;
use std::time::Duration;

use lookaside_http::Options;
use lookaside_knowledge::{Config, Contract};

use super::param_type::ParamType;
use super::*;

fn read(text: &str) -> Result<(Vec<LookupConfig>, ServerConfig), String> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("knowdb.toml"),
        format!("version = 2\n{text}"),
    )
    .unwrap();
    let config = Config::open(folder.path(), &[LOOKUPS, SERVER]).unwrap();
    let read = || Ok((read_lookups(&config)?, read_server(&config)?));
    read().map_err(|failure: crate::failure::Failure| {
        let mut out = Vec::new();
        failure.write(&mut out).unwrap();
        let message = String::from_utf8(out).unwrap();
        let file = config.file.display().to_string();
        message.lines().next().unwrap().replace(&file, "FILE")
    })
}

const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn a_file_may_say_everything_or_nothing() {
    let (lookups, server) = read("").unwrap();
    assert_eq!((lookups.len(), server), (0, ServerConfig::default()));
    let text = format!(
        "[lookups.asn]\nsql = 'select 1'\nmany = true\nttl_ms = 5\nrows_max = 7\n\
         provider = 'local'\ndescription = 'd'\nexample.ip = '10.0.0.1'\n[lookups.asn.params]\nip = 'ipv4'\n\
         rack = {{ type = 'int', nullable = true }}\nrow = {{ type = 'int' }}\n\
         [server]\nlisten = ['127.0.0.1:1', 'unix:a.sock', '8301']\nthreads = 2\ncors = 'https://a.b'\n\
         hosts = ['h']\nquery_rows_max = 9\nbody_size_max = 5000\nanswers_size_max = 0\n\
         access_log = '-'\nerror_detail = true\nwatch = true\ndrain_timeout_ms = 1\n\
         header_timeout_ms = 2\nidle_timeout_ms = 3\nbody_timeout_ms = 4\nbody_rate_min = 5\n\
         stream_idle_timeout_ms = 6\nstream_rate_min = 7\nstream_count_max = 8\n\
         tls = {{ cert = 'c.pem', key = 'k.pem' }}\n\
         [[server.keys]]\nname = 'ci'\nsha256 = '{HASH}'\nper_second = 10\nburst = 20\nadmin = true\n"
    );
    let (lookups, server) = read(&text).unwrap();
    let [asn] = &lookups[..] else {
        panic!("one lookup");
    };
    let declared = |name: &str, kind, is_nullable| DeclaredParam {
        name: name.to_owned(),
        kind,
        is_nullable,
    };
    assert_eq!(
        asn.params,
        [
            declared("ip", ParamType::Ipv4, false),
            declared("rack", ParamType::Int, true),
            declared("row", ParamType::Int, false),
        ]
    );
    assert_eq!(asn.example, [("ip".to_owned(), "10.0.0.1".to_owned())]);
    assert_eq!((asn.many, asn.rows_max), (true, 7));
    assert_eq!(asn.ttl, Some(Duration::from_millis(5)));
    let listen = server.listen.clone().unwrap();
    assert_eq!(listen[0].to_string(), "127.0.0.1:1");
    assert!(listen[1].to_string().ends_with("/a.sock"));
    assert_eq!(listen[2].to_string(), "127.0.0.1:8301");
    assert_eq!(server.query_rows_max, Some(9));
    assert_eq!(server.keys[0].hash.to_string(), HASH);
    let options = server.timeouts.apply(Options::default());
    let timeouts = [
        server.drain_timeout,
        options.header_timeout,
        options.idle_timeout,
        options.body_timeout,
        options.stream_idle_timeout,
    ];
    assert_eq!(timeouts.map(|it| it.as_millis()), [1, 2, 3, 4, 6]);
    assert_eq!((options.body_rate_min, options.stream_rate_min), (5, 7));
    assert_eq!(server.stream_count_max, Some(8));
    let changes = server.changes_at_a_restart(&ServerConfig::default());
    for key in ["header_timeout_ms", "stream_rate_min", "stream_count_max"] {
        assert!(changes.contains(&key), "{changes:?}");
    }
    assert!(server.tls.unwrap().key.ends_with("k.pem"));
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (text, expected) in [
        (
            "[lookups.a]\nsqll = ''",
            "FILE:3: unknown key lookups.a.sqll; did you mean \"sql\"?",
        ),
        (
            "[lookups.a]\nmany = true",
            "FILE:2: lookups.a.sql is missing",
        ),
        (
            "[lookups]\na = 'select 1'",
            "FILE:3: lookups.a must be a table",
        ),
        (
            "[lookups.'a/b']\nsql = ''",
            "FILE:2: lookups.a/b is not a name for a lookup",
        ),
        (
            "[lookups.a]\nsql = ''\nparams.ip = 'decimall'",
            "FILE:4: lookups.a.params.ip has the unknown type \"decimall\"; did you mean \"decimal\"?",
        ),
        (
            "[lookups.a]\nsql = ''\nmany = 1",
            "FILE:4: lookups.a.many must be true or false, not a",
        ),
        (
            "[lookups.a]\nsql = ''\nrows_max = 1",
            "FILE:4: lookups.a.rows_max requires many = true",
        ),
        (
            "[lookups.a]\nsql = ''\nttl_ms = 40000",
            "FILE:4: lookups.a.ttl_ms is 40000 ms, but no",
        ),
        (
            "[lookups.a]\nsql = ''\nfresh = 'soon'",
            "FILE:4: lookups.a.fresh is \"soon\", but must be \"any\", \"now\", or a time such as \"50ms\"",
        ),
        (
            "[lookups.a]\nsql = ''\nfresh = 50",
            "FILE:4: lookups.a.fresh must be",
        ),
        (
            "[server]\nclient_freshness = 'soon'",
            "FILE:3: server.client_freshness is \"soon\", but must be \"off\", \"now\", or a time such as \"50ms\"",
        ),
        (
            "[server]\nclient_freshness = 'any'",
            "FILE:3: server.client_freshness is \"any\", but must be \"off\", \"now\", or a time such as",
        ),
        (
            "[server]\nclient_freshness = 50",
            "FILE:3: server.client_freshness must be",
        ),
        (
            "[server]\nlistens = ''",
            "FILE:3: unknown key server.listens; did you mean \"listen\"?",
        ),
        (
            "[server]\nlisten = 'localhost'",
            "FILE:3: server.listen contains \"localhost\"; write",
        ),
        ("[server]\nlisten = []", "FILE:3: server.listen is empty"),
        (
            "[server]\nlisten = [1]",
            "FILE:3: server.listen must be \"ADDRESS:PORT\" such as",
        ),
        (
            "[server]\nthreads = 0",
            "FILE:3: server.threads must be from 1 to 1024, not 0",
        ),
        (
            "[server]\nbody_rate_min = 0",
            "FILE:3: server.body_rate_min must be from 1 to 1073741824, not 0",
        ),
        (
            "[server]\nstream_idle_timeout_ms = '5 min'",
            "FILE:3: server.stream_idle_timeout_ms must be a whole number, not",
        ),
        (
            "[server]\nstream_count_max = 0",
            "FILE:3: server.stream_count_max must be from 1 to 10000, not 0",
        ),
        (
            "[server]\ncors = '*'",
            "FILE:3: server.cors contains \"*\", which is not an origin",
        ),
        (
            "[server]\ncors = 'https://a.b/'",
            "FILE:3: server.cors contains",
        ),
        (
            "[server]\ntls.cert = ''",
            "FILE:3: server.tls.key is missing",
        ),
        (
            "[server]\nthreads = 1\n[[server.keys]]\nname = 'a'\nsha256 = 'b'",
            "FILE:6: server.keys.0.sha256 is not a SHA-256",
        ),
        (
            "[server]\n[[server.keys]]\nname = 'a'\nsha256 = '0'\nname2 = ''",
            "FILE:6: unknown key server.keys.0.name2",
        ),
    ] {
        let message = read(text).expect_err(text);
        assert!(
            message.starts_with(&format!("error: {expected}")),
            "{message}"
        );
    }
}

#[test]
fn freshness_is_a_word_or_a_time() {
    let least = |ms| ClientFreshness::AtLeast(Duration::from_millis(ms));
    for (text, expected) in [
        ("", least(50)),
        ("client_freshness = 'off'", ClientFreshness::Off),
        ("client_freshness = 'now'", least(0)),
        ("client_freshness = '0ms'", least(0)),
        ("client_freshness = '2s'", least(2000)),
    ] {
        let (_, server) = read(&format!("[server]\n{text}")).unwrap();
        assert_eq!(server.client_freshness, expected, "{text}");
    }
    for (text, expected) in [
        ("", Contract::ANY),
        ("fresh = 'any'", Contract::ANY),
        ("fresh = 'now'", Contract::NOW),
        ("fresh = '2s'", Contract::within(Duration::from_secs(2))),
    ] {
        let (lookups, _) = read(&format!("[lookups.a]\nsql = ''\n{text}")).unwrap();
        assert_eq!(lookups[0].contract, expected, "{text}");
    }
}

#[test]
fn only_loopback_addresses_and_sockets_are_closed_to_other_machines() {
    for (text, is_open) in [
        ("127.0.0.1:1", false),
        ("127.9.9.9:1", false),
        ("[::1]:1", false),
        ("[::ffff:127.0.0.1]:1", false),
        ("unix:/x", false),
        ("0.0.0.0:1", true),
        ("[::]:1", true),
        ("192.0.2.1:1", true),
    ] {
        assert_eq!(
            ListenAddress::parse(text).unwrap().is_open(),
            is_open,
            "{text}"
        );
    }
}
