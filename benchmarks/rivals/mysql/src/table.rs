//! The tables that are read: `wide_N` of N integer columns, of which the first is the key.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};

use crate::Question;

pub const ROWS: usize = 10_000;
/// Rows of an `INSERT`: of 150 columns, half a megabyte, which every server takes.
const INSERT_ROWS: usize = 500;

pub fn select(columns: usize, rows: usize) -> String {
    let compared = if rows == 1 { "=" } else { "<=" };
    format!("select * from wide_{columns} where id {compared} ?")
}

pub fn options(url: &str) -> Result<MySqlConnectOptions> {
    let options: MySqlConnectOptions = url.parse().context("the URL")?;
    Ok(options.ssl_mode(MySqlSslMode::Disabled))
}

/// Makes the table where it is not there or not whole.
pub async fn ensure(question: &Question) -> Result<()> {
    let columns = question.columns;
    let mut connection = options(&question.url)?.connect().await?;
    let mut create = format!("create table if not exists wide_{columns} (id int primary key");
    for column in 1..columns {
        write!(create, ", c{column} int not null")?;
    }
    create.push(')');
    sqlx::raw_sql(AssertSqlSafe(create))
        .execute(&mut connection)
        .await?;
    let count = sqlx::raw_sql(AssertSqlSafe(format!(
        "select count(*) from wide_{columns}"
    )))
    .fetch_one(&mut connection)
    .await?
    .try_get::<i64, _>(0)?;
    if count == ROWS as i64 {
        return Ok(());
    }
    sqlx::raw_sql(AssertSqlSafe(format!("truncate table wide_{columns}")))
        .execute(&mut connection)
        .await?;
    for first in (1..=ROWS).step_by(INSERT_ROWS) {
        let mut insert = format!("insert into wide_{columns} values ");
        for id in first..first + INSERT_ROWS {
            let comma = if id == first { "" } else { "," };
            write!(insert, "{comma}({id}")?;
            for column in 1..columns {
                // Five digits, different in each column and row nearby.
                write!(insert, ",{}", 10_000 + (id * 31 + column * 7) % 90_000)?;
            }
            insert.push(')');
        }
        sqlx::raw_sql(AssertSqlSafe(insert))
            .execute(&mut connection)
            .await?;
    }
    sqlx::raw_sql(AssertSqlSafe(format!("analyze table wide_{columns}")))
        .execute(&mut connection)
        .await?;
    Ok(())
}
