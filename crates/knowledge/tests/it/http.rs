//! Data files at HTTP addresses.

use std::collections::VecDeque;
use std::error::Error as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use lookaside_knowledge::{ErrorKind, Knowledge, Outcome};
use tempfile::TempDir;

use crate::reload::{PATIENCE, listen};

/// A server whose responses a test determines; it ends with the test.
struct Server {
    address: String,
    /// The responses to the next requests; the last one is repeated.
    responses: Arc<Mutex<VecDeque<Vec<u8>>>>,
    /// Each request: its head, in lower case.
    requests: Receiver<String>,
}

impl Server {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let responses: Arc<Mutex<VecDeque<Vec<u8>>>> = Arc::default();
        let (sender, requests) = channel();
        let shared = Arc::clone(&responses);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let head = head_of(&stream);
                let mut responses = shared.lock().unwrap();
                let response = match responses.len() {
                    0 => response(500, "", b""),
                    1 => responses[0].clone(),
                    _ => responses.pop_front().unwrap(),
                };
                drop(responses);
                if sender.send(head).is_err() {
                    return;
                }
                // A client that has enough closes the connection.
                let _ = stream.write_all(&response);
            }
        });
        Self {
            address,
            responses,
            requests,
        }
    }

    fn respond(&self, responses: impl IntoIterator<Item = Vec<u8>>) {
        *self.responses.lock().unwrap() = responses.into_iter().collect();
    }

    fn request(&self) -> String {
        self.requests.recv_timeout(PATIENCE).unwrap()
    }
}

fn head_of(stream: &TcpStream) -> String {
    let mut head = String::new();
    let mut reader = BufReader::new(stream);
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            break;
        }
    }
    head.to_lowercase()
}

