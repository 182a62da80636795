//! What goes through TLS: passwords, much data, requests to cancel.

use std::time::{Duration, Instant};

use lookaside_client::{ErrorKind, Request, Syncs};
use lookaside_value::{ParamBatch, Value};

use super::super::api::APIS;
use super::server::{Authority, Server};
use super::{config, outcome, shown};

#[test]
fn log_ins_are_bound_to_the_channel() {
    let authority = Authority::new("issuer");
    for version in ["18", "15"] {
        let pair = authority.issue(&["db"]);
        let Some(server) = Server::start(version, &pair, &authority) else {
            continue;
        };
        for (mode, binding, expected) in [
            ("require", "require", "tls"),
            ("require", "prefer", "tls"),
            ("require", "disable", "tls"),
            ("disable", "require", "Protocol"),
            ("disable", "prefer", "plain"),
        ] {
            for api in APIS {
                let url = server.url("anybody", mode) + "&channel_binding=" + binding;
                assert_eq!(
                    outcome(api, &url),
                    expected,
                    "{version} {api:?} {mode} {binding}"
                );
            }
        }
    }
}

#[test]
fn large_flights_go_through_and_what_takes_too_long_is_cancelled() {
    let authority = Authority::new("issuer");
    for version in ["18", "15"] {
        let pair = authority.issue(&["db"]);
        let Some(server) = Server::start(version, &pair, &authority) else {
            continue;
        };
        for api in APIS {
            let started = Instant::now();
            let mut params = ParamBatch::new(2);
            for tag in 0..1_000 {
                params.push([Value::Int(tag), Value::from("x".repeat(5_000))]);
            }
            let flight = Request::many("select $1::int8, repeat($2, 3)", params);
            let sleep = Request::new("select pg_sleep(60)", &[]);
            let sleep = sleep.deadline(started + Duration::from_secs(4));
            let after = Request::new("select 7", &[]);
            let requests = vec![flight.syncs(Syncs::Shared), sleep, after];
            let url = server.url("anybody", "require");
            let answers = api.ask(&config(&url), requests).unwrap();
            assert_eq!(answers.len(), 1_002);
            for (tag, answer) in (0..1_000).zip(&answers) {
                let row = answer.as_ref().unwrap().rows.row(0);
                assert_eq!(row[0], Value::Int(tag));
                assert_eq!(row[1].as_str().unwrap().len(), 15_000);
            }
            let error = answers[1_000].as_ref().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Deadline);
            assert_eq!(shown(&answers[1_001]), "7");
        }
    }
}
