//! What other people's drivers make of our URLs.

use sqlx::Connection as _;
use sqlx::postgres::{PgConnection, PgPoolOptions};
use tokio_postgres::NoTls;

use crate::{block_on, builder, has_server, try_ask};

/// The address that `scripts/client-matrix` has from `lookaside pg run`; unset in an ordinary run.
const MATRIX_URL: &str = "LOOKASIDE_TEST_CLIENT_URL";

/// Prepared queries with parameters through both drivers.
fn check(url: &str) {
    check_tokio_postgres(url);
    check_sqlx(url);
}

fn check_tokio_postgres(url: &str) {
    block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let statement = client
            .prepare("SELECT $1::int8 * 2, $2::text || '!'")
            .await
            .unwrap();
        for number in 0..3_i64 {
            let row = client
                .query_one(&statement, &[&number, &"ä"])
                .await
                .unwrap();
            assert_eq!((row.get(0), row.get(1)), (number * 2, "ä!"));
        }
    });
}

fn check_sqlx(url: &str) {
    block_on(async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        for number in 0..3_i64 {
            let query = sqlx::query_as("SELECT $1::int8 * 2, $2::text || '!'");
            let row: (i64, String) = query
                .bind(number)
                .bind("ä")
                .fetch_one(&mut connection)
                .await
                .unwrap();
            assert_eq!(row, (number * 2, "ä!".to_owned()));
        }
        let pool = PgPoolOptions::new()
            .max_connections(4)
            .connect(url)
            .await
            .unwrap();
        let (sum,): (i64,) = sqlx::query_as("SELECT sum(x) FROM generate_series(1, 10) x")
            .fetch_one(&pool)
            .await
            .unwrap();
        assert_eq!(sum, 55);
        pool.close().await;
    });
}

#[test]
fn sqlx_takes_the_url_of_pg_run() {
    if let Ok(url) = std::env::var(MATRIX_URL) {
        check_sqlx(&url);
        eprintln!("ok sqlx");
    }
}

#[test]
fn tokio_postgres_takes_the_url_of_pg_run() {
    if let Ok(url) = std::env::var(MATRIX_URL) {
        check_tokio_postgres(&url);
        eprintln!("ok tokio-postgres");
    }
}

#[test]
fn sqlx_and_tokio_postgres_take_both_urls() {
    if !has_server() {
        return;
    }
    let db = builder().tcp().start().unwrap();
    check(&db.url());
    check(&db.tcp_url().unwrap());
}

#[test]
fn clients_find_a_user_and_a_database_of_any_name() {
    if !has_server() {
        return;
    }
    let name = r#"O'Neil's "db" / ü? #%41"#;
    let db = builder().user(name).database(name).tcp().start().unwrap();
    for url in [db.url(), db.tcp_url().unwrap()] {
        check(&url);
        assert_eq!(try_ask(&url, "SELECT current_user").unwrap(), [name]);
        assert_eq!(try_ask(&url, "SELECT current_database()").unwrap(), [name]);
    }
}

#[test]
fn tcp_asks_for_the_password() {
    if !has_server() {
        return;
    }
    let db = builder().fresh_cluster().tcp().start().unwrap();
    let url = db.tcp_url().unwrap();
    let password = db.password().unwrap();
    assert!(password.len() >= 32);
    assert!(!format!("{db:?}").contains(password));
    let refused = |url: &str| {
        let error = try_ask(url, "SELECT 1").unwrap_err();
        error
            .code()
            .map(|code| code.code().to_owned())
            .or_else(|| Some(format!("{error:?}")))
    };
    let wrong: String = password.chars().rev().collect();
    assert_eq!(
        refused(&url.replace(password, &wrong)).as_deref(),
        Some("28P01")
    );
    let none = refused(&url.replace(&format!(":{password}"), "")).unwrap();
    assert!(none.contains("password missing"), "{none}");
    // Nor for another user, and no other address is listened on.
    db.execute("CREATE ROLE guest LOGIN SUPERUSER").unwrap();
    assert_eq!(
        refused(&url.replace(&format!("postgres:{password}"), "guest:x")).as_deref(),
        Some("28P01")
    );
    assert_eq!(
        try_ask(&url, "SHOW listen_addresses").unwrap(),
        ["127.0.0.1"]
    );
    let rules = "SELECT count(*) FROM pg_hba_file_rules WHERE type <> 'local' AND auth_method <> 'scram-sha-256'";
    assert_eq!(try_ask(&url, rules).unwrap(), ["0"]);
    assert_eq!(
        try_ask(
            &url,
            "SELECT left(rolpassword, 13) FROM pg_authid WHERE rolname = 'postgres'"
        )
        .unwrap(),
        ["SCRAM-SHA-256"]
    );
    // The socket needs none, and only we can come to it.
    assert_eq!(try_ask(&db.url(), "SELECT 1").unwrap(), ["1"]);
    let mut folder = Some(db.socket_folder());
    let is_private = |folder: &std::path::Path| {
        use std::os::unix::fs::PermissionsExt as _;
        folder.metadata().unwrap().permissions().mode() & 0o077 == 0
    };
    while folder.is_some_and(|folder| !is_private(folder)) {
        folder = folder.and_then(std::path::Path::parent);
    }
    assert!(
        folder.is_some(),
        "no folder on the way to the socket is private"
    );
}
