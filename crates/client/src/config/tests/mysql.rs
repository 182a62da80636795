//! `mysql://` and `mariadb://`

use std::path::PathBuf;
use std::time::Duration;

use crate::{Config, Environment, MysqlConfig, RootCertificates, Secret, ServerKey, SslMode};

fn environment() -> Environment {
    Environment::empty().with("USER", "me")
}

#[track_caller]
fn parse(url: &str) -> MysqlConfig {
    match Config::parse(url, &environment()) {
        Ok(Config::Mysql(config)) => config,
        other => panic!("{url}: {other:?}"),
    }
}

#[test]
fn host_addresses() {
    for (url, shown) in [
        ("mysql://app:s%2Fx@db/geo", "mysql://app@db:3306/geo"),
        ("mariadb://db:3307", "mysql://me@db:3307"),
        ("mysql://", "mysql://me@localhost:3306"),
        ("mysql://a@h1,h2:2/d", "mysql://a@h1:3306,h2:2/d"),
        (
            "mysql://a@localhost/d?socket=/run/my.sock",
            "mysql://a@%2Frun%2Fmy.sock:3306/d",
        ),
        (
            "mysql://a@%2Frun%2Fmy.sock/d",
            "mysql://a@%2Frun%2Fmy.sock:3306/d",
        ),
        ("mysql://a@h/d?port=7", "mysql://a@h:7/d"),
    ] {
        let config = parse(url);
        assert_eq!(config.to_string(), shown, "{url}");
        assert_eq!(parse(shown).hosts, config.hosts, "{url}");
    }
}

#[test]
fn settings() {
    for (query, mode, roots) in [
        ("", SslMode::Prefer, RootCertificates::None),
        (
            "ssl-mode=DISABLED",
            SslMode::Disable,
            RootCertificates::None,
        ),
        (
            "ssl_mode=required",
            SslMode::Require,
            RootCertificates::None,
        ),
        (
            "ssl-mode=verify-identity",
            SslMode::VerifyFull,
            RootCertificates::System,
        ),
        (
            "ssl-ca=/r.pem",
            SslMode::VerifyCa,
            RootCertificates::File("/r.pem".into()),
        ),
    ] {
        let tls = parse(&format!("mysql://h/d?{query}")).tls;
        assert_eq!((tls.mode, tls.roots), (mode, roots), "{query}");
    }
    let config = parse("mysql://h/d?connect-timeout=3&charset=utf8mb4&get-server-public-key=true");
    assert_eq!(config.connect_timeout, Some(Duration::from_secs(3)));
    assert_eq!(config.server_key, ServerKey::Ask);
    let config = parse("mysql://u:p@h?server-public-key-path=/k.pem&ssl-cert=/c&ssl-key=/k");
    assert_eq!(config.server_key, ServerKey::File("/k.pem".into()));
    assert_eq!(config.password, Some(Secret::from("p")));
    assert_eq!(config.tls.certificate.unwrap().key, PathBuf::from("/k"));

    let environment = environment().with("MYSQL_PWD", "x").with("MYSQL_HOST", "h");
    let config = Config::parse("mysql://", &environment).unwrap();
    assert_eq!(config.to_string(), "mysql://me@h:3306");
}

#[test]
fn mistakes_are_named() {
    for (url, expected) in [
        (
            "mysql://h/d?sslmode=require",
            "the URL has an unknown setting `sslmode`; did you mean `ssl-mode`?",
        ),
        (
            "mysql://h/d?ssl-mode=on",
            "the URL's setting `ssl-mode`: `on` is not a valid value; there are: DISABLED, \
             PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY",
        ),
        (
            "mysql://h/d?local_infile=1",
            "the URL's setting `local-infile` is not supported: servers may not request files",
        ),
        (
            "mysql://h/d?ssl-cert=/c",
            "`ssl-cert` and `ssl-key` go together: name both",
        ),
        (
            "mysql://h/d?ssl-mode=VERIFY_CA&ssl_mode=DISABLED",
            "the URL sets `ssl-mode` twice",
        ),
    ] {
        let error = Config::parse(url, &environment()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{url}");
    }
}

#[test]
fn settings_without_a_value_say_nothing() {
    let url = "mysql://u@db:1/d?socket=&host=";
    let config = Config::parse(url, &environment()).unwrap();
    assert_eq!(config.to_string(), "mysql://u@db:1/d");
}
