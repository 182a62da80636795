//! The table that is read, made by the provider itself, for either kind of server.

use std::fmt::Write as _;

use anyhow::{Result, anyhow};
use wp_knowledge::facade::{query, query_row};
use wp_model_core::model::{DataField, Value};

/// Rows of an `INSERT`.
const INSERT_ROWS: u64 = 1000;

/// As rival-postgres names it: a table of another size than the has a name of its own.
fn name(rows: u64) -> String {
    match rows {
        10_000 => "points".into(),
        rows => format!("points_{rows}"),
    }
}

pub fn select(rows: u64) -> String {
    format!("select value from {} where id = :id", name(rows))
}

/// Makes the table where it is not there or not whole.
pub fn ensure(rows: u64) -> Result<()> {
    let name = name(rows);
    run(&format!(
        "create table if not exists {name} (id bigint primary key, value text not null)"
    ))?;
    let count =
        query_row(&format!("select count(*) from {name}")).map_err(|error| anyhow!("{error}"))?;
    if count.first().map(DataField::get_value) == Some(&Value::Int(rows as i64)) {
        return Ok(());
    }
    run(&format!("truncate table {name}"))?;
    for first in (1..=rows).step_by(INSERT_ROWS as usize) {
        let mut insert = format!("insert into {name} values ");
        for id in first..=rows.min(first + INSERT_ROWS - 1) {
            let comma = if id == first { "" } else { "," };
            write!(insert, "{comma}({id},'value_{id}')")?;
        }
        run(&insert)?;
    }
    Ok(())
}

fn run(sql: &str) -> Result<()> {
    query(sql)
        .map(drop)
        .map_err(|error| anyhow!("{error}: {:.60}", sql))
}
