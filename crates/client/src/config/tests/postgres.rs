//! `postgres://`

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::{
    ChannelBinding, Config, Environment, Host, HostAddress, LoadBalance, PostgresConfig,
    RootCertificates, Secret, SslMode, TargetSession, TlsNegotiation,
};

fn environment() -> Environment {
    Environment::empty().with("USER", "me")
}

#[track_caller]
fn parse_with(url: &str, environment: &Environment) -> PostgresConfig {
    match Config::parse(url, environment) {
        Ok(Config::Postgres(config)) => config,
        other => panic!("{url}: {other:?}"),
    }
}

#[track_caller]
fn parse(url: &str) -> PostgresConfig {
    parse_with(url, &environment())
}

#[track_caller]
fn check(url: &str, shown: &str) {
    let config = parse(url);
    assert_eq!(config.to_string(), shown, "{url}");
    // The displayed URL leads to the same servers.
    let again = parse(shown);
    assert_eq!((again.user, again.database), (config.user, config.database));
    let host_addresses = |hosts: Vec<Host>| {
        hosts
            .into_iter()
            .map(|host| (host.port, unnamed(host.address)))
    };
    assert!(
        host_addresses(again.hosts).eq(host_addresses(config.hosts)),
        "{url}"
    );
}

/// `Display` does not show addresses.
fn unnamed(address: HostAddress) -> HostAddress {
    match address {
        HostAddress::Tcp { name, .. } => HostAddress::Tcp {
            name,
            address: None,
        },
        unix => unix,
    }
}

#[track_caller]
fn check_error(url: &str, expected: &str) {
    let error = Config::parse(url, &environment()).unwrap_err();
    assert_eq!(error.to_string(), expected, "{url}");
}

#[test]
fn host_addresses() {
    for (url, shown) in [
        ("postgres://app@db/geo", "postgres://app@db:5432/geo"),
        ("postgresql://db", "postgres://me@db:5432/me"),
        ("postgres://app@db", "postgres://app@db:5432/app"),
        ("postgres://a:b@db:5433/", "postgres://a@db:5433/a"),
        (
            "postgres://a@h1,h2:2,[::1]:3/d",
            "postgres://a@h1:5432,h2:2,[::1]:3/d",
        ),
        ("postgres://a@h1,h2/d?port=7", "postgres://a@h1:7,h2:7/d"),
        (
            "postgres://a@h1,h2/d?port=7,",
            "postgres://a@h1:7,h2:5432/d",
        ),
        (
            "postgres://a@[fe80::1%25eth0]/d",
            "postgres://a@[fe80::1%25eth0]:5432/d",
        ),
        (
            "postgres://%2Frun%2Fpg/d",
            "postgres://me@%2Frun%2Fpg:5432/d",
        ),
        (
            "postgres:///d?host=/run/pg&port=6",
            "postgres://me@%2Frun%2Fpg:6/d",
        ),
        (
            "postgres://ignored/d?host=h1,h2",
            "postgres://me@h1:5432,h2:5432/d",
        ),
        (
            "postgres:///?user=u%20v&dbname=a%2Fb&host=h",
            "postgres://u%20v@h:5432/a%2Fb",
        ),
        ("postgres://:5433/d?host=h", "postgres://me@h:5433/d"),
        (
            "postgres:///d",
            "postgres://me@%2Fvar%2Frun%2Fpostgresql:5432,%2Ftmp:5432/d",
        ),
        (
            "postgres://a@h,/d",
            "postgres://a@h:5432,%2Fvar%2Frun%2Fpostgresql:5432/d",
        ),
        (
            "postgres://%C3%BC%40@db/%2541",
            "postgres://%C3%BC%40@db:5432/%2541",
        ),
        (
            "postgres:///d?hostaddr=10.0.0.1",
            "postgres://me@10.0.0.1:5432/d",
        ),
        (
            "postgres://db/d?hostaddr=10.0.0.1",
            "postgres://me@db:5432/d",
        ),
    ] {
        check(url, shown);
    }
    let config = parse("postgres://a,b/d?hostaddr=10.0.0.1,::1");
    let addresses = config.hosts.iter().map(|host| match host.address {
        HostAddress::Tcp { address, .. } => address.unwrap().to_string(),
        HostAddress::Unix(_) => String::new(),
    });
    assert_eq!(addresses.collect::<Vec<_>>(), ["10.0.0.1", "::1"]);
    let socket = parse("postgres:///d?host=/run/pg&port=6").hosts[0].postgres_socket();
    assert_eq!(socket, Some(PathBuf::from("/run/pg/.s.PGSQL.6")));
}

