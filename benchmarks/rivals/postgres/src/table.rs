//! The table that is read.

use anyhow::{Context, Result};
use tokio_postgres::NoTls;

/// Its statement is that of the issue; a table of another size has a name of its own.
fn name(rows: u64) -> String {
    match rows {
        10_000 => "points".into(),
        rows => format!("points_{rows}"),
    }
}

pub fn select(rows: u64) -> String {
    format!("select value from {} where id = $1", name(rows))
}

/// Makes the table where it is not there or not whole.
pub async fn ensure(url: &str, rows: u64) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .context("the server does not let us in")?;
    let connection = tokio::spawn(connection);
    let name = name(rows);
    client
        .batch_execute(&format!(
            "create table if not exists {name} (id bigint primary key, value text not null)"
        ))
        .await?;
    let count: i64 = client
        .query_one(&format!("select count(*) from {name}"), &[])
        .await?
        .get(0);
    if count as u64 != rows {
        client
            .batch_execute(&format!(
                "truncate {name};
                 insert into {name}
                     select id, 'value_' || id from generate_series(1, {rows}) id"
            ))
            .await?;
        client
            .batch_execute(&format!("vacuum analyze {name}"))
            .await?;
    }
    drop(client);
    connection.await??;
    Ok(())
}
