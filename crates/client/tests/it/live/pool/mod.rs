//! Many tasks, few connections.

mod cancel;
mod encoding;
mod hidden_transactions;
mod limits;
mod locks;
mod losses;
pub(crate) mod polled;
mod scripts;
mod sharing;

use std::time::Duration;

use lookaside_client::{Config, Environment, Pool, PoolOptions};
use lookaside_embedded::Postgres;
use lookaside_value::Value;

use super::shown;

fn pool(postgres: &Postgres, options: PoolOptions) -> Pool {
    pool_at(&postgres.url(), options)
}

fn pool_at(url: &str, options: PoolOptions) -> Pool {
    let config = Config::parse(url, &Environment::empty()).unwrap();
    Pool::new(config, options)
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A query whose answer is its question.
async fn echo(pool: &Pool, tag: i64) {
    let answer = pool.query("select $1::int8", &[Value::Int(tag)]).await;
    assert_eq!(shown(&answer), tag.to_string());
}

/// Who answers.
async fn process(pool: &Pool) -> String {
    shown(&pool.query("select pg_backend_pid()", &[]).await)
}

fn signal(signal: &str, process: &str) {
    let mut kill = std::process::Command::new("kill");
    let status = kill.args([signal, process]).status().unwrap();
    assert!(status.success());
}
