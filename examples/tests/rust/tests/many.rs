//! A thousand small tests to measure with: `cargo nextest run --test many`, or a hundred of them:
//! `cargo nextest run --test many h0::`.

mod database;

use bank::{balance, transfer};
use database::{Result, database};

async fn a_transfer() -> Result {
    let db = database()?;
    transfer(&db.pool, "Ada", "Grace", 12).await?;
    assert_eq!(balance(&db.pool, "Grace").await?, 32);
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
