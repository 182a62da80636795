//! What has to be waited for, and until when.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use lookaside_client::ErrorKind;
use lookaside_client::postgres::{Client, Options, blocking};
use lookaside_client::{Request, TransactionOptions};
use lookaside_value::Value;

use super::{NO_CUT, Site, requests};
use crate::live::api::APIS;
use crate::live::tokio::block_on;
use crate::live::{config, shown};

/// What waits for another session's transaction was not sent, and is not sent later.
#[test]
fn a_deadline_holds_where_another_has_the_connection() {
    let site = Site::start(NO_CUT);
    block_on(async {
        let client = Client::connect_with(&site.config(""), Options::default()).await;
        let client = client.unwrap();
        let mut lock = client.lock().await.unwrap();
        let transaction = lock.begin(TransactionOptions::default()).await.unwrap();
        let deadline = Instant::now() + Duration::from_millis(50);
        let request = Request::new("select $1", &[Value::Int(7)]).deadline(deadline);
        let asked = tokio::time::timeout(Duration::from_secs(120), client.request(request)).await;
        let answers = asked.expect("an end to it");
        let error = match answers {
            Ok(mut answers) => answers.pop().unwrap().unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.kind(), ErrorKind::Deadline);
        assert!(error.is_retryable());
        transaction.commit().await.unwrap();
        drop(lock);
        let answer = client.query("select $1", &[Value::Int(8)]).await;
        assert_eq!(shown(&answer), "8");
        // One that is answered in time.
        let deadline = Instant::now() + Duration::from_secs(120);
        let request = Request::new("select $1", &[Value::Int(9)]).deadline(deadline);
        let answers = client.request(request).await.unwrap();
        assert_eq!(shown(&answers[0]), "9");
    });
}

/// The session is ended in the same breath as it begins.
#[test]
fn a_session_that_ends_before_it_is_checked() {
    let site = Site::serve(|mut socket| {
        let _ = socket.read(&mut [0; 1024]);
        let mut bytes = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I".to_vec();
        let fatal = b"SFATAL\0VFATAL\0C57P01\0Mno\0\0";
        bytes.push(b'E');
        bytes.extend(u32::try_from(fatal.len() + 4).unwrap().to_be_bytes());
        bytes.extend(fatal);
        let _ = socket.write_all(&bytes);
    });
    for api in APIS {
        for target in ["any", "primary"] {
            let config = site.config(&format!("&target_session_attrs={target}"));
            let error = match api.ask(&config, requests()) {
                Ok(mut answers) => answers.pop().unwrap().unwrap_err(),
                Err(error) => error,
            };
            assert_eq!(error.kind(), ErrorKind::Connection, "{api:?}: {error:?}");
        }
    }
}

/// A Unix socket with a full line in front of it makes those wait that connect.
#[test]
fn a_local_server_that_is_stuck_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".s.PGSQL.5432");
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _first = UnixStream::connect(&path).unwrap();
    let url = format!(
        "postgres://amy@{}/shop?connect_timeout=1",
        folder.path().display().to_string().replace('/', "%2F")
    );
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let connected = blocking::Connection::connect_with(&config(&url), Options::default());
        sender.send(connected.map(drop)).unwrap();
    });
    let connected = receiver.recv_timeout(Duration::from_secs(120));
    let error = connected.expect("an end to it").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection);
    assert!(error.is_retryable());
}
