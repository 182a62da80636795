//! The thousand tests of `examples/tests/rust` with `postgresql_embedded`, a server for each test, as a process of
//! `cargo nextest` has no other to share. `PG_HOME` is an installed PostgreSQL (the folder with `bin`).

use std::collections::HashMap;
use std::env;
use std::time::Duration;

use bank::{balance, transfer};
use postgresql_embedded::{PostgreSQL, Settings};
use sqlx::PgPool;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

async fn a_transfer() -> Result {
    // Tests need not wait for the disk.
    let relaxed = ["fsync", "synchronous_commit", "full_page_writes"];
    let settings = Settings {
        installation_dir: env::var("PG_HOME").expect("PG_HOME is set").into(),
        trust_installation_dir: true,
        temporary: true,
        // The default of Debian's server belongs to its service.
        socket_dir: Some(env::temp_dir().join(format!("socket-{}", std::process::id()))),
        timeout: Some(Duration::from_secs(120)),
        configuration: HashMap::from(relaxed.map(|name| (name.to_owned(), "off".to_owned()))),
        ..Settings::default()
    };
    let mut server = PostgreSQL::new(settings);
    server.setup().await?;
    server.start().await?;
    server.create_database("bank").await?;
    let pool = PgPool::connect(&server.settings().url("bank")).await?;
    sqlx::migrate!("../../../examples/tests/rust/migrations")
        .run(&pool)
        .await?;
    transfer(&pool, "Ada", "Grace", 12).await?;
    assert_eq!(balance(&pool, "Grace").await?, 32);
    pool.close().await;
    server.stop().await?;
    Ok(())
}

macro_rules! tests {
    ($($name:ident)*) => {
        $(
            #[tokio::test]
            async fn $name() -> crate::Result {
                crate::a_transfer().await
            }
        )*
    };
}

macro_rules! hundreds {
    ($($hundred:ident)*) => {
        $(
            mod $hundred {
                mod t0 { tests! { n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 } }
                mod t1 { tests! { n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 } }
                mod t2 { tests! { n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 } }
                mod t3 { tests! { n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 } }
                mod t4 { tests! { n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 } }
                mod t5 { tests! { n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 } }
                mod t6 { tests! { n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 } }
                mod t7 { tests! { n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 } }
                mod t8 { tests! { n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 } }
                mod t9 { tests! { n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 } }
            }
        )*
    };
}

hundreds! { h0 h1 h2 h3 h4 h5 h6 h7 h8 h9 }
