use lookaside_embedded::{Postgres, key_of_files};
use sqlx::PgPool;
use sqlx::migrate::Migrator;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

static MIGRATOR: Migrator = sqlx::migrate!();

async fn migrate(url: &str) -> Result {
    let pool = PgPool::connect(url).await?;
    MIGRATOR.run(&pool).await?;
    Ok(())
}

#[tokio::test]
async fn the_first_note_is_there() -> Result {
    let db = Postgres::builder()
        .template(key_of_files(["migrations/**"])?, |url| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(migrate(url))
        })
        .start()?;

    let pool = PgPool::connect(&db.url()).await?;
    let body: String = sqlx::query_scalar("select body from notes")
        .fetch_one(&pool)
        .await?;
    assert_eq!(body, "hello");
    Ok(())
}
