//! tokio-postgres behind deadpool: each lookup borrows a connection.

use anyhow::Result;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use rival_common::measure::Seen;
use rival_common::work::{self, Look};
use tokio_postgres::NoTls;

use crate::Question;

const ENGINE: &str = "deadpool-postgres 0.14.2";

pub async fn run(question: &Question) -> Result<()> {
    let settings = ManagerConfig {
        // No round trip to check a connection.
        recycling_method: RecyclingMethod::Fast,
    };
    let manager = Manager::from_config(question.url.parse()?, NoTls, settings);
    let pool = Pool::builder(manager).max_size(question.pool).build()?;
    let mut lookers: Vec<_> = (0..question.tasks)
        .map(|_| Borrower {
            pool: pool.clone(),
            sql: question.sql,
        })
        .collect();
    let keys = &question.keys.drawn;
    let hash = work::check(&mut lookers[0], keys).await?;
    work::run(&mut lookers, keys, question.pace.warm_up()).await?;
    let measure = work::run(&mut lookers, keys, question.pace).await?;
    let how = format!("{} tasks, pool {}", question.tasks, question.pool);
    measure.print(ENGINE, "provider", &question.case_of_tasks(&how), hash);
    Ok(())
}

struct Borrower {
    pool: Pool,
    sql: &'static str,
}

impl Look for Borrower {
    async fn look(&mut self, key: i64, seen: &mut Seen) -> Result<()> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(self.sql).await?;
        let row = client.query_one(&statement, &[&key]).await?;
        seen.see(row.try_get::<_, &str>(0)?.as_bytes());
        Ok(())
    }
}
