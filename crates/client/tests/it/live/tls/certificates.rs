//! What is checked of certificates, and what is said of bad ones.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use lookaside_client::ErrorKind;

use super::super::api::APIS;
use super::server::{Authority, Server, self_signed, setting};
use super::{error, outcome, said};

#[test]
fn servers_that_are_not_to_be_trusted_are_not() {
    let authority = Authority::new("issuer");
    let good = authority.issue(&["db", "*.example.com", "127.0.0.2"]);
    let Some(server) = Server::start("18", &good, &authority) else {
        return;
    };
    let roots = setting("sslrootcert", &server.file("roots.crt", &authority.pem()));
    let foreign = setting(
        "sslrootcert",
        &server.file("foreign.crt", &Authority::new("other").pem()),
    );
    let full = server.url("anybody", "verify-full");
    let other_host = |name: &str| full.replace("@db:", &format!("@{name}:")) + &roots;
    for api in APIS {
        let check = |url: &str, expected: &str| {
            let error = error(api, url);
            assert_eq!(error.kind(), ErrorKind::Tls, "{error:?}");
            assert!(!error.is_retryable());
            let said = said(&error);
            assert!(said.contains(expected), "{api:?}: {said}");
        };
        for name in ["db", "a.example.com", "127.0.0.2"] {
            assert_eq!(outcome(api, &other_host(name)), "tls", "{api:?} {name}");
        }
        check(
            &other_host("other"),
            "does not name that host: it names DnsName(\"db\"), DnsName(\"*.example.com\"), \
             IpAddress(127.0.0.2); connect with a name of the",
        );
        check(&other_host("a.b.example.com"), "does not name that host");
        check(&other_host("127.0.0.3"), "does not name that host");
        // Only the issuer matters there.
        let ca = other_host("other").replace("verify-full", "verify-ca");
        assert_eq!(outcome(api, &ca), "tls");
        for mode in ["require", "verify-ca", "verify-full"] {
            let url = server.url("anybody", mode) + &foreign;
            check(
                &url,
                "is not trusted; name the issuer's certificate with `sslrootcert`",
            );
            check(&url, "the issuer of the certificate of db:");
        }
    }
    server.show(&authority.issue_expired(&["db"]));
    for api in APIS {
        let said = said(&error(api, &(server.url("anybody", "verify-ca") + &roots)));
        assert!(
            said.contains("has expired; renew it on the server"),
            "{said}"
        );
        // No more was requested than protection from passive listeners.
        assert_eq!(outcome(api, &server.url("anybody", "require")), "tls");
    }
    let own = self_signed(&["db"]);
    server.show(&own);
    let own = setting("sslrootcert", &server.file("own.crt", &own.certificate));
    for api in APIS {
        assert_eq!(outcome(api, &(full.clone() + &own)), "tls");
    }
}

#[test]
fn clients_show_certificates() {
    let authority = Authority::new("issuer");
    let Some(server) = Server::start("18", &authority.issue(&["db"]), &authority) else {
        return;
    };
    let files = |name: &str, pair: &super::server::Pair| {
        let certificate = server.file(&format!("{name}.crt"), &pair.certificate);
        let key = server.file(&format!("{name}.key"), &pair.key);
        setting("sslcert", &certificate) + &setting("sslkey", &key)
    };
    let url = server.url("certified", "require");
    let good = url.clone() + &files("good", &authority.issue_to("certified"));
    let somebody = url.clone() + &files("somebody", &authority.issue_to("somebody"));
    let stranger = Authority::new("other").issue_to("certified");
    let stranger = url.clone() + &files("stranger", &stranger);
    for api in APIS {
        assert_eq!(outcome(api, &good), "tls");
        assert_eq!(outcome(api, &somebody), "28000");
        assert_eq!(outcome(api, &url), "28000");
        let error = error(api, &stranger);
        assert_eq!(error.kind(), ErrorKind::Tls, "{error:?}");
        let said = said(&error);
        assert!(
            said.contains("which is often the client certificate"),
            "{said}"
        );
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new("issuer");
    let Some(server) = Server::start("18", &authority.issue(&["db"]), &authority) else {
        return;
    };
    let pair = authority.issue_to("certified");
    let certificate = setting("sslcert", &server.file("c.crt", &pair.certificate));
    let open = server.file("open.key", &pair.key);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let strange = authority.issue_to("other").key;
    let missing = server.file("x", "").with_file_name("missing");
    for (settings, file, expected) in [
        (
            certificate.clone() + &setting("sslkey", &open),
            "open.key",
            "other users can read it; run `chmod 600` on it",
        ),
        (
            certificate.clone() + &setting("sslkey", &server.file("s.key", &strange)),
            "s.key",
            "keys may not be consistent",
        ),
        (
            certificate.clone() + &setting("sslkey", &missing),
            "missing",
            "No such file",
        ),
        (setting("sslrootcert", &missing), "missing", "No such file"),
        (
            setting("sslrootcert", &server.file("empty.crt", "nothing")),
            "empty.crt",
            "it contains no `BEGIN CERTIFICATE`",
        ),
    ] {
        for api in APIS {
            let error = error(api, &(server.url("anybody", "require") + &settings));
            assert_eq!(error.kind(), ErrorKind::Misuse, "{error:?}");
            let said = said(&error);
            assert!(said.contains(file), "{said}");
            assert!(said.contains(expected), "{said}");
        }
    }
    for api in APIS {
        let said = said(&error(api, &server.url("anybody", "verify-ca")));
        assert!(said.starts_with("there are no root certificates"), "{said}");
    }
}

/// In a process of its own, whose environment says where the system has its roots.
#[test]
fn the_roots_of_the_system_are_believed() {
    const NAME: &str = "live::tls::certificates::the_roots_of_the_system_are_believed";
    const URL: &str = "LOOKASIDE_TEST_SYSTEM_ROOTS_URL";
    const IS_TRUSTED: &str = "LOOKASIDE_TEST_SYSTEM_ROOTS_ARE_RIGHT";
    if let Ok(url) = env::var(URL) {
        for api in APIS {
            if env::var_os(IS_TRUSTED).is_some() {
                assert_eq!(outcome(api, &url), "tls", "{api:?}");
            } else {
                let said = said(&error(api, &url));
                assert!(said.contains("is not trusted"), "{api:?}: {said}");
            }
        }
        return;
    }
    let authority = Authority::new("issuer");
    let Some(server) = Server::start("18", &authority.issue(&["db"]), &authority) else {
        return;
    };
    let url = server.url("anybody", "verify-full") + "&sslrootcert=system";
    for (authority, is_trusted) in [(&authority, true), (&Authority::new("other"), false)] {
        let roots = server.file("system.crt", &authority.pem());
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", NAME, "--nocapture"]);
        command.env("SSL_CERT_FILE", roots).env(URL, &url);
        // Where the system has more of them.
        command.env_remove("SSL_CERT_DIR");
        if is_trusted {
            command.env(IS_TRUSTED, "1");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{is_trusted}: {output:?}");
    }
}
