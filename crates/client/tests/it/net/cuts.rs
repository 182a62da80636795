//! Wherever a connection is cut, there is a clean error soon, and no answer that is not one.

use lookaside_client::{Answer, Result};

use super::{Cut, NO_CUT, Site, requests};
use crate::live::api::{APIS, Api};
use crate::live::shown;

/// More than the whole dialogue has in either direction.
const SIZE_MAX: usize = 1_000;

/// Cuts at each place up to the one behind which nothing is left to cut.
fn cut_everywhere(api: Api, cut_at: impl Fn(usize) -> Cut) {
    for size in 0..SIZE_MAX {
        let site = Site::start(cut_at(size));
        let answers = api.ask(&site.config(""), requests());
        if check(&answers, size) {
            assert!(size > 100, "{api:?} was done after {size} bytes");
            return;
        }
    }
    panic!("{api:?} is never done");
}

/// Whether all was answered. What was must be right, and what was not is a lost connection.
fn check(answers: &Result<Vec<Result<Answer>>>, size: usize) -> bool {
    let lost = match answers {
        Err(error) => Some(error),
        Ok(answers) => {
            for (answer, expected) in answers.iter().zip(["7", "8"]) {
                if answer.is_ok() {
                    assert_eq!(shown(answer), expected, "cut at {size}");
                }
            }
            answers.iter().find_map(|answer| answer.as_ref().err())
        }
    };
    match lost {
        Some(error) => assert!(error.is_connection_lost(), "cut at {size}: {error:?}"),
        None => return true,
    }
    false
}

#[test]
fn a_server_that_stops_to_talk() {
    for api in APIS {
        cut_everywhere(api, |sent| Cut { sent, ..NO_CUT });
    }
}

#[test]
fn a_server_that_stops_to_listen() {
    for api in APIS {
        cut_everywhere(api, |received| Cut { received, ..NO_CUT });
    }
}
