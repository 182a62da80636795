//! Requests whose events need lookups in a database.

use lookaside_testing::wait_until;

use super::{NDJSON, Run};
use crate::lookup_failures::{BEGINS, Server};

#[test]
fn a_request_waits_until_the_database_of_its_lookups_is_available() {
    let Some(mut server) = Server::start() else {
        return;
    };
    // Without a setting, as topics.
    let project = server.project("", "");
    let options = "timeout_ms=600000";
    let run = Run::start(&project, options, &["--output", "out.json"]);
    let mut client = run.client();
    let answer = client.ask("POST", "/events", &[NDJSON], b"{\"id\":1}\n");
    answer.is(200);
    server.stop();
    client.send("POST", "/events", &[NDJSON], b"{\"id\":2}\n{\"id\":3}\n");
    wait_until("the lookup waits", || {
        let log = run.log.lock().unwrap();
        log.iter().any(|line| line.contains(BEGINS))
    });
    assert_eq!(project.read("out.json").lines().count(), 1);
    server.start_again();
    client.receive("POST").is(200);
    let expected = [1, 2, 3].map(|id| format!("{{\"id\":{id},\"name\":\"h{id}\"}}\n"));
    assert_eq!(project.read("out.json"), expected.concat());
}