fn response(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let size = body.len();
    let head = format!(
        "HTTP/1.1 {status} x\r\nContent-Length: {size}\r\nConnection: close\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// A folder with a table `t` whose rows are at a path of the server.
fn folder(server: &Server, path: &str, config: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let address = &server.address;
    fs::write(
        folder.path().join("knowdb.toml"),
        format!(
            "version = 2\n[[tables]]\nname = 't'\ndata_file = 'http://{address}{path}'\n{config}"
        ),
    )
    .unwrap();
    folder
}

fn names(knowledge: &Knowledge) -> String {
    let rows = knowledge
        .query_all("select name from t order by id", ())
        .unwrap();
    let names: Vec<String> = rows
        .iter()
        .map(|row| row[0].to_text().to_string())
        .collect();
    names.join(",")
}

fn warnings(knowledge: &Knowledge) -> String {
    knowledge.load_report().tables[0].warnings.join("\n")
}

/// The files of the table's folder.
fn files(folder: &TempDir) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.path().join("t")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn message(error: &lookaside_knowledge::Error) -> String {
    match error.source() {
        Some(source) => format!("{error} > {source}"),
        None => error.to_string(),
    }
}

const FIRST: &[u8] = b"id,name\n1,ann\n";
const SECOND: &[u8] = b"id,name\n1,ann\n2,bob\n";

#[test]
fn an_unchanged_file_is_downloaded_once() {
    let server = Server::new();
    let headers = "http.headers = { Authorization = 'Bearer s3cret', X-Tenant = 'a' }\n";
    let folder = folder(&server, "/d/users.csv?token=hidden", headers);
    server.respond([response(
        200,
        "ETag: \"v1\"\r\nLast-Modified: Sat, 28 Nov 2026 10:00:00 GMT\r\n",
        FIRST,
    )]);
    let knowledge = Knowledge::open(folder.path()).unwrap();
    assert_eq!(
        (names(&knowledge), warnings(&knowledge)),
        ("ann".into(), String::new())
    );
    let request = server.request();
    for expected in [
        "get /d/users.csv?token=hidden http/1.1\r\n",
        "\r\nauthorization: bearer s3cret\r\n",
        "\r\nx-tenant: a\r\n",
        "\r\naccept-encoding: gzip, zstd\r\n",
    ] {
        assert!(request.contains(expected), "{request}");
    }
    assert!(!request.contains("if-none-match"), "{request}");
    server.respond([response(304, "", b"")]);
    assert_eq!(knowledge.reload().unwrap(), 2);
    let request = server.request();
    assert!(
        request.contains("\r\nif-none-match: \"v1\"\r\n"),
        "{request}"
    );
    assert!(
        request.contains("\r\nif-modified-since: sat, 28 nov 2026 10:00:00 gmt\r\n"),
        "{request}"
    );
    assert_eq!(
        (names(&knowledge), warnings(&knowledge)),
        ("ann".into(), String::new())
    );
    server.respond([response(200, "ETag: \"v2\"\r\n", SECOND)]);
    knowledge.reload().unwrap();
    assert_eq!(names(&knowledge), "ann,bob");
    server.request();
    server.respond([response(304, "", b"")]);
    let other = Knowledge::open(folder.path()).unwrap();
    assert_eq!(names(&other), "ann,bob");
    assert!(server.request().contains("\r\nif-none-match: \"v2\"\r\n"));
    // The copy, its validators and the lock.
    let files = files(&folder);
    assert_eq!(files.len(), 3, "{files:?}");
    for file in &files {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
        let text = String::from_utf8(fs::read(file).unwrap()).unwrap();
        let name = file.to_string_lossy();
        assert!(
            !text.contains("hidden") && !name.contains("hidden"),
            "{name}: {text}"
        );
    }
}

#[test]
fn the_copy_is_used_without_the_network() {
    let server = Server::new();
    let folder = folder(
        &server,
        "/users.csv?key=hidden",
        "http.headers = { X-Key = 's3cret' }\n",
    );
    // Without validators, too.
    server.respond([response(200, "", FIRST)]);
    drop(Knowledge::open(folder.path()).unwrap());
    for (status, expected) in [
        (503, "the server answers with status 503"),
        (404, "the server answers with status 404"),
        (
            401,
            "the server answers with status 401; correct tables.http.headers",
        ),
    ] {
        server.respond([response(status, "", b"no")]);
        let knowledge = Knowledge::open(folder.path()).unwrap();
        assert_eq!(names(&knowledge), "ann", "{status}");
        let said = warnings(&knowledge);
        let address = &server.address;
        assert!(
            said.starts_with(&format!(
                "http://{address}/users.csv: {expected}; the copy is used, which is "
            )),
            "{said}"
        );
        assert!(said.ends_with(" s old"), "{said}");
    }
    // A response that ends too early is not used.
    let mut cut = response(200, "ETag: \"v2\"\r\n", SECOND);
    cut.truncate(cut.len() - 3);
    server.respond([cut]);
    let knowledge = Knowledge::open(folder.path()).unwrap();
    assert_eq!(names(&knowledge), "ann");
    assert!(
        warnings(&knowledge).contains("the download is not complete: "),
        "{}",
        warnings(&knowledge)
    );
    // No server at all.
    let address = server.address.clone();
    let config = fs::read_to_string(folder.path().join("knowdb.toml")).unwrap();
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    fs::write(
        folder.path().join("knowdb.toml"),
        config.replace(&address, &closed),
    )
    .unwrap();
    let error = Knowledge::open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    // The copy is one of another address.
    let said = message(&error);
    assert!(
        said.starts_with(&format!("http://{closed}/users.csv: no answer: ")),
        "{said}"
    );
    assert!(
        said.ends_with(
            "and there is no earlier copy; correct the address or tables.http, or try again"
        ),
        "{said}"
    );
    for secret in ["hidden", "s3cret"] {
        assert!(!said.contains(secret), "{said}");
    }
}

#[test]
fn a_download_that_cannot_be_loaded_does_not_replace_the_copy() {
    let server = Server::new();
    let folder = folder(&server, "/users.csv", "");
    server.respond([response(200, "ETag: \"v1\"\r\n", FIRST)]);
    let knowledge = Knowledge::open(folder.path()).unwrap();
    server.respond([response(200, "ETag: \"v2\"\r\n", b"id,name\n1\n")]);
    let error = knowledge.reload().unwrap_err();
    assert_eq!(
        message(&error),
        format!(
            "http://{}/users.csv:2: 1 field where the first record has 2",
            server.address
        )
    );
    assert_eq!(names(&knowledge), "ann");
    assert_eq!(files(&folder).len(), 3, "the bad download is removed");
    server.respond([response(500, "", b"")]);
    assert_eq!(names(&Knowledge::open(folder.path()).unwrap()), "ann");
}

#[test]
fn files_and_ways_are_decompressed_and_limited() {
    let gzip = |data: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = zstd::encode_all(FIRST, 1).unwrap();
    let json = b"{\"id\":1,\"name\":\"ann\"}\n";
    for (path, headers, body) in [
        ("/users.csv", "Content-Encoding: gzip\r\n", gzip(FIRST)),
        ("/users.csv", "Content-Encoding: zstd\r\n", zstd.clone()),
        ("/users.csv.gz", "", gzip(FIRST)),
        ("/users.csv.zst?x=1", "", zstd),
        ("/users.csv.gz", "Content-Encoding: gzip\r\n", gzip(FIRST)),
        ("/users.jsonl.gz", "", gzip(json)),
        ("/users", "", FIRST.to_vec()),
        ("/", "", FIRST.to_vec()),
    ] {
        let server = Server::new();
        let folder = folder(&server, path, "");
        server.respond([response(200, headers, &body)]);
        let knowledge = Knowledge::open(folder.path()).unwrap();
        assert_eq!(names(&knowledge), "ann", "{path} {headers}");
    }
    let server = Server::new();
    for (config, headers, body, expected) in [
        (
            "http.size_max = 19\n",
            "",
            SECOND.to_vec(),
            "the file has more than 19 bytes, the limit that http.size_max sets",
        ),
        (
            "http.size_max = 1000\n",
            "Content-Encoding: gzip\r\n",
            gzip(&[b'x'; 2000]),
            "the file has more than 1000 bytes, the limit that http.size_max sets",
        ),
        (
            "",
            "Content-Encoding: br\r\n",
            FIRST.to_vec(),
            "the server sends the unknown encoding \"br\"",
        ),
    ] {
        let folder = folder(&server, "/users.csv", config);
        server.respond([response(200, headers, &body)]);
        let said = message(&Knowledge::open(folder.path()).unwrap_err());
        assert!(said.contains(expected), "{said}");
        assert_eq!(files(&folder).len(), 0);
    }
}

#[test]
fn redirects_are_followed_without_the_headers_of_the_first_server() {
    let (first, second) = (Server::new(), Server::new());
    let folder = folder(
        &first,
        "/a/users.csv",
        "http.headers = { X-Key = 's3cret' }\n",
    );
    first.respond([
        response(302, "Location: b.csv\r\n", b""),
        response(
            307,
            &format!("Location: http://{}/c.csv\r\n", second.address),
            b"",
        ),
    ]);
    second.respond([response(200, "", FIRST)]);
    let knowledge = Knowledge::open(folder.path()).unwrap();
    assert_eq!(names(&knowledge), "ann");
    assert!(first.request().contains("x-key: s3cret"));
    let request = first.request();
    assert!(
        request.starts_with("get /a/b.csv ") && request.contains("x-key: s3cret"),
        "{request}"
    );
    let request = second.request();
    assert!(
        request.starts_with("get /c.csv ") && !request.contains("s3cret"),
        "{request}"
    );
    for (location, expected) in [
        ("Location: /again.csv\r\n", "more than 5 redirects"),
        (
            "Location: ftp://host/x\r\n",
            "the server redirects to an address that is not https",
        ),
        ("", "the server redirects to nowhere"),
    ] {
        first.respond([response(301, location, b"")]);
        let _ = knowledge.reload();
        assert!(
            warnings(&knowledge).contains(expected),
            "{}",
            warnings(&knowledge)
        );
    }
}

#[test]
fn a_change_is_noticed_at_the_interval() {
    let server = Server::new();
    let folder = folder(&server, "/users.csv", "refresh_ms = 20\n");
    server.respond([
        response(200, "ETag: \"v1\"\r\n", FIRST),
        response(304, "", b""),
    ]);
    let (knowledge, reloads) = listen(Knowledge::builder(folder.path()));
    // Unchanged: no reload, although the server is asked.
    for _ in 0..5 {
        server.request();
    }
    assert_eq!(reloads.try_recv().ok(), None);
    server.respond([response(500, "", b"")]);
    for _ in 0..5 {
        server.request();
    }
    assert_eq!(
        reloads.try_recv().ok(),
        None,
        "a server that fails changes nothing"
    );
    // A bad file is tried once.
    server.respond([response(200, "ETag: \"bad\"\r\n", b"id,name\n1\n")]);
    assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Failure));
    while server.requests.try_recv().is_ok() {}
    for _ in 0..5 {
        server.request();
    }
    assert_eq!(reloads.try_recv().ok(), None);
    assert_eq!(names(&knowledge), "ann");
    server.respond([
        response(200, "ETag: \"v2\"\r\n", SECOND),
        response(200, "ETag: \"v2\"\r\n", SECOND),
        response(304, "", b""),
    ]);
    assert_eq!(reloads.recv_timeout(PATIENCE), Ok(Outcome::Success));
    assert_eq!(names(&knowledge), "ann,bob");
}