#[test]
fn settings() {
    let config = parse(
        "postgres://u:p%40ss@h/d?connect_timeout=5&application_name=a%20b&\
         options=-c%20statement_timeout%3D5s&target_session_attrs=prefer-standby&\
         channel_binding=require&keepalives=0&keepalives_idle=1&keepalives_interval=2&\
         keepalives_count=3&tcp_user_timeout=400&load_balance_hosts=random&client_encoding=UTF8",
    );
    assert_eq!(config.password, Some(Secret::from("p@ss")));
    assert_eq!(config.connect_timeout, Some(Duration::from_secs(5)));
    assert_eq!(config.application_name.as_deref(), Some("a b"));
    assert_eq!(config.options.as_deref(), Some("-c statement_timeout=5s"));
    assert_eq!(config.target_session, TargetSession::PreferStandby);
    assert_eq!(config.channel_binding, ChannelBinding::Require);
    assert_eq!(config.load_balance, LoadBalance::Random);
    let keepalives = config.keepalives;
    assert!(!keepalives.enabled);
    assert_eq!(keepalives.idle, Some(Duration::from_secs(1)));
    assert_eq!(keepalives.interval, Some(Duration::from_secs(2)));
    assert_eq!(keepalives.count, Some(3));
    assert_eq!(keepalives.user_timeout, Some(Duration::from_millis(400)));

    let config = parse("postgres://h/d");
    assert_eq!(config.connect_timeout, Some(Duration::from_secs(30)));
    let config = parse("postgres://h/d?connect_timeout=0");
    assert_eq!(config.connect_timeout, None);
    assert_eq!(config.target_session, TargetSession::Any);
    assert_eq!(config.channel_binding, ChannelBinding::Prefer);
    assert!(config.keepalives.enabled);
    assert_eq!(config.password, None);
}

#[test]
fn encryption() {
    for (query, mode, roots) in [
        ("", SslMode::Prefer, RootCertificates::None),
        ("sslmode=disable", SslMode::Disable, RootCertificates::None),
        ("sslmode=allow", SslMode::Allow, RootCertificates::None),
        ("sslmode=require", SslMode::Require, RootCertificates::None),
        ("ssl=true", SslMode::Require, RootCertificates::None),
        (
            "sslmode=verify-ca&sslrootcert=/r.pem",
            SslMode::VerifyCa,
            RootCertificates::File("/r.pem".into()),
        ),
        (
            "sslrootcert=system",
            SslMode::VerifyFull,
            RootCertificates::System,
        ),
    ] {
        let tls = parse(&format!("postgres://h/d?{query}")).tls;
        assert_eq!((tls.mode, tls.roots), (mode, roots), "{query}");
        assert_eq!(tls.certificate, None);
    }
    let tls = parse("postgres://h/d?sslcert=/c.pem&sslkey=/k.pem&sslsni=0").tls;
    let certificate = tls.certificate.unwrap();
    assert_eq!(certificate.certificate, PathBuf::from("/c.pem"));
    assert_eq!(certificate.key, PathBuf::from("/k.pem"));
    assert!(certificate.required && !tls.server_name);

    assert_eq!(
        parse("postgres://h/d").tls_negotiation,
        TlsNegotiation::Postgres
    );
    let environment_direct = environment().with("PGSSLNEGOTIATION", "direct");
    let config = parse_with("postgres://h/d?sslmode=require", &environment_direct);
    assert_eq!(config.tls_negotiation, TlsNegotiation::Direct);

    let tls = parse_with("postgres://h/d", &environment().with("HOME", "/h")).tls;
    let root = PathBuf::from("/h/.postgresql/root.crt");
    assert_eq!(tls.roots, RootCertificates::FileIfPresent(root));
    let certificate = tls.certificate.unwrap();
    assert_eq!(
        certificate.key,
        PathBuf::from("/h/.postgresql/postgresql.key")
    );
    assert!(!certificate.required);
}

