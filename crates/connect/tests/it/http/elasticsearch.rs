//! Elasticsearch: a server of ours that checks each request against the documented format.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lookaside_connect::check_sink;
use lookaside_stream::{Messages, Partition};
use serde_json::{Value as Json, json};

use super::server::{HttpServer, Reply, Request};
use super::{Writing, problem};

/// The documents of all indices, by index and id.
type Documents = BTreeMap<(String, String), Json>;

/// What happens to a document at an attempt, counted from 1 for each; `None` if it is indexed.
type Trouble = fn(&Json, usize) -> Option<(u16, &'static str)>;

struct Cluster {
    server: HttpServer,
    documents: Arc<Mutex<Documents>>,
}

impl Cluster {
    fn start(trouble: Trouble) -> Self {
        let documents = Arc::new(Mutex::new(Documents::new()));
        let attempts = Mutex::new(BTreeMap::<String, usize>::new());
        let server = HttpServer::start_with(None, {
            let documents = Arc::clone(&documents);
            move |request| match (&*request.method, &*request.path) {
                ("HEAD", "/clicks") => Reply::new(200, ""),
                ("HEAD", "/private") => Reply::new(401, ""),
                ("HEAD", _) => Reply::new(404, ""),
                ("POST", _) => bulk(request, trouble, &documents, &attempts),
                _ => panic!("{request:?}"),
            }
        });
        Self { server, documents }
    }

    fn url(&self, rest: &str) -> String {
        format!("elasticsearch://{}/{rest}", self.server.address())
    }

    fn documents(&self) -> Documents {
        self.documents.lock().unwrap().clone()
    }
}

/// The bulk interface: pairs of lines, an action and a document, in a body of the type x-ndjson.
fn bulk(
    request: &Request,
    trouble: Trouble,
    documents: &Mutex<Documents>,
    attempts: &Mutex<BTreeMap<String, usize>>,
) -> Reply {
    let (path, query) = request.path.split_once('?').unwrap();
    let index = path
        .strip_prefix('/')
        .and_then(|path| path.strip_suffix("/_bulk"));
    let index = index.expect("/INDEX/_bulk");
    assert_eq!(
        query,
        "filter_path=errors%2Citems.%2A.status%2Citems.%2A.error"
    );
    assert_eq!(request.header("content-type"), Some("application/x-ndjson"));
    let lines = request.lines();
    assert_eq!(lines.len() % 2, 0);
    let mut items = Vec::new();
    for pair in lines.chunks(2) {
        let action: Json = serde_json::from_str(&pair[0]).unwrap();
        let fields = action.as_object().unwrap();
        assert_eq!(fields.keys().collect::<Vec<_>>(), ["index"]);
        let fields = fields["index"].as_object().unwrap();
        assert!(
            fields.keys().all(|key| ["_index", "_id"].contains(&&**key)),
            "{action}"
        );
        let id = fields["_id"].as_str().unwrap();
        assert!((1..=512).contains(&id.len()));
        let index = fields
            .get("_index")
            .map_or(index, |index| index.as_str().unwrap());
        let document: Json = serde_json::from_str(&pair[1]).unwrap();
        let mut attempts = attempts.lock().unwrap();
        let attempt = attempts.entry(pair[1].clone()).or_default();
        *attempt += 1;
        items.push(match trouble(&document, *attempt) {
            Some((status, kind)) => json!({ "index": {
                "status": status,
                "error": { "type": kind, "reason": "no", "caused_by": { "reason": "why" } },
            }}),
            None => {
                let place = (index.to_owned(), id.to_owned());
                let before = documents.lock().unwrap().insert(place, document);
                json!({ "index": { "status": if before.is_some() { 200 } else { 201 } } })
            }
        });
    }
    let errors = items.iter().any(|item| item["index"]["error"].is_object());
    Reply::new(
        200,
        &json!({ "errors": errors, "items": items }).to_string(),
    )
}

fn numbers(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|n| json!({ "n": n }).to_string()).collect()
}

#[test]
fn a_message_that_is_read_again_leaves_one_document() {
    let cluster = Cluster::start(|_, _| None);
    // The second run reads what the first did not acknowledge.
    for _ in 0..2 {
        let mut writing = Writing::open(&cluster.url("clicks?batch_bytes=5000"));
        writing.write(&numbers(0..100));
        writing.flush();
        assert_eq!(writing.acknowledged(), 100);
    }
    let documents = cluster.documents();
    assert_eq!(documents.len(), 100);
    let place = ("clicks".to_owned(), "clicks:0:41".to_owned());
    assert_eq!(documents[&place], json!({ "n": 41 }));
}

