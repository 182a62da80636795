mod database;

use bank::{balance, transfer};
use database::{Result, database};

#[tokio::test]
async fn a_transfer_moves_money() -> Result {
    let db = database()?;
    transfer(&db.pool, "Ada", "Grace", 12).await?;
    assert_eq!(balance(&db.pool, "Ada").await?, 88);
    assert_eq!(balance(&db.pool, "Grace").await?, 32);
    Ok(())
}

#[tokio::test]
async fn nobody_gives_more_than_they_have() -> Result {
    let db = database()?;
    let error = transfer(&db.pool, "Grace", "Ada", 21).await.unwrap_err();
    let error = error.into_database_error().expect("the server's refusal");
    assert!(error.is_check_violation());
    assert_eq!(balance(&db.pool, "Ada").await?, 100);
    Ok(())
}

#[tokio::test]
async fn every_test_begins_with_what_the_migrations_made() -> Result {
    let db = database()?;
    let count: i64 = sqlx::query_scalar("select count(*) from account")
        .fetch_one(&db.pool)
        .await?;
    assert_eq!(count, 2);
    sqlx::query("drop table account").execute(&db.pool).await?;
    Ok(())
}
