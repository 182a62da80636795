//! mysql_async on one connection.

use anyhow::{Result, bail};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row, Statement, Value};
use rival_common::measure::Seen;
use rival_common::work::Look;

use crate::Question;

pub async fn run(question: &Question) -> Result<()> {
    let options = OptsBuilder::from_opts(Opts::from_url(&question.url)?)
        // Left to itself it would leave TCP for the server's Unix socket.
        .prefer_socket(false);
    let mut connection = Conn::new(options).await?;
    let statement = connection.prep(question.sql).await?;
    let looker = MysqlAsync {
        connection,
        statement,
    };
    crate::measure(question, "mysql_async 0.37.1", looker).await
}

struct MysqlAsync {
    connection: Conn,
    statement: Statement,
}

impl Look for MysqlAsync {
    async fn look(&mut self, key: i64, seen: &mut Seen) -> Result<()> {
        let sum = self
            .connection
            .exec_fold(&self.statement, (key,), Some(0), |sum, row: Row| {
                row.unwrap().into_iter().try_fold(sum?, add)
            })
            .await?;
        let Some(sum) = sum else {
            bail!("a column that is no integer came")
        };
        seen.see(&sum.to_le_bytes());
        Ok(())
    }
}

fn add(sum: i64, value: Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(sum + number),
        _ => None,
    }
}