#[test]
fn results_without_stable_positions_replace_nothing() {
    let cluster = Cluster::start(|_, _| None);
    for _ in 0..2 {
        let mut writing = Writing::of(&cluster.url("clicks"), Partition::new("clicks", 0));
        writing.write(&numbers(0..100));
        writing.flush();
    }
    assert_eq!(cluster.documents().len(), 200);
}

#[test]
fn items_have_outcomes_of_their_own() {
    let cluster = Cluster::start(|document, attempt| match document["n"].as_u64()? {
        3 if attempt < 3 => Some((429, "es_rejected_execution_exception")),
        4 if attempt < 2 => Some((503, "unavailable_shards_exception")),
        5 if attempt < 2 => Some((403, "cluster_block_exception")),
        6 => Some((400, "mapper_parsing_exception")),
        _ => None,
    });
    let mut writing = Writing::open(&cluster.url("clicks"));
    writing.write(&numbers(0..10));
    writing.flush();
    let reason = "status 400: mapper_parsing_exception: no: why".to_owned();
    assert_eq!(writing.refusals(), [("{\"n\":6}".to_owned(), reason)]);
    assert_eq!(writing.acknowledged(), 10);
    assert_eq!(cluster.documents().len(), 9);
    // Only what was not written is sent again.
    let posts = cluster.server.posts();
    let counts: Vec<_> = posts.iter().map(|post| post.lines().len() / 2).collect();
    assert_eq!(counts, [10, 3, 1]);
}

#[test]
fn the_last_event_of_a_key_is_its_document() {
    let cluster = Cluster::start(|document, attempt| {
        (document["v"] == 1 && attempt == 1).then_some((429, "es_rejected_execution_exception"))
    });
    let mut writing = Writing::open(&cluster.url("clicks?id=key"));
    writing.write_keyed(&[
        ("{\"v\":1}", Some("a")),
        ("{\"v\":7}", Some("b")),
        ("{\"v\":2}", Some("a")),
        ("{\"v\":9}", None),
    ]);
    writing.flush();
    assert_eq!(writing.acknowledged(), 4);
    let found: Vec<_> = cluster.documents().into_iter().collect();
    let document = |id: &str, v: u64| (("clicks".to_owned(), id.to_owned()), json!({ "v": v }));
    assert_eq!(
        found,
        [
            document("a", 2),
            document("b", 7),
            document("clicks:0:3", 9)
        ]
    );
}

#[test]
fn a_topic_is_an_index() {
    let cluster = Cluster::start(|_, _| None);
    let mut writing = Writing::open(&cluster.url("clicks"));
    let mut messages = Messages::new();
    messages.push(&writing.partition, 0, Some(b"{}"), None);
    messages.set_topic("other");
    writing.write_messages(&messages).unwrap();
    writing.flush();
    let places: Vec<_> = cluster.documents().into_keys().collect();
    assert_eq!(places, [("other".to_owned(), "clicks:0:0".to_owned())]);
}

#[test]
fn what_is_missing_is_said() {
    let cluster = Cluster::start(|_, _| Some((404, "index_not_found_exception")));
    let found = |path: &str| check_sink(&cluster.url(path).parse().unwrap()).unwrap();
    assert!(found("clicks").ends_with("is available: index clicks"));
    assert!(found("new").ends_with("index new, to be created"));
    let error = problem(&cluster.url("private?header.Authorization=secret"));
    assert!(error.contains("header.Authorization"), "{error}");
    assert!(problem(&cluster.url("a/b")).contains("names no index"));
    let mut writing = Writing::open(&cluster.url("new"));
    writing.write(&numbers(0..10));
    let failure = writing.failure();
    assert!(failure.contains("create the index"), "{failure}");
}

#[test]
fn an_answer_of_another_server_confirms_nothing() {
    let server = HttpServer::start_with(None, |request| match &*request.method {
        "POST" => Reply::new(200, "<html>"),
        _ => Reply::new(200, ""),
    });
    let mut writing = Writing::open(&format!("elasticsearch://{}/clicks", server.address()));
    writing.write(&numbers(0..10));
    lookaside_testing::wait_until("it is tried again", || server.posts().len() > 1);
    assert_eq!(writing.acknowledged(), 0);
}
