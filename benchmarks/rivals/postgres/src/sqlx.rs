//! sqlx, whose statements are prepared once and whose connections take one query at a time.

use anyhow::Result;
use rival_common::measure::Seen;
use rival_common::work::{self, Look};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgSslMode};
use sqlx::{ConnectOptions, Row};

use crate::Question;

const ENGINE: &str = "sqlx 0.9.0";

pub async fn run(question: &Question) -> Result<()> {
    let options: PgConnectOptions = question.url.parse()?;
    let options = options.ssl_mode(PgSslMode::Disable);
    if question.tasks == 1 {
        let connection = options.connect().await?;
        let alone = Alone {
            connection,
            sql: question.sql,
        };
        return measure(question, vec![alone], "window 1").await;
    }
    let pool = PgPoolOptions::new()
        .max_connections(question.pool as u32)
        .min_connections(question.pool as u32)
        // No round trip to check a connection.
        .test_before_acquire(false)
        .connect_with(options)
        .await?;
    let lookers = (0..question.tasks)
        .map(|_| Borrower {
            pool: pool.clone(),
            sql: question.sql,
        })
        .collect();
    let how = format!("{} tasks, pool {}", question.tasks, question.pool);
    measure(question, lookers, &how).await
}

async fn measure<L: Look>(question: &Question, mut lookers: Vec<L>, how: &str) -> Result<()> {
    let keys = &question.keys.drawn;
    let hash = work::check(&mut lookers[0], keys).await?;
    work::run(&mut lookers, keys, question.pace.warm_up()).await?;
    let measure = work::run(&mut lookers, keys, question.pace).await?;
    measure.print(ENGINE, "provider", &question.case_of_tasks(how), hash);
    Ok(())
}

struct Alone {
    connection: PgConnection,
    sql: &'static str,
}

impl Look for Alone {
    async fn look(&mut self, key: i64, seen: &mut Seen) -> Result<()> {
        let row = sqlx::query(self.sql)
            .bind(key)
            .fetch_one(&mut self.connection)
            .await?;
        seen.see(row.try_get::<&str, _>(0)?.as_bytes());
        Ok(())
    }
}

struct Borrower {
    pool: PgPool,
    sql: &'static str,
}

impl Look for Borrower {
    async fn look(&mut self, key: i64, seen: &mut Seen) -> Result<()> {
        let row = sqlx::query(self.sql)
            .bind(key)
            .fetch_one(&self.pool)
            .await?;
        seen.see(row.try_get::<&str, _>(0)?.as_bytes());
        Ok(())
    }
}