#[test]
fn mistakes_name_the_key() {
    let open = |line: &str| {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("version = 2\n[[tables]]\nname = 't'\n{line}\n");
        fs::write(folder.path().join("knowdb.toml"), text).unwrap();
        let error = Knowledge::open(folder.path()).unwrap_err();
        let root = format!("{}/", folder.path().display());
        message(&error).replace(&root, "")
    };
    for (line, expected) in [
        (
            "data_file = 'https://'",
            "knowdb.toml:4: tables.data_file is not an address such as \"https://host/geo.csv\"",
        ),
        (
            "data_file = 'https://user:pass@host/x.csv'",
            "knowdb.toml:4: tables.data_file has a user in its address; write http.headers = { \
             Authorization = \"…\" }",
        ),
        (
            "http.size_max = 1",
            "knowdb.toml:4: tables.http applies to a data_file that begins with https:// or http://",
        ),
        (
            "mmdb = 'https://h/x.mmdb'\nhttp.size = 1",
            "knowdb.toml:5: unknown key http.size; did you mean size_max?",
        ),
        (
            "data_file = 'https://h/x'\nhttp.headers = { \"a b\" = 'x' }",
            "knowdb.toml:5: headers.a b is not the name of a header",
        ),
        (
            "data_file = 'https://h/x'\nhttp.headers = { a = \"s3cret\\n\" }",
            "knowdb.toml:5: headers.a must be a text of ASCII characters in one line",
        ),
        (
            "data_file = 'https://h/x'\nhttp.timeout_ms = 0",
            "knowdb.toml:5: http.timeout_ms must be at least 1",
        ),
        (
            "data_file = 's3://h/x.csv'",
            "t/s3://…: this is a URL, but table \"t\" must be CSV or JSON lines; download the \
             file, or use its address with http:// or https://; to query the tables of a database in \
             place, configure a [[provider.sqldb]] (docs/KNOWDB.md, Providers)",
        ),
    ] {
        assert_eq!(open(line), expected, "{line}");
    }
}
