//! tokio-postgres on one connection.

use std::sync::Arc;

use anyhow::Result;
use futures_util::future::try_join_all;
use rival_common::measure::Seen;
use rival_common::work::{self, Look};
use tokio_postgres::{Client, NoTls, Statement};

use crate::Question;

const ENGINE: &str = "tokio-postgres 0.7.18";

pub async fn run(question: &Question, batch: bool) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(&question.url, NoTls).await?;
    let connection = tokio::spawn(connection);
    let statement = client.prepare(question.sql).await?;
    let client = Arc::new(client);
    let mut one = One { client, statement };
    let keys = &question.keys.drawn;
    let hash = work::check(&mut one, keys).await?;

    let window = question.window;
    let mut pace = question.pace;
    if batch {
        pace.timed_every = window;
    }
    let measure = if batch {
        let mut batches = vec![Batch {
            one,
            keys: Vec::with_capacity(window),
            window,
        }];
        work::run(&mut batches, keys, pace.warm_up()).await?;
        work::run(&mut batches, keys, pace).await?
    } else {
        let mut ones = vec![one; window];
        work::run(&mut ones, keys, pace.warm_up()).await?;
        work::run(&mut ones, keys, pace).await?
    };
    let flight = if batch { " as a batch" } else { "" };
    let how = format!("window {window}{flight}");
    measure.print(ENGINE, "provider", &question.case_of_tasks(&how), hash);
    connection.await??;
    Ok(())
}

#[derive(Clone)]
struct One {
    client: Arc<Client>,
    statement: Statement,
}

impl Look for One {
    async fn look(&mut self, key: i64, seen: &mut Seen) -> Result<()> {
        let row = self.client.query_one(&self.statement, &[&key]).await?;
        seen.see(row.try_get::<_, &str>(0)?.as_bytes());
        Ok(())
    }
}

/// Collects keys until there are as many as the window holds, then asks for all of them.
struct Batch {
    one: One,
    keys: Vec<i64>,
    window: usize,
}

impl Look for Batch {
    async fn look(&mut self, key: i64, seen: &mut Seen) -> Result<()> {
        self.keys.push(key);
        if self.keys.len() < self.window {
            return Ok(());
        }
        let One { client, statement } = &self.one;
        let asked = self
            .keys
            .drain(..)
            .map(|key| async move { client.query_one(statement, &[&key]).await });
        for row in try_join_all(asked).await? {
            seen.see(row.try_get::<_, &str>(0)?.as_bytes());
        }
        Ok(())
    }
}
