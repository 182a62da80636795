//! A PostgreSQL database for each test.

use lookaside_embedded::Postgres;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

pub struct Database {
    pub pool: PgPool,
    /// Dropped after the pool; the database is dropped with it.
    _postgres: Postgres,
}

/// A database that no other test sees, with the tables of `migrations/`. The first call of all
/// processes starts the server and makes a template, and each database is a copy of that.
pub fn database() -> Result<Database> {
    let postgres = Postgres::builder()
        .migrations(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations"))
        // With `cargo nextest`, a process is one test, and a second database would be for nobody.
        .prewarm(if std::env::var_os("NEXTEST").is_some() { 0 } else { 4 })
        .start()?;
    let pool = PgPoolOptions::new()
        .max_connections(4)
        .connect_lazy(&postgres.url())?;
    Ok(Database {
        pool,
        _postgres: postgres,
    })
}
