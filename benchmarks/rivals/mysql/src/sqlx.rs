//! sqlx on one connection.

use anyhow::Result;
use futures_util::TryStreamExt;
use rival_common::measure::Seen;
use rival_common::work::Look;
use sqlx::mysql::MySqlConnection;
use sqlx::{ConnectOptions, Row};

use crate::{Question, table};

pub async fn run(question: &Question) -> Result<()> {
    let connection = table::options(&question.url)?.connect().await?;
    let looker = Sqlx {
        connection,
        sql: question.sql,
    };
    crate::measure(question, "sqlx 0.9.0", looker).await
}

struct Sqlx {
    connection: MySqlConnection,
    sql: &'static str,
}

impl Look for Sqlx {
    async fn look(&mut self, key: i64, seen: &mut Seen) -> Result<()> {
        let mut rows = sqlx::query(self.sql).bind(key).fetch(&mut self.connection);
        let mut sum = 0_i64;
        while let Some(row) = rows.try_next().await? {
            for column in 0..row.len() {
                sum += i64::from(row.try_get::<i32, _>(column)?);
            }
        }
        seen.see(&sum.to_le_bytes());
        Ok(())
    }
}
