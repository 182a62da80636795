//! Valid `[provider.sqldb]` sections, and the errors about invalid ones.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use lookaside_knowledge::{
    Config, ConfigOptions, ErrorKind, Knowledge, ProviderConfig, ProviderKind, ProviderServer,
    Result,
};

fn open(text: &str) -> Result<Config> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("knowdb.toml"),
        format!("version = 2\n{text}"),
    )
    .unwrap();
    let variables = HashMap::from([("secret".to_owned(), "p@ss%21".to_owned())]);
    let options = ConfigOptions {
        variables: Some(&variables),
        ..ConfigOptions::default()
    };
    Config::open_with(folder.path(), &options)
}

fn providers(text: &str) -> Vec<ProviderConfig> {
    open(text).unwrap().providers
}

/// `expected` is the message without the folder.
fn check(text: &str, expected: &str) {
    let error = open(text).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let message = error.to_string();
    let (_, message) = message.split_once("knowdb.toml:").unwrap();
    assert_eq!(message, expected, "{text}");
}

#[test]
fn one_may_stand_alone_or_in_a_list() {
    let body = "kind = 'postgres'\nconnection_uri = 'postgres://u@h/d'\n";
    for head in ["[provider]", "[provider.sqldb]", "[[provider.sqldb]]"] {
        let found = providers(&format!("{head}\n{body}"));
        let [provider] = found.as_slice() else {
            panic!("{head}: {found:?}");
        };
        assert_eq!((provider.name.as_str(), provider.line), ("default", 2));
        assert_eq!(provider.kind(), ProviderKind::Postgres);
        assert_eq!((provider.pool_size, provider.min_connections), (8, 0));
        assert_eq!(provider.acquire_timeout, Duration::from_secs(10));
        assert_eq!(provider.idle_timeout, Some(Duration::from_secs(60)));
        assert_eq!(provider.query_timeout, Some(Duration::from_secs(30)));
        assert_eq!(provider.pipeline_depth, 32);
        assert_eq!(provider.stall, Duration::from_millis(3));
        assert_eq!(
            (provider.max_lifetime, provider.stale_if_error),
            (None, None)
        );
    }
    assert!(providers("").is_empty());
}

#[test]
fn the_default_one_comes_first() {
    let list = |names: &[&str]| {
        let one = |name: &&str| {
            let name = match *name {
                "" => String::new(),
                name => format!("name = '{name}'\n"),
            };
            format!("[[provider.sqldb]]\n{name}kind = 'mysql'\nconnection_uri = 'mysql://u@h/d'\n")
        };
        let text: String = names.iter().map(one).collect();
        let providers = providers(&text).into_iter();
        providers.map(|it| it.name).collect::<Vec<_>>()
    };
    assert_eq!(list(&["a", "b", "c"]), ["a", "b", "c"]);
    assert_eq!(
        list(&["a", "b", "default", "c"]),
        ["default", "a", "b", "c"]
    );
    assert_eq!(list(&["a", ""]), ["default", "a"]);
}

#[test]
fn every_key_is_read() {
    let found = providers(
        "[provider.sqldb]\nname = 'assets'\nkind = 'postgres'\n\
         connection_uri = 'postgres://app:${SECRET}@db:5433/geo?sslmode=require'\n\
         pool_size = 4\nmin_connections = 9\nacquire_timeout_ms = 0\nidle_timeout_ms = 0\n\
         max_lifetime_ms = 5000\nquery_timeout_ms = 0\nstale_if_error_ms = 60000\n\
         pipeline_depth = 4\nstall_ms = 0\n\
         [provider.sqldb.postgres_session]\nplan_cache_mode = 'force_generic_plan'\njit = false\n\
         application_name = \"it's us\"",
    );
    let provider = &found[0];
    assert_eq!((provider.pool_size, provider.min_connections), (4, 4));
    assert_eq!(provider.acquire_timeout, Duration::from_secs(10));
    assert_eq!(
        (provider.idle_timeout, provider.query_timeout),
        (None, None)
    );
    assert_eq!(provider.max_lifetime, Some(Duration::from_secs(5)));
    assert_eq!(provider.stale_if_error, Some(Duration::from_secs(60)));
    assert_eq!(provider.pipeline_depth, 4);
    assert_eq!(provider.stall, Duration::ZERO);
    let session = &provider.postgres_session;
    assert_eq!(session.plan_cache_mode, Some("force_generic_plan"));
    assert_eq!(session.jit, Some(false));
    assert_eq!(session.application_name.as_deref(), Some("it's us"));
    assert!(!provider.pooler);
    let pooled =
        "[provider]\nkind = 'postgres'\nconnection_uri = 'postgres://u@h/d'\npooler = true";
    assert!(providers(pooled)[0].pooler);
}

#[test]
fn an_embedded_one_needs_no_place() {
    let found =
        providers("[provider.sqldb]\nkind = 'embedded'\nversion = '18'\nextensions = ['pg_trgm']");
    let ProviderServer::Embedded {
        version,
        extensions,
    } = &found[0].server
    else {
        panic!("{found:?}");
    };
    assert_eq!(version.as_deref(), Some("18"));
    assert_eq!(extensions, &["pg_trgm"]);
    assert_eq!(found[0].kind(), ProviderKind::Embedded);
}

