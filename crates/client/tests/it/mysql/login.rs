//! Which logins succeed, and how refused ones are reported.

use lookaside_client::mysql::Options;
use lookaside_client::{ErrorKind, Result};
use lookaside_testing::{Brand, Server};

use super::{Site, connect_to, run, shown, sites};

fn with_user(site: &Site, user: &str, query: &str) -> Result<String> {
    let url = format!(
        "mysql://{user}@127.0.0.1:{}/{}?ssl-mode=DISABLED{query}",
        site.server.port(),
        site.database
    );
    let mut connection = connect_to(&url, Options::default())?;
    let name = connection.query("select current_user()", &[]);
    Ok(shown(&name))
}

#[test]
fn each_way_to_log_in() {
    for site in sites() {
        let plugins: &[(&str, &str)] = if site.is_mariadb() {
            site.execute(&["install soname 'auth_ed25519'"]);
            &[
                (
                    "native",
                    "identified via mysql_native_password using password('a b@c')",
                ),
                ("ed", "identified via ed25519 using password('a b@c')"),
            ]
        } else {
            // Version 9 has no other, but for LDAP and the like.
            &[("sha2", "identified with caching_sha2_password by 'a b@c'")]
        };
        for (name, identified) in plugins {
            let user = format!("{name}_{}", site.database);
            site.execute(&[
                &format!("create user {user}@'%' {identified}"),
                &format!("grant all on {}.* to {user}@'%'", site.database),
            ]);
            // The first log-in of `caching_sha2_password` needs the whole password, for which the
            // server's key is asked; the second one does not.
            let right = format!("{user}:a%20b%40c");
            if *name == "sha2" {
                let error = with_user(&site, &right, "").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Protocol, "{error:?}");
            }
            let entered = with_user(&site, &right, "&get-server-public-key=true");
            assert_eq!(entered.unwrap(), format!("{user}@%"));
            assert_eq!(with_user(&site, &right, "").unwrap(), format!("{user}@%"));
            for wrong in [format!("{user}:other"), user.clone()] {
                let error = with_user(&site, &wrong, "&get-server-public-key=true").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
                assert_eq!(error.mysql().unwrap().code(), 1045);
                assert!(!error.is_retryable());
                assert!(!format!("{error:?}").contains("other"));
            }
        }
        let error = with_user(&site, "nobody_here:x", "&get-server-public-key=true").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
    }
}

#[test]
fn a_database_that_is_not_there() {
    for site in sites() {
        let error = connect_to(&site.server.url("nowhere"), Options::default()).map(drop);
        let error = error.unwrap_err();
        assert_eq!(error.mysql().unwrap().code(), 1049);
    }
}

#[test]
fn a_server_that_is_full_can_be_asked_again() {
    for brand in [Brand::MariaDb, Brand::MySql] {
        let Some(server) = Server::start(brand, &["--max-connections=10"]) else {
            continue;
        };
        let mut connections = Vec::new();
        let error = loop {
            match connect_to(&server.url(""), Options::default()) {
                Ok(mut connection) => {
                    run(&mut connection, "do 1");
                    connections.push(connection);
                }
                Err(error) => break error,
            }
        };
        assert!(connections.len() >= 10);
        assert_eq!(error.mysql().unwrap().code(), 1040);
        assert!(error.is_retryable(), "{error:?}");
    }
}
