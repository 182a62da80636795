//! Accounts and transfers between them.

use sqlx::{PgPool, Result};

pub async fn balance(pool: &PgPool, owner: &str) -> Result<i64> {
    sqlx::query_scalar("select balance::bigint from account where owner = $1")
        .bind(owner)
        .fetch_one(pool)
        .await
}

/// Moves an amount from one account to another, or nothing.
pub async fn transfer(pool: &PgPool, source: &str, target: &str, amount: i64) -> Result<()> {
    let mut transaction = pool.begin().await?;
    for (owner, change) in [(source, -amount), (target, amount)] {
        sqlx::query("update account set balance = balance + $1 where owner = $2")
            .bind(change)
            .bind(owner)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await
}