#[test]
fn the_environment_fills_what_the_url_leaves_out() {
    let environment = Environment::empty()
        .with("PGHOST", "h1,h2")
        .with("PGPORT", "7")
        .with("PGUSER", "pg")
        .with("PGDATABASE", "data")
        .with("PGPASSWORD", "secret")
        .with("PGSSLMODE", "require")
        .with("PGAPPNAME", "")
        .with("USER", "me");
    let config = parse_with("postgres://", &environment);
    assert_eq!(config.to_string(), "postgres://pg@h1:7,h2:7/data");
    assert_eq!(config.password, Some(Secret::from("secret")));
    assert_eq!(config.tls.mode, SslMode::Require);
    assert_eq!(config.application_name, None);
    let config = parse_with("postgres://u:p@h:8/d?sslmode=disable", &environment);
    assert_eq!(config.to_string(), "postgres://u@h:8/d");
    assert_eq!(config.password, Some(Secret::from("p")));
    assert_eq!(config.tls.mode, SslMode::Disable);

    // Empty values in the URL are not overridden.
    let config = parse_with("postgres://u:p@h/d?sslmode=&port=", &environment);
    assert_eq!(config.to_string(), "postgres://u@h:5432/d");
    assert_eq!(config.tls.mode, SslMode::Prefer);

    let wrong = Environment::empty()
        .with("PGUSER", "u")
        .with("PGSSLMODE", "requir");
    let error = Config::parse("postgres://h/d", &wrong).unwrap_err();
    let expected = "the variable PGSSLMODE: `requir` is not a valid value; did you mean `require`?";
    assert_eq!(error.to_string(), expected);
    let error = Config::parse("postgres://h/d", &Environment::empty()).unwrap_err();
    assert!(error.to_string().contains("names a user"), "{error}");
}

