//! The thousand tests of `examples/tests/rust` with `#[sqlx::test]`: `cargo nextest run --test sqlx_test`
//! with `DATABASE_URL` of a running server.

use bank::{balance, transfer};
use sqlx::PgPool;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

async fn a_transfer(pool: &PgPool) -> Result {
    transfer(pool, "Ada", "Grace", 12).await?;
    assert_eq!(balance(pool, "Grace").await?, 32);
    Ok(())
}

macro_rules! tests {
    ($($name:ident)*) => {
        $(
            #[sqlx::test(migrations = "../../../examples/tests/rust/migrations")]
            async fn $name(pool: sqlx::PgPool) -> crate::Result {
                crate::a_transfer(&pool).await
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