#[test]
fn mistakes_name_their_place_and_the_way_out() {
    check(
        "[provider]",
        "2: provider has no database; write [provider.sqldb] with kind and connection_uri",
    );
    check(
        "[provider.sqldb]\nconnection_uri = 'x'",
        "2: sqldb.kind is missing; write \"postgres\", \"mysql\" or \"embedded\"",
    );
    check(
        "[provider.sqldb]\nkind = 'sqlite_authority'",
        "3: sqldb.kind must be \"postgres\" or \"mysql\" or \"embedded\", not \"sqlite_authority\"",
    );
    check(
        "[provider.sqldb]\nkind = 'mysql'\nconnection_uri = 'mysql://u@h/d'\npooler = false",
        "5: sqldb.pooler is for kind = \"postgres\"; remove it",
    );
    check(
        "[provider.sqldb]\nkind = 'postgres'\nconnection_uri = 'postgres://u@h/d'\npooler = true\n\
         postgres_session.jit = false",
        "6: sqldb.postgres_session cannot be set with pooler = true, because each transaction may \
         run in another session; set it at the pooler, or for the user by `alter role`",
    );
    check(
        "[provider.sqldb]\nkind = 'mysql'",
        "2: sqldb.connection_uri is missing; write \"mysql://USER@HOST/DATABASE\"",
    );
    check(
        "[provider.sqldb]\nkind = 'mysql'\nconnection_uri = 'postgres://u@h/d'",
        "4: sqldb.connection_uri is the URL of a postgres server, but kind is \"mysql\"",
    );
    check(
        "[provider.sqldb]\nkind = 'postgres'\nconnection_uri = 'postgres://u@h/d'\npoolsize = 3",
        "5: unknown key sqldb.poolsize; did you mean pool_size?",
    );
    check(
        "[provider.sqldb]\nkind = 'postgres'\nconnection_uri = 'postgres://u@h/d'\npool_size = 0",
        "5: sqldb.pool_size must be at least 1",
    );
    for (depth, problem) in [
        ("0", "must be at least 1"),
        ("2000", "is 2000; the maximum is 1024"),
    ] {
        check(
            &format!(
                "[provider.sqldb]\nkind = 'postgres'\nconnection_uri = 'postgres://u@h/d'\n\
                 pipeline_depth = {depth}"
            ),
            &format!("5: sqldb.pipeline_depth {problem}"),
        );
    }
    check(
        "[provider.sqldb]\nkind = 'postgres'\nconnection_uri = 'postgres://u@h/d'\nname = 'a b'",
        "5: sqldb.name \"a b\" cannot qualify a table; use letters, digits and _",
    );
    check(
        "[provider.sqldb]\nkind = 'postgres'\nconnection_uri = 'postgres://u@h/d'\nname = 'local'",
        "5: sqldb.name \"local\" is reserved for the folder's own tables; choose another name",
    );
    check(
        "[provider.sqldb]\nkind = 'embedded'\nconnection_uri = 'postgres://u@h/d'",
        "4: sqldb.connection_uri does not apply to kind = \"embedded\", which starts its own server; \
         remove it",
    );
    check(
        "[provider.sqldb]\nkind = 'postgres'\nversion = '18'",
        "4: sqldb.version belongs to kind = \"embedded\"; remove it",
    );
    let mysql = "[provider.sqldb]\nkind = 'mysql'\nconnection_uri = 'mysql://u@h/d'\n";
    check(
        &format!("{mysql}postgres_session.jit = true"),
        "5: sqldb.postgres_session is for PostgreSQL, and kind is \"mysql\"; remove it",
    );
    let postgres = "[provider.sqldb]\nkind = 'postgres'\nconnection_uri = 'postgres://u@h/d'\n";
    check(
        &format!("{postgres}feed = 'auto'\nfeed_wal_max = 1048576"),
        "6: sqldb.feed_wal_max must be at least 16777216 bytes, the size of a file of the log",
    );
    check(
        &format!("{postgres}feed_wal_max = 33554432"),
        "5: sqldb.feed_wal_max has no effect without feed = \"auto\"; add it",
    );
    check(
        &format!("{postgres}postgres_session.jit_above = 1"),
        "5: unknown key postgres_session.jit_above; did you mean jit?",
    );
    check(
        &format!("{postgres}postgres_session.application_name = \"a\\nb\""),
        "5: postgres_session.application_name must be at most 63 bytes without control characters",
    );
    let one = |name: &str| format!("[[provider.sqldb]]\nname = '{name}'\nkind = 'embedded'\n");
    check(
        &format!("{}{}", one("a"), one("a")),
        "6: sqldb.name \"a\" is already the name of the provider in line 2; use another name",
    );
}

#[test]
fn secrets_are_never_shown() {
    const SECRET: &str = "hunter2";
    for uri in [
        "postgres://app:hunter2@db/geo",
        "postgres://app:hunter2@db:99999/geo",
        "postgres://app:hunter2@db/geo?password=hunter2&nonsense=1",
        "app:hunter2@db/geo",
        "mysql://app:hunter2@db/geo",
        "postgres://app:hunter2",
    ] {
        let text = format!("[provider.sqldb]\nkind = 'postgres'\nconnection_uri = '{uri}'");
        let shown = match open(&text) {
            Ok(config) => format!("{config:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        assert!(!shown.contains(SECRET), "{shown}");
    }
    let folder = tempfile::tempdir().unwrap();
    let text = "version = 2\n[provider.sqldb]\nkind = 'postgres'\n\
        connection_uri = 'postgres://app:hunter2@127.0.0.1:1/geo'\nacquire_timeout_ms = 300\n";
    fs::write(folder.path().join("knowdb.toml"), text).unwrap();
    let knowledge = Knowledge::open(folder.path()).unwrap();
    let error = knowledge.query_first("select 1", ()).unwrap_err();
    let shown = format!(
        "{error} {error:?} {knowledge:?} {:?}",
        knowledge.providers()
    );
    assert!(!shown.contains(SECRET), "{shown}");
    assert!(shown.contains("postgres://app@127.0.0.1:1/geo"), "{shown}");
}
