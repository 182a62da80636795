//! Which of several hosts is taken, and how long those that are silent are waited for.

use std::io::{Read as _, Write as _};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lookaside_client::postgres::Options;
use lookaside_client::postgres::blocking::Connection;
use lookaside_client::{ErrorKind, PostgresConfig};

use super::{Cut, NO_CUT, Site, requests};
use crate::live::api::{APIS, Api};
use crate::live::{config, database, shown};

/// The kinds of connections that choose among hosts themselves.
const CHOOSERS: [Api; 2] = [Api::Blocking, Api::Tokio];

fn among(ports: &[u16], settings: &str) -> PostgresConfig {
    let hosts: Vec<_> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    let hosts = hosts.join(",");
    config(&format!(
        "postgres://amy@{hosts}/shop?sslmode=disable&connect_timeout=3{settings}"
    ))
}

#[test]
fn who_takes_a_connection_and_says_nothing_is_not_waited_for() {
    let silent = Site::silent();
    for api in APIS {
        for mode in ["disable", "prefer", "require"] {
            let url = format!(
                "postgres://amy@127.0.0.1:{}/shop?connect_timeout=1&sslmode={mode}",
                silent.port
            );
            let error = api.ask(&config(&url), requests()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Connection, "{api:?} {mode}");
            assert!(error.is_retryable(), "{api:?} {mode}: {error:?}");
            let expected = format!("cannot connect to 127.0.0.1:{}", silent.port);
            assert_eq!(error.to_string(), expected);
        }
    }
    // Nor in the middle of a TLS handshake.
    let agreeing = Site::serve(|mut socket| {
        let mut received = [0; 8];
        if socket.read_exact(&mut received).is_ok() && socket.write_all(b"S").is_ok() {
            let _ = socket.read_to_end(&mut Vec::new());
        }
    });
    for api in APIS {
        let url = format!(
            "postgres://amy@127.0.0.1:{}/shop?connect_timeout=1&sslmode=require",
            agreeing.port
        );
        let error = api.ask(&config(&url), requests()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connection, "{api:?}: {error:?}");
    }
}

#[test]
fn the_first_that_answers_is_taken() {
    let (silent, good) = (Site::silent(), Site::start(NO_CUT));
    let cut = Site::start(Cut { sent: 5, ..NO_CUT });
    for api in CHOOSERS {
        let config = among(&[1, cut.port, silent.port, good.port], "");
        let answers = api.ask(&config, requests()).unwrap();
        assert_eq!(shown(&answers[1]), "8", "{api:?}");
        let config = among(&[1, cut.port, silent.port], "");
        let error = api.ask(&config, requests()).unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
        let said = error.to_string();
        for port in [1, cut.port] {
            assert!(said.contains(&format!("127.0.0.1:{port}")), "{said}");
        }
    }
}

#[test]
fn hosts_are_tried_in_any_order_if_so_wanted() {
    let sites = [Site::start(NO_CUT), Site::start(NO_CUT)];
    let ports = sites.each_ref().map(|site| site.port);
    let counts = || {
        sites
            .each_ref()
            .map(|site| site.count.load(Ordering::SeqCst))
    };
    for _ in 0..20 {
        Connection::connect_with(&among(&ports, ""), Options::default()).unwrap();
    }
    assert_eq!(counts(), [20, 0]);
    for _ in 0..100 {
        let config = among(&ports, "&load_balance_hosts=random");
        Connection::connect_with(&config, Options::default()).unwrap();
    }
    // That one of them is never first has a chance of 2 in 2^100.
    assert!(counts()[0] > 20 && counts()[1] > 0, "{:?}", counts());
}

/// The server in memory reports nothing, so it is queried; its answer is not `true`.
#[test]
fn a_server_without_a_reported_role_is_not_chosen() {
    let site = Site::start(NO_CUT);
    for api in APIS {
        let config = site.config("&target_session_attrs=standby");
        let error = api.ask(&config, requests()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connection, "{api:?}: {error:?}");
        assert!(format!("{error:?}").contains("which `target_session_attrs` does not allow"));
    }
}

#[test]
fn a_session_that_will_do_is_looked_for() {
    for version in ["18", "15"] {
        let (Some(writable), Some(read_only)) = (database(version, true), database(version, true))
        else {
            continue;
        };
        let sql = "create role amy login superuser password 'x'; create database shop";
        for sql in sql.split("; ") {
            writable.execute(sql).unwrap();
            read_only.execute(sql).unwrap();
        }
        let set = "alter system set default_transaction_read_only = on";
        read_only.execute(set).unwrap();
        read_only.execute("select pg_reload_conf()").unwrap();
        let started = Instant::now();
        let is_set = || {
            let config = config(&read_only.url());
            let answer = Api::Blocking.query(&config, "show default_transaction_read_only");
            shown(&answer) == "on"
        };
        while !is_set() {
            assert!(started.elapsed() < Duration::from_secs(120));
        }
        let ports = [read_only.port(), writable.port()];
        for (target, expected) in [
            ("any", Some(0)),
            ("read-write", Some(1)),
            ("read-only", Some(0)),
            ("primary", Some(0)),
            ("prefer-standby", Some(0)),
            ("standby", None),
        ] {
            for api in CHOOSERS {
                let mut config = among(&ports, &format!("&target_session_attrs={target}"));
                config.password = Some("x".into());
                let port = api.query(&config, "select current_setting('port')::int4");
                match expected {
                    Some(index) => assert_eq!(shown(&port), ports[index].to_string(), "{target}"),
                    None => assert!(port.unwrap_err().is_retryable()),
                }
            }
        }
    }
}

#[test]
fn passwords_come_from_the_file() {
    let Some(postgres) = database("18", true) else {
        return;
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let password = postgres.password().unwrap();
    let text = format!("127.0.0.1:{}:*:*:{password}\n", postgres.port());
    std::fs::write(file.path(), text).unwrap();
    let url = postgres
        .tcp_url()
        .unwrap()
        .replace(&format!(":{password}@"), "@");
    let config = config(&format!("{url}&passfile={}", file.path().display()));
    for api in APIS {
        assert_eq!(shown(&api.query(&config, "select 7")), "7", "{api:?}");
    }
}