#[test]
fn mistakes_are_named() {
    for (url, expected) in [
        (
            "db",
            "this is not a connection URL, which looks like postgres://USER@HOST/DATABASE",
        ),
        (
            "postgre://db",
            "a connection URL cannot begin with `postgre://`; did you mean `postgres`?",
        ),
        (
            "postgres://h/d?ssl_mode=require",
            "the URL has an unknown setting `ssl_mode`; did you mean `sslmode`?",
        ),
        (
            "postgres://h/d?sslmode=verify",
            "the URL's setting `sslmode`: `verify` is not a valid value; did you mean `verify-ca`?",
        ),
        (
            "postgres://h/d?sslmode=on",
            "the URL's setting `sslmode`: `on` is not a valid value; there are: disable, allow, \
             prefer, require, verify-ca, verify-full",
        ),
        (
            "postgres://h/d?gssencmode=prefer",
            "the URL's setting `gssencmode` is not supported: connections are encrypted by TLS only",
        ),
        (
            "postgres://h/d?user",
            "the URL's setting `user` has no value; write user=VALUE",
        ),
        ("postgres://h/d?host=a&host=b", "the URL sets `host` twice"),
        (
            "postgres://h/d?connect_timeout=soon",
            "the URL's setting `connect_timeout`: `soon` is not a whole number",
        ),
        (
            "postgres://h/d?port=0",
            "the URL's setting `port`: `0` is not a number from 1 to 65535",
        ),
        (
            "postgres://a,b/d?port=1,2,3",
            "3 ports were given for 2 hosts",
        ),
        (
            "postgres://a,b/d?hostaddr=::1",
            "1 addresses were given for 2 hosts",
        ),
        (
            "postgres://h/d?hostaddr=x",
            "the URL's setting `hostaddr`: `x` is not an IP address",
        ),
        (
            "postgres://h/d?client_encoding=LATIN1",
            "the URL's setting `client_encoding`: `LATIN1` is not a valid value; there are: utf8, \
             utf-8, unicode, auto",
        ),
        (
            "postgres://h/d?sslnegotiation=direct&sslmode=prefer",
            "`sslnegotiation=direct` requires TLS; use it with `sslmode=require` or stronger",
        ),
        (
            "postgres://h/d?sslnegotiation=yes",
            "the URL's setting `sslnegotiation`: `yes` is not a valid value; there are: postgres, \
             direct",
        ),
        (
            "postgres://h/d?sslrootcert=system&sslmode=require",
            "`sslrootcert=system` trusts every holder of a certificate; use it with \
             `sslmode=verify-full` only",
        ),
        (
            "postgres://h/d?sslcert=/c",
            "`sslcert` and `sslkey` must both be set",
        ),
        (
            "postgres://h/100%",
            "the URL's database name has a `%` without two hexadecimal digits, or ones that are not \
             UTF-8; a `%` itself is written %25",
        ),
    ] {
        check_error(url, expected);
    }
    for url in [
        "postgres://[::1/d",
        "postgres://::1/d",
        "postgres://[::1]5/d",
        "postgres://h:x/d",
    ] {
        let error = Config::parse(url, &environment()).unwrap_err().to_string();
        assert!(error.contains("host 1"), "{error}");
    }
    for url in ["postgres://u@h/d#x", "postgres://u:a#b@h/d"] {
        let error = Config::parse(url, &environment()).unwrap_err().to_string();
        assert!(
            error.starts_with("the URL has a `#` in a place where it is not allowed"),
            "{error}"
        );
    }
    for url in ["postgres://u%00@h", "postgres://u%ff@h", "postgres://u%4@h"] {
        let error = Config::parse(url, &environment()).unwrap_err().to_string();
        assert!(
            error.starts_with("the URL's user name has a `%`"),
            "{error}"
        );
    }
}

#[test]
fn password_files_are_read_for_each_host() {
    let folder = std::env::temp_dir().join(format!("lookaside-passfile-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("pgpass");
    fs::write(
        &file,
        "h1:5432:d:u:first\nlocalhost:*:*:*:local\n*:6:*:*:six\n",
    )
    .unwrap();
    let url = "postgres://u@h1,h2,h2:6,%2Fvar%2Frun%2Fpostgresql/d";
    let environment = environment().with("PGPASSFILE", file.to_str().unwrap());
    let mut config = parse_with(url, &environment);
    set_mode(&file, 0o644);
    let error = config.read_passfile().unwrap_err().to_string();
    assert!(
        error.contains("chmod 600") && !error.contains("first"),
        "{error}"
    );

    set_mode(&file, 0o600);
    config.read_passfile().unwrap();
    let passwords = config.hosts.iter().map(|host| config.password_for(host));
    let passwords: Vec<_> = passwords.map(|secret| secret.map(Secret::expose)).collect();
    assert_eq!(passwords, [Some("first"), None, Some("six"), Some("local")]);

    let mut config = parse_with("postgres://u:own@h1/d", &environment);
    config.read_passfile().unwrap();
    assert_eq!(
        config.password_for(&config.hosts[0]),
        Some(&Secret::from("own"))
    );

    fs::remove_dir_all(&folder).unwrap();
    let mut config = parse_with(url, &environment);
    config.read_passfile().unwrap();
    assert!(config.hosts.iter().all(|host| host.password.is_none()));
}

fn set_mode(file: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
}
