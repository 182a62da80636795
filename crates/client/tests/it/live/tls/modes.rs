//! What each `sslmode` comes to.

use super::super::api::{APIS, Api};
use super::super::{database, shown};
use super::server::{Authority, PASSWORD, Server, setting};
use super::{config, error, outcome, said};

#[test]
fn each_mode_with_and_without_tls_on_the_server() {
    let authority = Authority::new("issuer");
    let pair = authority.issue(&["db"]);
    let Some(server) = Server::start("18", &pair, &authority) else {
        return;
    };
    let without = database("18", true).unwrap();
    let create = format!("create role anybody login superuser password '{PASSWORD}'");
    without.execute(&create).unwrap();
    let roots = setting("sslrootcert", &server.file("roots.crt", &authority.pem()));
    for (mode, with_tls, without_tls) in [
        ("disable", "plain", "plain"),
        ("allow", "plain", "plain"),
        ("prefer", "tls", "plain"),
        ("require", "tls", "Tls"),
        ("verify-ca", "tls", "Tls"),
        ("verify-full", "tls", "Tls"),
    ] {
        for api in APIS {
            for roots in ["", &roots] {
                if roots.is_empty() && mode.starts_with("verify") {
                    continue;
                }
                let url = server.url("anybody", mode) + roots;
                assert_eq!(outcome(api, &url), with_tls, "{api:?} {mode}");
                let (port, database) = (without.port(), without.database());
                let url = format!(
                    "postgres://anybody:{PASSWORD}@127.0.0.1:{port}/{database}\
                     ?sslmode={mode}{roots}"
                );
                let found = match api.query(&config(&url), "select 'plain'") {
                    Err(error) => format!("{:?}", error.kind()),
                    answer => shown(&answer),
                };
                assert_eq!(found, without_tls, "{api:?} {mode}");
            }
        }
    }
    let (port, database) = (without.port(), without.database());
    let url = format!("postgres://anybody@127.0.0.1:{port}/{database}?sslmode=require");
    for api in APIS {
        let said = said(&error(api, &url));
        let begin =
            format!("127.0.0.1:{port} does not offer TLS; enable it there, or use a weaker mode");
        assert!(said.starts_with(&begin), "{said}");
    }
}

#[test]
fn who_is_not_let_in_one_way_tries_the_other() {
    let authority = Authority::new("issuer");
    let pair = authority.issue(&["db"]);
    for version in ["18", "15"] {
        let Some(server) = Server::start(version, &pair, &authority) else {
            continue;
        };
        for (user, mode, expected, on_a_loop) in [
            ("tls_only", "disable", "28000", "28000"),
            ("tls_only", "allow", "tls", "28000"),
            ("tls_only", "prefer", "tls", "tls"),
            ("plain_only", "allow", "plain", "plain"),
            ("plain_only", "prefer", "plain", "28000"),
            ("plain_only", "require", "28000", "28000"),
        ] {
            for api in APIS {
                let expected = match api {
                    Api::Poll => on_a_loop,
                    _ => expected,
                };
                let found = outcome(api, &server.url(user, mode));
                assert_eq!(found, expected, "{version} {api:?} {user} {mode}");
            }
        }
        // What is wrong both ways is said as it was the first time.
        for (user, mode) in [("tls_only", "prefer"), ("anybody", "allow")] {
            let url = server.url(user, mode).replace(PASSWORD, "wrong");
            for api in APIS {
                assert_eq!(
                    outcome(api, &url),
                    "28P01",
                    "{version} {api:?} {user} {mode}"
                );
            }
        }
    }
}

#[test]
fn certificates_that_prefer_does_not_trust_leave_the_plain_way() {
    let authority = Authority::new("issuer");
    let pair = authority.issue(&["db"]);
    let Some(server) = Server::start("18", &pair, &authority) else {
        return;
    };
    let other = server.file("other.crt", &Authority::new("other").pem());
    let url = server.url("anybody", "prefer") + &setting("sslrootcert", &other);
    assert_eq!(outcome(Api::Blocking, &url), "plain");
    assert_eq!(outcome(Api::Tokio, &url), "plain");
    assert_eq!(outcome(Api::Poll, &url), "Tls");
}

#[test]
fn tls_begins_at_once_where_the_server_can() {
    let authority = Authority::new("issuer");
    let pair = authority.issue(&["db"]);
    for (version, expected) in [("18", "tls"), ("15", "Tls")] {
        let Some(server) = Server::start(version, &pair, &authority) else {
            continue;
        };
        for api in APIS {
            let url = server.url("anybody", "require") + "&sslnegotiation=direct";
            assert_eq!(outcome(api, &url), expected, "{version} {api:?}");
        }
    }
}
