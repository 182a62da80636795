//! What each `ssl-mode` comes to.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use lookaside_client::mysql::Options;
use lookaside_client::{ErrorKind, Request};
use lookaside_testing::{Brand, Server};

use super::{connect_to, run, shown};
use crate::live::tls::server::Authority;

/// What encrypts the session; nothing where it is not.
const CIPHER: &str = "show status like 'Ssl_cipher'";

fn outcome(server: &Server, host: &str, query: &str) -> String {
    let port = server.port();
    let url = format!("mysql://tls_user:s3cret@{host}:{port}/?{query}");
    match connect_to(&url, Options::default()) {
        Ok(mut connection) => match shown(&connection.query(CIPHER, &[])).as_str() {
            "Ssl_cipher," => "plain".to_owned(),
            _ => "tls".to_owned(),
        },
        Err(error) => {
            assert!(!error.is_retryable(), "{error:?}");
            format!("{:?}", error.kind())
        }
    }
}

fn with_user(server: &Server, identified: &str) {
    let mut connection = connect_to(&server.url(""), Options::default()).unwrap();
    run(
        &mut connection,
        &format!("create user tls_user@'%' identified {identified}"),
    );
}

#[test]
fn each_mode_of_mariadb() {
    let authority = Authority::new("issuer");
    let pair = authority.issue(&["localhost"]);
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path.display().to_string()
    };
    let arguments = [
        format!("--ssl-cert={}", file("own.crt", &pair.certificate)),
        format!("--ssl-key={}", file("own.key", &pair.key)),
        format!("--ssl-ca={}", file("roots.crt", &authority.pem())),
    ];
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let Some(server) = Server::start(Brand::MariaDb, &arguments) else {
        return;
    };
    with_user(&server, "by 's3cret'");
    let roots = format!("&ssl-ca={}", folder.path().join("roots.crt").display());
    let other = file("other.crt", &Authority::new("other").pem());
    let other = format!("&ssl-ca={other}");
    for (host, query, expected) in [
        ("localhost", "ssl-mode=DISABLED".to_owned(), "plain"),
        ("localhost", "ssl-mode=PREFERRED".to_owned(), "tls"),
        ("localhost", "ssl-mode=REQUIRED".to_owned(), "tls"),
        // Roots are asked by the modes that say so.
        ("localhost", format!("ssl-mode=REQUIRED{other}"), "tls"),
        ("localhost", format!("ssl-mode=VERIFY_CA{roots}"), "tls"),
        ("localhost", format!("ssl-mode=VERIFY_CA{other}"), "Tls"),
        ("127.0.0.1", format!("ssl-mode=VERIFY_CA{roots}"), "tls"),
        (
            "localhost",
            format!("ssl-mode=VERIFY_IDENTITY{roots}"),
            "tls",
        ),
        (
            "127.0.0.1",
            format!("ssl-mode=VERIFY_IDENTITY{roots}"),
            "Tls",
        ),
    ] {
        assert_eq!(outcome(&server, host, &query), expected, "{host} {query}");
    }
    let port = server.port();
    let url = format!("mysql://tls_user:s3cret@localhost:{port}/?ssl-mode=REQUIRED");
    let mut connection = connect_to(&url, Options::default()).unwrap();
    let started = Instant::now();
    let sleep = Request::new("select sleep(600)", &[]);
    let sleep = sleep.deadline(started + Duration::from_millis(100));
    let answers = connection.request(sleep).unwrap();
    assert_eq!(answers[0].as_ref().unwrap_err().kind(), ErrorKind::Deadline);
    assert_eq!(shown(&connection.query("select 7", &[])), "7");
    assert!(started.elapsed() < Duration::from_secs(120));
}

#[test]
fn a_server_without_tls_says_so() {
    let Some(server) = Server::shared(Brand::MariaDb) else {
        return;
    };
    let port = server.port();
    let url = format!("mysql://root@127.0.0.1:{port}/?ssl-mode=REQUIRED");
    let error = connect_to(&url, Options::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Tls);
    assert_eq!(
        error.to_string(),
        format!("cannot log in to 127.0.0.1:{port}")
    );
    let said = format!("{error:?}");
    assert!(said.contains("the server does not offer TLS"), "{said}");
}

/// It makes certificates for itself, which name no host.
#[test]
fn each_mode_of_mysql() {
    let Some(server) = Server::shared(Brand::MySql) else {
        return;
    };
    with_user(server, "with caching_sha2_password by 's3cret'");
    let roots = format!("&ssl-ca={}", server.data().join("ca.pem").display());
    for (query, expected) in [
        // The whole password goes through TLS, and from then on its hash is enough.
        ("ssl-mode=REQUIRED".to_owned(), "tls"),
        ("ssl-mode=DISABLED".to_owned(), "plain"),
        ("ssl-mode=PREFERRED".to_owned(), "tls"),
        (format!("ssl-mode=VERIFY_CA{roots}"), "tls"),
        (format!("ssl-mode=VERIFY_IDENTITY{roots}"), "Tls"),
    ] {
        assert_eq!(outcome(server, "localhost", &query), expected, "{query}");
    }
}
